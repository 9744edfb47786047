//! The operations: each infers and refuses first (its meta step), then runs through the iterator.

pub(crate) mod arg;
mod divide;
mod dropout;
mod embedding;
pub(crate) mod formulas;
mod gate;
pub(crate) mod index;
mod join;
mod joint;
pub(crate) mod mask;
mod matmul;
mod operators;
mod pad;
pub(crate) mod places;
mod pointwise;
pub(crate) mod reduce;
mod reduction;
mod repeat;
mod scatter;
mod triangle;
pub(crate) mod warning;

pub use arg::{Arg, AsArg, AsOptionalArg};
pub(crate) use arg::{List, tensors_of};
pub use index::Indices;
pub use operators::Number;
pub use pad::Pad;
pub use repeat::Repeats;
pub use warning::{BroadcastWarning, BroadcastWarningGuard, broadcast_warning, set_broadcast_warning};
pub mod kernel;
