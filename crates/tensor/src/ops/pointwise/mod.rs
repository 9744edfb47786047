//! Pointwise operations: a plan of types and a kernel each, in a new and an in-place form.

mod binary;
mod elementwise;
mod forms;
mod unary;

pub(crate) use binary::reversed;
pub(super) use elementwise::{Elementwise, apply, apply_in_place};

#[doc(hidden)]
pub use elementwise::check_alpha;
