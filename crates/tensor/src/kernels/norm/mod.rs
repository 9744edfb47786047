//! The loops of normalisation over rows: a row is read several times, but only once from memory. Rows lie one after another here,
//! those of a batch in pieces (`channels.rs`).
//!
//! The variance is taken of what the mean leaves, not as a difference of two large sums, and both have the layers of
//! Note [The order of a sum].

mod channels;

pub(crate) use channels::{Channels, norm_channel, norm_channel_backward};

use super::doors::door;
use super::lane::Lane;
use super::level::{Level, level};
use super::real::Real;
use super::softmax::{Line, Repeated, RowFloat, add_run, add_run_of};
use crate::task::{RUN, Reducer};

/// How rows of `n` elements are normalised, and where their weights are.
#[derive(Clone, Copy)]
pub(crate) struct NormRows<'a, T> {
    pub(crate) n: usize,
    /// whether the mean is taken off
    pub(crate) centred: bool,
    pub(crate) eps: f64,
    /// a factor for every line of a row, `lines` per row; empty if there are none
    pub(crate) weight: &'a [T],
    /// the same for what is added
    pub(crate) bias: &'a [T],
    /// lines of equal length that a row consists of
    pub(crate) lines: usize,
    /// rows until the weights begin again
    pub(crate) groups: usize,
}

impl<T: RowFloat> NormRows<'_, T> {
    /// The parameters of a row out of all of them; nothing out of nothing.
    #[inline(always)]
    fn of_row<'p>(&self, row: usize, all: &'p [T]) -> &'p [T] {
        if all.is_empty() { all } else { &all[row % self.groups * self.lines..][..self.lines] }
    }
}

/// `(x - m) r`
#[inline(always)]
fn standard<T: RowFloat>(x: T, [m, r]: [T; 2]) -> T {
    (x - m) * r
}

/// The mean of a row, 0 if it is not taken off, the reciprocal of its standard deviation, and its variance.
#[inline(always)]
fn statistics<'x, const FMA: bool, T: RowFloat>(
    how: &NormRows<'_, T>,
    pieces: impl Iterator<Item = &'x [T]> + Clone,
) -> [T; 3] {
    let (n, mut m) = (T::of(how.n as f64), T::of(0.0));
    if how.centred {
        let mut wide = T::Sum::START;
        for run in pieces.clone().flat_map(|piece| piece.chunks(RUN)) {
            wide = add_run(wide, run);
        }
        m = T::Sum::finish(wide) / n;
    }
    let mut wide = T::Sum::START;
    for run in pieces.flat_map(|piece| piece.chunks(RUN)) {
        wide = add_run_of(wide, run, |v| (v - m) * (v - m));
    }
    let variance = Lane::<T, FMA>(T::Sum::finish(wide) / n);
    [m, (variance + how.eps).rsqrt().0, variance.0]
}

#[inline(always)]
fn write_line<T: RowFloat>(x: &[T], moments: [T; 2], w: impl Line<T>, b: impl Line<T>, out: &mut [T]) {
    let n = out.len();
    let (x, w, b) = (&x[..n], w.cut(n), b.cut(n));
    for i in 0..n {
        out[i] = standard(x[i], moments) * w.at(i) + b.at(i);
    }
}

door! {
    /// Rows normalised, the first of them being number `first`, and the statistics of each.
    pub(crate) fn norm_rows[T: RowFloat][T](how: &NormRows<'_, T>, first: usize, x: &[T], out: &mut [T], statistics_of: &mut [[T; 3]]);
    body norm_rows_body
}
#[inline(always)]
fn norm_rows_body<const FMA: bool, T: RowFloat>(
    how: &NormRows<'_, T>,
    first: usize,
    x: &[T],
    out: &mut [T],
    statistics_of: &mut [[T; 3]],
) {
    let n = how.n;
    let (one, zero) = (Repeated(T::of(1.0)), Repeated(T::of(0.0)));
    let rows = x.chunks_exact(n).zip(out.chunks_exact_mut(n)).zip(statistics_of);
    for (row, ((x, out), of_row)) in rows.enumerate() {
        *of_row = statistics::<FMA, T>(how, std::iter::once(x));
        let found = [of_row[0], of_row[1]];
        let (w, b) = (how.of_row(first + row, how.weight), how.of_row(first + row, how.bias));
        match (w, b) {
            ([], []) => write_line(x, found, one, zero, out),
            (w, []) if how.lines == n => write_line(x, found, w, zero, out),
            ([], b) if how.lines == n => write_line(x, found, one, b, out),
            (w, b) if how.lines == n => write_line(x, found, w, b, out),
            (w, b) => {
                let size = n / how.lines;
                for (line, (x, out)) in x.chunks_exact(size).zip(out.chunks_exact_mut(size)).enumerate() {
                    let w = Repeated(w.get(line).copied().unwrap_or(one.0));
                    let b = Repeated(b.get(line).copied().unwrap_or(zero.0));
                    write_line(x, found, w, b, out);
                }
            }
        }
    }
}

/// Two sums over a row.
type Sums<T> = [<<T as RowFloat>::Sum as Reducer>::Acc; 2];

/// Adds `g w` and `g w` times the normalised elements to the sums of a row.
#[inline(always)]
fn add_line<T: RowFloat>(
    g: &[T],
    x: &[T],
    moments: [T; 2],
    w: impl Line<T>,
    scratch: &mut [[T; RUN]; 2],
    [s, t]: Sums<T>,
) -> Sums<T> {
    let n = g.len();
    let (x, w, [a, b]) = (&x[..n], w.cut(n), scratch);
    let (a, b) = (&mut a[..n], &mut b[..n]);
    for i in 0..n {
        a[i] = g[i] * w.at(i);
        b[i] = a[i] * standard(x[i], moments);
    }
    [add_run(s, a), add_run(t, b)]
}

/// `r (g w - s - xhat t)`, with the means `s` and `t` of what [`add_line`] sums.
#[inline(always)]
fn write_slopes<T: RowFloat>(
    g: &[T],
    x: &[T],
    moments: [T; 2],
    w: impl Line<T>,
    [s, t]: [T; 2],
    out: &mut [T],
) {
    let n = out.len();
    let (g, x, w) = (&g[..n], &x[..n], w.cut(n));
    for i in 0..n {
        out[i] = (g[i] * w.at(i) - s - standard(x[i], moments) * t) * moments[1];
    }
}

door! {
    /// The gradient of [`norm_rows`] for the elements, given that of the results, and, unless `sums` is empty, what is to be
    /// added to those of the weights and behind them of the biases.
    pub(crate) fn norm_rows_backward[T: RowFloat][T](how: &NormRows<'_, T>, first: usize, operands: [&[T]; 2], statistics_of: &[[T; 3]], out: &mut [T], sums: &mut [T]);
    body norm_rows_backward_body
}
#[inline(always)]
fn norm_rows_backward_body<const FMA: bool, T: RowFloat>(
    how: &NormRows<'_, T>,
    first: usize,
    [g, x]: [&[T]; 2],
    statistics_of: &[[T; 3]],
    out: &mut [T],
    sums: &mut [T],
) {
    let (n, size, scratch) = (how.n, how.n / how.lines, &mut [[T::of(0.0); RUN]; 2]);
    let (of_weights, of_biases) = sums.split_at_mut(sums.len() / 2);
    let wanted = !of_weights.is_empty();
    let one = Repeated(T::of(1.0));
    let rows = g.chunks_exact(n).zip(x.chunks_exact(n)).zip(out.chunks_exact_mut(n));
    for (row, (((g, x), out), of_row)) in rows.zip(statistics_of).enumerate() {
        let (w, found) = (how.of_row(first + row, how.weight), [of_row[0], of_row[1]]);
        let start = if wanted { (first + row) % how.groups * how.lines } else { 0 };
        let count = if wanted { how.lines } else { 0 };
        let (of_w, of_b) = (&mut of_weights[start..][..count], &mut of_biases[start..][..count]);
        let mut means = if how.lines == n {
            let mut both: Sums<T> = [T::Sum::START; 2];
            for (k, (g, x)) in g.chunks(RUN).zip(x.chunks(RUN)).enumerate() {
                both = match w {
                    [] => add_line(g, x, found, one, scratch, both),
                    w => add_line(g, x, found, &w[k * RUN..][..g.len()], scratch, both),
                };
            }
            for (((of_w, of_b), &g), &x) in of_w.iter_mut().zip(of_b).zip(g).zip(x) {
                *of_w = *of_w + g * standard(x, found);
                *of_b = *of_b + g;
            }
            both.map(|s| T::Sum::finish(s) / T::of(n as f64))
        } else {
            let mut means = [0.0; 2];
            for (line, (g, x)) in g.chunks_exact(size).zip(x.chunks_exact(size)).enumerate() {
                let mut both: Sums<T> = [T::Sum::START; 2];
                for (g, x) in g.chunks(RUN).zip(x.chunks(RUN)) {
                    both = add_line(g, x, found, one, scratch, both);
                }
                let both = both.map(T::Sum::finish);
                if wanted {
                    of_b[line] = of_b[line] + both[0];
                    of_w[line] = of_w[line] + both[1];
                }
                let weight = w.get(line).map_or(1.0, |w| w.to_scalar().to_f64());
                means = [0, 1].map(|k| means[k] + weight * both[k].to_scalar().to_f64());
            }
            means.map(|sum| T::of(sum / n as f64))
        };
        if !how.centred {
            means[0] = T::of(0.0);
        }
        match w {
            [] => write_slopes(g, x, found, one, means, out),
            w if how.lines == n => write_slopes(g, x, found, w, means, out),
            w => {
                let lines = g.chunks_exact(size).zip(x.chunks_exact(size)).zip(out.chunks_exact_mut(size));
                for (((g, x), out), &w) in lines.zip(w) {
                    write_slopes(g, x, found, Repeated(w), means, out);
                }
            }
        }
    }
}
