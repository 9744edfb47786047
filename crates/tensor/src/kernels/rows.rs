//! Softmax and its relatives on the rows of a matrix: a row is read several times, but only once from memory.
//!
//! Sums over a row have the layers of Note [The order of a sum]: lanes, a tree over them, wide accumulators behind that.

use super::doors::door;
use super::lane::Float;
use super::level::{Level, level};
use crate::math::VecMath;
use crate::task::{LANES, Reducer, Sum};

/// Elements that go through the lanes before they are added to a wide accumulator.
const RUN: usize = 1024;

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

/// What a kernel reads along with a matrix of rows of `n` elements.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a, T> {
    /// an element per element
    Full(&'a [T]),
    /// one element per row, which stands for `n` equal ones
    One(&'a [T]),
}

impl<'a, T> Rows<'a, T> {
    /// The part that belongs to `count` rows.
    pub(crate) fn part(self, first: usize, count: usize, n: usize) -> Rows<'a, T> {
        match self {
            Rows::Full(v) => Rows::Full(&v[first * n..][..count * n]),
            Rows::One(v) => Rows::One(&v[first..][..count]),
        }
    }
}

/// Folds up to a few thousand elements: lanes first, then a tree over the lanes.
#[inline(always)]
fn fold_run<T: RowFloat>(x: &[T], start: T, combine: impl Fn(T, T) -> T) -> T {
    if x.len() < LANES {
        let mut all = start;
        for &v in x {
            all = combine(all, v);
        }
        return all;
    }
    let mut lanes = [start; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for c in chunks {
        for k in 0..LANES {
            lanes[k] = combine(lanes[k], c[k]);
        }
    }
    for (lane, &v) in lanes.iter_mut().zip(rest) {
        *lane = combine(*lane, v);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for k in 0..width {
            lanes[k] = combine(lanes[k], lanes[k + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// The largest element that is a number; -inf if there is none.
#[inline(always)]
fn largest<T: RowFloat>(x: &[T]) -> T {
    fold_run(x, T::of(f64::NEG_INFINITY), |a, b| if b > a { b } else { a })
}

#[inline(always)]
fn sum<T: RowFloat>(x: &[T]) -> T {
    let mut wide = T::Sum::START;
    for run in x.chunks(RUN) {
        wide = T::Sum::merge(wide, T::Sum::lift(fold_run(run, T::of(0.0), |a, b| a + b)));
    }
    T::Sum::finish(wide)
}

/// The largest element `m` of a row, and the logarithm of the sum of `exp(x - m)`, which is NaN if an element is.
// A plain loop, not `Iterator::fold`: a closure with this much in it need not be compiled for the door's level.
#[inline(always)]
fn norms<const FMA: bool, T: RowFloat>(x: &[T], scratch: &mut [T; RUN]) -> [T; 2] {
    let m = largest(x);
    let mut wide = T::Sum::START;
    for run in x.chunks(RUN) {
        let shares = &mut scratch[..run.len()];
        for (share, &v) in shares.iter_mut().zip(run) {
            *share = VecMath::exp::<FMA>(v - m);
        }
        wide = T::Sum::merge(wide, T::Sum::lift(fold_run(shares, T::of(0.0), |a, b| a + b)));
    }
    [m, VecMath::ln::<FMA>(T::Sum::finish(wide))]
}

door! {
    /// `ln(softmax(x))` of rows of `n`.
    pub(crate) fn log_softmax[T: RowFloat][T](x: &[T], n: usize, out: &mut [T]);
    body log_softmax_body
}
#[inline(always)]
fn log_softmax_body<const FMA: bool, T: RowFloat>(x: &[T], n: usize, out: &mut [T]) {
    let mut scratch = [T::of(0.0); RUN];
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let [m, l] = norms::<FMA, T>(x, &mut scratch);
        for (o, &v) in out.iter_mut().zip(x) {
            *o = v - m - l;
        }
    }
}

door! {
    /// `softmax(x)` of rows of `n`.
    pub(crate) fn softmax[T: RowFloat][T](x: &[T], n: usize, out: &mut [T]);
    body softmax_body
}
#[inline(always)]
fn softmax_body<const FMA: bool, T: RowFloat>(x: &[T], n: usize, out: &mut [T]) {
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let m = largest(x);
        for (o, &v) in out.iter_mut().zip(x) {
            *o = VecMath::exp::<FMA>(v - m);
        }
        let s = sum(out);
        for o in out {
            *o = *o / s;
        }
    }
}

door! {
    /// The gradient of `y = ln(softmax(x))` in rows of `n`: `g - exp(y) sum(g)`.
    pub(crate) fn log_softmax_backward[T: RowFloat][T](g: Rows<'_, T>, y: &[T], n: usize, out: &mut [T]);
    body log_softmax_backward_body
}
#[inline(always)]
fn log_softmax_backward_body<const FMA: bool, T: RowFloat>(g: Rows<'_, T>, y: &[T], n: usize, out: &mut [T]) {
    let rows = y.chunks_exact(n).zip(out.chunks_exact_mut(n));
    match g {
        Rows::Full(g) => {
            for ((y, out), g) in rows.zip(g.chunks_exact(n)) {
                let s = sum(g);
                for ((o, &y), &g) in out.iter_mut().zip(y).zip(g) {
                    *o = g - VecMath::exp::<FMA>(y) * s;
                }
            }
        }
        Rows::One(g) => {
            for ((y, out), &g) in rows.zip(g) {
                let s = T::Sum::finish(T::Sum::repeat(T::Sum::lift(g), n));
                for (o, &y) in out.iter_mut().zip(y) {
                    *o = g - VecMath::exp::<FMA>(y) * s;
                }
            }
        }
    }
}

door! {
    /// The gradient of `y = softmax(x)` in rows of `n`: `y (g - sum(g y))`.
    pub(crate) fn softmax_backward[T: RowFloat][T](g: Rows<'_, T>, y: &[T], n: usize, out: &mut [T]);
    body softmax_backward_body
}
#[inline(always)]
fn softmax_backward_body<const FMA: bool, T: RowFloat>(g: Rows<'_, T>, y: &[T], n: usize, out: &mut [T]) {
    let rows = y.chunks_exact(n).zip(out.chunks_exact_mut(n));
    match g {
        Rows::Full(g) => {
            for ((y, out), g) in rows.zip(g.chunks_exact(n)) {
                for ((o, &y), &g) in out.iter_mut().zip(y).zip(g) {
                    *o = g * y;
                }
                let s = sum(out);
                for ((o, &y), &g) in out.iter_mut().zip(y).zip(g) {
                    *o = y * (g - s);
                }
            }
        }
        Rows::One(g) => {
            for ((y, out), &g) in rows.zip(g) {
                for (o, &y) in out.iter_mut().zip(y) {
                    *o = g * y;
                }
                let s = sum(out);
                for (o, &y) in out.iter_mut().zip(y) {
                    *o = y * (g - s);
                }
            }
        }
    }
}

door! {
    /// `-ln(softmax(x))` at the class of each row of `n`, and the pair that [`norms`] gives for it.
    pub(crate) fn cross_entropy[T: RowFloat][T](x: &[T], classes: &[i64], n: usize, losses: &mut [T], pairs: &mut [[T; 2]]);
    body cross_entropy_body
}
#[inline(always)]
fn cross_entropy_body<const FMA: bool, T: RowFloat>(
    x: &[T],
    classes: &[i64],
    n: usize,
    losses: &mut [T],
    pairs: &mut [[T; 2]],
) {
    let mut scratch = [T::of(0.0); RUN];
    for (((x, &class), loss), pair) in x.chunks_exact(n).zip(classes).zip(losses).zip(pairs) {
        let [m, l] = norms::<FMA, T>(x, &mut scratch);
        *loss = -(x[class as usize] - m - l);
        *pair = [m, l];
    }
}

door! {
    /// The gradient of [`cross_entropy`]: `g (softmax(x) - 1)` at the class of each row, `g softmax(x)` elsewhere.
    pub(crate) fn cross_entropy_backward[T: RowFloat][T](g: &[T], x: &[T], classes: &[i64], pairs: &[[T; 2]], n: usize, out: &mut [T]);
    body cross_entropy_backward_body
}
#[inline(always)]
fn cross_entropy_backward_body<const FMA: bool, T: RowFloat>(
    g: &[T],
    x: &[T],
    classes: &[i64],
    pairs: &[[T; 2]],
    n: usize,
    out: &mut [T],
) {
    let rows = x.chunks_exact(n).zip(out.chunks_exact_mut(n));
    for ((((x, out), &g), &class), &[m, l]) in rows.zip(g).zip(classes).zip(pairs) {
        for (o, &v) in out.iter_mut().zip(x) {
            *o = VecMath::exp::<FMA>(v - m - l) * g;
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
            assert!((sum(&x) as f64 - want).abs() <= 1e-6 * n as f64, "{n}: {} against {want}", sum(&x));
            assert_eq!(largest(&x), x.iter().copied().fold(f32::MIN, f32::max));
            let [m, l] = norms::<false, f32>(&x, &mut [0.0; RUN]);
            let shares: f64 = x.iter().map(|&v| (v as f64 - m as f64).exp()).sum();
            assert!((l as f64 - shares.ln()).abs() < 1e-6);
        }
    }
}
