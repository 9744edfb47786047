//! Optimisers: they write parameters by their gradients.
//!
//! ```
//! use foldback_graph::RequiresGrad;
//! use foldback_optim::{Optimizer, SGD};
//! use foldback_tensor::tensor;
//! let w = tensor![3.0].requires_grad();
//! let sgd = SGD::new([&w], 0.25);
//! for _ in 0..20 {
//!     sgd.zero_grad();
//!     w.square().backward()?;
//!     sgd.step()?;
//! }
//! assert!(w.value().item_as::<f32>()?.abs() < 1e-5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Note [A step]
//! A step first checks the settings, and every parameter and its gradient, so that it is taken as a whole or not at all.
//! Parameters of a group that stand alike (as many steps, the same tensors and numbers kept) share one formula, whose factors
//! are computed once. Then all parameters and their states (momentum, moments) are read and written in one fused pass, in
//! place, and threads share the elements of all of them; parameters that have no gradient are passed over, and so is their
//! state. A parameter that another thread is writing just then, and those behind it, are stepped after it; only memory that runs out
//! between the two leaves a step half taken.
//! Settings and states stand in cells that all clones of the optimiser share. Steps of one optimiser in several threads are
//! taken one after the other.

#![forbid(unsafe_code)]

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod adamw;
mod asgd;
mod clip;
mod error;
mod group;
mod lbfgs;
mod line_search;
mod lion;
mod nadam;
mod optimizer;
mod radam;
mod rmsprop;
mod rprop;
mod saved;
mod schedule;
mod seen;
mod setting;
mod settings;
mod sgd;
mod shared;
mod step;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::Adam;
pub use adamax::Adamax;
pub use adamw::AdamW;
pub use asgd::ASGD;
pub use clip::{clip_grad_norm_, clip_grad_norm_with_, clip_grad_value_};
pub use error::OptimFacts;
pub use foldback_tensor::{Error, Facts, Kind, Result};
pub use group::{AsParameter, Group, Members};
pub use lbfgs::LBFGS;
pub use lion::Lion;
pub use nadam::NAdam;
pub use radam::RAdam;
pub use rmsprop::RMSprop;
pub use rprop::Rprop;
pub use schedule::{
    AnnealStrategy, ChainedScheduler, ConstantLR, CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR,
    CyclicMode, ExponentialLR, LambdaLR, LinearLR, MultiStepLR, MultiplicativeLR, OneCycleLR, PerGroup,
    PlateauMode, PolynomialLR, ReduceLROnPlateau, Schedule, SequentialLR, StepLR, ThresholdMode,
};
pub use settings::Settings;
pub use sgd::SGD;

use foldback_graph::Var;
use foldback_tensor::StateDict;

/// Something that improves parameters step by step.
///
/// All of it goes by a shared reference, and a clone of an optimiser is a handle on the same one, as clones of a parameter
/// are. So a closure may hold an optimiser whose learning rate is changed outside.
///
/// The other settings are methods of each optimiser that follow its `new`. The trait is for the optimisers of this crate.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::{Adam, Optimizer, Result};
/// use foldback_tensor::tensor;
/// let w = tensor![1.0].requires_grad();
/// let adam = Adam::new([&w], 0.1);
/// let step = || -> Result<()> {
///     adam.zero_grad();
///     w.square().backward()?;
///     adam.step()
/// };
/// for _ in 0..100 {
///     step()?;
///     adam.set_lr(adam.lr() * 0.95)?;
/// }
/// assert!(w.value().item_as::<f32>()?.abs() < 0.1);
/// assert!(adam.set_lr(-1.0).is_err());
/// # Ok::<(), foldback_optim::Error>(())
/// ```
pub trait Optimizer: Send + Sync {
    /// Changes the parameters by their gradients. Those without a gradient stay as they are.
    ///
    /// # Errors
    /// `Gradient` if a gradient does not fit its parameter; `Nesterov`; also if the step comes from a function that is updating a
    /// parameter. Nothing is changed then.
    #[track_caller]
    fn step(&self) -> Result<()>;

    /// The parameters, in the order in which they were given.
    fn parameters(&self) -> &[Var];

    /// The settings, group by group: a handle, which also changes them.
    fn settings(&self) -> &Settings;

    /// Everything that the next steps depend on, except the parameters: settings by group (`groups.0.lr`), and what is kept
    /// for each parameter (`state.0.exp_avg`), under PyTorch's names. Later steps leave it as it is.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Optimizer, SGD};
    /// use foldback_tensor::tensor;
    /// let w = tensor![1.0].requires_grad();
    /// let sgd = SGD::new([&w], 0.1).momentum(0.9);
    /// w.square().backward()?;
    /// sgd.step()?;
    /// let again = SGD::new([&w], 1.0);
    /// again.load_state_dict(&sgd.state_dict())?; // goes on where `sgd` was
    /// assert_eq!(again.lr(), 0.1);
    /// assert_eq!(again.state_dict().get("state.0.momentum_buffer"), Some(&tensor![2.0]));
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    fn state_dict(&self) -> StateDict;

    /// Takes a saved state over, settings included: an optimiser of the same kind, with the same groups of as many
    /// parameters, then goes on as the one that was saved, bit for bit.
    ///
    /// # Errors
    /// `State` if something is missing, left over, outside its domain, or of another shape or type. Nothing is changed then.
    #[track_caller]
    fn load_state_dict(&self, state: &StateDict) -> Result<()>;

    /// The length of steps: of the first group, where there are several.
    fn lr(&self) -> f64 {
        self.lrs()[0]
    }

    /// The length of steps in each group.
    fn lrs(&self) -> Vec<f64> {
        self.settings().get("lr").expect("every optimiser has a learning rate")
    }

    /// Changes the length of steps from now on, in all groups.
    ///
    /// # Errors
    /// `Parameter` if it is negative or not finite.
    #[track_caller]
    fn set_lr(&self, lr: f64) -> Result<()> {
        self.set_lrs(&vec![lr; self.settings().num_groups()])
    }

    /// Changes the length of steps from now on, group by group.
    ///
    /// # Errors
    /// `Parameter` if one is negative or not finite; `Groups` if there are more or fewer than groups.
    #[track_caller]
    fn set_lrs(&self, lrs: &[f64]) -> Result<()> {
        self.settings().set("lr", lrs)
    }

    /// Forgets the gradients of the parameters, so that the next backward pass starts afresh.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(Var::zero_grad);
    }
}

#[cfg(test)]
mod tests {
    mod groups;
    mod schedules;

    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// The text that a function panics with.
    pub(crate) fn panic_text<T>(f: impl FnOnce() -> T) -> String {
        let Err(text) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it did not panic") };
        *text.downcast().expect("panics with a formatted text")
    }
}
