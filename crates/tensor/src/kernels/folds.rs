//! The doors of a fold: whole blocks of rows, which may lie apart, folded into wide accumulators in one call.

use super::each;
use super::lane::fold_lanes;
use super::level::{Level, level};
use crate::dtype::{Block, DType, Element};
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

impl<'a> Table<Block<'a>> {
    /// The same with the elements of this type.
    #[inline]
    pub(crate) fn typed<T: Element>(&self) -> Table<&'a [T]> {
        let data = T::slice(self.data).expect("elements are of the loop's type");
        Table { data, start: self.start, rows: self.rows, step: self.step, cols: self.cols }
    }
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
    body fold_lines_body narrow
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
            acc = R::merge(acc, R::lift(fold_run(run, R::IDENTITY, R::combine)));
        }
        wide[i * step] = acc;
    }
}

/// Rows of a few elements, each into the next accumulator.
#[inline(always)]
fn fold_short_lines<R: Reducer, const N: usize>(wide: &mut [R::Acc], run: &[R::T]) {
    for (acc, row) in wide.iter_mut().zip(run.as_chunks::<N>().0) {
        *acc = R::merge(*acc, R::lift(fold_run(row, R::IDENTITY, R::combine)));
    }
}

/// Elements that no line of the cache divides: sums over rows of 256 take more than twice as long where the stack lies otherwise.
#[repr(align(64))]
pub(super) struct Aligned<T>(pub(super) T);

/// Lanes that are left before the tree.
pub(super) const FEW_LANES: usize = LANES / 4;

/// Folds a contiguous run into one element: lanes first, then a tree over the lanes.
#[inline(always)]
pub(super) fn fold_run<T: Element>(x: &[T], identity: T, combine: impl Fn(T, T) -> T + Copy) -> T {
    fold_run_of(x, |v| v, identity, combine)
}

/// Folds something of each element of a run, of a few instructions, as they are written out several times.
#[inline(always)]
pub(super) fn fold_run_of<T: Element>(
    x: &[T],
    of: impl Fn(T) -> T + Copy,
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> T {
    // Integers are folded alike in any order, by a loop that the compiler divides.
    if x.len() < FEW_LANES || T::DTYPE == DType::I64 {
        return x.iter().fold(identity, |a, &v| combine(a, of(v)));
    }
    let (blocks, rest) = if x.len() < 4 * LANES { (&[][..], x) } else { x.as_chunks::<LANES>() };
    let mut lanes = Aligned([identity; FEW_LANES]);
    let lanes = &mut lanes.0;
    if !blocks.is_empty() {
        *lanes = fold_blocks(blocks, of, identity, combine);
    }
    let (fours, rest) = rest.as_chunks::<LANES>();
    for c in fours {
        let c: [T; FEW_LANES] = quarter(c, of, combine);
        for k in 0..FEW_LANES {
            lanes[k] = combine(lanes[k], c[k]);
        }
    }
    fold_rest(lanes, rest, of, combine)
}

/// Folds what is left behind whole blocks of lanes, and the lanes.
#[inline(always)]
pub(super) fn fold_rest<T: Element>(
    lanes: &mut [T; FEW_LANES],
    rest: &[T],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) -> T {
    let (ones, mut rest) = rest.as_chunks::<FEW_LANES>();
    for c in ones {
        fold_into(lanes, c, of, combine);
    }
    fold_piece::<T, 8>(lanes, &mut rest, of, combine);
    fold_piece::<T, 4>(lanes, &mut rest, of, combine);
    fold_piece::<T, 2>(lanes, &mut rest, of, combine);
    fold_piece::<T, 1>(lanes, &mut rest, of, combine);
    // Hidden from the compiler, which would else take all lanes in pairs to suit the tree's root: a quarter of a row of 64.
    fold_lanes(std::hint::black_box(quarter::<T, FEW_LANES, 4>(lanes, |v| v, combine)), combine)
}

/// Folds blocks of lanes, a quarter of which are left.
///
/// Memory is read from front to back: to a processor that reads ahead, four lines that lie apart are no stream (16 MB in the
/// last-level cache take up to twice as long, f64 beyond huge pages six times). The lanes are four arrays of a few, which the
/// compiler keeps in registers: from memory each block waits for the lanes that the one before has stored.
#[inline(always)]
fn fold_blocks<T: Element>(
    blocks: &[[T; LANES]],
    of: impl Fn(T) -> T + Copy,
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> [T; FEW_LANES] {
    let mut all = [[identity; FEW_LANES]; 4];
    let [a, b, c, d] = &mut all;
    for block in blocks {
        let (x, _) = block.as_chunks::<FEW_LANES>();
        fold_into(a, &x[0], of, combine);
        fold_into(b, &x[1], of, combine);
        fold_into(c, &x[2], of, combine);
        fold_into(d, &x[3], of, combine);
    }
    let mut few = Aligned([identity; FEW_LANES]);
    for k in 0..FEW_LANES {
        few.0[k] = fold_lanes([a[k], b[k], c[k], d[k]], combine);
    }
    // Hidden as the lanes before the last tree are.
    std::hint::black_box(few).0
}

/// Folds something of each of a few elements into the lane of its own.
#[inline(always)]
fn fold_into<T: Copy, const N: usize>(
    lanes: &mut [T; FEW_LANES],
    x: &[T; N],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) {
    for k in 0..N {
        lanes[k] = combine(lanes[k], of(x[k]));
    }
}

/// Something of each lane, folded into a quarter of them.
#[inline(always)]
pub(super) fn quarter<T: Copy, const N: usize, const M: usize>(
    x: &[T; N],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) -> [T; M] {
    const { assert!(N == 4 * M) }
    let mut few = [x[0]; M];
    for k in 0..M {
        few[k] = fold_lanes([of(x[k]), of(x[k + M]), of(x[k + 2 * M]), of(x[k + 3 * M])], combine);
    }
    few
}

/// Folds something of the next `N` elements into the first lanes, if there are as many.
#[inline(always)]
fn fold_piece<T: Copy, const N: usize>(
    lanes: &mut [T; FEW_LANES],
    rest: &mut &[T],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) {
    if let Some((piece, others)) = rest.split_first_chunk::<N>() {
        fold_into(lanes, piece, of, combine);
        *rest = others;
    }
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
        let v = fold_lanes::<_, N>(each(R::IDENTITY, |k| rows[k][j]), R::combine);
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
