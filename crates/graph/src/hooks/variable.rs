//! What a variable can be asked for in backward passes to come: to keep its gradient, and to show it to hooks.

use std::convert::Infallible;
use std::panic::Location;
use std::sync::Arc;

use foldback_tensor::{Here, refuse};

use super::result::looked;
use super::{Hook, HookHandle, HookResult, Hooks, Registered};
use crate::error::{GraphFacts, Result};
use crate::node::{Var, VarKind};

impl Var {
    /// Asks backward passes to leave a gradient here too, although this is not a leaf. Does nothing for leaves.
    ///
    /// # Errors
    /// `RetainWithoutGrad` if this does not require a gradient.
    ///
    /// An in-place operation on this handle hands the wish, and the gradient that is there, on to the new value, as in PyTorch. For clones of
    /// the handle the older value keeps its own, without a history; hooks stay with it. The
    /// gradient is a value without history, unless the pass was recorded with
    /// [`Backward::create_graph`](crate::Backward::create_graph).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let y = tensor![3.0].requires_grad() * 2.0;
    /// y.retain_grad()?;
    /// y.square().backward()?;
    /// assert_eq!(y.grad(), Some(tensor![12.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn retain_grad(&self) -> Result<()> {
        if !self.requires_grad() {
            return refuse(GraphFacts::RetainWithoutGrad).here();
        }
        if let VarKind::Tracked(_, edge) = &self.kind
            && edge.node.as_leaf().is_none()
        {
            Hooks::retain(&edge.node, edge.nr);
        }
        Ok(())
    }

    /// Registers a function that sees this variable's gradient in every backward pass and may replace it: by what it returns,
    /// see [`HookResult`]. A pass in which a hook returns an error fails with that.
    ///
    /// Hooks run in the order of registration. A hook that captures its own variable keeps the graph alive for ever;
    /// capture [`Var::downgrade`]'s handle instead. [`HookHandle::remove`] takes it away again; without it the hook stays. A hook that
    /// returns a gradient of another shape or type makes the backward pass fail with `Assigned`, which names the line of this
    /// call. Of what it returns
    /// the value is taken at once: a leaf may be written later. Its history is ignored, unless the pass is recorded.
    ///
    /// Operations in a hook record only where the pass itself is recorded
    /// ([`Backward::create_graph`](crate::Backward::create_graph)), whatever the mode of the thread that started it;
    /// [`enable_grad`](crate::enable_grad) inside the hook switches recording on, which a graph that the hook itself goes
    /// backward through needs.
    ///
    /// A hook may itself start a backward pass. Where passes are nested deeply, each in a hook or a function of another,
    /// a pass and its hooks run on a thread of their own: what the library keeps per thread goes along (recording, the
    /// number of threads, the default generator), what others keep does not.
    ///
    /// # Errors
    /// `HookWithoutGrad` on a variable that requires no gradient: the hook would never run.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// let hook = x.register_hook(|g| g * 10.0)?;
    /// (&x * 2.0).backward()?;
    /// assert_eq!(x.grad(), Some(tensor![20.0]));
    /// hook.remove();
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn register_hook<R: HookResult>(
        &self,
        hook: impl Fn(&Var) -> R + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        let Some(edge) = self.edge() else {
            return refuse(GraphFacts::HookWithoutGrad { op: "register_hook" }).here();
        };
        let (f, line) = (Arc::new(move |g: &Var| hook(g).replacement()), Location::caller());
        Ok(Hooks::add(&edge.node, Hook::Output(edge.nr, Registered { f, line })))
    }

    /// Registers a function that runs in every backward pass that leaves a gradient in this leaf, right after it has been
    /// written: it sees the leaf, whose `grad` is complete, and may use it up, in a step of an optimiser for instance.
    ///
    /// The gradient is written, and the function run, as soon as the last operation has been that uses the leaf, while the
    /// pass goes on: so a model's gradients need not all live at once. If the pass fails later, what this leaf was given
    /// stays, as does what the function did; leaves without such hooks are left as they were. Passes that leave nothing in the
    /// leaf ([`grad`](crate::grad()), [`Backward::inputs`](crate::Backward::inputs) without it) do not run the function.
    ///
    /// It returns nothing or a `Result`, with whose error the pass fails. What it owns and records is as for
    /// [`Var::register_hook`]: it gets the leaf, and must not own it.
    ///
    /// # Errors
    /// `HookOnResult` on anything but a leaf, `HookWithoutGrad` on one that requires no gradient.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let w = tensor![5.0].requires_grad();
    /// w.register_post_accumulate_grad_hook(|w: &Var| {
    ///     let g = w.grad().expect("it has just been written");
    ///     w.zero_grad();
    ///     w.update_value(|value| value.sub_(&g * 0.1).map(|_| ()))
    /// })?;
    /// (&w * 10.0).backward()?;
    /// assert_eq!((w.value(), w.grad()), (tensor![4.0], None));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn register_post_accumulate_grad_hook<R: HookResult<Infallible>>(
        &self,
        hook: impl Fn(&Var) -> R + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        let op = "register_post_accumulate_grad_hook";
        match &self.kind {
            VarKind::Leaf(node) if self.requires_grad() => {
                Ok(Hooks::add(node, Hook::Accumulated(Arc::new(move |leaf| looked(hook(leaf))))))
            }
            VarKind::Tracked(..) => refuse(GraphFacts::HookOnResult { op }).here(),
            _ => refuse(GraphFacts::HookWithoutGrad { op }).here(),
        }
    }
}
