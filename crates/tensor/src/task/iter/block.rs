//! Blocks: handing out an operand's elements in place, or laid out and cast into scratch memory.

use smallvec::SmallVec;

use super::Operand;
use crate::buffer::{Handle, Storage};
use crate::dtype::{Block, BlockMut, Element, with_block};
use crate::kernels::BlockKernel;
use crate::kernels::lay_out::{
    convert, lay_out as lay_out_elements, lay_out_columns as lay_out_column_elements,
    lay_out_tables as lay_out_table_elements,
};

/// Elements of a block: what fits in the first-level cache a few times over.
pub(crate) const BLOCK: usize = 1024;

/// Where a block of an operand lies: the start, and rows and columns with their strides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockPlace {
    pub(crate) start: isize,
    pub(crate) rows: usize,
    pub(crate) row_step: isize,
    pub(crate) cols: usize,
    pub(crate) col_step: isize,
}

impl BlockPlace {
    pub(crate) fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Whether there are several elements, all of them the same one.
    fn repeats_one(&self) -> bool {
        let still = |n: usize, step: isize| n == 1 || step == 0;
        self.len() > 1 && still(self.cols, self.col_step) && still(self.rows, self.row_step)
    }

    /// Whether the elements lie one after another.
    fn is_run(&self) -> bool {
        (self.col_step == 1 || self.cols == 1) && (self.rows == 1 || self.row_step == self.cols as isize)
    }
}

/// Scratch blocks of the operands of one walk, each remembering what it was last filled with.
pub(crate) struct Scratch {
    slots: SmallVec<[(Option<Handle>, Option<BlockPlace>); 4]>,
    room: usize,
    takes_a_number: bool,
}

impl Scratch {
    /// For `operands` operands of a kernel, and blocks of at most `room` elements.
    pub(crate) fn new(kernel: Option<&dyn BlockKernel>, operands: usize, room: usize) -> Scratch {
        let takes_a_number = operands == 2 && kernel.is_some_and(|k| k.takes_a_number());
        Scratch { slots: (0..operands).map(|_| (None, None)).collect(), room, takes_a_number }
    }

    /// Lays out a place of operand `k`, unless it is there already.
    #[inline]
    pub(crate) fn lay_out(&mut self, k: usize, op: &Operand<'_>, place: &BlockPlace) {
        let slot = &mut self.slots[k];
        if slot.1 != Some(*place) {
            let storage = slot.0.get_or_insert_with(|| Storage::scratch(op.want, self.room));
            lay_out(op, place, storage.block_mut().range(0, place.len()));
            slot.1 = Some(*place);
        }
    }

    /// The first elements of what was laid out of operand `k`.
    #[inline]
    pub(crate) fn laid_out(&self, k: usize, len: usize) -> Block<'_> {
        self.slots[k].0.as_ref().expect("laid out before").block().range(0, len)
    }

    /// The blocks of all operands at these places, one of which may become that of a number.
    #[inline]
    pub(crate) fn blocks<'b>(
        &'b mut self,
        operands: &[Operand<'b>],
        places: &mut [BlockPlace],
    ) -> Blocks<'b> {
        if self.takes_a_number
            && let [a, b] = places
            && a.repeats_one() != b.repeats_one()
        {
            let number = if a.repeats_one() { a } else { b };
            (number.rows, number.cols) = (1, 1);
        }
        for (k, (op, place)) in operands.iter().zip(&*places).enumerate() {
            if !is_in_place(op, place) {
                self.lay_out(k, op, place);
            }
        }
        let mut blocks = Blocks::new();
        for ((op, place), slot) in operands.iter().zip(&*places).zip(&self.slots) {
            blocks.push(match &slot.0 {
                Some(storage) if !is_in_place(op, place) => storage.block().range(0, place.len()),
                _ => op.data.range((op.offset as isize + place.start) as usize, place.len()),
            });
        }
        blocks
    }
}

/// A few blocks, put together for every call of a kernel: plain memory for up to four.
pub(crate) struct Blocks<'b> {
    few: [Block<'b>; 4],
    len: usize,
    /// all of them if there are more
    many: Vec<Block<'b>>,
}

impl<'b> Blocks<'b> {
    #[inline(always)]
    pub(crate) fn new() -> Blocks<'b> {
        Blocks { few: [Block::Bool(&[]); 4], len: 0, many: Vec::new() }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, block: Block<'b>) {
        if self.len < self.few.len() {
            self.few[self.len] = block;
        } else {
            if self.many.is_empty() {
                self.many.extend(self.few);
            }
            self.many.push(block);
        }
        self.len += 1;
    }
}

impl<'b> std::ops::Deref for Blocks<'b> {
    type Target = [Block<'b>];
    #[inline(always)]
    fn deref(&self) -> &[Block<'b>] {
        if self.len <= self.few.len() { &self.few[..self.len] } else { &self.many }
    }
}

/// Whether a kernel can read this block of the operand where it lies.
#[inline]
pub(crate) fn is_in_place(op: &Operand<'_>, place: &BlockPlace) -> bool {
    place.is_run() && op.data.dtype() == op.want
}

/// Copies a block of an operand into contiguous elements of the type it is wanted in.
pub(crate) fn lay_out(op: &Operand<'_>, place: &BlockPlace, out: BlockMut<'_>) {
    debug_assert_eq!(out.dtype(), op.want);
    let (n, dtype) = (place.len(), op.data.dtype());
    if dtype == op.want {
        return lay_out_as_it_is(op, place, out);
    }
    if place.is_run() {
        return convert_all(op.data.range((op.offset as isize + place.start) as usize, n), out);
    }
    // Two loops over a block in the nearest cache, and no loop for every layout of every pair of types.
    let mut laid = Storage::scratch(dtype, n);
    lay_out_as_it_is(op, place, laid.block_mut().range(0, n));
    convert_all(laid.block().range(0, n), out);
}

fn lay_out_as_it_is(op: &Operand<'_>, place: &BlockPlace, out: BlockMut<'_>) {
    let (start, steps) = (op.offset as isize + place.start, [place.row_step, place.col_step]);
    match (op.data, out) {
        (Block::Bool(s), BlockMut::Bool(out)) => lay_out_elements(s, start, steps, place.cols, out),
        (Block::I64(s), BlockMut::I64(out)) => lay_out_elements(s, start, steps, place.cols, out),
        (Block::F32(s), BlockMut::F32(out)) => lay_out_elements(s, start, steps, place.cols, out),
        (Block::F64(s), BlockMut::F64(out)) => lay_out_elements(s, start, steps, place.cols, out),
        _ => unreachable!("elements are laid out in their own type"),
    }
}

/// Copies tables of an operand, which is of the type it is wanted in, into contiguous elements.
pub(crate) fn lay_out_tables(
    op: &Operand<'_>,
    start: isize,
    steps: [isize; 2],
    sizes: [usize; 2],
    out: BlockMut<'_>,
) {
    match (op.data, out) {
        (Block::Bool(s), BlockMut::Bool(out)) => lay_out_table_elements(s, start, steps, sizes, out),
        (Block::I64(s), BlockMut::I64(out)) => lay_out_table_elements(s, start, steps, sizes, out),
        (Block::F32(s), BlockMut::F32(out)) => lay_out_table_elements(s, start, steps, sizes, out),
        (Block::F64(s), BlockMut::F64(out)) => lay_out_table_elements(s, start, steps, sizes, out),
        _ => unreachable!("elements are laid out in their own type"),
    }
}

/// Copies columns of an operand, which is of the type it is wanted in and lies in order along them, to rows that are `stride` apart.
pub(crate) fn lay_out_columns(
    op: &Operand<'_>,
    place: (usize, usize),
    sizes: [usize; 2],
    out: BlockMut<'_>,
    stride: usize,
) {
    match (op.data, out) {
        (Block::Bool(s), BlockMut::Bool(out)) => lay_out_column_elements(s, place, sizes, out, stride),
        (Block::I64(s), BlockMut::I64(out)) => lay_out_column_elements(s, place, sizes, out, stride),
        (Block::F32(s), BlockMut::F32(out)) => lay_out_column_elements(s, place, sizes, out, stride),
        (Block::F64(s), BlockMut::F64(out)) => lay_out_column_elements(s, place, sizes, out, stride),
        _ => unreachable!("elements are laid out in their own type"),
    }
}

/// Elements in the type of another block, which has as many.
fn convert_all(from: Block<'_>, out: BlockMut<'_>) {
    match out {
        BlockMut::Bool(out) => {
            with_block!(Block, from, s => convert(s, out, |v| v.to_scalar().to_bool()))
        }
        BlockMut::I64(out) => match from {
            Block::I64(_) => from.copy_to(BlockMut::I64(out)),
            Block::Bool(s) => convert(s, out, |v| v as i64),
            Block::F32(s) => convert(s, out, |v| v as i64),
            Block::F64(s) => convert(s, out, |v| v as i64),
        },
        BlockMut::F32(out) => match from {
            Block::F32(_) => from.copy_to(BlockMut::F32(out)),
            Block::F64(s) => convert(s, out, |v| v as f32),
            Block::I64(s) => convert(s, out, |v| v as f32),
            Block::Bool(s) => convert(s, out, |v| v as u8 as f32),
        },
        BlockMut::F64(out) => match from {
            Block::F64(_) => from.copy_to(BlockMut::F64(out)),
            Block::F32(s) => convert(s, out, |v| v as f64),
            Block::I64(s) => convert(s, out, |v| v as f64),
            Block::Bool(s) => convert(s, out, |v| v as u8 as f64),
        },
    }
}
