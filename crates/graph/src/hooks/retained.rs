//! The gradients that variables keep which are not leaves.

use super::{Entries, Hooks};
use crate::gradient::add_in_place;
use crate::node::{Edge, Node, Var};

/// The gradient that an output keeps.
pub(super) struct Retained {
    nr: usize,
    /// whether every pass is to leave one here, or one pass was told to
    always: bool,
    pub(super) grad: Option<Var>,
}

impl Entries {
    fn retained(&mut self, nr: usize) -> &mut Retained {
        let found = self.retained.iter().position(|r| r.nr == nr);
        let at = found.unwrap_or_else(|| {
            self.retained.push(Retained { nr, always: false, grad: None });
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
        Hooks::of(node).update(|entries| entries.retained(nr).always = true);
    }

    /// Whether every pass is to leave a gradient at an output.
    pub(crate) fn retains(node: &Node, nr: usize) -> bool {
        Hooks::at(node).is_some_and(|h| h.entries.update(|entries| entries.retains(nr)))
    }

    /// Moves what an output keeps, and whether it is to keep more, to the output that takes its place: no handle reaches what stays
    /// behind, of which a recorded pass would make a cycle.
    pub(crate) fn move_retained(from: &Edge, to: &Edge) {
        let Some(hooks) = Hooks::at(&from.node) else { return };
        let take = |entries: &mut Entries| {
            let at = entries.retained.iter().position(|r| r.nr == from.nr)?;
            Some(entries.retained.swap_remove(at))
        };
        if let Some(retained) = hooks.entries.update(take) {
            let moved = Retained { nr: to.nr, ..retained };
            Hooks::of(&to.node).update(|entries| entries.retained.push(moved));
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
        drop(Hooks::of(node).update(|entries| add_in_place(&mut entries.retained(nr).grad, grad)));
    }
}
