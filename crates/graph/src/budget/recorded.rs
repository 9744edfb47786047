//! What a node that is recorded within a budget keeps.

use std::sync::Arc;

use foldback_tensor::{Packed, Shape, Tensor};
use smallvec::SmallVec;

use super::account::Deposit;
use super::made::{Keeper, Made, MadeOf, Recipe};
use super::recomputed::Recomputed;
use super::{Scope, current};
use crate::error::Result;
use crate::node::{Edge, Saved, SavedValues};
use crate::rule::Rule;
use crate::var::{Var, VarKind};

/// Saved values, by place, and what the node made: later nodes may save that, or make values of it.
pub(crate) struct Budgeted {
    places: SmallVec<[Option<KeptPlace>; 2]>,
    outputs: SmallVec<[Arc<Made>; 1]>,
}

enum KeptPlace {
    /// what no operation within the budget has made
    Given(Deposit),
    Made(Keeper),
}

/// So much smaller than a result, a value is kept to compute that from.
const SMALL: usize = 16;

/// Integers below this are what they were before they became `f64`.
const EXACT: f64 = (1u64 << 53) as f64;

/// How to compute the result of a row of formulas; none if that would keep what is not kept anyway. `saves` are the places
/// that the node saves.
#[cold]
pub(crate) fn recipe(
    rule: &'static Rule,
    numbers: [f64; 2],
    inputs: &[&Var],
    values: &[&Tensor],
    saves: u32,
    result: &Tensor,
) -> Option<Box<Recipe>> {
    let scope = current()?;
    if numbers.iter().any(|n| n.is_finite() && n.abs() >= EXACT) {
        return None;
    }
    let bytes = |t: &Tensor| t.holding().map_or(0, |h| h.bytes);
    let counted = |t: &Tensor| MadeOf::Base(Deposit::new(t.clone(), &scope.account));
    let source = |(place, (v, t)): (usize, (&&Var, &&Tensor))| match (&v.kind, v.edge()) {
        (VarKind::Leaf(_), _) => Some(MadeOf::Base(Deposit::uncounted((*t).clone()))),
        (_, Some(edge)) if edge.node.as_leaf().is_some() => {
            Some(MadeOf::Base(Deposit::uncounted((*t).clone())))
        }
        _ if bytes(t) * SMALL <= bytes(result) => Some(counted(t)),
        (_, Some(edge)) if let Some(made) = made_by(&edge, t.shape()) => Some(MadeOf::Made(made)),
        _ if saves >> place & 1 != 0 || scope.account.keeps(t) => Some(counted(t)),
        _ => None,
    };
    let sources = inputs.iter().zip(values).enumerate().map(source).collect::<Option<_>>()?;
    Some(Box::new(Recipe { value: rule.value, numbers, sources }))
}

/// What an edge leads to, if an operation within a budget has made it.
fn made_by(edge: &Edge, shape: &Shape) -> Option<Arc<Made>> {
    let budgeted = edge.node.budgeted()?;
    budgeted.outputs.get(edge.nr as usize).filter(|made| made.shape == *shape).cloned()
}

/// Takes the saved values of a node that is being recorded, and gives up what the budget asks for.
#[cold]
pub(crate) fn within_budget(
    edges: &[Option<Edge>],
    results: &[Tensor],
    saved: SavedValues,
    recipe: Option<Box<Recipe>>,
) -> Saved {
    let Some(scope) = current() else { return Saved::Kept(saved) };
    let (like, mut recipe) = (results[0].shape(), recipe.map(|r| *r));
    let made = |t: &Tensor| {
        let bytes = t.holding().map_or(0, |h| h.bytes);
        Made::new(t.shape().clone(), bytes, recipe.take(), &scope.account)
    };
    let outputs: SmallVec<[Arc<Made>; 1]> = results.iter().map(made).collect();
    let place = |(place, packed): (usize, Option<Packed>)| {
        let t = packed?.unpack(like);
        Some(match edges.get(place) {
            None => keep(&scope, outputs[place - edges.len()].clone(), &t),
            Some(Some(edge)) if edge.node.as_leaf().is_some() => KeptPlace::Given(Deposit::uncounted(t)),
            Some(Some(edge)) if let Some(made) = made_by(edge, t.shape()) => keep(&scope, made, &t),
            Some(_) => KeptPlace::Given(Deposit::new(t, &scope.account)),
        })
    };
    let places = saved.into_iter().enumerate().map(place).collect();
    scope.settle();
    Saved::Budgeted(Arc::new(Budgeted { places, outputs }))
}

fn keep(scope: &Scope, made: Arc<Made>, t: &Tensor) -> KeptPlace {
    let keeper = Keeper::new(made, t);
    scope.consider(keeper.made());
    KeptPlace::Made(keeper)
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
    pub(crate) fn come_to<M: super::Material>(&self, again: &mut Recomputed<M>) {
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
