//! Sums of what a formula gives, added as it is computed: no block of results is written and read again.
//!
//! A block in the first-level cache costs a store and a load for each vector of results, which is more than a product. The order is that
//! of the loops that fold what is stored ([`folds`](super::folds)), so that the bits are the same.

use std::ops::Range;

use smallvec::SmallVec;

use super::each;
use super::folds::{Aligned, FEW_LANES, Table, fold_rest, fold_run, quarter};
use super::formula::Formula;
use super::lane::{Float, Lane, fold_lanes};
use super::level::{Level, level};
use super::real::FloatOps;
use crate::dtype::{Block, Element};
use crate::task::{FirstSums, LANES, ROWS, Reducer, Sum, WideMut};

/// Blocks of lanes that are added before the lanes are stored.
const BLOCKS: usize = 4;

/// Elements of such blocks: shorter rows are not worth a sum of their own.
pub(crate) const WHOLE: usize = BLOCKS * LANES;

/// Rows of operands whose results are to be added, and where.
#[doc(hidden)]
#[derive(Debug)]
pub struct RowSums<'s> {
    /// the rows of each operand; of a single column if there is a number for each of them
    pub(crate) operands: SmallVec<[Table<Block<'s>>; 4]>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) leaf: FirstSums,
    pub(crate) wide: WideMut<'s>,
    /// from the accumulator of a row to that of the next
    pub(crate) step: usize,
}

impl RowSums<'_> {
    /// Adds the results of a formula.
    pub(super) fn add<F: Formula<N>, const N: usize>(self, f: &F) {
        match self.wide {
            WideMut::F64(wide) => {
                run::<Sum<f32>, F, N>(f, &self.operands, (self.rows, self.cols), self.leaf, wide, self.step)
            }
            WideMut::Pairs(wide) => {
                run::<Sum<f64>, F, N>(f, &self.operands, (self.rows, self.cols), self.leaf, wide, self.step)
            }
            _ => unreachable!("sums of real numbers are planned for formulas"),
        }
    }
}

fn run<R: Reducer<T: Float>, F: Formula<N>, const N: usize>(
    f: &F,
    operands: &[Table<Block<'_>>],
    size: (usize, usize),
    leaf: FirstSums,
    wide: &mut [R::Acc],
    step: usize,
) {
    let nothing = Table { data: &[][..], start: 0, rows: 0, step: 0, cols: 0 };
    let x: [Table<&[R::T]>; N] = each(nothing, |k| operands[k].typed());
    match leaf {
        FirstSums::Run(leaf) => sum_lines::<R, F, N>(f, x, size, leaf, wide, step),
        FirstSums::Rows { .. } => sum_columns::<R, F, N>(f, x, size, wide),
    }
}

/// What a formula reads of a row: elements, or the same number over and over.
#[derive(Clone, Copy)]
struct Row<'a, T> {
    from: &'a [T],
    /// 0 where it is a number
    step: usize,
}

impl<'a, T: Element> Row<'a, T> {
    /// Those of a row; of operands that have a number there, that is spread.
    #[inline(always)]
    fn of<const N: usize, const P: usize>(
        x: &[Table<&'a [T]>; N],
        row: usize,
        numbers: &'a mut [[T; P]; N],
    ) -> [Row<'a, T>; N] {
        for k in 0..N {
            if x[k].cols == 1 {
                numbers[k] = [x[k].row(row)[0]; P];
            }
        }
        each(Row { from: &[], step: 0 }, |k| match x[k].cols {
            1 => Row { from: &numbers[k], step: 0 },
            _ => Row { from: x[k].row(row), step: 1 },
        })
    }

    /// Blocks of lanes from a column on.
    #[inline(always)]
    fn blocks(&self, col: usize) -> &'a [T; WHOLE] {
        self.from[col * self.step..].first_chunk().expect("there are as many")
    }

    /// So many elements, at most as many as a number is spread to, from a column on.
    #[inline(always)]
    fn some(&self, col: usize, n: usize) -> &'a [T] {
        &self.from[col * self.step..][..n]
    }
}

super::doors::door! {
    /// Adds the results of each row to the accumulator of its own, `step` apart, by leaves of so many elements. If that is 0, all to the
    /// first; if leaves are longer than rows then, rows are of whole [`blocks`](WHOLE).
    fn sum_lines[R: Reducer<T: Float>, F: Formula<N>, const N: usize][R, F, N](f: &F, x: [Table<&[R::T]>; N], size: (usize, usize), leaf: usize, wide: &mut [R::Acc], step: usize);
    body sum_lines_body
}
#[inline(always)]
fn sum_lines_body<const FMA: bool, R: Reducer<T: Float>, F: Formula<N>, const N: usize>(
    f: &F,
    x: [Table<&[R::T]>; N],
    (rows, cols): (usize, usize),
    leaf: usize,
    wide: &mut [R::Acc],
    step: usize,
) where
    f64: FloatOps<Lane<R::T, FMA>>,
{
    let mut numbers = Aligned([[R::IDENTITY; WHOLE]; N]);
    let together = if step == 0 && leaf > cols { leaf / cols } else { 1 };
    for first in (0..rows).step_by(together) {
        let rows = first..rows.min(first + together);
        let mut acc = wide[first * step];
        for col in (0..cols).step_by(leaf) {
            let n = leaf.min(cols - col);
            let sum = sum_leaf::<FMA, R, F, N>(f, &x, &mut numbers.0, (rows.clone(), col), n);
            acc = R::merge(acc, R::lift(sum));
        }
        wide[first * step] = acc;
    }
}

/// The sum of so many elements of some rows, in the order of [`fold_run`]: of one row, or of rows of whole blocks.
#[inline(always)]
fn sum_leaf<const FMA: bool, R: Reducer<T: Float>, F: Formula<N>, const N: usize>(
    f: &F,
    x: &[Table<&[R::T]>; N],
    numbers: &mut [[R::T; WHOLE]; N],
    (rows, col): (Range<usize>, usize),
    n: usize,
) -> R::T
where
    f64: FloatOps<Lane<R::T, FMA>>,
{
    let mut lanes = Aligned([R::IDENTITY; LANES]);
    let lanes = &mut lanes.0;
    let nothing = [R::IDENTITY; WHOLE];
    let whole = n / WHOLE * WHOLE;
    let last = rows.end - 1;
    for row in rows {
        let x = Row::of(x, row, numbers);
        for at in (0..whole).step_by(WHOLE) {
            let x: [&[R::T; WHOLE]; N] = each(&nothing, |i| x[i].blocks(col + at));
            for k in 0..LANES {
                let mut lane = lanes[k];
                for block in 0..BLOCKS {
                    let x = each(Lane::<R::T, FMA>(R::IDENTITY), |i| Lane(x[i][block * LANES + k]));
                    lane = R::combine(lane, f.eval(x).0);
                }
                lanes[k] = lane;
            }
        }
    }
    // What is left is few, and is stored.
    let mut rest = Aligned([R::IDENTITY; WHOLE]);
    let rest = &mut rest.0[..n - whole];
    let x = Row::of(x, last, numbers);
    let x: [&[R::T]; N] = each(&[][..], |i| x[i].some(col + whole, rest.len()));
    for k in 0..rest.len() {
        rest[k] = f.eval(each(Lane::<R::T, FMA>(R::IDENTITY), |i| Lane(x[i][k]))).0;
    }
    if whole == 0 {
        return fold_run(rest, R::IDENTITY, R::combine);
    }
    let (blocks, rest) = rest.as_chunks::<LANES>();
    for block in blocks {
        for k in 0..LANES {
            lanes[k] = R::combine(lanes[k], block[k]);
        }
    }
    let mut few: [R::T; FEW_LANES] = quarter(lanes, |v| v, R::combine);
    fold_rest(&mut few, rest, |v| v, R::combine)
}

super::doors::door! {
    /// Adds the results of each column to the accumulator of its own, by leaves of [`ROWS`] rows.
    fn sum_columns[R: Reducer<T: Float>, F: Formula<N>, const N: usize][R, F, N](f: &F, x: [Table<&[R::T]>; N], size: (usize, usize), wide: &mut [R::Acc]);
    body sum_columns_body
}
#[inline(always)]
fn sum_columns_body<const FMA: bool, R: Reducer<T: Float>, F: Formula<N>, const N: usize>(
    f: &F,
    x: [Table<&[R::T]>; N],
    (rows, cols): (usize, usize),
    wide: &mut [R::Acc],
) where
    f64: FloatOps<Lane<R::T, FMA>>,
{
    let wide = &mut wide[..cols];
    let mut numbers = Aligned([[[R::IDENTITY; LANES]; N]; ROWS]);
    let numbers = &mut numbers.0;
    let mut row = 0;
    while row + ROWS <= rows {
        add_rows::<FMA, R, F, N, ROWS>(f, &x, row, numbers, wide);
        row += ROWS;
    }
    while row + 2 <= rows {
        add_rows::<FMA, R, F, N, 2>(f, &x, row, numbers, wide);
        row += 2;
    }
    if row < rows {
        add_rows::<FMA, R, F, N, 1>(f, &x, row, numbers, wide);
    }
}

/// Adds a leaf of rows.
#[inline(always)]
fn add_rows<const FMA: bool, R: Reducer<T: Float>, F: Formula<N>, const N: usize, const M: usize>(
    f: &F,
    x: &[Table<&[R::T]>; N],
    row: usize,
    numbers: &mut [[[R::T; LANES]; N]; ROWS],
    wide: &mut [R::Acc],
) where
    f64: FloatOps<Lane<R::T, FMA>>,
{
    let mut rows = [[Row { from: &[][..], step: 0 }; N]; M];
    for (i, numbers) in numbers[..M].iter_mut().enumerate() {
        rows[i] = Row::of(x, row + i, numbers);
    }
    for (at, wide) in (0..).step_by(LANES).zip(wide.chunks_mut(LANES)) {
        let n = wide.len();
        let x: [[&[R::T]; N]; M] = each([&[][..]; N], |i| each(&[][..], |k| rows[i][k].some(at, n)));
        for k in 0..n {
            let results =
                each(R::IDENTITY, |i| f.eval(each(Lane::<R::T, FMA>(R::IDENTITY), |j| Lane(x[i][j][k]))).0);
            wide[k] = R::merge(wide[k], R::lift(fold_lanes::<_, M>(results, R::combine)));
        }
    }
}
