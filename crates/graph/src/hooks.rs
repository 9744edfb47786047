//! Hooks on gradients, and the gradients that non-leaf variables are asked to retain.

use std::sync::{Arc, Mutex, Weak};

use crate::node::Node;
use crate::var::Var;

/// A function that sees a gradient and may replace it.
pub(crate) type Hook = Arc<dyn Fn(&Var) -> Option<Var> + Send + Sync>;

/// What a node keeps for those who look at gradients on their way.
#[derive(Default)]
pub(crate) struct Hooks {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    next_id: u64,
    /// id, output number, function; in the order of registration
    hooks: Vec<(u64, u32, Hook)>,
    /// output number and the gradient seen last
    retained: Vec<(u32, Option<Var>)>,
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
            hooks.entries.lock().expect("hooks run outside the lock").hooks.retain(|h| h.0 != self.id);
        }
    }
}

impl Hooks {
    pub(crate) fn add(node: &Arc<Node>, nr: u32, hook: Hook) -> HookHandle {
        let mut entries =
            node.hooks.get_or_init(Default::default).entries.lock().expect("hooks run outside the lock");
        let id = entries.next_id;
        entries.next_id += 1;
        entries.hooks.push((id, nr, hook));
        HookHandle { node: Arc::downgrade(node), id }
    }

    pub(crate) fn retain(node: &Arc<Node>, nr: u32) {
        let mut entries =
            node.hooks.get_or_init(Default::default).entries.lock().expect("hooks run outside the lock");
        if !entries.retained.iter().any(|r| r.0 == nr) {
            entries.retained.push((nr, None));
        }
    }

    /// The retained gradient of an output; the outer option says whether it was asked for.
    pub(crate) fn retained(node: &Node, nr: u32) -> Option<Option<Var>> {
        let entries = node.hooks.get()?.entries.lock().expect("hooks run outside the lock");
        entries.retained.iter().find(|r| r.0 == nr).map(|r| r.1.clone())
    }

    pub(crate) fn clear_retained(node: &Node, nr: u32) {
        if let Some(hooks) = node.hooks.get() {
            let mut entries = hooks.entries.lock().expect("hooks run outside the lock");
            entries.retained.iter_mut().filter(|r| r.0 == nr).for_each(|r| r.1 = None);
        }
    }

    /// Runs the hooks of one output in order; tells whether the result is to be retained.
    pub(crate) fn run(&self, nr: u32, mut grad: Var) -> (Var, bool) {
        let (hooks, retain): (Vec<Hook>, bool) = {
            let entries = self.entries.lock().expect("hooks run outside the lock");
            let hooks = entries.hooks.iter().filter(|h| h.1 == nr).map(|h| h.2.clone()).collect();
            (hooks, entries.retained.iter().any(|r| r.0 == nr))
        };
        for hook in hooks {
            if let Some(new) = hook(&grad) {
                grad = new;
            }
        }
        (grad, retain)
    }

    /// Stores a retained gradient, or adds it to the one that is there.
    pub(crate) fn store(node: &Node, nr: u32, grad: Var) {
        if let Some(hooks) = node.hooks.get() {
            let mut entries = hooks.entries.lock().expect("hooks run outside the lock");
            if let Some(slot) = entries.retained.iter_mut().find(|r| r.0 == nr) {
                slot.1 = Some(match slot.1.take() {
                    Some(old) => crate::gradient::add_gradients(old, grad),
                    None => grad,
                });
            }
        }
    }
}
