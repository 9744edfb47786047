//! How a function of rows is evaluated: on rows in the cache where the tensor consists of them, else by folds.
//!
//! Note [Rows or folds]
//! Rows of up to [`GRAIN`] elements that lie one after another are worked on one by one, each while it is in the cache,
//! split over threads. Longer rows, other axes and other layouts are folded: the largest elements along the axes, the
//! sum of terms without storing them, and a pass that writes the results. Both ways evaluate the same [`RowFormula`].

use std::ops::Range;

use crate::create::expect_room_for;
use crate::dtype::{Block, BlockMut, DType};
use crate::error::Result;
use crate::kernels::softmax::{RowFloat, write_rows};
use crate::kernels::{BlockKernel, FloatKernel, FloatOps, Formula, Real, RowFormula, typed};
use crate::ops::formulas;
use crate::ops::reduce::Kept;
use crate::shape::Shape;
use crate::task::{self, Read, Reduce, WholeRule};
use crate::tensor::Tensor;
use crate::threads::{GRAIN, split_work};

/// A [`RowFormula`] behind a pointer.
pub(crate) trait RowRule: Sync {
    /// Its `SHIFTED`.
    fn is_shifted(&self) -> bool;
    /// Its `LOGARITHM`.
    fn takes_logarithm(&self) -> bool;
    /// Its `PER_ROW`.
    fn is_per_row(&self) -> bool;
    /// The results for rows of `n`. Of `a` there are as many elements as of `b`, or one per row.
    fn rows(&self, a: Block<'_>, b: Block<'_>, n: usize, out: BlockMut<'_>);
    /// The terms of `a` and `b`; none if they are `a` itself.
    fn terms(&self) -> Option<Box<dyn BlockKernel>>;
    /// The results of `a`, `b` and what became of the sum.
    fn results(&self) -> Box<dyn BlockKernel>;
}

impl<F: RowFormula> RowRule for F {
    fn is_shifted(&self) -> bool {
        F::SHIFTED
    }

    fn takes_logarithm(&self) -> bool {
        F::LOGARITHM
    }

    fn is_per_row(&self) -> bool {
        F::PER_ROW
    }

    fn rows(&self, a: Block<'_>, b: Block<'_>, n: usize, out: BlockMut<'_>) {
        fn run<T: RowFloat, F: RowFormula>(f: &F, operands: [Block<'_>; 2], n: usize, out: &mut [T]) {
            let [a, b] = typed(&operands);
            write_rows(f, a, b, n, out);
        }
        match out {
            BlockMut::F32(out) => run(self, [a, b], n, out),
            BlockMut::F64(out) => run(self, [a, b], n, out),
            other => unreachable!("a function of rows of real numbers was planned for {:?}", other.dtype()),
        }
    }

    fn terms(&self) -> Option<Box<dyn BlockKernel>> {
        if F::PLAIN { None } else { Some(Box::new(FloatKernel(TermOf(*self)))) }
    }

    fn results(&self) -> Box<dyn BlockKernel> {
        Box::new(FloatKernel(ResultOf(*self)))
    }
}

/// What is summed, as a formula of `a` and `b`.
#[derive(Clone, Copy)]
struct TermOf<F>(F);
impl<F: RowFormula> Formula<2> for TermOf<F> {
    #[inline(always)]
    fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        self.0.term(a, b)
    }
}

/// The result as a formula of `a`, `b` and the sum.
#[derive(Clone, Copy)]
struct ResultOf<F>(F);
impl<F: RowFormula> Formula<3> for ResultOf<F> {
    #[inline(always)]
    fn eval<R: Real>(&self, [a, b, s]: [R; 3]) -> R
    where
        f64: FloatOps<R>,
    {
        self.0.result(a, b, self.0.term(a, b), s)
    }
}

/// The length of the rows along neighbouring axes, if the tensor consists of such rows one after another.
pub(super) fn row_length(t: &Tensor, axes: &Range<usize>) -> Option<usize> {
    let n = t.dims()[axes.clone()].iter().product();
    let are_last = t.dims()[axes.end..].iter().all(|&size| size == 1);
    (are_last && n <= GRAIN && t.numel() > 0 && t.is_contiguous()).then_some(n)
}

/// Rows that one thread does at a time.
pub(super) fn rows_at_once(n: usize) -> usize {
    (GRAIN / n).max(1)
}

/// A rule of `a` and `b` in rows of `n`; of `a` there are as many elements as of `b`, or one per row.
struct InRows<'a> {
    rule: &'a dyn RowRule,
    n: usize,
}

impl WholeRule for InRows<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let [a, b] = [0, reads.len() - 1].map(|k| reads[k].as_block().expect("it is laid out"));
        let (n, count) = (self.n, b.len() / self.n);
        let width = if self.rule.is_per_row() { 1 } else { n };
        let grain = rows_at_once(n);
        split_work(count, grain, out, &|o: BlockMut<'_>, at| o.split_at(at * width), &|first, rows, out| {
            let [a, b] = [a, b].map(|all| {
                let width = all.len() / count;
                all.range(first * width, rows * width)
            });
            self.rule.rows(a, b, n, out);
        });
        Ok(())
    }
}

/// Evaluates a rule of `a` and `b` in rows of `n`, which `b` consists of along these axes. If the rule is shifted, they
/// are the same tensor.
pub(super) fn in_rows(
    op: &'static str,
    rule: &dyn RowRule,
    [a, b]: [&Tensor; 2],
    (n, axes): (usize, Range<usize>),
    shape: &Shape,
) -> Result<Tensor> {
    let (rule, dtype) = (InRows { rule, n }, b.dtype());
    if rule.rule.is_shifted() {
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
    let shape = a.shape();
    if !rule.is_per_row() {
        let moves = |&i: &usize| [a, b].iter().any(|t| t.strides()[i] != 0);
        let stored = (0..a.rank()).filter(moves).map(|i| shape[i]).product();
        expect_room_for(op, shape, stored, dtype)?;
    }
    let [a, mut b] = [a, b].map(|t| Read::Tensor(t, dtype));
    let m;
    if rule.is_shifted() {
        m = kept.fold(Reduce::Max, None, &[a], shape, dtype)?;
        b = Read::Tensor(&m, dtype);
    }
    let mut sum = match rule.terms() {
        Some(terms) => kept.fold(Reduce::Sum, Some(&*terms), &[a, b], shape, dtype)?,
        None => kept.fold(Reduce::Sum, None, &[a], shape, dtype)?,
    };
    if rule.takes_logarithm() {
        sum = task::map(op, &FloatKernel(formulas::ln), &[Read::Tensor(&sum, dtype)], sum.shape(), dtype)?;
    }
    let (a, shape) = if rule.is_per_row() { (b, &kept.shape) } else { (a, shape) };
    task::map(op, &*rule.results(), &[a, b, Read::Tensor(&sum, dtype)], shape, dtype)
}
