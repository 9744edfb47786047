//! New values for variables that are there.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use foldback_tensor::{Here, Tensor, TensorFacts, refuse};

use super::leaf;
use crate::error::{GraphFacts, Result};
use crate::hooks::Hooks;
use crate::mode::is_grad_enabled;
use crate::node::{InputMetadata, Leaf, Node, Var, VarKind};
use crate::turn::Turn;

impl Var {
    /// Writes a new value into a leaf (all its clones see it) or replaces a value without history. Operations
    /// recorded before keep the value that they saw.
    ///
    /// # Errors
    /// `Assigned` if shape or type differ; `NotALeaf` for the result of an operation; `Updating` inside the function of
    /// [`Var::update_value`] on the same leaf.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let mut x = tensor![1.0].requires_grad();
    /// x.set_value(tensor![5.0])?;
    /// assert_eq!(x.value(), tensor![5.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn set_value(&mut self, value: Tensor) -> Result<()> {
        match &mut self.kind {
            VarKind::Leaf(node) => {
                node.metadata[0].expect_fit("set_value: the value", &value).here()?;
                let _turn = leaf(node).writer.turn("set_value").here()?;
                drop(leaf(node).value.replace(value));
            }
            VarKind::Constant(t) => {
                InputMetadata::of(t).expect_fit("set_value: the value", &value).here()?;
                *t = value;
            }
            VarKind::Tracked(..) => return refuse(GraphFacts::NotALeaf { op: "set_value" }).here(),
        }
        Ok(())
    }

    /// Changes a leaf's value by a function. If `f` fails, panics, or leaves another shape or type behind, the old
    /// value stays.
    ///
    /// No update is lost: while `f` runs, other threads that write to the leaf wait, and those that read it see the old
    /// value. So does `f` itself, which may read this and any other leaf. Two functions that update two leaves, each the
    /// other's inside its own, would wait for each other.
    ///
    /// # Errors
    /// `NotALeaf` for anything but a leaf, `Assigned` if shape or type changed, `Updating` if `f` writes to the leaf by
    /// another way, and whatever `f` returns.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// x.update_value(|t| t.add_(1.0).map(|_| ()))?;
    /// assert_eq!(x.value(), tensor![2.0]);
    /// assert!(x.update_value(|t| { *t = tensor![1.0, 2.0]; Ok(()) }).is_err());
    /// assert_eq!(x.value(), tensor![2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn update_value(&self, f: impl FnOnce(&mut Tensor) -> Result<()>) -> Result<()> {
        let VarKind::Leaf(node) = &self.kind else {
            return refuse(GraphFacts::NotALeaf { op: "update_value" }).here();
        };
        let _turn = leaf(node).writer.turn("update_value").here()?;
        let mut value = self.value();
        f(&mut value)?;
        node.metadata[0].expect_fit("update_value: the value", &value).here()?;
        drop(leaf(node).value.replace(value));
        Ok(())
    }

    /// [`Var::update_value`] without the copy that keeping the old value costs, for optimisers: `f` is one tensor
    /// operation, which succeeds or changes nothing, and which keeps shape and type.
    #[doc(hidden)]
    pub fn update_in_place(&self, f: impl FnOnce(&mut Tensor) -> Result<()>) -> Result<()> {
        let mut values = write_together("update_in_place", [self])?;
        f(&mut values[0])?;
        debug_assert_eq!((values[0].shape(), values[0].dtype()), (self.shape(), self.dtype()));
        Ok(())
    }

    /// Refuses a leaf that this thread is updating, for optimisers, which find out before they change any.
    #[doc(hidden)]
    pub fn expect_not_updating(&self, op: &'static str) -> Result<()> {
        let VarKind::Leaf(node) = &self.kind else { return Ok(()) };
        leaf(node).writer.expect_other(op).map(|_| ())
    }

    /// Refuses in-place operations on what they cannot be done to; a leaf is written to by one thread at a time.
    pub(crate) fn turn_to_rebind<'a>(
        &self,
        op: &'static str,
        leaf: Option<&'a Node>,
    ) -> Result<Option<Turn<'a>>> {
        let tracking_leaf = matches!(self.kind, VarKind::Leaf(_)) && self.requires_grad();
        if tracking_leaf && is_grad_enabled() {
            return refuse(GraphFacts::LeafInPlace { op });
        }
        let own = self.value();
        if own.overlaps_itself() {
            let (shape, strides) = (own.shape().clone(), own.strides().to_vec());
            return refuse(TensorFacts::Overlap { op, shape, strides });
        }
        leaf.map(|node| self::leaf(node).writer.turn(op)).transpose()
    }

    /// Rebinds this handle to the result of an in-place operation, which must have its shape; the type stays.
    // Not given a closure that makes the result: what it recorded would have no line of the caller's.
    #[track_caller]
    pub(crate) fn rebind(&mut self, op: &'static str, new: Var) -> Result<()> {
        if new.shape() != self.shape() {
            return refuse(new.shape().expand_error(op, "", self.shape()));
        }
        if new.dtype().category() > self.dtype().category() {
            return refuse(TensorFacts::ResultCast { op, from: new.dtype(), to: self.dtype() });
        }
        let new = new.to(self.dtype());
        if let VarKind::Leaf(node) = &self.kind
            && !new.requires_grad()
        {
            drop(leaf(node).value.replace(new.value()));
            return Ok(());
        }
        if let (VarKind::Tracked(_, old), VarKind::Tracked(_, new)) = (&self.kind, &new.kind) {
            Hooks::pass_on_retained(old, new);
        }
        *self = new;
        Ok(())
    }
}

/// The value of a leaf for writing, until this is dropped. Who reads the leaf waits.
#[doc(hidden)]
pub struct Writing<'a> {
    value: MutexGuard<'a, Tensor>,
    _turn: Turn<'a>,
}

impl Deref for Writing<'_> {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.value
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut Tensor {
        &mut self.value
    }
}

/// The values of leaves, for writers that change them as one: of the first, and of those that follow as long as nobody else is
/// writing them. Whoever has them does nothing with any leaf but that, and soon gives them back.
///
/// Note [Several turns]
/// Who waited for a turn while it has another one might wait for somebody who waits for that: in a function that updates
/// one leaf, an optimiser may step others. So only the first turn is waited for. What is left is asked for again when
/// these have been given back.
///
/// # Errors
/// `NotALeaf`, `Updating`.
#[doc(hidden)]
pub fn write_together<'a>(
    op: &'static str,
    leaves: impl IntoIterator<Item = &'a Var>,
) -> Result<Vec<Writing<'a>>> {
    let leaves = leaves.into_iter();
    let mut values = Vec::with_capacity(leaves.size_hint().0);
    for var in leaves {
        let VarKind::Leaf(node) = &var.kind else { return refuse(GraphFacts::NotALeaf { op }) };
        let Leaf { writer, value, .. } = leaf(node);
        let turn = if values.is_empty() { Some(writer.turn(op)?) } else { writer.try_turn(op)? };
        let Some(turn) = turn else { break };
        values.push(Writing { value: value.lock(), _turn: turn });
    }
    Ok(values)
}
