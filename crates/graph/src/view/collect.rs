//! Reads a graph into a view.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldback_tensor::{Holding, Tensor};

use super::gradients::arrival;
use super::{EdgeView, GraphView, Kept, LeafView, NodeView, SavedView, Slot, ValueView};
use crate::node::{Edge, InputMetadata, Leaf, Node, NodeKind, Saved};

/// A view of some nodes, which are in the order of the pass; edges to others are left out.
pub(super) fn collect(nodes: &[Arc<Node>]) -> GraphView {
    let numbers: HashMap<u64, usize> = nodes.iter().enumerate().map(|(i, n)| (n.sequence, i)).collect();
    // Clones of all that is held, until everything has been counted.
    let saved: Vec<Vec<(Slot, Tensor)>> = nodes.iter().map(|n| saved_of(n)).collect();
    let leaves: Vec<Option<Tensor>> =
        nodes.iter().map(|n| n.as_leaf().map(|leaf| leaf.value.read())).collect();
    let storages = Storages::of(&saved, &leaves);
    let views = nodes.iter().zip(saved.iter().zip(&leaves)).enumerate();
    let views = views.map(|(number, (node, (saved, leaf)))| NodeView {
        name: node.name(),
        label: None,
        outputs: node.metadata.iter().map(ValueView::from).collect(),
        edges: (0..node.next_edges.len()).map(|input| edge_view(node, input, &numbers)).collect(),
        saved: saved.iter().map(|(slot, t)| storages.view(number, *slot, t)).collect(),
        is_freed: matches!(node.saved(), Saved::Freed),
        location: node.location,
        sequence: node.sequence,
        own_bytes: own_bytes(node),
        leaf: leaf.as_ref().map(|value| leaf_view(node, value)),
    });
    GraphView { nodes: views.collect() }
}

/// All nodes that lead to some, in the order of the backward pass. Iterative, in linear time.
pub(super) fn reachable(roots: &[Edge]) -> Vec<Arc<Node>> {
    let mut seen = HashSet::new();
    let roots = roots.iter().map(|e| &e.node).filter(|n| seen.insert(n.sequence));
    let (mut found, mut next): (Vec<Arc<Node>>, usize) = (roots.cloned().collect(), 0);
    while let Some(node) = found.get(next).cloned() {
        let inputs = node.next_edges.iter().flatten().map(|e| &e.node);
        found.extend(inputs.filter(|n| seen.insert(n.sequence)).cloned());
        next += 1;
    }
    found.sort_unstable_by_key(|n| Reverse(n.sequence));
    found
}

impl From<&InputMetadata> for ValueView {
    fn from(meta: &InputMetadata) -> ValueView {
        ValueView { shape: meta.shape.clone(), dtype: meta.dtype }
    }
}

fn saved_of(node: &Node) -> Vec<(Slot, Tensor)> {
    let Saved::Kept(values) = node.saved() else { return Vec::new() };
    let inputs = node.next_edges.len();
    let slot = |place: usize| if place < inputs { Slot::Input(place) } else { Slot::Output(place - inputs) };
    let values = values.into_iter().enumerate();
    values.filter_map(|(place, v)| Some((slot(place), v?.unpack(&node.metadata[0].shape)))).collect()
}

fn edge_view(node: &Node, input: usize, numbers: &HashMap<u64, usize>) -> Option<EdgeView> {
    let edge = node.next_edges[input].as_ref()?;
    let (gradient, way) = arrival(node, input)?;
    let (output, meta) = (edge.nr as usize, &edge.node.metadata[edge.nr as usize]);
    let node = *numbers.get(&edge.node.sequence)?;
    Some(EdgeView { node, output, gradient, input: meta.shape.clone(), way })
}

/// A node with its counts, and what is in a box of its own.
fn own_bytes(node: &Node) -> usize {
    let boxed = match &node.kind {
        NodeKind::Rule(..) => 0,
        NodeKind::Function(_, function) => size_of_val(&**function),
        NodeKind::AccumulateGrad(_) => size_of::<Leaf>(),
    };
    size_of::<Node>() + 2 * size_of::<usize>() + boxed
}

fn leaf_view(node: &Node, value: &Tensor) -> LeafView {
    let bytes = |t: &Tensor| t.holding().map_or(0, |h| h.bytes);
    let leaf = node.as_leaf().expect("it has a leaf's value");
    LeafView { value: bytes(value), grad: leaf.grad.read().map(|g| bytes(&g.value())) }
}

/// Who keeps which storage.
struct Storages {
    /// how often the clones hold it, and where it is counted: the number of a node, and whether that is a leaf
    counted: HashMap<usize, (usize, usize, bool)>,
}

impl Storages {
    fn of(saved: &[Vec<(Slot, Tensor)>], leaves: &[Option<Tensor>]) -> Storages {
        let mut counted = HashMap::new();
        let mut count = |number: usize, t: &Tensor, is_leaf: bool| {
            if let Some(Holding { storage, .. }) = t.holding() {
                let entry = counted.entry(storage).or_insert((0, number, is_leaf));
                *entry = (entry.0 + 1, number, is_leaf);
            }
        };
        for (number, saved) in saved.iter().enumerate() {
            saved.iter().for_each(|(_, t)| count(number, t, false));
        }
        for (number, leaf) in leaves.iter().enumerate() {
            leaf.iter().for_each(|t| count(number, t, true));
        }
        Storages { counted }
    }

    fn view(&self, number: usize, slot: Slot, t: &Tensor) -> SavedView {
        let value = ValueView { shape: t.shape().clone(), dtype: t.dtype() };
        let Some(Holding { storage, bytes, holders }) = t.holding() else {
            return SavedView { slot, value, bytes: 0, kept: Kept::Here, is_held: false, storage: None };
        };
        let (clones, at, is_leaf) = self.counted[&storage];
        let kept = match at {
            _ if is_leaf => Kept::InLeaf(at),
            at if at == number => Kept::Here,
            at => Kept::At(at),
        };
        // The graph holds it as often as the clones do.
        SavedView { slot, value, bytes, kept, is_held: holders > 2 * clones, storage: Some(storage) }
    }
}
