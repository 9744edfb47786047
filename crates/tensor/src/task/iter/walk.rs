//! The walk: running a kernel over all blocks of a plan, in parallel above the grain.

use smallvec::SmallVec;

use super::block::{BLOCK, BlockPlace, Scratch, is_in_place, lay_out};
use super::counter::Counter;
use super::fold::{compute, need_no_streaming};
use super::in_order::{map_in_order, memory_order};
use super::plan::{Plan, PlanAxis};
use super::rows::{are_long, lie_along, write_rows};
use super::spread::Spread;
use super::stream::{BlockWriter, bytes_read, worth_streaming};
use super::update::{Job, update_all};
use super::{Operand, flat, squares, tables};
use crate::buffer::Storage;
use crate::create::{checked_len, room, room_for};
use crate::dtype::{Block, BlockMut, DType, with_block};
use crate::error::Result;
use crate::kernels::BlockKernel;
use crate::kernels::lay_out::repeat as repeat_elements;
use crate::shape::Shape;
use crate::tensor::{Layout, Tensor};
use crate::threads::{GRAIN, split_work};

/// A pointwise result over `shape`, which every operand broadcasts to. Without a kernel, the only operand itself.
///
/// Axes along which no operand moves are computed once; the result has stride 0 there. Where operands that fill the shape have their
/// elements in one order, the result has it, too; else it is row-major.
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
        let fits = || n <= GRAIN || kernel.takes_numbers(dtype, n) && need_no_streaming(operands, n, 1);
        if flat::applies(operands, &shape) && fits() {
            let mut storage = room_for(op, &shape, n, dtype)?;
            compute(kernel, operands, &shape, true, &mut [storage.block_mut()]);
            return Ok(Tensor::from_storage(storage, shape));
        }
        if operands.iter().all(|o| o.is_direct(&shape)) {
            let mut storage = room(op, &shape, dtype)?;
            run_direct(kernel, operands, storage.block_mut(), n);
            return Ok(Tensor::from_storage(storage, shape));
        }
    }
    if let Some(order) = memory_order(operands, &shape) {
        return map_in_order(op, kernel, operands, (shape, order), dtype);
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
            return flat::run(kernel, operands, 0, std::slice::from_mut(&mut out));
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

/// Operands that all lie like the result: no plan, whole pieces go to the kernel. W16-exp takes 0.92 of the time.
fn run_direct(kernel: &dyn BlockKernel, operands: &[Operand<'_>], out: BlockMut<'_>, n: usize) {
    let dtype = out.dtype();
    let read = operands.iter().map(|o| n * o.want.size()).sum();
    let streamed = worth_streaming(read, n * dtype.size());
    split_work(n, GRAIN, out, &|o: BlockMut<'_>, at| o.split_at(at), &|start, len, out| {
        let blocks: SmallVec<[Block<'_>; 4]> =
            operands.iter().map(|o| o.data.range(o.offset + start, len)).collect();
        BlockWriter::new(kernel, out, streamed).write(0, len, &blocks);
    });
}

/// Walks the axes and writes the results in order.
fn run(kernel: Option<&dyn BlockKernel>, axes: &[PlanAxis], operands: &[Operand<'_>], out: BlockMut<'_>) {
    let Some(kernel) = kernel else { return lay_out_all(axes, operands, out) };
    if let Some(spread) = Spread::in_order(axes, operands) {
        return run_blocks(kernel, &Plan::merged(&spread.axes), &spread.operands(operands), out);
    }
    run_blocks(kernel, axes, operands, out);
}

/// The same block by block.
fn run_blocks(kernel: &dyn BlockKernel, axes: &[PlanAxis], operands: &[Operand<'_>], out: BlockMut<'_>) {
    let (n, dtype) = (out.len(), out.dtype());
    let streamed = worth_streaming(bytes_read(axes, operands), n * dtype.size());
    let across = squares::across(axes, operands);
    let grain = across.map_or(GRAIN, |along| squares::grain(axes, along));
    let by_rows = across.is_none() && (are_long(kernel, axes, operands) || lie_along(kernel, axes, operands));
    split_work(n, grain, out, &|o: BlockMut<'_>, at| o.split_at(at), &|start, len, out| {
        let mut writer = BlockWriter::new(kernel, out, streamed);
        if by_rows {
            return write_rows(axes, operands, (start, start, len), &mut writer);
        }
        for_each_block(kernel, axes, operands, across, (start, len), &mut |at, count, blocks| {
            writer.write(at - start, count, blocks);
        });
    });
}

/// Walks the axes and writes the elements of the only operand in order, in the type they are wanted in.
pub(super) fn lay_out_all(axes: &[PlanAxis], operand: &[Operand<'_>], out: BlockMut<'_>) {
    if let [outermost, inner @ ..] = axes
        && outermost.steps[0] == 0
        && !inner.is_empty()
    {
        return lay_out_periods(inner, operand, out);
    }
    if let Some(along) = squares::straight(axes, &operand[0]) {
        return squares::copy_straight(axes, &operand[0], along, out);
    }
    let across = squares::across(axes, operand);
    if across.is_none()
        && let Some(tables) = tables::of(axes).filter(|tables| tables.are_rows(&operand[0]))
    {
        return tables.lay_out_all(&operand[0], out);
    }
    let grain = across.map_or(GRAIN, |along| squares::grain(axes, along));
    split_work(out.len(), grain, out, &|o: BlockMut<'_>, at| o.split_at(at), &|start, len, mut out| {
        if let Some(along) = across {
            return squares::for_each(axes, operand, along, (start, len), &mut |at, count, blocks| {
                blocks[0].copy_to(out.range(at - start, count));
            });
        }
        for_each_place(axes, operand, start, len, |at, count, places| {
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

/// What repeats: laid out once, and then copied from what was written, twice as much each time. A factor along the middle axis of [300, 10, 10],
/// which is what the gradient of a sum of products is made of, takes a seventh of the time, a row of [1000, 100] half.
fn lay_out_periods(axes: &[PlanAxis], operand: &[Operand<'_>], out: BlockMut<'_>) {
    let period: usize = axes.iter().map(|a| a.size).product();
    let (count, grain) = (out.len() / period, GRAIN.div_ceil(period));
    split_work(count, grain, out, &|o: BlockMut<'_>, at| o.split_at(at * period), &|_, _, mut out| {
        lay_out_all(axes, operand, out.range(0, period));
        repeat(out, period);
    });
}

/// Fills a block with its first elements, again and again.
pub(crate) fn repeat(out: BlockMut<'_>, period: usize) {
    with_block!(BlockMut, out, s => repeat_elements(s, period));
}

/// Calls `f` with the position, the size and the operands' blocks for a kernel, for every block of `start .. start + len`; by squares if
/// they are to be made along an axis, but for what is no whole step of it.
pub(super) fn for_each_block(
    kernel: &dyn BlockKernel,
    axes: &[PlanAxis],
    operands: &[Operand<'_>],
    across: Option<usize>,
    (start, len): (usize, usize),
    f: &mut dyn FnMut(usize, usize, &[Block<'_>]),
) {
    let mut scratch = Scratch::new(Some(kernel), operands.len(), len.min(BLOCK));
    let mut plain = |start, len, f: &mut dyn FnMut(usize, usize, &[Block<'_>])| {
        for_each_place(axes, operands, start, len, |at, count, places| {
            f(at, count, &scratch.blocks(operands, places))
        });
    };
    let mut others = |start, len, f: &mut dyn FnMut(usize, usize, &[Block<'_>])| {
        let end = start + len;
        let whole = tables::of(axes).map(|tables| (tables, tables.whole(start, end)));
        let Some((tables, (from, to))) = whole else { return plain(start, len, f) };
        plain(start, from - start, f);
        tables.for_each(operands, (from, to), f);
        plain(to, end - to, f);
    };
    let Some(along) = across else { return others(start, len, f) };
    let (end, unit) = (start + len, squares::unit(axes, along));
    let (from, to) = (start.next_multiple_of(unit).min(end), end / unit * unit);
    others(start, from - start, f);
    if from < to {
        squares::for_each(axes, operands, along, (from, to - from), f);
    }
    others(to.max(from), end - to.max(from), f);
}

/// Calls `f` with the position, the size and the operands' places of every block of `start .. start + len`.
fn for_each_place(
    axes: &[PlanAxis],
    operands: &[Operand<'_>],
    start: usize,
    len: usize,
    mut f: impl FnMut(usize, usize, &mut [BlockPlace]),
) {
    let inner = axes.last();
    let step_of = |axis: Option<&PlanAxis>, k: usize| axis.map_or(1, |a| a.steps[k]);
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
        f(counter.at, step.rows * step.cols, &mut places);
        counter.advance(step);
    }
}

/// Runs a kernel whose output holds what it changes: a writable tensor of a shape which every operand broadcasts to.
pub(crate) fn change(
    kernel: &dyn BlockKernel,
    state: &mut Tensor,
    operands: &[Operand<'_>],
    shape: &[usize],
) {
    let n = state.numel();
    if n == 0 {
        return;
    }
    if n <= GRAIN && flat::lie_like(operands, shape) {
        return flat::run(kernel, operands, 0, &mut [state.block_mut()]);
    }
    update_all(&mut [Job::new(kernel, [state], operands.iter().copied().collect(), shape)]);
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, ThreadPool};

    /// What repeats along the outermost axes, of several sizes and layouts, in its own type and in another one.
    #[test]
    fn what_repeats_is_laid_out_as_it_is_read() {
        let cases: [(&[usize], &[usize]); 8] = [
            (&[700, 7, 9], &[7, 1]),
            (&[4, 5], &[5]),
            (&[3, 40_000], &[40_000]),
            (&[90, 3, 17, 11], &[3, 1, 11]),
            (&[5, 2, 150, 60], &[2, 150, 1]),
            (&[6, 1, 5, 3], &[1, 3]),
            (&[2, 300, 70], &[300, 70]),
            (&[41_000, 3], &[3]),
        ];
        for (shape, own) in cases {
            let n = own.iter().product::<usize>() as i64;
            let numbers = Tensor::arange(0..n).reshape(own).unwrap();
            for view in [numbers.clone(), numbers.flip(0).unwrap(), numbers.flip(-1).unwrap()] {
                for dtype in [DType::I64, DType::F32, DType::F64, DType::Bool] {
                    let t = view.to(dtype).expand(shape).unwrap();
                    let period: Vec<f64> = t.narrow(0, 0, 1).unwrap().to(DType::F64).to_vec().unwrap();
                    for threads in [1, 3] {
                        let [laid, cast] = ThreadPool::new(threads)
                            .install(|| [t.contiguous(), t.to(DType::F64).contiguous()]);
                        assert!(laid.is_contiguous() && laid.dtype() == dtype);
                        for found in [laid.to(DType::F64), cast] {
                            let found: Vec<f64> = found.to_vec().unwrap();
                            assert_eq!(found.len(), shape.iter().product::<usize>());
                            assert!(
                                found.chunks(period.len()).all(|part| part == period),
                                "{shape:?} {own:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}
