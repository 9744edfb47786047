//! Nodes, edges and metadata: what the graph is made of.

use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use foldback_tensor::{DType, Holding, Packed, Shape, StateCell, Tensor, refuse};
use smallvec::SmallVec;

use crate::budget::{Budgeted, KeptValue, Recomputed};
use crate::engine::in_backward;
use crate::error::{GraphFacts, Result};
use crate::hooks::Hooks;
use crate::live::{is_watching, register};
use crate::rule::{Rule, Slot};
use crate::turn::Writer;
use crate::var::Var;
use crate::work::Describe;

/// Where a gradient goes: a node, and which of its outputs the value was.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) node: Arc<Node>,
    pub(crate) nr: u32,
}

impl Edge {
    /// What the gradient that leaves by it must look like.
    #[inline]
    pub(crate) fn metadata(&self) -> &InputMetadata {
        &self.node.metadata[self.nr as usize]
    }
}

/// What a node knows of each gradient it accepts: the shape and type of the value it produced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InputMetadata {
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
}

impl InputMetadata {
    #[inline]
    pub(crate) fn of(t: &Tensor) -> InputMetadata {
        InputMetadata { shape: t.shape().clone(), dtype: t.dtype() }
    }
}

/// What a node does with its gradient.
pub(crate) enum NodeKind {
    /// the formulas of a row of the derivative table
    Rule(&'static Rule, [f64; 2]),
    /// a function over recorded values
    Function(&'static str, Box<dyn Describe>),
    /// adds it to a leaf
    AccumulateGrad(Box<Leaf>),
}

/// Note [Places of saved values]
/// Every input has a place in the list of what a node keeps, then every output: `Slot::Input(n)` is at `n`,
/// `Slot::Output(k)` behind all inputs. A place whose value is not kept is empty, and empty places at the end are left
/// out, so that an operation that saves nothing has an empty list. There is no limit to either kind, and nothing is
/// searched. Values are packed with the shape of the first output.
pub(crate) type SavedValues = SmallVec<[Option<Packed>; 2]>;

/// What a node keeps for its backward pass.
#[derive(Clone)]
pub(crate) enum Saved {
    Kept(SavedValues),
    /// kept, or to be computed again
    Budgeted(Arc<Budgeted>),
    /// gone, after a pass that did not retain the graph
    Freed,
}

/// Saved values as the backward pass uses them.
pub(crate) struct Unpacked {
    inputs: usize,
    values: SmallVec<[Option<Tensor>; 2]>,
}

impl Unpacked {
    /// The value of an input or an output, if it was saved.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&Tensor> {
        self.values.get(slot.place(self.inputs)?)?.as_ref()
    }
}

/// One recorded operation, or the leaf end of the graph.
pub(crate) struct Node {
    /// later operations have larger numbers, so descending order is an order of the backward pass
    pub(crate) sequence: u64,
    pub(crate) kind: NodeKind,
    /// per input, the edge its gradient leaves by; none where the input is not tracked
    pub(crate) next_edges: SmallVec<[Option<Edge>; 2]>,
    /// per output, what its gradient must look like
    pub(crate) metadata: SmallVec<[InputMetadata; 1]>,
    /// whether anything is, so that nodes without saved values need not look
    saves: bool,
    saved: StateCell<Saved>,
    pub(crate) location: &'static Location<'static>,
    pub(crate) hooks: OnceLock<Box<Hooks>>,
}

// Whatever panics in a pass or in a function of a user's, nodes are left whole: their cells are written as a whole, and no lock
// stays taken. So `catch_unwind(|| loss.backward())` needs no assertion by its caller.
impl UnwindSafe for Node {}
impl RefUnwindSafe for Node {}

/// What all clones of a leaf variable share.
pub(crate) struct Leaf {
    /// read by anybody, written by whoever holds `writer`
    pub(crate) value: StateCell<Tensor>,
    pub(crate) writer: Writer,
    pub(crate) grad: StateCell<Option<Var>>,
    pub(crate) requires_grad: AtomicBool,
}

static CREATED: AtomicU64 = AtomicU64::new(0);
pub(crate) static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How many nodes exist in this process, leaves included. For tests that look for leaks.
///
/// ```
/// use foldback_graph::{RequiresGrad, live_nodes};
/// let before = live_nodes();
/// let y = foldback_tensor::tensor![1.0].requires_grad() * 2.0;
/// assert_eq!(live_nodes(), before + 2);
/// drop(y);
/// assert_eq!(live_nodes(), before);
/// ```
pub fn live_nodes() -> usize {
    let dropped = DROPPED.load(Ordering::SeqCst);
    (CREATED.load(Ordering::SeqCst) - dropped) as usize
}

/// The number that the next node will have, or a larger one.
pub(crate) fn next_number() -> u64 {
    CREATED.load(Ordering::Relaxed)
}

impl From<SavedValues> for Saved {
    #[inline]
    fn from(values: SavedValues) -> Saved {
        Saved::Kept(values)
    }
}

impl Saved {
    #[inline]
    fn is_empty(&self) -> bool {
        matches!(self, Saved::Kept(values) if values.is_empty())
    }

    /// Takes what is kept for a pass after which nothing is.
    #[inline]
    fn take(&mut self) -> Saved {
        let after = match self {
            Saved::Budgeted(b) if b.saves_nothing() => Saved::Kept(SavedValues::new()),
            _ => Saved::Freed,
        };
        std::mem::replace(self, after)
    }
}

impl Node {
    #[inline]
    fn new(
        kind: NodeKind,
        next_edges: SmallVec<[Option<Edge>; 2]>,
        metadata: SmallVec<[InputMetadata; 1]>,
        saved: impl Into<Saved>,
        location: &'static Location<'static>,
    ) -> Arc<Node> {
        let saved = saved.into();
        Arc::new(Node {
            sequence: CREATED.fetch_add(1, Ordering::Relaxed),
            kind,
            next_edges,
            metadata,
            saves: !saved.is_empty(),
            saved: StateCell::new(saved),
            location,
            hooks: OnceLock::new(),
        })
    }

    /// A node for what an operation computed, which is noted if anybody watches.
    #[inline]
    pub(crate) fn of_results(
        kind: NodeKind,
        next_edges: SmallVec<[Option<Edge>; 2]>,
        values: &[Tensor],
        saved: impl Into<Saved>,
        location: &'static Location<'static>,
    ) -> Arc<Node> {
        let metadata = match values {
            [value] => smallvec::smallvec![InputMetadata::of(value)],
            values => values.iter().map(InputMetadata::of).collect(),
        };
        let node = Node::new(kind, next_edges, metadata, saved, location);
        if is_watching() {
            register(&node, values);
        }
        node
    }

    /// The node at the leaf end of the graph.
    #[track_caller]
    pub(crate) fn leaf(value: Tensor) -> Arc<Node> {
        let metadata = smallvec::smallvec![InputMetadata::of(&value)];
        let leaf = Leaf {
            value: StateCell::new(value),
            writer: Writer::default(),
            grad: StateCell::default(),
            requires_grad: AtomicBool::new(true),
        };
        let kind = NodeKind::AccumulateGrad(Box::new(leaf));
        Node::new(kind, SmallVec::new(), metadata, SavedValues::new(), Location::caller())
    }

    /// The operation's name, as messages and `Debug` output show it.
    pub(crate) fn name(&self) -> &'static str {
        match &self.kind {
            NodeKind::Rule(rule, _) => rule.name,
            NodeKind::Function(name, _) => name,
            NodeKind::AccumulateGrad(_) => "AccumulateGrad",
        }
    }

    /// The shape of an input, if its gradient leaves by an edge.
    pub(crate) fn input_shape(&self, input: usize) -> Option<&Shape> {
        Some(&self.next_edges.get(input)?.as_ref()?.metadata().shape)
    }

    /// Whether a pass has freed what it kept.
    pub(crate) fn is_freed(&self) -> bool {
        self.saved.update(|saved| matches!(saved, Saved::Freed))
    }

    /// What it keeps within a budget.
    pub(crate) fn budgeted(&self) -> Option<Arc<Budgeted>> {
        self.saved.update(|saved| match saved {
            Saved::Budgeted(b) => Some(b.clone()),
            _ => None,
        })
    }

    /// What it keeps, for those who look.
    pub(crate) fn kept(&self) -> Vec<KeptValue> {
        let kept = |(place, packed): (usize, Option<Packed>)| {
            let tensor = packed?.unpack(&self.metadata[0].shape);
            Some(KeptValue { place, tensor, handle: None })
        };
        match self.saved.read() {
            Saved::Kept(values) => values.into_iter().enumerate().filter_map(kept).collect(),
            Saved::Budgeted(b) => b.kept(self.next_edges.len()),
            Saved::Freed => Vec::new(),
        }
    }

    pub(crate) fn as_leaf(&self) -> Option<&Leaf> {
        match &self.kind {
            NodeKind::AccumulateGrad(leaf) => Some(leaf),
            _ => None,
        }
    }

    /// Adds the shapes of what is saved, by place, to a digest.
    pub(crate) fn hash_saved_shapes(&self, digest: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        let Some(like) = self.metadata.first() else { return };
        self.saved.update(|saved| match saved {
            Saved::Kept(values) => {
                values.iter().for_each(|v| v.as_ref().map(|v| &v.shape(&like.shape)[..]).hash(digest));
            }
            Saved::Budgeted(b) => b.shapes().for_each(|shape| shape.map(|s| &s[..]).hash(digest)),
            Saved::Freed => {}
        });
    }

    /// The storages that are saved, each as often as it is.
    pub(crate) fn saved_storages(&self) -> Vec<Holding> {
        self.kept().iter().filter_map(|kept| kept.tensor.holding()).collect()
    }

    /// The saved values: taken, or cloned if the graph is to be used again. What a budget gave up is computed.
    pub(crate) fn unpack(&self, retain: bool, again: &mut Recomputed) -> Result<Unpacked> {
        let mut unpacked = Unpacked { inputs: self.next_edges.len(), values: SmallVec::new() };
        if !self.saves {
            return Ok(unpacked);
        }
        let saved = if retain { self.saved.read() } else { self.saved.update(Saved::take) };
        let Saved::Kept(mut packed) = saved else {
            return self.unpack_budgeted(saved, again);
        };
        for p in &mut packed {
            match p.take() {
                Some(p) => unpacked.values.push(Some(p.unpack(&self.metadata[0].shape))),
                None => unpacked.values.push(None),
            }
        }
        Ok(unpacked)
    }

    #[cold]
    fn unpack_budgeted(&self, saved: Saved, again: &mut Recomputed) -> Result<Unpacked> {
        let Saved::Budgeted(budgeted) = saved else {
            return refuse(GraphFacts::Freed { op: self.name(), location: self.location });
        };
        budgeted.come_to(again);
        let values = budgeted.unpack(again).map_err(|e| in_backward(self, e))?;
        Ok(Unpacked { inputs: self.next_edges.len(), values })
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{} at {}>", self.name(), self.location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million operations on one number should not take half a gigabyte. What such an operation saves is in the node.
    #[test]
    fn a_node_is_small() {
        let bytes = std::mem::size_of::<Node>();
        assert!(bytes <= 248, "a node takes {bytes} bytes");
    }
}
