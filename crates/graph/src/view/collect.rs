//! Reads a graph into a view.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldback_tensor::{Holding, Tensor};

use super::again::again;
use super::{EdgeView, GraphView, Kept, LeafView, NodeView, SavedView, Slot, ValueView};
use crate::arrival::arrival;
use crate::budget::KeptValue;
use crate::node::{Arrival, Edge, InputMetadata, Leaf, Node, NodeKind};

/// A view of some nodes, which are in the order of the pass; edges to others are left out.
pub(super) fn collect(nodes: &[Arc<Node>]) -> GraphView {
    let numbers: HashMap<u64, usize> = nodes.iter().enumerate().map(|(i, n)| (n.sequence, i)).collect();
    // Clones of all that is held, until everything has been counted.
    let saved: Vec<Vec<KeptValue>> = nodes.iter().map(|n| n.kept()).collect();
    let leaves: Vec<Option<Tensor>> =
        nodes.iter().map(|n| n.as_leaf().map(|leaf| leaf.value.read())).collect();
    let storages = Storages::of(&saved, &leaves);
    let views = nodes.iter().zip(saved.iter().zip(&leaves)).zip(again(nodes)).enumerate();
    let views = views.map(|(number, ((node, (saved, leaf)), again))| NodeView {
        name: node.name(),
        label: None,
        outputs: node.metadata.iter().map(ValueView::from).collect(),
        edges: (0..node.next_edges.len()).map(|input| edge_view(node, input, &numbers)).collect(),
        saved: (saved.iter().enumerate())
            .map(|(nr, kept)| storages.view((number, nr), slot(node, kept.place), &kept.tensor))
            .collect(),
        again,
        is_freed: node.is_freed(),
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

fn slot(node: &Node, place: usize) -> Slot {
    let inputs = node.next_edges.len();
    if place < inputs { Slot::Input(place) } else { Slot::Output(place - inputs) }
}

fn edge_view(node: &Node, input: usize, numbers: &HashMap<u64, usize>) -> Option<EdgeView> {
    let edge = node.next_edges[input].as_ref()?;
    let Arrival { shape: gradient, way } = arrival(node, input)?;
    let (output, meta) = (edge.nr, &edge.node.metadata[edge.nr]);
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
struct Storages(HashMap<usize, Holders>);

/// Who has a storage, besides those outside the graph.
struct Holders {
    clones: usize,
    /// of the graph's own, of which several nodes may have one in common
    handles: usize,
    /// where it is counted
    at: At,
}

/// Where a storage is counted, by the number of a node.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// and which of the values that it keeps
    Saved(usize, usize),
    Leaf(usize),
}

impl Storages {
    fn of(saved: &[Vec<KeptValue>], leaves: &[Option<Tensor>]) -> Storages {
        let (mut storages, mut common) = (HashMap::new(), HashSet::new());
        let mut count = |at: At, t: &Tensor, handle: Option<u64>| {
            if let Some(Holding { storage, .. }) = t.holding() {
                let holders = storages.entry(storage).or_insert(Holders { clones: 0, handles: 0, at });
                holders.clones += 1;
                holders.handles += usize::from(handle.is_none_or(|h| common.insert(h)));
                // Of several values of a node the first counts.
                match (holders.at, at) {
                    (At::Saved(last, _), At::Saved(number, _)) if last == number => {}
                    _ => holders.at = at,
                }
            }
        };
        for (number, saved) in saved.iter().enumerate() {
            for (nr, kept) in saved.iter().enumerate() {
                count(At::Saved(number, nr), &kept.tensor, kept.handle);
            }
        }
        for (number, leaf) in leaves.iter().enumerate() {
            leaf.iter().for_each(|t| count(At::Leaf(number), t, None));
        }
        Storages(storages)
    }

    fn view(&self, (number, nr): (usize, usize), slot: Slot, t: &Tensor) -> SavedView {
        let value = ValueView { shape: t.shape().clone(), dtype: t.dtype() };
        let Some(Holding { storage, bytes, holders }) = t.holding() else {
            return SavedView { slot, value, bytes: 0, kept: Kept::Here, is_held: false, storage: None };
        };
        let known = &self.0[&storage];
        let kept = match known.at {
            At::Leaf(at) => Kept::InLeaf(at),
            at if at == At::Saved(number, nr) => Kept::Here,
            At::Saved(at, _) => Kept::At(at),
        };
        let is_held = holders > known.clones + known.handles;
        SavedView { slot, value, bytes, kept, is_held, storage: Some(storage) }
    }
}
