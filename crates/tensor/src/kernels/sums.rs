//! Sums of what a formula gives, added as it is computed: no block of results is written and read again.
//!
//! A block in the first-level cache costs a store and a load for each vector of results, which is more than a product: a sum of products
//! of rows takes half to two thirds of the time. The order is that of the loops that fold what is stored ([`folds`](super::folds)), so that
//! the bits are the same. These loops cost compile time: they are for `f32`, for levels with fused multiply-add on x86 processors, and for
//! formulas that ask for them.

use std::ops::Range;

use smallvec::SmallVec;

use super::each;
use super::folds::{Aligned, FEW_LANES, Table, fold_rest, fold_run, quarter};
use super::formula::Formula;
use super::lane::{Lane, fold_lanes};
use super::level::{Level, detected_level, level};
use super::real::FloatOps;
use crate::dtype::{Block, DType};
use crate::task::{FirstSums, LANES, ROWS, Reducer, Sum, WideMut};

/// Blocks of lanes that are added before the lanes are stored.
const BLOCKS: usize = 2;

/// Elements of such blocks: shorter rows are not worth a sum of their own.
pub(crate) const WHOLE: usize = BLOCKS * LANES;

/// Whether there are loops for sums of this type at this level.
pub(crate) fn are_added(dtype: DType) -> bool {
    dtype == DType::F32 && (level() >= Level::Avx2 || cfg!(not(target_arch = "x86_64")))
}

/// Rows of operands whose results are to be added, and where.
#[doc(hidden)]
#[derive(Debug)]
pub struct RowSums<'s> {
    /// the rows of each operand; of a single column if there is a number for each of them
    pub(crate) operands: SmallVec<[Table<Block<'s>>; 4]>,
    /// whole leaves of them
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) leaf: FirstSums,
    pub(crate) wide: WideMut<'s>,
    /// from the accumulator of a row to that of the next; if it is 0 and leaves are longer than rows, these are of [`WHOLE`] blocks
    pub(crate) step: usize,
}

impl RowSums<'_> {
    /// Adds the results of a formula.
    pub(super) fn add<F: Formula<N>, const N: usize>(self, f: &F) {
        let WideMut::F64(wide) = self.wide else { unreachable!("there are loops for f32") };
        let nothing = Table { data: &[][..], start: 0, rows: 0, step: 0, cols: 0 };
        let x: [Table<&[f32]>; N] = each(nothing, |k| self.operands[k].typed());
        let (size, leaf, step) = ((self.rows, self.cols), self.leaf, self.step);
        #[cfg(target_arch = "x86_64")]
        {
            type Operands<'a, const N: usize> = [Table<&'a [f32]>; N];
            macro_rules! at_level {
                ($features:literal) => {{
                    #[target_feature(enable = $features)]
                    fn sum_there<F: Formula<N>, const N: usize>(
                        f: &F,
                        x: Operands<'_, N>,
                        size: (usize, usize),
                        leaf: FirstSums,
                        wide: &mut [f64],
                        step: usize,
                    ) {
                        sum::<true, F, N>(f, x, size, leaf, wide, step);
                    }
                    // SAFETY: the level that is matched on never exceeds what is detected on this processor, and is that of these features.
                    unsafe { sum_there(f, x, size, leaf, wide, step) }
                }};
            }
            // Whoever forces a lower level meanwhile has it from the next walk on.
            match level().max(Level::Avx2).min(detected_level()) {
                Level::Avx512 => at_level!("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"),
                Level::Avx2 => at_level!("avx2,fma"),
                Level::Baseline => unreachable!("there are no loops for this level"),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        sum::<false, F, N>(f, x, size, leaf, wide, step);
    }
}

#[inline(always)]
fn sum<const FMA: bool, F: Formula<N>, const N: usize>(
    f: &F,
    x: [Table<&[f32]>; N],
    size: (usize, usize),
    leaf: FirstSums,
    wide: &mut [f64],
    step: usize,
) where
    f64: FloatOps<Lane<f32, FMA>>,
{
    match leaf {
        FirstSums::Run(leaf) => sum_lines::<FMA, F, N>(f, x, size, leaf, wide, step),
        FirstSums::Rows { .. } => sum_columns::<FMA, F, N>(f, x, size, wide),
    }
}

/// What a formula reads of a row: elements, or the same number over and over.
#[derive(Clone, Copy)]
struct Row<'a> {
    from: &'a [f32],
    /// 0 where it is a number
    step: usize,
}

impl<'a> Row<'a> {
    /// Those of a row; of operands that have a number there, that is spread.
    #[inline(always)]
    fn of<const N: usize>(
        x: &[Table<&'a [f32]>; N],
        row: usize,
        numbers: &'a mut [[f32; WHOLE]; N],
    ) -> [Row<'a>; N] {
        for k in 0..N {
            if x[k].cols == 1 {
                numbers[k] = [x[k].row(row)[0]; WHOLE];
            }
        }
        each(Row { from: &[], step: 0 }, |k| match x[k].cols {
            1 => Row { from: &numbers[k], step: 0 },
            _ => Row { from: x[k].row(row), step: 1 },
        })
    }

    /// Blocks of lanes from a column on.
    #[inline(always)]
    fn blocks(&self, col: usize) -> &'a [f32; WHOLE] {
        self.from[col * self.step..].first_chunk().expect("there are as many")
    }

    /// So many elements, at most [`WHOLE`], from a column on.
    #[inline(always)]
    fn some(&self, col: usize, n: usize) -> &'a [f32] {
        &self.from[col * self.step..][..n]
    }
}

/// Adds the results of each row to the accumulator of its own, `step` apart, by leaves of so many elements.
#[inline(always)]
fn sum_lines<const FMA: bool, F: Formula<N>, const N: usize>(
    f: &F,
    x: [Table<&[f32]>; N],
    (rows, cols): (usize, usize),
    leaf: usize,
    wide: &mut [f64],
    step: usize,
) where
    f64: FloatOps<Lane<f32, FMA>>,
{
    let mut numbers = Aligned([[0.0; WHOLE]; N]);
    let together = if step == 0 && leaf > cols { leaf / cols } else { 1 };
    for first in (0..rows).step_by(together) {
        let rows = first..rows.min(first + together);
        let mut acc = wide[first * step];
        for col in (0..cols).step_by(leaf) {
            let n = leaf.min(cols - col);
            acc += sum_leaf::<FMA, F, N>(f, &x, &mut numbers.0, (rows.clone(), col), n) as f64;
        }
        wide[first * step] = acc;
    }
}

/// The sum of so many elements of some rows, in the order of [`fold_run`]: of one row, or of rows of whole blocks.
#[inline(always)]
fn sum_leaf<const FMA: bool, F: Formula<N>, const N: usize>(
    f: &F,
    x: &[Table<&[f32]>; N],
    numbers: &mut [[f32; WHOLE]; N],
    (rows, col): (Range<usize>, usize),
    n: usize,
) -> f32
where
    f64: FloatOps<Lane<f32, FMA>>,
{
    let mut lanes = Aligned([0.0; LANES]);
    let lanes = &mut lanes.0;
    // Short runs are folded in another order.
    let whole = if rows.len() * n < 4 * LANES { 0 } else { n / WHOLE * WHOLE };
    let last = rows.end - 1;
    for row in rows {
        let x = Row::of(x, row, numbers);
        for at in (0..whole).step_by(WHOLE) {
            let x: [&[f32; WHOLE]; N] = each(&[0.0; WHOLE], |i| x[i].blocks(col + at));
            for k in 0..LANES {
                let mut lane = lanes[k];
                for block in 0..BLOCKS {
                    let x = each(Lane::<f32, FMA>(0.0), |i| Lane(x[i][block * LANES + k]));
                    lane += f.eval(x).0;
                }
                lanes[k] = lane;
            }
        }
    }
    // What is left is few, and is stored.
    let mut room;
    let rest: &[f32] = if whole == n {
        &[]
    } else {
        room = Aligned([0.0; 4 * LANES]);
        let rest = &mut room.0[..n - whole];
        let x = Row::of(x, last, numbers);
        for (at, out) in (col + whole..).step_by(WHOLE).zip(rest.chunks_mut(WHOLE)) {
            let n = out.len();
            let x: [&[f32]; N] = each(&[][..], |i| x[i].some(at, n));
            for k in 0..n {
                out[k] = f.eval(each(Lane::<f32, FMA>(0.0), |i| Lane(x[i][k]))).0;
            }
        }
        rest
    };
    if whole == 0 {
        return fold_run(rest, 0.0, <Sum<f32>>::combine);
    }
    let (blocks, rest) = rest.as_chunks::<LANES>();
    for block in blocks {
        for k in 0..LANES {
            lanes[k] += block[k];
        }
    }
    let mut few: [f32; FEW_LANES] = quarter(lanes, |v| v, <Sum<f32>>::combine);
    fold_rest(&mut few, rest, |v| v, <Sum<f32>>::combine)
}

/// Adds the results of each column to the accumulator of its own, by leaves of [`ROWS`] rows.
#[inline(always)]
fn sum_columns<const FMA: bool, F: Formula<N>, const N: usize>(
    f: &F,
    x: [Table<&[f32]>; N],
    (rows, cols): (usize, usize),
    wide: &mut [f64],
) where
    f64: FloatOps<Lane<f32, FMA>>,
{
    let mut numbers = Aligned([[[0.0; WHOLE]; N]; ROWS]);
    for first in (0..rows).step_by(ROWS) {
        let mut leaf = [[Row { from: &[][..], step: 0 }; N]; ROWS];
        for (row, numbers) in numbers.0.iter_mut().enumerate() {
            leaf[row] = Row::of(&x, first + row, numbers);
        }
        for (at, wide) in (0..).step_by(WHOLE).zip(wide[..cols].chunks_mut(WHOLE)) {
            let n = wide.len();
            let x: [[&[f32]; N]; ROWS] =
                each([&[][..]; N], |row| each(&[][..], |i| leaf[row][i].some(at, n)));
            for k in 0..n {
                let results = each(0.0, |row| f.eval(each(Lane::<f32, FMA>(0.0), |i| Lane(x[row][i][k]))).0);
                wide[k] += fold_lanes::<_, ROWS>(results, <Sum<f32>>::combine) as f64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FloatKernel, Real};
    use super::*;
    use crate::kernel::{Target, fold_to};
    use crate::{DType, Shape, Tensor, ThreadPool};

    /// The same formula with loops that add its results and without.
    #[derive(Clone, Copy)]
    struct Squares<const SUMS: bool>;
    impl<const SUMS: bool> Formula<3> for Squares<SUMS> {
        const SUMS: bool = SUMS;
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w, b]: [R; 3]) -> R
        where
            f64: FloatOps<R>,
        {
            let y = x * w + b;
            R::select(y.gt(R::lit(0.0)), y.square(), y * 0.1)
        }
    }

    fn bits(t: &Tensor) -> Vec<u64> {
        match t.dtype() {
            DType::F32 => t.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits() as u64).collect(),
            _ => t.to_vec::<f64>().unwrap().iter().map(|v| v.to_bits()).collect(),
        }
    }

    fn check(x: &Tensor, w: &Tensor, b: &Tensor, target: &Shape) {
        let sum = |kernel: &dyn super::super::BlockKernel| {
            bits(&fold_to("test", kernel, &[x, w, b], Target::of(target)).unwrap())
        };
        let stored = sum(&FloatKernel(Squares::<false>));
        for threads in [1, 3] {
            let added = ThreadPool::new(threads).install(|| sum(&FloatKernel(Squares::<true>)));
            assert!(added == stored, "{x:?} {} {} to {target}", w.shape(), b.shape());
        }
    }

    /// Whole blocks and what is left of them, leaves within rows and of several, numbers for rows, for columns and for all.
    #[test]
    fn bits_are_those_of_results_that_are_stored() {
        for rows in [1, 2, 3, 7, 20] {
            for cols in [40, 255, 256, 257, 320, 512, 513, 700, 1024, 1025, 2500] {
                for dtype in [DType::F32, DType::F64] {
                    let x = Tensor::randn_with([rows, cols], dtype);
                    let other = |shape: [usize; 2]| Tensor::randn_with(shape, dtype);
                    for w in [[rows, cols], [1, cols], [rows, 1], [1, 1]] {
                        for target in [[1, 1], [rows, 1], [1, cols]] {
                            check(&x, &other(w), &other([1, cols]), &target.into());
                            check(&x, &other(w), &other([rows, 1]), &target.into());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn several_axes_of_rows_and_other_layouts() {
        let of = |shape: &[usize]| Tensor::randn(shape);
        for shape in [[3, 8, 512], [3, 6, 256], [5, 16, 256], [40, 3, 300], [2, 5, 1024], [70, 64, 256]] {
            let [a, b, c] = shape;
            let x = of(&shape);
            let turned = of(&[b, a, c]).transpose(0, 1).unwrap();
            for target in [[1, 1, 1], [a, 1, 1], [1, b, 1], [1, 1, c], [a, 1, c], [a, b, 1], [1, b, c]] {
                check(&x, &of(&[1, b, 1]), &of(&[c]), &target.into());
                check(&x, &of(&[a, 1, 1]), &of(&[1, b, c]), &target.into());
                check(&turned, &of(&[a, 1, c]), &of(&[]), &target.into());
                check(&x.flip(1).unwrap(), &of(&[b, 1]), &turned, &target.into());
                check(&x, &of(&[1, b, 1]).double(), &of(&[c]), &target.into());
            }
        }
    }
}
