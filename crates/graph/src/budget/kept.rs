//! What a node keeps that was recorded within a budget.

use std::sync::Arc;

use foldback_tensor::{Shape, Tensor};
use smallvec::SmallVec;

use super::account::Deposit;
use super::made::{Keeper, Made, MadeOf};
use super::recomputed::{Material, Recomputed};
use crate::error::Result;

/// Saved values, by place, and what the node made: later nodes may save that, or make values of it.
pub(crate) struct Budgeted {
    pub(crate) places: SmallVec<[Option<KeptPlace>; 2]>,
    pub(crate) outputs: SmallVec<[Arc<Made>; 1]>,
}

pub(crate) enum KeptPlace {
    /// what no operation within the budget has made
    Given(Deposit),
    Made(Keeper),
}

/// A value that a node keeps: an input or an output by its number, and the number that all have in common who keep it by
/// one handle.
pub(crate) struct KeptValue {
    pub(crate) place: usize,
    pub(crate) tensor: Tensor,
    pub(crate) handle: Option<u64>,
}

impl Budgeted {
    /// Whether the node saves nothing itself.
    pub(crate) fn saves_nothing(&self) -> bool {
        self.places.is_empty()
    }

    /// The saved values, computed again where they were given up.
    pub(crate) fn unpack(&self, again: &mut Recomputed) -> Result<SmallVec<[Option<Tensor>; 2]>> {
        let value = |place: &Option<KeptPlace>| match place {
            None => Ok(None),
            Some(KeptPlace::Given(deposit)) => Ok(Some(deposit.tensor.clone())),
            Some(KeptPlace::Made(keeper)) => again.value(keeper.made()).map(Some),
        };
        self.places.iter().map(value).collect()
    }

    /// Passes the node by: see [`Recomputed::come_to`].
    pub(crate) fn come_to<M: Material>(&self, again: &mut Recomputed<M>) {
        self.outputs.iter().for_each(|made| again.come_to(made));
    }

    /// The shapes of saved values, by place.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = Option<&Shape>> {
        self.places.iter().map(|place| match place {
            None => None,
            Some(KeptPlace::Given(deposit)) => Some(deposit.tensor.shape()),
            Some(KeptPlace::Made(keeper)) => Some(&keeper.made().shape),
        })
    }

    /// The saved values that were given up.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = &Arc<Made>> {
        self.places.iter().flatten().filter_map(|place| match place {
            KeptPlace::Made(keeper) if keeper.made().kept().is_none() => Some(keeper.made()),
            _ => None,
        })
    }

    /// What the node keeps: saved values, and what others are computed from. `inputs` is how many it has.
    pub(crate) fn kept(&self, inputs: usize) -> Vec<KeptValue> {
        let saved = self.places.iter().enumerate().filter_map(|(place, value)| match value.as_ref()? {
            KeptPlace::Given(deposit) => {
                Some(KeptValue { place, tensor: deposit.tensor.clone(), handle: None })
            }
            KeptPlace::Made(keeper) => {
                let made = keeper.made();
                Some(KeptValue { place, tensor: made.kept()?, handle: Some(made.number) })
            }
        });
        let mut kept: Vec<KeptValue> = saved.collect();
        for (nr, made) in self.outputs.iter().enumerate() {
            let sources = made.recipe.iter().flat_map(|r| r.sources.iter().enumerate());
            kept.extend(sources.filter_map(|(place, source)| match source {
                MadeOf::Base(deposit) => {
                    Some(KeptValue { place, tensor: deposit.tensor.clone(), handle: None })
                }
                MadeOf::Made(_) => None,
            }));
            let value = made.kept_for_others().map(|tensor| (inputs + nr, tensor, Some(made.number)));
            kept.extend(value.map(|(place, tensor, handle)| KeptValue { place, tensor, handle }));
        }
        kept
    }
}
