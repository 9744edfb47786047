//! Sums of what a formula gives, added as it is computed: no block of results is written and read again.
//!
//! A block in the first-level cache costs a store and a load for each vector of results, which is more than a product: a sum of products
//! of rows takes half to two thirds of the time. A formula that asks for it has two such loops for `f32`, for lanes and for columns, at
//! each level from AVX2 on, for its value and for one gradient, and another for lanes of all gradients in one pass, which stores those that
//! are not summed, too, or all that are wanted. In which order leaves are added is in [`row_sums`](super::row_sums).

use smallvec::SmallVec;

use super::doors::door;
use super::each;
use super::folds::{Aligned, Table};
use super::formula::Formula;
use super::lane::Lane;
use super::level::{Level, detected_level, level};
use super::real::{FloatOps, Real};
use crate::dtype::{Block, BlockMut, DType, typed_mut};
use crate::task::{LANES, ROWS};

/// Whether there are loops for sums of this type at this level.
pub(crate) fn are_added(dtype: DType) -> bool {
    dtype == DType::F32 && (level() >= Level::Avx2 || cfg!(not(target_arch = "x86_64")))
}

/// What is made of the numbers of a place: `M` results.
pub(super) trait Summand<const N: usize, const M: usize>: Copy {
    /// Whether the first operand is no input but the gradient that comes in, which else is not read.
    const TAKES_A_GRADIENT: bool;

    /// The results, from the gradient that comes in and the inputs.
    fn eval<R: Real>(&self, g: R, x: [R; N]) -> [R; M]
    where
        f64: FloatOps<R>;
}

/// What a formula gives.
#[derive(Clone, Copy)]
pub(super) struct Value<F>(pub(super) F);

impl<F: Formula<N>, const N: usize> Summand<N, 1> for Value<F> {
    const TAKES_A_GRADIENT: bool = false;
    #[inline(always)]
    fn eval<R: Real>(&self, _: R, x: [R; N]) -> [R; 1]
    where
        f64: FloatOps<R>,
    {
        [self.0.eval(x)]
    }
}

/// Rows of each operand, the results of which are to be added or stored.
#[doc(hidden)]
#[derive(Debug)]
pub struct SumOfRows<'s> {
    /// of a single column if there is a number for each row
    pub(super) operands: SmallVec<[Table<&'s [f32]>; 4]>,
    pub(super) rows: usize,
    pub(super) to: Destination<'s>,
}

/// Where results go.
#[derive(Debug)]
pub(super) enum Destination<'s> {
    /// so many blocks of each row, per output
    Blocks { blocks: usize, outputs: SmallVec<[BlocksTo<'s>; 2]> },
    /// of a single output, each of so many columns to sums, over the rows of one leaf after another; the last block of a leaf reaches back
    /// to where it is whole
    Columns { cols: usize, sums: &'s mut [[f32; LANES]] },
}

/// Where the blocks of an output go.
#[derive(Debug)]
pub(super) enum BlocksTo<'s> {
    /// added to lanes: those of so many rows to one block of sums, of the rows behind them to the next
    Sums { sums: &'s mut [[f32; LANES]], height: usize },
    /// stored in rows, so far apart
    Rows { out: &'s mut [f32], step: usize },
}

impl<'s> SumOfRows<'s> {
    /// So many blocks of a single row, from an element on, whose results are stored. An input of one element is a number.
    pub(super) fn stored(
        inputs: &[Block<'s>],
        outputs: &'s mut [BlockMut<'_>],
        start: usize,
        blocks: usize,
    ) -> SumOfRows<'s> {
        let row = |x: &Block<'s>| {
            let (start, cols) = if x.len() == 1 { (0, 1) } else { (start as isize, blocks * LANES) };
            Table { data: *x, start, rows: 1, step: 0, cols }.typed()
        };
        let mut rows = SmallVec::new();
        for out in outputs {
            rows.push(BlocksTo::Rows { out: typed_mut(out.range(start, blocks * LANES)), step: 0 });
        }
        let to = Destination::Blocks { blocks, outputs: rows };
        SumOfRows { operands: inputs.iter().map(row).collect(), rows: 1, to }
    }

    /// Adds the only result that is made of the operands.
    pub(super) fn add<S: Summand<N, 1>, const N: usize>(self, f: &S) {
        let (g, x) = self.operands::<S, N, 1>();
        match self.to {
            Destination::Columns { cols, sums } => add_columns(f, g, x, self.rows, cols, sums),
            Destination::Blocks { .. } => self.put(f, &[0]),
        }
    }

    /// Adds or stores blocks of what is made of the operands: of the results that are wanted, in the order of the outputs.
    pub(super) fn put<S: Summand<N, M>, const N: usize, const M: usize>(self, f: &S, wanted: &[usize]) {
        let (g, x) = self.operands::<S, N, M>();
        let Destination::Blocks { blocks, mut outputs } = self.to else {
            unreachable!("columns of a single output are added")
        };
        let mut to = [const { None }; M];
        for (output, &of) in outputs.iter_mut().zip(wanted) {
            to[of] = Some(output);
        }
        put_blocks(f, g, x, self.rows, blocks, to)
    }

    /// The gradient that comes in, and the inputs.
    fn operands<S: Summand<N, M>, const N: usize, const M: usize>(
        &self,
    ) -> (Table<&'s [f32]>, [Table<&'s [f32]>; N]) {
        let g = self.operands[0];
        (g, each(g, |k| self.operands[k + S::TAKES_A_GRADIENT as usize]))
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

/// Where the blocks of a row of results go.
#[derive(Clone, Copy)]
struct ResultRow {
    /// the lanes that all are added to, or the row that they are stored in
    to: *mut f32,
    is_stored: bool,
}

impl ResultRow {
    /// That of an output, of so many columns; what nobody wants is added to lanes given.
    #[inline(always)]
    fn of(output: &mut Option<&mut BlocksTo<'_>>, row: usize, cols: usize, unwanted: *mut f32) -> ResultRow {
        match output {
            None => ResultRow { to: unwanted, is_stored: false },
            Some(BlocksTo::Sums { sums, height }) => {
                ResultRow { to: sums[row / *height].as_mut_ptr(), is_stored: false }
            }
            Some(BlocksTo::Rows { out, step }) => {
                ResultRow { to: out[row * *step..][..cols].as_mut_ptr(), is_stored: true }
            }
        }
    }
}

door! {
    /// `to[m][row][block][k] = f(g[row][block][k], x[0][row][block][k], ...)[m]`, block by block, or added to what is there.
    fn put_blocks[S: Summand<N, M>, const N: usize, const M: usize][S, N, M](f: &S, g: Table<&[f32]>, x: [Table<&[f32]>; N], rows: usize, blocks: usize, to: [Option<&mut BlocksTo<'_>>; M]);
    body put_blocks_body wide
}
#[inline(always)]
fn put_blocks_body<const FMA: bool, S: Summand<N, M>, const N: usize, const M: usize>(
    f: &S,
    g: Table<&[f32]>,
    x: [Table<&[f32]>; N],
    rows: usize,
    blocks: usize,
    mut to: [Option<&mut BlocksTo<'_>>; M],
) where
    f64: FloatOps<Lane<f32, FMA>>,
{
    let (mut number, mut numbers) = (Aligned([[0.0; LANES]]), Aligned([[0.0; LANES]; N]));
    let mut unwanted = [0.0; LANES];
    for row in 0..rows {
        let [g] = OperandRow::of(&[g], row, blocks * LANES, &mut number.0);
        let lines = OperandRow::of(&x, row, blocks * LANES, &mut numbers.0);
        let mut results = [ResultRow { to: unwanted.as_mut_ptr(), is_stored: false }; M];
        for m in 0..M {
            results[m] = ResultRow::of(&mut to[m], row, blocks * LANES, results[m].to);
        }
        // A gradient by itself. There is no such loop for values, which have others.
        if const { M == 1 && S::TAKES_A_GRADIENT } && results[0].is_stored {
            for nr in 0..blocks {
                // SAFETY: the lines have so many blocks.
                let (g, x): (_, [_; N]) = unsafe {
                    let g = g.block(nr * LANES);
                    (g, each(g, |i| lines[i].block(nr * LANES)))
                };
                let mut stored = [0.0; LANES];
                for k in 0..LANES {
                    stored[k] = f.eval(Lane::<f32, FMA>(g[k]), each(Lane(0.0), |i| Lane(x[i][k])))[0].0;
                }
                // SAFETY: the row of the output has so many blocks.
                unsafe { results[0].to.add(nr * LANES).cast::<[f32; LANES]>().write(stored) };
            }
            continue;
        }
        // To keep sums in registers, they are read and written once for each row. What is stored takes their place for a block: of a sum, no
        // bit is taken away, and none is added; of what is stored all are, and a sign, for what is added to a -0 remains as it is.
        let mut sums = [[0.0f32; LANES]; M];
        let (mut kept, mut sign) = ([!0; M], [0; M]);
        for m in 0..M {
            if results[m].is_stored {
                debug_assert!(M > 1, "a value by itself is added");
                (kept[m], sign[m]) = (0, (-0.0f32).to_bits());
            } else {
                // SAFETY: what is not stored is added to a block of lanes.
                sums[m] = unsafe { *results[m].to.cast() };
            }
        }
        for nr in 0..blocks {
            // SAFETY: the lines have so many blocks.
            let (g, x): (_, [_; N]) = unsafe {
                let g = g.block(nr * LANES);
                (g, each(g, |i| lines[i].block(nr * LANES)))
            };
            for k in 0..LANES {
                let y = f.eval(Lane::<f32, FMA>(g[k]), each(Lane(0.0), |i| Lane(x[i][k])));
                for m in 0..M {
                    let onto = match M {
                        1 => sums[m][k],
                        _ => f32::from_bits(sums[m][k].to_bits() & kept[m] | sign[m]),
                    };
                    sums[m][k] = onto + y[m].0;
                }
            }
            for m in 0..M {
                if results[m].is_stored {
                    // SAFETY: the row of an output has so many blocks.
                    unsafe { results[m].to.add(nr * LANES).cast::<[f32; LANES]>().write(sums[m]) };
                }
            }
        }
        for m in 0..M {
            if !results[m].is_stored {
                // SAFETY: the block of lanes that was read.
                unsafe { results[m].to.cast::<[f32; LANES]>().write(sums[m]) };
            }
        }
    }
}

door! {
    /// `sums[leaf][column] += f(g[row][column], x[0][row][column], ...)`, over the rows of each leaf in the order of a tree
    fn add_columns[S: Summand<N, 1>, const N: usize][S, N](f: &S, g: Table<&[f32]>, x: [Table<&[f32]>; N], rows: usize, cols: usize, sums: &mut [[f32; LANES]]);
    body add_columns_body wide
}
#[inline(always)]
fn add_columns_body<const FMA: bool, S: Summand<N, 1>, const N: usize>(
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
                let [a] = f.eval(Lane::<f32, FMA>(g[k]), each(Lane(0.0), |i| Lane(x[i][k])));
                let [b] = f.eval(Lane::<f32, FMA>(h[k]), each(Lane(0.0), |i| Lane(y[i][k])));
                sums[k] += a.0 + b.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockKernel, GradientKernel};
    use super::*;
    use crate::dtype::BlockMut;

    /// With the loops that add, or without.
    #[derive(Clone, Copy)]
    struct Scaled<const SUMS: bool>;
    impl<const SUMS: bool> Formula<3> for Scaled<SUMS> {
        const SUMS: bool = SUMS;
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w, b]: [R; 3]) -> R
        where
            f64: FloatOps<R>,
        {
            (x - w) * b * w
        }
    }

    #[test]
    fn gradients_beside_numbers_have_the_bits_of_those_beside_blocks() {
        if !are_added(DType::F32) {
            return;
        }
        let choices: [&[usize]; 7] = [&[0], &[1], &[2], &[2, 0], &[1, 2], &[0, 1, 2], &[2, 1, 0]];
        for (n, wanted) in [2, 10, 63, 64, 65, 128, 256, 257, 1000]
            .into_iter()
            .flat_map(|n| choices.map(|wanted| (n, wanted)))
        {
            for numbers in 0..8 {
                let value = |k: usize, i: usize| match (i + k) % 29 {
                    0 => -0.0,
                    1 => f32::INFINITY,
                    i => i as f32 / 8.0 - 1.75,
                };
                let is_number = |k: usize| k < 3 && numbers >> k & 1 == 1;
                let row = |k: usize| (0..n).map(|i| value(k, if is_number(k) { 3 } else { i })).collect();
                let rows: [Vec<f32>; 4] = std::array::from_fn(row);
                let run = |kernel: &dyn BlockKernel, inputs: &[Block<'_>]| {
                    let mut outputs = vec![vec![-9.0f32; n]; wanted.len()];
                    let mut out: Vec<BlockMut<'_>> = outputs.iter_mut().map(|o| BlockMut::F32(o)).collect();
                    kernel.run(inputs, &mut out);
                    outputs
                        .iter()
                        .flatten()
                        .map(|v| if v.is_nan() { 7 } else { v.to_bits() })
                        .collect::<Vec<_>>()
                };
                let few = |k: usize| Block::F32(if is_number(k) { &rows[k][..1] } else { &rows[k] });
                let put = run(&GradientKernel::new(Scaled::<true>, wanted), &[0, 1, 2, 3].map(few));
                let blocks = [0, 1, 2, 3].map(|k: usize| Block::F32(&rows[k]));
                let stored = run(&GradientKernel::new(Scaled::<false>, wanted), &blocks);
                assert_eq!(put, stored, "{wanted:?} of {n}, numbers {numbers:b}");
            }
        }
    }
}
