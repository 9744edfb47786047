//! Views, parts and casts: the same elements in another shape, order or type.

use foldback_graph::Var;
use foldback_tensor::{Axes, Position, Slice, SliceItem, Slices};

use super::{Operation, Outcome, one, operation};
use crate::conformance::args::{Args, Read, Refusal};

pub(super) const ROWS: &[Operation] = &[];

/// Sizes, none of which may be negative.
pub(super) fn sizes(a: &Args, name: &str) -> Read<Vec<usize>> {
    let sizes: Result<Vec<usize>, _> = a.ints_of(name)?.into_iter().map(usize::try_from).collect();
    sizes.map_err(|_| Refusal::Argument(format!("`{name}` holds a negative size")))
}
