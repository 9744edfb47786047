//! The last step of a gradient: folded to the shape of its input, cast to its type, added to what waits there. Nothing
//! else in this crate does any of this for a gradient on its way.

use std::collections::HashSet;

use foldback_tensor::Tensor;
use foldback_tensor::kernel::{self, BlockKernel, Target};
use smallvec::SmallVec;

use super::GraphTask;
use super::job::{Job, fitted, in_gradient, place};
use crate::error::{Error, Result};
use crate::gradient::{add_gradients, add_tensors};
use crate::node::{Edge, InputMetadata, Node, Part, Var, VarKind};

impl GraphTask {
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
    pub(super) fn deliver(&mut self, node: &Node, inputs: &[usize], job: Job<'_>) -> Result<()> {
        #[cfg(test)]
        super::trace::note(node, inputs, &job);
        if self.collected.is_some() {
            return self.collect(node, inputs, job);
        }
        match job {
            Job::Value(g) => {
                let Some((edge, meta)) = place(node, inputs[0]) else { return Ok(()) };
                let fits = matches!(&g.kind, VarKind::Constant(t) if *t.shape() == meta.shape && t.dtype() == meta.dtype);
                if fits {
                    self.add(edge, g);
                } else {
                    self.fit(edge, meta, g).map_err(|e| in_gradient(node, inputs[0], e))?;
                }
            }
            Job::Shared(g) => {
                let Some((edge, meta)) = place(node, inputs[0]) else { return Ok(()) };
                if *g.shape() == meta.shape && g.dtype() == meta.dtype {
                    let slot = self.slot(edge);
                    *slot = Some(match slot.take() {
                        Some(Var { kind: VarKind::Constant(waiting) }) => {
                            Var::constant(add_tensors(waiting, g))
                        }
                        Some(waiting) => waiting + g,
                        None => Var::constant(g.clone()),
                    });
                } else {
                    let g = Var::constant(g.clone());
                    self.fit(edge, meta, g).map_err(|e| in_gradient(node, inputs[0], e))?;
                }
            }
            Job::Part(part) => self.add_part(node, inputs[0], part)?,
            Job::Product(a, b) => {
                let Some((edge, meta)) = place(node, inputs[0]) else { return Ok(()) };
                let sum = kernel::matmul_to("matmul", a, b, self.target(edge, meta))
                    .map_err(|e| in_gradient(node, inputs[0], e))?;
                self.put(edge, sum);
            }
            Job::Kernel(kernel, reads) => match inputs {
                &[input] => {
                    let Some((edge, meta)) = place(node, input) else { return Ok(()) };
                    let sum = kernel::fold_to(node.name(), kernel, reads, self.target(edge, meta))
                        .map_err(|e| in_gradient(node, input, e))?;
                    self.put(edge, sum);
                }
                _ => self.deliver_jointly(node, inputs, kernel, reads)?,
            },
        }
        Ok(())
    }

    /// Adds what is zero but for a part to what waits, if anything does: the rest of that is not touched.
    pub(super) fn add_part(&mut self, node: &Node, input: usize, part: &Part) -> Result<()> {
        let Some((edge, _)) = place(node, input) else { return Ok(()) };
        match self.waiting(edge) {
            Some(waiting) => self.put(edge, part.added_to(waiting)?),
            None => self.add(edge, part.whole()?),
        }
        Ok(())
    }

    /// Keeps gradients for the node's post-hooks, each by itself: two inputs may be one variable.
    #[cold]
    fn collect(&mut self, node: &Node, inputs: &[usize], job: Job<'_>) -> Result<()> {
        for (&input, g) in inputs.iter().zip(fitted(node, inputs, job, None)?) {
            if let Some(collected) = &mut self.collected {
                let waiting = collected[input].take();
                collected[input] = Some(match waiting {
                    Some(waiting) => add_gradients(waiting, g),
                    None => g,
                });
            }
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
        let edges: SmallVec<[_; 3]> = inputs.iter().filter_map(|&i| place(node, i)).collect();
        let targets = edges.iter().map(|&(edge, meta)| self.target(edge, meta)).collect();
        let sums = kernel::fold_jointly(node.name(), kernel, reads, targets)
            .map_err(|e| in_gradient(node, inputs[0], e))?;
        for ((edge, _), sum) in edges.into_iter().zip(sums) {
            // Two inputs may be one variable: what the first one got waits for the second.
            self.add(edge, Var::constant(sum));
        }
        Ok(())
    }

    /// Folds and casts a value, which stays compressed as long as it can, and adds it to what waits.
    #[inline(never)]
    fn fit(&mut self, edge: &Edge, meta: &InputMetadata, g: Var) -> Result<()> {
        let (shape, recorded) = (&meta.shape, self.options.create_graph);
        let fitted = match &g.kind {
            // In the input's own type, it is summed onto what waits in one pass.
            VarKind::Constant(t) if !recorded && t.dtype() == meta.dtype => {
                let sum = kernel::sum_onto("sum_to_size", t, self.target(edge, meta))?;
                self.put(edge, sum);
                return Ok(());
            }
            VarKind::Constant(t) => {
                let target = Target { dtype: Some(meta.dtype), ..Target::of(shape) };
                Var::constant(kernel::sum_onto("sum_to_size", t, target)?)
            }
            _ => {
                let folded = if *g.shape() == *shape { g } else { g.sum_to_size(shape.clone())? };
                if folded.dtype() == meta.dtype { folded } else { folded.to(meta.dtype) }
            }
        };
        self.add(edge, fitted);
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
    fn put(&mut self, edge: &Edge, sum: Tensor) {
        *self.slot(edge) = Some(Var::constant(sum));
    }

    /// What a gradient for an edge is to look like, with what waits there as its prior.
    #[inline]
    fn target<'m>(&mut self, edge: &Edge, meta: &'m InputMetadata) -> Target<'m> {
        Target { shape: &meta.shape, dtype: Some(meta.dtype), prior: self.waiting(edge) }
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

    /// What waits for an edge, to be looked at.
    pub(super) fn waiting_at(&mut self, edge: &Edge) -> Option<&Var> {
        self.ready.get_mut(edge.node.sequence)?.buffer[edge.nr as usize].as_ref()
    }

    #[inline]
    fn slot(&mut self, edge: &Edge) -> &mut Option<Var> {
        &mut self.ready.entry(&edge.node).buffer[edge.nr as usize]
    }
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
