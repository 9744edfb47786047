//! The walk over operands that lie across: what steps far along the innermost axis and lies in order along another one is laid
//! out by squares, so that each line of memory is read once and whole. A sum with a transposed matrix takes 0.35 to 0.5 of the time
//! that it takes element by element (256 by 256 to 4,096 by 1,024, one thread).

use smallvec::SmallVec;

use super::Operand;
use super::block::{BLOCK, BlockPlace, Scratch, lay_out, lay_out_columns};
use super::counter::{Counter, Step};
use super::plan::PlanAxis;
use crate::buffer::{Handle, Storage};
use crate::dtype::{Block, BlockMut};
use crate::threads::{GRAIN, split_work};

/// Rows of a square where there are few in all, which threads share: what is read at a time of an operand that lies across, a line of
/// memory or two.
const HEIGHT: usize = 16;
/// Rows of a square, and of what a task copies to its place, where there are several times as many: far columns give some lines at a time.
const TALL: usize = 64;
/// Rows from which on squares are tall.
const MANY: usize = 4 * TALL;
/// Columns of a square: what is written at a time. Narrow ones leave memory waiting: at 3,168 by 3,168 `f32` rows of 32 took
/// twice the time of rows of 256, and each row costs a call of the kernel.
const WIDTH: usize = BLOCK;

/// The axis along which an operand lies in order that does not along the innermost one, if squares are to be made of the two.
/// Of few columns a block has as many rows as a square, unless that is a tall one: with 40 columns beside a transposed table of a million
/// `f32` tall ones take 0.65 of the time.
pub(super) fn across(axes: &[PlanAxis], operands: &[Operand<'_>]) -> Option<usize> {
    let (inner, outer) = axes.split_last()?;
    let least = match inner.size {
        n if n > BLOCK / HEIGHT => 8,
        n if n > BLOCK / TALL => MANY,
        _ => return None,
    };
    let lies_along = |&along: &usize| (0..operands.len()).any(|k| is_across(axes, along, k));
    (0..outer.len()).filter(|&along| outer[along].size >= least).find(lies_along)
}

/// Whether an operand lies in order along this axis and not along the innermost one.
fn is_across(axes: &[PlanAxis], along: usize, k: usize) -> bool {
    axes[along].steps[k] == 1 && axes[axes.len() - 1].steps[k] > 1
}

/// Elements of a plane from which on it is worth a call of its own.
const PLANE: usize = 64;

/// The axis along which the only operand lies in order that does not along the innermost one, if planes of the two can be copied to their
/// places.
pub(super) fn straight(axes: &[PlanAxis], op: &Operand<'_>) -> Option<usize> {
    along_planes(axes, 0).filter(|_| op.want == op.data.dtype())
}

/// The axis along which an operand lies in order that does not along the innermost one, if planes of the two are worth a call.
fn along_planes(axes: &[PlanAxis], k: usize) -> Option<usize> {
    let (inner, outer) = axes.split_last()?;
    let along = (0..outer.len()).find(|&along| outer[along].size > 1 && is_across(axes, along, k))?;
    (inner.size * outer[along].size >= PLANE).then_some(along)
}

/// Whether squares of an operand would be handed out row by row, as others are between its rows: a call of the kernel for each, which is much for
/// short ones. Or whether squares are made along another axis, `across`, so that it would be laid out element by element.
pub(super) fn are_awkward(axes: &[PlanAxis], k: usize, across: Option<usize>, has_short_rows: bool) -> bool {
    along_planes(axes, k).is_some_and(|along| {
        across.is_some_and(|across| across != along) || has_short_rows && along + 2 < axes.len()
    })
}

/// Copies the only operand to its place, planes of the axis `along` and the innermost one, without a square in between.
pub(super) fn copy_straight(axes: &[PlanAxis], op: &Operand<'_>, along: usize, out: BlockMut<'_>) {
    let (inner, unit) = (&axes[axes.len() - 1], unit(axes, along));
    let middle = &axes[along + 1..axes.len() - 1];
    let between = middle.iter().map(|a| a.size).product();
    split_work(
        out.len(),
        grain(axes, along),
        out,
        &|o: BlockMut<'_>, at| o.split_at(at),
        &|start, len, mut out| {
            let mut rows = Counter::new(&axes[..=along], 1, start / unit, (start + len) / unit);
            while let Some(step) = rows.step(usize::MAX, 0) {
                let mut planes = Counter::new(middle, 1, 0, between);
                for plane in 0..between {
                    let from = op.offset as isize + rows.offsets[0] + planes.offsets[0];
                    let sizes = [step.cols, inner.size];
                    let (at, end) =
                        (rows.at * unit - start + plane * inner.size, (step.cols - 1) * unit + inner.size);
                    let place = (from as usize, inner.steps[0] as usize);
                    lay_out_columns(op, place, sizes, out.range(at, end), unit);
                    planes.advance(Step { rows: 1, cols: 1 });
                }
                rows.advance(step);
            }
        },
    );
}

/// Rows of a square.
fn height(axes: &[PlanAxis], along: usize) -> usize {
    let all = axes[..=along].iter().map(|a| a.size).product::<usize>();
    (if all < MANY { HEIGHT } else { TALL }).min(axes[along].size)
}

/// How many elements belong together at least where the work is shared: whole rows of squares.
pub(super) fn grain(axes: &[PlanAxis], along: usize) -> usize {
    let unit = height(axes, along) * unit(axes, along);
    unit.saturating_mul((GRAIN / unit).max(1))
}

/// Elements of one step along an axis.
pub(super) fn unit(axes: &[PlanAxis], along: usize) -> usize {
    axes[along + 1..].iter().map(|a| a.size).product()
}

/// Calls `f` with the position, the size and the operands' blocks, by squares of the axis `along` and the innermost one. The range is one of
/// whole steps of that axis.
pub(super) fn for_each(
    axes: &[PlanAxis],
    operands: &[Operand<'_>],
    along: usize,
    (start, len): (usize, usize),
    f: &mut dyn FnMut(usize, usize, &[Block<'_>]),
) {
    let (inner, unit) = (&axes[axes.len() - 1], unit(axes, along));
    let (tall, middle) = (&axes[along], &axes[along + 1..axes.len() - 1]);
    let width = inner.size.div_ceil(inner.size.div_ceil(WIDTH));
    let most = height(axes, along);
    let is_across = |k: usize| is_across(axes, along, k);
    let lies_so = |(k, op): (usize, &Operand<'_>)| {
        op.want == op.data.dtype() && [tall.steps[k], inner.steps[k]] == [inner.size as isize, 1]
    };
    // Rows of the result follow each other where nothing is between them: a whole square is one call of the kernel where the others lie like
    // the result (316 by 316 `f32` take 0.85 of the time), else as many as a block has.
    let group = match width == unit {
        true if operands.iter().enumerate().all(|o| is_across(o.0) || lies_so(o)) => most,
        true => BLOCK / width,
        false => 1,
    };
    let mut squares: SmallVec<[Option<Handle>; 4]> = operands
        .iter()
        .enumerate()
        .map(|(k, op)| is_across(k).then(|| Storage::scratch(op.want, most * width)))
        .collect();
    let mut scratch = Scratch::new(None, operands.len(), BLOCK);
    let between = middle.iter().map(|a| a.size).product();
    let mut rows = Counter::new(&axes[..=along], operands.len(), start / unit, (start + len) / unit);
    while let Some(Step { cols: height, .. }) = rows.step(most, 0) {
        let mut planes = Counter::new(middle, operands.len(), 0, between);
        for plane in 0..between {
            for col in (0..inner.size).step_by(width) {
                let cols = width.min(inner.size - col);
                let place = |k: usize, row: usize, count: usize| BlockPlace {
                    start: rows_at(&rows, &planes, k)
                        + row as isize * tall.steps[k]
                        + col as isize * inner.steps[k],
                    rows: count,
                    row_step: if count > 1 { tall.steps[k] } else { 0 },
                    cols,
                    col_step: inner.steps[k],
                };
                for (k, (op, square)) in operands.iter().zip(&mut squares).enumerate() {
                    if let Some(square) = square {
                        lay_out(op, &place(k, 0, height), square.block_mut().range(0, height * cols));
                    }
                }
                let laid: SmallVec<[Operand<'_>; 4]> =
                    operands.iter().zip(&squares).map(|(op, square)| laid_out(op, square)).collect();
                let at = rows.at * unit + plane * inner.size + col;
                for row in (0..height).step_by(group) {
                    let count = group.min(height - row);
                    let mut places: SmallVec<[BlockPlace; 4]> = (0..operands.len())
                        .map(|k| match squares[k] {
                            Some(_) => in_square(row, count, cols),
                            None => place(k, row, count),
                        })
                        .collect();
                    f(at + row * unit, count * cols, &scratch.blocks(&laid, &mut places));
                }
            }
            planes.advance(Step { rows: 1, cols: 1 });
        }
        rows.advance(Step { rows: 1, cols: height });
    }
}

/// How far an operand is from its start.
fn rows_at(rows: &Counter<'_>, planes: &Counter<'_>, k: usize) -> isize {
    rows.offsets[k] + planes.offsets[k]
}

/// An operand as it lies in its square, if it has one.
fn laid_out<'a>(op: &Operand<'a>, square: &'a Option<Handle>) -> Operand<'a> {
    match square {
        Some(square) => Operand { data: square.block(), offset: 0, ..*op },
        None => *op,
    }
}

/// Rows of a square.
fn in_square(row: usize, rows: usize, cols: usize) -> BlockPlace {
    let row_step = if rows > 1 { cols as isize } else { 0 };
    BlockPlace { start: (row * cols) as isize, rows, row_step, cols, col_step: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Tensor, ThreadPool, tensor};

    fn counted(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        Tensor::from_vec((0..n).map(|i| (i % 8191) as f32).collect::<Vec<_>>(), shape).unwrap()
    }

    /// The elements of a view in row-major order, one by one from the buffer.
    fn elements(t: &Tensor) -> Vec<f32> {
        let Block::F32(data) = t.storage.block() else { panic!("counted tensors are f32") };
        let mut index = vec![0usize; t.rank()];
        (0..t.numel())
            .map(|_| {
                let at: isize = index.iter().zip(t.strides().iter()).map(|(&i, &s)| i as isize * s).sum();
                for (i, &n) in index.iter_mut().zip(t.dims()).rev() {
                    *i += 1;
                    if *i < n {
                        break;
                    }
                    *i = 0;
                }
                data[(t.layout.offset() as isize + at) as usize]
            })
            .collect()
    }

    /// Views whose innermost axis lies across memory, around the sizes of squares and of pieces of work.
    fn views() -> Vec<Tensor> {
        let mut views = Vec::new();
        for (rows, cols) in
            [(7, 70), (8, 65), (15, 257), (17, 1024), (33, 1025), (100, 300), (260, 700), (2100, 66)]
        {
            views.push(counted(&[rows, cols]).t());
            views.push(counted(&[cols, rows]).t());
        }
        let cube = counted(&[70, 9, 80]);
        for axes in [[2, 1, 0], [1, 2, 0], [2, 0, 1], [0, 2, 1], [1, 0, 2]] {
            views.push(cube.permute(axes.map(|a| a as isize)).unwrap());
        }
        let wide = counted(&[70, 90]).narrow(1, 3, 80).unwrap();
        views.extend([wide.t(), wide.t().flip(0).unwrap(), wide.flip(1).unwrap().t()]);
        for (rows, cols) in
            [(1000, 3), (3, 1000), (700, 5), (40, 16), (49, 33), (16, 16), (300, 2), (1030, 4)]
        {
            views.push(counted(&[rows, cols]).t());
            views.push(counted(&[3, rows, cols]).transpose(1, 2).unwrap());
        }
        views.push(counted(&[3, 70, 33]).transpose(0, 2).unwrap());
        views.push(counted(&[50, 70, 7, 7]).permute([0, 2, 3, 1]).unwrap());
        views
    }

    #[test]
    fn what_lies_across_comes_out_in_order() {
        for view in views() {
            let expected = elements(&view);
            let shape = view.dims();
            let beside = counted(shape);
            let row = counted(&shape[shape.len() - 1..]);
            let column = counted(&shape[..1]).reshape([shape[0] as isize]).unwrap();
            let mut tall = vec![shape[0]];
            tall.resize(shape.len(), 1);
            let column = column.reshape(&tall[..]).unwrap();
            let all = || {
                let mut changed = beside.clone();
                changed.add_(&view).unwrap();
                [
                    view.contiguous(),
                    view.to(DType::F64).to(DType::F32),
                    view.mul(2.0).unwrap(),
                    view.add(&beside).unwrap(),
                    view.add(&row).unwrap(),
                    column.add(&view).unwrap(),
                    view.add(&view).unwrap(),
                    changed,
                ]
            };
            let results = ThreadPool::new(1).install(all);
            let of = |i: usize| elements(&results[i]);
            let sum = |other: &Tensor| {
                let other = elements(&other.expand(shape).unwrap());
                expected.iter().zip(other).map(|(a, b)| a + b).collect::<Vec<_>>()
            };
            let twice: Vec<f32> = expected.iter().map(|v| v * 2.0).collect();
            let what = format!("{shape:?} {:?}", view.strides());
            assert!(of(0) == expected && of(1) == expected, "{what}");
            assert!(of(2) == twice && of(6) == twice, "{what}");
            assert!(of(3) == sum(&beside) && of(7) == of(3), "{what}");
            assert!(of(4) == sum(&row) && of(5) == sum(&column), "{what}");
            for threads in [2, 8] {
                assert!(ThreadPool::new(threads).install(all) == results, "{threads} threads, {what}");
            }
        }
    }

    #[test]
    fn squares_are_made_only_where_memory_is_gone_through_twice() {
        let along = |t: &Tensor| {
            let operands = [Operand::new(t, DType::F32)];
            across(&super::super::plan::Plan::new(t.dims(), &operands, false).axes, &operands)
        };
        assert_eq!(along(&counted(&[70, 50]).t()), Some(0));
        assert_eq!(along(&counted(&[70, 50])), None);
        assert_eq!(along(&counted(&[50, 70]).t()), None);
        assert_eq!(along(&counted(&[50, 300]).t()), Some(0));
        assert_eq!(along(&counted(&[16, 300]).t()), None);
        assert_eq!(along(&counted(&[70, 3]).t()), None);
        assert_eq!(along(&counted(&[2, 70, 80]).permute([1, 0, 2]).unwrap()), None);
        assert_eq!(along(&tensor![1.0]), None);
        // Whole rows of squares are shared, whatever their width.
        let t = counted(&[2000, 40]).t();
        let operands = [Operand::new(&t, DType::F32)];
        let axes = super::super::plan::Plan::new(t.dims(), &operands, false).axes;
        assert!(grain(&axes, 0) > GRAIN / 2 && grain(&axes, 0).is_multiple_of(HEIGHT * 2000));
    }
}
