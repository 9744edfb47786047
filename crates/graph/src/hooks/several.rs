//! Hooks on the gradients of several variables: on all of them together, or on the one that comes first.

use std::convert::Infallible;
use std::sync::{Arc, Weak};

use foldback_tensor::{Here, refuse};
use smallvec::SmallVec;

use super::result::looked;
use super::{Gradients, Hook, HookHandle, HookResult, Hooks, Look};
use crate::error::{GraphFacts, Result};
use crate::node::{Edge, Var};

/// A hook on several variables, which own it together.
pub(crate) struct Several {
    hook: OnSeveral,
    variables: usize,
    /// the smallest number of their nodes: behind it in a pass, no gradient of theirs is to come
    lowest: u64,
}

type LookAtAll = dyn Fn(&[Option<Var>]) -> Result<()> + Send + Sync;

enum OnSeveral {
    All(Box<LookAtAll>),
    Any(Box<Look>),
}

/// What a pass has met of the gradients for such a hook.
pub(crate) struct Gathering {
    hook: Weak<Several>,
    /// which of many gradients along a leading axis
    index: usize,
    /// none are kept where one is enough
    grads: Gradients,
    lowest: u64,
}

impl Gathering {
    /// Takes the gradient of one of the variables, and runs the hook if that was all it waits for.
    pub(crate) fn meet(
        gatherings: &mut Vec<Gathering>,
        hook: &Arc<Several>,
        (index, place): (usize, usize),
        grad: &Var,
    ) -> Result<()> {
        let own = |g: &Gathering| g.index == index && std::ptr::eq(g.hook.as_ptr(), Arc::as_ptr(hook));
        let met = gatherings.iter().position(own);
        let at = met.unwrap_or_else(|| {
            let grads = match hook.hook {
                OnSeveral::All(_) => vec![None; hook.variables],
                OnSeveral::Any(_) => Vec::new(),
            };
            gatherings.push(Gathering { hook: Arc::downgrade(hook), index, grads, lowest: hook.lowest });
            gatherings.len() - 1
        });
        match &hook.hook {
            OnSeveral::Any(look) if met.is_none() => look(grad),
            OnSeveral::Any(_) => Ok(()),
            OnSeveral::All(_) => {
                gatherings[at].grads[place] = Some(grad.clone());
                if gatherings[at].grads.iter().all(Option::is_some) {
                    gatherings.swap_remove(at).run()?;
                }
                Ok(())
            }
        }
    }

    /// Runs the hooks that nothing is to come for any more in a pass whose next node has this number.
    pub(crate) fn complete(gatherings: &mut Vec<Gathering>, next: Option<u64>) -> Result<()> {
        while let Some(at) = gatherings.iter().position(|g| Some(g.lowest) > next) {
            gatherings.remove(at).run()?;
        }
        Ok(())
    }

    /// Unless the hook has been removed.
    fn run(self) -> Result<()> {
        match self.hook.upgrade().as_deref() {
            Some(Several { hook: OnSeveral::All(look), .. }) => look(&self.grads),
            _ => Ok(()),
        }
    }
}

/// Registers a function that sees the gradients of several variables together, in every backward pass that reaches one
/// of them at least: once, when all of them are known that this pass will compute. The others are `None`.
///
/// The function sees each gradient as a hook on that variable would which was registered at this moment, and replaces none; it
/// runs before any gradient is written into a leaf without post-accumulate hooks. It returns nothing or a `Result`, with whose
/// error the pass fails. It must not own the variables, see [`Var::register_hook`]. [`HookHandle::remove`] takes it away
/// from all of them.
///
/// # Errors
/// `HookWithoutGrad` if one of the variables requires no gradient; `Empty` if there are none.
///
/// ```
/// use foldback_graph::{RequiresGrad, Var, register_multi_grad_hook};
/// use foldback_tensor::tensor;
/// let (a, b) = (tensor![3.0].requires_grad(), tensor![4.0].requires_grad());
/// let hook = register_multi_grad_hook([&a, &b], |grads: &[Option<Var>]| {
///     let norm: f64 = grads.iter().flatten().map(|g| g.value().item().unwrap().powi(2)).sum();
///     assert_eq!(norm.sqrt(), 5.0);
/// })?;
/// (&a * &b).backward()?; // the gradients are 4 and 3
/// hook.remove();
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn register_multi_grad_hook<R: HookResult<Infallible>>(
    variables: impl IntoIterator<Item: AsRef<Var>>,
    hook: impl Fn(&[Option<Var>]) -> R + Send + Sync + 'static,
) -> Result<HookHandle> {
    let edges = edges("register_multi_grad_hook", variables).here()?;
    Ok(register(edges, OnSeveral::All(Box::new(move |grads| looked(hook(grads))))))
}

/// Registers a function that sees one gradient in every backward pass that reaches one of these variables at least: the first
/// that is known. Otherwise as [`register_multi_grad_hook`]; PyTorch's `mode="any"`.
///
/// # Errors
/// As [`register_multi_grad_hook`].
///
/// ```
/// use foldback_graph::{RequiresGrad, Var, register_any_grad_hook};
/// use foldback_tensor::tensor;
/// let (a, b) = (tensor![3.0].requires_grad(), tensor![4.0].requires_grad());
/// register_any_grad_hook([&a, &b], |g: &Var| println!("gradients are arriving: {g}"))?;
/// (&a * &b).backward()?; // printed once
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn register_any_grad_hook<R: HookResult<Infallible>>(
    variables: impl IntoIterator<Item: AsRef<Var>>,
    hook: impl Fn(&Var) -> R + Send + Sync + 'static,
) -> Result<HookHandle> {
    let edges = edges("register_any_grad_hook", variables).here()?;
    Ok(register(edges, OnSeveral::Any(Box::new(move |grad| looked(hook(grad))))))
}

fn edges(op: &'static str, variables: impl IntoIterator<Item: AsRef<Var>>) -> Result<Vec<Edge>> {
    let edge = |v: &Var| v.edge().ok_or_else(|| GraphFacts::HookWithoutGrad { op }.into());
    let edges: Vec<Edge> = variables.into_iter().map(|v| edge(v.as_ref())).collect::<Result<_>>()?;
    if edges.is_empty() {
        return refuse(GraphFacts::Empty { op, what: "variables" });
    }
    Ok(edges)
}

fn register(edges: Vec<Edge>, hook: OnSeveral) -> HookHandle {
    let lowest = edges.iter().map(|edge| edge.node.sequence).min().unwrap_or(0);
    let several = Arc::new(Several { hook, variables: edges.len(), lowest });
    let mut places = SmallVec::new();
    for (place, edge) in edges.iter().enumerate() {
        places.extend(Hooks::add(&edge.node, Hook::OneOf(edge.nr, several.clone(), place)).places);
    }
    HookHandle { places }
}
