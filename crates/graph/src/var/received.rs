//! The gradient that a variable has received from backward passes.

use std::sync::atomic::{AtomicBool, Ordering};

use foldback_tensor::{Here, Tensor, refuse};

use super::leaf;
use crate::error::{GraphFacts, Result};
use crate::hooks::Hooks;
use crate::node::{Var, VarKind};

impl Var {
    /// The gradient that backward passes have left here, `None` before the first.
    ///
    /// Dense and row-major for a leaf. A variable that an operation made has one only after [`Var::retain_grad`];
    /// asking it without is answered with `None` and one warning through the `log` facade.
    pub fn grad(&self) -> Option<Tensor> {
        match &self.kind {
            VarKind::Leaf(node) => leaf(node).grad.lock().as_ref().map(Var::value),
            _ => self.grad_var().map(|g| g.value()),
        }
    }

    /// Takes the gradient out of a leaf, for those who change it where it lies and put it back.
    #[doc(hidden)]
    pub fn take_grad(&self) -> Option<Tensor> {
        let VarKind::Leaf(node) = &self.kind else { return None };
        let grad = leaf(node).grad.replace(None);
        grad.map(|g| g.value())
    }

    /// The gradient as a variable: after a backward pass with `create_graph` it has a history of its own.
    pub fn grad_var(&self) -> Option<Var> {
        match &self.kind {
            VarKind::Constant(_) => None,
            VarKind::Leaf(node) => leaf(node).grad.read(),
            VarKind::Tracked(_, edge) => Hooks::retained(&edge.node, edge.nr).unwrap_or_else(|| {
                static WARNED: AtomicBool = AtomicBool::new(false);
                if !WARNED.swap(true, Ordering::Relaxed) {
                    log::warn!(
                        "the grad of a variable that is not a leaf ({}) is being read; it is None unless retain_grad() was called",
                        edge.node.name()
                    )
                }
                None
            }),
        }
    }

    /// Sets or removes the gradient of a leaf.
    ///
    /// # Errors
    /// `NotALeaf` if it has none to set; `Assigned` if the gradient has another shape or type than the variable; also if
    /// it is an expanded view that no memory can hold.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// x.set_grad(Some(tensor![0.5, 0.5]))?;
    /// assert!(x.set_grad(Some(tensor![0.5])).is_err());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn set_grad(&self, grad: Option<Tensor>) -> Result<()> {
        let VarKind::Leaf(node) = &self.kind else {
            return refuse(GraphFacts::NotALeaf { op: "set_grad" }).here();
        };
        if let Some(g) = &grad {
            node.metadata[0].expect_fit("set_grad: the gradient", g).here()?;
        }
        let dense = |g: Tensor| g.try_contiguous().map(Var::constant).map_err(|e| e.named("set_grad"));
        let grad = grad.map(dense).transpose().here()?;
        drop(leaf(node).grad.replace(grad));
        Ok(())
    }

    /// Forgets the gradient, so that the next backward pass starts afresh.
    pub fn zero_grad(&self) {
        match &self.kind {
            VarKind::Leaf(node) => drop(leaf(node).grad.replace(None)),
            VarKind::Tracked(_, edge) => Hooks::clear_retained(&edge.node, edge.nr),
            VarKind::Constant(_) => {}
        }
    }
}
