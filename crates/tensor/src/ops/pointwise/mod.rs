//! Pointwise operations: a plan of types and a kernel each, in a new and an in-place form.

mod activations;
mod binary;
mod bits;
mod elementwise;
mod forms;
mod nonfinite;
mod pairs;
mod rounding;
mod triples;
mod unary;

pub(crate) use binary::{radd, rdiv, rmul, rsub};
pub(super) use elementwise::{Elementwise, apply, apply_in_place};
pub use triples::prelu_weight;

#[doc(hidden)]
pub use elementwise::check_alpha;
