//! Nodes that were taken apart, for the next ones that this thread records: their memory, without the allocator. W8 takes 0.8 of the time forward with
//! its drop, its drop alone 0.42.

use std::cell::RefCell;
use std::sync::Arc;

use foldback_tensor::shelf_epoch;

use crate::node::Node;

/// How many nodes a thread keeps, which is 8 MiB. Recurrent networks and solvers record ten thousands of small operations for a step.
/// `set_pool_limit` says so to users.
const KEPT: usize = 1 << 15;

struct Shelf {
    /// Nobody else holds one, and there is nothing in it: see [`Node::clear`].
    nodes: Vec<Arc<Node>>,
    epoch: usize,
}

thread_local! {
    static SHELF: RefCell<Shelf> = const { RefCell::new(Shelf { nodes: Vec::new(), epoch: 0 }) };
}

/// A node in which there is nothing yet.
#[inline]
pub(crate) fn empty_node() -> Arc<Node> {
    SHELF.try_with(|shelf| shelf.borrow_mut().nodes.pop()).ok().flatten().unwrap_or_default()
}

/// How many nodes the shelf has room for.
#[inline]
pub(crate) fn room() -> usize {
    let Some(epoch) = shelf_epoch(clear) else { return 0 };
    let room = |shelf: &RefCell<Shelf>| {
        let shelf = &mut *shelf.borrow_mut();
        if shelf.epoch != epoch {
            *shelf = Shelf { nodes: Vec::new(), epoch };
        }
        KEPT - shelf.nodes.len()
    };
    SHELF.try_with(room).unwrap_or(0)
}

/// Keeps a node that nobody else holds and in which there is nothing any more, if there is room.
#[inline]
pub(crate) fn keep(node: Arc<Node>) {
    let _ = SHELF.try_with(|shelf| {
        let nodes = &mut shelf.borrow_mut().nodes;
        if nodes.len() < KEPT {
            nodes.push(node);
        }
    });
}

fn clear() {
    let _ = SHELF.try_with(|shelf| shelf.borrow_mut().nodes = Vec::new());
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{release_memory, tensor};

    use super::*;
    use crate::RequiresGrad;
    use crate::node::Var;

    fn kept() -> Vec<*const Node> {
        SHELF.with_borrow(|shelf| shelf.nodes.iter().map(Arc::as_ptr).collect())
    }

    fn chain(x: &Var, count: usize) -> Var {
        (0..count).fold(x.clone(), |y, _| (&y * x).tanh())
    }

    /// Drops a chain, and says what is kept then. While another test watches graphs, it holds all nodes weakly: not while this many are tried.
    fn dropped(x: &Var, count: usize, expected: usize) -> Vec<*const Node> {
        for _ in 0..1000 {
            release_memory();
            drop(chain(x, count));
            if kept().len() == expected {
                return kept();
            }
            std::thread::yield_now();
        }
        panic!("{} nodes are kept of a chain of {count}, and not {expected}", kept().len());
    }

    #[test]
    fn dropped_nodes_are_recorded_again() {
        let x = tensor![0.5, 0.25].requires_grad();
        // All but the outermost, whose memory goes with its last holder.
        let before = dropped(&x, 3, 5);
        let again = chain(&x, 2);
        assert_eq!(kept(), before[..1]);
        again.sum(..).unwrap().backward().unwrap();
        let fresh = tensor![0.5, 0.25].requires_grad();
        release_memory();
        assert!(kept().is_empty());
        chain(&fresh, 2).sum(..).unwrap().backward().unwrap();
        assert_eq!(x.grad(), fresh.grad());
        release_memory();
    }

    #[test]
    fn what_is_kept_is_empty_and_has_its_limit() {
        let x = tensor![1.0, 2.0].requires_grad();
        dropped(&x, KEPT, KEPT);
        SHELF.with_borrow(|shelf| {
            for node in &shelf.nodes {
                assert_eq!((node.next_edges.len(), node.metadata.len()), (0, 0));
                assert!(node.kept().is_empty() && node.attached.get().is_none());
            }
        });
        release_memory();
    }

    #[test]
    fn memory_that_another_thread_releases_is_gone_when_the_next_node_is_dropped() {
        let x = tensor![1.0, 2.0].requires_grad();
        dropped(&x, 50, 99);
        std::thread::spawn(release_memory).join().unwrap();
        drop(chain(&x, 1));
        assert!(kept().len() <= 1);
        release_memory();
    }

    #[test]
    fn who_held_a_node_weakly_does_not_get_another_one() {
        release_memory();
        let x = tensor![1.0, 2.0].requires_grad();
        let y = x.exp();
        let weak = y.downgrade();
        drop(y.exp().exp());
        drop(y);
        let other = x.sin().sin();
        assert!(weak.upgrade().is_none());
        let held = chain(&x, 1).downgrade();
        assert!(held.upgrade().is_none());
        drop(other);
    }
}
