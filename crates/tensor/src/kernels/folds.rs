//! The doors of a fold: whole blocks of rows, which may lie apart, folded into wide accumulators in one call.

use super::level::{Level, level};
use crate::iter::Reducer;

/// A table of elements: rows of `cols` contiguous elements, `step` from one row to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) start: isize,
    pub(crate) rows: usize,
    pub(crate) step: isize,
    pub(crate) cols: usize,
}

impl<'a, T> Table<'a, T> {
    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> &'a [T] {
        let start = (self.start + i as isize * self.step) as usize;
        &self.data[start..start + self.cols]
    }

    /// Whether the rows follow each other without a gap.
    #[inline(always)]
    fn is_run(&self) -> bool {
        self.rows == 1 || self.step == self.cols as isize
    }
}

/// How many running results the loop over a contiguous run keeps, enough to hide the latency of an addition.
pub(super) const LANES: usize = 64;

/// Elements of a run that are folded in the element type before they go to the wide accumulator.
const RUN: usize = 1024;

/// Rows that are folded into each other in registers before they go to the wide accumulators.
const ABOVE: usize = 8;

super::doors::door! {
    /// Folds each row of a table into the accumulator of its own, `step` apart; all into the first if that is 0.
    pub(crate) fn fold_lines[R: Reducer][R](wide: &mut [R::Acc], step: usize, table: Table<'_, R::T>);
    body fold_lines_body
}
#[inline(always)]
fn fold_lines_body<const FMA: bool, R: Reducer>(
    wide: &mut [R::Acc],
    step: usize,
    mut table: Table<'_, R::T>,
) {
    if step == 0 && table.is_run() {
        (table.cols, table.rows) = (table.cols * table.rows, 1);
    }
    for i in 0..table.rows {
        let mut acc = wide[i * step];
        for run in table.row(i).chunks(RUN) {
            acc = R::merge(acc, R::lift(fold_run::<R>(run)));
        }
        wide[i * step] = acc;
    }
}

/// Folds a contiguous run into one element: lanes first, then a tree over the lanes.
#[inline(always)]
fn fold_run<R: Reducer>(x: &[R::T]) -> R::T {
    if x.len() < 32 {
        return fold_short_run::<R, 8>(x);
    }
    if x.len() < 4 * LANES {
        return fold_short_run::<R, 16>(x);
    }
    let mut lanes = [R::IDENTITY; LANES];
    // The lanes are in memory, since the rest is added to some of them: four elements each time they are loaded.
    let (fours, rest) = x.as_chunks::<{ 4 * LANES }>();
    for c in fours {
        for k in 0..LANES {
            let v = tree::<R, 4>([c[k], c[k + LANES], c[k + 2 * LANES], c[k + 3 * LANES]]);
            lanes[k] = R::combine(lanes[k], v);
        }
    }
    let (ones, rest) = rest.as_chunks::<LANES>();
    for c in ones {
        for k in 0..LANES {
            lanes[k] = R::combine(lanes[k], c[k]);
        }
    }
    for (lane, &v) in lanes.iter_mut().zip(rest) {
        *lane = R::combine(*lane, v);
    }
    let mut few = [R::IDENTITY; LANES / 4];
    for k in 0..LANES / 4 {
        few[k] = tree::<R, 4>([lanes[k], lanes[k + 16], lanes[k + 32], lanes[k + 48]]);
    }
    tree::<R, { LANES / 4 }>(few)
}

/// The same for short runs, with fewer lanes, which stay in registers.
#[inline(always)]
fn fold_short_run<R: Reducer, const N: usize>(x: &[R::T]) -> R::T {
    let (chunks, rest) = x.as_chunks::<N>();
    let [first, others @ ..] = chunks else {
        return x.iter().fold(R::IDENTITY, |a, &v| R::combine(a, v));
    };
    let mut lanes = *first;
    for c in others {
        lanes = std::array::from_fn(|k| R::combine(lanes[k], c[k]));
    }
    rest.iter().fold(tree::<R, N>(lanes), |a, &v| R::combine(a, v))
}

/// Folds the upper half into the lower one until one is left.
#[inline(always)]
fn tree<R: Reducer, const N: usize>(mut v: [R::T; N]) -> R::T {
    let mut width = N / 2;
    while width > 0 {
        for k in 0..width {
            v[k] = R::combine(v[k], v[k + width]);
        }
        width /= 2;
    }
    v[0]
}

super::doors::door! {
    /// Folds each column of a table into the accumulator of its own.
    pub(crate) fn fold_columns[R: Reducer][R](wide: &mut [R::Acc], table: Table<'_, R::T>);
    body fold_columns_body
}
#[inline(always)]
fn fold_columns_body<const FMA: bool, R: Reducer>(wide: &mut [R::Acc], mut table: Table<'_, R::T>) {
    let cols = table.cols;
    let wide = &mut wide[..cols];
    // Short rows are folded several abreast, so that the loop has something to work on.
    let abreast = LANES / cols.max(1);
    if abreast > 1 && table.rows >= 2 * abreast && table.is_run() {
        let rows = table.rows / abreast;
        let (mut side, width) = ([R::START; LANES], abreast * cols);
        add_columns::<R>(&mut side[..width], Table { rows, step: width as isize, cols: width, ..table });
        for side in side[..width].chunks_exact(cols) {
            for (w, &s) in wide.iter_mut().zip(side) {
                *w = R::merge(*w, s);
            }
        }
        table.start += (rows * width) as isize;
        table.rows -= rows * abreast;
    }
    add_columns::<R>(wide, table);
}

/// The columns of as many rows at a time as registers hold.
#[inline(always)]
fn add_columns<R: Reducer>(wide: &mut [R::Acc], table: Table<'_, R::T>) {
    let mut i = 0;
    while i + ABOVE <= table.rows {
        add_rows::<R, ABOVE>(wide, std::array::from_fn(|k| table.row(i + k)));
        i += ABOVE;
    }
    while i + 2 <= table.rows {
        add_rows::<R, 2>(wide, [table.row(i), table.row(i + 1)]);
        i += 2;
    }
    if i < table.rows {
        add_rows::<R, 1>(wide, [table.row(i)]);
    }
}

#[inline(always)]
fn add_rows<R: Reducer, const N: usize>(wide: &mut [R::Acc], rows: [&[R::T]; N]) {
    let n = wide.len();
    let rows = rows.map(|r| &r[..n]);
    for j in 0..n {
        let v = tree::<R, N>(std::array::from_fn(|k| rows[k][j]));
        wide[j] = R::merge(wide[j], R::lift(v));
    }
}

super::doors::door! {
    /// Merges the accumulators of one part into those of the whole.
    pub(crate) fn merge_wide[R: Reducer][R](wide: &mut [R::Acc], part: &[R::Acc]);
    body merge_wide_body
}
#[inline(always)]
fn merge_wide_body<const FMA: bool, R: Reducer>(wide: &mut [R::Acc], part: &[R::Acc]) {
    for (w, &p) in wide.iter_mut().zip(part) {
        *w = R::merge(*w, p);
    }
}
