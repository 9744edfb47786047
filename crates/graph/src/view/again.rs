//! What a pass computes again within a budget, in bytes: its own walk over values of which nothing but the size is known.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use foldback_tensor::Tensor;

use crate::budget::{Made, Material, Recomputed};
use crate::error::Result;
use crate::node::Node;

/// Bytes of values that are there besides what the graph keeps.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Again {
    /// the most while a node's saved values are computed
    pub(super) most: usize,
    /// while the node runs
    pub(super) then: usize,
}

/// Values as their sizes.
#[derive(Default)]
struct Sizes(Rc<Cell<Again>>);

/// A value that was computed, until it is dropped.
struct Size(usize, Rc<Cell<Again>>);
impl Drop for Size {
    fn drop(&mut self) {
        let Again { most, then } = self.1.get();
        self.1.set(Again { most, then: then - self.0 });
    }
}

impl Material for Sizes {
    /// none for a value that is kept
    type Value = Option<Rc<Size>>;

    fn kept(&self, _: Tensor) -> Self::Value {
        None
    }

    fn make(&self, made: &Made, _: &[Self::Value]) -> Result<Self::Value> {
        let Again { most, then } = self.0.get();
        let then = then + made.bytes;
        self.0.set(Again { most: most.max(then), then });
        Ok(Some(Rc::new(Size(made.bytes, self.0.clone()))))
    }
}

/// For each of a graph's nodes, in the order of a pass.
pub(super) fn again(nodes: &[Arc<Node>]) -> Vec<Again> {
    let mut pass: Recomputed<Sizes> = Recomputed::default();
    let visit = |node: &Arc<Node>| {
        let Some(budgeted) = node.budgeted() else { return Again::default() };
        budgeted.come_to(&mut pass);
        let then = pass.material().0.get().then;
        pass.material().0.set(Again { most: then, then });
        let values: Vec<_> = budgeted.given_up().map(|made| pass.value(made)).collect();
        drop(values);
        pass.material().0.get()
    };
    nodes.iter().map(visit).collect()
}
