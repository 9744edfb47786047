//! Recording: turning a computed value into a variable with a node behind it.

mod within_budget;

use std::sync::Arc;

use foldback_tensor::{Packed, Shape, Tensor};
use smallvec::SmallVec;

use crate::mode::{is_budgeted, location};
use crate::node::rule::Rule;
use crate::node::{Describe, Edge, InputMetadata, Node, NodeKind, Var};
use crate::origins::is_recording;
use crate::profile;
use crate::recording::keep;
use crate::saved::{Saved, SavedValues};
use crate::slot::RuleSlot;
use crate::watching::{is_watching, register};
use within_budget::{recipe, within_budget};

/// Tells those who watch of a node.
#[inline]
pub(crate) fn note(node: &Arc<Node>, values: &[Tensor]) {
    if is_watching() {
        register(node);
        keep(node, values);
    }
}

/// Per input, the edge to what it came from.
type Edges = SmallVec<[Option<Edge>; 2]>;

/// Records a row of pointwise formulas; without a tracked input the result alone is returned. `values` are those of
/// the inputs. Compiled into its callers, who so move the result once, to where the variable stays.
#[track_caller]
#[inline(always)]
pub(crate) fn record_rule<const N: usize>(
    rule: &'static Rule,
    params: [f64; 2],
    inputs: [&Var; N],
    values: [&Tensor; N],
    result: Tensor,
) -> Var {
    match node_of_rule(rule, params, inputs, values, &result) {
        Some(node) => Var::tracked(result, node, 0),
        None => Var::constant(result),
    }
}

#[track_caller]
#[inline(never)]
fn node_of_rule<const N: usize>(
    rule: &'static Rule,
    params: [f64; 2],
    inputs: [&Var; N],
    values: [&Tensor; N],
    result: &Tensor,
) -> Option<Arc<Node>> {
    let results = std::slice::from_ref(result);
    profile::results(results);
    if !is_recording(&inputs) || !inputs.iter().any(|v| v.requires_grad()) || !result.dtype().is_float() {
        return None;
    }
    let node = Node::filled(NodeKind::Rule(rule, params), location(), |node| {
        let mut saves = 0;
        for (v, gradient) in inputs.iter().zip(rule.gradients) {
            let edge = v.edge();
            if edge.is_some() {
                saves |= gradient.as_ref().map_or(0, |g| g.saves);
            }
            node.next_edges.push(edge);
        }
        node.metadata.push(InputMetadata::of(result));
        if saves != 0 {
            node.change_kept(|saved| {
                for (place, v) in values.into_iter().enumerate() {
                    if saves >> place & 1 != 0 {
                        saved.push(Some(Packed::new(v, result.shape())));
                    } else if saves >> place != 0 {
                        saved.push(None);
                    }
                }
                if saves >> N & 1 != 0 {
                    saved.push(Some(Packed::new(result, result.shape())));
                }
            });
        }
        if is_budgeted() {
            let again = recipe(rule, params, &inputs, &values, saves, result);
            let kept = node.change_kept(std::mem::take);
            node.keep(within_budget(&node.next_edges, results, kept, result.shape(), again));
        }
    });
    note(&node, results);
    Some(node)
}

/// What the gradients of a function read, and so what is saved.
pub(crate) enum Reads<'a> {
    /// what each input's does, in order; those of inputs that are not tracked do not count
    Each(&'a [&'a [RuleSlot]]),
    /// what all of them do
    All(&'a [RuleSlot]),
    /// these values of inputs, by their places, and values behind those of inputs and outputs, which are neither
    Given(&'a [Option<&'a Tensor>], &'a [Option<Tensor>]),
}

/// Records an operation whose gradients are a function.
#[track_caller]
pub(crate) fn record_function(
    name: &'static str,
    inputs: &[&Var],
    values: SmallVec<[Tensor; 1]>,
    reads: Reads<'_>,
    function: impl FnOnce() -> Box<dyn Describe>,
) -> SmallVec<[Var; 1]> {
    // Compiled for every operation, so it does no more than call the closure between two steps that all share.
    match edges(inputs, &values) {
        Some(edges) => {
            let node = node_of(name, inputs, &values, reads, edges, function());
            variables(values, Some(&node))
        }
        None => variables(values, None),
    }
}

/// The same for an operation with one result.
#[track_caller]
pub(crate) fn record_one(
    name: &'static str,
    inputs: &[&Var],
    value: Tensor,
    reads: Reads<'_>,
    function: impl FnOnce() -> Box<dyn Describe>,
) -> Var {
    let values = std::slice::from_ref(&value);
    match edges(inputs, values) {
        Some(edges) => {
            let node = node_of(name, inputs, values, reads, edges, function());
            Var::tracked(value, node, 0)
        }
        None => Var::constant(value),
    }
}

/// The edges to the inputs, if there is something to record.
#[inline(never)]
#[track_caller]
fn edges(inputs: &[&Var], values: &[Tensor]) -> Option<Edges> {
    profile::results(values);
    if !is_recording(inputs)
        || !inputs.iter().any(|v| v.requires_grad())
        || !values.iter().any(|v| v.dtype().is_float())
    {
        return None;
    }
    let mut edges = Edges::with_capacity(inputs.len());
    inputs.iter().for_each(|v| edges.push(v.edge()));
    edges.iter().any(Option::is_some).then_some(edges)
}

#[track_caller]
#[inline(never)]
fn node_of(
    name: &'static str,
    inputs: &[&Var],
    values: &[Tensor],
    reads: Reads<'_>,
    edges: Edges,
    function: Box<dyn Describe>,
) -> Arc<Node> {
    let mut saved = SavedValues::new();
    let like = function.saved_like().unwrap_or(values[0].shape());
    let mut save = |slot: &RuleSlot| save(&mut saved, *slot, inputs, values, like);
    match reads {
        Reads::All(slots) => slots.iter().for_each(save),
        Reads::Given(of_inputs, further) => {
            let pack = |t: &Tensor| Packed::new(t, like);
            let last = of_inputs.iter().rposition(Option::is_some);
            of_inputs[..last.map_or(0, |last| last + 1)].iter().for_each(|t| saved.push(t.map(pack)));
            if !further.is_empty() {
                let place = inputs.len() + values.len();
                saved.reserve_exact(place + further.len() - saved.len());
                saved.resize(place, None);
                further.iter().for_each(|t| saved.push(t.as_ref().map(pack)));
            }
        }
        Reads::Each(lists) => {
            for (list, _) in lists.iter().zip(&edges).filter(|(_, edge)| edge.is_some()) {
                list.iter().for_each(&mut save);
            }
        }
    }
    let saved = match is_budgeted() {
        true => within_budget(&edges, values, saved, like, None),
        false => Saved::Kept(saved),
    };
    let node = Node::of_results(NodeKind::Function(name, function), edges, values, saved, location());
    note(&node, values);
    node
}

/// Puts a value in its place, if it is not there yet.
fn save(saved: &mut SavedValues, slot: RuleSlot, inputs: &[&Var], values: &[Tensor], like: &Shape) {
    let Some(place) = slot.place(inputs.len()) else { return };
    while saved.len() <= place {
        saved.push(None);
    }
    if saved[place].is_none() {
        saved[place] = Some(match inputs.get(place) {
            Some(input) => Packed::new(&input.value_ref(), like),
            None => Packed::new(&values[place - inputs.len()], like),
        });
    }
}

/// The results as variables, those that have a gradient with their history.
fn variables(values: SmallVec<[Tensor; 1]>, node: Option<&Arc<Node>>) -> SmallVec<[Var; 1]> {
    let var = |(nr, value): (usize, Tensor)| match node {
        Some(node) if value.dtype().is_float() => Var::tracked(value, node.clone(), nr),
        _ => Var::constant(value),
    };
    values.into_iter().enumerate().map(var).collect()
}
