//! What a stretch of a graph looks like, so that two runs of one function can be compared.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use foldback_tensor::counted;

use crate::node::{Edge, Var};

/// The operations that lead to some results, from the results down, and a digest of each: the shapes and types of its
/// outputs, the shapes of what it saved, and where its edges lead.
pub(super) struct Sketch {
    operations: Vec<(&'static str, u64)>,
    outputs: u64,
}

impl Sketch {
    /// Of what was recorded from number `first` on; and the edges that lead out of it, each once.
    pub(super) fn of(outputs: &[Var], first: u64) -> (Sketch, Vec<Edge>) {
        let mut walk = Walk { first, places: HashMap::new(), ends: HashSet::new(), out: Vec::new() };
        let (mut digest, mut stack) = (DefaultHasher::new(), Vec::new());
        for v in outputs {
            (&v.shape()[..], v.dtype() as u8).hash(&mut digest);
            walk.follow(v.edge().as_ref(), &mut digest, &mut stack);
        }
        let mut operations = Vec::new();
        while let Some(edge) = stack.pop() {
            let mut digest = DefaultHasher::new();
            for m in &edge.node.metadata {
                (&m.shape[..], m.dtype as u8).hash(&mut digest);
            }
            edge.node.hash_saved_shapes(&mut digest);
            for next in &edge.node.next_edges {
                walk.follow(next.as_ref(), &mut digest, &mut stack);
            }
            operations.push((edge.node.name(), digest.finish()));
        }
        (Sketch { operations, outputs: digest.finish() }, walk.out)
    }

    /// What is otherwise in a second run.
    pub(super) fn difference(&self, again: &Sketch) -> Option<String> {
        let (first, second) = (&self.operations, &again.operations);
        if first.len() != second.len() {
            let found = counted(second.len(), "operation");
            return Some(format!("it recorded {found} instead of {}", first.len()));
        }
        for (a, b) in first.iter().zip(second) {
            if a.0 != b.0 {
                return Some(format!("{} was recorded where {} was", b.0, a.0));
            }
            if a.1 != b.1 {
                return Some(format!("{} has or saves other shapes, or other operands", a.0));
            }
        }
        (self.outputs != again.outputs).then(|| "its results are others".into())
    }
}

struct Walk {
    first: u64,
    /// inner nodes by number, in the order in which they are found
    places: HashMap<u64, usize>,
    /// edges that lead out
    ends: HashSet<(u64, usize)>,
    out: Vec<Edge>,
}

impl Walk {
    /// Adds to a digest where an edge leads, and to the stack an inner node that is new.
    fn follow(&mut self, edge: Option<&Edge>, digest: &mut DefaultHasher, stack: &mut Vec<Edge>) {
        let Some(edge) = edge else { return 0u8.hash(digest) };
        let number = edge.node.sequence;
        if number < self.first {
            // The same end has the same number in every run.
            (1u8, number, edge.nr).hash(digest);
            if self.ends.insert((number, edge.nr)) {
                self.out.push(edge.clone());
            }
            return;
        }
        let count = self.places.len();
        let place = *self.places.entry(number).or_insert_with(|| {
            stack.push(edge.clone());
            count
        });
        (2u8, place, edge.nr).hash(digest);
    }
}
