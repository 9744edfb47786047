//! How a function of rows is evaluated: on rows in the cache where the tensor consists of them, else by folds.
//!
//! Note [Rows or folds]
//! Rows of up to [`GRAIN`] elements that lie one after another are worked on one by one, each while it is in the cache,
//! split over threads. Longer rows, other axes and other layouts are folded: the largest elements along the axes, the
//! sum of terms without storing them, and a pass that writes the results. Both ways evaluate the same [`RowFormula`].

use crate::create::{expect_room_for, room};
use crate::dtype::{Block, BlockMut, DType};
use crate::error::Result;
use crate::iter::{self, Operand, Reduce};
use crate::kernels::softmax::{Rows, write_rows};
use crate::kernels::{BlockKernel, FloatKernel, FloatOps, Formula, Real, RowFormula, typed};
use crate::ops::formulas;
use crate::ops::reduce::Kept;
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
    /// The results for rows of `n`; `b` is not read where it is not given.
    fn rows(&self, a: Rows<Block<'_>>, b: Block<'_>, n: usize, out: BlockMut<'_>);
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

    fn rows(&self, a: Rows<Block<'_>>, b: Block<'_>, n: usize, out: BlockMut<'_>) {
        match out {
            BlockMut::F32(out) => write_rows(self, a.typed(), typed::<_, 1>(&[b])[0], n, out),
            BlockMut::F64(out) => write_rows(self, a.typed(), typed::<_, 1>(&[b])[0], n, out),
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

/// Evaluates a rule of `a` along the axes that are not kept, and of `b`, which has the shape of `a`, unless the rule is
/// shifted. The result has the shape of `a`, or 1 along those axes.
pub(super) fn run(
    op: &'static str,
    rule: &dyn RowRule,
    [a, b]: [&Tensor; 2],
    kept: &Kept,
    dtype: DType,
) -> Result<Tensor> {
    let mut flags = b.dims().iter().zip(&kept.flags).filter(|s| *s.0 != 1).map(|s| *s.1);
    let are_last = flags.by_ref().all(|kept| kept) || !flags.any(|kept| kept);
    if are_last && kept.count <= GRAIN && b.is_contiguous() && b.dtype() == dtype && b.numel() > 0 {
        in_rows(op, rule, [a, b], kept)
    } else {
        in_folds(op, rule, [a, b], kept, dtype)
    }
}

/// Rows that one thread does at a time.
pub(super) fn rows_at_once(n: usize) -> usize {
    (GRAIN / n).max(1)
}

fn in_rows(op: &'static str, rule: &dyn RowRule, [a, b]: [&Tensor; 2], kept: &Kept) -> Result<Tensor> {
    let (n, per_row) = (kept.count, rule.is_per_row());
    let reduced = || (0..a.rank()).filter(|&i| !kept.flags[i]);
    let one = !rule.is_shifted() && reduced().all(|i| a.strides()[i] == 0);
    let mut a = a.clone();
    for i in reduced().filter(|_| one) {
        a = a.narrow(i as isize, 0, 1)?;
    }
    let (a, dtype) = (a.cast(op, b.dtype())?.laid_out(op)?, b.dtype());
    let shape = if per_row { &kept.shape } else { b.shape() };
    let mut storage = room(op, shape, dtype)?;
    let [own_a, own_b] = [&a, b].map(|t| t.as_block().expect("it is laid out"));
    let (count, width, out) = (b.numel() / n, if per_row { 1 } else { n }, storage.block_mut());
    split_work(
        count,
        rows_at_once(n),
        out,
        &|o: BlockMut<'_>, at| o.split_at(at * width),
        &|first, count, out| {
            let a = if one {
                Rows::One(own_a.range(first, count))
            } else {
                Rows::Full(own_a.range(first * n, count * n))
            };
            rule.rows(a, own_b.range(first * n, count * n), n, out);
        },
    );
    Ok(Tensor::from_storage(storage, shape.clone()))
}

fn in_folds(
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
    let [a, mut b] = [a, b].map(|t| Operand::new(t, dtype));
    let m;
    if rule.is_shifted() {
        m = kept.fold(Reduce::Max, None, &[a], shape, dtype)?;
        b = Operand::new(&m, dtype);
    }
    let mut sum = match rule.terms() {
        Some(terms) => kept.fold(Reduce::Sum, Some(&*terms), &[a, b], shape, dtype)?,
        None => kept.fold(Reduce::Sum, None, &[a], shape, dtype)?,
    };
    if rule.takes_logarithm() {
        let operand = [Operand::new(&sum, dtype)];
        sum = iter::map(op, &FloatKernel(formulas::ln), &operand, sum.shape().clone(), dtype)?;
    }
    let (a, shape) = if rule.is_per_row() { (b, &kept.shape) } else { (a, shape) };
    iter::map(op, &*rule.results(), &[a, b, Operand::new(&sum, dtype)], shape.clone(), dtype)
}
