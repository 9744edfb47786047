//! The loops of the softmax family over rows that lie one after another: a row is read several times, but only once
//! from memory.
//!
//! Sums over a row have the layers of Note [The order of a sum].

use super::doors::door;
use super::folds::fold_run;
use super::formula::typed;
use super::lane::{Float, Lane};
use super::level::{Level, level};
use super::real::{FloatOps, Real};
use crate::dtype::{Block, Element};
use crate::iter::{Max, RUN, Reducer, Sum};

/// A function of rows: what is summed over a row, and what the result is, given the sum. Said once for every
/// representation of the numbers, and for rows in the cache as for folds over whole tensors (Note [Rows or folds]).
///
/// There are two operands, `a` and `b`. Where `SHIFTED`, `b` is the largest element of the row of `a`.
pub trait RowFormula: Copy + Send + Sync + 'static {
    /// Whether `b` is not given, but the largest `a` of the row.
    const SHIFTED: bool = false;
    /// Whether the terms are `a` itself, whose sum needs no loop where it is the same all along the row.
    const PLAIN: bool = false;
    /// Whether the result is made of the terms, which are kept for it.
    const KEEPS: bool = false;
    /// Whether the result is made of the sum's logarithm.
    const LOGARITHM: bool = false;
    /// Whether there is one result per row, of `b` and the sum alone.
    const PER_ROW: bool = false;

    /// What is summed.
    fn term<R: Real>(&self, a: R, b: R) -> R
    where
        f64: FloatOps<R>;

    /// The result, given an element's term and the sum of the row's terms, or its logarithm.
    fn result<R: Real>(&self, a: R, b: R, term: R, sum: R) -> R
    where
        f64: FloatOps<R>;
}

/// Element types whose rows can be folded.
pub(crate) trait RowFloat: Float {
    type Sum: Reducer<T = Self>;
    type Max: Reducer<T = Self, Acc = Self>;
}
impl RowFloat for f32 {
    type Sum = Sum<f32>;
    type Max = Max<f32>;
}
impl RowFloat for f64 {
    type Sum = Sum<f64>;
    type Max = Max<f64>;
}

/// An operand of rows: a slice, or a block.
#[derive(Clone, Copy)]
pub(crate) enum Rows<S> {
    /// all elements
    Full(S),
    /// one element per row, which stands for equal ones
    One(S),
}

impl<'a> Rows<Block<'a>> {
    /// As slices of the type that they are of.
    pub(crate) fn typed<T: Element>(self) -> Rows<&'a [T]> {
        match self {
            Rows::Full(all) => Rows::Full(typed::<T, 1>(&[all])[0]),
            Rows::One(each) => Rows::One(typed::<T, 1>(&[each])[0]),
        }
    }
}

/// An operand along one row.
trait Line<T>: Copy {
    fn at(self, i: usize) -> T;
    fn part(self, start: usize, len: usize) -> Self;
    fn sum(self, n: usize) -> T;
}

impl<T: RowFloat> Line<T> for &[T] {
    #[inline(always)]
    fn at(self, i: usize) -> T {
        self[i]
    }
    #[inline(always)]
    fn part(self, start: usize, len: usize) -> Self {
        &self[start..start + len]
    }
    #[inline(always)]
    fn sum(self, _n: usize) -> T {
        let mut wide = T::Sum::START;
        for run in self.chunks(RUN) {
            wide = T::Sum::merge(wide, T::Sum::lift(fold_run::<T::Sum>(run)));
        }
        T::Sum::finish(wide)
    }
}

/// The same number all along a row.
#[derive(Clone, Copy)]
struct Same<T>(T);
impl<T: RowFloat> Line<T> for Same<T> {
    #[inline(always)]
    fn at(self, _i: usize) -> T {
        self.0
    }
    #[inline(always)]
    fn part(self, _start: usize, _len: usize) -> Self {
        self
    }
    #[inline(always)]
    fn sum(self, n: usize) -> T {
        T::Sum::finish(T::Sum::repeat(T::Sum::lift(self.0), n))
    }
}

#[inline(always)]
fn largest<T: RowFloat>(x: &[T]) -> T {
    let mut m = T::Max::IDENTITY;
    for run in x.chunks(RUN) {
        m = T::Max::merge(m, fold_run::<T::Max>(run));
    }
    m
}

/// The sum of a row's terms, or its logarithm. Terms that the result is made of are left in `kept`.
// Plain loops here and below: a closure with this much in it need not be compiled for the door's level.
#[inline(always)]
fn fold_row<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    (a, b): (impl Line<T>, impl Line<T>),
    n: usize,
    kept: &mut [T],
    scratch: &mut [T; RUN],
) -> T {
    if F::PLAIN {
        return a.sum(n);
    }
    let mut wide = T::Sum::START;
    for start in (0..n).step_by(RUN) {
        let len = RUN.min(n - start);
        let terms = if F::KEEPS { &mut kept[start..start + len] } else { &mut scratch[..len] };
        let (a, b) = (a.part(start, len), b.part(start, len));
        for i in 0..len {
            terms[i] = f.term(Lane::<T, FMA>(a.at(i)), Lane(b.at(i))).0;
        }
        wide = T::Sum::merge(wide, T::Sum::lift(fold_run::<T::Sum>(terms)));
    }
    let sum = Lane::<T, FMA>(T::Sum::finish(wide));
    if F::LOGARITHM { sum.ln().0 } else { sum.0 }
}

/// The results of one row.
#[inline(always)]
fn write_row<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    (a, b): (impl Line<T>, impl Line<T>),
    n: usize,
    out: &mut [T],
    scratch: &mut [T; RUN],
) {
    let s = Lane::<T, FMA>(fold_row::<FMA, T, F>(f, (a, b), n, out, scratch));
    let len = out.len();
    let (a, b) = (a.part(0, len), b.part(0, len));
    for i in 0..len {
        let term = Lane(out[i]);
        out[i] = f.result(Lane(a.at(i)), Lane(b.at(i)), term, s).0;
    }
}

door! {
    /// The results of a formula for rows of `n`: as many each, or one each.
    pub(crate) fn write_rows[T: RowFloat, F: RowFormula][T, F](f: &F, a: Rows<&[T]>, b: &[T], n: usize, out: &mut [T]);
    body write_rows_body
}
#[inline(always)]
fn write_rows_body<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    a: Rows<&[T]>,
    b: &[T],
    n: usize,
    out: &mut [T],
) {
    let scratch = &mut [T::of(0.0); RUN];
    let rows = out.chunks_exact_mut(if F::PER_ROW { 1 } else { n });
    match a {
        Rows::Full(a) if F::SHIFTED => {
            for (out, a) in rows.zip(a.chunks_exact(n)) {
                write_row::<FMA, T, F>(f, (a, Same(largest(a))), n, out, scratch);
            }
        }
        Rows::Full(a) => {
            for ((out, a), b) in rows.zip(a.chunks_exact(n)).zip(b.chunks_exact(n)) {
                write_row::<FMA, T, F>(f, (a, b), n, out, scratch);
            }
        }
        Rows::One(a) => {
            for ((out, &a), b) in rows.zip(a).zip(b.chunks_exact(n)) {
                write_row::<FMA, T, F>(f, (Same(a), b), n, out, scratch);
            }
        }
    }
}

door! {
    /// The negated result at the class of each row of `n`, and the pair that it is made of: the largest element, and the
    /// logarithm of the sum of terms.
    pub(crate) fn losses[T: RowFloat, F: RowFormula][T, F](f: &F, x: &[T], classes: &[i64], n: usize, losses: &mut [T], pairs: &mut [[T; 2]]);
    body losses_body
}
#[inline(always)]
fn losses_body<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    x: &[T],
    classes: &[i64],
    n: usize,
    losses: &mut [T],
    pairs: &mut [[T; 2]],
) {
    let scratch = &mut [T::of(0.0); RUN];
    for (((x, &class), loss), pair) in x.chunks_exact(n).zip(classes).zip(losses).zip(pairs) {
        let m = largest(x);
        let s = fold_row::<FMA, T, F>(f, (x, Same(m)), n, &mut [], scratch);
        let (x, m, s) = (Lane::<T, FMA>(x[class as usize]), Lane(m), Lane(s));
        *loss = -f.result(x, m, x, s).0;
        *pair = [m.0, s.0];
    }
}

door! {
    /// The gradient of [`losses`]: `g (exp(y) - 1)` at the class of each row, `g exp(y)` elsewhere, with the result `y`.
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
    let rows = x.chunks_exact(n).zip(out.chunks_exact_mut(n));
    for ((((x, out), &g), &class), &[m, s]) in rows.zip(g).zip(classes).zip(pairs) {
        for (o, &v) in out.iter_mut().zip(x) {
            let v = Lane::<T, FMA>(v);
            *o = f.result(v, Lane(m), v, Lane(s)).exp().0 * g;
        }
        out[class as usize] = out[class as usize] - g;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of every length around the lanes and the runs, against plain loops in f64.
    #[test]
    fn rows_of_any_length_are_folded_once() {
        for n in [1, 2, 10, 63, 64, 65, 130, 1023, 1024, 1025, 2100] {
            let x: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 8.0).collect();
            let want: f64 = x.iter().map(|&x| x as f64).sum();
            let sum = Line::sum(&x[..], n);
            assert!((sum as f64 - want).abs() <= 1e-6 * n as f64, "{n}: {sum} against {want}");
            assert_eq!(largest(&x), x.iter().copied().fold(f32::MIN, f32::max));
            assert_eq!(Line::sum(Same(0.75f32), n), 0.75 * n as f32);
        }
    }
}
