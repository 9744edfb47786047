//! Pointwise operations: a plan of types and a kernel each, in a new and an in-place form.

mod binary;
mod forms;
mod plan;
mod unary;

pub(crate) use binary::reversed;
pub(super) use plan::{Elementwise, apply, apply_in_place};
