//! Laying a matrix out row after row; transposed ones in squares that stay in registers.

use super::Matrix;
use super::block::MulAdd;
use super::registers::HIGH;
use crate::kernels::LINE;
use crate::kernels::ahead::ask;
use crate::kernels::transpose::{EIGHT, SIDE, transpose_columns};

/// Copies a matrix to `out`, whose rows are `stride` apart; what lies between them may be anything.
pub(super) fn pack<T: MulAdd>(b: &Matrix<'_, T>, rows: usize, cols: usize, out: &mut [T], stride: usize) {
    assert!(cols <= stride && rows * stride <= out.len());
    if b.row_step == 1 && b.col_step != 1 {
        return pack_transposed(b, rows, cols, out, stride);
    }
    if b.col_step == 1 {
        return match stride {
            32 => pack_rows::<T, 32>(b, rows, cols, out),
            16 => pack_rows::<T, 16>(b, rows, cols, out),
            8 => pack_rows::<T, 8>(b, rows, cols, out),
            _ => lines(b, rows, out, stride, |start, line| {
                line[..cols].copy_from_slice(&b.data[start..start + cols]);
            }),
        };
    }
    lines(b, rows, out, stride, |start, line| {
        for (c, o) in line[..cols].iter_mut().enumerate() {
            *o = b.data[(start as isize + c as isize * b.col_step) as usize];
        }
    });
}

/// Calls `f` with the place of every row in the matrix and its line of `out`.
#[inline(always)]
fn lines<T: Copy>(b: &Matrix<'_, T>, rows: usize, out: &mut [T], stride: usize, f: impl Fn(usize, &mut [T])) {
    for (r, line) in out.chunks_exact_mut(stride).enumerate().take(rows) {
        f((b.start as isize + r as isize * b.row_step) as usize, line);
    }
}

/// Rows with what lies behind them, so that the compiler knows how much is copied: a few instructions instead of a call. 256 rows of 12 take a
/// fifth of the time.
fn pack_rows<T: Copy, const N: usize>(b: &Matrix<'_, T>, rows: usize, cols: usize, out: &mut [T]) {
    lines(b, rows, out, N, |start, line| match b.data[start..].first_chunk::<N>() {
        Some(from) => *line.first_chunk_mut().expect("lines are that long") = *from,
        None => line[..cols].copy_from_slice(&b.data[start..start + cols]),
    });
}

/// Lays groups of rows out column after column: groups of `size` rows, `apart` elements from one another. The last
/// group is filled up with anything.
pub(super) fn pack_groups<T: MulAdd>(
    a: &Matrix<'_, T>,
    rows: usize,
    cols: usize,
    out: &mut [T],
    (size, apart): (usize, usize),
) {
    match size {
        4 => groups_of::<T, 4>(a, rows, cols, out, apart),
        6 => groups_of::<T, 6>(a, rows, cols, out, apart),
        8 => groups_of::<T, 8>(a, rows, cols, out, apart),
        HIGH => groups_of::<T, HIGH>(a, rows, cols, out, apart),
        16 => groups_of::<T, 16>(a, rows, cols, out, apart),
        32 => groups_of::<T, 32>(a, rows, cols, out, apart),
        _ => unreachable!("blocks are four to twelve rows high, and large ones sixteen or 32 columns wide"),
    }
}

/// Groups that are laid out together, and columns that are asked for before they are read: of 3000 columns of 1000 rows, which lie in memory, groups of six
/// take 0.45 to 0.6 of the time on a Zen 3.
const TOGETHER: usize = 16;
const AHEAD: isize = 8;

fn groups_of<T: MulAdd, const N: usize>(
    a: &Matrix<'_, T>,
    rows: usize,
    cols: usize,
    out: &mut [T],
    apart: usize,
) {
    if a.row_step != 1 {
        for (g, row) in (0..rows).step_by(N).enumerate() {
            group_across::<T, N>(&a.moved(0, row, 0), (rows - row).min(N), cols, &mut out[g * apart..]);
        }
        return;
    }
    // Some groups at a time: of many, each would lie on a page of its own.
    for top in (0..rows).step_by(N * TOGETHER) {
        let (rows, first) = ((rows - top).min(N * TOGETHER), top / N);
        for c in 0..cols {
            let column = a.moved(0, top, c).rest();
            let (whole, rest) = column[..rows].as_chunks::<N>();
            for (g, from) in (first..).zip(whole) {
                for line in from.chunks(LINE / size_of::<T>()) {
                    ask(line.as_ptr().wrapping_offset(AHEAD * a.col_step).cast());
                }
                *out[g * apart + c * N..].first_chunk_mut().expect("groups fit") = *from;
            }
            if rest.is_empty() {
                continue;
            }
            let out = &mut out[(first + whole.len()) * apart + c * N..];
            // With what lies behind it, if there is anything: a few instructions instead of a call.
            match column[rows - rest.len()..].first_chunk::<N>() {
                Some(from) => *out.first_chunk_mut().expect("groups fit") = *from,
                None => out[..rest.len()].copy_from_slice(rest),
            }
        }
    }
}

/// One group of rows that do not lie beside each other: by squares, if their elements do.
fn group_across<T: MulAdd, const N: usize>(a: &Matrix<'_, T>, rows: usize, cols: usize, out: &mut [T]) {
    let squares = if a.col_step == 1 { cols / SIDE * SIDE } else { 0 };
    for c in (0..squares).step_by(SIDE) {
        let row =
            |r: usize| a.moved(0, r.min(rows - 1), c).rest().first_chunk().expect("a row reaches that far");
        // What a square writes beyond its rows, the next one overwrites.
        T::transpose(std::array::from_fn(row), &mut out[c * N..], N);
    }
    for c in squares..cols {
        for r in 0..rows {
            out[c * N + r] = a.data[a.moved(0, r, c).start];
        }
    }
}

/// A matrix whose rows are neighbours in memory. Of fewer than [`EIGHT`] rows what lies behind them is copied, too, where there is room for it.
fn pack_transposed<T: MulAdd>(b: &Matrix<'_, T>, rows: usize, cols: usize, out: &mut [T], stride: usize) {
    let (from, tall) = (b.rest(), rows.max(EIGHT));
    let mut done = 0;
    if b.col_step > 0 && cols >= EIGHT && out.len() >= (tall - 1) * stride + cols {
        let step = b.col_step as usize;
        // Those behind which there is enough.
        let tall_ones = from.len().checked_sub(tall).map_or(0, |room| room / step + 1).min(cols);
        if tall_ones >= EIGHT && transpose_columns(from, step, [tall, tall_ones], out, stride) {
            done = tall_ones;
        }
    }
    for row in (0..rows).step_by(SIDE) {
        for c in done..cols {
            let column = &b.moved(0, row, c).rest()[..(rows - row).min(SIDE)];
            for (r, &v) in column.iter().enumerate() {
                out[(row + r) * stride + c] = v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposed_matrices_of_any_size_are_laid_out() {
        let data: Vec<f32> = (0..50 * 40).map(|i| i as f32).collect();
        for (rows, cols) in
            [(1, 1), (16, 16), (33, 17), (50, 40), (5, 32), (48, 3), (50, 13), (9, 5), (7, 29)]
        {
            for (row_step, col_step) in [(1, 50), (40, 1), (1, -50), (2, 0)] {
                let start = if col_step < 0 { 39 * 50 } else { 0 };
                // Nothing behind the furthest element, too.
                let end = start
                    + 1
                    + (rows - 1) * row_step as usize
                    + (cols as isize - 1).max(0) as usize * col_step.max(0) as usize;
                let b = Matrix { data: &data[..end], start, row_step, col_step };
                let stride = cols + 3;
                let mut out = vec![-1.0; rows * stride];
                pack(&b, rows, cols, &mut out, stride);
                for (i, &v) in out.iter().enumerate() {
                    let (r, c) = ((i / stride) as isize, (i % stride) as isize);
                    let at = start as isize + r * row_step + c * col_step;
                    if c < cols as isize {
                        assert_eq!(v, data[at as usize], "{rows} x {cols}");
                    }
                }
            }
        }
    }
}
