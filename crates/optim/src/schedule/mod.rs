//! Schedules: they change the learning rates of an optimiser from step to step.
//!
//! Note [Schedules]
//! A schedule is made of an optimiser and changes its rates at once, as PyTorch's do; it holds a handle on the settings, so
//! that a setter behind `new` can begin again. Each step computes the new rates from the present ones (PyTorch's chainable
//! forms), so that several schedules on one optimiser multiply, and a rate that a program has set stays in force. The
//! rates that a course starts from are noted in the optimiser by its first schedule, for all.

mod chained;
mod cosine;
mod course;
mod cyclic;
mod lambda;
mod one_cycle;
mod plateau;
mod simple;

pub use chained::{ChainedScheduler, SequentialLR};
pub use cosine::{CosineAnnealingLR, CosineAnnealingWarmRestarts};
pub use course::PerGroup;
pub use cyclic::{CyclicLR, CyclicMode};
pub use lambda::{LambdaLR, MultiplicativeLR};
pub use one_cycle::{AnnealStrategy, OneCycleLR};
pub use plateau::{PlateauMode, ReduceLROnPlateau, ThresholdMode};
pub use simple::{ConstantLR, ExponentialLR, LinearLR, MultiStepLR, PolynomialLR, StepLR};

use foldback_tensor::StateDict;

use crate::error::Result;
use crate::{Optimizer, Settings};

/// What changes the learning rates of an optimiser, step by step: once per epoch, or once per batch, as the program calls it
/// behind the steps of the optimiser.
///
/// The trait is for the schedules of this crate; [`LambdaLR`] takes any function.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::{Optimizer, SGD, Schedule, StepLR};
/// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 1.0);
/// let mut schedule = StepLR::new(&sgd, 2).gamma(0.5);
/// let mut rates = vec![];
/// for _ in 0..5 {
///     rates.push(sgd.lr());
///     schedule.step(&sgd)?;
/// }
/// assert_eq!(rates, [1.0, 1.0, 0.5, 0.5, 0.25]);
/// # Ok::<(), foldback_optim::Error>(())
/// ```
pub trait Schedule: Send + Sync {
    /// Goes on by one step, and changes the rates of the optimiser: the one that the schedule was made of.
    ///
    /// # Errors
    /// `Refused` if it is another optimiser, the schedule has ended (`OneCycleLR`), or there is no momentum to cycle;
    /// `Parameter` if a rate is not finite. Nothing is changed then.
    #[track_caller]
    fn step(&mut self, optimizer: &dyn Optimizer) -> Result<()>;

    /// Where it stands, and the present rates of its optimiser.
    fn state_dict(&self) -> StateDict;

    /// Takes a saved state over, of a schedule with the same arguments, and gives the optimiser the rates that it had then.
    ///
    /// # Errors
    /// `State` if something is missing, left over, or of another form. Nothing is changed then.
    #[track_caller]
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()>;

    /// Which schedule it is.
    #[doc(hidden)]
    fn name(&self) -> &'static str;

    /// The first rates.
    #[doc(hidden)]
    fn begin(&mut self) -> Result<()>;

    /// A step, whoever asked for it.
    #[doc(hidden)]
    fn advance(&mut self) -> Result<()>;

    /// Its first rates once more, as a part of a sequence whose turn has come.
    #[doc(hidden)]
    fn restart(&mut self) -> Result<()>;

    /// Goes back by a step, without the rates.
    #[doc(hidden)]
    fn undo(&mut self);

    /// The settings that it changes.
    #[doc(hidden)]
    fn scheduled(&self) -> &Settings;
}
