//! How a graph is taken apart: without recursion, and whatever a user's `Drop` does.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use crate::node::rule::NOTHING;
use crate::node::{DROPPED, Describe, EMPTIED, Node, NodeKind, Var, VarKind, shelf};

/// Parts of dropped nodes that may own further nodes. They are only there to be dropped.
pub(crate) enum Rest {
    Node(#[expect(dead_code)] Arc<Node>),
    Function(#[expect(dead_code)] Box<dyn Describe>),
    Gradient(#[expect(dead_code)] Var),
    /// a user's, or something that gives up its own parts when it is dropped
    Other(#[expect(dead_code)] Box<dyn Any>),
}

/// What is yet to be dropped. Mostly one thing: the next node of a chain.
type Rests = SmallVec<[Rest; 4]>;

thread_local! {
    /// Note [Drop order]
    /// Dropping a node would drop its edges' nodes inside it, and so on, one stack frame per node. Instead every drop
    /// puts what it owns on this list, and the outermost one works the list off. A node that owns nothing but edges needs
    /// none of that for nodes like itself: it empties them first, in a loop, and only gives the list what others own.
    ///
    /// The list is empty and owns no memory when nobody works on it. So it needs no destructor, and is there until the
    /// very end of the thread: for the graphs, too, that other thread-locals own.
    static REST: RefCell<ManuallyDrop<Rests>> = const { RefCell::new(ManuallyDrop::new(Rests::new_const())) };
    static DRAINING: Cell<bool> = const { Cell::new(false) };
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.sequence == EMPTIED {
            return;
        }
        if self.owns_more() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            self.give_up();
            return drain();
        }
        // Nodes that own nothing but edges run nobody's code when they are dropped: each hands its nodes over first.
        let (mut next, mut room) = (NextNodes::new(), shelf::room());
        let (mut dropped, mut others) = (1, false);
        self.own_nodes().for_each(|node| next.push(node));
        while let Some(mut node) = next.pop() {
            match Arc::get_mut(&mut node) {
                Some(own) => {
                    others |= own.take_apart(&mut next);
                    if room > 0 {
                        room -= 1;
                        own.clear();
                        shelf::keep(node);
                    }
                }
                // Somebody else has got hold of it meanwhile, who will drop it, if that has not happened by now.
                None => match Arc::into_inner(node) {
                    Some(mut own) => others |= own.take_apart(&mut next),
                    None => continue,
                },
            }
            dropped += 1;
        }
        // Once for all: a locked instruction takes as long as dropping a node otherwise does.
        DROPPED.fetch_add(dropped, Ordering::Relaxed);
        if others {
            drain();
        }
    }
}

/// What is to be taken apart after a node. Mostly one: the next of a chain.
type NextNodes = SmallVec<[Arc<Node>; 4]>;

impl Node {
    /// Hands over whatever may own nodes: to `next` the nodes that edges lead to, or all to the list if it owns more than edges. Whether it
    /// does.
    fn take_apart(&mut self, next: &mut NextNodes) -> bool {
        let owns_more = self.owns_more();
        if owns_more {
            self.give_up();
        } else {
            self.own_nodes().for_each(|node| next.push(node));
        }
        self.sequence = EMPTIED;
        owns_more
    }

    /// Lets go of all edges, one after another, since several may lead to one node. Hands out the nodes that nobody else holds.
    fn own_nodes(&mut self) -> impl Iterator<Item = Arc<Node>> {
        let nodes = self.next_edges.iter_mut().filter_map(|edge| Some(edge.take()?.node));
        nodes.filter(|node| Arc::strong_count(node) == 1)
    }

    /// Whether it owns anything besides edges that may own nodes.
    fn owns_more(&mut self) -> bool {
        self.attached.get().is_some()
            || match &mut self.kind {
                NodeKind::Rule(..) => false,
                NodeKind::Function(_, function) => function.owns_nodes(),
                NodeKind::AccumulateGrad(leaf) => has_history(leaf.grad.get_mut()),
            }
    }

    /// Moves whatever may own nodes to the list. What somebody else holds, too, is only counted down.
    fn give_up(&mut self) {
        self.next_edges.retain(|e| e.as_ref().is_some_and(|e| Arc::strong_count(&e.node) == 1));
        REST.with_borrow_mut(|list| self.move_to(list));
    }

    /// Nothing is dropped here that is not the node's own.
    fn move_to(&mut self, list: &mut Rests) {
        for edge in &mut self.next_edges {
            if let Some(edge) = edge.take() {
                list.push(Rest::Node(edge.node));
            }
        }
        match std::mem::replace(&mut self.kind, NodeKind::Rule(&NOTHING, [0.0; 2])) {
            NodeKind::Rule(..) => {}
            NodeKind::Function(_, function) => list.push(Rest::Function(function)),
            NodeKind::AccumulateGrad(leaf) => {
                list.extend(leaf.grad.into_inner().map(Rest::Gradient));
            }
        }
        if let Some(attached) = self.attached.take() {
            list.push(Rest::Other(attached));
        }
    }
}

fn has_history(grad: &Option<Var>) -> bool {
    grad.as_ref().is_some_and(|g| !matches!(g.kind, VarKind::Constant(_)))
}

/// Drops what may own nodes or be a user's, as the parts of a node are dropped.
pub(crate) fn drop_all(rests: impl ExactSizeIterator<Item = Rest>) {
    if rests.len() > 0 {
        REST.with_borrow_mut(|list| list.extend(rests));
        drain();
    }
}

/// Works the list off, unless somebody further out on this stack does so already.
///
/// A panic in a user's `Drop` does not keep the rest from being dropped. It goes on when the list is empty: the first
/// one, if there are several, and none while the thread is unwinding anyway, which a second panic would turn into an
/// abort.
fn drain() {
    if DRAINING.replace(true) {
        return;
    }
    let mut panicked = None;
    while let Some(rest) = REST.with_borrow_mut(|list| list.pop()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(rest))) {
            match panicked {
                None => panicked = Some(panic),
                // It may be of a type whose own `Drop` panics.
                Some(_) => std::mem::forget(panic),
            }
        }
    }
    REST.with_borrow_mut(|list| **list = Rests::new());
    DRAINING.set(false);
    match panicked {
        Some(panic) if !std::thread::panicking() => resume_unwind(panic),
        // Told by the panic hook already.
        panic => std::mem::forget(panic),
    }
}
