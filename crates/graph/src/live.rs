//! Watching graphs live: how many nodes there are, how many bytes they keep, and what makes them more from step to step.

use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;

use foldback_tensor::{Here, refuse};

use crate::error::{GraphFacts, Result};
use crate::node::{Node, next_number};
use crate::watching::{Watching, living};

/// Watches the operations that are recorded from now on, in all threads: how many of them live, what they keep, and whether
/// they grow in number from step to step. Leaves do not count.
///
/// Without a watch there is no list of nodes, and nothing is counted but [`live_nodes`](crate::live_nodes); with one, an
/// operation on tracked variables takes some ten nanoseconds more, and its node's own memory (not what it saves) may be kept
/// a while after it is gone.
///
/// ```
/// use foldback_graph::{GraphWatch, RequiresGrad};
/// use foldback_tensor::{Tensor, tensor};
/// let x = Tensor::ones([256]).requires_grad();
/// let watch = GraphWatch::new();
/// let y = (&x * 2.0).exp(); // exp keeps its result, the product nothing
/// assert_eq!((watch.live_nodes(), watch.saved_bytes()), (2, 1024));
/// y.sum(..)?.backward()?;
/// assert_eq!(watch.saved_bytes(), 0);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[derive(Debug)]
pub struct GraphWatch {
    _watching: Watching,
    /// the number of the first node that counts
    first: u64,
    /// per line that recorded what is held: how many nodes that holds, and in how many steps these have become more
    held: HashMap<Holder, (usize, u32)>,
}

/// An operation and its line.
type Holder = (&'static str, &'static Location<'static>);

/// So many steps in a row are growth: a program's first steps may well keep more from one to the next.
const STEPS: u32 = 3;

impl Default for GraphWatch {
    fn default() -> GraphWatch {
        GraphWatch::new()
    }
}

impl GraphWatch {
    /// A watch, from now on and until it is dropped.
    pub fn new() -> GraphWatch {
        GraphWatch { _watching: Watching::start(), first: next_number(), held: HashMap::new() }
    }

    /// How many operations have been recorded since and still live.
    pub fn live_nodes(&self) -> usize {
        self.alive().len()
    }

    /// How many bytes the storages have that these operations keep for backward passes: each storage once, also one that
    /// somebody else holds, too, such as a parameter's value. Single numbers have none: they are
    /// in the nodes.
    pub fn saved_bytes(&self) -> usize {
        let (mut seen, mut bytes) = (HashSet::new(), 0);
        for held in self.alive().iter().flat_map(|node| node.saved_storages()) {
            if seen.insert(held.storage) {
                bytes += held.bytes;
            }
        }
        bytes
    }

    /// Asked once a step, at its end: refuses when what one line of the program recorded, and what that keeps alive, has become
    /// more in three steps running.
    ///
    /// Such a line is mostly the one that computes a loss, whose results are stored or added up with their history.
    ///
    /// # Errors
    /// `Growing`, with the operation and the line whose results are held.
    ///
    /// ```
    /// use foldback_graph::{GraphWatch, RequiresGrad};
    /// use foldback_tensor::tensor;
    /// let w = tensor![1.0].requires_grad();
    /// let (mut watch, mut losses) = (GraphWatch::new(), Vec::new());
    /// let mut step = || {
    ///     let loss = w.square().sum(..)?;
    ///     loss.backward()?;
    ///     losses.push(loss); // keeps the graph: loss.item_as::<f32>()? would not
    ///     watch.step()
    /// };
    /// let e = (0..9).find_map(|_| step().err()).unwrap();
    /// assert!(e.to_string().starts_with("sum: the graph behind its results grows from step to step, by now "));
    /// ```
    #[track_caller]
    pub fn step(&mut self) -> Result<()> {
        let held = held(&self.alive());
        let before = std::mem::take(&mut self.held);
        let grown = |holder: &Holder, nodes: usize| match before.get(holder) {
            Some(&(less, steps)) if less < nodes => steps + 1,
            _ => 0,
        };
        self.held = held.into_iter().map(|(h, nodes)| (h, (nodes, grown(&h, nodes)))).collect();
        let most = self.held.iter().filter(|(_, (_, steps))| *steps >= STEPS).max_by_key(|(_, (n, _))| *n);
        match most {
            Some((&(op, location), &(nodes, _))) => {
                refuse(GraphFacts::Growing { op, nodes, location }).here()
            }
            None => Ok(()),
        }
    }

    fn alive(&self) -> Vec<Arc<Node>> {
        living().into_iter().filter(|n| n.sequence >= self.first && n.as_leaf().is_none()).collect()
    }
}

/// Per line that recorded nodes that no other node leads to: how many nodes these keep alive.
fn held(alive: &[Arc<Node>]) -> HashMap<Holder, usize> {
    let inner: HashSet<u64> =
        alive.iter().flat_map(|n| n.next_edges.iter().flatten()).map(|e| e.node.sequence).collect();
    let mut roots: HashMap<Holder, Vec<&Arc<Node>>> = HashMap::new();
    for root in alive.iter().filter(|n| !inner.contains(&n.sequence)) {
        roots.entry((root.name(), root.location)).or_default().push(root);
    }
    let first = alive.iter().map(|n| n.sequence).min().unwrap_or(0);
    let count = |roots: Vec<&Arc<Node>>| {
        let (mut seen, mut stack) = (HashSet::new(), roots);
        while let Some(node) = stack.pop() {
            if node.sequence >= first && node.as_leaf().is_none() && seen.insert(node.sequence) {
                stack.extend(node.next_edges.iter().flatten().map(|e| &e.node));
            }
        }
        seen.len()
    };
    roots.into_iter().map(|(holder, roots)| (holder, count(roots))).collect()
}
