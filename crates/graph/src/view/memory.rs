//! What a backward pass holds in memory, step by step: it is followed in bytes, without computing anything.
//!
//! Note [Counted bytes]
//! What counts are storages of tensors, as large as they are allocated: values of leaves and the gradients they have, what
//! nodes keep, what is computed again within a budget, and gradients on their way, waiting or staged. Not counted are nodes themselves (some hundred bytes each), single numbers (which lie in
//! their handles), working memory inside an operation, and what the pool keeps for later. A gradient that is the same along an
//! axis takes as much memory as its different elements.

use std::collections::HashMap;

use foldback_tensor::storage_bytes;

use super::gradients::Way;
use super::{EdgeView, GraphView, Kept, Step, ValueView};

/// A gradient: its memory, and whether every element has its own place there.
#[derive(Clone, Copy)]
struct Gradient {
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
    /// bytes of all gradients now, and the most since it was last asked
    live: usize,
    most: usize,
}

/// What a pass from the first node holds.
pub(super) struct Course {
    pub(super) steps: Vec<Step>,
    /// bytes of leaves: of their values, and of the gradients that they have
    pub(super) leaves: usize,
    pub(super) peak: usize,
}

/// Follows a pass.
pub(super) fn follow(graph: &GraphView) -> Course {
    let leaves = graph.nodes.iter().filter_map(|n| n.leaf);
    let leaves = leaves.map(|leaf| leaf.value + leaf.grad.unwrap_or(0)).sum();
    let mut saved = Saved::of(graph);
    let mut memory = Memory { buffers: Vec::new(), live: 0, most: 0 };
    let mut waiting: Vec<Vec<Option<Gradient>>> =
        graph.nodes.iter().map(|n| vec![None; n.outputs.len()]).collect();
    let mut staged = Vec::new();
    let mut steps = Vec::new();
    if let Some(root) = graph.nodes.first() {
        waiting[0][0] = Some(memory.new_gradient(bytes_of(&root.outputs[0])));
    }
    for (number, node) in graph.nodes.iter().enumerate() {
        let arrived = std::mem::take(&mut waiting[number]);
        // A function reads zeros in the place of what did not arrive, which take no memory.
        let Some(g) = arrived.iter().flatten().next().copied() else { continue };
        let before = memory.live;
        match node.leaf {
            Some(leaf) if leaf.requires_grad => staged.push((number, g)),
            Some(_) => memory.release(g),
            None => {
                for edge in node.edges.iter().flatten() {
                    let place = &mut waiting[edge.node][edge.output];
                    *place =
                        Some(memory.deliver(g, edge, &graph.nodes[edge.node].outputs[edge.output], *place));
                }
            }
        }
        let gradients = memory.take_most();
        // Values are computed again before the first gradient is.
        let again = node.again.then.max((before + node.again.most).saturating_sub(gradients));
        let step = Step { node: number, saved: saved.bytes, again, gradients };
        if node.leaf.is_none() {
            steps.push(step);
            arrived.into_iter().flatten().for_each(|g| memory.release(g));
        }
        saved.free(graph, number);
    }
    // Leaves keep gradients dense; those that have one add it to theirs.
    for (number, g) in staged {
        if !g.is_dense {
            memory.new_gradient(bytes_of(&graph.nodes[number].outputs[0]));
            memory.release(g);
        }
    }
    let held = steps.iter().map(|s| s.saved + s.again + s.gradients).max().unwrap_or(0);
    let peak = leaves + held.max(saved.bytes + memory.take_most());
    Course { steps, leaves, peak }
}

fn bytes_of(value: &ValueView) -> usize {
    storage_bytes(value.dtype, value.shape.numel())
}

impl Memory {
    fn new_gradient(&mut self, bytes: usize) -> Gradient {
        self.buffers.push(Buffer { bytes, holders: 1 });
        self.live += bytes;
        self.most = self.most.max(self.live);
        Gradient { buffer: self.buffers.len() - 1, is_dense: true }
    }

    fn release(&mut self, g: Gradient) {
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
        g: Gradient,
        edge: &EdgeView,
        input: &ValueView,
        waits: Option<Gradient>,
    ) -> Gradient {
        let bytes = bytes_of(input);
        let arriving = ValueView { shape: edge.gradient.clone(), dtype: input.dtype };
        let new = match edge.way {
            Way::Straight => return self.sum(waits, bytes),
            Way::Alike if edge.is_fold() => return self.sum(waits, bytes),
            Way::Shared => {
                self.buffers[g.buffer].holders += 1;
                g
            }
            Way::Alike => {
                let bytes = self.buffers[g.buffer].bytes.min(bytes_of(&arriving));
                Gradient { is_dense: g.is_dense, ..self.new_gradient(bytes) }
            }
            Way::Apart => self.new_gradient(bytes_of(&arriving)),
        };
        let new = Gradient { is_dense: new.is_dense && self.fills(new, &arriving), ..new };
        if !edge.is_fold() && waits.is_none() {
            return new;
        }
        let sum = self.sum(waits, bytes);
        self.release(new);
        sum
    }

    /// Whether every element of a value has its own place in a gradient's memory.
    fn fills(&self, g: Gradient, value: &ValueView) -> bool {
        self.buffers[g.buffer].bytes >= bytes_of(value)
    }

    /// A sum with what waits: in its memory, if nobody else has it.
    fn sum(&mut self, waits: Option<Gradient>, bytes: usize) -> Gradient {
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
struct Saved {
    bytes: usize,
    /// by storage, how many values keep it
    keepers: HashMap<usize, usize>,
}

impl Saved {
    fn of(graph: &GraphView) -> Saved {
        let mut keepers = HashMap::new();
        for storage in graph.nodes.iter().flat_map(|n| &n.saved).filter_map(|s| s.storage) {
            *keepers.entry(storage).or_insert(0) += 1;
        }
        Saved { bytes: graph.saved_bytes(), keepers }
    }

    /// Frees what a node kept, and nobody else does.
    fn free(&mut self, graph: &GraphView, node: usize) {
        for saved in &graph.nodes[node].saved {
            let Some(keepers) = saved.storage.and_then(|s| self.keepers.get_mut(&s)) else { continue };
            *keepers -= 1;
            if *keepers == 0 && !saved.is_held && !matches!(saved.kept, Kept::InLeaf(_)) {
                self.bytes -= saved.bytes;
            }
        }
    }
}
