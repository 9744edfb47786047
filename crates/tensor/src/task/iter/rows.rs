//! The walk over long rows, one block of one row at a time: the plan's common case, with little to do per block: W1
//! takes 0.87 of the time. Kernels that take a number have one per row where an operand is a column: W2 takes 0.79. Those that take rows have
//! all that follow each other in one call, long or short, if nothing has to be laid out.

use smallvec::SmallVec;

use super::Operand;
use super::block::{BLOCK, BlockPlace, Blocks, lay_out};
use super::counter::Counter;
use super::plan::PlanAxis;
use super::stream::BlockWriter;
use crate::buffer::{Handle, Storage};
use crate::dtype::Block;
use crate::kernels::{BlockKernel, LEAST_ROW, Level, RowInput, level};

/// The shortest rows for which a number per row is better than a block of several rows in which it is laid out: an outer product of 200
/// and 200 takes 0.84 of the time, one of 128 and 128 would take 1.04.
const LEAST_WITH_A_NUMBER: usize = 192;

/// The shortest rows that, with AVX-512, go to the kernel as they follow each other beside one for all of them: of 33 elements a Zen 5 took 1.1 to 1.3 of the time
/// that it takes with that one laid out, as often as a block has rows. With AVX2 (Zen 3) rows of 33 to 500 elements take 0.5 to 0.9.
const LEAST_BESIDE_ONE: usize = 64;

/// Elements of a plane from which on the one for all its rows is laid out for several blocks.
const SEVERAL_BLOCKS: usize = 4 * BLOCK;

/// Whether rows are so long that a block never holds two of them, or that a kernel should have a number with each of them.
pub(crate) fn are_long(kernel: &dyn BlockKernel, axes: &[PlanAxis], operands: &[Operand<'_>]) -> bool {
    let Some(inner) = axes.last() else { return false };
    inner.size * 2 > BLOCK
        || inner.size >= LEAST_WITH_A_NUMBER && number_of(kernel, inner, operands).is_some()
}

/// Which operand a kernel takes as a number in each row: the one of two that does not move there.
fn number_of(kernel: &dyn BlockKernel, inner: &PlanAxis, operands: &[Operand<'_>]) -> Option<usize> {
    let is_still = |k: usize| inner.steps[k] == 0;
    if operands.len() != 2 || is_still(0) == is_still(1) || !kernel.takes_a_number() {
        return None;
    }
    let number = if is_still(0) { 0 } else { 1 };
    (operands[number].data.dtype() == operands[number].want).then_some(number)
}

/// Whether rows go to the kernel as they lie, several in one call, though blocks would hold more than one of them: where it takes rows, and
/// each operand lies in order along them or has a number for each. An outer sum of 8 by 111 by 111 takes 0.39 of the time, a band of 48
/// columns 0.67 to 0.86.
pub(super) fn lie_along(kernel: &dyn BlockKernel, axes: &[PlanAxis], operands: &[Operand<'_>]) -> bool {
    let Some((inner, outer)) = axes.split_last().filter(|axes| axes.0.size >= LEAST_ROW) else {
        return false;
    };
    let lies = |(op, step): (&Operand<'_>, &isize)| (0..=1).contains(step) && op.data.dtype() == op.want;
    // What is laid out for one block is there for the next ones, where these are of the same plane, or all planes have it.
    let plane = outer.last().map_or(1, |axis| axis.size) * inner.size;
    let is_kept = |k: usize| {
        let (step, further) =
            outer.split_last().map_or((0, outer), |(axis, further)| (axis.steps[k], further));
        let repeats = step == 0 && (plane >= SEVERAL_BLOCKS || further.iter().all(|axis| axis.steps[k] == 0));
        inner.steps[k] == 1 && (repeats || step == inner.size as isize)
    };
    // Of fewer elements that two axes of rows have, a call is no gain.
    let two = outer.iter().rev().take(2).map(|axis| axis.size).product::<usize>();
    let is_long = outer.len() < 3 || two * inner.size >= BLOCK;
    operands.len() == 2
        && is_long
        && kernel.takes_rows()
        && inner.steps.contains(&1)
        && !(level() == Level::Avx512 && inner.size < LEAST_BESIDE_ONE && is_kept(0) && is_kept(1))
        && operands.iter().zip(&inner.steps).all(lies)
}

/// How the rows of one operand reach the kernel.
struct Source<'a> {
    op: Operand<'a>,
    /// where the row is, and the steps from row to row and within one
    start: isize,
    row_step: isize,
    step: isize,
    /// how many rows follow each other so, and the step to the next ones
    group: (usize, isize),
    /// whether it is a number per row
    is_number: bool,
    /// if it is laid out: a block that holds so many elements from this place on
    laid_out: Option<LaidOut>,
}

struct LaidOut {
    storage: Handle,
    start: isize,
    held: usize,
}

impl<'a> Source<'a> {
    fn new(op: &Operand<'a>, step: isize, is_number: bool) -> Source<'a> {
        let in_place = is_number || (step == 1 && op.data.dtype() == op.want);
        let laid_out =
            (!in_place).then(|| LaidOut { storage: Storage::scratch(op.want, BLOCK), start: 0, held: 0 });
        Source { op: *op, start: 0, row_step: 0, step, group: (usize::MAX, 0), is_number, laid_out }
    }

    /// Sees to it that `n` elements from a column on are at hand.
    #[inline]
    fn prepare(&mut self, col: usize, n: usize) {
        let start = self.start + col as isize * self.step;
        if let Some(LaidOut { storage, start: old, held }) = &mut self.laid_out
            && (*old != start || *held < n)
        {
            let place = BlockPlace { start, rows: 1, row_step: 0, cols: n, col_step: self.step };
            lay_out(&self.op, &place, storage.block_mut().range(0, n));
            (*old, *held) = (start, n);
        }
    }

    /// Where rows are that are not laid out.
    fn rows(&self) -> RowInput<'a> {
        let start = self.op.offset as isize + self.start;
        RowInput {
            data: self.op.data,
            start,
            step: self.row_step,
            group: self.group,
            is_number: self.is_number,
        }
    }

    /// What the kernel reads of `n` elements from a column on.
    #[inline(always)]
    fn block(&self, col: usize, n: usize) -> Block<'_> {
        match &self.laid_out {
            Some(laid_out) => laid_out.storage.block().range(0, n),
            None => {
                let col = col as isize * self.step;
                let at = (self.op.offset as isize + self.start + col) as usize;
                self.op.data.range(at, if self.is_number { 1 } else { n })
            }
        }
    }
}

/// Writes the elements `start .. start + len` of the space of `axes` to a result that begins with the element `begin`.
pub(crate) fn write_rows(
    axes: &[PlanAxis],
    operands: &[Operand<'_>],
    (begin, start, len): (usize, usize, usize),
    writer: &mut BlockWriter<'_>,
) {
    let Some((inner, outer)) = axes.split_last() else { return };
    let end = start + len;
    let (first, last) = (start / inner.size, end.div_ceil(inner.size));
    let number = number_of(writer.kernel(), inner, operands);
    let mut sources: SmallVec<[Source<'_>; 4]> = SmallVec::new();
    for (k, op) in operands.iter().enumerate() {
        let mut source = Source::new(op, inner.steps[k], number == Some(k));
        source.row_step = outer.last().map_or(0, |axis| axis.steps[k]);
        sources.push(source);
    }
    let lays_out = sources.iter().any(|s| s.laid_out.is_some());
    let piece = writer.piece(inner.size).min(if lays_out { BLOCK } else { usize::MAX });
    let at_once = !lays_out && writer.takes_rows(inner.size);
    if let ([further @ .., innermost], [a, b], true) = (outer, &mut sources[..], at_once)
        && let Some(next) = further.last()
        && innermost.size * inner.size < BLOCK
    {
        // Rows of two axes in one call, but for those that are a part of what the innermost axis has: a row of 64 beside nine each takes 0.35 of the time.
        let unit = innermost.size * inner.size;
        let (from, to) = (start.next_multiple_of(unit), end / unit * unit);
        if from < to {
            write_rows(axes, operands, (begin, start, from - start), writer);
            [&mut *a, &mut *b]
                .into_iter()
                .zip(&next.steps)
                .for_each(|(s, &step)| s.group = (innermost.size, step));
            let mut groups = Counter::new(further, operands.len(), from / unit, to / unit);
            while let Some(step) = groups.step(usize::MAX, 0) {
                (a.start, b.start) = (groups.offsets[0], groups.offsets[1]);
                let (at, n) = (groups.at * unit - begin, step.cols * unit);
                writer.run_rows(at, n, [a.rows(), b.rows()], inner.size);
                groups.advance(step);
            }
            return write_rows(axes, operands, (begin, to, end - to), writer);
        }
    }
    let mut rows = Counter::new(outer, operands.len(), first, last);
    let mut done = start - begin;
    while let Some(step) = rows.step(usize::MAX, 0) {
        sources.iter_mut().zip(&rows.offsets).for_each(|(source, &offset)| source.start = offset);
        let mut row = rows.at;
        while row < rows.at + step.cols {
            let whole = (end / inner.size).min(rows.at + step.cols).saturating_sub(row);
            if let ([a, b], true) = (&mut sources[..], at_once && whole > 0 && row * inner.size >= start) {
                let n = whole * inner.size;
                writer.run_rows(done, n, [a.rows(), b.rows()], inner.size);
                a.start += whole as isize * a.row_step;
                b.start += whole as isize * b.row_step;
                (done, row) = (done + n, row + whole);
                continue;
            }
            let mut col = start.saturating_sub(row * inner.size);
            let stop = inner.size.min(end - row * inner.size);
            while col < stop {
                let n = piece.min(stop - col);
                if lays_out {
                    sources.iter_mut().for_each(|source| source.prepare(col, n));
                }
                let mut blocks = Blocks::new();
                sources.iter().for_each(|source| blocks.push(source.block(col, n)));
                writer.write(done, n, &blocks);
                done += n;
                col += n;
            }
            sources.iter_mut().for_each(|source| source.start += source.row_step);
            row += 1;
        }
        rows.advance(step);
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, ThreadPool};

    /// Rows of two axes, and those that are left of a piece of work, on either side of what repeats.
    #[test]
    fn rows_of_several_axes_give_the_bits_of_what_is_laid_out() {
        let cases: [(&[usize], &[&[usize]]); 2] = [
            (&[5, 6, 7, 40], &[&[5, 1, 7, 1], &[6, 1, 40], &[5, 6, 1, 40], &[5, 6, 7, 1]]),
            (&[60, 2, 2, 300], &[&[60, 1, 2, 300], &[2, 1, 300], &[60, 2, 1, 1]]),
        ];
        for (shape, others) in cases {
            let of = |shape: &[usize]| {
                let n = shape.iter().product::<usize>();
                let list: Vec<f64> = (0..n).map(|i| (i * 37 % 101) as f64 / 8.0 - 6.0).collect();
                Tensor::from_vec(list, shape).unwrap()
            };
            // Whole, and as a band of columns.
            let mut wide = shape.to_vec();
            *wide.last_mut().unwrap() += 5;
            let band = of(&wide).narrow(-1, 2, shape[shape.len() - 1]).unwrap();
            for (x, own) in [of(shape), band].iter().flat_map(|x| others.iter().map(move |own| (x, own))) {
                for dtype in [DType::F32, DType::F64, DType::I64] {
                    let (x, b) = (x.to(dtype), of(own).to(dtype));
                    let (whole, laid) = (x.contiguous(), b.expand(shape).unwrap().contiguous());
                    for threads in [1, 3] {
                        let [found, turned] = ThreadPool::new(threads).install(|| [x.sub(&b), b.sub(&x)]);
                        assert_eq!(found.unwrap(), whole.sub(&laid).unwrap(), "{shape:?} {own:?} {dtype}");
                        assert_eq!(turned.unwrap(), laid.sub(&whole).unwrap(), "{shape:?} {own:?} {dtype}");
                    }
                }
            }
        }
    }

    /// Every operation whose loops take a number, of a row, of a column and of all, on either side and in place, beside the same with nothing
    /// broadcast.
    #[test]
    fn numbers_that_repeat_give_the_bits_of_what_is_laid_out() {
        type Operation = fn(&Tensor, &Tensor) -> crate::Result<Tensor>;
        let operations: [(&str, Operation); 7] = [
            ("add", |a, b| a.add(b)),
            ("add_with", |a, b| a.add_with(b, 3)),
            ("sub", |a, b| a.sub(b)),
            ("mul", |a, b| a.mul(b)),
            ("div", |a, b| a.div(b)),
            ("maximum", |a, b| a.maximum(b)),
            ("minimum", |a, b| a.minimum(b)),
        ];
        let special = [0.0, -0.0, 1.5, f64::NAN, f64::INFINITY, -7.0, 1e-40, f64::NEG_INFINITY];
        for (rows, cols) in
            [(1, 2), (3, 7), (9, 191), (5, 192), (4, 193), (3, 1025), (2, 3000), (120, 300), (70, 33)]
        {
            let value = |i: usize| {
                if i.is_multiple_of(5) { special[i / 5 % 8] } else { (i * 37 % 101) as f64 / 8.0 - 6.0 }
            };
            let of = |n: usize, from: usize| Tensor::from((from..from + n).map(value).collect::<Vec<f64>>());
            let table = of(rows * cols, 0).reshape((rows, cols)).unwrap();
            let others = [of(rows, 3).reshape((rows, 1)).unwrap(), of(cols, 4), of(1, 2), of(1, 10)];
            for other in &others {
                for (dtype, with) in [
                    (DType::F32, DType::F32),
                    (DType::F64, DType::F64),
                    (DType::I64, DType::I64),
                    (DType::F64, DType::F32),
                ] {
                    let (a, b) = (table.to(dtype), other.to(with));
                    let laid = b.expand((rows, cols)).unwrap().contiguous();
                    let bits = |t: &Tensor| match t.dtype() {
                        DType::F32 => t.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits() as u64).collect(),
                        DType::F64 => t.to_vec::<f64>().unwrap().iter().map(|v| v.to_bits()).collect(),
                        _ => t.to_vec::<i64>().unwrap().iter().map(|&v| v as u64).collect::<Vec<u64>>(),
                    };
                    for (name, operation) in &operations {
                        for threads in [1, 3] {
                            let (found, turned, sum) = ThreadPool::new(threads).install(|| {
                                let sum = operation(&a, &b).unwrap().sum(1).unwrap();
                                (operation(&a, &b).unwrap(), operation(&b, &a).unwrap(), sum)
                            });
                            let what =
                                format!("{name} {rows} x {cols}, {:?}, {dtype}, {with}", other.shape());
                            assert_eq!(bits(&found), bits(&operation(&a, &laid).unwrap()), "{what}");
                            assert_eq!(bits(&turned), bits(&operation(&laid, &a).unwrap()), "{what}, turned");
                            assert_eq!(
                                bits(&sum),
                                bits(&operation(&a, &laid).unwrap().sum(1).unwrap()),
                                "{what}, sum"
                            );
                        }
                    }
                    let mut own = a.clone();
                    own.mul_(&b).unwrap();
                    assert_eq!(bits(&own), bits(&a.mul(&laid).unwrap()), "in place {rows} x {cols}");
                }
            }
        }
    }

    /// Rows that lie apart, in another order and backwards, beside rows, numbers and others that lie apart.
    #[test]
    fn rows_that_lie_apart_give_the_bits_of_what_is_laid_out() {
        let bits = |t: &Tensor| {
            t.to(DType::F64).to_vec::<f64>().unwrap().iter().map(|v| v.to_bits()).collect::<Vec<u64>>()
        };
        let value = |i: usize| if i.is_multiple_of(7) { -0.0 } else { (i * 37 % 101) as f64 / 8.0 - 6.0 };
        for [a, b, c] in [
            [1, 5, 32],
            [3, 40, 33],
            [8, 111, 111],
            [2, 700, 48],
            [5, 7, 300],
            [4, 50, 79],
            [700, 3, 17],
            [90, 9, 64],
            [4, 3, 16],
        ] {
            for dtype in [DType::F32, DType::F64, DType::I64] {
                let of = |shape: &[usize]| {
                    let n = shape.iter().product::<usize>();
                    let all = (0..n).map(value).collect::<Vec<f64>>();
                    Tensor::from_vec(all, shape).unwrap().to(dtype)
                };
                let band = |shape: &[usize]| of(shape).narrow(-1, 3, c).unwrap();
                let table = band(&[a, b, c + 5]);
                let others = [
                    of(&[a, b, c]),
                    of(&[b, 1]),
                    of(&[a, 1, c]),
                    of(&[a, b, 1]),
                    of(&[b, c]),
                    of(&[a, 1, 1]),
                    band(&[b, c + 9]),
                    table.flip(0).unwrap(),
                    table.flip(1).unwrap(),
                    of(&[b, a, c]).transpose(0, 1).unwrap(),
                    of(&[c]).flip(0).unwrap(),
                ];
                for y in &others {
                    for x in [&table, &of(&[a, 1, c])] {
                        let laid = |t: &Tensor| t.expand([a, b, c]).unwrap().contiguous();
                        let want = [laid(x).sub(laid(y)), laid(x).maximum(laid(y))].map(Result::unwrap);
                        for threads in [1, 3] {
                            let all = || [x.sub(y), x.maximum(y)].map(Result::unwrap);
                            for (found, want) in ThreadPool::new(threads).install(all).iter().zip(&want) {
                                let found = found.expand([a, b, c]).unwrap();
                                let about = format!("{:?} {:?} {dtype}", x.shape(), y.shape());
                                assert_eq!(bits(&found), bits(want), "{about}");
                            }
                        }
                    }
                }
            }
        }
    }
}
