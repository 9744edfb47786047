//! `Parameters`: finding the parameters of a model, and their names.

use foldback_graph::Var;

use crate::layer_path::LayerId;

/// Something that holds parameters: a variable, a layer, a model, or a collection of these.
///
/// Derived by [`Module`](macro@crate::Module) and [`Parameters`](macro@crate::Parameters).
///
/// ```
/// use foldback_nn::{Linear, Parameters};
/// let layer = Linear::new(3, 2);
/// assert_eq!(layer.num_parameters(), 8);
/// assert_eq!(layer.named_parameters()[1].0, "bias");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no parameters, and `#[derive(Module)]` does not know it as a setting",
    label = "neither a `Var`, nor a module, nor a `Vec`, `Option`, array or `Box` of these",
    note = "mark a field that is no part of the model's parameters with `#[module(skip)]`; make a `Tensor` a parameter with `requires_grad()`; a struct of yours derives `Module`"
)]
pub trait Parameters {
    /// Shows every part to the visitor, in the order of the fields.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// Switches layers that differ between training and use, such as [`Dropout`](crate::Dropout).
    fn set_training(&mut self, training: bool);

    /// The parameters with their paths, such as `l1.weight` and `layers.0.bias`, in the order of the fields.
    ///
    /// A variable that stands in several places is listed once, at the first.
    fn named_parameters(&self) -> Vec<(String, Var)>
    where
        Self: Sized,
    {
        collect(self)
    }

    /// The parameters, in the order of the fields; one that stands in several places once.
    ///
    /// The variables are handles on the model's own: what an optimiser writes there the model sees.
    fn parameters(&self) -> Vec<Var>
    where
        Self: Sized,
    {
        collect(self).into_iter().map(|(_, var)| var).collect()
    }

    /// How many numbers the parameters hold together.
    fn num_parameters(&self) -> usize
    where
        Self: Sized,
    {
        collect(self).iter().map(|(_, var)| var.numel()).sum()
    }

    /// Forgets the gradients of all parameters.
    fn zero_grad(&self)
    where
        Self: Sized,
    {
        collect(self).iter().for_each(|(_, var)| var.zero_grad());
    }

    /// Switches to training: `set_training(true)`. Layers are made in this state.
    fn train(&mut self)
    where
        Self: Sized,
    {
        self.set_training(true);
    }

    /// Switches to use: `set_training(false)`.
    fn eval(&mut self)
    where
        Self: Sized,
    {
        self.set_training(false);
    }
}
