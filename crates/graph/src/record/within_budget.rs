//! What a node is to keep that is recorded within a budget.

use std::sync::Arc;

use foldback_tensor::{Packed, Shape, Tensor};
use smallvec::SmallVec;

use crate::budget::{Budgeted, Deposit, Keeper, KeptPlace, Made, MadeOf, Recipe, Scope, current};
use crate::node::rule::Rule;
use crate::node::{Edge, Var, VarKind};
use crate::saved::{Saved, SavedValues};

/// So much smaller than a result, a value is kept to compute that from.
const SMALL: usize = 16;

/// Integers below this are what they were before they became `f64`.
const EXACT: f64 = (1u64 << 53) as f64;

/// How to compute the result of a row of formulas; none if that would keep what is not kept anyway. `saves` are the places
/// that the node saves.
#[cold]
pub(super) fn recipe(
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
    budgeted.outputs.get(edge.nr).filter(|made| made.shape == *shape).cloned()
}

/// Takes the saved values of a node that is being recorded, and gives up what the budget asks for.
#[cold]
pub(super) fn within_budget(
    edges: &[Option<Edge>],
    results: &[Tensor],
    saved: SavedValues,
    like: &Shape,
    recipe: Option<Box<Recipe>>,
) -> Saved {
    let Some(scope) = current() else { return Saved::Kept(saved) };
    let mut recipe = recipe.map(|r| *r);
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
