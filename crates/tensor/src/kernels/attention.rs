//! The loops of attention: a few rows of queries at a time meet all keys, so that their scores stay in the cache and the
//! matrix of all scores is never stored.
//!
//! The backward step computes the scores again: that is one product more, and saves the memory of all of them.

use super::doors::door;
use super::folds::FEW_LANES;
use super::lane::Lane;
use super::level::{Level, level};
use super::matmul::{Matrix, Multiply, Onto, Product};
use super::real::Real;
use super::softmax::{Line, RowFloat, add_run, largest};
use crate::buffer::Room;
use crate::task::{RUN, Reducer};

/// Scores that are at hand at a time: half of a second-level cache.
const SCORES: usize = 1 << 17;

/// Rows that they belong to, however many keys there are: keys are laid out for all of them at once, which for a few rows is as much
/// work as the product.
const FEWEST_ROWS: usize = 32;

/// The most rows: of the scores of causal queries half a square of them is wasted.
const MOST_ROWS: usize = 128;

/// What rows of scores are masked with.
#[derive(Clone, Copy)]
pub(crate) enum MaskRows<'a, T> {
    None,
    /// where it is false, -inf is added
    Truth(&'a [bool]),
    /// what is added
    Added(&'a [T]),
}

/// One matrix of queries, keys and values each, and what is done with them.
#[derive(Clone, Copy)]
pub(crate) struct Heads<'a, T> {
    pub(crate) queries: Matrix<'a, T>,
    pub(crate) keys: Matrix<'a, T>,
    pub(crate) values: Matrix<'a, T>,
    /// the mask from its first row on
    pub(crate) mask: MaskRows<'a, T>,
    /// from one row of the mask to the next
    pub(crate) mask_step: usize,
    /// how many keys there are, not 0
    pub(crate) s: usize,
    /// the size of a query, and of a key
    pub(crate) e: usize,
    /// the size of a value
    pub(crate) v: usize,
    pub(crate) scale: f64,
    /// whether query number `i` sees keys up to number `i` only
    pub(crate) causal: bool,
}

/// Rows of queries that are worked on at a time.
pub(crate) fn rows_at_once(s: usize) -> usize {
    (SCORES / s.max(1)).clamp(FEWEST_ROWS, MOST_ROWS)
}

impl<'a, T: RowFloat + Multiply> Heads<'a, T> {
    /// Shares of the values for queries `first .. first + rows`, in `scores`, behind which there is room for [`FEW_LANES`] more;
    /// how many keys have one.
    fn shares(&self, first: usize, rows: usize, scores: &mut [T]) -> usize {
        let cols = if self.causal { self.s.min(first + rows) } else { self.s };
        let a = below(self.queries, first);
        let (scale, b) = (T::of(self.scale), self.keys.transposed());
        let product = Product { m: rows, n: cols, k: self.e, a, b, kept: &[], summed: &[], scale };
        product.run_here(&mut scores[..rows * cols], Onto::Nothing);
        let start = first * self.mask_step;
        let mask = match self.mask {
            MaskRows::None => MaskRows::None,
            MaskRows::Truth(m) => MaskRows::Truth(&m[start..]),
            MaskRows::Added(m) => MaskRows::Added(&m[start..]),
        };
        let causal_from = if self.causal { first } else { usize::MAX };
        share_rows(scores, [rows, cols], mask, self.mask_step, causal_from);
        cols
    }

    /// The results of queries `first .. first + rows`.
    pub(crate) fn attend(&self, first: usize, rows: usize, out: &mut [T]) {
        let step = rows_at_once(self.s);
        let mut room = Room::new(step.min(rows) * self.s + FEW_LANES);
        let scores = room.as_mut_slice();
        for from in (0..rows).step_by(step) {
            let m = step.min(rows - from);
            let k = self.shares(first + from, m, scores);
            let (a, b) = (matrix(scores, k), self.values);
            let product = Product { m, n: self.v, k, a, b, kept: &[], summed: &[], scale: T::of(1.0) };
            product.run_here(&mut out[from * self.v..][..m * self.v], Onto::Nothing);
        }
    }

    /// The gradients for `rows` queries, and for all keys and values, given that of the results.
    pub(crate) fn backward(&self, g: Matrix<'a, T>, rows: usize, [dq, dk, dv]: [&mut [T]; 3]) {
        let step = rows_at_once(self.s);
        let most = step.min(rows) * self.s;
        let mut room = Room::new(2 * most + FEW_LANES);
        let (slopes, shares) = room.as_mut_slice().split_at_mut(most);
        dk.fill(T::of(0.0));
        dv.fill(T::of(0.0));
        for first in (0..rows).step_by(step) {
            let m = step.min(rows - first);
            let (g, q) = (below(g, first), below(self.queries, first));
            let cols = self.shares(first, m, shares);
            let (shares, slopes) = (&mut shares[..m * cols], &mut slopes[..m * cols]);
            let plain = |m, n, k, a, b| Product { m, n, k, a, b, kept: &[], summed: &[], scale: T::of(1.0) };
            plain(m, cols, self.v, g, self.values.transposed()).run_here(slopes, Onto::Nothing);
            let p = matrix(shares, cols);
            plain(cols, self.v, m, p.transposed(), g).run_here(&mut dv[..cols * self.v], Onto::Result);
            slope_rows(shares, slopes, cols);
            let (d, scale) = (matrix(slopes, cols), T::of(self.scale));
            let into_q = Product { scale, ..plain(m, self.e, cols, d, self.keys) };
            into_q.run_here(&mut dq[first * self.e..][..m * self.e], Onto::Nothing);
            let into_k = Product { scale, ..plain(cols, self.e, m, d.transposed(), q) };
            into_k.run_here(&mut dk[..cols * self.e], Onto::Result);
        }
    }
}

/// A row-major matrix of `cols` columns.
fn matrix<T>(data: &[T], cols: usize) -> Matrix<'_, T> {
    Matrix { data, start: 0, row_step: cols as isize, col_step: 1 }
}

/// A matrix from a row on.
fn below<T>(m: Matrix<'_, T>, row: usize) -> Matrix<'_, T> {
    Matrix { start: (m.start as isize + row as isize * m.row_step) as usize, ..m }
}

door! {
    /// Makes shares of masked scores: `exp(x - m) / sum(exp(x - m))` along each row, and zeros in a row of nothing but -inf.
    /// Of row number `i` only the first `causal_from + i + 1` count.
    ///
    /// A row is as long as whole lanes while it is worked on: what lies behind it, [`FEW_LANES`] elements at least, is put aside. Scores that
    /// do not count are not written before all is read: a vector that is read just after parts of it were written waits for these.
    fn share_rows[T: RowFloat][T](scores: &mut [T], sizes: [usize; 2], mask: MaskRows<'_, T>, mask_step: usize, causal_from: usize);
    body share_rows_body
}
#[inline(always)]
fn share_rows_body<const FMA: bool, T: RowFloat>(
    scores: &mut [T],
    [rows, cols]: [usize; 2],
    mask: MaskRows<'_, T>,
    mask_step: usize,
    causal_from: usize,
) {
    let none = T::of(f64::NEG_INFINITY);
    for row in 0..rows {
        let scores = &mut scores[row * cols..];
        let live = causal_from.saturating_add(row + 1).min(cols);
        let x = &mut scores[..live.next_multiple_of(FEW_LANES)];
        let behind = cols.min(x.len())..x.len();
        let mut aside = [none; FEW_LANES];
        let aside = &mut aside[..behind.len()];
        aside.copy_from_slice(&x[behind.clone()]);
        match mask {
            MaskRows::None => {}
            MaskRows::Truth(m) => {
                let m = &m[row * mask_step..][..live];
                for i in 0..live {
                    x[i] = x[i] + if m[i] { T::of(0.0) } else { none };
                }
            }
            MaskRows::Added(m) => {
                let m = &m[row * mask_step..][..live];
                for i in 0..live {
                    x[i] = x[i] + m[i];
                }
            }
        }
        let m = largest(&x[..live]);
        if m == none && x[..live].iter().all(|&v| v == none) {
            x.fill(T::of(0.0));
        } else {
            let m = Lane::<T, FMA>(m);
            for v in x.iter_mut() {
                *v = (Lane::<T, FMA>(*v) - m).exp().0;
            }
            let share = T::of(1.0) / Line::sum(&x[..live], live);
            for v in x.iter_mut() {
                *v = *v * share;
            }
        }
        x[behind].copy_from_slice(aside);
        scores[live..cols].fill(T::of(0.0));
    }
}

door! {
    /// The gradient of shares `p` for the scores, in the place of that of the shares: `p (d - sum(p d))`.
    fn slope_rows[T: RowFloat][T](shares: &[T], slopes: &mut [T], cols: usize);
    body slope_rows_body
}
#[inline(always)]
fn slope_rows_body<const FMA: bool, T: RowFloat>(shares: &[T], slopes: &mut [T], cols: usize) {
    let mut scratch = [T::of(0.0); RUN];
    for (p, d) in shares.chunks_exact(cols).zip(slopes.chunks_exact_mut(cols)) {
        let mut wide = T::Sum::START;
        for (p, d) in p.chunks(RUN).zip(d.chunks(RUN)) {
            let products = &mut scratch[..p.len()];
            for ((o, &p), &d) in products.iter_mut().zip(p).zip(d) {
                *o = p * d;
            }
            wide = add_run(wide, products);
        }
        let sum = T::Sum::finish(wide);
        for (d, &p) in d.iter_mut().zip(p) {
            *d = p * (*d - sum);
        }
    }
}
