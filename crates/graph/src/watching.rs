//! Whether anybody watches what is recorded, and the nodes that were recorded since somebody does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use foldback_tensor::StateCell;

use crate::node::Node;

/// On a line of its own: it is read for every node, and beside it nothing is written.
#[repr(align(128))]
struct Watches(AtomicUsize);

static WATCHES: Watches = Watches(AtomicUsize::new(0));

/// What was recorded since there is a watch. Nodes that are gone stay until the list has doubled.
static NODES: StateCell<List> = StateCell::new(List { nodes: Vec::new(), room: 0 });

struct List {
    nodes: Vec<Weak<Node>>,
    /// how many there may be before those that are gone are taken out
    room: usize,
}

#[inline]
pub(crate) fn is_watching() -> bool {
    WATCHES.0.load(Ordering::Relaxed) != 0
}

/// Holds as long as somebody watches what is recorded.
#[derive(Debug)]
pub(crate) struct Watching(());

impl Watching {
    pub(crate) fn start() -> Watching {
        WATCHES.0.fetch_add(1, Ordering::Relaxed);
        Watching(())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if WATCHES.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            drop(NODES.replace(List { nodes: Vec::new(), room: 0 }));
        }
    }
}

#[cold]
pub(crate) fn register(node: &Arc<Node>) {
    NODES.update(|list| {
        if list.nodes.len() >= list.room {
            list.nodes.retain(|n| n.strong_count() > 0);
            list.room = (2 * list.nodes.len()).max(1024);
        }
        list.nodes.push(Arc::downgrade(node));
    });
}

/// The nodes that live, in the order in which they were recorded.
pub(crate) fn living() -> Vec<Arc<Node>> {
    NODES.update(|list| list.nodes.iter().filter_map(Weak::upgrade).collect())
}
