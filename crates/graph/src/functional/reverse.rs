//! Reverse mode for derivatives of functions: gradients of outputs, and the nodes that outputs come from.

use std::sync::Arc;

use foldback_tensor::{Here, Tensor};

use crate::error::Result;
use crate::grad::Grad;
use crate::lead::Lead;
use crate::node::{Edge, Node, Var};
use crate::numbered::Numbers;

/// The gradients of roots that have a history, zeros for what they do not depend on.
pub(super) fn pull(
    roots: &[&Var],
    seeds: &[&Var],
    inputs: &[Var],
    batch: Option<usize>,
    recorded: bool,
) -> Result<Vec<Var>> {
    if roots.is_empty() {
        return zeros(inputs, batch);
    }
    let pass = Grad::new(roots, inputs).seeds(seeds).is_grads_batched(batch.is_some());
    let gradients = pass.retain_graph(true).create_graph(recorded).materialize_grads(true).pass()?;
    Ok(gradients.into_iter().flatten().collect())
}

/// Zeros for each of some values.
pub(super) fn zeros(like: &[Var], batch: Option<usize>) -> Result<Vec<Var>> {
    like.iter().map(|v| zero(v, batch)).collect()
}

/// Zeros of the shape of a value, or of many.
pub(super) fn zero(like: &Var, batch: Option<usize>) -> Result<Var> {
    let shape = Lead(batch).shape(like.shape());
    Tensor::try_zeros_with(shape, like.dtype()).nowhere().map(Var::constant)
}

/// The nodes that some values come from, in order, back to the one with the number `lowest`; and whether anything lies
/// beyond.
pub(super) fn between(ends: &[Option<Edge>], lowest: u64) -> (Vec<Arc<Node>>, bool) {
    let (mut nodes, mut seen, mut beyond) = (Vec::new(), Numbers::default(), false);
    let mut stack: Vec<Arc<Node>> = ends.iter().flatten().map(|e| e.node.clone()).collect();
    while let Some(node) = stack.pop() {
        if node.sequence < lowest {
            beyond = true;
        } else if seen.insert(node.sequence) {
            stack.extend(node.next_edges.iter().flatten().map(|e| e.node.clone()));
            nodes.push(node);
        }
    }
    nodes.sort_unstable_by_key(|n| n.sequence);
    (nodes, beyond)
}
