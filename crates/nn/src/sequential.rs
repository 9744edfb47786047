//! Layers one after another.

use std::fmt;

use foldback_graph::Var;

use crate::error::Result;
use crate::layer_path::in_layer;
use crate::module::Module;
use crate::parameters::{Parameters, Visitor};

/// Layers applied one after another; their names are `0`, `1`, ...
///
/// ```
/// use foldback_nn::{Linear, Module, Parameters, ReLU, Sequential};
/// let model = Sequential::new().then(Linear::new(64, 32)).then(ReLU).then(Linear::new(32, 10));
/// assert_eq!(model.named_parameters()[2].0, "2.weight");
/// let y = model.forward(&foldback_tensor::Tensor::zeros_with([5, 64], foldback_tensor::DType::F32).into())?;
/// assert_eq!(y.shape(), [5, 10]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Module>>,
}

impl Sequential {
    /// No layers: the identity.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// With another layer at the end.
    #[must_use]
    pub fn then(mut self, layer: impl Module + 'static) -> Sequential {
        self.push(layer);
        self
    }

    /// Adds a layer at the end.
    ///
    /// ```
    /// use foldback_nn::{ReLU, Sequential};
    /// let mut model = Sequential::new();
    /// model.push(ReLU);
    /// assert_eq!(model.len(), 1);
    /// ```
    pub fn push(&mut self, layer: impl Module + 'static) {
        self.layers.push(Box::new(layer));
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

impl fmt::Debug for Sequential {
    /// How many layers there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequential").field("len", &self.len()).finish()
    }
}

impl Parameters for Sequential {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.layer(self);
        self.layers.visit(visitor);
    }
    fn set_training(&mut self, training: bool) {
        self.layers.set_training(training);
    }
}

impl Module for Sequential {
    #[track_caller]
    fn forward(&self, input: &Var) -> Result<Var> {
        let mut x = input.clone();
        for layer in &self.layers {
            x = in_layer(self, layer.forward(&x))?;
        }
        Ok(x)
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::tensor;

    use super::*;
    use crate::{Dropout, Linear, NnFacts, ReLU, Tanh};

    #[test]
    fn applies_in_order() {
        let model = Sequential::new().then(ReLU).then(Tanh);
        let y = model.forward(&tensor![-1.0, 1.0].into()).unwrap().value();
        assert_eq!(y, tensor![0.0, 1.0].tanh());
        let empty = Sequential::new();
        assert!(empty.is_empty());
        assert_eq!(empty.forward(&tensor![1.0].into()).unwrap().value(), tensor![1.0]);
    }

    #[test]
    fn nested_paths() {
        let inner = Sequential::new().then(Linear::new(2, 3)).then(ReLU).then(Linear::new(4, 2));
        let model = Sequential::new().then(Linear::new(2, 2)).then(inner);
        let e = model.forward(&tensor![1.0, 2.0].into()).unwrap_err();
        assert!(e.to_string().starts_with("1.2: linear: expected an input of shape [.., 4], found [3] (at "));
        assert_eq!(e.path(), "1.2");
        assert!(matches!(e.facts(), Some(NnFacts::Features { expected: 4, .. })));
        assert_eq!(model.parameters().len(), 6);
    }

    #[test]
    fn switches_its_layers() {
        let mut model = Sequential::new().then(Dropout::new(1.0));
        assert_eq!(model.forward(&tensor![1.0].into()).unwrap().value(), tensor![0.0]);
        model.eval();
        assert_eq!(model.forward(&tensor![1.0].into()).unwrap().value(), tensor![1.0]);
    }
}
