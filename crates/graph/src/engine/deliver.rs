//! The last step of a gradient: folded to the shape of its input, cast to its type, added to what waits there. Nothing
//! else in this crate does any of this for a gradient on its way.

use foldback_tensor::kernel::{self, BlockKernel, Target};
use foldback_tensor::{DType, Shape, Tensor};
use smallvec::SmallVec;

use super::GraphTask;
use super::job::{Job, in_gradient, place};
use crate::error::{Error, Result};
use crate::gradient::{add_taken, add_tensors, add_to};
use crate::hooks::Gradients;
use crate::lead::Lead;
use crate::node::{Edge, InputMetadata, Node, Var, VarKind};
use crate::numbered::Numbers;

/// Where the gradients of a node's inputs are added up.
pub(super) trait InputGradients {
    /// What waits for an input.
    fn slot(&mut self, input: usize, edge: &Edge) -> &mut Option<Var>;
}

/// Of a node's inputs, each by itself, although two may be one variable.
impl InputGradients for Gradients {
    fn slot(&mut self, input: usize, _: &Edge) -> &mut Option<Var> {
        &mut self[input]
    }
}

/// Of the nodes that edges lead to, or of the inputs of a node whose post-hooks see them first.
impl InputGradients for GraphTask {
    #[inline]
    fn slot(&mut self, input: usize, edge: &Edge) -> &mut Option<Var> {
        match &mut self.collected {
            None => &mut self.ready.entry(&edge.node).buffer[edge.nr],
            Some(collected) => &mut collected[input],
        }
    }
}

impl GraphTask {
    /// [`deliver`] of what the running node has for some of its inputs.
    #[inline]
    pub(super) fn deliver(&mut self, node: &Node, inputs: &[usize], job: Job<'_>) -> Result<()> {
        #[cfg(test)]
        super::trace::note(node, inputs, &job);
        match job {
            Job::Value(g) if g.as_ref().is_some_and(|g| !matches!(g.kind, VarKind::Constant(_))) => {
                self.deliver_recorded(node, inputs, g)
            }
            job => deliver(self, node, inputs, job, Lead(self.batch)),
        }
    }

    /// A value with a history, or a leaf.
    #[inline(never)]
    fn deliver_recorded(&mut self, node: &Node, inputs: &[usize], g: &mut Option<Var>) -> Result<()> {
        let mut own = g.take().map(|g| self.own(g));
        deliver(self, node, inputs, Job::Value(&mut own), Lead(self.batch))
    }

    /// Adds a gradient that fits to what waits for an edge.
    #[inline]
    pub(crate) fn wait(&mut self, edge: &Edge, grad: Var) {
        let grad = self.own(grad);
        add_to(&mut self.ready.entry(&edge.node).buffer[edge.nr], grad);
    }

    /// What waits for an edge, to be looked at.
    pub(super) fn waiting_at(&mut self, edge: &Edge) -> Option<&Var> {
        self.ready.get_mut(edge.node.sequence)?.buffer[edge.nr].as_ref()
    }
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
#[inline]
pub(super) fn deliver(
    gradients: &mut impl InputGradients,
    node: &Node,
    inputs: &[usize],
    job: Job<'_>,
    lead: Lead,
) -> Result<()> {
    if inputs.len() > 1
        && let Job::Kernel(kernel, reads) = job
    {
        return deliver_jointly(gradients, node, inputs, (kernel, reads), lead);
    }
    let input = inputs[0];
    let Some((edge, meta)) = place(node, input) else { return Ok(()) };
    let slot = gradients.slot(input, edge);
    let done = match lead {
        Lead(None) => add_fitted(slot, node, meta, &meta.shape, job),
        _ => add_behind(slot, node, meta, job, lead),
    };
    done.map_err(|e| in_gradient(node, input, e))
}

/// Computes a gradient in a shape, and adds it to what waits. Compiled into its callers: what is to be computed, and what has
/// been, are large, and a call would move them.
#[inline(always)]
fn add_fitted(
    slot: &mut Option<Var>,
    node: &Node,
    meta: &InputMetadata,
    shape: &Shape,
    job: Job<'_>,
) -> Result<()> {
    let dtype = meta.dtype;
    let fits = |own: &Shape, of: DType| own == shape && of == dtype;
    let onto = |prior: Option<Tensor>| Target { shape, dtype: Some(dtype), prior };
    // Each arm hands on what it has: a place where all of them meet would have it moved once more.
    match job {
        Job::Value(g) if g.as_ref().is_some_and(|g| fits(g.shape(), g.dtype())) => add_taken(slot, g),
        Job::Shared(t) if fits(t.shape(), t.dtype()) => match slot {
            None => *slot = Some(Var::constant(t.clone())),
            Some(Var { kind: VarKind::Constant(sum) }) => add_tensors(sum, t),
            _ => add_to(slot, Var::constant(t.clone())),
        },
        Job::Kernel(kernel, reads) => {
            if let Some(Var { kind: VarKind::Constant(sum) }) = slot
                && kernel::folded(kernel, reads, sum)
            {
                return Ok(());
            }
            let sum = kernel::fold_to(node.name(), kernel, reads, onto(prior(slot)))?;
            add_to(slot, Var::constant(sum));
        }
        Job::Product(a, b) => {
            let sum = kernel::matmul_to("matmul", a, b, onto(prior(slot)))?;
            add_to(slot, Var::constant(sum));
        }
        Job::Part(part) => {
            let sum = match prior(slot) {
                Some(prior) => Var::constant(part.added_to(prior)?),
                None => part.whole()?,
            };
            add_to(slot, sum);
        }
        job => return add_folded(slot, meta, shape, job),
    }
    Ok(())
}

/// Folds and casts a value, which stays compressed as long as it can, and adds it to what waits.
#[inline(never)]
fn add_folded(slot: &mut Option<Var>, meta: &InputMetadata, shape: &Shape, job: Job<'_>) -> Result<()> {
    let sum = |slot: &mut _, t: &Tensor| {
        // In another type it is cast before it is added.
        let prior = if t.dtype() == meta.dtype { prior(slot) } else { None };
        kernel::sum_onto("sum_to_size", t, Target { shape, dtype: Some(meta.dtype), prior })
            .map(Var::constant)
    };
    let grad = match job {
        Job::Shared(t) => sum(slot, t),
        Job::Value(g) => match g.take() {
            None => return Ok(()),
            Some(Var { kind: VarKind::Constant(t) }) => sum(slot, &t),
            Some(g) => {
                let folded = if g.shape() == shape { Ok(g) } else { g.sum_to_size(shape.clone()) };
                folded.and_then(|g| g.try_to(meta.dtype))
            }
        },
        Job::Part(_) | Job::Product(..) | Job::Kernel(..) => {
            unreachable!("what is computed is so in the shape")
        }
    };
    add_to(slot, grad?);
    Ok(())
}

/// The same of a gradient behind a leading axis, which is computed with axes of size 1 in between where it has more than the
/// input.
#[inline(never)]
fn add_behind(
    slot: &mut Option<Var>,
    node: &Node,
    meta: &InputMetadata,
    job: Job<'_>,
    lead: Lead,
) -> Result<()> {
    let shape = lead.shape(&meta.shape);
    if let Job::Part(_) = job {
        return add_fitted(slot, node, meta, &shape, job);
    }
    let mut own = None;
    let aligned = lead.aligned(&meta.shape, job.rank().saturating_sub(1));
    add_fitted(&mut own, node, meta, &aligned, job)?;
    if let Some(g) = own {
        add_to(slot, if aligned == shape { g } else { g.reshape(&shape)? });
    }
    Ok(())
}

/// The gradients of several inputs, in one read of what they share.
#[inline(never)]
fn deliver_jointly(
    gradients: &mut impl InputGradients,
    node: &Node,
    inputs: &[usize],
    (kernel, reads): (&dyn BlockKernel, &[&Tensor]),
    lead: Lead,
) -> Result<()> {
    let fits = |&i: &usize| {
        place(node, i).is_some_and(|(_, own)| own.shape == *reads[0].shape() && own.dtype == reads[0].dtype())
    };
    if lead.axes() == 0
        && inputs.iter().all(fits)
        && let are_first = inputs
            .iter()
            .filter_map(|&i| Some((i, place(node, i)?.0)))
            .all(|(i, edge)| gradients.slot(i, edge).is_none())
        && let Some(computed) = kernel::computed(kernel, reads, (inputs.len(), are_first))
    {
        let edges = inputs.iter().filter_map(|&i| Some((i, place(node, i)?.0)));
        for ((input, edge), g) in edges.zip(computed) {
            add_to(gradients.slot(input, edge), Var::constant(g));
        }
        return Ok(());
    }
    let rank = Job::Kernel(kernel, reads).rank().saturating_sub(lead.axes());
    let fit =
        |&i: &usize| place(node, i).map(|(edge, meta)| (i, edge, meta, lead.aligned(&meta.shape, rank)));
    let places: SmallVec<[_; 3]> = inputs.iter().filter_map(fit).collect();
    let mut targets = SmallVec::new();
    for (input, edge, meta, shape) in &places {
        let prior = if lead.axes() == 0 { prior(gradients.slot(*input, edge)) } else { None };
        targets.push(Target { shape, dtype: Some(meta.dtype), prior });
    }
    let sums = kernel::fold_jointly(node.name(), kernel, reads, targets)
        .map_err(|e| in_gradient(node, inputs[0], e))?;
    for ((input, edge, meta, aligned), sum) in places.into_iter().zip(sums) {
        let (g, shape) = (Var::constant(sum), lead.shape(&meta.shape));
        // Two inputs may be one variable: what the first one got waits for the second.
        add_to(gradients.slot(input, edge), if aligned == shape { g } else { g.reshape(&shape)? });
    }
    Ok(())
}

/// Takes what waits, for a computation that adds to it. What has a history stays: it would be lost.
#[inline]
fn prior(slot: &mut Option<Var>) -> Option<Tensor> {
    match slot {
        Some(Var { kind: VarKind::Constant(_) }) => match slot.take()?.kind {
            VarKind::Constant(t) => Some(t),
            _ => None,
        },
        _ => None,
    }
}

/// Says in which operation's gradient that of a leaf was refused, once it was summed: in the earliest of those that the leaf
/// is an operand of, which came last.
#[cold]
pub(crate) fn in_sum(roots: &[Edge], leaf: &Node, source: Error) -> Error {
    let (mut stack, mut seen): (Vec<&Node>, Numbers) =
        (roots.iter().map(|e| &*e.node).collect(), Numbers::default());
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
