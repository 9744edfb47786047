//! What happens at a node besides its function: hooks, and gradients that are kept for those who will look for them.
//! See Note [Order of hooks].

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldback_tensor::refuse;

use super::GraphTask;
use super::batch::{at, joined_with_zeros};
use super::job::place;
use super::queue::Buffer;
use crate::error::{GraphFacts, Result};
use crate::hooks::{Gathering, Gradients, Hooks, Registered};
use crate::node::{Edge, InputMetadata, Node, Var, VarKind};

impl GraphTask {
    /// Runs the hooks of a node's outputs, and keeps its gradients.
    pub(super) fn visit(&mut self, node: &Arc<Node>, buffer: &mut Buffer, roots: &[Edge]) -> Result<()> {
        for (nr, slot) in buffer.iter_mut().enumerate() {
            let Some(mut grad) = slot.take() else { continue };
            let mut kept = node.as_leaf().is_some_and(|leaf| leaf.requires_grad.load(Ordering::Relaxed));
            if let Some(hooks) = Hooks::at(node) {
                let retain;
                (grad, retain) = match self.batch {
                    Some(count) => self.run_hooks_batched(node, hooks, nr, &grad, count)?,
                    None => self.run_hooks(node, hooks, nr, grad, 0)?,
                };
                kept |= retain;
            }
            let inputs = self.captures.get(&(node.sequence, nr));
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
            match Hooks::at(node) {
                _ if !staged => {}
                Some(hooks) if hooks.follow() => {
                    self.accumulate(node, hooks, grad, roots)?;
                }
                _ => self.staged.push((node.clone(), nr, grad)),
            }
        }
        Ok(())
    }

    /// Runs the hooks of an output on its gradient, the one of this index if the pass has many.
    pub(super) fn run_hooks(
        &mut self,
        node: &Node,
        hooks: &Hooks,
        nr: usize,
        grad: Var,
        index: usize,
    ) -> Result<(Var, bool)> {
        let gather = |hook: &_, place, g: &_| Gathering::meet(&mut self.gatherings, hook, (index, place), g);
        let (replaced, retain) = hooks.run(node, nr, grad, self.looks, gather)?;
        Ok((self.own(replaced), retain))
    }

    /// Writes the gradient of a leaf that does not wait for the end of the pass, and runs the hooks that follow.
    fn accumulate(&self, node: &Arc<Node>, hooks: &Hooks, mut grad: Var, roots: &[Edge]) -> Result<()> {
        super::fit_for_leaf(node, &mut grad, roots)?;
        super::write(node, 0, grad);
        let leaf = Var { kind: VarKind::Leaf(node.clone()) };
        hooks.accumulated().iter().try_for_each(|hook| hook(&leaf))
    }

    /// Runs a node whose outputs have been looked at, with its own hooks, for however many gradients.
    pub(super) fn call_visited(&mut self, node: &Arc<Node>, grads: Buffer) -> Result<()> {
        if !node.next_edges.iter().flatten().any(|edge| self.is_on_path(edge)) {
            return Ok(());
        }
        match Hooks::at(node) {
            Some(hooks) if hooks.are_on_node() => self.call_between_hooks(node, hooks, grads),
            _ => self.call(node, &grads),
        }
    }

    /// Runs a node's function between its pre-hooks and its post-hooks.
    #[cold]
    pub(super) fn call_between_hooks(
        &mut self,
        node: &Arc<Node>,
        hooks: &Hooks,
        mut grads: Buffer,
    ) -> Result<()> {
        for hook in hooks.before() {
            let of = |nr: usize| Some(&node.metadata[nr]);
            self.replace(node, ("pre-hook", &hook), &mut grads, of, |grads, index| {
                (hook.f)(&one_of(grads, index)?)
            })?;
        }
        if grads.iter().all(Option::is_none) {
            return Ok(());
        }
        let after = hooks.after();
        if after.is_empty() {
            return self.call(node, &grads);
        }
        self.collected = Some(vec![None; node.next_edges.len()]);
        let done = self.call(node, &grads);
        let mut inputs = self.collected.take().unwrap_or_default();
        done?;
        for hook in after {
            let of = |input: usize| place(node, input).map(|(_, meta)| meta);
            self.replace(node, ("post-hook", &hook), &mut inputs, of, |inputs, index| {
                (hook.f)(&one_of(inputs, index)?, &one_of(&grads, index)?)
            })?;
        }
        for (edge, grad) in node.next_edges.iter().zip(inputs) {
            if let (Some(edge), Some(grad)) = (edge, grad) {
                self.wait(edge, grad);
            }
        }
        Ok(())
    }

    /// Runs a node's function, for however many gradients.
    fn call(&mut self, node: &Arc<Node>, grads: &[Option<Var>]) -> Result<()> {
        match self.batch {
            Some(count) => self.call_batched(node, grads, count),
            None => self.call_function(node, grads),
        }
    }

    /// Puts what a hook of the node returns in the place of what it saw: once, or for each of many gradients. What has no
    /// place to go is left out.
    fn replace<'m, F: ?Sized>(
        &self,
        node: &Node,
        (name, hook): (&'static str, &Registered<F>),
        grads: &mut [Option<Var>],
        of: impl Fn(usize) -> Option<&'m InputMetadata>,
        run: impl Fn(&[Option<Var>], Option<usize>) -> Result<Option<Gradients>>,
    ) -> Result<()> {
        let (mut lists, mut changed) = (Vec::new(), false);
        for index in 0..self.batch.unwrap_or(1) {
            let index = self.batch.map(|_| index);
            lists.push(match run(grads, index)? {
                None => one_of(grads, index)?.to_vec(),
                Some(new) => {
                    changed = true;
                    if new.len() != grads.len() {
                        return refuse(GraphFacts::HookGradients {
                            op: node.name(),
                            hook: name,
                            registered: hook.line,
                            expected: grads.len(),
                            found: new.len(),
                            location: node.location,
                        });
                    }
                    let fit = |(nr, g): (usize, Option<Var>)| {
                        let (Some(g), Some(meta)) = (g, of(nr)) else { return Ok(None) };
                        hook.expect_fit(node, meta, &g, self.looks)?;
                        Ok(Some(self.own(g)))
                    };
                    new.into_iter().enumerate().map(fit).collect::<Result<_>>()?
                }
            });
        }
        for (nr, place) in grads.iter_mut().enumerate().filter(|_| changed) {
            let list = lists.iter_mut().map(|list| list[nr].take()).collect();
            *place = match of(nr) {
                Some(meta) if self.batch.is_some() => joined_with_zeros(list, meta)?,
                _ => list.into_iter().flatten().next(),
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

/// Gradients, or those of one index along their leading axis.
fn one_of(grads: &[Option<Var>], index: Option<usize>) -> Result<Cow<'_, [Option<Var>]>> {
    let Some(index) = index else { return Ok(Cow::Borrowed(grads)) };
    let one = |g: &Option<Var>| g.as_ref().map(|g| at(g, index)).transpose();
    grads.iter().map(one).collect::<Result<Vec<_>>>().map(Cow::Owned)
}
