//! The last step of a gradient: folded to the shape of its input, cast to its type, added to what waits there. Nothing
//! else in this crate does any of this for a gradient on its way.

use std::borrow::Cow;
use std::collections::HashSet;

use foldback_tensor::kernel::{self, BlockKernel, Target};
use foldback_tensor::{Shape, Tensor};
use smallvec::SmallVec;

use super::GraphTask;
use super::job::{Job, in_gradient, place};
use crate::error::{Error, Result};
use crate::gradient::{add_gradients, add_tensors};
use crate::hooks::Gradients;
use crate::lead::Lead;
use crate::node::{Edge, InputMetadata, Node, Var, VarKind};

/// Where the gradients of a node's inputs are added up.
pub(super) trait InputGradients {
    /// Takes what waits for an input, to be added in the pass that computes the next gradient.
    fn take(&mut self, input: usize, edge: &Edge) -> Option<Var>;
    /// Adds a gradient that fits the input.
    fn add(&mut self, input: usize, edge: &Edge, grad: Var);

    /// What waits, for a computation in this shape that adds to it. What has a history stays, which would be lost, and so does
    /// what stands behind a leading axis without those of size 1 between.
    #[inline]
    fn prior(&mut self, input: usize, edge: &Edge, shape: &Shape) -> Option<Tensor> {
        let waiting = self.take(input, edge)?;
        match waiting.kind {
            VarKind::Constant(t) if t.shape() == shape => Some(t),
            _ => {
                self.add(input, edge, waiting);
                None
            }
        }
    }
}

/// Of a node's inputs, each by itself, although two may be one variable.
impl InputGradients for Gradients {
    fn take(&mut self, input: usize, _: &Edge) -> Option<Var> {
        self[input].take()
    }

    fn add(&mut self, input: usize, _: &Edge, grad: Var) {
        add_to(&mut self[input], grad);
    }
}

/// Of the nodes that edges lead to, or of the inputs of a node whose post-hooks see them first.
impl InputGradients for GraphTask {
    #[inline]
    fn take(&mut self, input: usize, edge: &Edge) -> Option<Var> {
        match &mut self.collected {
            None => self.ready.get_mut(edge.node.sequence)?.buffer[edge.nr as usize].take(),
            Some(collected) => collected.take(input, edge),
        }
    }

    #[inline]
    fn add(&mut self, input: usize, edge: &Edge, grad: Var) {
        match &mut self.collected {
            None => self.wait(edge, grad),
            Some(collected) => collected.add(input, edge, grad),
        }
    }
}

impl GraphTask {
    /// [`deliver`] of what the running node has for some of its inputs.
    #[inline]
    pub(super) fn deliver(&mut self, node: &Node, inputs: &[usize], job: Job<'_>) -> Result<()> {
        #[cfg(test)]
        super::trace::note(node, inputs, &job);
        deliver(self, node, inputs, job, Lead(self.batch))
    }

    /// Adds a gradient that fits to what waits for an edge.
    #[inline]
    pub(crate) fn wait(&mut self, edge: &Edge, grad: Var) {
        let grad = self.own(grad);
        add_to(&mut self.ready.entry(&edge.node).buffer[edge.nr as usize], grad);
    }

    /// What waits for an edge, to be looked at.
    pub(super) fn waiting_at(&mut self, edge: &Edge) -> Option<&Var> {
        self.ready.get_mut(edge.node.sequence)?.buffer[edge.nr as usize].as_ref()
    }
}

#[inline]
fn add_to(place: &mut Option<Var>, grad: Var) {
    *place = Some(match place.take() {
        Some(waiting) => add_gradients(waiting, grad),
        None => grad,
    });
}

/// Makes the gradients of some inputs of a node fit them, and adds them to what waits there (PyTorch's
/// `validate_outputs`):
///
/// 1. a value of the right shape passes;
/// 2. one whose shape the input could have broadcast to is summed down to it, in one pass onto what waits if the type
///    is the input's;
/// 3. a product or a kernel is evaluated straight into the wanted shape, together with what waits;
/// 4. what is zero but for a part is added to that part of what waits;
/// 5. anything else is an error;
/// 6. the type is cast to the input's.
///
/// Behind a leading axis there are axes of size 1 while a gradient is computed, where it has more than the input.
#[inline]
pub(super) fn deliver(
    waiting: &mut impl InputGradients,
    node: &Node,
    inputs: &[usize],
    job: Job<'_>,
    lead: Lead,
) -> Result<()> {
    let input = inputs[0];
    let Some((edge, meta)) = place(node, input) else { return Ok(()) };
    let shape = fitting(meta, &job, lead);
    let onto = |prior: Option<Tensor>| Target { shape: &shape, dtype: Some(meta.dtype), prior };
    let sum = |waiting: &mut _, t: &Tensor| {
        // In another type it is cast before it is added.
        let prior =
            if t.dtype() == meta.dtype { InputGradients::prior(waiting, input, edge, &shape) } else { None };
        kernel::sum_onto("sum_to_size", t, onto(prior)).map(Var::constant)
    };
    let grad = match job {
        Job::Value(g) if *g.shape() == *shape && g.dtype() == meta.dtype => Ok(g),
        Job::Value(Var { kind: VarKind::Constant(t) }) => sum(waiting, &t),
        Job::Value(g) => {
            let folded = if *g.shape() == *shape { Ok(g) } else { g.sum_to_size(shape.clone().into_owned()) };
            folded.and_then(|g| g.try_to(meta.dtype))
        }
        Job::Shared(t) if *t.shape() == *shape && t.dtype() == meta.dtype => {
            Ok(Var::constant(match waiting.prior(input, edge, &shape) {
                Some(prior) => add_tensors(prior, t),
                None => t.clone(),
            }))
        }
        Job::Shared(t) => sum(waiting, t),
        Job::Part(part) => match waiting.prior(input, edge, &part.shape) {
            Some(prior) => part.added_to(prior).map(Var::constant),
            None => part.whole(),
        },
        Job::Product(a, b) => {
            kernel::matmul_to("matmul", a, b, onto(waiting.prior(input, edge, &shape))).map(Var::constant)
        }
        Job::Kernel(kernel, reads) if inputs.len() > 1 => {
            return deliver_jointly(waiting, node, inputs, (kernel, reads), lead);
        }
        Job::Kernel(kernel, reads) => {
            kernel::fold_to(node.name(), kernel, reads, onto(waiting.prior(input, edge, &shape)))
                .map(Var::constant)
        }
    };
    let grad = grad.and_then(|g| behind(lead, meta, g)).map_err(|e| in_gradient(node, input, e))?;
    waiting.add(input, edge, grad);
    Ok(())
}

/// The gradients of several inputs, in one read of what they share.
#[inline(never)]
fn deliver_jointly(
    waiting: &mut impl InputGradients,
    node: &Node,
    inputs: &[usize],
    (kernel, reads): (&dyn BlockKernel, &[&Tensor]),
    lead: Lead,
) -> Result<()> {
    let job = Job::Kernel(kernel, reads);
    let fit = |&i: &usize| place(node, i).map(|(edge, meta)| (i, edge, meta, fitting(meta, &job, lead)));
    let places: SmallVec<[_; 3]> = inputs.iter().filter_map(fit).collect();
    let mut targets = SmallVec::new();
    for (input, edge, meta, shape) in &places {
        targets.push(Target { shape, dtype: Some(meta.dtype), prior: waiting.prior(*input, edge, shape) });
    }
    let sums = kernel::fold_jointly(node.name(), kernel, reads, targets)
        .map_err(|e| in_gradient(node, inputs[0], e))?;
    for ((input, edge, meta, _), sum) in places.into_iter().zip(sums) {
        // Two inputs may be one variable: what the first one got waits for the second.
        waiting.add(input, edge, behind(lead, meta, Var::constant(sum))?);
    }
    Ok(())
}

/// The shape that a gradient is computed in.
#[inline]
fn fitting<'m>(meta: &'m InputMetadata, job: &Job<'_>, lead: Lead) -> Cow<'m, Shape> {
    match lead {
        Lead(None) => Cow::Borrowed(&meta.shape),
        _ => Cow::Owned(lead.aligned(&meta.shape, job.rank().saturating_sub(1))),
    }
}

/// A gradient without the axes between the leading one and the input's.
#[inline]
fn behind(lead: Lead, meta: &InputMetadata, g: Var) -> Result<Var> {
    if lead.axes() == 0 {
        return Ok(g);
    }
    let shape = lead.shape(&meta.shape);
    if *g.shape() == shape { Ok(g) } else { g.reshape(&shape) }
}

/// Says in which operation's gradient that of a leaf was refused, once it was summed: in the earliest of those that the leaf
/// is an operand of, which came last.
#[cold]
pub(crate) fn in_sum(roots: &[Edge], leaf: &Node, source: Error) -> Error {
    let (mut stack, mut seen): (Vec<&Node>, HashSet<u64>) =
        (roots.iter().map(|e| &*e.node).collect(), HashSet::new());
    let mut last: Option<&Node> = None;
    while let Some(node) = stack.pop() {
        for next in node.next_edges.iter().flatten().map(|e| &*e.node) {
            if next.sequence == leaf.sequence && last.is_none_or(|last| node.sequence < last.sequence) {
                last = Some(node);
            } else if next.sequence > leaf.sequence && seen.insert(next.sequence) {
                stack.push(next);
            }
        }
    }
    match last {
        Some(node) => node.in_backward(source.named(node.name())),
        None => source.named("backward").with_location(None),
    }
}
