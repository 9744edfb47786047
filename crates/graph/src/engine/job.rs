//! A gradient as it is to be computed.

use foldback_tensor::kernel::BlockKernel;
use foldback_tensor::{Tensor, TensorFacts};

use crate::error::{Error, GraphFacts};
use crate::node::{Edge, InputMetadata, Node, Part, Var};

/// A gradient as it is to be computed, see Note [Described work]: what is left of `Work` once the pass has chosen.
pub(crate) enum Job<'a> {
    /// a value, which is taken from there: a variable is large, and not to be moved with what is small
    Value(&'a mut Option<Var>),
    /// a value that somebody else has, too
    Shared(&'a Tensor),
    /// zeros but for a part
    Part(&'a Part),
    /// a matrix product
    Product(&'a Tensor, &'a Tensor),
    /// a kernel over what it reads, with an output per input
    Kernel(&'a dyn BlockKernel, &'a [&'a Tensor]),
}

impl Job<'_> {
    /// How many axes the gradient has before it is folded: what is as large as its reads together has as many as the one
    /// with the most.
    pub(super) fn rank(&self) -> usize {
        match self {
            Job::Value(g) => g.as_ref().map_or(0, Var::rank),
            Job::Shared(g) => g.rank(),
            Job::Part(part) => part.shape.rank(),
            Job::Product(a, b) => a.rank().max(b.rank()),
            Job::Kernel(_, reads) => reads.iter().map(|t| t.rank()).max().unwrap_or(0),
        }
    }
}

/// The edge that an input's gradient leaves by, and what it must look like.
#[inline]
pub(super) fn place(node: &Node, input: usize) -> Option<(&Edge, &InputMetadata)> {
    let edge = node.next_edges[input].as_ref()?;
    Some((edge, edge.metadata()))
}

/// Says in which operation's gradient something went wrong; a shape that cannot be folded is an error of its own.
#[cold]
pub(super) fn in_gradient(node: &Node, input: usize, source: Error) -> Error {
    match source.facts() {
        Some(TensorFacts::Expand { from, to, .. }) => {
            let (op, expected, found, location) = (node.name(), from.clone(), to.clone(), node.location);
            GraphFacts::GradientShape { op, input, expected, found, location }.into()
        }
        _ => node.in_backward(source),
    }
}
