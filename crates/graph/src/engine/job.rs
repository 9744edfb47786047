//! A gradient as it is to be computed, and its computation where it is not added to anything.

use foldback_tensor::kernel::{self, BlockKernel, Target};
use foldback_tensor::{Shape, Tensor, TensorFacts};
use smallvec::SmallVec;

use crate::error::{Error, GraphFacts, Result};
use crate::lead::Lead;
use crate::node::{Edge, InputMetadata, Node, Part, Var, VarKind};

/// A gradient as it is to be computed, see Note [Described work]: what is left of `Work` once the pass has chosen.
pub(crate) enum Job<'a> {
    Value(Var),
    /// a value that somebody else has, too
    Shared(&'a Tensor),
    /// zeros but for a part
    Part(&'a Part),
    /// a matrix product
    Product(&'a Tensor, &'a Tensor),
    /// a kernel over what it reads, with an output per input
    Kernel(&'a dyn BlockKernel, &'a [&'a Tensor]),
}

/// The edge that an input's gradient leaves by, and what it must look like.
#[inline]
pub(super) fn place(node: &Node, input: usize) -> Option<(&Edge, &InputMetadata)> {
    let edge = node.next_edges[input].as_ref()?;
    Some((edge, edge.metadata()))
}

/// Gradients in the shapes and types of their inputs; behind a leading axis, with axes of size 1 where they had more.
pub(super) fn fitted(
    node: &Node,
    inputs: &[usize],
    job: Job<'_>,
    batch: Option<usize>,
) -> Result<SmallVec<[Var; 2]>> {
    // What is as large as its reads together has as many axes as the one with the most.
    let rank = match &job {
        Job::Value(g) => g.rank(),
        Job::Shared(g) => g.rank(),
        Job::Part(part) => part.shape.rank(),
        Job::Product(a, b) => a.rank().max(b.rank()),
        Job::Kernel(_, reads) => reads.iter().map(|t| t.rank()).max().unwrap_or(0),
    };
    let rank = rank - usize::from(batch.is_some() && rank > 0);
    let metas: SmallVec<[_; 2]> = inputs.iter().filter_map(|&i| place(node, i)).map(|p| p.1).collect();
    let shapes: SmallVec<[Shape; 2]> = metas.iter().map(|m| Lead(batch).aligned(&m.shape, rank)).collect();
    let target = |i: usize| Target { dtype: Some(metas[i].dtype), ..Target::of(&shapes[i]) };
    if metas.len() < inputs.len() {
        return Ok(SmallVec::new());
    }
    let one = |t: Result<Tensor>| Ok(smallvec::smallvec![Var::constant(t?)]);
    let gradients = match job {
        Job::Value(Var { kind: VarKind::Constant(t) }) => one(kernel::sum_onto("sum_to_size", &t, target(0))),
        Job::Value(g) => {
            let folded = if *g.shape() == shapes[0] { Ok(g) } else { g.sum_to_size(shapes[0].clone()) };
            folded.and_then(|g| g.try_to(metas[0].dtype)).map(|g| smallvec::smallvec![g])
        }
        Job::Shared(t) => one(kernel::sum_onto("sum_to_size", t, target(0))),
        Job::Part(part) => part.whole().map(|g| smallvec::smallvec![g]),
        Job::Product(a, b) => one(kernel::matmul_to("matmul", a, b, target(0))),
        Job::Kernel(kernel, reads) if inputs.len() == 1 => {
            one(kernel::fold_to(node.name(), kernel, reads, target(0)))
        }
        Job::Kernel(kernel, reads) => {
            let targets = (0..inputs.len()).map(target).collect();
            kernel::fold_jointly(node.name(), kernel, reads, targets)
                .map(|sums| sums.into_iter().map(Var::constant).collect())
        }
    };
    gradients.map_err(|e| in_gradient(node, inputs[0], e))
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
