//! The engine: takes ready nodes in descending order of their numbers and sends gradients along their edges.
//!
//! Note [Order]
//! A node is numbered when it is recorded, after all nodes it depends on. So the largest number among the nodes that
//! have received a gradient belongs to one that nothing outstanding can still contribute to: a map ordered by number
//! is at once the queue and the place where gradients wait to be added up. No counting pass is needed.

mod batch;
mod deliver;
mod describe;
mod queue;
#[cfg(test)]
pub(crate) mod trace;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::anomaly;
use crate::error::Result;
use crate::gradient::{add_in_place, dense};
use crate::hooks::Hooks;
use crate::levels::deeper;
use crate::mode::GradMode;
use crate::node::{Edge, Node, next_number};
use crate::profile;
use crate::var::{Var, VarKind, expect_fit};
pub(crate) use batch::{aligned, leading};
pub(crate) use deliver::{Job, in_backward, in_function, in_sum};
pub(crate) use describe::{choose, record_formula};
use queue::{Queue, Ready};

/// How a backward pass is to run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) retain_graph: bool,
    pub(crate) create_graph: bool,
}

#[cfg(test)]
thread_local! {
    /// How many nodes passes of this thread have visited.
    pub(crate) static VISITED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// One backward pass.
pub(crate) struct GraphTask {
    pub(crate) options: Options,
    ready: Queue,
    /// where gradients are to be caught: node number and output, to the index of the caller's input
    captures: HashMap<(u64, u32), Vec<usize>>,
    /// the nodes that lead to a captured one; all, if there is nothing to capture
    path: Option<Arc<HashSet<u64>>>,
    /// whether a captured leaf also gets its gradient (a `backward` limited to inputs) or not (`grad`)
    accumulate: bool,
    /// how many gradients each value has, along a leading axis; such a pass captures what it computes
    pub(crate) batch: Option<usize>,
    caught: Vec<Option<Var>>,
    /// gradients of leaves and retained ones, written when everything has succeeded
    staged: Vec<(Arc<Node>, u32, Var)>,
    /// whether every gradient is looked at, see `anomaly`
    looks: bool,
}

impl GraphTask {
    pub(crate) fn new(options: Options) -> GraphTask {
        GraphTask {
            options,
            ready: Queue::default(),
            captures: HashMap::new(),
            path: None,
            accumulate: true,
            batch: None,
            caught: Vec::new(),
            staged: Vec::new(),
            looks: anomaly::is_anomaly_enabled(),
        }
    }

    /// Limits the pass to these inputs: only nodes on the way to them run. With `accumulate` the gradients are left
    /// in the variables, else they are returned.
    pub(crate) fn limit_to(&mut self, roots: &[Edge], inputs: &[Edge], accumulate: bool) {
        self.accumulate = accumulate;
        self.caught = vec![None; inputs.len()];
        for (i, edge) in inputs.iter().enumerate() {
            self.captures.entry((edge.node.sequence, edge.nr)).or_default().push(i);
        }
        let targets: HashSet<u64> = inputs.iter().map(|e| e.node.sequence).collect();
        let lowest = targets.iter().min().copied().unwrap_or(u64::MAX);
        self.path = Some(Arc::new(nodes_towards(roots, lowest, |number| targets.contains(&number))));
    }

    /// Runs all nodes from the roots, commits the gradients of leaves and returns what was caught.
    pub(crate) fn run(mut self, roots: &[Edge]) -> Result<Vec<Option<Var>>> {
        deeper(move || {
            let _mode = GradMode::set(self.options.create_graph);
            if self.looks {
                self.run_looking(roots)?;
            }
            while let Some(ready) = self.ready.pop() {
                self.evaluate(ready)?;
            }
            // What can fail comes before the first gradient changes, and while no cell is locked; also for a leaf that has a
            // gradient now, since another thread may take it away.
            for (node, _, grad) in &mut self.staged {
                if node.as_leaf().is_some() {
                    dense(grad).map_err(|e| in_sum(roots, node, e))?;
                }
            }
            for (node, nr, grad) in self.staged.drain(..) {
                match node.as_leaf() {
                    Some(leaf) => drop(leaf.grad.update(|place| add_in_place(place, grad))),
                    None => Hooks::store(&node, nr, grad),
                }
            }
            Ok(self.caught)
        })
    }

    /// Runs all nodes in anomaly mode.
    fn run_looking(&mut self, roots: &[Edge]) -> Result<()> {
        for root in roots {
            if let Some(seed) = self.waiting_at(root) {
                anomaly::expect_finite_given("the seed", &root.node, seed)?;
            }
        }
        while let Some(ready) = self.ready.pop() {
            let (node, first) = (ready.node.clone(), next_number());
            self.evaluate(ready)?;
            for (input, edge) in node.next_edges.iter().enumerate() {
                if let Some(grad) = edge.as_ref().and_then(|edge| self.waiting_at(edge)) {
                    anomaly::remember_origin(&node, first, grad);
                    anomaly::expect_finite(&node, input, grad)?;
                }
            }
        }
        Ok(())
    }

    /// Hooks, captures, then the node's own function.
    fn evaluate(&mut self, ready: Ready) -> Result<()> {
        let Ready { node, mut buffer } = ready;
        let _span = profile::backward(&node);
        if self.path.as_ref().is_some_and(|p| !p.contains(&node.sequence)) {
            return Ok(());
        }
        #[cfg(test)]
        VISITED.set(VISITED.get() + 1);
        if node.hooks.get().is_some() || !self.captures.is_empty() || node.as_leaf().is_some() {
            self.visit(&node, &mut buffer)?;
            // Such a pass captures something at every node.
            if let Some(count) = self.batch {
                return self.call_batched(&node, &buffer, count);
            }
        }
        if !node.next_edges.iter().flatten().any(|edge| self.is_on_path(edge)) {
            return Ok(());
        }
        self.call_function(&node, &buffer)
    }

    /// Whether an edge leads to a variable whose gradient is wanted.
    fn is_on_path(&self, edge: &Edge) -> bool {
        is_on_path(&self.path, edge)
    }

    /// Runs the hooks of a node, and keeps its gradients for the caller and for those who will look for them.
    fn visit(&mut self, node: &Arc<Node>, buffer: &mut [Option<Var>]) -> Result<()> {
        for (nr, slot) in buffer.iter_mut().enumerate() {
            let Some(mut grad) = slot.take() else { continue };
            let mut kept = node.as_leaf().is_some_and(|leaf| leaf.requires_grad.load(Ordering::Relaxed));
            if let Some(hooks) = node.hooks.get().filter(|_| self.batch.is_some()) {
                grad = self.run_hooks_batched(node, hooks, nr as u32, &grad)?;
            } else if let Some(hooks) = node.hooks.get() {
                let (replaced, retain) = hooks.run(nr as u32, grad)?;
                expect_fit("a gradient replaced by a hook", &node.metadata[nr], &replaced.value_ref())?;
                if self.looks {
                    anomaly::expect_finite_given("what a hook returned", node, &replaced)?;
                }
                (grad, kept) = (self.own(replaced), kept || retain);
            }
            let inputs = self.captures.get(&(node.sequence, nr as u32));
            inputs.into_iter().flatten().for_each(|&i| self.caught[i] = Some(grad.clone()));
            // A pass that is limited leaves gradients in the leaves that it is limited to.
            kept &= self.path.is_none() || node.as_leaf().is_none();
            let staged = self.accumulate && (kept || inputs.is_some());
            // Nothing comes after a leaf.
            if node.as_leaf().is_none() {
                *slot = Some(grad.clone());
            }
            if staged {
                self.staged.push((node.clone(), nr as u32, grad));
            }
        }
        Ok(())
    }

    /// A gradient that was handed in, by a hook for instance, as a value of its own: it may be a leaf, which changes, or
    /// have a history that nobody asked for.
    #[inline]
    fn own(&self, grad: Var) -> Var {
        match &grad.kind {
            VarKind::Constant(_) => grad,
            _ if self.options.create_graph => grad.snapshot(),
            _ => grad.detach(),
        }
    }
}

fn is_on_path(path: &Option<Arc<HashSet<u64>>>, edge: &Edge) -> bool {
    path.as_ref().is_none_or(|p| p.contains(&edge.node.sequence))
}

/// The numbers, from `lowest` on, of all nodes from which a target can be reached, targets included. Iterative, in
/// linear time.
fn nodes_towards(roots: &[Edge], lowest: u64, is_target: impl Fn(u64) -> bool) -> HashSet<u64> {
    let mut leads: HashSet<u64> = HashSet::new();
    let mut seen: HashSet<u64> = HashSet::new();
    // A node is pushed twice: to visit its inputs, and afterwards to look at what they found.
    let mut stack: Vec<(Arc<Node>, bool)> = roots.iter().map(|e| (e.node.clone(), false)).collect();
    while let Some((node, visited)) = stack.pop() {
        let inputs = || node.next_edges.iter().flatten();
        if visited {
            let leads_on = |number: u64| leads.contains(&number) || is_target(number);
            if is_target(node.sequence) || inputs().any(|e| leads_on(e.node.sequence)) {
                leads.insert(node.sequence);
            }
        } else if node.sequence >= lowest && seen.insert(node.sequence) {
            let next: Vec<Arc<Node>> = inputs().map(|e| e.node.clone()).collect();
            stack.push((node, true));
            stack.extend(next.into_iter().map(|n| (n, false)));
        }
    }
    leads
}
