//! `Module`: something with parameters that turns a variable into another.

use foldback_graph::Var;

use crate::error::Result;
use crate::parameters::Parameters;

/// A layer or a model: parameters and a function of one variable.
///
/// Derived for structs that implement [`Forward`], see [`derive(Module)`](macro@crate::Module); generic code takes
/// `impl Module`, and `Box<dyn Module>` is one too.
///
/// ```
/// use foldback_nn::{Linear, Module, Parameters, Result, Var};
/// fn twice(layer: &impl Module, x: &Var) -> Result<Var> {
///     layer.forward(&layer.forward(x)?)
/// }
/// let y = twice(&Linear::new(3, 3), &foldback_tensor::tensor![1.0, 2.0, 3.0].into())?;
/// assert_eq!(y.shape(), [3]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    note = "a struct becomes a module with `#[derive(Module)]` and `impl Forward`"
)]
pub trait Module: Parameters + Send + Sync {
    /// Applies the module.
    ///
    /// # Errors
    /// What the module refuses; [`Error::path`](crate::Error::path) names the layer inside it that did.
    #[track_caller]
    fn forward(&self, input: &Var) -> Result<Var>;
}

/// What a model computes: the part of a [`Module`] that is written by hand.
///
/// ```
/// use foldback_nn::{Forward, Linear, Module, Result, Var};
///
/// #[derive(Module)]
/// struct Residual { inner: Linear }
///
/// impl Forward for Residual {
///     fn forward(&self, x: &Var) -> Result<Var> {
///         x.add(&self.inner.forward(x)?)
///     }
/// }
/// let y = Residual { inner: Linear::new(2, 2) }.forward(&foldback_tensor::tensor![1.0, 2.0].into())?;
/// assert_eq!(y.shape(), [2]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` derives `Module` but does not say what it computes",
    label = "`impl Forward for {Self}` is missing",
    note = "a model whose function takes something else than one variable derives `Parameters` instead"
)]
pub trait Forward {
    /// Computes the output. Called through [`Module::forward`], which adds the layer's path to errors.
    ///
    /// # Errors
    /// What its layers and operations refuse.
    // Not `#[track_caller]`: operations belong to the lines of this function, and so do their errors.
    fn forward(&self, input: &Var) -> Result<Var>;
}

impl<M: Module + ?Sized> Module for Box<M> {
    #[track_caller]
    fn forward(&self, input: &Var) -> Result<Var> {
        (**self).forward(input)
    }
}
