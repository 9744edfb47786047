//! The engine: takes ready nodes in descending order of their numbers and sends gradients along their edges.
//!
//! Note [Order]
//! A node is numbered when it is recorded, after all nodes it depends on. So the largest number among the nodes that
//! have received a gradient belongs to one that nothing outstanding can still contribute to: a map ordered by number
//! is at once the queue and the place where gradients wait to be added up. No counting pass is needed.

mod batch;
mod deliver;
mod describe;
mod early;
mod folded;
mod hooked;
mod job;
mod queue;
#[cfg(test)]
pub(crate) mod trace;

use std::sync::Arc;

use crate::anomaly;
use crate::budget::Recomputed;
use crate::error::Result;
use crate::gradient::{add_in_place, dense};
use crate::hooks::{Callbacks, Gathering, Gradients, Hooks};
use crate::levels::deeper;
use crate::mode::GradMode;
use crate::node::{Edge, Node, Var, next_number};
use crate::numbered::{Numbered, Numbers};
use crate::profile;
pub(crate) use deliver::in_sum;
pub(crate) use describe::{choose, record_formula};
use early::Early;
pub(crate) use folded::{is_worth_it, record_folded};
pub(crate) use job::Job;
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
    pub(crate) captures: Numbered<(u64, usize), Vec<usize>>,
    /// the nodes that lead to a captured one; all, if there is nothing to capture
    pub(crate) path: Option<Arc<Numbers>>,
    /// whether a captured leaf also gets its gradient (a `backward` limited to inputs) or not (`grad`)
    pub(crate) accumulate: bool,
    /// how many gradients each value has, along a leading axis; such a pass captures what it computes
    pub(crate) batch: Option<usize>,
    caught: Vec<Option<Var>>,
    /// gradients of leaves and retained ones, written when everything has succeeded
    staged: Vec<(Arc<Node>, usize, Var)>,
    /// what the running node has given its inputs so far, if it has post-hooks, which see it before they get it
    collected: Option<Gradients>,
    /// leaves that do not wait for the end; none until one of them is met
    early: Option<Early>,
    /// gradients met for hooks on several variables
    gatherings: Vec<Gathering>,
    /// saved values that were given up
    again: Recomputed,
    /// whether every gradient is looked at, see `anomaly`
    looks: bool,
    /// nodes behind a choice between branches, where gradients are looked at
    chosen: Numbers,
}

impl GraphTask {
    pub(crate) fn new(options: Options) -> GraphTask {
        GraphTask {
            options,
            ready: Queue::default(),
            captures: Numbered::default(),
            path: None,
            accumulate: true,
            batch: None,
            caught: Vec::new(),
            staged: Vec::new(),
            collected: None,
            early: None,
            gatherings: Vec::new(),
            again: Recomputed::default(),
            looks: anomaly::is_anomaly_enabled(),
            chosen: Numbers::default(),
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
        let targets: Numbers = inputs.iter().map(|e| e.node.sequence).collect();
        let lowest = targets.iter().min().copied().unwrap_or(u64::MAX);
        self.path = Some(Arc::new(nodes_towards(roots, lowest, |number| targets.contains(&number))));
    }

    /// The derivatives of one variable with respect to others, as `grad` computes them; none where it does not depend on one.
    pub(crate) fn derive(
        root: Edge,
        seed: Var,
        inputs: &[Edge],
        options: Options,
    ) -> Result<Vec<Option<Var>>> {
        let (mut task, roots) = (GraphTask::new(options), [root]);
        task.limit_to(&roots, inputs, false);
        task.wait(&roots[0], seed);
        task.run(&roots)
    }

    /// Runs all nodes from the roots, commits the gradients of leaves and returns what was caught.
    pub(crate) fn run(mut self, roots: &[Edge]) -> Result<Vec<Option<Var>>> {
        deeper(move || {
            let callbacks = Callbacks::open();
            self.run_recorded(roots)?;
            callbacks.run()?;
            Ok(self.caught)
        })
    }

    /// The pass itself, in its own mode. Not compiled into what starts it, where the backward pass of W8 took 1.03 of the time.
    #[inline(never)]
    fn run_recorded(&mut self, roots: &[Edge]) -> Result<()> {
        let _mode = GradMode::set(self.options.create_graph);
        let looks = self.looks;
        for root in roots.iter().filter(|_| looks) {
            if let Some(seed) = self.waiting_at(root) {
                anomaly::expect_finite_given("the seed", &root.node, seed)?;
            }
        }
        let watched = looks || Hooks::are_watched_for();
        loop {
            // Where it was put down: gradients that are bound by value are moved once more.
            let mut next = self.ready.pop();
            let Some(ready) = &mut next else { break };
            if watched {
                self.evaluate_watched(ready, roots)?;
            } else {
                self.evaluate(ready, roots)?;
            }
        }
        Gathering::complete(&mut self.gatherings, None)?;
        // What can fail comes before the first gradient changes, and while no cell is locked; also for a leaf that has a
        // gradient now, since another thread may take it away.
        for (node, _, grad) in &mut self.staged {
            fit_for_leaf(node, grad, roots)?;
        }
        self.staged.drain(..).for_each(|(node, nr, grad)| write(&node, nr, grad));
        Ok(())
    }

    /// Runs a node, and does what may be due afterwards: what it gave is looked at, in anomaly mode, and some leaves have all
    /// of theirs.
    #[cold]
    fn evaluate_watched(&mut self, ready: &mut Ready, roots: &[Edge]) -> Result<()> {
        let (node, first, looks) = (ready.node.clone(), next_number(), self.looks);
        let arrived = if looks { self.arriving(ready) } else { None };
        self.evaluate(ready, roots)?;
        // Nobody else holds what it has handed on.
        ready.buffer.clear();
        for (input, edge) in node.next_edges.iter().enumerate().filter(|_| looks) {
            if let Some(grad) = edge.as_ref().and_then(|edge| self.waiting_at(edge)) {
                anomaly::remember_origin(&node, first, grad);
                anomaly::expect_finite(&node, input, grad, arrived.as_ref())?;
            }
        }
        self.settle(&node, roots)
    }

    /// The gradient that arrives at a node behind a choice; what it hands on goes behind it, too.
    fn arriving(&mut self, ready: &Ready) -> Option<Var> {
        let behind = self.chosen.contains(&ready.node.sequence);
        if behind || ready.node.chooses() {
            self.chosen.extend(ready.node.next_edges.iter().flatten().map(|edge| edge.node.sequence));
        }
        ready.buffer.first().cloned().flatten().filter(|_| behind)
    }

    /// Hooks, captures, then the node's own function.
    #[inline]
    fn evaluate(&mut self, ready: &mut Ready, roots: &[Edge]) -> Result<()> {
        let Ready { node, buffer } = ready;
        let _span = profile::backward(node);
        if self.path.as_ref().is_some_and(|p| !p.contains(&node.sequence)) {
            return Ok(());
        }
        #[cfg(test)]
        VISITED.set(VISITED.get() + 1);
        if node.attached.get().is_some() || !self.captures.is_empty() || node.as_leaf().is_some() {
            self.visit(node, buffer, roots)?;
            return self.call_visited(node, std::mem::take(buffer));
        }
        if !node.next_edges.iter().flatten().any(|edge| self.is_on_path(edge)) {
            return Ok(());
        }
        self.call_function(node, buffer)
    }

    /// Whether an edge leads to a variable whose gradient is wanted.
    fn is_on_path(&self, edge: &Edge) -> bool {
        is_on_path(&self.path, edge)
    }
}

/// Makes what is to be written what a leaf keeps; fails if no memory can hold that.
fn fit_for_leaf(node: &Node, grad: &mut Var, roots: &[Edge]) -> Result<()> {
    if node.as_leaf().is_some() { dense(grad).map_err(|e| in_sum(roots, node, e)) } else { Ok(()) }
}

/// Adds a gradient to that of a leaf, or to the one that a result retains.
fn write(node: &Node, nr: usize, grad: Var) {
    match node.as_leaf() {
        Some(leaf) => drop(leaf.grad.update(|place| add_in_place(place, grad))),
        None => Hooks::store(node, nr, grad),
    }
}

/// Whether a pass that is limited to this path goes along an edge.
fn is_on_path(path: &Option<Arc<Numbers>>, edge: &Edge) -> bool {
    path.as_ref().is_none_or(|p| p.contains(&edge.node.sequence))
}

/// Whether it goes along that of an input.
fn is_wanted(path: &Option<Arc<Numbers>>, node: &Node, input: usize) -> bool {
    node.next_edges.get(input).and_then(Option::as_ref).is_some_and(|edge| is_on_path(path, edge))
}

/// The numbers, from `lowest` on, of all nodes from which a target can be reached, targets included. Iterative, in
/// linear time.
fn nodes_towards(roots: &[Edge], lowest: u64, is_target: impl Fn(u64) -> bool) -> Numbers {
    let mut leads = Numbers::default();
    let mut seen = Numbers::default();
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
            stack.push((node.clone(), true));
            stack.extend(inputs().map(|e| (e.node.clone(), false)));
        }
    }
    leads
}
