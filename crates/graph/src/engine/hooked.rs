//! What happens at a node besides its function: hooks, and gradients that are kept for those who will look for them.
//! See Note [Order of hooks].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::GraphTask;
use super::queue::Buffer;
use crate::error::{GraphFacts, Result};
use crate::hooks::{Gathering, Gradients, Hooks};
use crate::node::{Edge, InputMetadata, Node};
use crate::var::{Var, VarKind, expect_fit};
use foldback_tensor::refuse;

impl GraphTask {
    /// Runs the hooks of a node's outputs, and keeps its gradients.
    pub(super) fn visit(&mut self, node: &Arc<Node>, buffer: &mut Buffer, roots: &[Edge]) -> Result<()> {
        for (nr, slot) in buffer.iter_mut().enumerate() {
            let Some(mut grad) = slot.take() else { continue };
            let mut kept = node.as_leaf().is_some_and(|leaf| leaf.requires_grad.load(Ordering::Relaxed));
            if let Some(hooks) = node.hooks.get() {
                let gather = |hook: &_, place, g: &_| Gathering::meet(&mut self.gatherings, hook, place, g);
                let (replaced, retain) = hooks.run(nr as u32, grad, gather)?;
                expect_fit("a gradient replaced by a hook", &node.metadata[nr], &replaced.value_ref())?;
                (grad, kept) = (self.own(replaced), kept || retain);
            }
            let inputs = self.captures.get(&(node.sequence, nr as u32));
            if !self.accumulate {
                inputs.into_iter().flatten().for_each(|&i| self.caught[i] = Some(grad.clone()));
            }
            // A pass that is limited leaves gradients in the leaves that it is limited to.
            kept &= self.path.is_none() || node.as_leaf().is_none();
            let staged = self.accumulate && (kept || inputs.is_some());
            // Nothing comes after a leaf.
            if node.as_leaf().is_none() {
                *slot = Some(grad.clone());
            }
            match node.hooks.get() {
                _ if !staged => {}
                Some(hooks) if hooks.follow() => {
                    self.accumulate(node, hooks, grad, roots)?;
                }
                _ => self.staged.push((node.clone(), nr as u32, grad)),
            }
        }
        Ok(())
    }

    /// Writes the gradient of a leaf that does not wait for the end of the pass, and runs the hooks that follow.
    fn accumulate(&self, node: &Arc<Node>, hooks: &Hooks, mut grad: Var, roots: &[Edge]) -> Result<()> {
        super::fit_for_leaf(node, &mut grad, roots)?;
        super::write(node, 0, grad);
        let leaf = Var { kind: VarKind::Leaf(node.clone()) };
        hooks.accumulated().iter().try_for_each(|hook| hook(&leaf))
    }

    /// Runs a node's function between its pre-hooks and its post-hooks.
    #[cold]
    pub(super) fn call_between_hooks(
        &mut self,
        node: &Arc<Node>,
        hooks: &Hooks,
        mut grads: Buffer,
    ) -> Result<()> {
        self.run_prehooks(node, hooks, &mut grads)?;
        if grads.iter().all(Option::is_none) {
            return Ok(());
        }
        let after = hooks.after();
        if after.is_empty() {
            return self.call_function(node, &grads);
        }
        self.collected = Some(vec![None; node.next_edges.len()]);
        let done = self.call_function(node, &grads);
        let mut inputs = self.collected.take().unwrap_or_default();
        done?;
        for hook in after {
            if let Some(new) = hook(&inputs, &grads)? {
                expect_count(node, "post-hook", inputs.len(), &new)?;
                let edges = node.next_edges.iter().map(Option::as_ref);
                let of = edges.map(|edge| edge.map(|edge| &edge.node.metadata[edge.nr as usize]));
                self.replace(&mut inputs, new, of)?;
            }
        }
        for (edge, grad) in node.next_edges.iter().zip(inputs) {
            if let (Some(edge), Some(grad)) = (edge, grad) {
                self.add(edge, grad);
            }
        }
        Ok(())
    }

    fn run_prehooks(&self, node: &Node, hooks: &Hooks, grads: &mut Buffer) -> Result<()> {
        for hook in hooks.before() {
            if let Some(new) = hook(grads)? {
                expect_count(node, "pre-hook", grads.len(), &new)?;
                self.replace(grads, new, node.metadata.iter().map(Some))?;
            }
        }
        Ok(())
    }

    /// Puts what a hook returned in the place of gradients; what has no place to go is left out.
    fn replace<'m>(
        &self,
        grads: &mut [Option<Var>],
        new: Gradients,
        of: impl Iterator<Item = Option<&'m InputMetadata>>,
    ) -> Result<()> {
        for ((old, new), meta) in grads.iter_mut().zip(new).zip(of) {
            *old = match (new, meta) {
                (Some(new), Some(meta)) => {
                    expect_fit("a gradient replaced by a hook", meta, &new.value_ref())?;
                    Some(self.own(new))
                }
                _ => None,
            };
        }
        Ok(())
    }

    /// A gradient that was handed in, by a hook for instance, as a value of its own: it may be a leaf, which changes, or
    /// have a history that nobody asked for.
    #[inline]
    pub(super) fn own(&self, grad: Var) -> Var {
        match &grad.kind {
            VarKind::Constant(_) => grad,
            _ if self.options.create_graph => grad.snapshot(),
            _ => grad.detach(),
        }
    }
}

fn expect_count(node: &Node, hook: &'static str, expected: usize, new: &Gradients) -> Result<()> {
    if new.len() == expected {
        return Ok(());
    }
    let (op, found, location) = (node.name(), new.len(), node.location);
    refuse(GraphFacts::HookGradients { op, hook, expected, found, location })
}
