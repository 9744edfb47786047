//! What a plan has to know of a pass beside the graph: where it starts, and which gradients stay.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldback_tensor::Holding;

use crate::engine::GraphTask;
use crate::hooks::Hooks;
use crate::node::{Edge, Node, Var};

/// A pass over the nodes of a view, by their numbers there.
pub(super) struct Pass {
    /// the roots, each with the bytes of its seed if that was given
    pub(super) seeds: Vec<((usize, usize), Option<usize>)>,
    /// outputs whose gradients are kept or handed out
    pub(super) stays: HashSet<(usize, usize)>,
    /// leaves whose gradients do not wait for the end, by the node that uses them last
    pub(super) early: HashMap<usize, Vec<usize>>,
    /// whether leaves get their gradients, which they keep dense
    pub(super) accumulates: bool,
    /// whether what was saved stays
    pub(super) retains: bool,
    /// how many gradients each value has
    pub(super) count: usize,
}

impl Pass {
    pub(super) fn of(task: &GraphTask, nodes: &[Arc<Node>], roots: &[Edge], seeds: Option<&[Var]>) -> Pass {
        let numbers: HashMap<u64, usize> = nodes.iter().enumerate().map(|(i, n)| (n.sequence, i)).collect();
        let bytes = |seed: &Var| seed.value().holding().map_or(0, |Holding { bytes, .. }| bytes);
        let place = |(i, root): (usize, &Edge)| {
            let number = *numbers.get(&root.node.sequence)?;
            Some(((number, root.nr), seeds.map(|seeds| bytes(&seeds[i]))))
        };
        let mut pass = Pass {
            seeds: roots.iter().enumerate().filter_map(place).collect(),
            stays: HashSet::new(),
            early: HashMap::new(),
            accumulates: task.accumulate,
            retains: task.options.retain_graph,
            count: task.batch.unwrap_or(1),
        };
        for (number, node) in nodes.iter().enumerate() {
            for nr in 0..node.metadata.len() {
                if task.captures.contains_key(&(node.sequence, nr)) || is_kept(task, node, nr) {
                    pass.stays.insert((number, nr));
                }
            }
            let follows = Hooks::at(node).is_some_and(|hooks| hooks.follow());
            if task.accumulate && follows && pass.stays.contains(&(number, 0)) {
                let uses = |n: &Arc<Node>| n.next_edges.iter().flatten().any(|e| Arc::ptr_eq(&e.node, node));
                let last = nodes.iter().rposition(uses).unwrap_or(number);
                pass.early.entry(last).or_default().push(number);
            }
        }
        pass
    }
}

/// Whether a pass leaves a gradient there that is not limited to inputs, or at an output on the way to them.
fn is_kept(task: &GraphTask, node: &Node, nr: usize) -> bool {
    match node.as_leaf() {
        Some(leaf) => task.path.is_none() && leaf.requires_grad.load(Ordering::Relaxed),
        None => task.accumulate && Hooks::retains(node, nr),
    }
}
