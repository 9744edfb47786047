//! Folds of columns: tables whose rows are folded into each other, into wide accumulators or straight to results.

use std::ops::Range;

use super::doors::door;
use super::each;
use super::folds::{Aligned, FEW_LANES, Table, fill_lanes};
use super::lane::fold_lanes;
use super::level::{Level, level};
use crate::dtype::{Block, BlockMut, Element};
use crate::task::{Accumulator, LANES, ROWS, Reducer};

door! {
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

door! {
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
