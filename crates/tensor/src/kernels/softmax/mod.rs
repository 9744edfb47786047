//! The loops of the softmax family over rows that lie one after another: a row is read several times, but only once
//! from memory.
//!
//! Sums over a row have the layers of Note [The order of a sum].

mod columns;
mod short;

use super::doors::door;
use super::folds::{fold_run, fold_run_of};
use super::lane::{Float, Lane};
use super::level::{Level, level};
use super::real::Real;
use crate::task::{RUN, Reducer, Sum};
pub(crate) use columns::{MOST_COLUMNS, MOST_LINES, write_columns, write_small_planes, write_wide_columns};
use short::{SHORT, norms_of_short_rows, spread, write_short_rows};

/// A function of rows: what is summed over a row, and what the result is, given the sum. Said once for every
/// representation of the numbers, and for rows in the cache as for folds over whole tensors (Note [Rows or folds]).
///
/// There are two operands, `a` and `b`. Where it is `shifted`, `b` is the largest element of the row of `a`.
pub trait RowFormula: Copy + Send + Sync + 'static {
    /// What else is to be known of it.
    const TRAITS: RowTraits;

    /// What is summed.
    fn term<R: Real>(&self, a: R, b: R) -> R;

    /// The result, given an element's term and what is taken of the sum of the row's terms.
    fn result<R: Real>(&self, a: R, b: R, term: R, sum: R) -> R;
}

/// What a [`RowFormula`] is like.
#[derive(Clone, Copy, Debug)]
pub struct RowTraits {
    /// `b` is not given, but the largest `a` of the row
    pub(crate) shifted: bool,
    /// the terms are `a` itself, whose sum needs no loop where it is the same all along the row
    pub(crate) plain: bool,
    /// what the result is made of
    pub(crate) taken: SumForm,
    /// there is one result per row, of `b` and the sum alone
    pub(crate) per_row: bool,
}

/// What of a row's sum the results are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SumForm {
    Sum,
    Logarithm,
    /// A softmax of rows of 1,024 takes a quarter less with products than with quotients, and is rounded once more.
    Reciprocal,
}

/// Element types whose rows can be folded.
pub(crate) trait RowFloat: Float {
    type Sum: Reducer<T = Self>;
}
impl RowFloat for f32 {
    type Sum = Sum<f32>;
}
impl RowFloat for f64 {
    type Sum = Sum<f64>;
}

/// The larger of two elements, of which the first is a number.
#[inline(always)]
fn larger<T: RowFloat>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// The largest element that is a number; -inf if there is none. Written out in a caller's loop.
#[inline(always)]
pub(super) fn largest_within<T: RowFloat>(x: &[T]) -> T {
    fold_run(x, T::of(f64::NEG_INFINITY), larger)
}

/// The sum of a row. Written out in a caller's loop.
#[inline(always)]
pub(super) fn sum_within<T: RowFloat>(x: &[T]) -> T {
    let mut wide = T::Sum::START;
    for run in x.chunks(RUN) {
        wide = add_run(wide, run);
    }
    T::Sum::finish(wide)
}

door! {
    /// [`largest_within`], by a call: written out in the loops of each formula, largest elements and sums of longer rows were most of
    /// what these cost to compile.
    fn largest[T: RowFloat][T](x: &[T]) -> T;
    body largest_body
}
#[inline(always)]
fn largest_body<const FMA: bool, T: RowFloat>(x: &[T]) -> T {
    largest_within(x)
}

door! {
    /// [`sum_within`], by a call.
    fn sum_of_row[T: RowFloat][T](x: &[T]) -> T;
    body sum_of_row_body
}
#[inline(always)]
fn sum_of_row_body<const FMA: bool, T: RowFloat>(x: &[T]) -> T {
    sum_within(x)
}

/// The sum of a run of elements, at most [`RUN`] of them, onto a wide one.
#[inline(always)]
pub(super) fn add_run<T: RowFloat>(wide: <T::Sum as Reducer>::Acc, run: &[T]) -> <T::Sum as Reducer>::Acc {
    add_run_of(wide, run, |v| v)
}

/// The sum of something of each element of a run.
#[inline(always)]
pub(super) fn add_run_of<T: RowFloat>(
    wide: <T::Sum as Reducer>::Acc,
    run: &[T],
    of: impl Fn(T) -> T + Copy,
) -> <T::Sum as Reducer>::Acc {
    T::Sum::merge(wide, T::Sum::lift(fold_run_of(run, of, T::of(0.0), T::Sum::combine)))
}

/// An operand along one row.
pub(super) trait Line<T>: Copy {
    fn at(self, i: usize) -> T;
    /// Itself, for a loop of `n` steps that needs no bounds checks.
    fn cut(self, n: usize) -> Self;
    fn sum(self, n: usize) -> T;
}

impl<T: RowFloat> Line<T> for &[T] {
    #[inline(always)]
    fn at(self, i: usize) -> T {
        self[i]
    }
    #[inline(always)]
    fn cut(self, n: usize) -> Self {
        &self[..n]
    }
    fn sum(self, _n: usize) -> T {
        sum_of_row(self)
    }
}

/// The same number all along a row.
#[derive(Clone, Copy)]
pub(super) struct Repeated<T>(pub(super) T);
impl<T: RowFloat> Line<T> for Repeated<T> {
    #[inline(always)]
    fn at(self, _i: usize) -> T {
        self.0
    }
    #[inline(always)]
    fn cut(self, _n: usize) -> Self {
        self
    }
    #[inline(always)]
    fn sum(self, n: usize) -> T {
        T::Sum::finish(T::Sum::repeat(T::Sum::lift(self.0), n))
    }
}

/// The sum of a row's terms, as the result takes it.
#[inline(always)]
fn taken<const FMA: bool, T: RowFloat, F: RowFormula>(sum: T) -> Lane<T, FMA> {
    match F::TRAITS.taken {
        SumForm::Sum => Lane(sum),
        SumForm::Logarithm => Lane(sum).ln(),
        SumForm::Reciprocal => Lane(sum).reciprocal(),
    }
}

/// The largest element of a row, and the sum of its terms, none of which is kept.
// Plain loops here and below: a closure with this much in it need not be compiled for the door's level.
#[inline(always)]
fn norms<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    x: &[T],
    scratch: &mut [T; RUN],
) -> [Lane<T, FMA>; 2] {
    let m = Lane(largest(x));
    let mut wide = T::Sum::START;
    for run in x.chunks(RUN) {
        let terms = &mut scratch[..run.len()];
        for (term, &v) in terms.iter_mut().zip(run) {
            *term = f.term(Lane(v), m).0;
        }
        wide = T::Sum::merge(wide, T::Sum::lift(sum_of_row(terms)));
    }
    [m, taken::<FMA, T, F>(T::Sum::finish(wide))]
}

/// The results of one row, in whose place the terms are meanwhile.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators hide that operands are as long")]
fn write_row<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    (a, b): (impl Line<T>, impl Line<T>),
    out: &mut [T],
) {
    let n = out.len();
    let (a, b) = (a.cut(n), b.cut(n));
    let sum = if F::TRAITS.plain {
        a.sum(n)
    } else {
        for i in 0..n {
            out[i] = f.term(Lane::<T, FMA>(a.at(i)), Lane(b.at(i))).0;
        }
        Line::sum(&*out, n)
    };
    let s = taken::<FMA, T, F>(sum);
    for i in 0..n {
        out[i] = f.result(Lane(a.at(i)), Lane(b.at(i)), Lane(out[i]), s).0;
    }
}

door! {
    /// The results of a formula for rows of `n`: as many each, or one each. Of `a` there are as many elements as of `b`, or
    /// one per row; `b` is read unless the formula is shifted.
    pub(crate) fn write_rows[T: RowFloat, F: RowFormula][T, F](f: &F, a: &[T], b: &[T], n: usize, out: &mut [T]);
    body write_rows_body
}
#[inline(always)]
fn write_rows_body<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    a: &[T],
    b: &[T],
    n: usize,
    out: &mut [T],
) {
    if F::TRAITS.per_row {
        return for_norms::<FMA, T, F, T>(f, a, n, out, |f, m, s| {
            let [m, s] = [m, s].map(Lane::<T, FMA>);
            f.result(m, m, m, s).0
        });
    }
    if n <= SHORT {
        return write_short_rows::<FMA, T, F>(f, a, b, n, out);
    }
    if F::TRAITS.shifted {
        for (out, a) in out.chunks_exact_mut(n).zip(a.chunks_exact(n)) {
            write_row::<FMA, T, F>(f, (a, Repeated(largest(a))), out);
        }
    } else if a.len() == b.len() {
        for ((out, a), b) in out.chunks_exact_mut(n).zip(a.chunks_exact(n)).zip(b.chunks_exact(n)) {
            write_row::<FMA, T, F>(f, (a, b), out);
        }
    } else {
        for ((out, &a), b) in out.chunks_exact_mut(n).zip(a).zip(b.chunks_exact(n)) {
            write_row::<FMA, T, F>(f, (Repeated(a), b), out);
        }
    }
}

/// Something made of the largest element of each row and the sum of its terms.
#[inline(always)]
fn for_norms<const FMA: bool, T: RowFloat, F: RowFormula, D>(
    f: &F,
    x: &[T],
    n: usize,
    out: &mut [D],
    make: impl Fn(&F, T, T) -> D,
) {
    let [shifts, terms, largest_of, sums] = &mut [[T::of(0.0); RUN]; 4];
    if n > SHORT {
        for (o, x) in out.iter_mut().zip(x.chunks_exact(n)) {
            let [m, s] = norms::<FMA, T, F>(f, x, terms);
            *o = make(f, m.0, s.0);
        }
        return;
    }
    let at_once = RUN / n;
    for (out, x) in out.chunks_mut(at_once).zip(x.chunks(at_once * n)) {
        let (largest_of, sums) = (&mut largest_of[..out.len()], &mut sums[..out.len()]);
        norms_of_short_rows::<FMA, T, F>(f, x, n, [largest_of, sums], [shifts, terms]);
        for (o, (&m, &s)) in out.iter_mut().zip(largest_of.iter().zip(sums.iter())) {
            *o = make(f, m, s);
        }
    }
}

door! {
    /// For each row of `n` what its results are made of: the largest element, and the logarithm of the sum of terms.
    pub(crate) fn norms_of_rows[T: RowFloat, F: RowFormula][T, F](f: &F, x: &[T], n: usize, pairs: &mut [[T; 2]]);
    body norms_of_rows_body
}
#[inline(always)]
fn norms_of_rows_body<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    x: &[T],
    n: usize,
    pairs: &mut [[T; 2]],
) {
    for_norms::<FMA, T, F, [T; 2]>(f, x, n, pairs, |_, m, s| [m, s]);
}

/// The negated result of an element of a row, given what [`norms_of_rows`] has for it. It takes no product: the same at
/// every level.
pub(crate) fn loss_of<T: RowFloat, F: RowFormula>(f: &F, x: T, [m, s]: [T; 2]) -> T {
    let [v, m, s] = [x, m, s].map(Lane::<T, false>);
    -f.result(v, m, v, s).0
}

door! {
    /// The gradient of [`loss_of`]: `g (exp(y) - 1)` at the class of each row, `g exp(y)` elsewhere, with the result `y`.
    pub(crate) fn losses_backward[T: RowFloat, F: RowFormula][T, F](f: &F, g: &[T], x: &[T], classes: &[i64], pairs: &[[T; 2]], n: usize, out: &mut [T]);
    body losses_backward_body
}
#[inline(always)]
fn losses_backward_body<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    g: &[T],
    x: &[T],
    classes: &[i64],
    pairs: &[[T; 2]],
    n: usize,
    out: &mut [T],
) {
    // Several short rows at once, as above; a longer one alone.
    let [shifts, sums, scales] = &mut [[T::of(0.0); RUN]; 3];
    let at_once = if n <= SHORT { RUN / n } else { 1 };
    for (block, (x, out)) in x.chunks(at_once * n).zip(out.chunks_mut(at_once * n)).enumerate() {
        let (start, rows) = (block * at_once, x.len() / n);
        let (g, classes, pairs) = (&g[start..][..rows], &classes[start..][..rows], &pairs[start..][..rows]);
        if n <= SHORT {
            spread(g, n, scales);
            for (row, &[m, s]) in pairs.iter().enumerate() {
                shifts[row * n..][..n].fill(m);
                sums[row * n..][..n].fill(s);
            }
            let (m, s, g) = (&shifts[..x.len()], &sums[..x.len()], &scales[..x.len()]);
            let out = &mut out[..x.len()];
            for i in 0..x.len() {
                let v = Lane::<T, FMA>(x[i]);
                out[i] = f.result(v, Lane(m[i]), v, Lane(s[i])).exp().0 * g[i];
            }
        } else {
            let [m, s] = pairs[0].map(Lane::<T, FMA>);
            for (o, &v) in out.iter_mut().zip(x) {
                let v = Lane::<T, FMA>(v);
                *o = f.result(v, m, v, s).exp().0 * g[0];
            }
        }
        for ((out, &class), &g) in out.chunks_exact_mut(n).zip(classes).zip(g) {
            out[class as usize] = out[class as usize] - g;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of every length around the lanes and the runs, against plain loops in f64.
    #[test]
    fn rows_of_any_length_are_folded_once() {
        for n in [1, 2, 10, 15, 16, 31, 63, 64, 65, 130, 255, 256, 271, 335, 1023, 1024, 1025, 2100] {
            let x: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 8.0).collect();
            let want: f64 = x.iter().map(|&x| x as f64).sum();
            let sum = Line::sum(&x[..], n);
            assert!((sum as f64 - want).abs() <= 1e-6 * n as f64, "{n}: {sum} against {want}");
            assert_eq!(largest(&x), x.iter().copied().fold(f32::MIN, f32::max));
            assert_eq!(Line::sum(Repeated(0.75f32), n), 0.75 * n as f32);
        }
    }
}
