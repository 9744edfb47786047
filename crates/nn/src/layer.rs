//! `Layer`: a module that turns one variable into another.

use foldback_graph::{Value, Var};

use crate::copies::Copies;
use crate::error::Result;
use crate::module::{Module, Visitor};
use crate::summary::Summary;

/// A module of one variable: what stands in a [`Sequential`](crate::Sequential), a `Box<dyn Layer>` or behind `impl Layer`.
///
/// Models become layers by [`forward`](macro@crate::forward), if their function is one of a single variable.
///
/// ```
/// use foldback_nn::{Layer, Linear, ReLU, Result, Var};
/// use foldback_tensor::tensor;
/// fn twice(layer: &impl Layer, x: &Var) -> Result<Var> {
///     layer.forward(&layer.forward(x)?)
/// }
/// assert_eq!(twice(&Linear::new(3, 3), &tensor![1.0, 2.0, 3.0].into())?.shape(), [3]);
/// let layers: Vec<Box<dyn Layer>> = vec![Box::new(Linear::new(3, 2)), Box::new(ReLU)];
/// assert_eq!(layers[0].forward(&tensor![1.0, 2.0, 3.0])?.shape(), [2]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no layer: it has no function of one variable",
    note = "a struct becomes a layer with `#[derive(Module)]` and `#[forward] impl .. {{ fn forward(&self, x: &Var) -> Result<Var> {{ .. }} }}`"
)]
pub trait Layer: Module + CopyLayer + Send + Sync {
    /// Applies the layer to a variable or a tensor.
    ///
    /// # Errors
    /// What the layer refuses; [`Error::path`](crate::Error::path) names the layer inside it that did.
    #[track_caller]
    fn forward(&self, input: &dyn Value) -> Result<Var>;

    /// What each layer does with this input: shapes, parameters, products, bytes kept, as a table by `{}`.
    ///
    /// Nothing is changed, as copies are called, see [`Summary::of`]; a layer that differs between training and use is
    /// called as it is.
    ///
    /// # Errors
    /// What the layer refuses.
    ///
    /// ```
    /// use foldback_nn::{Layer, Linear};
    /// use foldback_tensor::Tensor;
    /// let summary = Linear::new(3, 2).summary(&Tensor::ones([5, 3]))?;
    /// assert_eq!(summary.to_string(), "\
    /// layer    type    output  parameters  FLOPs  keeps
    /// (model)  Linear  [5, 2]           8     60   60 B
    /// 8 parameters, 8 of them trainable; 60 FLOPs; keeps 60 B for the backward pass");
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    fn summary(&self, input: &dyn Value) -> Result<Summary>
    where
        Self: Sized,
    {
        let input = input.as_var();
        let leaf = if input.dtype().is_float() { Var::leaf(input.value())? } else { Var::clone(&input) };
        Summary::of_two(self, |layer| layer.forward(&*input), |layer| layer.forward(&leaf))
    }
}

/// [`Module::copy_parts`] of a layer behind a box.
#[doc(hidden)]
pub trait CopyLayer {
    fn copy_layer(&self, copies: &mut Copies) -> Box<dyn Layer>
    where
        Self: 'static;
}

impl<L: Layer> CopyLayer for L {
    fn copy_layer(&self, copies: &mut Copies) -> Box<dyn Layer>
    where
        Self: 'static,
    {
        Box::new(self.copy_parts(copies))
    }
}

impl Clone for Box<dyn Layer> {
    /// A layer that shares the weights; [`deep_copy`](Module::deep_copy) gives it its own.
    fn clone(&self) -> Box<dyn Layer> {
        (**self).copy_layer(&mut Copies::shared())
    }
}

macro_rules! boxed {
    ($([$($generics:tt)*] $inner:ty: $copy:expr;)*) => {$(
        impl<$($generics)*> Module for Box<$inner> {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                (**self).visit(visitor);
            }
            fn set_training(&mut self, training: bool) {
                (**self).set_training(training);
            }
            fn copy_parts(&self, copies: &mut Copies) -> Self {
                $copy(self, copies)
            }
        }
    )*};
}
boxed! {
    [M: Module] M: |own: &Self, copies| Box::new(M::copy_parts(own, copies));
    [] dyn Layer: |own: &Self, copies| (**own).copy_layer(copies);
}

impl<L: Layer> Layer for Box<L> {
    #[track_caller]
    fn forward(&self, input: &dyn Value) -> Result<Var> {
        (**self).forward(input)
    }
}

impl Layer for Box<dyn Layer> {
    #[track_caller]
    fn forward(&self, input: &dyn Value) -> Result<Var> {
        (**self).forward(input)
    }
}
