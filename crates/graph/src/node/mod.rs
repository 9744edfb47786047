//! What a graph is made of: variables, edges and nodes; in `backward_function`, what nodes describe; in `rule`, the gradients of formulas; in `shelf`, the memory of dropped nodes.
//!
//! A variable has an edge, an edge a node, a node its backward function or rule, which describes its work in variables. So these types
//! are one module, the files of which import each other, and it imports nothing that is made of them: what is done with them
//! is everywhere else.

mod backward_function;
pub(crate) mod rule;
pub(crate) mod shelf;

use std::any::Any;
use std::fmt::Display;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use foldback_tensor::{DType, Holding, Packed, Shape, StateCell, Tensor, TensorFacts, refuse};
use smallvec::SmallVec;

use crate::budget::{Budgeted, KeptValue, Recomputed};
use crate::error::{Error, GraphFacts, Result};
use crate::node::rule::{NOTHING, Rule};
use crate::saved::{Saved, SavedValues, Unpacked};
use crate::turn::Writer;
pub(crate) use backward_function::{
    Able, Arrival, Context, Describe, Flow, Mood, Part, Pointwise, Take, Way, Work,
};

/// A value that operations record themselves on: a tensor, and perhaps the node that made it.
///
/// [`RequiresGrad::requires_grad`](crate::RequiresGrad::requires_grad) makes a *leaf* of a tensor; operations on it make further variables; `backward`
/// leaves gradients in the leaves. A clone is a handle on the same value: clones of a leaf share its value, its
/// gradient and its hooks.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_tensor::tensor;
/// let a = tensor![1.0, 2.0, 3.0].requires_grad();
/// let b = tensor![1.0].requires_grad();
/// (&a + &b).sum(..)?.backward()?;
/// assert_eq!(a.grad(), Some(tensor![1.0, 1.0, 1.0]));
/// assert_eq!(b.grad(), Some(tensor![3.0]));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[derive(Clone)]
pub struct Var {
    pub(crate) kind: VarKind,
}

/// What a variable is.
#[derive(Clone)]
pub(crate) enum VarKind {
    /// a value without history
    Constant(Tensor),
    /// a leaf, whose value lives in its cell
    Leaf(Arc<Node>),
    /// a value that an operation made; or a snapshot of a leaf's value, whose gradient goes to the leaf
    Tracked(Tensor, Edge),
}

/// Where a gradient goes: a node, and which of its outputs the value was.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) node: Arc<Node>,
    /// a whole word, see Note [Whole words] in `tensor/src/dims.rs`
    pub(crate) nr: usize,
}

impl Edge {
    /// What the gradient that leaves by it must look like.
    #[inline]
    pub(crate) fn metadata(&self) -> &InputMetadata {
        &self.node.metadata[self.nr]
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

    /// Refuses a tensor of another shape or type.
    pub(crate) fn expect_fit(&self, what: impl Display, t: &Tensor) -> Result<()> {
        if self.shape == *t.shape() && self.dtype == t.dtype() {
            return Ok(());
        }
        refuse(GraphFacts::Assigned {
            what: what.to_string(),
            expected_shape: self.shape.clone(),
            expected_dtype: self.dtype,
            found_shape: t.shape().clone(),
            found_dtype: t.dtype(),
        })
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
    pub(crate) attached: OnceLock<Box<Attached>>,
}

/// What others leave at a node, of which most have nothing.
#[derive(Default)]
pub(crate) struct Attached {
    /// hooks and retained gradients: `Hooks` of `hooks`, which is made of nodes
    pub(crate) hooks: OnceLock<Box<dyn Any + Send + Sync>>,
    /// what the operation is part of the derivative of, as anomaly mode notes it
    pub(crate) origin: OnceLock<Arc<Origin>>,
}

/// The operation whose derivative an operation is part of.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) op: &'static str,
    pub(crate) location: &'static Location<'static>,
    /// where that is part of a derivative, too
    pub(crate) of: Option<Arc<Origin>>,
}

/// Without recursion: there may be derivatives of derivatives without end.
impl Drop for Origin {
    fn drop(&mut self) {
        let mut next = self.of.take();
        while let Some(mut origin) = next.and_then(Arc::into_inner) {
            next = origin.of.take();
        }
    }
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

/// The number of a node that owns nothing yet, or has handed over what it owned, and has been counted.
pub(crate) const EMPTIED: u64 = u64::MAX;

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

impl Node {
    /// A node whose parts are put in where it stays. They are large, and what was just written piece by piece is waited for when
    /// it is moved: W8 takes 0.82 of the time forward.
    #[inline(always)]
    pub(crate) fn filled(
        kind: NodeKind,
        location: &'static Location<'static>,
        fill: impl FnOnce(&mut Node),
    ) -> Arc<Node> {
        // First: a locked instruction waits for what was written before.
        let sequence = CREATED.fetch_add(1, Ordering::Relaxed);
        let mut shared = shelf::empty_node();
        let node = Arc::get_mut(&mut shared).expect("nobody else has it yet");
        (node.sequence, node.kind, node.location) = (sequence, kind, location);
        fill(node);
        shared
    }

    /// A node for what an operation computed.
    pub(crate) fn of_results(
        kind: NodeKind,
        next_edges: SmallVec<[Option<Edge>; 2]>,
        values: &[Tensor],
        saved: impl Into<Saved>,
        location: &'static Location<'static>,
    ) -> Arc<Node> {
        Node::filled(kind, location, |node| {
            node.next_edges = next_edges;
            node.metadata.extend(values.iter().map(InputMetadata::of));
            node.keep(saved.into());
        })
    }

    /// Drops what is left of one that has handed over whatever may own nodes. It may be recorded again then, as a new one.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if !matches!(self.kind, NodeKind::Rule(..)) {
            self.kind = NodeKind::Rule(&NOTHING, [0.0; 2]);
        }
        self.next_edges.clear();
        self.metadata.clear();
        self.keep(Saved::default());
    }

    /// Sets what it keeps.
    pub(crate) fn keep(&mut self, saved: Saved) {
        self.saves = !saved.is_empty();
        *self.saved.get_mut() = saved;
    }

    /// Puts in the values that it keeps, or takes them out.
    #[inline(always)]
    pub(crate) fn change_kept<T>(&mut self, change: impl FnOnce(&mut SavedValues) -> T) -> T {
        let Saved::Kept(values) = self.saved.get_mut() else { unreachable!("it is being recorded") };
        let result = change(values);
        self.saves = !values.is_empty();
        result
    }

    /// The node at the leaf end of the graph.
    #[track_caller]
    pub(crate) fn leaf(value: Tensor) -> Arc<Node> {
        let metadata = InputMetadata::of(&value);
        let leaf = Leaf {
            value: StateCell::new(value),
            writer: Writer::default(),
            grad: StateCell::default(),
            requires_grad: AtomicBool::new(true),
        };
        let kind = NodeKind::AccumulateGrad(Box::new(leaf));
        Node::filled(kind, Location::caller(), |node| node.metadata.push(metadata))
    }

    /// The operation's name, as messages and `Debug` output show it.
    pub(crate) fn name(&self) -> &'static str {
        match &self.kind {
            NodeKind::Rule(rule, _) => rule.name,
            NodeKind::Function(name, _) => name,
            NodeKind::AccumulateGrad(_) => "AccumulateGrad",
        }
    }

    /// The shape that what it saves was packed with.
    fn saved_like(&self) -> Option<&Shape> {
        match &self.kind {
            NodeKind::Function(_, function) if let Some(shape) = function.saved_like() => Some(shape),
            _ => Some(&self.metadata.first()?.shape),
        }
    }

    /// Whether one of its operands is a condition, that says which of the others the result is.
    pub(crate) fn chooses(&self) -> bool {
        matches!(&self.kind, NodeKind::Rule(rule, _) if rule.gradients.iter().any(Option::is_none))
    }

    /// The shape of an input, if its gradient leaves by an edge.
    pub(crate) fn input_shape(&self, input: usize) -> Option<&Shape> {
        Some(&self.next_edges.get(input)?.as_ref()?.metadata().shape)
    }

    /// The shape of an input whose gradient leaves by an edge.
    pub(crate) fn own_shape(&self, input: usize) -> Shape {
        self.input_shape(input).expect("who asks has the edge").clone()
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
            let tensor = packed?.unpack(self.saved_like()?);
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
        let Some(like) = self.saved_like() else { return };
        self.saved.update(|saved| match saved {
            Saved::Kept(values) => {
                values.iter().for_each(|v| v.as_ref().map(|v| &v.shape(like)[..]).hash(digest));
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
    /// They come into a place of the caller's, since they are large.
    #[inline]
    pub(crate) fn unpack<'u>(
        &self,
        retain: bool,
        again: &mut Recomputed,
        unpacked: &'u mut Unpacked,
    ) -> Result<&'u Unpacked> {
        unpacked.inputs = self.next_edges.len();
        if self.saves {
            self.unpack_saved(retain, again, unpacked)?;
        }
        Ok(unpacked)
    }

    fn unpack_saved(&self, retain: bool, again: &mut Recomputed, unpacked: &mut Unpacked) -> Result<()> {
        let like = self.saved_like().expect("what has saved something has an output");
        // Where they lie. Handles alone are moved and cloned under the lock.
        let done = self.saved.update(|saved| {
            let Saved::Kept(packed) = saved else { return false };
            for (place, p) in packed.iter_mut().enumerate() {
                match retain {
                    true => Packed::unpack_to(&mut p.clone(), like, unpacked.at(place)),
                    false => Packed::unpack_to(p, like, unpacked.at(place)),
                }
            }
            if !retain {
                *saved = Saved::Freed;
            }
            true
        });
        if !done {
            for (place, value) in self.unpack_budgeted(retain, again)?.into_iter().enumerate() {
                *unpacked.at(place) = value;
            }
        }
        Ok(())
    }

    #[cold]
    fn unpack_budgeted(&self, retain: bool, again: &mut Recomputed) -> Result<SmallVec<[Option<Tensor>; 2]>> {
        let saved = if retain { self.saved.read() } else { self.saved.update(Saved::take) };
        let Saved::Budgeted(budgeted) = saved else {
            return refuse(GraphFacts::Freed { op: self.name(), location: self.location });
        };
        budgeted.come_to(again);
        budgeted.unpack(again).map_err(|e| self.in_backward(e))
    }

    /// Says in which operation's gradient a tensor's operation was refused. That has no line of its own: it is the library's.
    /// Other errors stay as they are, a user's own among them.
    #[cold]
    pub(crate) fn in_backward(&self, source: Error) -> Error {
        match source.facts::<TensorFacts>() {
            Some(_) => self.in_function(source).with_location(None),
            None => source,
        }
    }

    /// The same for a function of a user's own, whose line inside it stays.
    #[cold]
    pub(crate) fn in_function(&self, source: Error) -> Error {
        if source.facts::<TensorFacts>().is_none() {
            return source;
        }
        let at = source.location();
        let source = source.with_location(None);
        Error::from(GraphFacts::Backward { op: self.name(), location: self.location, source })
            .with_location(at)
    }
}

impl Default for Node {
    /// Nothing yet: [`Arc::default`] makes it where it stays.
    #[inline(always)]
    fn default() -> Node {
        Node {
            sequence: EMPTIED,
            kind: NodeKind::Rule(&NOTHING, [0.0; 2]),
            next_edges: SmallVec::new(),
            metadata: SmallVec::new(),
            saves: false,
            saved: StateCell::new(Saved::default()),
            location: Location::caller(),
            attached: OnceLock::new(),
        }
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
        let bytes = std::mem::size_of::<Option<Var>>();
        assert!(bytes <= 88, "a gradient that waits takes {bytes} bytes");
    }
}
