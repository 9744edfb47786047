//! The walk: running a kernel over all blocks of a plan, in parallel above the grain.

use smallvec::SmallVec;

use super::block::{BLOCK, BlockPlace, Scratch, is_in_place, lay_out};
use super::counter::Counter;
use super::plan::{Axis, Plan};
use super::rows::{are_long, write_rows};
use super::stream::{BlockWriter, bytes_read, worth_streaming};
use super::{Operand, flat};
use crate::buffer::Storage;
use crate::create::{checked_len, room, room_for};
use crate::dtype::{Block, BlockMut, DType};
use crate::error::Result;
use crate::kernels::BlockKernel;
use crate::shape::Shape;
use crate::tensor::{Layout, Tensor};
use crate::threads::{GRAIN, split_work};

/// A pointwise result over `shape`, which every operand broadcasts to. Without a kernel, the only operand itself.
///
/// Axes along which no operand moves are computed once; the result has stride 0 there.
pub(crate) fn map(
    op: &'static str,
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    shape: Shape,
    dtype: DType,
) -> Result<Tensor> {
    let n = shape.numel();
    if n == 0 {
        return Ok(Tensor::from_storage(Storage::scratch(dtype, 0), shape));
    }
    if let Some(kernel) = kernel {
        if n <= GRAIN && flat::applies(operands, &shape) {
            let mut storage = room_for(op, &shape, n, dtype)?;
            flat::run(kernel, operands, &mut [storage.block_mut()]);
            return Ok(Tensor::from_storage(storage, shape));
        }
        if operands.iter().all(|o| o.is_direct(&shape)) {
            let mut storage = room(op, &shape, dtype)?;
            run_direct(kernel, operands, storage.block_mut(), n);
            return Ok(Tensor::from_storage(storage, shape));
        }
    }
    checked_len(op, &shape, dtype)?;
    let plan = Plan::new(&shape, operands, true);
    let n = plan.axes.iter().map(|a| a.size).product();
    let mut storage = room_for(op, &shape, n, dtype)?;
    run(kernel, &plan.axes, operands, storage.block_mut());
    Ok(Tensor { storage, layout: Layout::with_still_axes(shape, &plan.still) })
}

/// The same into a given contiguous block of `shape.numel()` elements.
pub(crate) fn write(
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    shape: &[usize],
    mut out: BlockMut<'_>,
) {
    let n = out.len();
    if n == 0 {
        return;
    }
    match kernel {
        Some(kernel) if n <= GRAIN && flat::applies(operands, shape) => {
            return flat::run(kernel, operands, std::slice::from_mut(&mut out));
        }
        Some(kernel) if operands.iter().all(|o| o.is_direct(shape)) => {
            return run_direct(kernel, operands, out, n);
        }
        None if n <= GRAIN && operands[0].is_direct(shape) => {
            return operands[0].data.range(operands[0].offset, n).copy_to(out);
        }
        _ => {}
    }
    let plan = Plan::new(shape, operands, false);
    run(kernel, &plan.axes, operands, out);
}

/// Operands that all lie like the result: no plan, whole pieces go to the kernel.
fn run_direct(kernel: &dyn BlockKernel, operands: &[Operand<'_>], out: BlockMut<'_>, n: usize) {
    let dtype = out.dtype();
    let read = operands.iter().map(|o| n * o.want.size()).sum();
    let streamed = worth_streaming(read, n * dtype.size());
    split_work(n, GRAIN, out, &|o: BlockMut<'_>, at| o.split_at(at), &|start, len, out| {
        let blocks: SmallVec<[Block<'_>; 4]> =
            operands.iter().map(|o| o.data.range(o.offset + start, len)).collect();
        BlockWriter::new(kernel, dtype, streamed).write(&blocks, out);
    });
}

/// Walks the axes and writes the results in order.
fn run(kernel: Option<&dyn BlockKernel>, axes: &[Axis], operands: &[Operand<'_>], out: BlockMut<'_>) {
    let Some(kernel) = kernel else { return lay_out_all(axes, operands, out) };
    let (n, dtype) = (out.len(), out.dtype());
    let streamed = worth_streaming(bytes_read(axes, operands), n * dtype.size());
    split_work(n, GRAIN, out, &|o: BlockMut<'_>, at| o.split_at(at), &|start, len, mut out| {
        let mut writer = BlockWriter::new(kernel, dtype, streamed);
        if are_long(axes) {
            return write_rows(axes, operands, start, &mut writer, out);
        }
        let mut scratch = Scratch::new(operands.len(), len);
        for_each_block(axes, operands, start, len, |at, count, places| {
            let blocks = scratch.blocks(operands, places);
            writer.write(&blocks, out.range(at - start, count));
        });
    });
}

/// Walks the axes and writes the elements of the only operand in order, in the type they are wanted in.
fn lay_out_all(axes: &[Axis], operand: &[Operand<'_>], out: BlockMut<'_>) {
    split_work(out.len(), GRAIN, out, &|o: BlockMut<'_>, at| o.split_at(at), &|start, len, mut out| {
        for_each_block(axes, operand, start, len, |at, count, places| {
            let place = &places[0];
            if is_in_place(&operand[0], place) {
                let run = operand[0].data.range((operand[0].offset as isize + place.start) as usize, count);
                run.copy_to(out.range(at - start, count));
            } else {
                lay_out(&operand[0], place, out.range(at - start, count));
            }
        });
    });
}

/// Calls `f` with the position, the size and the operands' places of every block of `start .. start + len`.
fn for_each_block(
    axes: &[Axis],
    operands: &[Operand<'_>],
    start: usize,
    len: usize,
    mut f: impl FnMut(usize, usize, &[BlockPlace]),
) {
    let inner = axes.last();
    let step_of = |axis: Option<&Axis>, k: usize| axis.map_or(1, |a| a.steps[k]);
    let all_runs =
        operands.iter().enumerate().all(|(k, o)| o.data.dtype() == o.want && step_of(inner, k) == 1);
    let max_cols = if all_runs { usize::MAX } else { BLOCK };
    let mut counter = Counter::new(axes, operands.len(), start, start + len);
    let mut places: SmallVec<[BlockPlace; 4]> = SmallVec::new();
    while let Some(step) = counter.step(max_cols, BLOCK) {
        places.clear();
        for k in 0..operands.len() {
            let row_step = if axes.len() > 1 { axes[axes.len() - 2].steps[k] } else { 0 };
            places.push(BlockPlace {
                start: counter.offsets[k],
                rows: step.rows,
                row_step: if step.rows > 1 { row_step } else { 0 },
                cols: step.cols,
                col_step: step_of(inner, k),
            });
        }
        f(counter.at, step.rows * step.cols, &places);
        counter.advance(step);
    }
}

/// The blocks of the tensors that one update changes.
type States<'a> = SmallVec<[BlockMut<'a>; 3]>;

fn split_all<'a>(states: States<'a>, at: usize) -> (States<'a>, States<'a>) {
    states.into_iter().map(|b| b.split_at(at)).unzip()
}

/// Runs a kernel whose outputs hold what it changes: writable tensors of one shape, which every operand broadcasts to.
pub(crate) fn change(
    kernel: &dyn BlockKernel,
    state: &mut [&mut Tensor],
    operands: &[Operand<'_>],
    shape: &[usize],
) {
    let mut blocks: States<'_> = SmallVec::new();
    state.iter_mut().for_each(|s| blocks.push(s.block_mut()));
    let n = blocks.first().map_or(0, |s| s.len());
    if n == 0 {
        return;
    }
    if n <= GRAIN && flat::lie_like(operands, shape) {
        return flat::run(kernel, operands, &mut blocks);
    }
    let plan = Plan::new(shape, operands, false);
    split_work(n, GRAIN, blocks, &split_all, &|start, len, mut state: States<'_>| {
        let mut scratch = Scratch::new(operands.len(), len);
        for_each_block(&plan.axes, operands, start, len, |at, count, places| {
            let inputs = scratch.blocks(operands, places);
            let mut outs: SmallVec<[BlockMut<'_>; 3]> =
                state.iter_mut().map(|s| s.range(at - start, count)).collect();
            kernel.run(&inputs, &mut outs);
        });
    });
}
