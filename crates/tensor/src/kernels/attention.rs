//! The loops of attention: a block of queries meets a block of keys at a time, so that their scores stay in the cache and the
//! matrix of all scores is never stored.
//!
//! Note [Shares block by block]
//! The share of key `j` for query `i` is `exp(x[i, j] - m) / sum`, where `m` is the largest score of the query and `sum` that of the
//! exponentials. Going through the keys, the forward step keeps what it has of both (Milakov and Gimelshein, *Online normalizer
//! calculation for softmax*, 2018): where a block has a larger score, the results so far shrink by `exp(m before - m)`. Both are kept
//! for the backward step, a pair for each query, which computes the scores again, of the same blocks and so to the same bits, and has
//! the shares without a further sum: what their gradients `d` sum up to, `sum(p d)`, is the product of the result with its gradient (Dao and others,
//! *FlashAttention*, 2022).

use super::doors::door;
use super::folds::FEW_LANES;
use super::lane::Lane;
use super::level::{Level, level};
use super::matmul::{Matrix, Multiply, Onto, Product, row_major};
use super::real::Real;
use super::softmax::{RowFloat, add_run, largest_within, sum_within};
use crate::buffer::Room;
use crate::task::{RUN, Reducer};

/// Keys of a block: two matrices of scores of this many keys and queries take a quarter of a second-level cache each.
const KEYS: usize = 256;

/// Queries of a block: their keys are laid out for all of them at once, which for a few is as much work as the product.
const QUERIES: usize = 256;

/// The same where queries are causal: of the scores half a square of them is wasted. With 64 W13 takes 1.02 and W19-causal 1.03 of the time.
const CAUSAL_QUERIES: usize = 32;

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

/// Queries that are worked on at a time.
pub(crate) fn queries_at_once(causal: bool) -> usize {
    if causal { CAUSAL_QUERIES } else { QUERIES }
}

/// The scores of some queries and some keys.
#[derive(Clone, Copy)]
struct ScoreBlock {
    /// the first query
    first: usize,
    rows: usize,
    /// the first key
    key: usize,
    cols: usize,
}

impl<'a, T: RowFloat + Multiply> Heads<'a, T> {
    /// The blocks of the scores of some queries, as far as these see the keys, in order.
    fn blocks(&self, first: usize, rows: usize) -> impl Iterator<Item = ScoreBlock> + use<T> {
        let seen = if self.causal { self.s.min(first + rows) } else { self.s };
        (0..seen).step_by(KEYS).map(move |key| ScoreBlock { first, rows, key, cols: (seen - key).min(KEYS) })
    }

    /// The scores of a block, unmasked.
    fn scores(&self, block: ScoreBlock, scores: &mut [T]) {
        let (a, b) = (below(self.queries, block.first), below(self.keys, block.key).transposed());
        let (m, n, k, scale) = (block.rows, block.cols, self.e, T::of(self.scale));
        Product { m, n, k, a, b, kept: &[], summed: &[], scale }
            .run_here(&mut scores[..m * n], Onto::Nothing);
    }

    /// What their rows are masked with.
    fn masked(&self, block: ScoreBlock) -> Masked<'a, T> {
        let start = block.first * self.mask_step + block.key;
        let mask = match self.mask {
            MaskRows::None => MaskRows::None,
            MaskRows::Truth(m) => MaskRows::Truth(&m[start..]),
            MaskRows::Added(m) => MaskRows::Added(&m[start..]),
        };
        // The queries of a block may see less than its first key.
        let seen = self.causal.then(|| (block.first + 1) as isize - block.key as isize);
        Masked { mask, step: self.mask_step, cols: block.cols, seen }
    }

    /// The results of a block of queries `first .. first + rows`, and for each the largest score and the reciprocal of the sum.
    pub(crate) fn forward(&self, first: usize, rows: usize, out: &mut [T], norms: &mut [T]) {
        let mut room = Room::new(rows * self.s.min(KEYS) + FEW_LANES);
        let (scores, v) = (room.as_mut_slice(), self.v);
        for block in self.blocks(first, rows) {
            self.scores(block, scores);
            let onto = if block.key > 0 { Onto::Result } else { Onto::Nothing };
            let before = (block.key > 0).then_some(&mut *out);
            raise_rows(scores, self.masked(block), norms, before);
            let (m, k) = (block.rows, block.cols);
            let (a, b) = (row_major(scores, k), below(self.values, block.key));
            let product = Product { m, n: v, k, a, b, kept: &[], summed: &[], scale: T::of(1.0) };
            product.run_here(out, onto);
        }
        share_rows(out, norms);
    }

    /// The gradients for `rows` queries, and for all keys and values, given that of the results, these, and their norms.
    pub(crate) fn backward(
        &self,
        [g, y]: [Matrix<'a, T>; 2],
        norms: &[T],
        rows: usize,
        [dq, dk, dv]: [&mut [T]; 3],
    ) {
        let (step, e, v) = (queries_at_once(self.causal).min(rows), self.e, self.v);
        let most = step * self.s.min(KEYS);
        let mut room = Room::new(2 * most + FEW_LANES + step);
        let (sums, room) = room.as_mut_slice().split_at_mut(step);
        let (slopes, shares) = room.split_at_mut(most);
        if self.causal {
            // The first queries do not see all keys.
            dk.fill(T::of(0.0));
            dv.fill(T::of(0.0));
        }
        for first in (0..rows).step_by(step) {
            let m = step.min(rows - first);
            let (g, q) = (below(g, first), below(self.queries, first));
            // The sum of a query's shares times their gradients, over all its keys, is its result times the gradient of that. Where one
            // block holds all keys it is taken of the shares themselves, so that what must cancel does: the only key that is seen has
            // no slope.
            let sums = if self.blocks(first, m).nth(1).is_some() {
                dot_rows(g, below(y, first), v, &mut sums[..m]);
                Some(&sums[..m])
            } else {
                None
            };
            for block in self.blocks(first, m) {
                let (n, key) = (block.cols, block.key);
                let plain =
                    |m, n, k, a, b| Product { m, n, k, a, b, kept: &[], summed: &[], scale: T::of(1.0) };
                self.scores(block, shares);
                let slopes = &mut slopes[..m * n];
                plain(m, n, v, g, below(self.values, key).transposed()).run_here(slopes, Onto::Nothing);
                slope_rows(shares, slopes, self.masked(block), &norms[2 * first..], sums);
                let (p, d) = (row_major(shares, n), row_major(slopes, n));
                let onto = if first > 0 || self.causal { Onto::Result } else { Onto::Nothing };
                plain(n, v, m, p.transposed(), g).run_here(&mut dv[key * v..][..n * v], onto);
                let scale = T::of(self.scale);
                let into_k = Product { scale, ..plain(n, e, m, d.transposed(), q) };
                into_k.run_here(&mut dk[key * e..][..n * e], onto);
                let onto = if key > 0 { Onto::Result } else { Onto::Nothing };
                let into_q = Product { scale, ..plain(m, e, n, d, below(self.keys, key)) };
                into_q.run_here(&mut dq[first * e..][..m * e], onto);
            }
        }
    }
}

/// A matrix from a row on.
fn below<T>(m: Matrix<'_, T>, row: usize) -> Matrix<'_, T> {
    Matrix { start: (m.start as isize + row as isize * m.row_step) as usize, ..m }
}

/// How rows of scores are masked.
#[derive(Clone, Copy)]
struct Masked<'a, T> {
    /// from the first row's first score on
    mask: MaskRows<'a, T>,
    /// from one row of the mask to the next
    step: usize,
    /// scores of a row
    cols: usize,
    /// if not all, how many scores of the first row count; one more in each further row
    seen: Option<isize>,
}

impl<T: RowFloat> Masked<'_, T> {
    /// How many scores of a row count.
    #[inline(always)]
    fn live(&self, row: usize) -> usize {
        match self.seen {
            Some(seen) => (seen + row as isize).clamp(0, self.cols as isize) as usize,
            None => self.cols,
        }
    }

    /// Masks the scores of a row that count.
    #[inline(always)]
    fn put_on(&self, row: usize, x: &mut [T]) {
        match self.mask {
            MaskRows::None => {}
            MaskRows::Truth(m) => {
                let m = &m[row * self.step..][..x.len()];
                for i in 0..x.len() {
                    x[i] = x[i] + T::of(if m[i] { 0.0 } else { f64::NEG_INFINITY });
                }
            }
            MaskRows::Added(m) => {
                let m = &m[row * self.step..][..x.len()];
                for i in 0..x.len() {
                    x[i] = x[i] + m[i];
                }
            }
        }
    }
}

/// What lies behind a row of scores, which is as long as whole lanes while it is worked on; there are [`FEW_LANES`] elements at least.
#[inline(always)]
fn put_aside<T: RowFloat>(row: &[T], cols: usize, whole: usize) -> [T; FEW_LANES] {
    let mut aside = [T::of(0.0); FEW_LANES];
    if cols < whole {
        aside[..whole - cols].copy_from_slice(&row[cols..whole]);
    }
    aside
}

/// Puts it back, and zeros in place of scores that do not count. These are not written before all is read: a vector that is read
/// just after parts of it were written waits for these.
#[inline(always)]
fn put_back<T: RowFloat>(row: &mut [T], aside: [T; FEW_LANES], cols: usize, live: usize) {
    let whole = live.next_multiple_of(FEW_LANES);
    if cols < whole {
        row[cols..whole].copy_from_slice(&aside[..whole - cols]);
    }
    row[live..cols].fill(T::of(0.0));
}

door! {
    /// Masks scores and raises e to what they are above the largest of their row so far; `norms` holds that and the sum. The results
    /// of the keys before, if there were any, shrink as the largest grows.
    fn raise_rows[T: RowFloat][T](scores: &mut [T], masked: Masked<'_, T>, norms: &mut [T], before: Option<&mut [T]>);
    body raise_rows_body
}
#[inline(always)]
fn raise_rows_body<const FMA: bool, T: RowFloat>(
    scores: &mut [T],
    masked: Masked<'_, T>,
    norms: &mut [T],
    mut before: Option<&mut [T]>,
) {
    let (none, cols) = (T::of(f64::NEG_INFINITY), masked.cols);
    let (norms, _) = norms.as_chunks_mut::<2>();
    let rows = norms.len();
    for (row, [most, sum]) in norms.iter_mut().enumerate() {
        let live = masked.live(row);
        if before.is_none() {
            (*most, *sum) = (none, T::of(0.0));
        }
        let scores = &mut scores[row * cols..];
        let whole = live.next_multiple_of(FEW_LANES);
        let aside = put_aside(scores, cols, whole);
        let x = &mut scores[..whole];
        masked.put_on(row, &mut x[..live]);
        let block = largest_within(&x[..live]);
        if block == none && x[..live].iter().all(|&v| v == none) {
            x.fill(T::of(0.0));
        } else {
            let m = if block > *most { block } else { *most };
            if let Some(before) = &mut before
                && m != *most
            {
                let factor = (Lane::<T, FMA>(*most) - Lane(m)).exp().0;
                let width = before.len() / rows;
                for v in &mut before[row * width..][..width] {
                    *v = *v * factor;
                }
                *sum = *sum * factor;
            }
            for v in x.iter_mut() {
                *v = (Lane::<T, FMA>(*v) - Lane(m)).exp().0;
            }
            (*most, *sum) = (m, *sum + sum_within(&x[..live]));
        }
        put_back(scores, aside, cols, live);
    }
}

door! {
    /// Makes results of the sums of their rows, and reciprocals of the sums of exponentials. Where no key is seen, both are zero.
    fn share_rows[T: RowFloat][T](out: &mut [T], norms: &mut [T]);
    body share_rows_body
}
#[inline(always)]
fn share_rows_body<const FMA: bool, T: RowFloat>(out: &mut [T], norms: &mut [T]) {
    let (norms, _) = norms.as_chunks_mut::<2>();
    let width = out.len() / norms.len();
    for (row, [most, sum]) in norms.iter_mut().enumerate() {
        let unseen = *sum == T::of(0.0);
        let share = if unseen { T::of(0.0) } else { T::of(1.0) / *sum };
        for v in &mut out[row * width..][..width] {
            *v = *v * share;
        }
        (*most, *sum) = (if unseen { T::of(0.0) } else { *most }, share);
    }
}

door! {
    /// The sum of the products of the elements of each row of two matrices.
    fn dot_rows[T: RowFloat][T](a: Matrix<'_, T>, b: Matrix<'_, T>, cols: usize, sums: &mut [T]);
    body dot_rows_body
}
#[inline(always)]
fn dot_rows_body<const FMA: bool, T: RowFloat>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    cols: usize,
    sums: &mut [T],
) {
    let mut scratch = [T::of(0.0); RUN];
    for (row, sum) in sums.iter_mut().enumerate() {
        let (a, b) = (below(a, row), below(b, row));
        if a.col_step == 1 && b.col_step == 1 {
            *sum = sum_of_products(&a.data[a.start..][..cols], &b.data[b.start..][..cols], &mut scratch);
            continue;
        }
        let mut wide = T::Sum::START;
        for from in (0..cols).step_by(RUN) {
            let products = &mut scratch[..(cols - from).min(RUN)];
            for (i, o) in products.iter_mut().enumerate() {
                let at = |m: &Matrix<'_, T>| m.start as isize + (from + i) as isize * m.col_step;
                *o = a.data[at(&a) as usize] * b.data[at(&b) as usize];
            }
            wide = add_run(wide, products);
        }
        *sum = T::Sum::finish(wide);
    }
}

/// The sum of the products of the elements of two rows.
#[inline(always)]
fn sum_of_products<T: RowFloat>(a: &[T], b: &[T], scratch: &mut [T; RUN]) -> T {
    let mut wide = T::Sum::START;
    for (a, b) in a.chunks(RUN).zip(b.chunks(RUN)) {
        for ((o, &a), &b) in scratch.iter_mut().zip(a).zip(b) {
            *o = a * b;
        }
        wide = add_run(wide, &scratch[..a.len()]);
    }
    T::Sum::finish(wide)
}

door! {
    /// Makes shares of scores, and of the gradients `d` of shares `p` those of the scores: `p (d - sum(p d))`.
    fn slope_rows[T: RowFloat][T](scores: &mut [T], slopes: &mut [T], masked: Masked<'_, T>, norms: &[T], sums: Option<&[T]>);
    body slope_rows_body
}
#[inline(always)]
fn slope_rows_body<const FMA: bool, T: RowFloat>(
    scores: &mut [T],
    slopes: &mut [T],
    masked: Masked<'_, T>,
    norms: &[T],
    sums: Option<&[T]>,
) {
    let cols = masked.cols;
    let mut scratch = [T::of(0.0); RUN];
    let rows = slopes.chunks_exact_mut(cols).zip(norms.as_chunks::<2>().0);
    for (row, (d, &[most, share])) in rows.enumerate() {
        let live = masked.live(row);
        let scores = &mut scores[row * cols..];
        let whole = live.next_multiple_of(FEW_LANES);
        let aside = put_aside(scores, cols, whole);
        let x = &mut scores[..whole];
        masked.put_on(row, &mut x[..live]);
        for v in x.iter_mut() {
            *v = (Lane::<T, FMA>(*v) - Lane(most)).exp().0 * share;
        }
        let sum =
            sums.map_or_else(|| sum_of_products(&x[..live], &d[..live], &mut scratch), |sums| sums[row]);
        for (d, &p) in d.iter_mut().zip(&x[..live]) {
            *d = p * (*d - sum);
        }
        put_back(scores, aside, cols, live);
        d[live..].fill(T::of(0.0));
    }
}
