//! `Var`: a handle on a value in a graph.

mod received;
mod weak;
mod write;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldback_tensor::{Compared, DType, Here, Shape, Tensor, or_panic, refuse};

use crate::error::{GraphFacts, Result};
use crate::node::{Edge, Leaf, Node, Var, VarKind};

pub use weak::WeakVar;
#[doc(hidden)]
pub use write::{Writing, write_together};

/// A variable's value, borrowed where it lies in the handle itself.
pub(crate) enum ValueRef<'a> {
    Borrowed(&'a Tensor),
    Owned(Tensor),
}

impl ValueRef<'_> {
    #[inline]
    pub(crate) fn into_owned(self) -> Tensor {
        match self {
            ValueRef::Borrowed(t) => t.clone(),
            ValueRef::Owned(t) => t,
        }
    }
}

impl Deref for ValueRef<'_> {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        match self {
            ValueRef::Borrowed(t) => t,
            ValueRef::Owned(t) => t,
        }
    }
}

/// Makes leaves of tensors.
pub trait RequiresGrad {
    /// A leaf variable with this value, which `backward` computes a gradient for.
    ///
    /// # Panics
    /// If the element type is not a floating-point one; see [`Var::leaf`] for the form that returns an error.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let x = foldback_tensor::tensor![1.0, 2.0].requires_grad();
    /// assert!(x.is_leaf() && x.requires_grad());
    /// ```
    fn requires_grad(self) -> Var;

    /// A variable with this value: a leaf, or a constant.
    ///
    /// # Panics
    /// As [`requires_grad`](RequiresGrad::requires_grad), where it is to be a leaf.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let x = foldback_tensor::tensor![1.0, 2.0];
    /// assert!(x.requires_grad_(true).requires_grad());
    /// assert!(!x.requires_grad_(false).requires_grad());
    /// ```
    fn requires_grad_(&self, on: bool) -> Var;
}

impl RequiresGrad for Tensor {
    #[track_caller]
    fn requires_grad(self) -> Var {
        or_panic(Var::leaf(self))
    }

    #[track_caller]
    fn requires_grad_(&self, on: bool) -> Var {
        if on { or_panic(Var::leaf(self.clone())) } else { Var::constant(self.clone()) }
    }
}

impl Var {
    /// A leaf variable that requires a gradient.
    ///
    /// # Errors
    /// `DTypeWithoutGrad` for integers and `bool`.
    ///
    /// ```
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// assert!(Var::leaf(tensor![1, 2; i64]).is_err());
    /// ```
    #[track_caller]
    pub fn leaf(value: Tensor) -> Result<Var> {
        if !value.dtype().is_float() {
            return refuse(GraphFacts::DTypeWithoutGrad { dtype: value.dtype() }).here();
        }
        Ok(Var { kind: VarKind::Leaf(Node::leaf(value)) })
    }

    /// A variable without history, which requires no gradient. The same as `Var::from(tensor)`.
    #[doc(alias = "new")]
    pub fn constant(value: Tensor) -> Var {
        Var { kind: VarKind::Constant(value) }
    }

    pub(crate) fn tracked(value: Tensor, node: Arc<Node>, nr: usize) -> Var {
        Var { kind: VarKind::Tracked(value, Edge { node, nr }) }
    }

    /// The value. A clone of a tensor is a reference count.
    pub fn value(&self) -> Tensor {
        self.value_ref().into_owned()
    }

    #[inline]
    pub(crate) fn value_ref(&self) -> ValueRef<'_> {
        match &self.kind {
            VarKind::Constant(t) | VarKind::Tracked(t, _) => ValueRef::Borrowed(t),
            VarKind::Leaf(node) => ValueRef::Owned(leaf(node).value.read()),
        }
    }

    /// The value of a variable that nobody can write to.
    #[inline]
    pub(crate) fn borrowed_value(&self) -> Option<&Tensor> {
        match &self.kind {
            VarKind::Constant(t) | VarKind::Tracked(t, _) => Some(t),
            VarKind::Leaf(_) => None,
        }
    }

    /// The sizes, outermost axis first.
    pub fn shape(&self) -> &Shape {
        match &self.kind {
            VarKind::Constant(t) | VarKind::Tracked(t, _) => t.shape(),
            VarKind::Leaf(node) => &node.metadata[0].shape,
        }
    }

    /// How many axes.
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }

    /// The sizes as an array, for a pattern: `let [n, d] = x.sizes()?`.
    ///
    /// # Errors
    /// If there are not as many axes as the pattern has names.
    ///
    /// ```
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// let x = Var::from(tensor![[1.0, 2.0, 3.0]]);
    /// let [n, d] = x.sizes()?;
    /// assert_eq!(x.reshape((d, n, -1))?.shape(), [3, 1, 1]);
    /// assert!(x.sizes::<3>().is_err());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn sizes<const N: usize>(&self) -> Result<[usize; N]> {
        self.shape().sizes()
    }

    /// How many elements.
    pub fn numel(&self) -> usize {
        self.shape().numel()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        match &self.kind {
            VarKind::Constant(t) | VarKind::Tracked(t, _) => t.dtype(),
            VarKind::Leaf(node) => node.metadata[0].dtype,
        }
    }

    /// Whether this is no operation's result: made by the user, or without history.
    pub fn is_leaf(&self) -> bool {
        !matches!(self.kind, VarKind::Tracked(..))
    }

    /// Whether operations on it record themselves.
    pub fn requires_grad(&self) -> bool {
        match &self.kind {
            VarKind::Constant(_) => false,
            VarKind::Tracked(..) => true,
            VarKind::Leaf(node) => leaf(node).requires_grad.load(Ordering::Relaxed),
        }
    }

    /// Turns gradients on or off for a leaf. A value without history becomes a leaf of its own when turned on.
    ///
    /// # Errors
    /// `NotALeaf` when turning off the result of an operation; `DTypeWithoutGrad` for integers and `bool`.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let mut x = tensor![1.0].requires_grad();
    /// x.requires_grad_(false)?;
    /// assert!(!(&x * 2.0).requires_grad());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn requires_grad_(&mut self, on: bool) -> Result<()> {
        match &self.kind {
            VarKind::Leaf(node) => leaf(node).requires_grad.store(on, Ordering::Relaxed),
            VarKind::Constant(t) if on => *self = Var::leaf(t.clone())?,
            VarKind::Constant(_) => {}
            VarKind::Tracked(..) if on => {}
            VarKind::Tracked(..) => return refuse(GraphFacts::NotALeaf { op: "requires_grad_" }).here(),
        }
        Ok(())
    }

    /// The same value without its history: gradients stop here.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let x = foldback_tensor::tensor![1.0].requires_grad();
    /// assert!(!x.detach().requires_grad());
    /// ```
    #[doc(alias = "detach_")]
    pub fn detach(&self) -> Var {
        Var::constant(self.value())
    }

    /// A variable of its own with the same value, where `clone()` is a handle on the same variable.
    ///
    /// The copy of a leaf is a leaf, which requires a gradient if this one does; gradient and hooks stay behind. The result
    /// of an operation has no value of its own: it stays the same variable.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let w = tensor![1.0].requires_grad();
    /// let copy = w.deep_copy();
    /// w.update_value(|v| {
    ///     v.add_(1.0)?;
    ///     Ok(())
    /// })?;
    /// assert_eq!((w.value(), copy.value()), (tensor![2.0], tensor![1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn deep_copy(&self) -> Var {
        let VarKind::Leaf(node) = &self.kind else { return self.clone() };
        let copy = Node::leaf(self.value());
        leaf(&copy).requires_grad.store(leaf(node).requires_grad.load(Ordering::Relaxed), Ordering::Relaxed);
        Var { kind: VarKind::Leaf(copy) }
    }

    /// The same variable, with the value that it has now: a leaf's may be written later.
    pub(crate) fn snapshot(&self) -> Var {
        let value = self.value();
        match self.edge() {
            Some(edge) => Var { kind: VarKind::Tracked(value, edge) },
            None => Var::constant(value),
        }
    }

    /// Whether two handles stand for one variable: the same leaf, or the same output of the same operation. A variable
    /// without history is a value, and the same as none.
    pub fn is_same(&self, other: &Var) -> bool {
        match (self.edge_anyway(), other.edge_anyway()) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a.node, &b.node) && a.nr == b.nr,
            _ => false,
        }
    }

    /// The edge that gradients of this variable leave by; none if it requires no gradient.
    #[inline]
    pub(crate) fn edge(&self) -> Option<Edge> {
        match &self.kind {
            VarKind::Constant(_) => None,
            VarKind::Tracked(_, edge) => Some(edge.clone()),
            VarKind::Leaf(node) if leaf(node).requires_grad.load(Ordering::Relaxed) => {
                Some(Edge { node: node.clone(), nr: 0 })
            }
            VarKind::Leaf(_) => None,
        }
    }

    fn edge_anyway(&self) -> Option<Edge> {
        match &self.kind {
            VarKind::Leaf(node) => Some(Edge { node: node.clone(), nr: 0 }),
            _ => self.edge(),
        }
    }

    /// The node of a leaf, for an in-place operation that may change it.
    pub(crate) fn own_leaf(&self) -> Option<Arc<Node>> {
        if let VarKind::Leaf(node) = &self.kind { Some(node.clone()) } else { None }
    }
}

fn leaf(node: &Node) -> &Leaf {
    node.as_leaf().expect("a leaf variable's node is a leaf")
}

impl AsRef<Shape> for Var {
    fn as_ref(&self) -> &Shape {
        self.shape()
    }
}

impl Compared for Var {
    fn compared(&self) -> Tensor {
        self.value()
    }
}

/// For lists of variables, which may hold them or refer to them.
impl AsRef<Var> for Var {
    fn as_ref(&self) -> &Var {
        self
    }
}
macro_rules! from_numbers {
    ($($t:ty),*) => {$(
        /// A number: a constant of this type and no axes.
        impl From<$t> for Var {
            fn from(number: $t) -> Var {
                Var::constant(Tensor::from(number))
            }
        }
    )*};
}
from_numbers!(f32, f64, i64, bool);

impl From<Tensor> for Var {
    fn from(t: Tensor) -> Var {
        Var::constant(t)
    }
}

impl From<&Var> for Var {
    /// Another handle.
    fn from(v: &Var) -> Var {
        v.clone()
    }
}

impl From<&Tensor> for Var {
    fn from(t: &Tensor) -> Var {
        Var::constant(t.clone())
    }
}

impl fmt::Debug for Var {
    /// The value, and `requires_grad=true` for a tracked leaf or `grad_fn=<name>` for an operation's result.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}", self.value());
        let body = text.strip_suffix(')').unwrap_or(&text);
        match &self.kind {
            VarKind::Tracked(_, edge) => write!(f, "{body}, grad_fn=<{}>)", edge.node.name()),
            VarKind::Leaf(_) if self.requires_grad() => write!(f, "{body}, requires_grad=true)"),
            _ => f.write_str(&text),
        }
    }
}

impl fmt::Display for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
