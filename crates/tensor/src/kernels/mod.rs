//! Kernels: plain loops over contiguous typed blocks, compiled once per instruction-set level.

pub(crate) mod doors;
mod formula;
mod level;
mod matmul;
mod scatter;

pub use formula::{
    Compare, Float, FloatKernel, FloatOps, Formula, Lane, Num, NumFormula, NumKernel, Real, Update,
};
pub(crate) use formula::{
    CompareKernel, IntPowKernel, LogicKernel, UnaryLogicKernel, UpdateKernel, WhereKernel, typed,
};
pub use level::{Level, detected_level, force_level, level};
pub(crate) use matmul::{BatchAxis, Matrix, Multiply, Product};
pub(crate) use scatter::{Accumulate, add_rows, interleave, scatter_add, take_rows};

use crate::dtype::{Block, BlockMut};

/// A loop over blocks. Inputs and outputs of one call all have the same length.
///
/// The iterator hands in blocks of the types that the plan promised; whatever the operands looked like (strides,
/// broadcasting, other element types) has been dealt with before.
pub trait BlockKernel: Send + Sync {
    /// Computes the output blocks from the input blocks, element by element.
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]);
}
