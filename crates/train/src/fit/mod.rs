//! `Fit`: the training loop, for those who do not want to write it, and what it can be told. The loop itself is in `running`.

mod alarm;
#[cfg(feature = "safetensors")]
mod kept_run;
mod report;
mod running;
mod scheduled;
mod state;

use foldback_nn::Module;
use foldback_optim::{Optimizer, ReduceLROnPlateau, Schedule};

use crate::averaged::AveragedModel;
use crate::early_stopping::EarlyStopping;
use crate::error::Result;
use crate::log::Log;
#[cfg(feature = "progress")]
use crate::progress::Progress;
use alarm::Alarms;
pub use report::{BatchReport, EpochReport, History};
use scheduled::{ByNumber, Course, Pace, Scheduled};
pub use state::FitState;

type Evaluate<'a, M> = Box<dyn FnMut(&M) -> Result<f64> + 'a>;
type BeforeStep<'a, M> = Box<dyn FnMut(&M) -> Result<()> + 'a>;
type OnBatch<'a> = Box<dyn FnMut(&BatchReport) -> Result<()> + 'a>;
type OnEpoch<'a, M> = Box<dyn FnMut(&M, &EpochReport) -> Result<()> + 'a>;

/// A training loop: epochs over a loader, with what a run usually needs around the steps.
///
/// A step is what one writes by hand: gradients are forgotten, the loss is computed in training mode and taken backward,
/// [`Fit::before_step`] runs, and the optimiser takes its step. A loss that is not finite ends the run with an error before
/// the step, and says which operation it came from.
///
/// ```
/// use foldback_data::{DataLoader, TensorDataset};
/// use foldback_nn::{Linear, loss};
/// use foldback_optim::Adam;
/// use foldback_nn::Module;
/// use foldback_tensor::{Tensor, manual_seed};
/// use foldback_train::Fit;
/// manual_seed(0);
/// let x = Tensor::randn([64, 3]);
/// let y = x.sum(1)?.unsqueeze(1)?;
/// let loader = DataLoader::new(TensorDataset::new([x.clone(), y.clone()]), 16).shuffle(true);
/// let mut model = Linear::new(3, 1);
/// let adam = Adam::new(model.parameters(), 0.05);
///
/// let history = Fit::new(&mut model, &adam)
///     .epochs(30)
///     .minimize("error", |model| loss::mse_loss(model.forward(&x)?, &y)?.item())
///     .early_stopping(5)
///     .keep_best(true)
///     .run(&loader, |model, [x, y]| loss::mse_loss(model.forward(x)?, y))?;
/// assert!(history.epochs.last().unwrap().loss < 0.1);
/// # Ok::<(), foldback_train::Error>(())
/// ```
pub struct Fit<'a, M, O: ?Sized> {
    model: &'a mut M,
    optimizer: &'a O,
    epochs: usize,
    /// how many batches there are for a step
    accumulate: usize,
    evaluate: Option<(String, Evaluate<'a, M>)>,
    /// what says which epoch is the best; without patience it never stops
    stopping: EarlyStopping,
    keep_best: bool,
    alarms: Alarms,
    /// whether layers have generators of their own, as the epoch began
    has_generators: bool,
    before_step: Option<BeforeStep<'a, M>>,
    on_batch: Option<OnBatch<'a>>,
    on_epoch: Option<OnEpoch<'a, M>>,
    logs: Vec<Box<dyn Log + 'a>>,
    schedule: Option<Scheduled<'a, O>>,
    average: Option<&'a AveragedModel<M>>,
    state: Option<&'a FitState>,
    #[cfg(feature = "safetensors")]
    keeping: Option<kept_run::Keeping>,
    #[cfg(feature = "progress")]
    progress: bool,
    #[cfg(feature = "progress")]
    bar: Option<Progress>,
}

impl<'a, M: Module, O: Optimizer + ?Sized> Fit<'a, M, O> {
    /// A loop of one epoch, which does nothing but train.
    pub fn new(model: &'a mut M, optimizer: &'a O) -> Fit<'a, M, O> {
        Fit {
            model,
            optimizer,
            epochs: 1,
            accumulate: 1,
            evaluate: None,
            stopping: EarlyStopping::new(usize::MAX),
            keep_best: false,
            alarms: Alarms::default(),
            has_generators: false,
            before_step: None,
            on_batch: None,
            on_epoch: None,
            logs: Vec::new(),
            schedule: None,
            average: None,
            state: None,
            #[cfg(feature = "safetensors")]
            keeping: None,
            #[cfg(feature = "progress")]
            progress: false,
            #[cfg(feature = "progress")]
            bar: None,
        }
    }

    /// How many epochs there are at most. The default is 1.
    #[must_use]
    pub fn epochs(mut self, epochs: usize) -> Self {
        self.epochs = epochs;
        self
    }

    /// How many batches there are for each step of the optimiser: their gradients are added up, each of the batch's loss divided by
    /// their number, so that batches of equal size make a step as one large batch would. The last ones of an epoch may be
    /// fewer. The default is 1, and 0 is as 1.
    ///
    /// ```
    /// use foldback_data::{DataLoader, TensorDataset};
    /// use foldback_graph::RequiresGrad;
    /// use foldback_nn::{Linear, Module, loss};
    /// use foldback_optim::SGD;
    /// use foldback_tensor::tensor;
    /// use foldback_train::Fit;
    /// let data = TensorDataset::new([tensor![[1.0], [2.0], [3.0], [4.0]], tensor![[0.0], [1.0], [0.0], [1.0]]]);
    /// let trained = |batch, accumulate| {
    ///     let mut model = Linear::from_parameters(tensor![[0.5]].requires_grad(), None)?;
    ///     let sgd = SGD::new(model.parameters(), 0.25);
    ///     Fit::new(&mut model, &sgd)
    ///         .accumulate(accumulate)
    ///         .run(&DataLoader::new(data.clone(), batch), |m, [x, y]| loss::mse_loss(m.forward(x)?, y))?;
    ///     Ok::<_, foldback_train::Error>(model.state_dict())
    /// };
    /// assert_eq!(trained(4, 1)?, trained(2, 2)?);
    /// # Ok::<(), foldback_train::Error>(())
    /// ```
    #[must_use]
    pub fn accumulate(mut self, batches: usize) -> Self {
        self.accumulate = batches.max(1);
        self
    }

    /// Measures the model after each epoch, in evaluation mode and without recording; smaller is better. The last of `minimize` and
    /// `maximize` holds. Without one, the best epoch is that of the smallest training loss. NaN is never best: it is what to return for an
    /// epoch that is not measured.
    #[must_use]
    pub fn minimize(self, name: &str, evaluate: impl FnMut(&M) -> Result<f64> + 'a) -> Self {
        self.measure(name, Box::new(evaluate), false)
    }

    /// [`Fit::minimize`] of a measure of which more is better.
    #[must_use]
    pub fn maximize(self, name: &str, evaluate: impl FnMut(&M) -> Result<f64> + 'a) -> Self {
        self.measure(name, Box::new(evaluate), true)
    }

    fn measure(mut self, name: &str, evaluate: Evaluate<'a, M>, maximize: bool) -> Self {
        self.evaluate = Some((name.to_owned(), evaluate));
        self.stopping = self.stopping.maximize(maximize);
        self
    }

    /// Stops after so many epochs in a row that were no better than the best one before; see [`EarlyStopping`].
    #[must_use]
    pub fn early_stopping(mut self, patience: usize) -> Self {
        self.stopping = self.stopping.patience(patience);
        self
    }

    /// How much better an epoch has to be to count. The default is 0.
    #[must_use]
    pub fn min_delta(mut self, min_delta: f64) -> Self {
        self.stopping = self.stopping.min_delta(min_delta);
        self
    }

    /// Whether the model is that of the best epoch in the end, and not that of the last one. The default is false.
    #[must_use]
    pub fn keep_best(mut self, keep_best: bool) -> Self {
        self.keep_best = keep_best;
        self
    }

    /// Measures the norm of all gradients together before each step, and ends the run with an error where it is above the limit or not
    /// finite; an infinite limit is one for gradients that are not finite alone.
    #[must_use]
    pub fn gradient_limit(mut self, limit: f64) -> Self {
        self.alarms.limit = Some(limit);
        self
    }

    /// Runs between the backward pass and each step: the place to clip gradients.
    #[must_use]
    pub fn before_step(mut self, f: impl FnMut(&M) -> Result<()> + 'a) -> Self {
        self.before_step = Some(Box::new(f));
        self
    }

    /// Runs after each step.
    #[must_use]
    pub fn on_batch(mut self, f: impl FnMut(&BatchReport) -> Result<()> + 'a) -> Self {
        self.on_batch = Some(Box::new(f));
        self
    }

    /// Changes the learning rates after each epoch. The last schedule that is given holds, however it goes on.
    #[must_use]
    pub fn schedule(self, schedule: impl Schedule + 'a) -> Self
    where
        O: Sized,
    {
        self.scheduled(Box::new(ByNumber(schedule)), Pace::Epoch)
    }

    /// Changes the learning rates after each step of the optimiser: for a warm-up, or one cycle.
    ///
    /// ```
    /// use foldback_data::{DataLoader, TensorDataset};
    /// use foldback_nn::{Linear, Module, loss};
    /// use foldback_optim::{LinearLR, Optimizer, SGD};
    /// use foldback_tensor::Tensor;
    /// use foldback_train::Fit;
    /// let loader = DataLoader::new(TensorDataset::new([Tensor::randn([8, 2]), Tensor::randn([8, 1])]), 2);
    /// let mut model = Linear::new(2, 1);
    /// let sgd = SGD::new(model.parameters(), 0.1);
    /// let warm_up = LinearLR::new(&sgd).start_factor(0.5).total_iters(4);
    /// Fit::new(&mut model, &sgd)
    ///     .schedule_by_batch(warm_up)
    ///     .run(&loader, |m, [x, y]| loss::mse_loss(m.forward(x)?, y))?;
    /// assert_eq!(sgd.lr(), 0.1); // after four batches
    /// # Ok::<(), foldback_train::Error>(())
    /// ```
    #[must_use]
    pub fn schedule_by_batch(self, schedule: impl Schedule + 'a) -> Self
    where
        O: Sized,
    {
        self.scheduled(Box::new(ByNumber(schedule)), Pace::Batch)
    }

    /// Lowers the learning rates where the measure of [`Fit::minimize`] or [`Fit::maximize`] stands still after an epoch, or without
    /// one the training loss. The schedule's mode is `Max` for `maximize`, else `Min`; another is refused by [`Fit::run`].
    #[must_use]
    pub fn schedule_by_value(self, schedule: ReduceLROnPlateau) -> Self
    where
        O: Sized,
    {
        self.scheduled(Box::new(schedule), Pace::Epoch)
    }

    fn scheduled(mut self, course: Box<dyn Course + 'a>, pace: Pace) -> Self
    where
        O: Sized,
    {
        self.schedule = Some(Scheduled { course, pace, shown: |optimizer| optimizer });
        self
    }

    /// Takes the weights into an average after each step of the optimiser, and stands in the checkpoint with its weights, buffers and
    /// count of updates. Whether it forgets, and what it does with buffers, is the program's. [`Fit::keep_best`] concerns the
    /// model alone. The last average that is given holds.
    ///
    /// What is measured of it is measured in its own mode, which a run never changes: `eval` comes before.
    ///
    /// ```
    /// use foldback_data::{DataLoader, TensorDataset};
    /// use foldback_nn::{Linear, Module, loss};
    /// use foldback_optim::SGD;
    /// use foldback_tensor::Tensor;
    /// use foldback_train::{AveragedModel, Fit};
    /// let (x, y) = (Tensor::randn([8, 2]), Tensor::randn([8, 1]));
    /// let loader = DataLoader::new(TensorDataset::new([x.clone(), y.clone()]), 2);
    /// let mut model = Linear::new(2, 1);
    /// let sgd = SGD::new(model.parameters(), 0.1);
    /// let mut averaged = AveragedModel::ema(&model, 0.9);
    /// averaged.eval();
    /// Fit::new(&mut model, &sgd)
    ///     .epochs(3)
    ///     .average(&averaged)
    ///     .minimize("error", |_| loss::mse_loss(averaged.module.forward(&x)?, &y)?.item())
    ///     .run(&loader, |m, [x, y]| loss::mse_loss(m.forward(x)?, y))?;
    /// assert_eq!(averaged.num_averaged(), 12);
    /// # Ok::<(), foldback_train::Error>(())
    /// ```
    #[must_use]
    pub fn average(mut self, averaged: &'a AveragedModel<M>) -> Self {
        self.average = Some(averaged);
        self
    }

    /// Runs after each epoch, behind the schedule: the place for what a program does besides. [`EpochReport::stop`] ends the run.
    #[must_use]
    pub fn on_epoch(mut self, f: impl FnMut(&M, &EpochReport) -> Result<()> + 'a) -> Self {
        self.on_epoch = Some(Box::new(f));
        self
    }

    /// Writes each epoch to a log; several are possible.
    #[must_use]
    pub fn log(mut self, log: impl Log + 'a) -> Self {
        self.logs.push(Box::new(log));
        self
    }

    /// Begins where this says that the run stands, and keeps it up to date: for checkpoints of one's own.
    #[must_use]
    pub fn state(mut self, state: &'a FitState) -> Self {
        self.state = Some(state);
        self
    }

    /// Whether the state of the run is shown on standard error, see [`Progress`]. The default is false.
    #[cfg(feature = "progress")]
    #[must_use]
    pub fn progress(mut self, progress: bool) -> Self {
        self.progress = progress;
        self
    }
}

#[cfg(test)]
mod resume_tests;
#[cfg(test)]
mod tests;
