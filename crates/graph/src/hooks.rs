//! Hooks on gradients, and the gradients that non-leaf variables are asked to retain.

use std::sync::{Arc, OnceLock, Weak};

use foldback_tensor::{StateCell, Tensor};

use crate::anomaly::Origin;
use crate::dismantle::Rest;
use crate::error::Result;
use crate::gradient::add_in_place;
use crate::node::Node;
use crate::var::Var;

/// A function that sees a gradient and may replace it.
pub(crate) type Hook = Arc<dyn Fn(&Var) -> Result<Option<Var>> + Send + Sync>;

/// What a hook may return: nothing, the gradient that takes the place of the one it saw, an `Option` of that, or a
/// `Result` of any of these.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_tensor::{Error, tensor};
/// let x = tensor![1.0].requires_grad();
/// x.register_hook(|g| println!("{g}"))?;
/// x.register_hook(|g| g * 2.0)?;
/// x.register_hook(|g| if g.value().item_as::<f32>()? > 9.0 { Err(Error::other("it explodes")) } else { Ok(None) })?;
/// (&x * 3.0).backward()?;
/// assert_eq!(x.grad(), Some(tensor![6.0]));
/// assert_eq!((&x * 30.0).backward().unwrap_err().to_string(), "it explodes");
/// # Ok::<(), foldback_graph::Error>(())
/// ```
pub trait HookResult {
    /// The gradient that replaces the one that was seen, if there is one.
    ///
    /// # Errors
    /// What the hook returns, with which the pass fails.
    fn replacement(self) -> Result<Option<Var>>;
}

impl HookResult for () {
    fn replacement(self) -> Result<Option<Var>> {
        Ok(None)
    }
}
impl HookResult for Var {
    fn replacement(self) -> Result<Option<Var>> {
        Ok(Some(self))
    }
}
impl HookResult for Tensor {
    fn replacement(self) -> Result<Option<Var>> {
        Ok(Some(self.into()))
    }
}
impl HookResult for Option<Var> {
    fn replacement(self) -> Result<Option<Var>> {
        Ok(self)
    }
}
impl<R: HookResult> HookResult for Result<R> {
    fn replacement(self) -> Result<Option<Var>> {
        self?.replacement()
    }
}

/// What a node keeps for those who look at gradients on their way.
#[derive(Default)]
pub(crate) struct Hooks {
    entries: StateCell<Entries>,
    /// what the operation is part of the derivative of, as anomaly mode notes it
    origin: OnceLock<Arc<Origin>>,
}

#[derive(Default)]
struct Entries {
    next_id: u64,
    /// id, output number, function; in the order of registration
    hooks: Vec<(u64, u32, Hook)>,
    retained: Vec<Retained>,
}

/// The gradient that an output keeps.
struct Retained {
    nr: u32,
    /// whether every pass is to leave one here, or one pass was told to
    always: bool,
    grad: Option<Var>,
}

impl Entries {
    fn retained(&mut self, nr: u32) -> &mut Retained {
        let found = self.retained.iter().position(|r| r.nr == nr);
        let at = found.unwrap_or_else(|| {
            self.retained.push(Retained { nr, always: false, grad: None });
            self.retained.len() - 1
        });
        &mut self.retained[at]
    }

    /// Whether every pass is to leave a gradient at an output.
    fn retains(&self, nr: u32) -> bool {
        self.retained.iter().any(|r| r.nr == nr && r.always)
    }
}

/// Takes a hook away again; dropping the handle leaves the hook in place.
#[derive(Debug)]
pub struct HookHandle {
    node: Weak<Node>,
    id: u64,
}

impl HookHandle {
    /// Removes the hook. Does nothing if the graph is gone already.
    pub fn remove(self) {
        if let Some(node) = self.node.upgrade()
            && let Some(hooks) = node.hooks.get()
        {
            let remove = |entries: &mut Entries| {
                entries.hooks.iter().position(|h| h.0 == self.id).map(|i| entries.hooks.remove(i))
            };
            drop(hooks.entries.update(remove));
        }
    }
}

impl Hooks {
    /// The entries of a node.
    fn of(node: &Node) -> &StateCell<Entries> {
        &node.hooks.get_or_init(Default::default).entries
    }

    pub(crate) fn add(node: &Arc<Node>, nr: u32, hook: Hook) -> HookHandle {
        let id = Hooks::of(node).update(|entries| {
            let id = entries.next_id;
            entries.next_id += 1;
            entries.hooks.push((id, nr, hook));
            id
        });
        HookHandle { node: Arc::downgrade(node), id }
    }

    pub(crate) fn origin(node: &Node) -> Option<Arc<Origin>> {
        node.hooks.get()?.origin.get().cloned()
    }

    /// Notes where an operation comes from; tells whether that was unknown.
    pub(crate) fn set_origin(node: &Node, origin: &Arc<Origin>) -> bool {
        node.hooks.get_or_init(Default::default).origin.set(origin.clone()).is_ok()
    }

    pub(crate) fn retain(node: &Node, nr: u32) {
        Hooks::of(node).update(|entries| entries.retained(nr).always = true);
    }

    /// Whether every pass is to leave a gradient at an output.
    pub(crate) fn retains(node: &Node, nr: u32) -> bool {
        node.hooks.get().is_some_and(|h| h.entries.update(|entries| entries.retains(nr)))
    }

    /// The retained gradient of an output; the outer option says whether there is one, or there will be.
    pub(crate) fn retained(node: &Node, nr: u32) -> Option<Option<Var>> {
        node.hooks.get()?.entries.update(|entries| {
            let retained = entries.retained.iter().find(|r| r.nr == nr)?;
            (retained.always || retained.grad.is_some()).then(|| retained.grad.clone())
        })
    }

    pub(crate) fn clear_retained(node: &Node, nr: u32) {
        if let Some(hooks) = node.hooks.get() {
            let take = |entries: &mut Entries| {
                entries.retained.iter_mut().find(|r| r.nr == nr).and_then(|r| r.grad.take())
            };
            drop(hooks.entries.update(take));
        }
    }

    /// Runs the hooks of one output in order; tells whether the result is to be retained.
    pub(crate) fn run(&self, nr: u32, mut grad: Var) -> Result<(Var, bool)> {
        let (hooks, retain): (Vec<Hook>, bool) = self.entries.update(|entries| {
            let hooks = entries.hooks.iter().filter(|h| h.1 == nr).map(|h| h.2.clone()).collect();
            (hooks, entries.retains(nr))
        });
        for hook in hooks {
            if let Some(new) = hook(&grad)? {
                grad = new;
            }
        }
        Ok((grad, retain))
    }

    /// Stores a retained gradient, or adds it to the one that is there.
    pub(crate) fn store(node: &Node, nr: u32, grad: Var) {
        drop(Hooks::of(node).update(|entries| add_in_place(&mut entries.retained(nr).grad, grad)));
    }

    /// Moves the hooks and the gradients to the list of what is to be dropped.
    pub(crate) fn give_up(self, list: &mut impl Extend<Rest>) {
        let entries = self.entries.into_inner();
        list.extend(entries.hooks.into_iter().map(|h| Rest::Hook(h.2)));
        list.extend(entries.retained.into_iter().filter_map(|r| r.grad).map(Rest::Gradient));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use foldback_tensor::tensor;

    use super::*;
    use crate::{Backward, RequiresGrad, enable_grad, is_grad_enabled, no_grad};

    #[test]
    fn a_hook_records_where_its_pass_does() {
        let (x, w) = (tensor![2.0].requires_grad(), tensor![3.0].requires_grad());
        let seen = Arc::new(AtomicUsize::new(0));
        let (inner, counted) = (w.clone(), seen.clone());
        x.register_hook(move |g| {
            let recorded = g.mul(&inner).unwrap().requires_grad();
            assert_eq!(recorded, is_grad_enabled());
            assert!(enable_grad(|| g.mul(&inner).unwrap().requires_grad()));
            counted.fetch_add(1 + usize::from(recorded), Ordering::Relaxed);
            None
        })
        .unwrap();
        let y = x.square();
        let pass = |create_graph| {
            y.backward_with(Backward::new().retain_graph(true).create_graph(create_graph)).unwrap()
        };
        for (create_graph, expected) in [(false, 1), (true, 2)] {
            pass(create_graph);
            assert_eq!(seen.swap(0, Ordering::Relaxed), expected);
            no_grad(|| pass(create_graph));
            assert_eq!(seen.swap(0, Ordering::Relaxed), expected);
        }
        x.zero_grad();
    }
}
