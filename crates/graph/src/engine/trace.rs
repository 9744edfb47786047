//! What arrives at `deliver`, for tests of those who say it beforehand.

use std::cell::RefCell;
use std::collections::BTreeSet;

use foldback_tensor::{Shape, Tensor, broadcast_shapes};

use super::job::Job;
use crate::node::Node;

/// The node's number, the input, and the shape of its gradient before it is folded.
pub(crate) type Arrived = (u64, usize, Shape);

thread_local! {
    static NOTES: RefCell<Vec<Arrived>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn note(node: &Node, inputs: &[usize], job: &Job<'_>) {
    let shape = match job {
        Job::Value(g) => g.as_ref().unwrap().shape().clone(),
        Job::Shared(g) => g.shape().clone(),
        Job::Part(part) => part.shape.clone(),
        Job::Product(a, b) => {
            // A vector stands for a row on the left, for a column on the right, and that axis is not in the product.
            let batches = |t: &Tensor| t.dims()[..t.rank().saturating_sub(2)].to_vec();
            let both = broadcast_shapes(&[&batches(a), &batches(b)]).unwrap();
            let rows = a.dims().iter().rev().skip(1).take(1);
            let columns = b.dims().iter().rev().take(usize::from(b.rank() > 1));
            both.iter().chain(rows).chain(columns).copied().collect::<Vec<_>>().into()
        }
        Job::Kernel(_, reads) => {
            let dims: Vec<&[usize]> = reads.iter().map(|t| t.dims()).collect();
            broadcast_shapes(&dims).unwrap()
        }
    };
    let arrivals = inputs.iter().map(|&input| (node.sequence, input, shape.clone()));
    NOTES.with_borrow_mut(|notes| notes.extend(arrivals));
}

/// What has arrived on this thread since it was last asked.
pub(crate) fn take() -> Vec<Arrived> {
    NOTES.take()
}

thread_local! {
    static LONG_WAYS: RefCell<BTreeSet<(&'static str, &'static str)>> = const { RefCell::new(BTreeSet::new()) };
}

/// Notes that a node has no rule for tangents, or none for gradients with a leading axis.
pub(crate) fn note_long_way(what: &'static str, node: &Node) {
    LONG_WAYS.with_borrow_mut(|ways| ways.insert((what, node.name())));
}

/// The names of such nodes that have run in this thread.
pub(crate) fn take_long_ways() -> BTreeSet<(&'static str, &'static str)> {
    LONG_WAYS.take()
}
