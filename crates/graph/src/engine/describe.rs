//! Runs a node: has it describe its gradients, chooses the form that is for now or the one that is recorded, and hands
//! each to `deliver`.

use std::sync::Arc;

use foldback_tensor::kernel::{BlockKernel, JointKernel};
use foldback_tensor::{DType, GRAIN, Shape, Tensor};
use smallvec::SmallVec;

use super::folded::{is_worth_it, record_folded};
use super::job::Job;
use super::{GraphTask, is_wanted, nodes_towards};
use crate::error::Result;
use crate::lead::Lead;
use crate::mode::LineGuard;
use crate::node::rule::{Gradient, Rule, RuleFormula, RuleKernel};
use crate::node::{Context, Describe, Edge, Flow, Mood, Node, NodeKind, Var, VarKind, Work};
use crate::saved::Unpacked;
use crate::slot::RuleSlot;

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

    /// A function's gradients, each described once.
    pub(super) fn run_function(
        &mut self,
        node: &Arc<Node>,
        function: &dyn Describe,
        grads: &[Option<Var>],
    ) -> Result<()> {
        let _line = LineGuard::set(node.location);
        let mut unpacked = Unpacked::default();
        let values = node.unpack(self.options.retain_graph, &mut self.again, &mut unpacked)?;
        let (path, mut onward) = (self.path.clone(), Vec::new());
        let wanted = |input: usize| is_wanted(&path, node, input);
        let retain = self.options.retain_graph;
        let lead = Lead(self.batch);
        let mood = self.mood();
        let ctx = Context { node, grads, values, wanted: &wanted, mood, retain, lead, tangents: None };
        // What is folded as it is recorded has no leading axis.
        let folding = self.batch.is_none().then_some(&**node);
        let mut take = |flow: Flow<'_>| match flow.work {
            Work::Onward(grads) => {
                onward = grads;
                Ok(())
            }
            _ => choose(mood, folding, &flow.to, flow.work, |inputs, job| self.deliver(node, inputs, job)),
        };
        function.describe(&ctx, &mut take).map_err(|e| node.in_backward(e))?;
        drop(path);
        if !onward.is_empty() {
            self.go_on(node, onward);
        }
        Ok(())
    }

    /// Goes on in a graph that the node has recorded while it ran.
    #[cold]
    fn go_on(&mut self, node: &Node, grads: Vec<(Edge, Var)>) {
        if let Some(path) = &mut self.path {
            let roots: Vec<Edge> = grads.iter().map(|(edge, _)| edge.clone()).collect();
            let new = nodes_towards(&roots, node.sequence + 1, |number| path.contains(&number));
            Arc::make_mut(path).extend(new);
        }
        grads.iter().for_each(|(edge, g)| self.wait(edge, g.clone()));
    }

    pub(super) fn mood(&self) -> Mood {
        if self.options.create_graph { Mood::Recorded } else { Mood::Now }
    }

    /// Evaluates the formulas of a row: each straight into the shape of its input, or several of them together. W8's backward pass
    /// takes 0.34 of the time that it takes by [`Self::record_rule`] with nothing recorded, W9 0.84, W10 0.93.
    fn run_rule(
        &mut self,
        node: &Arc<Node>,
        rule: &'static Rule,
        params: &[f64; 2],
        g: &Tensor,
    ) -> Result<()> {
        let mut unpacked = Unpacked::default();
        let saved = node.unpack(self.options.retain_graph, &mut self.again, &mut unpacked)?;
        if rule.gradients.len() > 1
            && let Some(joint) = self.joint(node, rule, params, g, saved)
        {
            let reads = operands(&joint.slots, g, saved);
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
            let reads = operands(gradient.reads, g, saved);
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
    pub(super) fn record_rule(
        &mut self,
        node: &Arc<Node>,
        rule: &'static Rule,
        params: &[f64; 2],
        grads: &[Option<Var>],
    ) -> Result<()> {
        let _line = LineGuard::set(node.location);
        let mut unpacked = Unpacked::default();
        let values = node.unpack(self.options.retain_graph, &mut self.again, &mut unpacked)?;
        let retain = self.options.retain_graph;
        let lead = Lead(self.batch);
        let mood = Mood::Recorded;
        let ctx = Context { node, grads, values, wanted: &|_| true, mood, retain, lead, tangents: None };
        for (input, (gradient, edge)) in rule.gradients.iter().zip(&node.next_edges).enumerate() {
            let (Some(edge), Some(gradient)) = (edge, gradient) else { continue };
            if !self.is_on_path(edge) {
                continue;
            }
            let recorded = match gradient.formula {
                None => Ok(ctx.grad(0)),
                Some(formula) => {
                    let to = Some(&edge.metadata().shape)
                        .filter(|to| self.batch.is_none() && is_worth_it(&node.metadata[0].shape, to));
                    record_formula(formula, params, gradient.reads, &ctx, to)
                }
            };
            self.deliver(node, &[input], Job::Value(&mut Some(recorded?)))?;
        }
        Ok(())
    }
}

/// Records a formula of a row over what it reads, in the operation's type; folded to a shape if there is one.
pub(crate) fn record_formula(
    formula: &'static dyn RuleFormula,
    params: &[f64; 2],
    reads: &[RuleSlot],
    ctx: &Context<'_>,
    to: Option<&Shape>,
) -> Result<Var> {
    let dtype = ctx.node.metadata[0].dtype;
    let read = |slot: &RuleSlot| match ctx.value(*slot) {
        v if v.dtype() == DType::Bool || v.dtype() == dtype => v,
        v => v.to(dtype),
    };
    let reads: SmallVec<[Var; 4]> = reads.iter().map(read).collect();
    let reads: SmallVec<[&Var; 4]> = reads.iter().collect();
    let own = *params;
    let trace = move |reads: &[&Var]| formula.trace(&own, reads);
    let kernel = RuleKernel { formula, params };
    let recorded = match to {
        Some(to) => record_folded(ctx.node.name(), &kernel, &reads, to, trace),
        None => trace(&reads),
    };
    recorded.map_err(|e| ctx.node.in_backward(e))
}

/// Turns what is described into what is to be computed: in the form for now, or in the one that is recorded, which is always a
/// value. That is folded for a node which is given, where that is worth it.
#[inline]
pub(crate) fn choose(
    mood: Mood,
    node: Option<&Node>,
    inputs: &[usize],
    work: Work<'_>,
    mut take: impl FnMut(&[usize], Job<'_>) -> Result<()>,
) -> Result<()> {
    let now = mood == Mood::Now;
    // Not together with the mood: what is to be done is large, and a pair of both would be put together first.
    match work {
        Work::Onward(_) => unreachable!("whoever runs a node takes what goes on elsewhere"),
        Work::Value(g) => take(inputs, Job::Value(&mut Some(g))),
        Work::Either(form) => inputs
            .iter()
            .zip(form(mood)?)
            .try_for_each(|(&input, g)| take(&[input], Job::Value(&mut Some(g)))),
        Work::Part(part) if now => take(inputs, Job::Part(&part)),
        Work::Part(part) => take(inputs, Job::Value(&mut Some(part.whole()?))),
        Work::Product(a, b) if now => take(inputs, Job::Product(&a.value_ref(), &b.value_ref())),
        Work::Product(a, b) => take(inputs, Job::Value(&mut Some(a.matmul(&b)?))),
        Work::Kernel(kernel, reads) => take(inputs, Job::Kernel(kernel, reads)),
        Work::Pointwise(formula, reads) if now => {
            let values: SmallVec<[Tensor; 4]> = reads.iter().map(Var::value).collect();
            let values: SmallVec<[&Tensor; 4]> = values.iter().collect();
            formula.with_kernel(inputs, &mut |kernel| take(inputs, Job::Kernel(kernel, &values)))
        }
        Work::Pointwise(formula, reads) => {
            let recorded = formula.record(node, reads, inputs)?;
            inputs.iter().zip(recorded).try_for_each(|(&input, g)| take(&[input], Job::Value(&mut Some(g))))
        }
    }
}

/// What a formula reads, as tensors.
pub(super) fn operands<'a>(
    slots: &[RuleSlot],
    g: &'a Tensor,
    saved: &'a Unpacked,
) -> SmallVec<[&'a Tensor; 4]> {
    let mut few = [g; 4];
    if slots.len() > few.len() {
        return slots.iter().map(|slot| operand(slot, g, saved)).collect();
    }
    // Not one by one: a list notes its length for each. The backward pass of W8 takes 0.94 of the time.
    few.iter_mut().zip(slots).for_each(|(read, slot)| *read = operand(slot, g, saved));
    SmallVec::from_buf_and_len(few, slots.len())
}

/// One of them.
fn operand<'a>(slot: &RuleSlot, g: &'a Tensor, saved: &'a Unpacked) -> &'a Tensor {
    match slot {
        RuleSlot::Grad(_) => g,
        _ => saved.get(*slot).expect("a row saves what it names"),
    }
}

/// The formulas of several inputs, and everything that they read together.
struct Joint<'a> {
    inputs: SmallVec<[usize; 3]>,
    slots: SmallVec<[RuleSlot; 4]>,
    /// a kernel, and the places of what it reads among the operands of all
    formulas: SmallVec<[(RuleKernel<'a>, SmallVec<[usize; 4]>); 2]>,
}

impl<'a> Joint<'a> {
    fn push(&mut self, input: usize, kernel: RuleKernel<'a>, reads: &[RuleSlot]) {
        let reads = reads.iter().map(|slot| self.place(*slot)).collect();
        self.inputs.push(input);
        self.formulas.push((kernel, reads));
    }

    fn place(&mut self, slot: RuleSlot) -> usize {
        self.slots.iter().position(|s| *s == slot).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        })
    }

    fn outputs(&self) -> SmallVec<[(&dyn BlockKernel, &[usize]); 2]> {
        self.formulas.iter().map(|(kernel, reads)| (kernel as &dyn BlockKernel, &reads[..])).collect()
    }
}
