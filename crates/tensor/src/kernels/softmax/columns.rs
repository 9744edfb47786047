//! Rows that lie across memory: planes of lines, each line with one element of every row.

use super::{RowFloat, RowFormula, larger, taken};
use crate::buffer::Room;
use crate::kernels::column_folds::fold_columns;
use crate::kernels::doors::door;
use crate::kernels::folds::Table;
use crate::kernels::lane::Lane;
use crate::kernels::lay_out::lay_out_tables;
use crate::kernels::level::{Level, level};
use crate::kernels::past_caches::Stream;
use crate::kernels::scattered::Scattered;
use crate::task::{FirstSums, RUN, Reducer, worth_streaming};
use crate::threads::{GRAIN, split_work};

/// Rows beside each other, at most: their lines are gone through several at once.
pub(crate) const MOST_COLUMNS: usize = 256;

/// Elements of rows of which more lie beside each other, at most: of 100 the copies take as long as folds do, of 1,000 1.6 to 3 times as long.
pub(crate) const MOST_LINES: usize = 32;

/// Elements of which a line of memory has one or two.
const WHOLE: usize = 16;

/// [`write_columns`] for more than [`MOST_COLUMNS`] of them: blocks of columns are copied aside, worked on there, and copied to their
/// places, by all threads, past the caches where these are too small: 500,000 rows of 9 elements take 0.8 of the time so (Zen 4). 3,200 or 250,000 rows of 7 elements take 0.67 to 0.82 of the time of folds over the whole tensor, 4,096 of 21 0.87 to 0.95.
pub(crate) fn write_wide_columns<T: RowFloat, F: RowFormula>(
    f: &F,
    a: &[T],
    b: &[T],
    [lines, cols]: [usize; 2],
    out: &mut [T],
) {
    let planes = b.len() / (lines * cols);
    let blocks = cols.div_ceil(MOST_COLUMNS - WHOLE);
    // Of like sizes, none of which is a single column, that begin where lines of memory do, if rows do.
    let start = |block: usize| if block < blocks { block * cols / blocks / WHOLE * WHOLE } else { cols };
    let wide = cols.div_ceil(blocks) + WHOLE;
    // Parts of lines would be read before they are written: 675,000 rows of 4 elements took 1.7 times as long.
    let streamed = cols.is_multiple_of(WHOLE)
        && worth_streaming(if F::TRAITS.shifted { 1 } else { 2 } * size_of_val(b), size_of_val(out));
    let [a_lines, out_lines] = [a.len(), out.len()].map(|len| len / (planes * cols));
    let out = Scattered::new(out);
    split_work(
        planes * blocks,
        (GRAIN / (lines * wide)).max(1),
        (),
        &|(), _| ((), ()),
        &|first, count, ()| {
            let [mut x, mut y, mut z]: [Room<T>; 3] =
                [a_lines, lines, out_lines].map(|lines| Room::new(lines * wide));
            let stream = streamed.then(Stream::new);
            for task in first..first + count {
                let (plane, block) = (task / blocks, task % blocks);
                let (col, n) = (start(block), start(block + 1) - start(block));
                let lay = |from: &[T], lines: usize, room: &mut [T]| {
                    for (i, line) in room[..lines * n].chunks_exact_mut(n).enumerate() {
                        line.copy_from_slice(&from[(plane * lines + i) * cols + col..][..n]);
                    }
                };
                lay(b, lines, y.as_mut_slice());
                let y = &y.as_slice()[..lines * n];
                let x = if F::TRAITS.shifted {
                    y
                } else {
                    lay(a, a_lines, x.as_mut_slice());
                    &x.as_slice()[..a_lines * n]
                };
                let z = &mut z.as_mut_slice()[..out_lines * n];
                write_columns(f, x, y, [lines, n], z);
                for (i, line) in z.chunks_exact(n).enumerate() {
                    // SAFETY: every task is handed out once, and has columns of a plane that no other task has.
                    let to = unsafe { out.part((plane * out_lines + i) * cols + col, n) };
                    match &stream {
                        Some(stream) => stream.copy(T::block(line), T::block_mut(to)),
                        None => to.copy_from_slice(line),
                    }
                }
            }
        },
    );
}

/// [`write_columns`] for small planes: as many as have [`MOST_COLUMNS`] are copied aside, line beside line, worked on there, and copied to their places. With AVX2 planes
/// of 7 by 8 and 2 by 9 take 0.3 of the time of folds over the whole tensor, of 16 by 8 to 64 by 8 0.5 to 0.7 of one by one.
pub(crate) fn write_small_planes<T: RowFloat, F: RowFormula>(
    f: &F,
    a: &[T],
    b: &[T],
    [lines, cols]: [usize; 2],
    out: &mut [T],
) {
    let planes = b.len() / (lines * cols);
    let abreast = (MOST_COLUMNS / cols).min(planes);
    let [a_lines, out_lines] = [a.len(), out.len()].map(|len| len / (planes * cols));
    let [mut x, mut y, mut z]: [Room<T>; 3] =
        [a_lines, lines, out_lines].map(|lines| Room::new(lines * abreast * cols));
    for (nr, out) in out.chunks_mut(abreast * out_lines * cols).enumerate() {
        let n = out.len() / (out_lines * cols);
        let lay = |from: &[T], lines: usize, room: &mut [T]| {
            let start = (nr * abreast * lines * cols) as isize;
            let steps = [cols, lines * cols].map(|step| step as isize);
            lay_out_tables(from, start, steps, [n, cols], &mut room[..lines * n * cols]);
        };
        lay(b, lines, y.as_mut_slice());
        let y = &y.as_slice()[..lines * n * cols];
        let x = if F::TRAITS.shifted {
            y
        } else {
            lay(a, a_lines, x.as_mut_slice());
            &x.as_slice()[..a_lines * n * cols]
        };
        let z = &mut z.as_mut_slice()[..out.len()];
        write_columns(f, x, y, [lines, n * cols], z);
        let steps = [cols, n * cols].map(|step| step as isize);
        lay_out_tables(z, 0, steps, [out_lines, cols], out);
    }
}

/// Elements of lines whose largest are found beside each other.
const LARGEST_ABREAST: usize = 128;

door! {
    /// The results of a formula for rows of `lines` elements, `cols` of which lie beside each other: as many each, or one each.
    /// Of `a` there are as many elements as of `b`, or one per row; `b` is read unless the formula is shifted.
    pub(crate) fn write_columns[T: RowFloat, F: RowFormula][T, F](f: &F, a: &[T], b: &[T], plane: [usize; 2], out: &mut [T]);
    body write_columns_body
}
#[inline(always)]
fn write_columns_body<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    a: &[T],
    b: &[T],
    [lines, cols]: [usize; 2],
    out: &mut [T],
) {
    let buffers = &mut [[T::of(0.0); RUN]; 2];
    let planes = b.len() / (lines * cols);
    let size = out.len() / planes;
    if F::TRAITS.per_row {
        let mut terms: Room<T> = Room::new(lines * cols);
        let terms = terms.as_mut_slice();
        for (out, x) in out.chunks_exact_mut(cols).zip(a.chunks_exact(lines * cols)) {
            write_plane::<FMA, T, F>(f, [x, x], [lines, cols], buffers, terms);
            out.copy_from_slice(&terms[..cols]);
        }
        return;
    }
    let each = a.len() / planes;
    for ((out, a), b) in out.chunks_exact_mut(size).zip(a.chunks_exact(each)).zip(b.chunks_exact(size)) {
        write_plane::<FMA, T, F>(f, [a, b], [lines, cols], buffers, out);
    }
}

/// The results of one plane, in whose place the terms are meanwhile. If there is one result per row, they are the first line.
#[inline(always)]
fn write_plane<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    operands: [&[T]; 2],
    [lines, n]: [usize; 2],
    [repeated, sums]: &mut [[T; RUN]; 2],
    results: &mut [T],
) {
    let [a, b] = operands.map(|data| {
        let step = if data.len() == n { 0 } else { n as isize };
        Table { data, start: 0, rows: lines, step, cols: n }
    });
    // Several lines at once, beside as many repeats of what belongs to the rows.
    let abreast = (RUN / n).min(lines);
    let repeated = &mut repeated[..abreast * n];
    if F::TRAITS.shifted {
        largest_of_columns(a, (LARGEST_ABREAST / n).clamp(1, abreast), repeated);
    } else if a.step == 0 {
        repeated[..n].copy_from_slice(a.row(0));
    }
    repeat(repeated, n);
    let repeated = Table { data: &*repeated, start: 0, step: 0, ..a };
    let (a, b) = if F::TRAITS.shifted {
        (a, repeated)
    } else if a.step == 0 {
        (repeated, b)
    } else {
        (a, b)
    };
    if !F::TRAITS.plain {
        for (block, terms) in results.chunks_mut(abreast * n).enumerate() {
            let (x, y) = (a.lines(block * abreast, terms.len()), b.lines(block * abreast, terms.len()));
            for j in 0..terms.len() {
                terms[j] = f.term(Lane::<T, FMA>(x[j]), Lane(y[j])).0;
            }
        }
    }
    let sums = &mut sums[..abreast * n];
    if F::TRAITS.plain && a.step == 0 {
        for (sum, &v) in sums.iter_mut().zip(a.row(0)) {
            *sum = T::Sum::finish(T::Sum::repeat(T::Sum::lift(v), lines));
        }
    } else {
        let terms =
            if F::TRAITS.plain { a } else { Table { data: &*results, start: 0, step: n as isize, ..a } };
        let wide = &mut [T::Sum::START; MOST_COLUMNS][..n];
        let FirstSums::Rows { rows, abreast } = FirstSums::of_columns(n) else { unreachable!("of columns") };
        // By a call: written out, it would be compiled for each formula.
        fold_columns::<T::Sum>(wide, terms, lines, [rows, abreast]);
        for (sum, &wide) in sums.iter_mut().zip(&*wide) {
            *sum = T::Sum::finish(wide);
        }
    }
    for sum in &mut sums[..n] {
        *sum = taken::<FMA, T, F>(*sum).0;
    }
    if F::TRAITS.per_row {
        for ((result, &m), &s) in results.iter_mut().zip(b.row(0)).zip(&*sums) {
            let [m, s] = [m, s].map(Lane::<T, FMA>);
            *result = f.result(m, m, m, s).0;
        }
        return;
    }
    repeat(sums, n);
    for (block, results) in results.chunks_mut(abreast * n).enumerate() {
        let (x, y) = (a.lines(block * abreast, results.len()), b.lines(block * abreast, results.len()));
        let s = &sums[..results.len()];
        for j in 0..results.len() {
            results[j] = f.result(Lane::<T, FMA>(x[j]), Lane(y[j]), Lane(results[j]), Lane(s[j])).0;
        }
    }
}

/// Fills a buffer with repeats of its first `n` elements.
#[inline(always)]
fn repeat<T: RowFloat>(buffer: &mut [T], n: usize) {
    let mut done = n;
    while done < buffer.len() {
        let more = done.min(buffer.len() - done);
        buffer.copy_within(..more, done);
        done += more;
    }
}

/// The largest elements of the columns of a table, at the front of a buffer; so many lines are compared beside each other.
///
/// To and fro between two buffers: where the larger element is kept in its place, the compiler stores under a mask, which takes a Zen 3 half of the time of a
/// softmax of 33 lines of 8.
#[inline(always)]
fn largest_of_columns<T: RowFloat>(table: Table<&[T]>, abreast: usize, buffer: &mut [T]) {
    let n = table.cols;
    let mut lanes = [[T::of(f64::NEG_INFINITY); MOST_COLUMNS]; 2];
    let [mut from, mut to] = lanes.each_mut().map(|lanes| &mut lanes[..abreast * n]);
    for line in (0..table.rows).step_by(abreast) {
        let x = table.lines(line, abreast.min(table.rows - line) * n);
        write_larger(from, x, to);
        to[x.len()..].copy_from_slice(&from[x.len()..]);
        std::mem::swap(&mut from, &mut to);
    }
    for line in 1..abreast {
        let (largest, others) = from.split_at_mut(n);
        let x = &others[(line - 1) * n..][..n];
        if line % 2 == 1 { write_larger(largest, x, to) } else { write_larger(to, x, largest) }
    }
    let largest = if abreast % 2 == 1 { from } else { to };
    buffer[..n].copy_from_slice(&largest[..n]);
}

#[inline(always)]
fn write_larger<T: RowFloat>(a: &[T], b: &[T], out: &mut [T]) {
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = larger(a, b);
    }
}
