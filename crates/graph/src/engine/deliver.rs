//! The last step of a gradient: folded to the shape of its input, cast to its type, added to what waits there. Nothing
//! else in this crate does any of this for a gradient on its way.

use foldback_tensor::kernel::{self, BlockKernel, Target};
use foldback_tensor::{Shape, Tensor};
use smallvec::SmallVec;

use super::GraphTask;
use crate::error::{Error, Result};
use crate::gradient::add_gradients;
use crate::node::{Edge, InputMetadata, Node};
use crate::var::{Var, VarKind};

/// A gradient as it is to be computed, see Note [Described work]: what is left of `Work` once the pass has chosen.
pub(super) enum Job<'a> {
    Value(Var),
    /// a matrix product
    Product(&'a Tensor, &'a Tensor),
    /// a kernel over what it reads, with an output per input
    Kernel(&'a dyn BlockKernel, &'a [&'a Tensor]),
}

impl GraphTask {
    /// Makes the gradients of some inputs of a node fit them, and adds them to what waits there (PyTorch's
    /// `validate_outputs`):
    ///
    /// 1. a value of the right shape passes;
    /// 2. one whose shape the input could have broadcast to is folded with `sum_to`;
    /// 3. a product or a kernel is evaluated straight into the wanted shape, together with what waits;
    /// 4. anything else is an error;
    /// 5. the type is cast to the input's.
    #[inline]
    pub(super) fn deliver(&mut self, node: &Node, inputs: &[usize], job: Job<'_>) -> Result<()> {
        match job {
            Job::Value(g) => {
                let Some((edge, meta)) = target(node, inputs[0]) else { return Ok(()) };
                let fits = matches!(&g.kind, VarKind::Constant(t) if *t.shape() == meta.shape && t.dtype() == meta.dtype);
                let fitted =
                    if fits { g } else { fit(g, meta).map_err(|e| in_gradient(node, inputs[0], e))? };
                self.add(edge, fitted);
            }
            Job::Product(a, b) => {
                let Some((edge, meta)) = target(node, inputs[0]) else { return Ok(()) };
                let prior = self.waiting(edge);
                let sum = kernel::matmul_to("matmul", a, b, &meta.shape, prior)
                    .map_err(|e| in_gradient(node, inputs[0], e.into()))?;
                self.put(edge, sum)?;
            }
            Job::Kernel(kernel, reads) => match inputs {
                &[input] => {
                    let Some((edge, meta)) = target(node, input) else { return Ok(()) };
                    let prior = self.waiting(edge);
                    let sum = kernel::fold_to(node.name(), kernel, reads, &meta.shape, prior)
                        .map_err(|e| in_gradient(node, input, e.into()))?;
                    self.put(edge, sum)?;
                }
                _ => self.deliver_jointly(node, inputs, kernel, reads)?,
            },
        }
        Ok(())
    }

    /// The gradients of several inputs, in one read of what they share.
    #[inline(never)]
    fn deliver_jointly(
        &mut self,
        node: &Node,
        inputs: &[usize],
        kernel: &dyn BlockKernel,
        reads: &[&Tensor],
    ) -> Result<()> {
        let edges: SmallVec<[_; 3]> = inputs.iter().filter_map(|&i| target(node, i)).collect();
        let targets =
            edges.iter().map(|(edge, meta)| Target { shape: &meta.shape, prior: self.waiting(edge) });
        let targets = targets.collect();
        let sums = kernel::fold_jointly(node.name(), kernel, reads, targets)
            .map_err(|e| in_gradient(node, inputs[0], e.into()))?;
        for ((edge, meta), sum) in edges.into_iter().zip(sums) {
            // Two inputs may be one variable: what the first one got waits for the second.
            self.add(edge, Var::constant(sum.try_to_dtype(meta.dtype)?));
        }
        Ok(())
    }

    /// Adds a gradient that fits to what waits for an edge.
    #[inline]
    pub(crate) fn add(&mut self, edge: &Edge, grad: Var) {
        let grad = self.own(grad);
        let slot = self.slot(edge);
        *slot = Some(match slot.take() {
            Some(waiting) => add_gradients(waiting, grad),
            None => grad,
        });
    }

    /// Puts a sum in the place of what waited, which is in it.
    #[inline]
    fn put(&mut self, edge: &Edge, sum: Tensor) -> Result<()> {
        let meta = &edge.node.metadata[edge.nr as usize];
        let sum = if sum.dtype() == meta.dtype { sum } else { sum.try_to_dtype(meta.dtype)? };
        *self.slot(edge) = Some(Var::constant(sum));
        Ok(())
    }

    /// Takes what waits for an edge, to be added in the pass that computes the next gradient. Only where nothing is
    /// recorded: a history would be lost.
    #[inline]
    fn waiting(&mut self, edge: &Edge) -> Option<Tensor> {
        let ready = self.ready.get_mut(edge.node.sequence)?;
        match ready.buffer[edge.nr as usize].take()?.kind {
            VarKind::Constant(t) => Some(t),
            _ => unreachable!("what waits in a pass that is not recorded has no history"),
        }
    }

    #[inline]
    fn slot(&mut self, edge: &Edge) -> &mut Option<Var> {
        &mut self.ready.entry(&edge.node).buffer[edge.nr as usize]
    }
}

/// The edge that an input's gradient leaves by, and what it must look like.
#[inline]
fn target(node: &Node, input: usize) -> Option<(&Edge, &InputMetadata)> {
    let edge = node.next_edges[input].as_ref()?;
    Some((edge, &edge.node.metadata[edge.nr as usize]))
}

/// Folds and casts a value, which stays compressed as long as it can.
#[inline(never)]
fn fit(g: Var, meta: &InputMetadata) -> Result<Var> {
    let folded = match &g.kind {
        VarKind::Constant(t) if *t.shape() != meta.shape => Var::constant(t.sum_to(&meta.shape)?),
        VarKind::Constant(_) => g,
        _ if g.shape() == meta.shape => g,
        _ => g.sum_to(meta.shape.clone())?,
    };
    match &folded.kind {
        _ if folded.dtype() == meta.dtype => Ok(folded),
        VarKind::Constant(t) => Ok(Var::constant(t.try_to_dtype(meta.dtype)?)),
        _ => Ok(folded.to_dtype(meta.dtype)),
    }
}

/// Says in which operation's gradient something went wrong; a shape that cannot be folded is an error of its own.
fn in_gradient(node: &Node, input: usize, source: Error) -> Error {
    match source {
        Error::Tensor(foldback_tensor::Error::Expand { from, to, .. }) => misfit(node, input, from, to),
        other => in_backward(node, other),
    }
}

/// A gradient of a shape that the input cannot have broadcast to.
fn misfit(node: &Node, input: usize, expected: Shape, found: Shape) -> Error {
    Error::GradientShape { op: node.name(), input, expected, found, location: node.location }
}

/// Says in which operation's gradient something went wrong. A user's own error stays as it is.
pub(super) fn in_backward(node: &Node, source: Error) -> Error {
    match source {
        Error::Tensor(_) => {
            Error::Backward { op: node.name(), location: node.location, source: Box::new(source) }
        }
        other => other,
    }
}
