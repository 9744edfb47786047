//! The doors of laying out: elements that lie at some steps, one after another; and those in another type.

use super::doors::door;
use super::each;
use super::level::{Level, level};
use super::transpose::{EIGHT, transpose_columns};
use crate::dtype::Element;

door! {
    /// Lays out rows of `cols` elements, with a step from row to row and one within a row, one after another.
    pub(crate) fn lay_out[T: Element][T](src: &[T], start: isize, steps: [isize; 2], cols: usize, out: &mut [T]);
    body lay_out_body
}
/// Short rows, runs beside each other, repeats, and any other stride.
#[inline(always)]
fn lay_out_body<const FMA: bool, T: Element>(
    src: &[T],
    start: isize,
    steps: [isize; 2],
    cols: usize,
    out: &mut [T],
) {
    let [row_step, col_step] = steps;
    if steps == [0, 0] {
        return out.fill(src[start as usize]);
    }
    let rows = out.len() / cols;
    if row_step == 0 && rows >= 8 {
        return lay_out_again(src, start, col_step, cols, out);
    }
    if row_step == 1 && col_step > 1 && (rows >= 8 || rows <= 4 && col_step as usize == rows) {
        return lay_out_columns_body::<FMA, T>(
            src,
            (start as usize, col_step as usize),
            [rows, cols],
            out,
            cols,
        );
    }
    match cols {
        2 => return lay_out_short::<T, 2>(src, start, steps, out),
        3 => return lay_out_short::<T, 3>(src, start, steps, out),
        4 => return lay_out_short::<T, 4>(src, start, steps, out),
        5 => return lay_out_short::<T, 5>(src, start, steps, out),
        6 => return lay_out_short::<T, 6>(src, start, steps, out),
        7 => return lay_out_short::<T, 7>(src, start, steps, out),
        8 => return lay_out_short::<T, 8>(src, start, steps, out),
        _ => {}
    }
    if col_step == 0 && cols > 8 {
        return match cols < 16 {
            true => lay_out_numbers::<T, 8>(src, start, row_step, cols, out),
            false => lay_out_numbers::<T, 16>(src, start, row_step, cols, out),
        };
    }
    if col_step == 1 {
        return lay_out_tables_body::<FMA, T>(src, start, [0, row_step], [rows, cols], out);
    }
    let rows = out.chunks_exact_mut(cols).zip(0isize..);
    // A loop for each step: one around all of them would begin with what each of them needs.
    match col_step {
        -1 => {
            for (row, r) in rows {
                let last = (start + r * row_step) as usize;
                for (o, &v) in row.iter_mut().zip(src[last + 1 - cols..=last].iter().rev()) {
                    *o = v;
                }
            }
        }
        2 => {
            for (row, r) in rows {
                let (pairs, last) = src[(start + r * row_step) as usize..][..2 * cols - 1].as_chunks::<2>();
                for (o, pair) in row.iter_mut().zip(pairs) {
                    *o = pair[0];
                }
                row[cols - 1] = last[0];
            }
        }
        step if step > 0 => {
            for (row, r) in rows {
                let run = src[(start + r * row_step) as usize..].iter().step_by(step as usize);
                for (o, &v) in row.iter_mut().zip(run) {
                    *o = v;
                }
            }
        }
        step => {
            for (row, r) in rows {
                let mut at = start + r * row_step;
                for o in row {
                    *o = src[at as usize];
                    at += step;
                }
            }
        }
    }
}

door! {
    /// Lays out tables of rows whose elements lie beside each other, with a step from table to table and one from row to row.
    pub(crate) fn lay_out_tables[T: Element][T](src: &[T], start: isize, steps: [isize; 2], sizes: [usize; 2], out: &mut [T]);
    body lay_out_tables_body
}
#[inline(always)]
fn lay_out_tables_body<const FMA: bool, T: Element>(
    src: &[T],
    start: isize,
    steps: [isize; 2],
    [rows, cols]: [usize; 2],
    out: &mut [T],
) {
    // Rows of the heads of attention: a copy of known length is a move or two.
    match cols {
        16 => return lay_out_tables_of::<T, 16>(src, start, steps, rows, out),
        32 => return lay_out_tables_of::<T, 32>(src, start, steps, rows, out),
        64 => return lay_out_tables_of::<T, 64>(src, start, steps, rows, out),
        _ => {}
    }
    for (table, t) in out.chunks_exact_mut(rows * cols).zip(0isize..) {
        for (row, r) in table.chunks_exact_mut(cols).zip(0isize..) {
            copy_run(&src[(start + t * steps[0] + r * steps[1]) as usize..][..cols], row);
        }
    }
}

/// Tables whose rows have `N` elements.
#[inline(always)]
fn lay_out_tables_of<T: Element, const N: usize>(
    src: &[T],
    start: isize,
    steps: [isize; 2],
    rows: usize,
    out: &mut [T],
) {
    for (table, t) in out.as_chunks_mut::<N>().0.chunks_exact_mut(rows).zip(0isize..) {
        let mut at = start + t * steps[0];
        for row in table {
            *row = *src[at as usize..].first_chunk().expect("a row reaches that far");
            at += steps[1];
        }
    }
}

/// Elements one after another: a row is often shorter than what a call to copy it costs. Short ones are copied in pieces, the last of
/// which reaches back to where it is whole.
#[inline(always)]
pub(crate) fn copy_run<T: Copy>(run: &[T], row: &mut [T]) {
    /// Elements of which more are worth a call.
    const MOST: usize = 64;
    let run = &run[..row.len()];
    if run.len() > MOST {
        row.copy_from_slice(run);
    } else if let Some(last) = run.last_chunk::<8>() {
        for (o, piece) in row.as_chunks_mut::<8>().0.iter_mut().zip(run.as_chunks::<8>().0) {
            *o = *piece;
        }
        row.last_chunk_mut::<8>().into_iter().for_each(|o| *o = *last);
    } else if let (Some(first), Some(last)) = (run.first_chunk::<4>(), run.last_chunk::<4>()) {
        row.first_chunk_mut::<4>().into_iter().for_each(|o| *o = *first);
        row.last_chunk_mut::<4>().into_iter().for_each(|o| *o = *last);
    } else {
        match (row, run) {
            ([o], [a]) => *o = *a,
            ([o, p], [a, b]) => (*o, *p) = (*a, *b),
            ([o, p, q], [a, b, c]) => (*o, *p, *q) = (*a, *b, *c),
            _ => {}
        }
    }
}

/// Rows of a number each: in pieces, the last of which reaches back to where it is whole. Rows of 10 take half of the time, rows of 100
/// 0.85, the sum of a product with a column of rows of 10 0.6.
#[inline(always)]
fn lay_out_numbers<T: Element, const N: usize>(
    src: &[T],
    mut start: isize,
    row_step: isize,
    cols: usize,
    out: &mut [T],
) {
    for row in out.chunks_exact_mut(cols) {
        let number = src[start as usize];
        for piece in row.as_chunks_mut::<N>().0 {
            *piece = [number; N];
        }
        *row.last_chunk_mut::<N>().expect("a row is no shorter") = [number; N];
        start += row_step;
    }
}

/// The same row again and again.
#[inline(always)]
fn lay_out_again<T: Element>(src: &[T], start: isize, col_step: isize, cols: usize, out: &mut [T]) {
    for (o, k) in out[..cols].iter_mut().zip(0isize..) {
        *o = src[(start + k * col_step) as usize];
    }
    repeat(out, cols);
}

/// Fills a slice with its first elements, again and again: what has been written is copied, twice as much each time.
#[inline]
pub(crate) fn repeat<T: Copy>(out: &mut [T], period: usize) {
    /// Elements that are copied at a time at most, from the first-level cache.
    const MOST: usize = 1024;
    let most = (MOST / period).max(1) * period;
    let mut done = period;
    while done < out.len() {
        let n = done.min(most).min(out.len() - done);
        out.copy_within(..n, done);
        done += n;
    }
}

/// Rows of a few elements, whatever the steps: a loop without a loop in it.
#[inline(always)]
fn lay_out_short<T: Element, const N: usize>(
    src: &[T],
    mut start: isize,
    [row_step, col_step]: [isize; 2],
    out: &mut [T],
) {
    let rows = out.as_chunks_mut::<N>().0;
    if row_step == 1 && col_step == 0 {
        for (row, &v) in rows.iter_mut().zip(&src[start as usize..]) {
            *row = [v; N];
        }
        return;
    }
    for row in rows {
        if col_step == 1 {
            *row = *src[start as usize..].first_chunk().expect("a row reaches that far");
        } else {
            *row = each(row[0], |k| src[(start + k as isize * col_step) as usize]);
        }
        start += row_step;
    }
}

/// Rows whose elements alternate, such as the channels of a picture.
#[inline(always)]
fn lay_out_planes<T: Element, const N: usize>(
    src: &[T],
    start: usize,
    cols: usize,
    out: &mut [T],
    stride: usize,
) {
    let (groups, _) = src[start..][..N * cols].as_chunks::<N>();
    let mut lines = out.chunks_mut(stride);
    let rows: [&mut [T]; N] = std::array::from_fn(|_| &mut lines.next().expect("a row for each")[..cols]);
    for (i, group) in groups.iter().enumerate() {
        for k in 0..N {
            rows[k][i] = group[k];
        }
    }
}

/// The way back: a few columns that alternate then.
#[inline(always)]
fn lay_out_groups<T: Element, const N: usize>(src: &[T], (start, step): (usize, usize), out: &mut [T]) {
    let groups = out.as_chunks_mut::<N>().0;
    let columns: [&[T]; N] = each(&[][..], |k| &src[start + k * step..][..groups.len()]);
    for (i, group) in groups.iter_mut().enumerate() {
        *group = each(group[0], |k| columns[k][i]);
    }
}

door! {
    /// Lays out columns that each lie one after another, the second number of `place` apart, as rows that are `stride` apart: squares of
    /// them, so that both sides are gone along in order.
    pub(crate) fn lay_out_columns[T: Element][T](src: &[T], place: (usize, usize), sizes: [usize; 2], out: &mut [T], stride: usize);
    body lay_out_columns_body
}
#[inline(always)]
fn lay_out_columns_body<const FMA: bool, T: Element>(
    src: &[T],
    (start, step): (usize, usize),
    [rows, cols]: [usize; 2],
    out: &mut [T],
    stride: usize,
) {
    match rows {
        2 if step == 2 => return lay_out_planes::<T, 2>(src, start, cols, out, stride),
        3 if step == 3 => return lay_out_planes::<T, 3>(src, start, cols, out, stride),
        4 if step == 4 => return lay_out_planes::<T, 4>(src, start, cols, out, stride),
        _ => {}
    }
    match cols {
        2 if stride == 2 => return lay_out_groups::<T, 2>(src, (start, step), out),
        3 if stride == 3 => return lay_out_groups::<T, 3>(src, (start, step), out),
        4 if stride == 4 => return lay_out_groups::<T, 4>(src, (start, step), out),
        _ => {}
    }
    if rows.min(cols) >= EIGHT && transpose_columns(&src[start..], step, [rows, cols], out, stride) {
        return;
    }
    lay_out_small_squares(src, (start, step), [rows, cols], out, stride);
}

/// The same in smaller squares, of any elements.
#[inline(always)]
fn lay_out_small_squares<T: Element>(
    src: &[T],
    (start, step): (usize, usize),
    [rows, cols]: [usize; 2],
    out: &mut [T],
    stride: usize,
) {
    const N: usize = 4;
    let whole = cols / N * N;
    for c in (0..whole).step_by(N) {
        let runs: [&[T]; N] = each(&[][..], |k| &src[start + (c + k) * step..][..rows]);
        let mut r = 0;
        while r + N <= rows {
            let square: [&[T]; N] = each(&[][..], |k| &runs[k][r..r + N]);
            for i in 0..N {
                let to = &mut out[(r + i) * stride + c..][..N];
                for k in 0..N {
                    to[k] = square[k][i];
                }
            }
            r += N;
        }
        while r < rows {
            for k in 0..N {
                out[r * stride + c + k] = runs[k][r];
            }
            r += 1;
        }
    }
    for c in whole..cols {
        let run = &src[start + c * step..][..rows];
        for (row, &v) in out.chunks_mut(stride).zip(run) {
            row[c] = v;
        }
    }
}

door! {
    /// Elements in another type, one after another.
    pub(crate) fn convert[S: Element, D: Element, C: Fn(S) -> D][S, D, C](src: &[S], out: &mut [D], each: C);
    body convert_body
}
#[inline(always)]
fn convert_body<const FMA: bool, S: Element, D: Element, C: Fn(S) -> D>(src: &[S], out: &mut [D], each: C) {
    for (o, &v) in out.iter_mut().zip(src) {
        *o = each(v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows and steps of every kind, against one element after another.
    #[test]
    fn runs_of_any_length_are_copied() {
        for n in 0..130 {
            let run: Vec<usize> = (1..=n).collect();
            let mut row = vec![0; n];
            super::copy_run(&run, &mut row);
            assert_eq!(row, run);
        }
    }

    #[test]
    fn every_step_is_laid_out() {
        let src: Vec<f32> = (0..8000).map(|i| i as f32).collect();
        for cols in [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33, 64] {
            for rows in [1, 2, 5, 8, 31] {
                for row_step in [-5, -1, 0, 1, 2, 70] {
                    for col_step in [-3, -2, -1, 0, 1, 2, 3, 33] {
                        let at = |r: usize, c: usize| 2500 + r as isize * row_step + c as isize * col_step;
                        let mut out = vec![0.0f32; rows * cols];
                        lay_out(&src, 2500, [row_step, col_step], cols, &mut out);
                        let whole = (0..rows * cols).all(|i| out[i] == at(i / cols, i % cols) as f32);
                        assert!(whole, "{rows} by {cols}, steps {row_step} and {col_step}");
                    }
                }
            }
        }
    }
}
