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
//! A step first checks the settings, and every parameter and its gradient, so that it is taken as a whole or not at all. Then each
//! parameter and its state (momentum, moments) are read and written in one fused pass, in place; parameters that have no
//! gradient are passed over, and so is their state. Settings and states stand in cells that all clones of the optimiser
//! share. Steps of one optimiser in several threads are taken one after the other.

#![forbid(unsafe_code)]

mod adam;
mod error;
mod sgd;
mod shared;

pub use adam::{Adam, AdamW};
pub use error::OptimFacts;
pub use foldback_tensor::{Error, Facts, Kind, Result};
pub use sgd::SGD;

use foldback_graph::Var;

/// Something that improves parameters step by step.
///
/// All of it goes by a shared reference, and a clone of an optimiser is a handle on the same one, as clones of a parameter
/// are. So a closure may hold an optimiser whose learning rate is changed outside.
///
/// The other settings are methods of each optimiser that follow its `new`.
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

    /// The length of steps.
    fn lr(&self) -> f64;

    /// Changes the length of steps from now on.
    ///
    /// # Errors
    /// `Parameter` if it is negative or not finite.
    #[track_caller]
    fn set_lr(&self, lr: f64) -> Result<()>;

    /// Forgets the gradients of the parameters, so that the next backward pass starts afresh.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(Var::zero_grad);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// The text that a function panics with.
    pub(crate) fn panic_text<T>(f: impl FnOnce() -> T) -> String {
        let Err(text) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it did not panic") };
        *text.downcast().expect("panics with a formatted text")
    }
}
