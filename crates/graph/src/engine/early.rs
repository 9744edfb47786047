//! What does not wait for the end of a pass: leaves with hooks that follow their gradient, and hooks on several variables.
//!
//! Note [Early leaves]
//! A leaf is older than all that uses it, so by its number it comes last, and with it its gradient stays. One with hooks
//! that follow is taken from the queue as soon as the next node has a smaller number than the first node that uses the leaf:
//! nothing else in the pass can contribute then. Which node that is, the pass looks up in the rest of the graph, for
//! all such leaves at once, when it has met one of them. A checkpoint's edges lead to all that its graph uses, when that
//! is recorded anew.

use std::sync::Arc;

use super::GraphTask;
use crate::error::Result;
use crate::hooks::{Gathering, Hooks};
use crate::node::{Edge, Node};
use crate::numbered::{Numbered, Numbers};

/// Leaves that do not wait, with the number of the first node that uses each; the largest number last.
pub(super) type Early = Vec<(u64, Arc<Node>)>;

impl GraphTask {
    /// What is due when a node has been run, see Note [Early leaves].
    #[cold]
    pub(super) fn settle(&mut self, node: &Arc<Node>, roots: &[Edge]) -> Result<()> {
        if self.accumulate
            && self.early.is_none()
            && node.next_edges.iter().flatten().any(|e| is_early(&e.node))
        {
            self.early = Some(self.first_uses(node));
        }
        // A checkpoint has nodes follow it that are newer than itself: the next node counts, not this one.
        while let Some(early) = &mut self.early {
            let next = self.ready.largest();
            let Some((_, leaf)) = early.pop_if(|(first, _)| Some(*first) > next) else { break };
            // None, if it got no gradient.
            if let Some(mut ready) = self.ready.remove(leaf.sequence) {
                self.evaluate(&mut ready, roots)?;
            }
        }
        Gathering::complete(&mut self.gatherings, self.ready.largest())
    }

    /// The early leaves of what is still to run and of a node that has been. Iterative, in linear time.
    fn first_uses(&self, node: &Arc<Node>) -> Early {
        let mut firsts: Numbered<u64, (u64, Arc<Node>)> = Numbered::default();
        let mut seen = Numbers::default();
        let mut stack: Vec<Arc<Node>> = self.ready.nodes().cloned().collect();
        stack.push(node.clone());
        while let Some(node) = stack.pop() {
            for edge in node.next_edges.iter().flatten().filter(|edge| self.is_on_path(edge)) {
                if is_early(&edge.node) {
                    let first =
                        firsts.entry(edge.node.sequence).or_insert_with(|| (u64::MAX, edge.node.clone()));
                    first.0 = first.0.min(node.sequence);
                } else if seen.insert(edge.node.sequence) {
                    stack.push(edge.node.clone());
                }
            }
        }
        let mut early: Early = firsts.into_values().collect();
        early.sort_unstable_by_key(|(first, leaf)| (*first, leaf.sequence));
        early
    }
}

fn is_early(node: &Node) -> bool {
    Hooks::at(node).is_some_and(|hooks| hooks.follow())
}
