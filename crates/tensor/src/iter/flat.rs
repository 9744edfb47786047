//! The short way for results that are one task: operands that lie like the result, or are a single number, need neither
//! a plan nor a counter.

use smallvec::SmallVec;

use super::Operand;
use super::block::BLOCK;
use crate::buffer::{Handle, Storage};
use crate::dtype::{Block, BlockMut};
use crate::kernels::BlockKernel;

/// Whether every operand lies like a result of this shape, or is a single number.
#[inline]
pub(super) fn lie_like(operands: &[Operand<'_>], shape: &[usize]) -> bool {
    operands.iter().all(|o| o.data.dtype() == o.want && (o.is_single() || o.is_direct(shape)))
}

/// Whether [`map`] gives a result of this shape: the operands lie like it, and one of them moves along all its axes.
#[inline]
pub(super) fn applies(operands: &[Operand<'_>], shape: &[usize]) -> bool {
    lie_like(operands, shape) && (shape.iter().all(|&n| n == 1) || operands.iter().any(|o| !o.is_single()))
}

/// Runs a kernel over flat operands. `out` has the elements of the result, row-major.
#[inline]
pub(super) fn map(kernel: &dyn BlockKernel, operands: &[Operand<'_>], mut out: BlockMut<'_>) {
    let n = out.len();
    if n == 1 || !operands.iter().any(Operand::is_single) {
        let mut blocks: SmallVec<[Block<'_>; 4]> = SmallVec::new();
        operands.iter().for_each(|o| blocks.push(o.data.range(o.offset, n)));
        return kernel.run(&blocks, &mut [out]);
    }
    let repeated = repeat_singles(operands, n.min(BLOCK));
    for start in (0..n).step_by(BLOCK) {
        let len = BLOCK.min(n - start);
        kernel.run(&blocks(operands, &repeated, start, len), &mut [out.range(start, len)]);
    }
}

/// The same for a kernel whose first operand is `out` itself, with the others.
pub(super) fn map_in_place(kernel: &dyn BlockKernel, others: &[Operand<'_>], mut out: BlockMut<'_>) {
    let n = out.len();
    let repeated = repeat_singles(others, n.min(BLOCK));
    let mut own = Storage::scratch(out.dtype(), n.min(BLOCK));
    for start in (0..n).step_by(BLOCK) {
        let len = BLOCK.min(n - start);
        let mut target = out.range(start, len);
        target.as_block().copy_to(own.block_mut().range(0, len));
        let mut inputs = blocks(others, &repeated, start, len);
        inputs.insert(0, own.block().range(0, len));
        kernel.run(&inputs, &mut [target.range(0, len)]);
    }
}

/// Runs a kernel that changes several blocks in place, reading operands that lie like them.
pub(super) fn update(kernel: &dyn BlockKernel, state: &mut [BlockMut<'_>], operands: &[Operand<'_>]) {
    let n = state.first().map_or(0, |s| s.len());
    let repeated = repeat_singles(operands, n.min(BLOCK));
    // Without a number to repeat, the whole is one block.
    let step = if repeated.is_empty() { n } else { BLOCK };
    for start in (0..n).step_by(step.max(1)) {
        let len = step.min(n - start);
        let mut outs: SmallVec<[BlockMut<'_>; 3]> = SmallVec::new();
        state.iter_mut().for_each(|s| outs.push(s.range(start, len)));
        kernel.run(&blocks(operands, &repeated, start, len), &mut outs);
    }
}

/// Runs a kernel and hands its results to `take`, block by block with where they start.
pub(super) fn for_each_result(
    kernel: &dyn BlockKernel,
    operands: &[Operand<'_>],
    n: usize,
    mut take: impl FnMut(usize, Block<'_>),
) {
    let Some(first) = operands.first() else { return };
    let repeated = repeat_singles(operands, n.min(BLOCK));
    let mut result = Storage::scratch(first.want, n.min(BLOCK));
    for start in (0..n).step_by(BLOCK) {
        let len = BLOCK.min(n - start);
        kernel.run(&blocks(operands, &repeated, start, len), &mut [result.block_mut().range(0, len)]);
        take(start, result.block().range(0, len));
    }
}

/// Blocks full of the operands that are a single number, in their order.
fn repeat_singles(operands: &[Operand<'_>], len: usize) -> SmallVec<[Handle; 2]> {
    let mut repeated = SmallVec::new();
    for o in operands.iter().filter(|o| o.is_single()) {
        let mut block = Storage::scratch(o.want, len);
        block.block_mut().fill_from(o.data.range(o.offset, 1));
        repeated.push(block);
    }
    repeated
}

fn blocks<'b>(
    operands: &[Operand<'b>],
    repeated: &'b [Handle],
    start: usize,
    len: usize,
) -> SmallVec<[Block<'b>; 4]> {
    let (mut out, mut single) = (SmallVec::new(), repeated.iter());
    for o in operands {
        out.push(match o.is_single() {
            true => single.next().expect("one block per single number").block().range(0, len),
            false => o.data.range(o.offset + start, len),
        });
    }
    out
}
