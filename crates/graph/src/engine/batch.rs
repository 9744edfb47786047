//! A pass with many gradients at once, along a leading axis: every node is visited once.
//!
//! Note [Leading axis]
//! A gradient of shape `[.., 3]` is one of shape `[n, .., 3]` here. A row's formula is evaluated once, over all of them:
//! what it reads broadcasts. So is a function that says it is right for them (`Describe::leads`): it counts axes from the
//! back, or has them moved (`Lead`). Any other function, such as a user's, describes its gradients once for each of the `n`.
//! A hook sees them one by one.

use std::sync::Arc;

use foldback_tensor::{BroadcastWarning, Tensor, broadcast_warning};
use smallvec::SmallVec;

use super::deliver::{InputGradients, deliver};
use super::describe::{choose, operands};
use super::job::{Job, place};
use super::{GraphTask, is_wanted};
use crate::error::Result;
use crate::gradient::add_to;
use crate::hooks::{Gradients, Hooks};
use crate::lead::Lead;
use crate::mode::LineGuard;
use crate::node::rule::{Rule, RuleKernel};
use crate::node::{Context, Describe, Flow, InputMetadata, Node, NodeKind, Var, VarKind};
use crate::saved::Unpacked;

impl GraphTask {
    /// Runs a node with `count` gradients for each of its outputs that has any.
    #[inline(never)]
    pub(super) fn call_batched(
        &mut self,
        node: &Arc<Node>,
        grads: &[Option<Var>],
        count: usize,
    ) -> Result<()> {
        let _line = LineGuard::set(node.location);
        // The axis of the gradients stands before all others, and they broadcast against what has none.
        let meant = || broadcast_warning(BroadcastWarning::Off);
        match (&node.kind, &grads[0]) {
            // Of one output, which has received its gradients, or one that hands them on.
            (NodeKind::Function(_, function), _) if function.leads() => {
                let _guard = meant();
                self.run_function(node, &**function, grads)
            }
            (NodeKind::Function(_, function), _) => self.function_repeated(node, &**function, grads, count),
            (NodeKind::Rule(rule, params), Some(_)) if self.options.create_graph => {
                let _guard = meant();
                self.record_rule(node, rule, params, grads)
            }
            (NodeKind::Rule(rule, params), Some(g)) => self.rule_batched(node, rule, params, g),
            (NodeKind::Rule(..), None) | (NodeKind::AccumulateGrad(_), _) => Ok(()),
        }
    }

    /// A row: each formula over all gradients, straight into the shape of its input.
    fn rule_batched(
        &mut self,
        node: &Arc<Node>,
        rule: &'static Rule,
        params: &[f64; 2],
        g: &Var,
    ) -> Result<()> {
        let mut unpacked = Unpacked::default();
        let values = node.unpack(self.options.retain_graph, &mut self.again, &mut unpacked)?;
        for (input, (gradient, edge)) in rule.gradients.iter().zip(&node.next_edges).enumerate() {
            let (Some(edge), Some(gradient)) = (edge, gradient) else { continue };
            if !self.is_on_path(edge) {
                continue;
            }
            let Some(formula) = gradient.formula else {
                self.deliver(node, &[input], Job::Value(&mut Some(g.clone())))?;
                continue;
            };
            let g = g.value_ref();
            let reads = operands(gradient.reads, &g, values);
            self.deliver(node, &[input], Job::Kernel(&RuleKernel { formula, params }, &reads))?;
        }
        Ok(())
    }

    /// Any other function, for each of its gradients.
    fn function_repeated(
        &mut self,
        node: &Arc<Node>,
        function: &dyn Describe,
        grads: &[Option<Var>],
        count: usize,
    ) -> Result<()> {
        #[cfg(test)]
        super::trace::note_long_way("batched", node);
        let mut unpacked = Unpacked::default();
        let values = node.unpack(self.options.retain_graph, &mut self.again, &mut unpacked)?;
        let path = self.path.clone();
        let wanted = |input: usize| is_wanted(&path, node, input);
        let mut found: Vec<Gradients> = Vec::with_capacity(count);
        for index in 0..count {
            let one = |g: &Option<Var>| g.as_ref().map(|g| at(g, index)).transpose();
            let grads = grads.iter().map(one).collect::<Result<SmallVec<[Option<Var>; 1]>>>()?;
            let retain = self.options.retain_graph || index + 1 < count;
            let ctx = Context {
                node,
                grads: &grads,
                values,
                wanted: &wanted,
                mood: self.mood(),
                retain,
                lead: Lead(None),
                tangents: None,
            };
            let mut these = vec![None; node.next_edges.len()];
            let mut take = |Flow { to, work }: Flow<'_>| {
                choose(self.mood(), Some(node), &to, work, |inputs, job| {
                    deliver(&mut these, node, inputs, job, Lead(None))
                })
            };
            function.describe(&ctx, &mut take).map_err(|e| node.in_backward(e))?;
            found.push(these);
        }
        for input in 0..node.next_edges.len() {
            let Some((edge, meta)) = place(node, input) else { continue };
            let list = found.iter_mut().map(|these| these[input].take()).collect();
            if let Some(g) = joined_with_zeros(list, meta)? {
                let g = self.own(g);
                add_to(self.slot(input, edge), g);
            }
        }
        Ok(())
    }

    /// The hooks of an output see one gradient after another.
    pub(super) fn run_hooks_batched(
        &mut self,
        node: &Node,
        hooks: &Hooks,
        nr: usize,
        grad: &Var,
        count: usize,
    ) -> Result<(Var, bool)> {
        let (mut seen, mut retained) = (Vec::new(), false);
        for index in 0..count {
            let (replaced, retain) = self.run_hooks(node, hooks, nr, at(grad, index)?, index)?;
            retained |= retain;
            seen.push(replaced);
        }
        Ok((if seen.is_empty() { grad.clone() } else { joined(&seen)? }, retained))
    }
}

/// One of the gradients along the leading axis.
pub(super) fn at(g: &Var, index: usize) -> Result<Var> {
    match &g.kind {
        VarKind::Constant(t) => Ok(Var::constant(t.select(0, index)?)),
        _ => g.select(0, index),
    }
}

/// Gradients along a new leading axis.
fn joined(list: &[Var]) -> Result<Var> {
    if list.iter().all(|g| matches!(g.kind, VarKind::Constant(_))) {
        let values: Vec<Tensor> = list.iter().map(Var::value).collect();
        return Ok(Var::constant(Tensor::stack(&values, 0)?));
    }
    Var::stack(list, 0)
}

/// The same with zeros for those that are missing; none if all are.
pub(super) fn joined_with_zeros(list: Vec<Option<Var>>, meta: &InputMetadata) -> Result<Option<Var>> {
    if list.iter().all(Option::is_none) {
        return Ok(None);
    }
    let zeros = || Tensor::try_zeros_with(&meta.shape, meta.dtype).map(Var::constant);
    let list = list.into_iter().map(|g| g.map_or_else(zeros, Ok)).collect::<Result<Vec<_>>>()?;
    joined(&list).map(Some)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use foldback_tensor::{Tensor, tensor};

    use crate::engine::VISITED;
    use crate::{Result, Var, jacobian};

    fn visits(f: impl FnOnce()) -> usize {
        let before = VISITED.get();
        f();
        VISITED.get() - before
    }

    #[test]
    fn a_jacobian_of_many_outputs_visits_each_node_once() {
        let w = Tensor::ones([40, 3]);
        let f = |x: &Var| -> Result<Var> { x.linear(&w, None)?.tanh().softmax(0)?.cumsum(0)?.mul(2.0) };
        for count in [1, 7, 40] {
            let shape = Cell::new(0);
            let once = visits(|| {
                let j = jacobian(|x| f(x)?.narrow(0, 0, count), &tensor![0.1, 0.2, 0.3]).unwrap();
                shape.set(j.shape().dims()[0]);
            });
            // The leaf, and six operations.
            assert_eq!((shape.get(), once), (count, 7));
        }
    }
}
