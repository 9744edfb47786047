//! Runs a node: has it describe its gradients, chooses the form that is for now or the one that is recorded, and hands
//! each to `deliver`.

use std::sync::Arc;

use foldback_tensor::kernel::{BlockKernel, JointKernel};
use foldback_tensor::{DType, GRAIN, Tensor};
use smallvec::SmallVec;

use super::deliver::{Job, in_backward};
use super::{GraphTask, is_on_path};
use crate::error::Result;
use crate::folded::{is_worth_it, record_folded};
use crate::mode::LineGuard;
use crate::node::{Node, NodeKind, Unpacked};
use crate::rule::{Gradient, Rule, RuleKernel, Slot};
use crate::var::{Var, VarKind};
use crate::work::{Context, Describe, Flow, Mood, Work};

impl GraphTask {
    /// Runs a node that has received a gradient for one of its outputs at least.
    pub(super) fn call_function(&mut self, node: &Arc<Node>, grads: &[Option<Var>]) -> Result<()> {
        match (&node.kind, &grads[0]) {
            (NodeKind::Function(_, function), _) => self.run_function(node, &**function, grads),
            // A row of formulas has one output. Without recording, they need neither a line nor a list.
            (NodeKind::Rule(rule, params), Some(Var { kind: VarKind::Constant(g) }))
                if !self.options.create_graph =>
            {
                self.run_rule(node, rule, params, g)
            }
            (NodeKind::Rule(rule, params), Some(_)) => self.record_rule(node, rule, params, grads),
            (NodeKind::Rule(..), None) | (NodeKind::AccumulateGrad(_), _) => Ok(()),
        }
    }

    fn run_function(
        &mut self,
        node: &Arc<Node>,
        function: &dyn Describe,
        grads: &[Option<Var>],
    ) -> Result<()> {
        let _line = LineGuard::set(node.location);
        let values = node.unpack(self.options.retain_graph)?;
        let path = self.path.clone();
        let wanted = |input: usize| {
            node.next_edges.get(input).and_then(Option::as_ref).is_some_and(|edge| is_on_path(&path, edge))
        };
        let retain = self.options.retain_graph;
        let ctx = Context { node, grads, values: &values, wanted: &wanted, retain };
        let mut take = |Flow { inputs, work }: Flow<'_>| match self.mood() {
            Mood::Now => self.work(node, &inputs, work),
            Mood::Recorded => self.record(node, &inputs, work),
        };
        function.describe(&ctx, &mut take).map_err(|e| in_backward(node, e))
    }

    fn mood(&self) -> Mood {
        if self.options.create_graph { Mood::Recorded } else { Mood::Now }
    }

    fn work(&mut self, node: &Node, inputs: &[usize], work: Work<'_>) -> Result<()> {
        match work {
            Work::Value(g) => self.deliver(node, inputs, Job::Value(g)),
            Work::Either(form) => self.deliver(node, inputs, Job::Value(form(Mood::Now)?)),
            Work::Product(a, b) => self.deliver(node, inputs, Job::Product(&a.value_ref(), &b.value_ref())),
            Work::Pointwise(formula, reads) => {
                let values: SmallVec<[Tensor; 4]> = reads.iter().map(Var::value).collect();
                let values: SmallVec<[&Tensor; 4]> = values.iter().collect();
                self.deliver(node, inputs, Job::Kernel(&*formula.kernel(inputs), &values))
            }
        }
    }

    fn record(&mut self, node: &Node, inputs: &[usize], work: Work<'_>) -> Result<()> {
        let g = match work {
            Work::Value(g) => g,
            Work::Either(form) => form(Mood::Recorded)?,
            Work::Product(a, b) => a.matmul(&b)?,
            Work::Pointwise(formula, reads) => {
                for (&input, g) in inputs.iter().zip(formula.record(node, reads, inputs)?) {
                    self.deliver(node, &[input], Job::Value(g))?;
                }
                return Ok(());
            }
        };
        self.deliver(node, inputs, Job::Value(g))
    }

    /// Evaluates the formulas of a row: each straight into the shape of its input, or several of them together.
    fn run_rule(
        &mut self,
        node: &Arc<Node>,
        rule: &'static Rule,
        params: &[f64; 2],
        g: &Tensor,
    ) -> Result<()> {
        let saved = node.unpack(self.options.retain_graph)?;
        if rule.gradients.len() > 1
            && let Some(joint) = self.joint(node, rule, params, g, &saved)
        {
            let reads: SmallVec<[&Tensor; 4]> =
                joint.slots.iter().map(|slot| operand(slot, g, &saved)).collect();
            let job = Job::Kernel(&JointKernel(&joint.outputs()), &reads);
            return self.deliver(node, &joint.inputs, job);
        }
        for (input, (gradient, edge)) in rule.gradients.iter().zip(&node.next_edges).enumerate() {
            let (Some(edge), Some(gradient)) = (edge, gradient) else { continue };
            if !self.is_on_path(edge) {
                continue;
            }
            let Some(formula) = gradient.formula else {
                self.deliver(node, &[input], Job::Shared(g))?;
                continue;
            };
            let mut reads: SmallVec<[&Tensor; 4]> = SmallVec::new();
            gradient.reads.iter().for_each(|slot| reads.push(operand(slot, g, &saved)));
            self.deliver(node, &[input], Job::Kernel(&RuleKernel { formula, params }, &reads))?;
        }
        Ok(())
    }

    /// What formulas of a row read together. None where reading it once would be no gain: there is one gradient to
    /// compute, or little, or `g` is compressed, so that each formula had better be evaluated where its own operands
    /// move.
    fn joint<'a>(
        &self,
        node: &Node,
        rule: &'static Rule,
        params: &'a [f64; 2],
        g: &Tensor,
        saved: &Unpacked,
    ) -> Option<Joint<'a>> {
        if g.numel() <= GRAIN || !g.is_contiguous() {
            return None;
        }
        let mut joint = Joint { inputs: SmallVec::new(), slots: SmallVec::new(), formulas: SmallVec::new() };
        for (input, edge) in node.next_edges.iter().enumerate() {
            let Some(edge) = edge else { continue };
            // One that passes, or is not wanted, costs nothing as it is.
            let Some(Some(Gradient { reads, formula: Some(formula), .. })) = rule.gradients.get(input) else {
                return None;
            };
            if !self.is_on_path(edge) {
                return None;
            }
            joint.push(input, RuleKernel { formula: *formula, params }, reads);
        }
        // Apart, each formula is computed in the type of its own operands.
        let alike = joint.slots.iter().all(|slot| operand(slot, g, saved).dtype() == g.dtype());
        (joint.inputs.len() > 1 && alike).then_some(joint)
    }

    /// Records the formulas of a row, computed in the operation's type as the kernels are.
    fn record_rule(
        &mut self,
        node: &Arc<Node>,
        rule: &'static Rule,
        params: &[f64; 2],
        grads: &[Option<Var>],
    ) -> Result<()> {
        let _line = LineGuard::set(node.location);
        let values = node.unpack(self.options.retain_graph)?;
        let retain = self.options.retain_graph;
        let ctx = Context { node, grads, values: &values, wanted: &|_| true, retain };
        let dtype = node.metadata[0].dtype;
        for (input, (gradient, edge)) in rule.gradients.iter().zip(&node.next_edges).enumerate() {
            let (Some(edge), Some(gradient)) = (edge, gradient) else { continue };
            if !self.is_on_path(edge) {
                continue;
            }
            let recorded = match gradient.formula {
                None => Ok(ctx.grad(0)),
                Some(formula) => {
                    let read = |slot: &Slot| match ctx.value(*slot) {
                        v if v.dtype() == DType::Bool || v.dtype() == dtype => v,
                        v => v.to(dtype),
                    };
                    let reads: SmallVec<[Var; 4]> = gradient.reads.iter().map(read).collect();
                    let reads: SmallVec<[&Var; 4]> = reads.iter().collect();
                    let (to, params) = (&edge.metadata().shape, *params);
                    let trace = move |reads: &[&Var]| formula.trace(&params, reads);
                    if is_worth_it(&node.metadata[0].shape, to) {
                        let kernel = RuleKernel { formula, params: &params };
                        record_folded(rule.name, &kernel, &reads, to, trace)
                    } else {
                        trace(&reads)
                    }
                    .map_err(|e| in_backward(node, e))
                }
            };
            self.deliver(node, &[input], Job::Value(recorded?))?;
        }
        Ok(())
    }
}

/// What a formula reads, as a tensor.
fn operand<'a>(slot: &Slot, g: &'a Tensor, saved: &'a Unpacked) -> &'a Tensor {
    match slot {
        Slot::Grad(_) => g,
        _ => saved.get(*slot).expect("a row saves what it names"),
    }
}

/// The formulas of several inputs, and everything that they read together.
struct Joint<'a> {
    inputs: SmallVec<[usize; 3]>,
    slots: SmallVec<[Slot; 4]>,
    /// a kernel, and the places of what it reads among the operands of all
    formulas: SmallVec<[(RuleKernel<'a>, SmallVec<[usize; 4]>); 2]>,
}

impl<'a> Joint<'a> {
    fn push(&mut self, input: usize, kernel: RuleKernel<'a>, reads: &[Slot]) {
        let reads = reads.iter().map(|slot| self.place(*slot)).collect();
        self.inputs.push(input);
        self.formulas.push((kernel, reads));
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
