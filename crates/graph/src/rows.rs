//! The backward step of a row of pointwise formulas: each evaluated straight into the shape of its input, or several of
//! them together.

use std::sync::Arc;

use foldback_tensor::kernel::{self, BlockKernel, JointKernel};
use foldback_tensor::{GRAIN, Tensor};
use smallvec::SmallVec;

use crate::engine::{GraphTask, in_backward, misfit, misfold};
use crate::error::Result;
use crate::gradient::{add_gradients, add_tensors, fit};
use crate::node::{Edge, Node, Unpacked};
use crate::table::{Gradient, RowKernel, Rule, Slot};
use crate::var::{Var, VarKind};

impl GraphTask {
    /// Evaluates the formulas of a row straight into the shapes of the inputs, adding what waits there already.
    pub(crate) fn run_rule(
        &mut self,
        node: &Arc<Node>,
        rule: &'static Rule,
        params: &[f64; 2],
        g: &Tensor,
    ) -> Result<()> {
        let saved = node.unpack(self.options.retain_graph)?;
        if rule.gradients.len() > 1 && self.run_jointly(node, rule, params, g, &saved)? {
            return Ok(());
        }
        for (input, (gradient, edge)) in rule.gradients.iter().zip(&node.next_edges).enumerate() {
            let (Some(edge), Some(gradient)) = (edge, gradient) else { continue };
            if !self.is_on_path(edge) {
                continue;
            }
            let meta = &edge.node.metadata[edge.nr as usize];
            if gradient.formula.is_none() && *g.shape() == meta.shape && g.dtype() == meta.dtype {
                let slot = self.slot(edge);
                *slot = Some(match slot.take() {
                    None => Var::constant(g.clone()),
                    Some(Var { kind: VarKind::Constant(sum) }) => Var::constant(add_tensors(sum, g)),
                    Some(waiting) => add_gradients(waiting, Var::constant(g.clone())),
                });
                continue;
            }
            let Some(formula) = gradient.formula else {
                let fitted = fit(Var::constant(g.clone()), meta, &|found| misfit(node, input, meta, found))?;
                self.seed(edge, fitted);
                continue;
            };
            let mut operands: SmallVec<[&Tensor; 4]> = SmallVec::new();
            gradient.reads.iter().for_each(|slot| operands.push(operand(slot, g, &saved)));
            let prior = self.waiting(edge);
            let kernel = RowKernel { formula, params };
            let sum = kernel::fold_to(rule.name, &kernel, &operands, &meta.shape, prior)
                .map_err(|e| misfold(node, input, meta, e))?;
            let sum = if sum.dtype() == meta.dtype { sum } else { sum.to_dtype(meta.dtype) };
            *self.slot(edge) = Some(Var::constant(sum));
        }
        Ok(())
    }

    /// Evaluates several formulas of a row in one read of what they name. Returns `false`, and has done nothing, where
    /// that would be no gain: there is one gradient to compute, or little, or `g` is compressed, so that each formula
    /// had better be evaluated where its own operands move.
    fn run_jointly(
        &mut self,
        node: &Arc<Node>,
        rule: &'static Rule,
        params: &[f64; 2],
        g: &Tensor,
        saved: &Unpacked,
    ) -> Result<bool> {
        if g.numel() <= GRAIN || !g.is_contiguous() {
            return Ok(false);
        }
        let wanted: SmallVec<[(usize, &Edge); 3]> = (0..rule.gradients.len())
            .filter(|&i| rule.gradients[i].as_ref().is_some_and(|g| g.formula.is_some()))
            .filter_map(|i| Some((i, node.next_edges[i].as_ref()?)))
            .filter(|(_, edge)| self.is_on_path(edge))
            .collect();
        if wanted.len() < 2 || wanted.len() < node.next_edges.iter().flatten().count() {
            return Ok(false);
        }
        let joint = Joint::new(rule, params, wanted.iter().map(|w| w.0));
        let operands: SmallVec<[&Tensor; 4]> =
            joint.slots.iter().map(|slot| operand(slot, g, saved)).collect();
        // Apart, each formula is computed in the type of its own operands.
        if operands.iter().any(|t| t.dtype() != g.dtype()) {
            return Ok(false);
        }
        let targets = wanted.iter().map(|(_, edge)| {
            let shape = &edge.node.metadata[edge.nr as usize].shape;
            kernel::Target { shape, prior: self.waiting(edge) }
        });
        let targets = targets.collect();
        let sums = kernel::fold_jointly(node.name(), &JointKernel(&joint.outputs()), &operands, targets)
            .map_err(|e| in_backward(node, e.into()))?;
        for ((_, edge), sum) in wanted.into_iter().zip(sums) {
            let meta = &edge.node.metadata[edge.nr as usize];
            // Both inputs may be one variable.
            self.seed(edge, Var::constant(sum.to_dtype(meta.dtype)));
        }
        Ok(true)
    }
}

/// What a formula takes, as a tensor.
fn operand<'a>(slot: &Slot, g: &'a Tensor, saved: &'a Unpacked) -> &'a Tensor {
    match slot {
        Slot::Grad(_) => g,
        _ => saved.get(*slot).expect("a row saves what it names"),
    }
}

/// A kernel, and the places of what it reads among the operands of all.
type Output<'a> = (RowKernel<'a>, SmallVec<[usize; 4]>);

/// Some formulas of a row, and everything that they take together.
struct Joint<'a> {
    slots: SmallVec<[Slot; 4]>,
    formulas: SmallVec<[Output<'a>; 2]>,
}

impl<'a> Joint<'a> {
    fn new(rule: &'static Rule, params: &'a [f64; 2], gradients: impl Iterator<Item = usize>) -> Joint<'a> {
        let mut joint = Joint { slots: SmallVec::new(), formulas: SmallVec::new() };
        for i in gradients {
            let Some(Gradient { reads, formula: Some(formula), .. }) = &rule.gradients[i] else { continue };
            let reads = reads.iter().map(|slot| joint.place(*slot)).collect();
            joint.formulas.push((RowKernel { formula: *formula, params }, reads));
        }
        joint
    }

    fn place(&mut self, slot: Slot) -> usize {
        self.slots.iter().position(|s| *s == slot).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        })
    }

    fn outputs(&self) -> SmallVec<[(&dyn BlockKernel, &[usize]); 2]> {
        self.formulas.iter().map(|(kernel, reads)| (kernel as &dyn BlockKernel, &reads[..])).collect()
    }
}
