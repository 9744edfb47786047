//! Handles that keep nothing alive.

use std::fmt;
use std::sync::{Arc, Weak};

use foldback_tensor::Tensor;

use crate::node::{Node, Var, VarKind};

/// A handle on a variable that does not keep its graph alive, see [`Var::downgrade`].
#[derive(Clone)]
pub struct WeakVar(WeakKind);

#[derive(Clone)]
enum WeakKind {
    Constant(Tensor),
    Leaf(Weak<Node>),
    Tracked(Tensor, Weak<Node>, usize),
}

impl WeakVar {
    /// The variable, if something else still keeps it alive.
    pub fn upgrade(&self) -> Option<Var> {
        match &self.0 {
            WeakKind::Constant(t) => Some(Var::constant(t.clone())),
            WeakKind::Leaf(node) => Some(Var { kind: VarKind::Leaf(node.upgrade()?) }),
            WeakKind::Tracked(t, node, nr) => Some(Var::tracked(t.clone(), node.upgrade()?, *nr)),
        }
    }
}

impl fmt::Debug for WeakVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakVar")
    }
}

impl Var {
    /// A handle that does not keep the graph alive.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let y = foldback_tensor::tensor![1.0].requires_grad() * 2.0;
    /// let weak = y.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(y);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn downgrade(&self) -> WeakVar {
        WeakVar(match &self.kind {
            VarKind::Constant(t) => WeakKind::Constant(t.clone()),
            VarKind::Leaf(node) => WeakKind::Leaf(Arc::downgrade(node)),
            VarKind::Tracked(t, edge) => WeakKind::Tracked(t.clone(), Arc::downgrade(&edge.node), edge.nr),
        })
    }
}
