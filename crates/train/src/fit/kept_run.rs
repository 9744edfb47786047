//! A file that a run goes on from.

use std::path::{Path, PathBuf};

use foldback_data::{Collate, DataLoader, Dataset};
use foldback_nn::{FileFacts, Module};
use foldback_optim::Optimizer;
use foldback_tensor::{Error, Here, Kind, StateDict, get_rng_state, refuse, set_rng_state};

use super::scheduled::{Pace, Scheduled};
use super::{EpochReport, Fit, FitState};
use crate::checkpoint::{ByModule, ByOptimizer, Checkpoint, Checkpoints, RAW, Stateful};
use crate::error::{Result, check};

/// Where the checkpoints of a run are, and whether it goes on from the last one.
#[derive(Debug)]
pub(super) struct Keeping {
    keeper: Keeper,
    resume: bool,
}

#[derive(Debug)]
enum Keeper {
    File(PathBuf),
    Folder(Checkpoints),
}

impl Keeper {
    /// The file of the last checkpoint, if there is one.
    fn last(&self) -> Result<Option<PathBuf>> {
        match self {
            Keeper::File(path) => Ok(path.exists().then(|| path.clone())),
            Keeper::Folder(folder) => Ok(folder.last()?.map(|saved| saved.path)),
        }
    }

    /// What is said of a last checkpoint that is damaged, where there is one before it.
    #[cold]
    fn refused<T>(&self, error: Error) -> Result<T> {
        let before = match self {
            Keeper::Folder(folder) if error.kind() == Kind::File => folder.list()?.into_iter().nth_back(1),
            _ => None,
        };
        let Some(before) = before else { return Err(error) };
        let (error, path) = (error.with_location(None), before.path.display());
        let error = format!("{error}; or delete it, and the run goes on from {path}");
        refuse(FileFacts::Contents {
            op: "fit",
            place: "the last checkpoint".into(),
            kind: Kind::File,
            error,
        })
    }
}

impl<'a, M: Module, O: Optimizer + ?Sized> Fit<'a, M, O> {
    /// Writes a [`Checkpoint`] to a file after each epoch, behind `on_epoch`, which may be stopped at any moment. With `resume`
    /// the run goes on from the file, if it is there, and ends with the same bits as one that was never stopped: weights and
    /// buffers, optimiser, schedule, average, loader, generators of random numbers, and what [`FitState`] holds come from it. Whatever else a
    /// program changes between epochs has to follow from these, or from the number of the epoch. A file of a run with a schedule or an
    /// average is refused by one without, and one of a run without by one with it; so is one with a schedule of another kind
    /// or pace.
    ///
    /// Behind the feature `safetensors`.
    ///
    /// ```
    /// use foldback_data::{DataLoader, TensorDataset};
    /// use foldback_nn::{Linear, Module, loss};
    /// use foldback_optim::Adam;
    /// use foldback_tensor::{Tensor, tensor};
    /// use foldback_train::Fit;
    /// # let path = std::env::temp_dir().join(format!("foldback-fit-{}.ckpt", std::process::id()));
    /// let loader = DataLoader::new(TensorDataset::new([Tensor::randn([8, 2]), Tensor::randn([8, 1])]), 4).shuffle(true);
    /// let mut model = Linear::new(2, 1);
    /// let adam = Adam::new(model.parameters(), 0.1);
    /// for epochs in [2, 5] { // as if the program had been stopped after two
    ///     let history = Fit::new(&mut model, &adam)
    ///         .epochs(epochs)
    ///         .checkpoint(&path, true)
    ///         .run(&loader, |m, [x, y]| loss::mse_loss(m.forward(x)?, y))?;
    ///     assert_eq!(history.epochs.len(), epochs);
    /// }
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), foldback_train::Error>(())
    /// ```
    #[must_use]
    pub fn checkpoint(mut self, path: impl Into<PathBuf>, resume: bool) -> Self {
        self.keeping = Some(Keeping { keeper: Keeper::File(path.into()), resume });
        self
    }

    /// [`Fit::checkpoint`] in a folder, a file for each epoch, of which the last and the best are kept: by the value of
    /// `minimize` or `maximize`, or without one by the training loss.
    ///
    /// Behind the feature `safetensors`.
    ///
    /// ```
    /// use foldback_data::{DataLoader, TensorDataset};
    /// use foldback_nn::{Linear, Module, loss};
    /// use foldback_optim::Adam;
    /// use foldback_tensor::Tensor;
    /// use foldback_train::{Checkpoints, Fit};
    /// # let folder = std::env::temp_dir().join(format!("foldback-fits-{}", std::process::id()));
    /// let loader = DataLoader::new(TensorDataset::new([Tensor::randn([8, 2]), Tensor::randn([8, 1])]), 4);
    /// let mut model = Linear::new(2, 1);
    /// let adam = Adam::new(model.parameters(), 0.1);
    /// let kept = Checkpoints::in_folder(&folder).keep_last(2).keep_best(1);
    /// let mut accuracies = [0.9, 0.5, 0.6, 0.7].into_iter();
    /// Fit::new(&mut model, &adam)
    ///     .epochs(4)
    ///     .maximize("accuracy", |_| Ok(accuracies.next().unwrap()))
    ///     .checkpoints(kept.clone(), true)
    ///     .run(&loader, |m, [x, y]| loss::mse_loss(m.forward(x)?, y))?;
    /// let steps: Vec<usize> = kept.list()?.iter().map(|saved| saved.step).collect();
    /// assert_eq!(steps, [1, 3, 4]);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), foldback_train::Error>(())
    /// ```
    #[must_use]
    pub fn checkpoints(mut self, folder: Checkpoints, resume: bool) -> Self {
        self.keeping = Some(Keeping { keeper: Keeper::Folder(folder), resume });
        self
    }

    /// Goes on from the checkpoint, if it is asked for and there.
    pub(super) fn find_checkpoint<D: Dataset<Item: Collate>>(
        &mut self,
        loader: &DataLoader<D>,
        state: &FitState,
    ) -> Result<()> {
        let Some(keeping) = self.keeping.as_ref().filter(|keeping| keeping.resume) else { return Ok(()) };
        let Some(path) = keeping.keeper.last().nowhere()? else { return Ok(()) };
        let run = Checkpoint::open(&path).or_else(|e| keeping.keeper.refused(e)).nowhere()?;
        self.expect_all_given(&run, &path)?;
        let (mut taken, mut rng) = (FitState::new(), get_rng_state());
        run.get("fit", &mut taken).nowhere()?;
        run.get("rng", &mut rng).nowhere()?;
        self.expect_kept(&taken)?;
        // Each of the others is all or nothing, and those before one that is refused go back. So does this thread's generator,
        // by which a loader that shuffles seeds its state.
        let before = get_rng_state();
        let model = <M as Stateful<ByModule>>::state(self.model);
        let (optimizer, position) = (self.optimizer.state_dict(), loader.state_dict());
        let schedule = self.schedule.as_ref().map(|schedule| schedule.course.state());
        let average = self.average.map(Stateful::<ByModule>::state);
        let mut loader_has_moved = false;
        if let Err(e) = self.load_checkpoint(&run, loader, &taken, &mut loader_has_moved) {
            <M as Stateful<ByModule>>::load_state(self.model, &model)?;
            if let (Some(own), Some(schedule)) = (&mut self.schedule, schedule) {
                own.course.load(&schedule)?;
            }
            self.optimizer.load_state_dict(&optimizer)?;
            if let (Some(own), Some(average)) = (self.average, average) {
                own.restore(&average)?;
            }
            if loader_has_moved {
                loader.load_state_dict(&position)?;
            }
            set_rng_state(before);
            return Err(e);
        }
        state.take(taken);
        set_rng_state(rng);
        Ok(())
    }

    fn load_checkpoint<D: Dataset<Item: Collate>>(
        &mut self,
        run: &Checkpoint,
        loader: &DataLoader<D>,
        taken: &FitState,
        loader_has_moved: &mut bool,
    ) -> Result<()> {
        let get =
            |name, load: &mut dyn FnMut(&StateDict) -> Result<()>| run.get_entry(name, RAW, load).nowhere();
        run.get("model", self.model).nowhere()?;
        get("optimizer", &mut |state| self.optimizer.load_state_dict(state))?;
        // It gives the optimiser its rates, so it comes behind that.
        if let Some(schedule) = &mut self.schedule {
            run.get(schedule.pace.entry(), schedule).nowhere()?;
        }
        if let Some(own) = self.average {
            get("average", &mut |state| own.restore(state))?;
        }
        get("loader", &mut |state| loader.load_state_dict(state))?;
        *loader_has_moved = true;
        // The last, as rows that are gone do not come back. Where no epoch is left, none come again: those behind are another run's.
        let mut stopping = self.stopping.clone();
        stopping.load_state_dict(&taken.stopping()).nowhere()?;
        if taken.epochs() >= self.epochs || stopping.is_over() {
            return Ok(());
        }
        self.take_rows_back(taken.epochs())
    }

    /// Rows that were written behind the checkpoint come again. No log loses any if one of them refuses.
    fn take_rows_back(&mut self, epochs: usize) -> Result<()> {
        self.logs.iter().try_for_each(|log| log.check_go_on_at(epochs).nowhere())?;
        self.logs.iter_mut().try_for_each(|log| log.go_on_at(epochs).nowhere())
    }

    /// What has gone along with the run and is not given now, or has not and is, would end it with other bits.
    fn expect_all_given(&self, run: &Checkpoint, path: &Path) -> Result<()> {
        let expect = |name: &'static str, is_given: bool, how: &str| {
            let path = path.display();
            let (found, expected) = match is_given {
                true => ("one", format!("none, as {path} is of a run without: leave it out")),
                false => ("none", format!("the one that {path} has: give it by {how}")),
            };
            let expected = format!("{expected}, or begin a run with another file");
            check(is_given == run.has(name), "fit", name, found, expected)
        };
        let pace = self.schedule.as_ref().map(|schedule| schedule.pace);
        expect(Pace::Epoch.entry(), pace == Some(Pace::Epoch), "schedule or schedule_by_value")?;
        expect(Pace::Batch.entry(), pace == Some(Pace::Batch), "schedule_by_batch")?;
        expect("average", self.average.is_some(), "average")
    }

    pub(super) fn write_checkpoint<D: Dataset<Item: Collate>>(
        &self,
        loader: &DataLoader<D>,
        state: &FitState,
        report: &EpochReport,
    ) -> Result<()> {
        let Some(keeping) = &self.keeping else { return Ok(()) };
        let mut run = Checkpoint::new()
            .put("fit", state)
            .put("rng", &get_rng_state())
            .put::<ByOptimizer>("optimizer", self.optimizer)
            .put("loader", loader)
            .put::<ByModule>("model", &*self.model);
        if let Some(schedule) = &self.schedule {
            run = run.put(schedule.pace.entry(), schedule);
        }
        if let Some(averaged) = self.average {
            run = run.put::<ByModule>("average", averaged);
        }
        match &keeping.keeper {
            Keeper::File(path) => run.save(path).nowhere(),
            Keeper::Folder(folder) => {
                let (step, value) = (report.epoch + 1, report.value.unwrap_or(report.loss));
                let folder = folder.clone().maximize(self.stopping.maximizes());
                folder.save_with(step, value, &run).nowhere().map(drop)
            }
        }
    }
}

impl<O: ?Sized> Stateful<()> for Scheduled<'_, O> {
    fn kind(&self) -> &'static str {
        self.course.name()
    }

    fn state(&self) -> StateDict {
        self.course.state()
    }

    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        self.course.load(state)
    }
}
