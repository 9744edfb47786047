//! The operations: each infers and refuses first (its meta step), then runs through the iterator.

mod affine;
pub(crate) mod arg;
mod classes;
mod divide;
mod einsum;
pub(crate) mod formulas;
mod index;
mod join;
mod joint;
mod matmul;
mod norm;
mod operators;
mod pointwise;
pub(crate) mod reduce;
mod reduction;
mod scan;
mod sort;
mod triangle;
pub(crate) mod warning;

#[doc(hidden)]
pub use affine::expect_vectors;
pub use arg::{Arg, AsArg};
pub(crate) use arg::{List, tensors_of};
#[doc(hidden)]
pub use einsum::{Contract, einsum};
pub use index::Indices;
pub use operators::Number;
pub use warning::{BroadcastWarning, BroadcastWarningGuard, broadcast_warning, set_broadcast_warning};
pub mod kernel;
