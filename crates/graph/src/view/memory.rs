//! What a backward pass holds in memory, step by step: it is followed in bytes, without computing anything.
//!
//! Note [Counted bytes]
//! What counts are storages of tensors, as large as they are allocated: values of leaves and the gradients they have, what
//! nodes keep, what is computed again within a budget, and gradients on their way, waiting or staged. Not counted are nodes themselves (some hundred bytes each), single numbers (which lie in
//! their handles), working memory inside an operation (up to a quarter of the last-level cache, and at most 16 MiB, for each value or gradient
//! that is folded over small planes, as of channels of images of few pixels, over short rows, or in another order than it lies in; and a copy of any size of
//! a turned operand that is laid out at once), and what the pool keeps for later. A gradient that is the same along an
//! axis takes as much memory as its different elements.

use std::collections::HashMap;

use foldback_tensor::storage_bytes;

use super::pass::Pass;
use super::{EdgeView, GraphView, Kept, ValueView};
use crate::node::Way;

/// A node that runs, and what is held in memory then, beside the values of leaves. In bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// the node's number
    pub node: usize,
    /// what the graph still keeps
    pub saved: usize,
    /// what is computed again, since it was given up within a [`saved_budget`](crate::saved_budget)
    pub again: usize,
    /// gradients, at the most: what came in, what goes out and what waits elsewhere
    pub gradients: usize,
}

/// A gradient: its memory, and whether every element has its own place there.
#[derive(Clone, Copy)]
struct HeldGradient {
    buffer: usize,
    is_dense: bool,
}

struct Buffer {
    bytes: usize,
    holders: usize,
}

/// The memory of a pass.
struct Memory {
    buffers: Vec<Buffer>,
    /// how many gradients each value has
    count: usize,
    /// bytes of all gradients now, and the most since it was last asked
    live: usize,
    most: usize,
}

/// What a pass holds beside the values of leaves and the gradients that they had.
pub(super) struct Course {
    pub(super) steps: Vec<Step>,
    pub(super) peak: usize,
}

/// Follows a pass through a graph which, with what does not run, has saved so many bytes.
pub(super) fn follow(graph: &GraphView, pass: &Pass, saved: usize) -> Course {
    let mut saved = SavedBytes::of(graph, saved, pass.retains);
    let mut memory = Memory { buffers: Vec::new(), count: pass.count, live: 0, most: 0 };
    let mut waiting: Vec<Vec<Option<HeldGradient>>> =
        graph.nodes.iter().map(|n| vec![None; n.outputs.len()]).collect();
    for &((node, output), given) in &pass.seeds {
        let seed = memory.seed(&graph.nodes[node].outputs[output], given);
        let place = &mut waiting[node][output];
        *place = Some(memory.add(seed, *place, &graph.nodes[node].outputs[output]));
    }
    let (mut staged, mut steps) = (Vec::new(), Vec::new());
    for (number, node) in graph.nodes.iter().enumerate() {
        let arrived = std::mem::take(&mut waiting[number]);
        for (output, g) in arrived.iter().enumerate() {
            if let Some(g) = g.filter(|_| pass.stays.contains(&(number, output))) {
                staged.push((number, memory.hold(g)));
            }
        }
        let runs = node.edges.iter().any(Option::is_some);
        // A function reads zeros in the place of what did not arrive, which take no memory.
        let first = arrived.iter().flatten().next().copied();
        if let Some(g) = first.filter(|_| runs) {
            let before = memory.live;
            for edge in node.edges.iter().flatten() {
                let place = &mut waiting[edge.node][edge.output];
                let input = &graph.nodes[edge.node].outputs[edge.output];
                *place = Some(memory.deliver(g, edge, input, *place));
            }
            let gradients = memory.take_most();
            // Values are computed again before the first gradient is.
            let again = node.again.then.max((before + node.again.most).saturating_sub(gradients));
            steps.push(Step { node: number, saved: saved.bytes, again, gradients });
            saved.free(graph, number);
        }
        arrived.into_iter().flatten().for_each(|g| memory.release(g));
        for &leaf in pass.early.get(&number).into_iter().flatten() {
            if let Some(g) = waiting[leaf].first_mut().and_then(Option::take) {
                let g = memory.dense(g, &graph.nodes[leaf].outputs[0]);
                memory.release(g);
            }
        }
    }
    // Leaves keep gradients dense; those that have one add it to theirs.
    for (number, g) in staged.into_iter().filter(|(number, _)| graph.nodes[*number].is_leaf()) {
        if pass.accumulates {
            memory.dense(g, &graph.nodes[number].outputs[0]);
        }
    }
    let held = steps.iter().map(|s| s.saved + s.again + s.gradients).max().unwrap_or(0);
    Course { steps, peak: held.max(saved.bytes + memory.take_most()) }
}

impl Memory {
    /// The bytes of gradients of a value.
    fn bytes_of(&self, value: &ValueView) -> usize {
        storage_bytes(value.dtype, value.shape.numel().saturating_mul(self.count))
    }

    /// A seed: one that was given stays where it is.
    fn seed(&mut self, root: &ValueView, given: Option<usize>) -> HeldGradient {
        let bytes = self.bytes_of(root);
        match given {
            Some(given) => {
                let seed = self.new_gradient(given);
                self.hold(HeldGradient { is_dense: given >= bytes, ..seed })
            }
            None => self.new_gradient(bytes),
        }
    }

    /// Somebody else has it, too.
    fn hold(&mut self, g: HeldGradient) -> HeldGradient {
        self.buffers[g.buffer].holders += 1;
        g
    }

    /// What waits, with a gradient that is as it is to be.
    fn add(&mut self, g: HeldGradient, waits: Option<HeldGradient>, value: &ValueView) -> HeldGradient {
        if waits.is_none() {
            return g;
        }
        let sum = self.sum(waits, self.bytes_of(value));
        self.release(g);
        sum
    }

    /// As a leaf keeps it.
    fn dense(&mut self, g: HeldGradient, leaf: &ValueView) -> HeldGradient {
        if g.is_dense {
            return g;
        }
        let dense = self.new_gradient(self.bytes_of(leaf));
        self.release(g);
        dense
    }

    fn new_gradient(&mut self, bytes: usize) -> HeldGradient {
        self.buffers.push(Buffer { bytes, holders: 1 });
        self.live += bytes;
        self.most = self.most.max(self.live);
        HeldGradient { buffer: self.buffers.len() - 1, is_dense: true }
    }

    fn release(&mut self, g: HeldGradient) {
        let buffer = &mut self.buffers[g.buffer];
        buffer.holders -= 1;
        if buffer.holders == 0 {
            self.live -= buffer.bytes;
        }
    }

    fn take_most(&mut self) -> usize {
        std::mem::replace(&mut self.most, self.live)
    }

    /// What waits for an input, once a gradient has been sent there.
    fn deliver(
        &mut self,
        g: HeldGradient,
        edge: &EdgeView,
        input: &ValueView,
        waits: Option<HeldGradient>,
    ) -> HeldGradient {
        let bytes = self.bytes_of(input);
        let arriving = ValueView { shape: edge.gradient.clone(), dtype: input.dtype };
        let new = match edge.way {
            Way::Straight => return self.sum(waits, bytes),
            Way::Alike if edge.is_fold() => return self.sum(waits, bytes),
            Way::Shared => self.hold(g),
            Way::Alike => {
                let bytes = self.buffers[g.buffer].bytes.min(self.bytes_of(&arriving));
                HeldGradient { is_dense: g.is_dense, ..self.new_gradient(bytes) }
            }
            Way::Apart => self.new_gradient(self.bytes_of(&arriving)),
        };
        let new = HeldGradient { is_dense: new.is_dense && self.fills(new, &arriving), ..new };
        if !edge.is_fold() && waits.is_none() {
            return new;
        }
        let sum = self.sum(waits, bytes);
        self.release(new);
        sum
    }

    /// Whether every element of a value has its own place in a gradient's memory.
    fn fills(&self, g: HeldGradient, value: &ValueView) -> bool {
        self.buffers[g.buffer].bytes >= self.bytes_of(value)
    }

    /// A sum with what waits: in its memory, if nobody else has it.
    fn sum(&mut self, waits: Option<HeldGradient>, bytes: usize) -> HeldGradient {
        match waits {
            Some(waits) if waits.is_dense && self.buffers[waits.buffer].holders == 1 => waits,
            Some(waits) => {
                let sum = self.new_gradient(bytes);
                self.release(waits);
                sum
            }
            None => self.new_gradient(bytes),
        }
    }
}

/// The bytes that the graph still keeps.
struct SavedBytes {
    bytes: usize,
    /// whether nothing is freed
    retains: bool,
    /// by storage, how many values keep it
    keepers: HashMap<usize, usize>,
}

impl SavedBytes {
    fn of(graph: &GraphView, bytes: usize, retains: bool) -> SavedBytes {
        let mut keepers = HashMap::new();
        for storage in graph.nodes.iter().flat_map(|n| &n.saved).filter_map(|s| s.storage) {
            *keepers.entry(storage).or_insert(0) += 1;
        }
        SavedBytes { bytes, retains, keepers }
    }

    /// Frees what a node kept, and nobody else does.
    fn free(&mut self, graph: &GraphView, node: usize) {
        for saved in &graph.nodes[node].saved {
            let Some(keepers) = saved.storage.and_then(|s| self.keepers.get_mut(&s)) else { continue };
            *keepers -= 1;
            if *keepers == 0 && !self.retains && !saved.is_held && !matches!(saved.kept, Kept::InLeaf(_)) {
                self.bytes -= saved.bytes;
            }
        }
    }
}
