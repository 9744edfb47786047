//! `Var`: a handle on a value in a graph.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use foldback_tensor::{Compared, DType, Here, Shape, Tensor, TensorFacts, or_panic, refuse};

use crate::error::{GraphFacts, Result};
use crate::hooks::Hooks;
use crate::mode::is_grad_enabled;
use crate::node::{Edge, InputMetadata, Leaf, Node};
use crate::turn::Turn;

/// A value that operations record themselves on: a tensor, and perhaps the node that made it.
///
/// [`RequiresGrad::requires_grad`] makes a *leaf* of a tensor; operations on it make further variables; `backward`
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

    pub(crate) fn tracked(value: Tensor, node: Arc<Node>, nr: u32) -> Var {
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
            VarKind::Tracked(..) => return refuse(GraphFacts::NotALeaf).here(),
        }
        Ok(())
    }

    /// The gradient that backward passes have left here, `None` before the first.
    ///
    /// Dense and row-major for a leaf. A variable that an operation made has one only after [`Var::retain_grad`];
    /// asking it without is answered with `None` and one warning through the `log` facade.
    pub fn grad(&self) -> Option<Tensor> {
        self.grad_var().map(|g| g.value())
    }

    /// The gradient as a variable: after a backward pass with `create_graph` it has a history of its own.
    pub fn grad_var(&self) -> Option<Var> {
        match &self.kind {
            VarKind::Constant(_) => None,
            VarKind::Leaf(node) => leaf(node).grad.read(),
            VarKind::Tracked(_, edge) => Hooks::retained(&edge.node, edge.nr).unwrap_or_else(|| {
                static WARNED: AtomicBool = AtomicBool::new(false);
                if !WARNED.swap(true, Ordering::Relaxed) {
                    log::warn!(
                        "the grad of a variable that is not a leaf ({}) is being read; it is None unless retain_grad() was called",
                        edge.node.name()
                    )
                }
                None
            }),
        }
    }

    /// Sets or removes the gradient of a leaf.
    ///
    /// # Errors
    /// `NotALeaf` if it has none to set; `Assigned` if the gradient has another shape or type than the variable; also if
    /// it is an expanded view that no memory can hold.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// x.set_grad(Some(tensor![0.5, 0.5]))?;
    /// assert!(x.set_grad(Some(tensor![0.5])).is_err());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn set_grad(&self, grad: Option<Tensor>) -> Result<()> {
        let VarKind::Leaf(node) = &self.kind else { return refuse(GraphFacts::NotALeaf).here() };
        if let Some(g) = &grad {
            expect_fit("grad", &node.metadata[0], g).here()?;
        }
        let dense = |g: Tensor| g.try_contiguous().map(Var::constant).map_err(|e| e.named("set_grad"));
        let grad = grad.map(dense).transpose().here()?;
        drop(leaf(node).grad.replace(grad));
        Ok(())
    }

    /// Forgets the gradient, so that the next backward pass starts afresh.
    pub fn zero_grad(&self) {
        match &self.kind {
            VarKind::Leaf(node) => drop(leaf(node).grad.replace(None)),
            VarKind::Tracked(_, edge) => Hooks::clear_retained(&edge.node, edge.nr),
            VarKind::Constant(_) => {}
        }
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

    /// A handle that does not keep the graph alive.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let y = foldback_tensor::tensor![1.0].requires_grad() * 2.0;
    /// let weak = y.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(y);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn downgrade(&self) -> WeakVar {
        WeakVar(match &self.kind {
            VarKind::Constant(t) => WeakKind::Constant(t.clone()),
            VarKind::Leaf(node) => WeakKind::Leaf(Arc::downgrade(node)),
            VarKind::Tracked(t, edge) => WeakKind::Tracked(t.clone(), Arc::downgrade(&edge.node), edge.nr),
        })
    }

    /// Writes a new value into a leaf (all its clones see it) or replaces a value without history. Operations
    /// recorded before keep the value that they saw.
    ///
    /// # Errors
    /// `Assigned` if shape or type differ; `NotALeaf` for the result of an operation; `Updating` inside the function of
    /// [`Var::update_value`] on the same leaf.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let mut x = tensor![1.0].requires_grad();
    /// x.set_value(tensor![5.0])?;
    /// assert_eq!(x.value(), tensor![5.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn set_value(&mut self, value: Tensor) -> Result<()> {
        match &mut self.kind {
            VarKind::Leaf(node) => {
                expect_fit("value", &node.metadata[0], &value).here()?;
                let _turn = leaf(node).writer.turn("set_value").here()?;
                drop(leaf(node).value.replace(value));
            }
            VarKind::Constant(t) => {
                expect_fit("value", &InputMetadata::of(t), &value).here()?;
                *t = value;
            }
            VarKind::Tracked(..) => return refuse(GraphFacts::NotALeaf).here(),
        }
        Ok(())
    }

    /// Changes a leaf's value by a function. If `f` fails, panics, or leaves another shape or type behind, the old
    /// value stays.
    ///
    /// No update is lost: while `f` runs, other threads that write to the leaf wait, and those that read it see the old
    /// value. So does `f` itself, which may read this and any other leaf. Two functions that update two leaves, each the
    /// other's inside its own, would wait for each other.
    ///
    /// # Errors
    /// `NotALeaf` for anything but a leaf, `Assigned` if shape or type changed, `Updating` if `f` writes to the leaf by
    /// another way, and whatever `f` returns.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// x.update_value(|t| t.add_(1.0).map(|_| ()))?;
    /// assert_eq!(x.value(), tensor![2.0]);
    /// assert!(x.update_value(|t| { *t = tensor![1.0, 2.0]; Ok(()) }).is_err());
    /// assert_eq!(x.value(), tensor![2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn update_value(&self, f: impl FnOnce(&mut Tensor) -> Result<()>) -> Result<()> {
        let VarKind::Leaf(node) = &self.kind else { return refuse(GraphFacts::NotALeaf).here() };
        let _turn = leaf(node).writer.turn("update_value").here()?;
        let mut value = self.value();
        f(&mut value)?;
        expect_fit("value", &node.metadata[0], &value).here()?;
        drop(leaf(node).value.replace(value));
        Ok(())
    }

    /// [`Var::update_value`] without the copy that keeping the old value costs, for optimisers: `f` is one tensor
    /// operation, which succeeds or changes nothing, and which keeps shape and type.
    #[doc(hidden)]
    pub fn update_in_place(&self, f: impl FnOnce(&mut Tensor) -> Result<()>) -> Result<()> {
        let VarKind::Leaf(node) = &self.kind else { return refuse(GraphFacts::NotALeaf).here() };
        let _turn = leaf(node).writer.turn("update_in_place")?;
        leaf(node).value.update(|value| {
            f(value)?;
            debug_assert!(expect_fit("value", &node.metadata[0], value).is_ok());
            Ok(())
        })
    }

    /// Refuses a leaf that this thread is updating, for optimisers, which find out before they change any.
    #[doc(hidden)]
    pub fn expect_not_updating(&self, op: &'static str) -> Result<()> {
        let VarKind::Leaf(node) = &self.kind else { return Ok(()) };
        leaf(node).writer.expect_other(op).map(|_| ())
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

    /// Refuses in-place operations on what they cannot be done to; a leaf is written to by one thread at a time.
    pub(crate) fn turn_to_rebind<'a>(
        &self,
        op: &'static str,
        leaf: Option<&'a Node>,
    ) -> Result<Option<Turn<'a>>> {
        let tracking_leaf = matches!(self.kind, VarKind::Leaf(_)) && self.requires_grad();
        if tracking_leaf && is_grad_enabled() {
            return refuse(GraphFacts::LeafInPlace { op });
        }
        let own = self.value();
        if own.overlaps_itself() {
            let (shape, strides) = (own.shape().clone(), own.strides().to_vec());
            return refuse(TensorFacts::Overlap { op, shape, strides });
        }
        leaf.map(|node| self::leaf(node).writer.turn(op)).transpose()
    }

    /// Rebinds this handle to the result of an in-place operation, which must have its shape; the type stays.
    // Not given a closure that makes the result: what it recorded would have no line of the caller's.
    #[track_caller]
    pub(crate) fn rebind(&mut self, op: &'static str, new: Var) -> Result<()> {
        if new.shape() != self.shape() {
            return refuse(new.shape().expand_error(op, "", self.shape()));
        }
        if new.dtype().category() > self.dtype().category() {
            return refuse(TensorFacts::ResultCast { op, from: new.dtype(), to: self.dtype() });
        }
        let new = new.to(self.dtype());
        if let VarKind::Leaf(node) = &self.kind
            && !new.requires_grad()
        {
            drop(leaf(node).value.replace(new.value()));
            return Ok(());
        }
        if let VarKind::Tracked(_, edge) = &self.kind
            && Hooks::retains(&edge.node, edge.nr)
        {
            new.keep_grad();
        }
        *self = new;
        Ok(())
    }
}

fn leaf(node: &Node) -> &Leaf {
    node.as_leaf().expect("a leaf variable's node is a leaf")
}

pub(crate) fn expect_fit(what: &'static str, meta: &InputMetadata, t: &Tensor) -> Result<()> {
    if meta.shape == *t.shape() && meta.dtype == t.dtype() {
        return Ok(());
    }
    refuse(GraphFacts::Assigned {
        what,
        expected_shape: meta.shape.clone(),
        expected_dtype: meta.dtype,
        found_shape: t.shape().clone(),
        found_dtype: t.dtype(),
    })
}

/// For lists of variables, which may hold them or refer to them.
impl Compared for Var {
    fn compared(&self) -> Tensor {
        self.value()
    }
}

impl AsRef<Var> for Var {
    fn as_ref(&self) -> &Var {
        self
    }
}
impl From<Tensor> for Var {
    fn from(t: Tensor) -> Var {
        Var::constant(t)
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

/// A handle on a variable that does not keep its graph alive, see [`Var::downgrade`].
#[derive(Clone)]
pub struct WeakVar(WeakKind);

#[derive(Clone)]
enum WeakKind {
    Constant(Tensor),
    Leaf(Weak<Node>),
    Tracked(Tensor, Weak<Node>, u32),
}

impl WeakVar {
    /// The variable, if something else still keeps it alive.
    pub fn upgrade(&self) -> Option<Var> {
        match &self.0 {
            WeakKind::Constant(t) => Some(Var::constant(t.clone())),
            WeakKind::Leaf(node) => Some(Var { kind: VarKind::Leaf(node.upgrade()?) }),
            WeakKind::Tracked(t, node, nr) => Some(Var::tracked(t.clone(), node.upgrade()?, *nr)),
        }
    }
}

impl fmt::Debug for WeakVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakVar")
    }
}
