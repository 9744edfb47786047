//! Layers one after another.

use std::fmt;
use std::ops::Index;

use foldback_graph::Var;

use crate::copies::Copies;
use crate::error::Result;
use crate::forward;
use crate::layer::Layer;
use crate::module::{Module, Visitor};

/// Layers applied one after another; their names are `0`, `1`, ... [`sequential!`](crate::sequential) lists them.
///
/// A clone shares the weights, [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::{Linear, Module, ReLU, Sequential};
/// use foldback_tensor::Tensor;
/// let model = Sequential::new().then(Linear::new(64, 32)).then(ReLU).then(Linear::new(32, 10));
/// assert_eq!(model.named_parameters()[2].0, "2.weight");
/// assert_eq!(model.forward(&Tensor::zeros([5, 64]))?.shape(), [5, 10]);
/// assert_eq!(model[0].forward(&Tensor::zeros([5, 64]))?.shape(), [5, 32]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Layer>>,
}

/// [`Sequential`] of these layers.
///
/// ```
/// use foldback_nn::{Linear, ReLU, sequential};
/// let model = sequential![Linear::new(64, 32), ReLU, Linear::new(32, 10)];
/// assert_eq!(model.len(), 3);
/// ```
#[macro_export]
macro_rules! sequential {
    ($($layer:expr),* $(,)?) => {
        $crate::Sequential::new()$(.then($layer))*
    };
}

impl Sequential {
    /// No layers: the identity.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// With another layer at the end.
    #[must_use]
    pub fn then(mut self, layer: impl Layer + 'static) -> Sequential {
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
    pub fn push(&mut self, layer: impl Layer + 'static) {
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

    /// The layer of this number, if there are that many; `model[0]` is the first.
    ///
    /// ```
    /// use foldback_nn::{ReLU, sequential};
    /// assert!(sequential![ReLU].get(1).is_none());
    /// ```
    pub fn get(&self, index: usize) -> Option<&dyn Layer> {
        self.layers.get(index).map(|layer| &**layer)
    }

    /// The layers in their order.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module, ReLU, sequential};
    /// let model = sequential![Linear::new(2, 3), ReLU];
    /// let sizes: Vec<usize> = model.iter().map(|layer| layer.num_parameters()).collect();
    /// assert_eq!(sizes, [9, 0]);
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &dyn Layer> + DoubleEndedIterator {
        self.layers.iter().map(|layer| &**layer)
    }
}

#[forward]
impl Sequential {
    /// Every layer, each of what the one before it gives.
    ///
    /// # Errors
    /// What a layer refuses, with its number.
    #[track_caller]
    pub fn forward(&self, input: &Var) -> Result<Var> {
        let mut x = input.clone();
        for layer in &self.layers {
            x = layer.forward(&x)?;
        }
        Ok(x)
    }
}

impl Index<usize> for Sequential {
    type Output = dyn Layer;

    /// # Panics
    /// If there are not that many layers; [`Sequential::get`] returns `None` instead.
    fn index(&self, index: usize) -> &(dyn Layer + 'static) {
        &*self.layers[index]
    }
}

impl Clone for Sequential {
    /// Layers that share these weights; [`deep_copy`](Module::deep_copy) gives them their own.
    fn clone(&self) -> Sequential {
        Sequential { layers: self.layers.clone() }
    }
}

impl fmt::Debug for Sequential {
    /// How many layers there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequential").field("len", &self.len()).finish()
    }
}

impl Module for Sequential {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.layer(self);
        self.layers.visit(visitor);
    }
    fn set_training(&mut self, training: bool) {
        self.layers.set_training(training);
    }
    fn copy_parts(&self, copies: &mut Copies) -> Sequential {
        Sequential { layers: copies.part(&self.layers) }
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
        let y = model.forward(&tensor![-1.0, 1.0]).unwrap().value();
        assert_eq!(y, tensor![0.0, 1.0].tanh());
        let empty = Sequential::new();
        assert!(empty.is_empty());
        assert_eq!(empty.forward(&tensor![1.0]).unwrap().value(), tensor![1.0]);
    }

    #[test]
    fn nested_paths() {
        let inner = Sequential::new().then(Linear::new(2, 3)).then(ReLU).then(Linear::new(4, 2));
        let model = Sequential::new().then(Linear::new(2, 2)).then(inner);
        let e = model.forward(&tensor![1.0, 2.0]).unwrap_err();
        assert!(e.to_string().starts_with("1.2: linear: expected an input of shape [.., 4], found [3]: "));
        assert_eq!(e.path(), "1.2");
        assert!(matches!(e.facts(), Some(NnFacts::Features { expected: 4, .. })));
        assert_eq!(model.parameters().len(), 6);
    }

    #[test]
    fn indexed_and_iterated() {
        let model = sequential![Linear::new(2, 3), ReLU, Linear::new(3, 1),];
        assert_eq!((model.len(), model.iter().len()), (3, 3));
        assert_eq!(model[2].parameters().len(), 2);
        let by_hand = model.iter().try_fold(Var::from(tensor![1.0, -1.0]), |x, layer| layer.forward(&x));
        let y = model.forward(&tensor![1.0, -1.0]).unwrap();
        assert_eq!(by_hand.unwrap().value(), y.value());
        assert!(model.get(0).is_some() && model.get(3).is_none());
        assert!(sequential![].is_empty());
    }

    #[test]
    #[should_panic(expected = "the len is 1 but the index is 1")]
    fn beyond_the_last() {
        let _ = sequential![ReLU][1].num_parameters();
    }

    /// Through boxes within boxes.
    #[test]
    fn copies_share_or_do_not() {
        let model = sequential![Linear::new(2, 2), sequential![ReLU, Linear::new(2, 1)], Dropout::new(0.5)];
        let same = |other: &Sequential| {
            let pairs = model.parameters().into_iter().zip(other.parameters());
            pairs.map(|(a, b)| a.is_same(&b)).collect::<Vec<_>>()
        };
        assert_eq!(same(&model.clone()), [true; 4]);
        let mut copy = model.deep_copy();
        assert_eq!(same(&copy), [false; 4]);
        copy.eval();
        let x = tensor![1.0, 2.0];
        assert_eq!(copy[1].forward(&x).unwrap().value(), model[1].forward(&x).unwrap().value());
        assert!(copy.forward(&x).unwrap().value() == copy.forward(&x).unwrap().value());
    }

    #[test]
    fn switches_its_layers() {
        let mut model = Sequential::new().then(Dropout::new(1.0));
        assert_eq!(model.forward(&tensor![1.0]).unwrap().value(), tensor![0.0]);
        model.eval();
        assert_eq!(model.forward(&tensor![1.0]).unwrap().value(), tensor![1.0]);
    }
}
