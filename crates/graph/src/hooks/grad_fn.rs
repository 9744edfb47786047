//! A recorded operation, as those see it who put hooks on it.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::{Gradients, Hook, HookHandle, HookResult, Hooks, Registered};
use crate::node::{Node, Var, VarKind};

/// A handle on the operation that made a variable, see [`Var::grad_fn`]. It keeps the graph alive, as a variable does.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_tensor::tensor;
/// let x = tensor![2.0].requires_grad();
/// let y = x.square() * 3.0;
/// assert_eq!(y.grad_fn().unwrap().name(), "mul");
/// assert!(x.grad_fn().is_none());
/// ```
#[derive(Clone)]
pub struct GradFn {
    pub(crate) node: Arc<Node>,
}

/// The same operation, not one like it.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// let x = foldback_tensor::tensor![1.0].requires_grad();
/// let (y, again) = (x.exp(), x.exp());
/// assert_eq!(y.grad_fn(), y.clone().grad_fn());
/// assert_ne!(y.grad_fn(), again.grad_fn());
/// ```
impl PartialEq for GradFn {
    fn eq(&self, other: &GradFn) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }
}

impl Eq for GradFn {}

impl Var {
    /// The operation that made this variable; none for leaves and constants.
    pub fn grad_fn(&self) -> Option<GradFn> {
        match &self.kind {
            VarKind::Tracked(_, edge) if edge.node.as_leaf().is_none() => {
                Some(GradFn { node: edge.node.clone() })
            }
            _ => None,
        }
    }
}

impl GradFn {
    /// The operation's name.
    pub fn name(&self) -> &'static str {
        self.node.name()
    }

    /// The source line that recorded the operation.
    pub fn location(&self) -> &'static Location<'static> {
        self.node.location
    }

    /// Registers a function that runs before the operation's gradients are computed, in every pass that computes any:
    /// it sees the gradients of all outputs of the operation, after the hooks on these variables, and may return others
    /// in their place. `retain_grad` keeps those from before it.
    ///
    /// What it returns has as many places as there are outputs: `None` takes a gradient away, and where there was none,
    /// one may be put. If none is left, the pass does not go on to the operation's inputs from here. Another number of
    /// places makes the pass fail with `HookGradients`, another shape or type with `Assigned`. For the rest a node's hooks
    /// are as those on variables, see [`Var::register_hook`]: recording, passes inside them, [`HookHandle`].
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let x = tensor![2.0].requires_grad();
    /// let y = x.square();
    /// y.grad_fn().unwrap().register_prehook(|grads: &[Option<Var>]| vec![grads[0].as_ref().map(|g| g * 10.0)]);
    /// y.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![40.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn register_prehook<R: HookResult<Gradients>>(
        &self,
        hook: impl Fn(&[Option<Var>]) -> R + Send + Sync + 'static,
    ) -> HookHandle {
        let f = Arc::new(move |outputs: &[Option<Var>]| hook(outputs).replacement());
        Hooks::add(&self.node, Hook::Before(Registered { f, line: Location::caller() }))
    }

    /// Registers a function that runs after the operation's gradients have been computed: it sees those of its inputs,
    /// folded to their shapes and `None` where none is asked for, and those of its outputs that they were computed from.
    /// It may return others in place of the inputs'; one for an input that is not tracked is ignored.
    ///
    /// An input's gradient is what *this* operation gives it; other operations on the same variable may add theirs. A
    /// [`checkpoint`](crate::checkpoint()) gives none itself: the operations do that it runs again.
    /// Errors are those of [`GradFn::register_prehook`].
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let (x, b) = (tensor![2.0, 3.0].requires_grad(), tensor![1.0].requires_grad());
    /// let y = &x * &b;
    /// y.grad_fn().unwrap().register_hook(|inputs: &[Option<Var>], _: &[Option<Var>]| {
    ///     assert_eq!(inputs[1].as_ref().unwrap().value(), tensor![5.0]); // folded
    ///     vec![None, inputs[1].clone()]
    /// });
    /// y.sum(..)?.backward()?;
    /// assert_eq!((x.grad(), b.grad()), (None, Some(tensor![5.0])));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn register_hook<R: HookResult<Gradients>>(
        &self,
        hook: impl Fn(&[Option<Var>], &[Option<Var>]) -> R + Send + Sync + 'static,
    ) -> HookHandle {
        let f = move |inputs: &[Option<Var>], outputs: &[Option<Var>]| hook(inputs, outputs).replacement();
        Hooks::add(&self.node, Hook::After(Registered { f: Arc::new(f), line: Location::caller() }))
    }
}

impl fmt::Debug for GradFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}
