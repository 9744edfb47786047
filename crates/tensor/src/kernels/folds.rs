//! The doors of a fold: whole blocks of rows, which may lie apart, folded into wide accumulators in one call.

use std::ops::Range;

use super::each;
use super::lane::fold_lanes;
use super::level::{Level, level};
use super::short_rows::{fold_rows, fold_rows_body};
use crate::dtype::{Block, BlockMut, DType, Element};
use crate::task::{Accumulator, LANES, ROWS, Reducer};

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
    pub(super) fn run(&self) -> &'a [T] {
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
    if step != 0 && table.cols <= leaf {
        let mut leaves = [R::IDENTITY; LANES];
        for top in (0..table.rows).step_by(LANES) {
            let rows = LANES.min(table.rows - top);
            let start = table.start + top as isize * table.step;
            let some = Table { start, rows, ..table };
            if FMA {
                fold_rows::<R>(&mut leaves, some)
            } else {
                fold_rows_body::<FMA, R>(&mut leaves, some)
            }
            for (k, &leaf) in leaves[..rows].iter().enumerate() {
                let acc = &mut wide[(top + k) * step];
                *acc = R::merge(*acc, R::lift(leaf));
            }
        }
        return;
    }
    for i in 0..table.rows {
        let mut acc = wide[i * step];
        for run in table.row(i).chunks(leaf) {
            acc = R::merge(acc, R::lift(fold_run(run, R::IDENTITY, R::combine)));
        }
        wide[i * step] = acc;
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
    fold_last(last_lanes(x, of, identity, combine), combine)
}

/// Elements of a run from which on all lanes are filled before they are folded.
pub(super) const MEDIUM: usize = 4 * LANES;

/// The last four lanes of a run that is no shorter than there are lanes.
#[inline(always)]
fn last_lanes<T: Element>(
    x: &[T],
    of: impl Fn(T) -> T + Copy,
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> [T; 4] {
    let (blocks, rest) = if x.len() < MEDIUM { (&[][..], x) } else { x.as_chunks::<LANES>() };
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
    lanes_of_rest(lanes, rest, of, combine)
}

/// Folds what is left behind whole blocks of lanes, and the lanes.
#[inline(always)]
pub(super) fn fold_rest<T: Element>(
    lanes: &mut [T; FEW_LANES],
    rest: &[T],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) -> T {
    fold_last(lanes_of_rest(lanes, rest, of, combine), combine)
}

/// Folds the last lanes: hidden from the compiler, which would else take all lanes in pairs to suit the tree's root, a quarter of a row of 64; and
/// those of either half by themselves, as it would compare two pairs at once, for lack of a smaller vector, and jump to choose the larger of each.
#[inline(always)]
fn fold_last<T: Copy>(lanes: [T; 4], combine: impl Fn(T, T) -> T + Copy) -> T {
    let ([a, _, c, _], [_, b, _, d]) = (std::hint::black_box(lanes), std::hint::black_box(lanes));
    combine(combine(a, c), combine(b, d))
}

#[inline(always)]
fn lanes_of_rest<T: Element>(
    lanes: &mut [T; FEW_LANES],
    rest: &[T],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) -> [T; 4] {
    let (ones, mut rest) = rest.as_chunks::<FEW_LANES>();
    for c in ones {
        fold_into(lanes, c, of, combine);
    }
    fold_piece::<T, 8>(lanes, &mut rest, of, combine);
    fold_piece::<T, 4>(lanes, &mut rest, of, combine);
    fold_piece::<T, 2>(lanes, &mut rest, of, combine);
    fold_piece::<T, 1>(lanes, &mut rest, of, combine);
    quarter(lanes, |v| v, combine)
}

/// Folds blocks of lanes, a quarter of which are left.
#[inline(always)]
fn fold_blocks<T: Element>(
    blocks: &[[T; LANES]],
    of: impl Fn(T) -> T + Copy,
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> [T; FEW_LANES] {
    let ([a, b, c, d], _) = fill_lanes::<T, 4>(blocks.as_flattened(), LANES, of, identity, combine);
    let mut few = Aligned([identity; FEW_LANES]);
    for k in 0..FEW_LANES {
        few.0[k] = fold_lanes([a[k], b[k], c[k], d[k]], combine);
    }
    // Hidden as the lanes before the last tree are.
    std::hint::black_box(few).0
}

/// Folds something of each element of blocks that begin `step` apart into lanes, of which `B` quarters are filled, as long as there are
/// whole blocks. Gives the lanes, and where the next block would begin.
///
/// Memory is read from front to back: to a processor that reads ahead, four lines that lie apart are no stream (16 MB in the
/// last-level cache take up to twice as long, f64 beyond huge pages six times). The lanes are four arrays of a few, which the
/// compiler keeps in registers: from memory each block waits for the lanes that the one before has stored.
#[inline(always)]
fn fill_lanes<T: Element, const B: usize>(
    x: &[T],
    step: usize,
    of: impl Fn(T) -> T + Copy,
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> ([[T; FEW_LANES]; 4], usize) {
    const { assert!(B == 3 || B == 4) }
    let mut all = [[identity; FEW_LANES]; 4];
    let [a, b, c, d] = &mut all;
    let mut at = 0;
    while let Some(block) = x.get(at..at + B * FEW_LANES) {
        let (x, _) = block.as_chunks::<FEW_LANES>();
        fold_into(a, &x[0], of, combine);
        fold_into(b, &x[1], of, combine);
        fold_into(c, &x[2], of, combine);
        if B == 4 {
            fold_into(d, &x[B - 1], of, combine);
        }
        at += step;
    }
    (all, at)
}

/// Folds something of each of a few elements into the lane of its own.
#[inline(always)]
pub(super) fn fold_into<T: Copy, const N: usize>(
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
    /// Folds each column of tables of so many rows, which follow each other, into the accumulator of its own, by leaves of so many rows.
    /// Where several rows go abreast, the table is a run.
    pub(crate) fn fold_columns[R: Reducer][R](wide: &mut [R::Acc], tables: Table<&[R::T]>, height: usize, leaf: [usize; 2]);
    body fold_columns_body
}
#[inline(always)]
pub(crate) fn fold_columns_body<const FMA: bool, R: Reducer>(
    wide: &mut [R::Acc],
    tables: Table<&[R::T]>,
    height: usize,
    [rows, abreast]: [usize; 2],
) {
    for (nr, wide) in wide.chunks_exact_mut(tables.cols).take(tables.rows / height).enumerate() {
        let start = tables.start + (nr * height) as isize * tables.step;
        let table = Table { start, rows: height, ..tables };
        if abreast > 1 {
            debug_assert!(table.is_run());
            for run in table.run().chunks(rows * table.cols) {
                add_abreast::<R>(wide, run, abreast * table.cols);
            }
        } else {
            add_leaves::<R>(wide, table);
        }
    }
}

/// Bytes from the first row of a strip to its last: few enough that the rows stay in the first-level cache, in places of their own.
const STRIP_REACH: usize = 16 << 10;

/// The columns of a table by leaves of [`ROWS`] rows.
///
/// Accumulators that are elements, such as the largest, stay in registers for several leaves of a strip of columns: where they are in memory,
/// the compiler stores the elements that are larger, one by one, and `max` of columns takes up to twice as long.
#[inline(always)]
fn add_leaves<R: Reducer>(wide: &mut [R::Acc], table: Table<&[R::T]>) {
    if size_of::<R::Acc>() > size_of::<Part<R>>() && table.rows >= MANY_LEAVES * ROWS {
        return add_apart::<R>(wide, table);
    }
    let is_wide = size_of::<R::Acc>() > size_of::<R::T>() && size_of::<R::Acc>() <= 8;
    let is_narrow = is_wide && table.cols <= LANES && table.rows >= MANY_LEAVES * ROWS;
    let mut i = match table.cols {
        ..=THREE_QUARTERS if is_narrow => add_narrow::<R, THREE_QUARTERS>(wide, table),
        _ if is_narrow => add_narrow::<R, LANES>(wide, table),
        _ => 0,
    };
    let most = STRIP_REACH / size_of::<R::T>() / table.step.unsigned_abs().max(1) / ROWS * ROWS;
    while size_of::<R::Acc>() == size_of::<R::T>() && i + ROWS <= table.rows {
        let rows = i..table.rows.min(i + most.max(ROWS)) / ROWS * ROWS;
        let left = add_strips::<R, 32>(wide, table, rows.clone(), 0);
        let left = add_strips::<R, 8>(wide, table, rows.clone(), left);
        if left < table.cols {
            for i in rows.clone().step_by(ROWS) {
                add_leaf::<R>(wide, table, i, left);
            }
        }
        i = rows.end;
    }
    while i + ROWS <= table.rows {
        add_leaf::<R>(wide, table, i, 0);
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

/// Lanes of columns that are three quarters of all at most.
const THREE_QUARTERS: usize = 3 * FEW_LANES;

/// Leaves from which on accumulators of narrow tables are worth being brought to their lanes and back.
const MANY_LEAVES: usize = 8;

/// Whole leaves of a table of at most `W` columns, in accumulators that stay in registers, or where lines of the cache begin. Those beyond the
/// columns get what is in the next rows, and are left alone. Gives how many rows it added: the last ones may reach beyond the data.
///
/// Memory is read from front to back, and no column is left over: sums of 33 to 64 columns take 0.62 to 0.77 of the time,
/// with AVX2 0.77 to 0.96.
#[inline(always)]
fn add_narrow<R: Reducer, const W: usize>(wide: &mut [R::Acc], table: Table<&[R::T]>) -> usize {
    let mut own = Aligned([R::START; W]);
    own.0[..table.cols].copy_from_slice(wide);
    let mut i = 0;
    while i + ROWS <= table.rows {
        let lanes = |q: usize| {
            let start = (table.start + (i + q) as isize * table.step) as usize;
            table.data.get(start..)?.first_chunk::<W>()
        };
        let (Some(a), Some(b), Some(c), Some(d)) = (lanes(0), lanes(1), lanes(2), lanes(3)) else { break };
        for k in 0..W {
            let leaf = fold_lanes([a[k], b[k], c[k], d[k]], R::combine);
            own.0[k] = R::merge(own.0[k], R::lift(leaf));
        }
        i += ROWS;
    }
    wide.copy_from_slice(&own.0[..table.cols]);
    i
}

/// A leaf of the columns from one on.
#[inline(always)]
fn add_leaf<R: Reducer>(wide: &mut [R::Acc], table: Table<&[R::T]>, i: usize, left: usize) {
    add_rows::<R, ROWS>(&mut wide[left..], each(&[][..], |k| &table.row(i + k)[left..]));
}

/// Strips of `W` columns, from one on, of some rows: whole leaves. Gives the first column that is left.
#[inline(always)]
fn add_strips<R: Reducer, const W: usize>(
    wide: &mut [R::Acc],
    table: Table<&[R::T]>,
    rows: Range<usize>,
    mut left: usize,
) -> usize {
    while let Some(wide) = wide[left..].first_chunk_mut::<W>() {
        let mut own = *wide;
        for i in rows.clone().step_by(ROWS) {
            add_to_each::<R, ROWS, W>(&mut own, each(&[][..], |k| &table.row(i + k)[left..][..W]));
        }
        *wide = own;
        left += W;
    }
    left
}

/// The columns of a leaf of short rows, in lanes for a number of whole rows, and a tree over the rows of these.
#[inline(always)]
fn add_abreast<R: Reducer>(wide: &mut [R::Acc], run: &[R::T], mut width: usize) {
    // Lanes beyond the width get what is in the next rows, too, and are left alone.
    let (all, done) = if width <= 3 * FEW_LANES {
        fill_lanes::<_, 3>(run, width, |v| v, R::IDENTITY, R::combine)
    } else {
        fill_lanes::<_, 4>(run, width, |v| v, R::IDENTITY, R::combine)
    };
    let mut all = std::hint::black_box(Aligned(all)).0;
    let lanes = &mut all.as_flattened_mut()[..width];
    for chunk in run[done..].chunks(width) {
        for (lane, &v) in lanes.iter_mut().zip(chunk) {
            *lane = R::combine(*lane, v);
        }
    }
    // To and fro: where the larger element is kept in its place, the compiler stores under a mask (with AVX2 nearly half of `max` of 7 columns).
    let mut other = [R::IDENTITY; LANES];
    let (mut from, mut to) = (lanes, &mut other[..]);
    while width > wide.len() {
        width /= 2;
        let (lower, upper) = from[..2 * width].split_at(width);
        for ((v, &a), &b) in to.iter_mut().zip(lower).zip(upper) {
            *v = R::combine(a, b);
        }
        std::mem::swap(&mut from, &mut to);
    }
    for (w, &v) in wide.iter_mut().zip(&*from) {
        *w = R::merge(*w, R::lift(v));
    }
}

/// Some rows, column by column. Accumulators that are elements are hidden from the compiler before they are stored, see [`add_leaves`]: `max` of
/// two rows of 32,768 elements takes a third of the time with AVX2.
#[inline(always)]
fn add_rows<R: Reducer, const N: usize>(wide: &mut [R::Acc], rows: [&[R::T]; N]) {
    let n = wide.len();
    let rows: [&[R::T]; N] = each(&[][..], |k| &rows[k][..n]);
    let merged =
        |acc: R::Acc, column: [R::T; N]| R::merge(acc, R::lift(fold_lanes::<_, N>(column, R::combine)));
    let mut done = 0;
    if size_of::<R::Acc>() == size_of::<R::T>() {
        for wide in wide.as_chunks_mut::<FEW_LANES>().0 {
            let lines = rows.map(|row| row[done..].first_chunk::<FEW_LANES>().expect("rows are as long"));
            let mut own = *wide;
            for k in 0..FEW_LANES {
                own[k] = merged(own[k], each(R::IDENTITY, |i| lines[i][k]));
            }
            *wide = std::hint::black_box(own);
            done += FEW_LANES;
        }
    }
    for j in done..n {
        wide[j] = merged(wide[j], each(R::IDENTITY, |i| rows[i][j]));
    }
}

/// The results of columns, for [`Reducer::OF_COLUMNS`].
pub(crate) fn results_of_columns<R: Reducer>(
    out: BlockMut<'_>,
    tables: Table<Block<'_>>,
    height: usize,
    onto: bool,
) {
    let out = R::T::slice_mut(out).expect("results are of the folding's type");
    fold_columns_to::<R>(out, tables.typed(), height, onto);
}

/// Columns whose accumulators stay in the first-level cache beside their elements.
const STRIP_COLUMNS: usize = 256;

super::doors::door! {
    /// The results of the columns of tables of so many rows, by leaves of [`ROWS`] rows; onto what is there if so.
    ///
    /// A strip of columns at a time, whose accumulators are read no more when it is done: they are in registers where they are elements, and lie with their parts
    /// apart elsewhere. Of at most 16 rows, where the accumulators
    /// are more than the elements, sums take 0.67 to 0.93 of the time of accumulators for all, in `f64` of any number of rows 0.45 to 0.65 (Zen 3).
    fn fold_columns_to[R: Reducer][R](out: &mut [R::T], tables: Table<&[R::T]>, height: usize, onto: bool);
    body fold_columns_to_body
}
#[inline(always)]
fn fold_columns_to_body<const FMA: bool, R: Reducer>(
    out: &mut [R::T],
    tables: Table<&[R::T]>,
    height: usize,
    onto: bool,
) {
    let [mut first, mut second] = R::START.parts().map(|part| [part; STRIP_COLUMNS]);
    for (nr, out) in out.chunks_exact_mut(tables.cols).enumerate() {
        let start = tables.start + (nr * height) as isize * tables.step;
        let table = Table { start, rows: height, ..tables };
        let mut left = 0;
        if size_of::<R::Acc>() == size_of::<R::T>() {
            left = fold_strips_to::<R, 32>(out, table, left, onto);
            left = fold_strips_to::<R, 8>(out, table, left, onto);
        }
        while left < out.len() {
            let n = STRIP_COLUMNS.min(out.len() - left);
            let [first, second] = add_strip::<R>([&mut first[..n], &mut second[..n]], table, left);
            for (k, out) in out[left..][..n].iter_mut().enumerate() {
                put::<R>(R::Acc::of_parts([first[k], second[k]]), out, onto);
                [first[k], second[k]] = R::START.parts();
            }
            left += n;
        }
    }
}

/// What an accumulator amounts to, in its place.
#[inline(always)]
fn put<R: Reducer>(acc: R::Acc, out: &mut R::T, onto: bool) {
    let v = R::finish(acc);
    *out = if onto { R::combine(*out, v) } else { v };
}

/// The results of strips of `W` columns, from one on, whose accumulators stay in registers. Gives the first column that is left.
#[inline(always)]
fn fold_strips_to<R: Reducer, const W: usize>(
    out: &mut [R::T],
    table: Table<&[R::T]>,
    mut left: usize,
    onto: bool,
) -> usize {
    while let Some(out) = out[left..].first_chunk_mut::<W>() {
        let mut own = [R::START; W];
        let row = |i: usize| &table.row(i)[left..][..W];
        let mut i = 0;
        while i + ROWS <= table.rows {
            add_to_each::<R, ROWS, W>(&mut own, each(&[][..], |k| row(i + k)));
            i += ROWS;
        }
        if i + 2 <= table.rows {
            add_to_each::<R, 2, W>(&mut own, [row(i), row(i + 1)]);
            i += 2;
        }
        if i < table.rows {
            add_to_each::<R, 1, W>(&mut own, [row(i)]);
        }
        for k in 0..W {
            put::<R>(own[k], &mut out[k], onto);
        }
        left += W;
    }
    left
}

/// Some rows, column by column, into as many accumulators.
#[inline(always)]
fn add_to_each<R: Reducer, const N: usize, const W: usize>(own: &mut [R::Acc; W], rows: [&[R::T]; N]) {
    for k in 0..W {
        let leaf = fold_lanes::<_, N>(each(R::IDENTITY, |i| rows[i][k]), R::combine);
        own[k] = R::merge(own[k], R::lift(leaf));
    }
}

/// The columns of a table, a strip at a time, whose accumulators are taken apart meanwhile: so are the sums of segments in `f64`.
#[inline(always)]
fn add_apart<R: Reducer>(wide: &mut [R::Acc], table: Table<&[R::T]>) {
    let [mut first, mut second] = R::START.parts().map(|part| [part; STRIP_COLUMNS]);
    for (nr, wide) in wide.chunks_mut(STRIP_COLUMNS).enumerate() {
        let (first, second) = (&mut first[..wide.len()], &mut second[..wide.len()]);
        for (k, own) in wide.iter().enumerate() {
            [first[k], second[k]] = own.parts();
        }
        let [first, second] = add_strip::<R>([first, second], table, nr * STRIP_COLUMNS);
        for (k, own) in wide.iter_mut().enumerate() {
            *own = R::Acc::of_parts([first[k], second[k]]);
        }
    }
}

/// The leaves of a strip of columns, from one on, into accumulators whose parts lie apart.
#[inline(always)]
fn add_strip<'p, R: Reducer>(
    [first, second]: [&'p mut [Part<R>]; 2],
    table: Table<&[R::T]>,
    left: usize,
) -> [&'p mut [Part<R>]; 2] {
    let n = first.len();
    let row = |i: usize| &table.row(i)[left..][..n];
    let mut i = 0;
    while i + ROWS <= table.rows {
        add_to_parts::<R, ROWS>([first, second], each(&[][..], |k| row(i + k)));
        i += ROWS;
    }
    if i + 2 <= table.rows {
        add_to_parts::<R, 2>([first, second], [row(i), row(i + 1)]);
        i += 2;
    }
    if i < table.rows {
        add_to_parts::<R, 1>([first, second], [row(i)]);
    }
    [first, second]
}

/// A number of an accumulator.
type Part<R> = <<R as Reducer>::Acc as Accumulator>::Part;

/// Some rows, column by column, into accumulators whose parts lie apart.
#[inline(always)]
fn add_to_parts<R: Reducer, const N: usize>([first, second]: [&mut [Part<R>]; 2], rows: [&[R::T]; N]) {
    let n = first.len();
    let (second, rows): (&mut [_], [&[R::T]; N]) = (&mut second[..n], each(&[][..], |k| &rows[k][..n]));
    for j in 0..n {
        let leaf = fold_lanes::<_, N>(each(R::IDENTITY, |k| rows[k][j]), R::combine);
        [first[j], second[j]] = R::merge(R::Acc::of_parts([first[j], second[j]]), R::lift(leaf)).parts();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{FirstSums, Max, Min};

    fn larger(a: f32, b: f32) -> f32 {
        if a.is_nan() || a > b { a } else { b }
    }

    /// Columns of every kind, with NaN among them, against one number after another; zeros of both signs are equal.
    #[test]
    fn largest_of_columns() {
        let number = |i: usize| match i.wrapping_mul(2_654_435_761) >> 9 & 1023 {
            0 => f32::NAN,
            1..9 => -0.0,
            9..17 => 0.0,
            k => k as f32 - 500.0,
        };
        for cols in [1usize, 2, 3, 7, 8, 16, 17, 24, 31, 32, 33, 40, 63, 64, 100, 1024, 1100] {
            for (rows, tables) in [(1, 1), (3, 2), (4, 1), (7, 3), (64, 2), (301, 1)] {
                let data: Vec<f32> = (0..rows * cols * tables).map(number).collect();
                let FirstSums::Rows { rows: leaf, abreast } = FirstSums::of_columns(cols) else {
                    unreachable!()
                };
                let table =
                    Table { data: &data[..], start: 0, rows: rows * tables, step: cols as isize, cols };
                let column = |c: usize, sign: f32| {
                    let (nr, c) = (c / cols, c % cols);
                    let of = (0..rows).map(|r| sign * data[(nr * rows + r) * cols + c]);
                    sign * of.fold(f32::NEG_INFINITY, larger)
                };
                let max = [fold_columns::<Max<f32>>, fold_columns_body::<false, Max<f32>>];
                let min = [fold_columns::<Min<f32>>, fold_columns_body::<false, Min<f32>>];
                for (max, min) in max.into_iter().zip(min) {
                    let (mut largest, mut smallest) =
                        (vec![f32::NEG_INFINITY; cols * tables], vec![f32::INFINITY; cols * tables]);
                    max(&mut largest, table, rows, [leaf, abreast]);
                    min(&mut smallest, table, rows, [leaf, abreast]);
                    for c in 0..cols * tables {
                        for (found, want) in [(largest[c], column(c, 1.0)), (smallest[c], column(c, -1.0))] {
                            assert!(
                                found == want || found.is_nan() && want.is_nan(),
                                "{rows} rows of {cols}: {found} for {want}"
                            );
                        }
                    }
                }
            }
        }
    }
}
