//! Small tables, several of which make a block: the heads of attention for one position, beside others in another order.
//!
//! A call of a kernel costs as much as two hundred elements of an addition. Where the two innermost axes have no more than a few
//! hundred, their tables are laid out behind each other (`[24, 16, 8, 32]`, transposed, and added: half the time in the cache).

use smallvec::SmallVec;

use super::Operand;
use super::block::{BLOCK, BlockPlace, Blocks, lay_out, lay_out_tables};
use super::counter::Counter;
use super::plan::PlanAxis;
use crate::buffer::{Handle, Storage};
use crate::dtype::{Block, BlockMut};
use crate::threads::{GRAIN, split_work};

/// The axes of a walk: those of small tables, and the others.
#[derive(Clone, Copy)]
pub(super) struct Tables<'a> {
    outer: &'a [PlanAxis],
    rows: &'a PlanAxis,
    cols: &'a PlanAxis,
    /// elements of a table
    size: usize,
}

/// The tables of these axes, if several fit in a block.
pub(super) fn of(axes: &[PlanAxis]) -> Option<Tables<'_>> {
    let (outer, [rows, cols]) = axes.split_last_chunk::<2>()?;
    let size = rows.size.saturating_mul(cols.size);
    let several = outer.last().is_some_and(|axis| axis.size > 1) && size > 0 && 2 * size <= BLOCK;
    several.then_some(Tables { outer, rows, cols, size })
}

/// Rows of at most so many elements have loops of their own in a call, but a call for each of tables as small as this takes longer.
const SHORT_ROW: usize = 8;
const SMALL: usize = 128;

impl Tables<'_> {
    /// Whether copies of the only operand's tables are copies of rows, such as those of the heads of attention for one position: W13,
    /// which copies these in the order of positions, takes 0.96 of the time. Of small ones they are, too: the fused sum of `x * y` of [64, 16, 5, 7] and
    /// [64, 16, 1, 7] takes 0.3 of the time.
    pub(super) fn are_rows(&self, op: &Operand<'_>) -> bool {
        (self.cols.size > SHORT_ROW || self.size <= SMALL)
            && self.cols.steps[0] == 1
            && op.data.dtype() == op.want
    }

    /// Lays out the only operand, whose tables are rows, as many tables at a time as the innermost of the other axes has.
    pub(super) fn lay_out_all(&self, op: &Operand<'_>, out: BlockMut<'_>) {
        let (size, sizes) = (self.size, [self.rows.size, self.cols.size]);
        let steps = [self.outer.last().map_or(0, |axis| axis.steps[0]), self.rows.steps[0]];
        let (count, grain) = (out.len() / size, GRAIN.div_ceil(size));
        split_work(
            count,
            grain,
            out,
            &|o: BlockMut<'_>, at| o.split_at(at * size),
            &|first, len, mut out| {
                let mut counter = Counter::new(self.outer, 1, first, first + len);
                while let Some(step) = counter.step(usize::MAX, 0) {
                    let from = (counter.at - first) * size;
                    let start = op.offset as isize + counter.offsets[0];
                    lay_out_tables(op, start, steps, sizes, out.range(from, step.cols * size));
                    counter.advance(step);
                }
            },
        );
    }

    /// Where the whole tables among some elements begin and end.
    pub(super) fn whole(&self, start: usize, end: usize) -> (usize, usize) {
        let from = start.next_multiple_of(self.size).min(end);
        (from, (end / self.size * self.size).max(from))
    }

    /// Calls `f` with the position, the size and the operands' blocks of whole tables.
    pub(super) fn for_each(
        &self,
        operands: &[Operand<'_>],
        (from, to): (usize, usize),
        f: &mut dyn FnMut(usize, usize, &[Block<'_>]),
    ) {
        let Some(across) = self.outer.last() else { return };
        let mut laid: SmallVec<[Laid; 4]> = operands.iter().map(|_| Laid::default()).collect();
        let mut counter = Counter::new(self.outer, operands.len(), from / self.size, to / self.size);
        while let Some(step) = counter.step(BLOCK / self.size, 0) {
            let n = step.cols * self.size;
            for ((k, op), laid) in operands.iter().enumerate().zip(&mut laid) {
                if !self.is_run(k, op) {
                    let again = across.steps[k] == 0 && laid.start == Some(counter.offsets[k]) && n <= laid.n;
                    if !again {
                        self.lay_out(k, op, counter.offsets[k], step.cols, laid);
                    }
                }
            }
            let mut blocks = Blocks::new();
            for ((k, op), laid) in operands.iter().enumerate().zip(&laid) {
                blocks.push(match &laid.storage {
                    Some(storage) => storage.block().range(0, n),
                    None => op.data.range((op.offset as isize + counter.offsets[k]) as usize, n),
                });
            }
            f(counter.at * self.size, n, &blocks);
            counter.advance(step);
        }
    }

    /// Whether the tables of an operand follow each other as they are wanted.
    fn is_run(&self, k: usize, op: &Operand<'_>) -> bool {
        let follows = |axis: &PlanAxis, size: usize| axis.size == 1 || axis.steps[k] == size as isize;
        let across = self.outer.last().is_some_and(|axis| follows(axis, self.size));
        op.data.dtype() == op.want && across && follows(self.rows, self.cols.size) && follows(self.cols, 1)
    }

    fn lay_out(&self, k: usize, op: &Operand<'_>, start: isize, count: usize, laid: &mut Laid) {
        let n = count * self.size;
        (laid.start, laid.n) = (Some(start), n);
        let storage = laid.storage.get_or_insert_with(|| Storage::scratch(op.want, BLOCK));
        let across = self.outer.last().map_or(0, |axis| axis.steps[k]);
        if op.data.dtype() == op.want && self.cols.steps[k] == 1 {
            let (steps, sizes) = ([across, self.rows.steps[k]], [self.rows.size, self.cols.size]);
            let out = storage.block_mut().into_range(0, n);
            return lay_out_tables(op, op.offset as isize + start, steps, sizes, out);
        }
        for table in 0..count {
            let place = BlockPlace {
                start: start + table as isize * across,
                rows: self.rows.size,
                row_step: self.rows.steps[k],
                cols: self.cols.size,
                col_step: self.cols.steps[k],
            };
            lay_out(op, &place, storage.block_mut().into_range(table * self.size, self.size));
        }
    }
}

/// What of an operand is laid out.
#[derive(Default)]
struct Laid {
    storage: Option<Handle>,
    start: Option<isize>,
    n: usize,
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, ThreadPool};

    /// Tables of every size and type beside others in another order, repeated and backwards, against operands that are laid out.
    #[test]
    fn tables_beside_each_other() {
        for [a, b, c, d] in [[3, 5, 4, 6], [24, 16, 8, 32], [700, 3, 2, 33], [2, 90, 40, 12], [5, 4, 1, 300]]
        {
            let x = Tensor::arange(0..(a * b * c * d) as i64).reshape([a, c, b, d]).unwrap();
            let turned = x.transpose(1, 2).unwrap();
            let others = [
                Tensor::arange(0..(a * b * c * d) as i64).reshape([a, b, c, d]).unwrap(),
                turned.flip(3).unwrap(),
                Tensor::arange(0..(c * d) as i64).reshape([c, d]).unwrap().flip(0).unwrap(),
                Tensor::arange(0..b as i64).reshape([b, 1, 1]).unwrap(),
                Tensor::arange(0..(a * d) as i64).reshape([d, 1, 1, a]).unwrap().transpose(0, 3).unwrap(),
            ];
            for (dtype, other_dtype) in
                [(DType::I64, DType::I64), (DType::F32, DType::F32), (DType::F64, DType::F32)]
            {
                for other in &others {
                    let (x, y) = (turned.to(dtype), other.to(other_dtype));
                    let whole = y.expand(x.shape()).unwrap().contiguous();
                    let want = x.contiguous().sub(whole).unwrap();
                    for threads in [1, 3] {
                        let found = ThreadPool::new(threads).install(|| x.sub(&y).unwrap());
                        assert_eq!(found, want, "{:?} {dtype} {other_dtype}", [a, b, c, d]);
                    }
                }
            }
        }
    }

    /// Copies in another order of axes, of small tables among them, longer than a grain and of every type.
    #[test]
    fn small_tables_are_copied_where_they_belong() {
        for [a, b, c, d] in [
            [5, 7, 3, 16],
            [40, 9, 4, 32],
            [33, 70, 2, 64],
            [300, 13, 5, 10],
            [9, 1000, 3, 33],
            [2, 3, 4, 128],
        ] {
            let n = a * b * c * d;
            let x = Tensor::arange(0..n as i64).reshape([a, c, b, d]).unwrap();
            for dtype in [DType::I64, DType::F32, DType::F64] {
                let turned = x.to(dtype).transpose(1, 2).unwrap();
                let want: Vec<i64> = (0..n)
                    .map(|i| {
                        let (i, l) = (i / d, i % d);
                        let (i, k) = (i / c, i % c);
                        let (i, j) = (i / b, i % b);
                        (((i * c + k) * b + j) * d + l) as i64
                    })
                    .collect();
                for threads in [1, 3] {
                    let found = ThreadPool::new(threads).install(|| turned.contiguous());
                    assert_eq!(
                        found.to(DType::I64).to_vec::<i64>().unwrap(),
                        want,
                        "{a} {b} {c} {d} {dtype}"
                    );
                }
            }
            let part = x.narrow(3, 1, d - 3).unwrap().transpose(1, 2).unwrap();
            let index = part.contiguous();
            assert_eq!(index, part.add(0).unwrap());
        }
    }
}
