//! Hooks: a user's functions that see a backward pass on its way, and the gradients that results are asked to retain.
//!
//! Note [Order of hooks]
//! At a node, as in PyTorch: the hooks of each output, then what is captured or retained, the node's pre-hooks, its
//! function, its post-hooks. A leaf's gradient is written in place of the function, and its post-accumulate hooks come
//! behind that. Hooks of one kind run in the order of registration.

mod callback;
mod grad_fn;
mod result;
mod retained;
mod several;
mod variable;

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use foldback_tensor::StateCell;
use smallvec::SmallVec;

use crate::anomaly::expect_finite_given;
use crate::dismantle::{Rest, drop_all};
use crate::error::Result;
use crate::node::{InputMetadata, Node, Var};

pub(crate) use callback::Callbacks;
pub use callback::queue_callback;
pub use grad_fn::GradFn;
pub use result::HookResult;
use retained::Retained;
pub(crate) use several::{Gathering, Several};
pub use several::{register_any_grad_hook, register_multi_grad_hook};

/// The gradients of all outputs of a node, or of all its inputs.
pub(crate) type Gradients = Vec<Option<Var>>;
type Replace = dyn Fn(&Var) -> Result<Option<Var>> + Send + Sync;
type Before = dyn Fn(&[Option<Var>]) -> Result<Option<Gradients>> + Send + Sync;
type After = dyn Fn(&[Option<Var>], &[Option<Var>]) -> Result<Option<Gradients>> + Send + Sync;
type Look = dyn Fn(&Var) -> Result<()> + Send + Sync;

/// A user's function that may replace what it sees, and the line that registered it.
pub(crate) struct Registered<F: ?Sized> {
    pub(crate) f: Arc<F>,
    pub(crate) line: &'static Location<'static>,
}

// By hand: the function itself need not be `Clone`.
impl<F: ?Sized> Clone for Registered<F> {
    fn clone(&self) -> Registered<F> {
        Registered { f: self.f.clone(), line: self.line }
    }
}

impl<F: ?Sized> Registered<F> {
    /// What it returned has to have the shape and the type of what it saw, and to be finite if the pass looks at that.
    pub(crate) fn expect_fit(&self, node: &Node, meta: &InputMetadata, new: &Var, looks: bool) -> Result<()> {
        let what = format_args!("what the hook registered at {} returned", self.line);
        meta.expect_fit(what, &new.value_ref())?;
        if looks { expect_finite_given(what, node, new) } else { Ok(()) }
    }
}

/// A user's function, and when it runs.
#[derive(Clone)]
pub(crate) enum Hook {
    /// on the gradient of an output, which it may replace
    Output(usize, Registered<Replace>),
    /// the same gradient as one of several, by its place among them
    OneOf(usize, Arc<Several>, usize),
    /// before the node, on the gradients of its outputs
    Before(Registered<Before>),
    /// after the node, on the gradients of its inputs and of its outputs
    After(Registered<After>),
    /// on a leaf whose gradient has been written
    Accumulated(Arc<Look>),
}

/// What a node keeps for those who look at gradients on their way.
#[derive(Default)]
pub(crate) struct Hooks {
    entries: StateCell<Entries>,
}

#[derive(Default)]
struct Entries {
    next_id: u64,
    /// by their numbers, in the order of registration
    hooks: BTreeMap<u64, Hook>,
    retained: Vec<Retained>,
}

/// Whether a hook was ever registered that a pass has to look out for after each node, see [`Hooks::are_watched_for`].
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Takes a hook away again; dropping the handle leaves the hook in place.
#[derive(Debug)]
pub struct HookHandle {
    /// where the hook is registered, and as what; several places for a hook on several variables
    places: SmallVec<[(Weak<Node>, u64); 1]>,
}

impl HookHandle {
    /// Takes the hook away; does nothing if the graph is gone already. A pass that is running the hooks of the same variable at
    /// this moment may still run it.
    pub fn remove(self) {
        for (node, id) in self.places {
            let Some(node) = node.upgrade() else { continue };
            // A hook may own variables and be dropped with them: not while the list is locked, and not inside another's drop.
            let hook = Hooks::of(&node).update(|entries| entries.hooks.remove(&id));
            drop_all(hook.map(|hook| Rest::Other(Box::new(hook))).into_iter());
        }
    }
}

impl Hooks {
    /// Those of a node, if it has any.
    #[inline]
    pub(crate) fn at(node: &Node) -> Option<&Hooks> {
        node.attached.get()?.hooks.get()?.downcast_ref()
    }

    /// The entries of a node.
    fn of(node: &Node) -> &StateCell<Entries> {
        let hooks =
            node.attached.get_or_init(Default::default).hooks.get_or_init(|| Box::new(Hooks::default()));
        &hooks.downcast_ref::<Hooks>().expect("nobody else puts anything there").entries
    }

    fn add(node: &Arc<Node>, hook: Hook) -> HookHandle {
        if matches!(hook, Hook::OneOf(..) | Hook::Accumulated(_)) {
            WATCHED.store(true, Ordering::Relaxed);
        }
        let id = Hooks::of(node).update(|entries| {
            let id = entries.next_id;
            entries.next_id += 1;
            entries.hooks.insert(id, hook);
            id
        });
        HookHandle { places: smallvec::smallvec![(Arc::downgrade(node), id)] }
    }

    /// Whether a pass has to look out for leaves that do not wait for its end, and for gradients that are gathered. It
    /// asks once: in a process without such hooks, no node costs anything.
    pub(crate) fn are_watched_for() -> bool {
        WATCHED.load(Ordering::Relaxed)
    }

    /// The hooks of some kind, to be run when the list is no longer locked.
    fn pick<T>(&self, pick: impl FnMut(&Hook) -> Option<T>) -> Vec<T> {
        self.entries.update(|entries| entries.hooks.values().filter_map(pick).collect())
    }

    fn any(&self, of: impl Fn(&Hook) -> bool) -> bool {
        self.entries.update(|entries| entries.hooks.values().any(of))
    }

    /// Whether there are pre-hooks or post-hooks.
    pub(crate) fn are_on_node(&self) -> bool {
        self.any(|hook| matches!(hook, Hook::Before(_) | Hook::After(_)))
    }

    /// Whether any follow a leaf's gradient, which then does not wait for the end of the pass.
    pub(crate) fn follow(&self) -> bool {
        self.any(|hook| matches!(hook, Hook::Accumulated(_)))
    }

    /// Runs the hooks of one output in order; tells whether the result is to be retained. `gather` takes what goes to a
    /// hook on several variables; `looks` is whether the pass looks at what is not finite.
    pub(crate) fn run(
        &self,
        node: &Node,
        nr: usize,
        mut grad: Var,
        looks: bool,
        mut gather: impl FnMut(&Arc<Several>, usize, &Var) -> Result<()>,
    ) -> Result<(Var, bool)> {
        let of_output = |hook: &Hook| match hook {
            Hook::Output(of, _) | Hook::OneOf(of, ..) if *of == nr => Some(hook.clone()),
            _ => None,
        };
        for hook in self.pick(of_output) {
            match hook {
                Hook::Output(_, replace) => {
                    if let Some(new) = (replace.f)(&grad)? {
                        replace.expect_fit(node, &node.metadata[nr], &new, looks)?;
                        grad = new;
                    }
                }
                Hook::OneOf(_, several, place) => gather(&several, place, &grad)?,
                _ => {}
            }
        }
        Ok((grad, self.entries.update(|entries| entries.retains(nr))))
    }

    pub(crate) fn before(&self) -> Vec<Registered<Before>> {
        self.pick(|hook| if let Hook::Before(f) = hook { Some(f.clone()) } else { None })
    }

    pub(crate) fn after(&self) -> Vec<Registered<After>> {
        self.pick(|hook| if let Hook::After(f) = hook { Some(f.clone()) } else { None })
    }

    pub(crate) fn accumulated(&self) -> Vec<Arc<Look>> {
        self.pick(|hook| if let Hook::Accumulated(f) = hook { Some(f.clone()) } else { None })
    }
}

/// A hook is a user's, whose `Drop` may panic.
impl Drop for Hooks {
    fn drop(&mut self) {
        let entries = std::mem::take(self.entries.get_mut());
        drop_all(entries.hooks.into_values().map(|hook| Rest::Other(Box::new(hook))));
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
