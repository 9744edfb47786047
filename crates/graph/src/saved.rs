//! What a node keeps for its backward pass.

use std::sync::Arc;

use foldback_tensor::{Packed, Tensor};
use smallvec::SmallVec;

use crate::budget::Budgeted;
use crate::slot::RuleSlot;

/// Note [Places of saved values]
/// Every input has a place in the list of what a node keeps, then every output: `RuleSlot::Input(n)` is at `n`,
/// `RuleSlot::Output(k)` behind all inputs. A place whose value is not kept is empty, and empty places at the end are left
/// out, so that an operation that saves nothing has an empty list. A place behind all outputs is for what a fused operation has
/// computed and reduced, see Note [Saved results]. There is no limit to either kind, and nothing is
/// searched. Values are packed with the shape of the first output.
pub(crate) type SavedValues = SmallVec<[Option<Packed>; 2]>;

/// What a node keeps for its backward pass.
#[derive(Clone)]
pub(crate) enum Saved {
    Kept(SavedValues),
    /// kept, or to be computed again
    Budgeted(Arc<Budgeted>),
    /// gone, after a pass that did not retain the graph
    Freed,
}

/// Saved values as the backward pass uses them.
#[derive(Default)]
pub(crate) struct Unpacked {
    pub(crate) inputs: usize,
    /// Of the first places. Not in one list with the others: what is put on a list is put together elsewhere, and moved.
    few: [Option<Tensor>; 2],
    others: Vec<Option<Tensor>>,
}

impl Unpacked {
    /// The value of an input or an output, if it was saved.
    #[inline]
    pub(crate) fn get(&self, slot: RuleSlot) -> Option<&Tensor> {
        let place = slot.place(self.inputs)?;
        match self.few.get(place) {
            Some(value) => value.as_ref(),
            None => self.others.get(place - self.few.len())?.as_ref(),
        }
    }

    /// Where the value of a place belongs.
    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> &mut Option<Tensor> {
        let few = self.few.len();
        if place < few {
            return &mut self.few[place];
        }
        if self.others.len() <= place - few {
            self.others.resize(place - few + 1, None);
        }
        &mut self.others[place - few]
    }
}

impl Default for Saved {
    /// Nothing yet.
    #[inline]
    fn default() -> Saved {
        Saved::Kept(SavedValues::new())
    }
}

impl From<SavedValues> for Saved {
    #[inline]
    fn from(values: SavedValues) -> Saved {
        Saved::Kept(values)
    }
}

impl Saved {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Saved::Kept(values) if values.is_empty())
    }

    /// Takes what is kept for a pass after which nothing is.
    #[inline]
    pub(crate) fn take(&mut self) -> Saved {
        let after = match self {
            Saved::Budgeted(b) if b.saves_nothing() => Saved::Kept(SavedValues::new()),
            _ => Saved::Freed,
        };
        std::mem::replace(self, after)
    }
}
