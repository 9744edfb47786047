//! Nodes, edges and metadata: what the graph is made of.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use foldback_tensor::{DType, Packed, Shape, Tensor};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::gradient::{Context, Flow};
use crate::hooks::Hooks;
use crate::locks::{Writer, lock};
use crate::table::Rule;
use crate::var::Var;

/// Where a gradient goes: a node, and which of its outputs the value was.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) node: Arc<Node>,
    pub(crate) nr: u32,
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

/// The backward function of a node that is not a row of pointwise formulas.
pub(crate) type Function = Box<dyn Fn(&Context<'_>) -> Result<SmallVec<[Option<Flow>; 2]>> + Send + Sync>;

/// What a node does with its gradient.
pub(crate) enum Kind {
    /// the formulas of a row of the derivative table
    Rule(&'static Rule, [f64; 2]),
    /// a function over recorded values
    Function(&'static str, Function),
    /// adds it to a leaf
    AccumulateGrad(Box<Leaf>),
}

/// Values kept for the backward pass, packed with the shape of the first output.
pub(crate) enum Saved {
    /// in the order of the node's mask
    Kept(SmallVec<[Packed; 2]>),
    /// gone, after a pass that did not retain the graph
    Freed,
}

/// Saved values as the backward pass uses them.
pub(crate) struct Unpacked {
    pub(crate) mask: u8,
    pub(crate) values: SmallVec<[Tensor; 2]>,
}

/// The bit of a saved output.
pub(crate) const OUTPUT: u8 = 7;

/// One recorded operation, or the leaf end of the graph.
pub(crate) struct Node {
    /// later operations have larger numbers, so descending order is an order of the backward pass
    pub(crate) sequence: u64,
    pub(crate) kind: Kind,
    /// per input, the edge its gradient leaves by; none where the input is not tracked
    pub(crate) next_edges: SmallVec<[Option<Edge>; 2]>,
    /// per output, what its gradient must look like
    pub(crate) metadata: SmallVec<[InputMetadata; 1]>,
    /// which values are saved: bit `i` is input `i`, bit 7 the output
    mask: u8,
    saved: Mutex<Saved>,
    pub(crate) location: &'static Location<'static>,
    pub(crate) hooks: OnceLock<Box<Hooks>>,
}

/// The cell that all clones of a leaf variable share.
pub(crate) struct Leaf {
    /// read by anybody, written by whoever holds `writer`
    pub(crate) value: RwLock<Tensor>,
    pub(crate) writer: Writer,
    pub(crate) grad: Mutex<Option<Var>>,
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

impl Node {
    pub(crate) fn new(
        kind: Kind,
        next_edges: SmallVec<[Option<Edge>; 2]>,
        metadata: SmallVec<[InputMetadata; 1]>,
        (mask, saved): (u8, SmallVec<[Packed; 2]>),
        location: &'static Location<'static>,
    ) -> Arc<Node> {
        Arc::new(Node {
            sequence: CREATED.fetch_add(1, Ordering::Relaxed),
            kind,
            next_edges,
            metadata,
            mask,
            saved: Mutex::new(Saved::Kept(saved)),
            location,
            hooks: OnceLock::new(),
        })
    }

    /// The node at the leaf end of the graph.
    #[track_caller]
    pub(crate) fn leaf(value: Tensor) -> Arc<Node> {
        let metadata = smallvec::smallvec![InputMetadata::of(&value)];
        let leaf = Leaf {
            value: RwLock::new(value),
            writer: Writer::default(),
            grad: Mutex::new(None),
            requires_grad: AtomicBool::new(true),
        };
        let kind = Kind::AccumulateGrad(Box::new(leaf));
        Node::new(kind, SmallVec::new(), metadata, (0, SmallVec::new()), Location::caller())
    }

    /// The operation's name, as messages and `Debug` output show it.
    pub(crate) fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Rule(rule, _) => rule.name,
            Kind::Function(name, _) => name,
            Kind::AccumulateGrad(_) => "AccumulateGrad",
        }
    }

    pub(crate) fn as_leaf(&self) -> Option<&Leaf> {
        match &self.kind {
            Kind::AccumulateGrad(leaf) => Some(leaf),
            _ => None,
        }
    }

    /// The saved values: taken, or cloned if the graph is to be used again.
    pub(crate) fn unpack(&self, retain: bool) -> Result<Unpacked> {
        if self.mask == 0 {
            return Ok(Unpacked { mask: 0, values: SmallVec::new() });
        }
        let mut saved = lock(&self.saved);
        let Saved::Kept(kept) = &mut *saved else {
            return Err(Error::Freed { op: self.name(), location: self.location });
        };
        let packed = if retain { kept.clone() } else { std::mem::take(kept) };
        if !retain {
            *saved = Saved::Freed;
        }
        drop(saved);
        let mut values = SmallVec::new();
        packed.into_iter().for_each(|p| values.push(p.unpack(&self.metadata[0].shape)));
        Ok(Unpacked { mask: self.mask, values })
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
