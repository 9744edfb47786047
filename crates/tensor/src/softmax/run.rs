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
use crate::kernels::softmax::{RowFloat, RowTraits, write_rows};
use crate::kernels::{BlockKernel, FloatKernel, Formula, Real, RowFormula, typed};
use crate::ops::formulas;
use crate::ops::reduce::Kept;
use crate::shape::Shape;
use crate::task::{self, Read, Reduce, WholeRule};
use crate::tensor::Tensor;
use crate::threads::{GRAIN, split_work};

/// A [`RowFormula`] behind a pointer.
pub(crate) trait RowRule: Sync {
    fn traits(&self) -> RowTraits;
    /// The results for rows of `n`. Of `a` there are as many elements as of `b`, or one per row.
    fn rows(&self, a: Block<'_>, b: Block<'_>, n: usize, out: BlockMut<'_>);
    /// The kernels of the terms of `a` and `b`, and of the results of `a`, `b` and what becomes of the sum.
    fn kernels(&self) -> [Box<dyn BlockKernel>; 2];
}

impl<F: RowFormula> RowRule for F {
    fn traits(&self) -> RowTraits {
        F::TRAITS
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

    fn kernels(&self) -> [Box<dyn BlockKernel>; 2] {
        let part = Part(*self);
        [Box::new(FloatKernel::<_, 2>(part)), Box::new(FloatKernel::<_, 3>(part))]
    }
}

/// The term as a formula of `a` and `b`, the result as one of `a`, `b` and the sum.
#[derive(Clone, Copy)]
struct Part<F>(F);
impl<F: RowFormula> Formula<2> for Part<F> {
    #[inline(always)]
    fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R {
        self.0.term(a, b)
    }
}
impl<F: RowFormula> Formula<3> for Part<F> {
    #[inline(always)]
    fn eval<R: Real>(&self, [a, b, s]: [R; 3]) -> R {
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
        let width = if self.rule.traits().per_row { 1 } else { n };
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
        let moves = |&i: &usize| [a, b].iter().any(|t| t.strides()[i] != 0);
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
    if traits.logarithm {
        sum = task::map(op, &FloatKernel(formulas::ln), &[Read::Tensor(&sum, dtype)], sum.shape(), dtype)?;
    }
    let (a, shape) = if traits.per_row { (b, &kept.shape) } else { (a, shape) };
    task::map(op, &*results, &[a, b, Read::Tensor(&sum, dtype)], shape, dtype)
}
