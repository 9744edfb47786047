//! A file that a run goes on from.

use std::path::PathBuf;

use foldback_data::{Collate, DataLoader, Dataset};
use foldback_nn::Module;
use foldback_optim::Optimizer;
use foldback_tensor::{Here, StateDict, get_rng_state, set_rng_state};

use super::scheduled::Scheduled;
use super::{Fit, FitState};
use crate::checkpoint::{ByModule, Checkpoint, Stateful};
use crate::error::Result;

/// Where the checkpoint of a run is.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    resume: bool,
}

impl<'a, M: Module, O: Optimizer + ?Sized> Fit<'a, M, O> {
    /// Writes a [`Checkpoint`] to a file after each epoch, behind `on_epoch`, which may be stopped at any moment. With `resume`
    /// the run goes on from the file, if it is there, and ends with the same bits as one that was never stopped: weights and
    /// buffers, optimiser, schedule, loader, generators of random numbers, and what [`FitState`] holds come from it. Whatever else a
    /// program changes between epochs has to follow from these, or from the number of the epoch.
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
        self.file = Some(File { path: path.into(), resume });
        self
    }

    /// Goes on from the checkpoint, if it is asked for and there.
    pub(super) fn find_checkpoint<D: Dataset<Item: Collate>>(
        &mut self,
        loader: &DataLoader<D>,
        state: &FitState,
    ) -> Result<()> {
        let Some(File { path, .. }) = self.file.as_ref().filter(|file| file.resume && file.path.exists())
        else {
            return Ok(());
        };
        let run = Checkpoint::open(path).nowhere()?;
        let (mut taken, mut rng) = (FitState::new(), get_rng_state());
        run.get("fit", &mut taken).nowhere()?;
        run.get("rng", &mut rng).nowhere()?;
        self.expect_kept(&taken)?;
        // Each of the others is all or nothing, and those before one that is refused go back.
        let model = <M as Stateful<ByModule>>::state(self.model);
        let (optimizer, position) = (self.optimizer.state_dict(), loader.state_dict());
        let schedule = self.schedule.as_ref().map(|schedule| schedule.course.state());
        let mut loader_has_moved = false;
        if let Err(e) = self.load_checkpoint(&run, loader, taken.epochs(), &mut loader_has_moved) {
            <M as Stateful<ByModule>>::load_state(self.model, &model)?;
            if let (Some(own), Some(schedule)) = (&mut self.schedule, schedule) {
                own.course.load(&schedule)?;
            }
            self.optimizer.load_state_dict(&optimizer)?;
            if loader_has_moved {
                loader.load_state_dict(&position)?;
            }
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
        epochs: usize,
        loader_has_moved: &mut bool,
    ) -> Result<()> {
        let (mut optimizer, mut position) = (StateDict::new(), StateDict::new());
        run.get("optimizer", &mut optimizer).nowhere()?;
        run.get("loader", &mut position).nowhere()?;
        run.get("model", self.model).nowhere()?;
        self.optimizer.load_state_dict(&optimizer).nowhere()?;
        // It gives the optimiser its rates, so it comes behind that.
        if let Some(schedule) = &mut self.schedule {
            run.get("schedule", schedule).nowhere()?;
        }
        loader.load_state_dict(&position).nowhere()?;
        *loader_has_moved = true;
        // The last, as rows that are gone do not come back.
        self.logs.iter_mut().try_for_each(|log| log.go_on_at(epochs).nowhere())
    }

    pub(super) fn write_checkpoint<D: Dataset<Item: Collate>>(
        &self,
        loader: &DataLoader<D>,
        state: &FitState,
    ) -> Result<()> {
        let Some(File { path, .. }) = &self.file else { return Ok(()) };
        let mut run = Checkpoint::new()
            .put("fit", state)
            .put("rng", &get_rng_state())
            .put("optimizer", &self.optimizer.state_dict())
            .put("loader", &loader.state_dict())
            .put("model", &*self.model);
        if let Some(schedule) = &self.schedule {
            run = run.put("schedule", schedule);
        }
        run.save(path)
    }
}

impl<O: ?Sized> Stateful<()> for Scheduled<'_, O> {
    fn kind(&self) -> &'static str {
        "schedule"
    }

    fn state(&self) -> StateDict {
        self.course.state()
    }

    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        self.course.load(state)
    }
}
