//! A read-only view of a graph: one family of types for all who look at one, be it a hook, a plan, a text or a page.

mod again;
mod collect;
mod dot;
mod layers;
mod memory;
mod page;
mod pass;
mod plan;
mod text;

use std::panic::Location;

use foldback_tensor::{DType, Here, Shape};

pub use memory::Step;
pub use plan::{BackwardPlan, backward_plan};

use crate::backward::no_graph;
use crate::error::Result;
use crate::node::{Var, Way};

/// A graph as it was when the view was made, in the order in which a backward pass runs its nodes.
///
/// A view holds no value and keeps no graph alive. `{}` shows a line for each node and each edge; [`to_dot`](GraphView::to_dot)
/// is for Graphviz. A [`BackwardPlan`] adds what a pass needs in memory, and a page.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_tensor::tensor;
/// let x = tensor![[1.0], [2.0]].requires_grad(); // [2, 1]
/// let y = (&x * tensor![1.0, 2.0, 3.0]).sum(..)?;
/// let graph = y.graph()?;
/// let [sum, mul, leaf] = graph.nodes() else { panic!() };
/// assert_eq!((sum.name, mul.name, leaf.name), ("sum", "mul", "AccumulateGrad"));
/// let edge = mul.edges[0].as_ref().unwrap();
/// assert_eq!((&edge.gradient, edge.folded_axes()), (&[2, 3].into(), vec![1]));
/// assert_eq!(mul.saved_bytes(), 12);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GraphView {
    nodes: Vec<NodeView>,
}

/// A recorded operation, or a leaf. Its number is its place among [`GraphView::nodes`].
#[derive(Clone, Debug)]
pub struct NodeView {
    /// the operation; `AccumulateGrad` for a leaf
    pub name: &'static str,
    /// what [`GraphView::named`] calls a leaf
    pub label: Option<String>,
    /// what it made
    pub outputs: Vec<ValueView>,
    /// per input, where its gradient goes; none if the input is not tracked
    pub edges: Vec<Option<EdgeView>>,
    /// what it keeps for the backward pass
    pub saved: Vec<SavedView>,
    /// whether a pass has freed what it kept
    pub is_freed: bool,
    /// the line that recorded it, or that made the leaf
    pub location: &'static Location<'static>,
    /// the node's number in this process
    pub(crate) sequence: u64,
    /// what is computed again for it within a budget
    again: again::Again,
    /// what the node itself takes up, in bytes
    own_bytes: usize,
    leaf: Option<LeafView>,
}

/// What memory a leaf has to do with, in bytes.
#[derive(Clone, Copy, Debug)]
struct LeafView {
    value: usize,
    grad: Option<usize>,
}

/// Shape and type of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueView {
    /// the sizes
    pub shape: Shape,
    /// the element type
    pub dtype: DType,
}

/// The way of a gradient to an input.
#[derive(Clone, Debug)]
pub struct EdgeView {
    /// the node that it goes to
    pub node: usize,
    /// and which of its outputs the input was
    pub output: usize,
    /// the shape that the gradient has before it is folded
    pub gradient: Shape,
    /// the shape that it is folded to: that of the input
    pub input: Shape,
    way: Way,
}

/// A value that a node keeps.
#[derive(Clone, Debug)]
pub struct SavedView {
    /// which value it is
    pub slot: Slot,
    /// its shape and type
    pub value: ValueView,
    /// the bytes of its storage, of which the value may be a part; 0 for a single number, which is in the node
    pub bytes: usize,
    /// where these bytes are counted
    pub kept: Kept,
    /// whether a variable or a tensor outside the graph holds the storage, too: a pass does not free it then
    pub is_held: bool,
    storage: Option<usize>,
}

/// Which value of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// an input, by its number
    Input(usize),
    /// an output, by its number; behind the outputs, what a fused operation reduced
    Output(usize),
}

/// Where the bytes of a saved value are counted: several nodes may keep one storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// at this node: of those that keep the storage it runs last
    Here,
    /// at another node, which keeps the storage longer, or at another value of this one, by the node's number
    At(usize),
    /// nowhere: they are those of a leaf's value
    InLeaf(usize),
}

impl EdgeView {
    /// The axes that are summed away, counted in the gradient's shape; none if it fits as it is.
    pub fn folded_axes(&self) -> Vec<usize> {
        let (from, to) = (self.gradient.dims(), self.input.dims());
        let missing = from.len().saturating_sub(to.len());
        let summed = |axis: &usize| *axis < missing || from[*axis] != to[*axis - missing];
        if from == to { Vec::new() } else { (0..from.len()).filter(summed).collect() }
    }

    /// Whether the gradient is folded.
    pub fn is_fold(&self) -> bool {
        self.gradient != self.input
    }
}

impl NodeView {
    /// Whether it is a leaf, where a gradient stays.
    pub fn is_leaf(&self) -> bool {
        self.leaf.is_some()
    }

    /// The bytes that it keeps, each storage counted once in a graph, see [`Kept`].
    pub fn saved_bytes(&self) -> usize {
        self.saved.iter().filter(|s| s.kept == Kept::Here).map(|s| s.bytes).sum()
    }
}

impl GraphView {
    /// All nodes that the root depends on, leaves included. A node's number is larger than those of all that use it.
    pub fn nodes(&self) -> &[NodeView] {
        &self.nodes
    }

    /// The bytes that the graph keeps for its backward pass, beside the values of leaves.
    pub fn saved_bytes(&self) -> usize {
        self.nodes.iter().map(NodeView::saved_bytes).sum()
    }

    /// The bytes of leaves: of their values, and of the gradients that they have.
    fn leaf_bytes(&self) -> usize {
        self.nodes.iter().filter_map(|n| n.leaf).map(|leaf| leaf.value + leaf.grad.unwrap_or(0)).sum()
    }

    /// The bytes of the nodes themselves, without the tensors that they keep: some hundred for each.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let mut y = foldback_tensor::tensor![1.0].requires_grad();
    /// for _ in 0..1000 {
    ///     y = y * 2.0;
    /// }
    /// assert!((200_000..400_000).contains(&y.graph()?.node_bytes()));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn node_bytes(&self) -> usize {
        self.nodes.iter().map(|n| n.own_bytes).sum()
    }

    /// Gives leaves names, for texts, such as those of a model's `named_parameters`. Others than leaves of this graph are
    /// passed over.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// let graph = x.exp().graph()?.named([("x", &x)]);
    /// assert_eq!(graph.to_text(), "\
    /// graph: 1 operation, 1 leaf; keeps 8 B
    /// #0 exp -> f32 [2], keeps 8 B
    ///     input 0: to #1 x
    /// #1 leaf x: f32 [2]
    /// ");
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[must_use = "a view is returned"]
    pub fn named<V: AsRef<Var>>(
        mut self,
        names: impl IntoIterator<Item = (impl Into<String>, V)>,
    ) -> GraphView {
        for (name, var) in names {
            let Some(edge) = var.as_ref().edge() else { continue };
            let leaves = self.nodes.iter_mut().filter(|n| n.is_leaf());
            let named = leaves.filter(|n| n.sequence == edge.node.sequence);
            let name = name.into();
            named.for_each(|n| n.label = Some(name.clone()));
        }
        self
    }

    /// Every edge that folds its gradient, with the node it leaves and the number of the input.
    pub fn folds(&self) -> impl Iterator<Item = (usize, usize, &EdgeView)> {
        let each = self.nodes.iter().enumerate().flat_map(|(node, n)| {
            n.edges.iter().enumerate().filter_map(move |(input, e)| Some((node, input, e.as_ref()?)))
        });
        each.filter(|(_, _, edge)| edge.is_fold())
    }
}

/// # Looking at graphs
impl Var {
    /// The graph that led to this variable.
    ///
    /// # Errors
    /// `NoGraph` if nothing was recorded.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let y = tensor![1.0, 2.0].requires_grad().square();
    /// assert_eq!(y.graph()?.saved_bytes(), 0); // the leaf's own value
    /// assert!(y.detach().graph().is_err());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn graph(&self) -> Result<GraphView> {
        match self.edge() {
            Some(edge) => Ok(collect::collect(&collect::reachable(&[edge]))),
            None => Err(no_graph("graph", 0, self)).here(),
        }
    }
}
