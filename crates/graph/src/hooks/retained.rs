//! The gradients that variables keep which are not leaves.

use std::sync::Arc;

use super::{Entries, Hooks};
use crate::gradient::add_in_place;
use crate::node::{Edge, Node, Var};

/// The gradient that an output keeps.
pub(super) struct Retained {
    nr: usize,
    /// whether every pass is to leave one here, or one pass was told to
    always: bool,
    /// whether a handle that asked for it has gone on to a newer value
    left: bool,
    pub(super) grad: Option<Var>,
}

impl Entries {
    fn retained(&mut self, nr: usize) -> &mut Retained {
        let found = self.retained.iter().position(|r| r.nr == nr);
        let at = found.unwrap_or_else(|| {
            self.retained.push(Retained { nr, always: false, left: false, grad: None });
            self.retained.len() - 1
        });
        &mut self.retained[at]
    }

    /// Whether every pass is to leave a gradient at an output.
    pub(super) fn retains(&self, nr: usize) -> bool {
        self.retained.iter().any(|r| r.nr == nr && r.always)
    }
}

impl Hooks {
    pub(crate) fn retain(node: &Node, nr: usize) {
        Hooks::of(node).update(|entries| {
            let retained = entries.retained(nr);
            (retained.always, retained.left) = (true, false);
        });
    }

    /// Whether every pass is to leave a gradient at an output.
    pub(crate) fn retains(node: &Node, nr: usize) -> bool {
        Hooks::at(node).is_some_and(|h| h.entries.update(|entries| entries.retains(nr)))
    }

    /// Hands what an output keeps, and whether it is to keep more, on to the output that takes its place in a handle. What stays behind for
    /// clones of the handle has no history: no handle might reach it to break the cycle that a recorded pass would make.
    pub(crate) fn pass_on_retained(from: &Edge, to: &Edge) {
        if Arc::ptr_eq(&from.node, &to.node) && from.nr == to.nr {
            return;
        }
        let Some(hooks) = Hooks::at(&from.node) else { return };
        let leave = |entries: &mut Entries| {
            let behind = entries.retained.iter_mut().find(|r| r.nr == from.nr)?;
            behind.left = true;
            let grad = behind.grad.take();
            behind.grad = grad.as_ref().map(Var::detach);
            Some(Retained { nr: to.nr, always: behind.always, left: false, grad })
        };
        if let Some(retained) = hooks.entries.update(leave) {
            Hooks::of(&to.node).update(|entries| entries.retained.push(retained));
        }
    }

    /// The retained gradient of an output; the outer option says whether there is one, or there will be.
    pub(crate) fn retained(node: &Node, nr: usize) -> Option<Option<Var>> {
        Hooks::at(node)?.entries.update(|entries| {
            let retained = entries.retained.iter().find(|r| r.nr == nr)?;
            (retained.always || retained.grad.is_some()).then(|| retained.grad.clone())
        })
    }

    pub(crate) fn clear_retained(node: &Node, nr: usize) {
        if let Some(hooks) = Hooks::at(node) {
            let take = |entries: &mut Entries| {
                entries.retained.iter_mut().find(|r| r.nr == nr).and_then(|r| r.grad.take())
            };
            drop(hooks.entries.update(take));
        }
    }

    /// Stores a retained gradient, or adds it to the one that is there.
    pub(crate) fn store(node: &Node, nr: usize, grad: Var) {
        let entries = Hooks::of(node);
        let grad = if entries.update(|entries| entries.retained(nr).left) { grad.detach() } else { grad };
        drop(entries.update(|entries| add_in_place(&mut entries.retained(nr).grad, grad)));
    }
}
