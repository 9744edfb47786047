//! The queue of nodes that have received a gradient, and where gradients wait to be added up. See Note [Order].

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::node::{Node, Var};

/// Nodes with gradients. Mostly there is one, whose inputs are about to take its place: the one with the largest number
/// is kept apart from the others. The backward pass of W8 takes 0.85 of the time.
#[derive(Default)]
pub(super) struct Queue {
    /// its number is larger than all in `others`
    first: Option<Ready>,
    others: BTreeMap<u64, Ready>,
}

impl Queue {
    pub(super) fn pop(&mut self) -> Option<Ready> {
        if self.first.is_none() {
            return self.others.pop_last().map(|(_, ready)| ready);
        }
        self.first.take()
    }

    /// Takes what waits for a node out of its turn.
    pub(super) fn remove(&mut self, sequence: u64) -> Option<Ready> {
        match &self.first {
            Some(first) if first.node.sequence == sequence => self.first.take(),
            _ => self.others.remove(&sequence),
        }
    }

    /// The number of the node that is next.
    #[inline]
    pub(super) fn largest(&self) -> Option<u64> {
        match &self.first {
            Some(first) => Some(first.node.sequence),
            None => self.others.last_key_value().map(|(&number, _)| number),
        }
    }

    /// All nodes that something waits for.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.first.iter().chain(self.others.values()).map(|ready| &ready.node)
    }

    pub(super) fn get_mut(&mut self, sequence: u64) -> Option<&mut Ready> {
        match &mut self.first {
            Some(first) if first.node.sequence == sequence => Some(first),
            _ => self.others.get_mut(&sequence),
        }
    }

    /// What waits for a node; nothing yet, if it is new.
    pub(super) fn entry(&mut self, node: &Arc<Node>) -> &mut Ready {
        let number = node.sequence;
        // Made without its places, which are put into it where it lies: it is large, and not to be moved.
        let new = || Ready { node: node.clone(), buffer: Buffer::new() };
        let is_other = match &self.first {
            Some(first) => number < first.node.sequence,
            None => self.others.last_key_value().is_some_and(|(&largest, _)| number <= largest),
        };
        let ready = if is_other {
            self.others.entry(number).or_insert_with(new)
        } else {
            if let Some(before) = self.first.take_if(|first| first.node.sequence < number) {
                self.others.insert(before.node.sequence, before);
            }
            self.first.get_or_insert_with(new)
        };
        if ready.buffer.is_empty() {
            node.metadata.iter().for_each(|_| ready.buffer.push(None));
        }
        ready
    }
}

/// The gradients that wait for a node, one per output.
pub(super) struct Ready {
    pub(super) node: Arc<Node>,
    pub(super) buffer: Buffer,
}

/// A gradient for each output, where there is one.
pub(super) type Buffer = SmallVec<[Option<Var>; 1]>;
