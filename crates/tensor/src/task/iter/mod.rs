//! The iterator: plan, walk, block, fold. Tasks that are done block by block go through here, and nothing else.
//!
//! Note [Iteration]
//! An operation first broadcasts its operands to a common shape. A *plan* gives every operand a stride per axis (0
//! where it broadcasts), drops axes of size 1, merges neighbours that step alike, and sets aside the axes along which
//! no operand moves. A *walk* counts through what is left in steps of two axes and hands blocks of about a thousand
//! elements to a kernel: in place where an operand is contiguous there, otherwise laid out (and cast) into scratch
//! memory that stays valid while the operand repeats. A *fold* is the same walk whose results are folded into
//! accumulators instead of being stored. Few elements, and those of small planes as long as they stay in the cache, are stored
//! and folded then; of more, a *band* at a time: that is faster, with the same bits.

mod bands;
mod block;
mod counter;
mod cut;
mod elements;
mod flat;
mod fold;
mod fold_table;
mod folding;
mod in_order;
mod order;
#[cfg(test)]
mod order_tests;
mod outcome;
mod over;
mod pieces;
mod plan;
mod planes;
mod receiver;
mod reducer;
mod rows;
mod sink;
mod spread;
mod squares;
mod straight;
mod stream;
mod stretch;
mod tables;
mod turned;
mod update;
mod walk;
mod wide;

pub(crate) use block::{BLOCK, Blocks};
pub(crate) use fold::Reduce;
pub(super) use fold::{Fold, few, fold};
pub(crate) use order::{FirstSums, LANES, ROWS, RUN, STRIP, is_in_order};
pub(super) use over::{Addition, OverItself};
#[cfg(test)]
pub(crate) use reducer::{Max, Min};
pub(crate) use reducer::{Reducer, Sum};
pub(super) use sink::{Goal, fold_each};
pub(super) use straight::LEAST_ADDED;
pub(crate) use stream::worth_streaming;
pub(super) use update::{Job, update_all};
pub(super) use walk::{change, map, repeat, write};
pub(crate) use wide::{Accumulator, WideMut};

use crate::dtype::{Block, DType, Scalar};
use crate::tensor::{Tensor, is_one, stride_of};

/// Something an operation reads: a view of elements, and the type the kernel wants them in.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub(crate) data: Block<'a>,
    pub(crate) offset: usize,
    pub(crate) shape: &'a [usize],
    /// none where they are those of the shape
    strides: Option<&'a [isize]>,
    pub(crate) want: DType,
    /// whether the elements lie one after another in row-major order
    row_major: bool,
}

impl<'a> Operand<'a> {
    pub(crate) fn new(t: &'a Tensor, want: DType) -> Operand<'a> {
        Operand {
            data: t.storage.block(),
            offset: t.layout.offset(),
            shape: &t.layout.shape,
            strides: t.layout.own_strides(),
            want,
            row_major: t.layout.is_contiguous(),
        }
    }

    /// Elements that lie in order, in the type that the kernel wants them in.
    fn in_order(data: Block<'a>, shape: &'a [usize]) -> Operand<'a> {
        Operand { data, offset: 0, shape, strides: None, want: data.dtype(), row_major: true }
    }

    /// How far it moves along an axis of its own, in elements.
    #[inline]
    pub(super) fn stride(&self, axis: usize) -> isize {
        stride_of(self.shape, self.strides, axis)
    }

    /// Whether it begins at the same place of the same memory, and is wanted in the same type.
    fn reads_as(&self, other: &Operand<'_>) -> bool {
        self.data.is_same(other.data) && self.offset == other.offset && self.want == other.want
    }

    /// Whether it is one number, which may be repeated.
    #[inline]
    fn is_one(&self) -> bool {
        is_one(self.shape, self.strides)
    }

    /// The number that it is, or `n` elements from the given one on where they lie, in order.
    #[inline]
    fn one_or_all(&self, first: usize, n: usize) -> Block<'a> {
        if self.is_one() { self.data.range(self.offset, 1) } else { self.data.range(self.offset + first, n) }
    }

    /// Whether the kernel can read the elements where they lie, in order.
    #[inline]
    fn is_direct(&self, shape: &[usize]) -> bool {
        self.row_major && self.data.dtype() == self.want && self.shape == shape
    }
}

/// A scalar laid out as a 0-d operand of every element type.
pub(crate) struct ScalarCell {
    bool_: [bool; 1],
    i64_: [i64; 1],
    f32_: [f32; 1],
    f64_: [f64; 1],
}

impl ScalarCell {
    pub(crate) fn new(s: Scalar) -> ScalarCell {
        let v = s.to_f64();
        ScalarCell { bool_: [s.to_bool()], i64_: [s.to_i64()], f32_: [v as f32], f64_: [v] }
    }

    /// The number as an operand of type `want`.
    pub(crate) fn operand(&self, want: DType) -> Operand<'_> {
        let data = match want {
            DType::Bool => Block::Bool(&self.bool_),
            DType::I64 => Block::I64(&self.i64_),
            DType::F32 => Block::F32(&self.f32_),
            DType::F64 => Block::F64(&self.f64_),
        };
        Operand { data, offset: 0, shape: &[], strides: None, want, row_major: true }
    }
}
