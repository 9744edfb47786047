//! How a function of rows is evaluated: on rows in the cache where the tensor consists of them, else by folds.
//!
//! Note [Rows or folds]
//! Rows of up to [`GRAIN`] elements that lie one after another are worked on one by one, each while it is in the cache,
//! split over threads. Rows that lie across memory, up to [`MOST_COLUMNS`] beside each other, are worked on together if they have no
//! more elements than that, those of small planes with those of others, copied aside; of more, short ones are copied aside, as many at a time. Tensors whose axes lie in another order are gone through
//! in that order, and so lie the results; where rows fit the cache only as the axes are, what is turned is laid
//! out first, unless its rows are the columns of wide planes. Those, longer rows and repeats are folded: the largest elements along
//! the axes, the sum of terms without storing them, and a pass that writes the results. All evaluate the same [`RowFormula`].

use std::ops::Range;

use crate::create::expect_room_for;
use crate::dtype::{Block, BlockMut, DType};
use crate::error::Result;
use crate::kernels::softmax::{
    MOST_COLUMNS, MOST_LINES, RowFloat, RowTraits, SumForm, write_columns, write_rows, write_small_planes,
    write_wide_columns,
};
use crate::kernels::{BlockKernel, FloatKernel, Formula, Real, RowFormula, typed};
use crate::ops::formulas;
use crate::ops::reduce::Kept;
use crate::shape::Shape;
use crate::task::{self, Read, Reduce, WholeRule};
use crate::tensor::Tensor;
use crate::threads::{GRAIN, split_work};

/// Elements of rows beside each other whose planes are too small for loops of their own: several are worked on together.
const SMALL_PLANE: usize = 512;

/// A [`RowFormula`] behind a pointer.
pub(crate) trait RowRule: Sync {
    fn traits(&self) -> RowTraits;
    /// The results for rows of so many elements, so many of which lie beside each other. Of `a` there are as many elements as
    /// of `b`, or one per row.
    fn rows(&self, a: Block<'_>, b: Block<'_>, rows: [usize; 2], out: BlockMut<'_>);
    /// The kernels of the terms of `a` and `b`, and of the results of `a`, `b` and what becomes of the sum.
    fn kernels(&self) -> [Box<dyn BlockKernel>; 2];
}

impl<F: RowFormula> RowRule for F {
    fn traits(&self) -> RowTraits {
        F::TRAITS
    }

    fn rows(&self, a: Block<'_>, b: Block<'_>, rows: [usize; 2], out: BlockMut<'_>) {
        fn run<T: RowFloat, F: RowFormula>(f: &F, operands: [Block<'_>; 2], rows: [usize; 2], out: &mut [T]) {
            let [a, b] = typed(&operands);
            match rows {
                [n, 1] => write_rows(f, a, b, n, out),
                [n, cols @ ..=MOST_COLUMNS] if n * cols <= SMALL_PLANE => {
                    write_small_planes(f, a, b, rows, out)
                }
                [_, ..=MOST_COLUMNS] => write_columns(f, a, b, rows, out),
                _ => write_wide_columns(f, a, b, rows, out),
            }
        }
        match out {
            BlockMut::F32(out) => run(self, [a, b], rows, out),
            BlockMut::F64(out) => run(self, [a, b], rows, out),
            other => unreachable!("a function of rows of real numbers was planned for {:?}", other.dtype()),
        }
    }

    fn kernels(&self) -> [Box<dyn BlockKernel>; 2] {
        let formula = AsFormula(*self);
        [Box::new(FloatKernel::<_, 2>(formula)), Box::new(FloatKernel::<_, 3>(formula))]
    }
}

/// The term as a formula of `a` and `b`, the result as one of `a`, `b` and the sum.
#[derive(Clone, Copy)]
struct AsFormula<F>(F);
impl<F: RowFormula> Formula<2> for AsFormula<F> {
    #[inline(always)]
    fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R {
        self.0.term(a, b)
    }
}
impl<F: RowFormula> Formula<3> for AsFormula<F> {
    #[inline(always)]
    fn eval<R: Real>(&self, [a, b, s]: [R; 3]) -> R {
        self.0.result(a, b, self.0.term(a, b), s)
    }
}

/// The elements of a row along neighbouring axes, and how many rows lie beside each other once the tensor is laid out, one if they lie
/// one after another: where they are worked on in the cache.
pub(super) fn rows_in_cache(t: &Tensor, axes: &Range<usize>) -> Option<[usize; 2]> {
    if t.numel() == 0 || t.overlaps_itself() {
        return None;
    }
    let [n, cols]: [usize; 2] = [axes.clone(), axes.end..t.rank()].map(|r| t.dims()[r].iter().product());
    // Rows that are columns of wide planes in memory: folds go through those line by line, in 0.7 to 0.9 of the time with the copy.
    let is_column = |before: usize| t.strides()[before] == 1 && t.dims()[before] > MOST_COLUMNS;
    if cols == 1 && !t.is_contiguous() && axes.start.checked_sub(1).is_some_and(is_column) {
        return None;
    }
    let fit = match cols {
        1 => n <= GRAIN,
        ..=MOST_COLUMNS => n * cols <= GRAIN,
        _ => n <= MOST_LINES,
    };
    fit.then_some([n, cols])
}

/// Rows that one thread does at a time.
pub(super) fn rows_at_once(n: usize) -> usize {
    (GRAIN / n).max(1)
}

/// A rule of `a` and `b` in rows of so many elements, so many beside each other; of `a` there are as many elements as of `b`, or
/// one per row.
struct InCache<'a> {
    rule: &'a dyn RowRule,
    rows: [usize; 2],
}

impl WholeRule for InCache<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let [a, b] = [0, reads.len() - 1].map(|k| reads[k].as_block().expect("it is laid out"));
        let [n, cols] = self.rows;
        if cols > MOST_COLUMNS {
            // It shares its columns with other threads itself.
            self.rule.rows(a, b, self.rows, out);
            return Ok(());
        }
        let count = b.len() / (n * cols);
        let width = out.len() / count;
        let grain = rows_at_once(n * cols);
        split_work(count, grain, out, &|o: BlockMut<'_>, at| o.split_at(at * width), &|first, rows, out| {
            let [a, b] = [a, b].map(|all| {
                let width = all.len() / count;
                all.range(first * width, rows * width)
            });
            self.rule.rows(a, b, self.rows, out);
        });
        Ok(())
    }
}

/// Evaluates a rule of `a` and `b` along neighbouring axes, by the rows that [`rows_in_cache`] finds in `b`. If the rule is
/// shifted, they are the same tensor.
pub(super) fn in_cache(
    op: &'static str,
    rule: &dyn RowRule,
    [a, b]: [&Tensor; 2],
    (rows, axes): ([usize; 2], Range<usize>),
    shape: &Shape,
) -> Result<Tensor> {
    let (rule, dtype, b) = (InCache { rule, rows }, b.dtype(), &b.laid_out(op)?);
    if rule.rule.traits().shifted {
        return task::whole(op, &rule, &[Read::Tensor(b, dtype)], shape, dtype);
    }
    let mut a = a.cast(op, dtype)?;
    if a.strides()[axes.clone()].iter().all(|&step| step == 0) {
        for axis in axes {
            a = a.narrow(axis as isize, 0, 1)?;
        }
    }
    let a = a.laid_out(op)?;
    task::whole(op, &rule, &[Read::Tensor(&a, dtype), Read::Tensor(b, dtype)], shape, dtype)
}

/// Evaluates a rule along the axes that are not kept, in `dtype`.
pub(super) fn in_folds(
    op: &'static str,
    rule: &dyn RowRule,
    [a, b]: [&Tensor; 2],
    kept: &Kept,
    dtype: DType,
) -> Result<Tensor> {
    let (shape, traits) = (a.shape(), rule.traits());
    if !traits.per_row {
        let strides = [a, b].map(Tensor::strides);
        let moves = |&i: &usize| strides.iter().any(|strides| strides[i] != 0);
        let stored = (0..a.rank()).filter(moves).map(|i| shape[i]).product();
        expect_room_for(op, shape, stored, dtype)?;
    }
    let [a, mut b] = [a, b].map(|t| Read::Tensor(t, dtype));
    let m;
    if traits.shifted {
        m = kept.fold(Reduce::Max, None, &[a], shape, dtype)?;
        b = Read::Tensor(&m, dtype);
    }
    let [terms, results] = rule.kernels();
    let mut sum = match traits.plain {
        true => kept.fold(Reduce::Sum, None, &[a], shape, dtype)?,
        false => kept.fold(Reduce::Sum, Some(&*terms), &[a, b], shape, dtype)?,
    };
    let map = |sum: &Tensor, kernel: &dyn BlockKernel| {
        task::map(op, kernel, &[Read::Tensor(sum, dtype)], sum.shape(), dtype)
    };
    match traits.taken {
        SumForm::Sum => {}
        SumForm::Logarithm => sum = map(&sum, &FloatKernel(formulas::ln))?,
        SumForm::Reciprocal => sum = map(&sum, &FloatKernel(formulas::reciprocal))?,
    }
    let (a, shape) = if traits.per_row { (b, &kept.shape) } else { (a, shape) };
    task::map(op, &*results, &[a, b, Read::Tensor(&sum, dtype)], shape, dtype)
}
