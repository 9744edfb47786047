//! The doors of a fold: whole blocks of rows, which may lie apart, folded into wide accumulators in one call.

use super::each;
use super::level::{Level, level};
use crate::task::{LANES, ROWS, Reducer};

/// A table of elements: rows of `cols` contiguous elements, `step` from one row to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<D> {
    pub(crate) data: D,
    pub(crate) start: isize,
    pub(crate) rows: usize,
    pub(crate) step: isize,
    pub(crate) cols: usize,
}

impl<D> Table<D> {
    /// Whether the rows follow each other without a gap.
    #[inline(always)]
    pub(crate) fn is_run(&self) -> bool {
        self.rows == 1 || self.step == self.cols as isize
    }
}

impl<'a, T> Table<&'a [T]> {
    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> &'a [T] {
        let start = (self.start + i as isize * self.step) as usize;
        &self.data[start..start + self.cols]
    }

    /// So many elements from row `i` on: those of one row, or of several where these are a run, or repeat each other in the data.
    #[inline(always)]
    pub(super) fn lines(&self, i: usize, n: usize) -> &'a [T] {
        &self.data[(self.start + i as isize * self.step) as usize..][..n]
    }

    /// All elements of a run.
    #[inline(always)]
    fn run(&self) -> &'a [T] {
        &self.data[self.start as usize..][..self.rows * self.cols]
    }
}

super::doors::door! {
    /// Folds each row of a table into the accumulator of its own, `step` apart, by leaves of so many elements. If that
    /// is 0, all into the first; if leaves are longer than rows then, the table is a run.
    pub(crate) fn fold_lines[R: Reducer][R](wide: &mut [R::Acc], step: usize, table: Table<&[R::T]>, leaf: usize);
    body fold_lines_body
}
#[inline(always)]
pub(crate) fn fold_lines_body<const FMA: bool, R: Reducer>(
    wide: &mut [R::Acc],
    step: usize,
    mut table: Table<&[R::T]>,
    leaf: usize,
) {
    if step == 0 && leaf > table.cols {
        debug_assert!(table.is_run());
        (table.cols, table.rows) = (table.cols * table.rows, 1);
    }
    if step == 1 && table.is_run() && table.cols <= leaf {
        match table.cols {
            2 => return fold_short_lines::<R, 2>(wide, table.run()),
            3 => return fold_short_lines::<R, 3>(wide, table.run()),
            4 => return fold_short_lines::<R, 4>(wide, table.run()),
            5 => return fold_short_lines::<R, 5>(wide, table.run()),
            6 => return fold_short_lines::<R, 6>(wide, table.run()),
            7 => return fold_short_lines::<R, 7>(wide, table.run()),
            8 => return fold_short_lines::<R, 8>(wide, table.run()),
            _ => {}
        }
    }
    for i in 0..table.rows {
        let mut acc = wide[i * step];
        for run in table.row(i).chunks(leaf) {
            acc = R::merge(acc, R::lift(fold_run::<R>(run)));
        }
        wide[i * step] = acc;
    }
}

/// Rows of a few elements, each into the next accumulator.
#[inline(always)]
fn fold_short_lines<R: Reducer, const N: usize>(wide: &mut [R::Acc], run: &[R::T]) {
    for (acc, row) in wide.iter_mut().zip(run.as_chunks::<N>().0) {
        *acc = R::merge(*acc, R::lift(fold_run::<R>(row)));
    }
}

/// Lanes that no line of the cache divides: a sum over rows of 256 is a third faster.
#[repr(align(64))]
struct Aligned<T>([T; LANES]);

/// Folds a contiguous run into one element: lanes first, then a tree over the lanes.
#[inline(always)]
fn fold_run<R: Reducer>(x: &[R::T]) -> R::T {
    if x.len() < 32 {
        return fold_short_run::<R, 8>(x);
    }
    if x.len() < 4 * LANES {
        return fold_short_run::<R, 16>(x);
    }
    let mut lanes = Aligned([R::IDENTITY; LANES]);
    let lanes = &mut lanes.0;
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
    // Hidden from the compiler, which would else take all lanes in pairs to suit the tree's root: 4 % of a sum in the cache.
    tree::<R, { LANES / 4 }>(*std::hint::black_box(&few))
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
        lanes = each(lanes[0], |k| R::combine(lanes[k], c[k]));
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
    /// Folds each column of a table into the accumulator of its own, by leaves of so many rows. Where several rows go
    /// abreast, the table is a run.
    pub(crate) fn fold_columns[R: Reducer][R](wide: &mut [R::Acc], table: Table<&[R::T]>, rows: usize, abreast: usize);
    body fold_columns_body
}
#[inline(always)]
pub(crate) fn fold_columns_body<const FMA: bool, R: Reducer>(
    wide: &mut [R::Acc],
    table: Table<&[R::T]>,
    rows: usize,
    abreast: usize,
) {
    let wide = &mut wide[..table.cols];
    if abreast > 1 {
        debug_assert!(table.is_run());
        for run in table.run().chunks(rows * table.cols) {
            add_abreast::<R>(wide, run, abreast * table.cols);
        }
        return;
    }
    let mut i = 0;
    while i + ROWS <= table.rows {
        add_rows::<R, ROWS>(wide, each(&[][..], |k| table.row(i + k)));
        i += ROWS;
    }
    while i + 2 <= table.rows {
        add_rows::<R, 2>(wide, [table.row(i), table.row(i + 1)]);
        i += 2;
    }
    if i < table.rows {
        add_rows::<R, 1>(wide, [table.row(i)]);
    }
}

/// The columns of a leaf of short rows, in lanes for a number of whole rows, and a tree over the rows of these.
#[inline(always)]
fn add_abreast<R: Reducer>(wide: &mut [R::Acc], run: &[R::T], mut width: usize) {
    let mut all = [R::IDENTITY; LANES];
    let lanes = &mut all[..width];
    let chunks = run.chunks_exact(width);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &v) in lanes.iter_mut().zip(chunk) {
            *lane = R::combine(*lane, v);
        }
    }
    for (lane, &v) in lanes.iter_mut().zip(rest) {
        *lane = R::combine(*lane, v);
    }
    while width > wide.len() {
        width /= 2;
        let (lower, upper) = lanes.split_at_mut(width);
        for (a, &b) in lower.iter_mut().zip(&*upper) {
            *a = R::combine(*a, b);
        }
    }
    for (w, &v) in wide.iter_mut().zip(&*lanes) {
        *w = R::merge(*w, R::lift(v));
    }
}

#[inline(always)]
fn add_rows<R: Reducer, const N: usize>(wide: &mut [R::Acc], rows: [&[R::T]; N]) {
    let n = wide.len();
    let rows: [&[R::T]; N] = each(&[][..], |k| &rows[k][..n]);
    for j in 0..n {
        let v = tree::<R, N>(each(R::IDENTITY, |k| rows[k][j]));
        wide[j] = R::merge(wide[j], R::lift(v));
    }
}

super::doors::door! {
    /// Merges the accumulators of one part into those of the whole.
    pub(crate) fn merge_wide[R: Reducer][R](wide: &mut [R::Acc], part: &[R::Acc]);
    body merge_wide_body
}
#[inline(always)]
pub(crate) fn merge_wide_body<const FMA: bool, R: Reducer>(wide: &mut [R::Acc], part: &[R::Acc]) {
    for (w, &p) in wide.iter_mut().zip(part) {
        *w = R::merge(*w, p);
    }
}
