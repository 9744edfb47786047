//! Pointwise operations: a plan of types and a kernel each, in a new and an in-place form.

mod binary;
mod forms;
mod plan;
mod unary;

pub(crate) use binary::reversed;
pub(crate) use plan::expect_expands;
pub(super) use plan::{Plan, common_shape, run, run_in_place};
