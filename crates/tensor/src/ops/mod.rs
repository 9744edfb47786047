//! The operations: each infers and refuses first (its meta step), then runs through the iterator.

mod affine;
pub(crate) mod arg;
mod classes;
mod direction;
mod divide;
pub(crate) mod doubt;
mod dropout;
mod einsum;
mod embedding;
mod extremes;
pub(crate) mod formulas;
mod gate;
mod in_dtype;
mod index;
pub(crate) mod indices;
mod join;
mod joint;
pub(crate) mod mask;
mod matmul;
mod norm;
mod operators;
mod pad;
mod pick;
pub(crate) mod places;
mod pointwise;
pub(crate) mod reduce;
mod reduction;
mod repeat;
mod scatter;
mod triangle;
mod variance;
pub(crate) mod warning;

mod scan;
mod sort;

#[doc(hidden)]
pub use affine::expect_vectors;
pub use arg::{Arg, AsArg, AsOptionalArg};
pub(crate) use arg::{List, tensors_of};
#[doc(hidden)]
pub use einsum::{Contract, einsum};
pub use indices::Indices;
pub use operators::Number;
pub use pad::Pad;
pub use repeat::Repeats;
pub use warning::{BroadcastWarning, BroadcastWarningGuard, broadcast_warning, set_broadcast_warning};
#[doc(hidden)]
pub use warning::{DOUBTED, take_doubted};
pub mod kernel;
