//! Sums of what a formula gives, added as it is computed: no block of results is written and read again.
//!
//! A block in the first-level cache costs a store and a load for each vector of results, which is more than a product: a sum of products
//! of rows takes half to two thirds of the time. The order is that of the loops that fold what is stored ([`folds`](super::folds)), so that
//! the bits are the same. A formula that asks for it has two such loops for `f32`, for lanes and for columns, at each level from AVX2 on; everything
//! else is here once.

use smallvec::SmallVec;

use super::doors::door;
use super::folds::{Aligned, FEW_LANES, Table, fold_rest, fold_run, quarter};
use super::formula::Formula;
use super::lane::Lane;
use super::level::{Level, detected_level, level};
use super::real::{FloatOps, Real};
use super::{BlockKernel, each};
use crate::dtype::{Block, DType};
use crate::task::{FirstSums, LANES, ROWS, Reducer, STRIP, Sum, WideMut};

/// Whether there are loops for sums of this type at this level.
pub(crate) fn are_added(dtype: DType) -> bool {
    dtype == DType::F32 && (level() >= Level::Avx2 || cfg!(not(target_arch = "x86_64")))
}

/// What is added for the numbers of a place.
pub(super) trait Summand<const N: usize>: Copy {
    /// Whether the first operand is no input but the gradient that comes in, which else is not read.
    const TAKES_A_GRADIENT: bool;

    /// The value, from the gradient that comes in and the inputs.
    fn eval<R: Real>(&self, g: R, x: [R; N]) -> R
    where
        f64: FloatOps<R>;
}

/// What a formula gives.
#[derive(Clone, Copy)]
pub(super) struct Value<F>(pub(super) F);

impl<F: Formula<N>, const N: usize> Summand<N> for Value<F> {
    const TAKES_A_GRADIENT: bool = false;
    #[inline(always)]
    fn eval<R: Real>(&self, _: R, x: [R; N]) -> R
    where
        f64: FloatOps<R>,
    {
        self.0.eval(x)
    }
}

/// Rows of each operand, the results of which are to be added.
#[doc(hidden)]
#[derive(Debug)]
pub struct SumOfRows<'s> {
    /// of a single column if there is a number for each row
    operands: SmallVec<[Table<&'s [f32]>; 4]>,
    rows: usize,
    sums: Accumulators<'s>,
}

/// What results are added to.
#[derive(Debug)]
enum Accumulators<'s> {
    /// of each lane: of so many blocks of so many rows to one block of sums, of the rows behind them to the next
    Lanes { blocks: usize, sums: &'s mut [[f32; LANES]], height: usize },
    /// of each of so many columns, over the rows of one leaf after another; the last block of a leaf reaches back to where it is whole
    Columns { cols: usize, sums: &'s mut [[f32; LANES]] },
}

impl SumOfRows<'_> {
    /// Adds what is made of the operands.
    pub(super) fn add<S: Summand<N>, const N: usize>(self, f: &S) {
        let g = self.operands[0];
        let x = each(g, |k| self.operands[k + S::TAKES_A_GRADIENT as usize]);
        match self.sums {
            Accumulators::Lanes { blocks, sums, height } => {
                add_lanes(f, g, x, self.rows, blocks, sums, height)
            }
            Accumulators::Columns { cols, sums } => add_columns(f, g, x, self.rows, cols, sums),
        }
    }
}

/// A row of an operand, or the same number all along.
#[derive(Clone, Copy)]
struct OperandRow<'a> {
    from: &'a [f32],
    /// 0 where it is a number, of which there is a block
    step: usize,
}

impl<'a> OperandRow<'a> {
    /// Each operand's row of so many columns; numbers are written to the blocks given.
    #[inline(always)]
    fn of<const N: usize>(
        x: &[Table<&'a [f32]>; N],
        row: usize,
        cols: usize,
        numbers: &'a mut [[f32; LANES]; N],
    ) -> [OperandRow<'a>; N] {
        let mut lines = [OperandRow { from: &[], step: 0 }; N];
        for (i, number) in numbers.iter_mut().enumerate() {
            let from = x[i].row(row);
            lines[i] = match from.len() {
                1 => {
                    *number = [from[0]; LANES];
                    OperandRow { from: number, step: 0 }
                }
                _ => OperandRow { from: &from[..cols], step: 1 },
            };
        }
        lines
    }

    /// A block of it.
    ///
    /// # Safety
    /// It ends with the last column of the line or before.
    #[inline(always)]
    unsafe fn block(&self, col: usize) -> &'a [f32; LANES] {
        // SAFETY: the caller's promise, of a row; of a number it is the block itself.
        unsafe { self.from.as_ptr().add(col * self.step).cast::<[f32; LANES]>().as_ref_unchecked() }
    }
}

door! {
    /// `sums[row / height][k] += f(g[row][block][k], x[0][row][block][k], ...)`, block by block
    fn add_lanes[S: Summand<N>, const N: usize][S, N](f: &S, g: Table<&[f32]>, x: [Table<&[f32]>; N], rows: usize, blocks: usize, sums: &mut [[f32; LANES]], height: usize);
    body add_lanes_body wide
}
#[inline(always)]
fn add_lanes_body<const FMA: bool, S: Summand<N>, const N: usize>(
    f: &S,
    g: Table<&[f32]>,
    x: [Table<&[f32]>; N],
    rows: usize,
    blocks: usize,
    sums: &mut [[f32; LANES]],
    height: usize,
) where
    f64: FloatOps<Lane<f32, FMA>>,
{
    let (mut number, mut numbers) = (Aligned([[0.0; LANES]]), Aligned([[0.0; LANES]; N]));
    for row in 0..rows {
        let [g] = OperandRow::of(&[g], row, blocks * LANES, &mut number.0);
        let lines = OperandRow::of(&x, row, blocks * LANES, &mut numbers.0);
        let sums = &mut sums[row / height];
        for nr in 0..blocks {
            // SAFETY: the lines have so many blocks.
            let (g, x): (_, [_; N]) = unsafe {
                let g = g.block(nr * LANES);
                (g, each(g, |i| lines[i].block(nr * LANES)))
            };
            for k in 0..LANES {
                sums[k] += f.eval(Lane::<f32, FMA>(g[k]), each(Lane(0.0), |i| Lane(x[i][k]))).0;
            }
        }
    }
}

door! {
    /// `sums[leaf][column] += f(g[row][column], x[0][row][column], ...)`, over the rows of each leaf in the order of a tree
    fn add_columns[S: Summand<N>, const N: usize][S, N](f: &S, g: Table<&[f32]>, x: [Table<&[f32]>; N], rows: usize, cols: usize, sums: &mut [[f32; LANES]]);
    body add_columns_body wide
}
#[inline(always)]
fn add_columns_body<const FMA: bool, S: Summand<N>, const N: usize>(
    f: &S,
    g: Table<&[f32]>,
    x: [Table<&[f32]>; N],
    rows: usize,
    cols: usize,
    sums: &mut [[f32; LANES]],
) where
    f64: FloatOps<Lane<f32, FMA>>,
{
    assert!(cols >= LANES, "a block fits between the columns");
    let (mut number, mut numbers) = (Aligned([[[0.0; LANES]]; 2]), Aligned([[[0.0; LANES]; N]; 2]));
    let ([number_of_a, number_of_b], [numbers_of_a, numbers_of_b]) = (&mut number.0, &mut numbers.0);
    let blocks = cols.div_ceil(LANES);
    // The tree: each row of the first half and one of the second. Two at a time are enough to keep sums in registers for the most part;
    // for four, a formula would be written out four times.
    for pair in 0..rows / 2 {
        let (leaf, nr) = (pair / (ROWS / 2), pair % (ROWS / 2));
        let (a, b) = (leaf * ROWS + nr, leaf * ROWS + nr + ROWS / 2);
        let ([g], [h]) =
            (OperandRow::of(&[g], a, cols, number_of_a), OperandRow::of(&[g], b, cols, number_of_b));
        let (lines, others) =
            (OperandRow::of(&x, a, cols, numbers_of_a), OperandRow::of(&x, b, cols, numbers_of_b));
        for (nr, sums) in sums[leaf * blocks..][..blocks].iter_mut().enumerate() {
            let col = (nr * LANES).min(cols - LANES);
            // SAFETY: the lines have so many columns.
            let (g, h, x, y): (_, _, [_; N], [_; N]) = unsafe {
                let (g, h) = (g.block(col), h.block(col));
                (g, h, each(g, |i| lines[i].block(col)), each(g, |i| others[i].block(col)))
            };
            for k in 0..LANES {
                let a = f.eval(Lane::<f32, FMA>(g[k]), each(Lane(0.0), |i| Lane(x[i][k])));
                let b = f.eval(Lane::<f32, FMA>(h[k]), each(Lane(0.0), |i| Lane(y[i][k])));
                sums[k] += a.0 + b.0;
            }
        }
    }
}

/// The rows of all operands.
struct OperandRows<'k, 's> {
    kernel: &'k dyn BlockKernel,
    tables: SmallVec<[Table<&'s [f32]>; 4]>,
}

impl OperandRows<'_, '_> {
    /// Adds the results of so many rows of so many columns, from a row and column on.
    fn add(&self, (row, col): (usize, usize), (rows, cols): (usize, usize), sums: Accumulators<'_>) {
        let some = |table: &Table<_>| {
            let (col, cols) = if table.cols == 1 { (0, 1) } else { (col, cols) };
            let start = table.start + row as isize * table.step + col as isize;
            Table { data: table.data, start, rows, step: table.step, cols }
        };
        let operands = self.tables.iter().map(some).collect();
        self.kernel.sum_rows(SumOfRows { operands, rows, sums });
    }

    /// A row as rows of so many leaves.
    fn leaves(&self, row: usize, count: usize, leaf: usize) -> OperandRows<'_, '_> {
        let leaves = |table: &Table<_>| {
            let (step, cols) = if table.cols == 1 { (0, 1) } else { (leaf as isize, leaf) };
            let start = table.start + row as isize * table.step;
            Table { data: table.data, start, rows: count, step, cols }
        };
        OperandRows { kernel: self.kernel, tables: self.tables.iter().map(leaves).collect() }
    }

    /// Adds blocks of rows to sums of lanes.
    fn add_blocks(
        &self,
        at: (usize, usize),
        (rows, blocks): (usize, usize),
        sums: &mut [[f32; LANES]],
        height: usize,
    ) {
        if blocks > 0 {
            self.add(at, (rows, blocks * LANES), Accumulators::Lanes { blocks, sums, height });
        }
    }
}

/// Rows of operands whose results are to be added, and where.
pub(crate) struct RowSums<'s> {
    /// the rows of each operand; of a single column if there is a number for each of them
    pub(crate) operands: SmallVec<[Table<Block<'s>>; 4]>,
    /// whole leaves of them
    pub(crate) rows: usize,
    /// at least [`LANES`]
    pub(crate) cols: usize,
    pub(crate) leaf: FirstSums,
    pub(crate) wide: WideMut<'s>,
    /// from the accumulator of a row to that of the next; if it is 0 and leaves are longer than rows, these are of whole blocks
    pub(crate) step: usize,
}

impl RowSums<'_> {
    /// Adds what a kernel gives.
    pub(crate) fn add(self, kernel: &dyn BlockKernel) {
        let WideMut::F64(wide) = self.wide else { unreachable!("there are loops for f32") };
        let x = &OperandRows { kernel, tables: self.operands.iter().map(Table::typed).collect() };
        match self.leaf {
            FirstSums::Run(leaf) => sum_lines(x, (self.rows, self.cols), leaf, wide, self.step),
            FirstSums::Rows { .. } => sum_columns(x, (self.rows, self.cols), wide),
        }
    }
}

/// Leaves that are added by one call, at most.
const LEAVES: usize = 16;

/// Adds the results of each row to the accumulator of its own, `step` apart, by leaves of so many elements.
fn sum_lines(
    x: &OperandRows<'_, '_>,
    (rows, cols): (usize, usize),
    leaf: usize,
    wide: &mut [f64],
    step: usize,
) {
    let whole = cols / leaf;
    if whole > 1 && (step == 0 || rows < whole) {
        // The leaves of a row are rows themselves, which one call adds.
        for row in 0..rows {
            let wide = &mut wide[row * step..];
            sum_lines(&x.leaves(row, whole, leaf), (whole, leaf), leaf, wide, 0);
            if whole * leaf < cols {
                let mut room = Aligned([[[0.0; LANES]; LEAVES]; 2]);
                let rest = sum_leaves(x, (row, whole * leaf), (1, 1), cols - whole * leaf, &mut room.0);
                wide[0] += rest[0] as f64;
            }
        }
        return;
    }
    let mut room = Aligned([[[0.0; LANES]; LEAVES]; 2]);
    let height = if step == 0 && leaf > cols { leaf / cols } else { 1 };
    // Several leaves of one row each, or one below the other, are added by one call, which takes as long as some hundred elements. Those
    // of a short run are stored, and taken one by one.
    let is_short = (cols % leaf) * height < 4 * LANES && !cols.is_multiple_of(leaf) && leaf < cols;
    let abreast = if is_short || step == 0 && leaf < cols { 1 } else { LEAVES };
    let mut row = 0;
    while row < rows {
        let left = rows - row;
        let size = if left < height { (1, left) } else { (abreast.min(left / height), height) };
        for col in (0..cols).step_by(leaf) {
            let sums = sum_leaves(x, (row, col), size, leaf.min(cols - col), &mut room.0);
            for (nr, &sum) in sums[..size.0].iter().enumerate() {
                wide[(row + nr) * step] += sum as f64;
            }
        }
        row += size.0 * size.1;
    }
}

/// The sums of some leaves, one below the other, each of so many rows of `n` elements, in the order of [`fold_run`].
fn sum_leaves(
    x: &OperandRows<'_, '_>,
    (row, col): (usize, usize),
    (leaves, height): (usize, usize),
    n: usize,
    [lanes, rest]: &mut [[[f32; LANES]; LEAVES]; 2],
) -> [f32; LEAVES] {
    // Short runs are folded in another order.
    let in_lanes = if height * n < 4 * LANES { 0 } else { n / LANES };
    let whole = n / LANES - in_lanes;
    let left = n % LANES;
    debug_assert!(leaves == 1 || whole == 0, "what is stored of several leaves is a block of each at most");
    debug_assert!(left == 0 || height == 1, "blocks of several rows are whole");
    lanes[..leaves].fill([0.0; LANES]);
    x.add_blocks((row, col), (leaves * height, in_lanes), lanes, height);
    // What is left is few, and is stored: to a -0, a result is added as it is.
    let end = whole * height;
    if whole + left > 0 {
        rest[..leaves.max(end + 1)].fill([-0.0; LANES]);
        for nr in 0..end {
            x.add_blocks((row + nr / whole, col + nr % whole * LANES), (1, 1), &mut rest[nr..], 1);
        }
    }
    if left > 0 {
        // A block that reaches back, of which the end is taken.
        x.add_blocks((row, col + n - LANES), (leaves, 1), &mut rest[end..], 1);
    }
    let mut sums = [0.0; LEAVES];
    for (nr, sum) in sums[..leaves].iter_mut().enumerate() {
        let rest = rest[nr..].as_flattened_mut();
        let (end, n) = (end * LANES, end * LANES + left);
        rest.copy_within(end + (LANES - left) % LANES..n.next_multiple_of(LANES), end);
        *sum = if in_lanes == 0 {
            fold_run(&rest[..n], 0.0, <Sum<f32>>::combine)
        } else {
            let mut few: [f32; FEW_LANES] = quarter(&lanes[nr], |v| v, <Sum<f32>>::combine);
            fold_rest(&mut few, &rest[..n], |v| v, <Sum<f32>>::combine)
        };
    }
    sums
}

/// Adds the results of each column to the accumulator of its own, by leaves of [`ROWS`] rows.
fn sum_columns(x: &OperandRows<'_, '_>, (rows, cols): (usize, usize), wide: &mut [f64]) {
    let mut sums = Aligned([[-0.0; LANES]; 2 * STRIP / LANES]);
    let mut left = 0;
    while left < cols {
        // The last strip takes what would be too few columns for another.
        let cols = if cols - left < STRIP + LANES { cols - left } else { STRIP };
        let blocks = cols.div_ceil(LANES);
        let gap = blocks * LANES - cols;
        let several = sums.0.len() / blocks * ROWS;
        for row in (0..rows).step_by(several) {
            let rows = several.min(rows - row);
            x.add((row, left), (rows, cols), Accumulators::Columns { cols, sums: &mut sums.0 });
            for sums in sums.0.chunks_mut(blocks).take(rows / ROWS) {
                let sums = sums.as_flattened_mut();
                let (whole, rest) = wide[left..left + cols].split_at_mut((blocks - 1) * LANES);
                widen(&mut sums[..whole.len()], whole);
                widen(&mut sums[whole.len() + gap..], rest);
                sums[whole.len()..].fill(-0.0);
            }
        }
        left += cols;
    }
}

door! {
    /// Adds sums to wide ones, and sets them back to what results are added to.
    fn widen[][](sums: &mut [f32], wide: &mut [f64]);
    body widen_body narrow
}
#[inline(always)]
fn widen_body<const FMA: bool>(sums: &mut [f32], wide: &mut [f64]) {
    let n = wide.len();
    let sums = &mut sums[..n];
    for k in 0..n {
        wide[k] += sums[k] as f64;
        sums[k] = -0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockKernel, FloatKernel, GradientKernel};
    use super::*;
    use crate::kernel::{Target, evaluate, fold_to};
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

    /// Sums of values, and of the gradient of each input alone, where what comes in is of this shape or that.
    fn check(x: &Tensor, w: &Tensor, b: &Tensor, target: &Shape) {
        let same = |added: &dyn BlockKernel, stored: &dyn BlockKernel, operands: &[&Tensor], what: &str| {
            let sum = |kernel| bits(&fold_to("test", kernel, operands, Target::of(target)).unwrap());
            let stored = sum(stored);
            for threads in [1, 3] {
                let added = ThreadPool::new(threads).install(|| sum(added));
                assert!(added == stored, "{what}: {x:?} {} {} to {target}", w.shape(), b.shape());
            }
        };
        same(&FloatKernel(Squares::<true>), &FloatKernel(Squares::<false>), &[x, w, b], "the value");
        let g = Tensor::randn_with(target.dims(), x.dtype());
        for g in [&g, w, x] {
            for input in 0..3 {
                let added = GradientKernel::new(Squares::<true>, &[input]);
                let stored = GradientKernel::new(Squares::<false>, &[input]);
                assert!(
                    added.sums() && !stored.sums() && !GradientKernel::new(Squares::<true>, &[0, 1]).sums()
                );
                same(&added, &stored, &[g, x, w, b], "a gradient");
            }
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

    /// Operands that lie like the result, or are one number, need no plan however many they are.
    #[test]
    fn many_results_of_operands_that_lie_alike() {
        let shapes: [&[usize]; 8] = [
            &[40_000],
            &[100_003],
            &[7, 5001],
            &[400, 300],
            &[33, 1024],
            &[3, 40_000],
            &[5, 3, 4099],
            &[30_011, 3],
        ];
        for (shape, dtype) in shapes.into_iter().flat_map(|s| [(s, DType::F32), (s, DType::F64)]) {
            let of = |shape: &[usize]| Tensor::randn_with(shape, dtype);
            let (x, w, number) = (of(shape), of(shape), of(&[]));
            let kept = |axes: &dyn Fn(usize) -> bool| -> Shape {
                (0..shape.len()).map(|i| if axes(i) { shape[i] } else { 1 }).collect::<Vec<_>>().into()
            };
            for target in [kept(&|_| false), kept(&|i| i + 1 < shape.len()), kept(&|i| i == 0)] {
                check(&x, &w, &number, &target);
                check(&number, &x, &w, &target);
                let stored = evaluate("test", &FloatKernel(Squares::<false>), &[&x, &w, &number]).unwrap();
                let sum = |kernel: &dyn BlockKernel| {
                    fold_to("test", kernel, &[&x, &w, &number], Target::of(&target)).unwrap()
                };
                let expected = bits(&stored.sum_to_size(&target).unwrap());
                assert!(bits(&sum(&FloatKernel(Squares::<false>))) == expected, "{shape:?} to {target}");
                assert!(bits(&sum(&FloatKernel(Squares::<true>))) == expected, "{shape:?} to {target}");
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
