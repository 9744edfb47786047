//! Squares of a transposed matrix, which stay in registers.

use crate::dtype::Element;
#[cfg(target_arch = "x86_64")]
use crate::kernels::level::{Level, level};

/// Rows and columns of a square.
pub(crate) const SIDE: usize = 16;

/// Whether [`transpose_f32`] is more than a loop.
#[inline]
fn has_wide_shuffles() -> bool {
    #[cfg(target_arch = "x86_64")]
    return level() >= Level::Avx2;
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Sixteen columns, each in one place, as rows that are `stride` apart: element by element.
pub(crate) fn transpose_plain<T: Element>(rows: [&[T; SIDE]; SIDE], out: &mut [T], stride: usize) {
    let mut square = [[T::default(); SIDE]; SIDE];
    for (c, row) in rows.iter().enumerate() {
        for (line, &v) in square.iter_mut().zip(*row) {
            line[c] = v;
        }
    }
    for (r, line) in square.iter().enumerate() {
        out[r * stride..][..SIDE].copy_from_slice(line);
    }
}

/// [`transpose_plain`] by shuffles, where the processor has wide ones.
pub(crate) fn transpose_f32(rows: [&[f32; SIDE]; SIDE], out: &mut [f32], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    if has_wide_shuffles() {
        assert!(out.len() >= (SIDE - 1) * stride + SIDE);
        // SAFETY: `level` never exceeds what was detected on this processor, and `out` has room for the last row.
        return unsafe { transpose_avx2(rows, out.as_mut_ptr(), stride) };
    }
    transpose_plain(rows, out, stride);
}

/// Four columns at a time, from eight rows and then from the others.
///
/// # Safety
/// Sixteen rows of sixteen, `stride` apart, may be written at `out`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn transpose_avx2(rows: [&[f32; SIDE]; SIDE], out: *mut f32, stride: usize) {
    use std::arch::x86_64::*;
    for col in (0..SIDE).step_by(4) {
        // SAFETY: a row has four numbers from `col` on.
        let columns = [0, 8]
            .map(|below| unsafe { four_columns(std::array::from_fn(|r| rows[below + r][col..].as_ptr())) });
        for r in 0..4 {
            for (half, columns) in columns.iter().enumerate() {
                // SAFETY: as promised by the caller.
                unsafe { _mm256_storeu_ps(out.add((col + r) * stride + 8 * half), columns[r]) };
            }
        }
    }
}

/// Four columns of eight rows: each register holds four numbers of a row and of the fourth row below it, and squares of four by four are
/// transposed in either half. Registers of sixteen took 1.1 times as long on a Zen 4.
///
/// # Safety
/// Four numbers may be read of each row.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn four_columns(rows: [*const f32; 8]) -> [std::arch::x86_64::__m256; 4] {
    use std::arch::x86_64::*;
    let mut x = [_mm256_setzero_ps(); 4];
    for i in 0..4 {
        // SAFETY: as promised by the caller.
        x[i] = unsafe { _mm256_loadu2_m128(rows[i + 4], rows[i]) };
    }
    let (a, b) = (_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1]));
    let (c, d) = (_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3]));
    [
        _mm256_shuffle_ps::<0x44>(a, c),
        _mm256_shuffle_ps::<0xee>(a, c),
        _mm256_shuffle_ps::<0x44>(b, d),
        _mm256_shuffle_ps::<0xee>(b, d),
    ]
}

/// Rows and columns of the squares of [`transpose_columns`].
pub(crate) const SMALL_SIDE: usize = 8;

/// Rows of squares that are gone through together: where columns lie far apart, each gives some lines of memory at a time. A transposed
/// copy of 3,162 by 3,162 takes a third of the time that rows of sixteen took, by way of a block.
#[cfg(target_arch = "x86_64")]
const TALL: usize = 64;

/// Columns that are `step` apart, of at least [`SMALL_SIDE`] elements and as many columns, as rows that are `stride` apart; where the processor
/// has wide shuffles, else nothing is done. What is left over of a side has a square, too, that begins before it.
pub(crate) fn transpose_columns(
    src: &[f32],
    step: usize,
    [rows, cols]: [usize; 2],
    out: &mut [f32],
    stride: usize,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has_wide_shuffles() {
        assert!(rows.min(cols) >= SMALL_SIDE && src.len() >= (cols - 1) * step + rows);
        assert!(stride >= cols && out.len() >= (rows - 1) * stride + cols);
        // SAFETY: `level` never exceeds what was detected on this processor, and both matrices lie in their slices.
        unsafe { columns_avx2(src.as_ptr(), step, [rows, cols], out.as_mut_ptr(), stride) };
        return true;
    }
    false
}

/// # Safety
/// So many columns of so many elements, `step` apart, may be read, and the rows, `stride` apart, written.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn columns_avx2(src: *const f32, step: usize, [rows, cols]: [usize; 2], out: *mut f32, stride: usize) {
    use std::arch::x86_64::*;
    for from in (0..rows).step_by(TALL) {
        for c in (0..cols).step_by(SMALL_SIDE) {
            let c = c.min(cols - SMALL_SIDE);
            for r in (from..(from + TALL).min(rows)).step_by(SMALL_SIDE) {
                let r = r.min(rows - SMALL_SIDE);
                for half in [r, r + 4] {
                    // SAFETY: the square lies in both matrices, as promised by the caller.
                    unsafe {
                        let columns = four_columns(std::array::from_fn(|k| src.add((c + k) * step + half)));
                        for (k, column) in columns.into_iter().enumerate() {
                            _mm256_storeu_ps(out.add((half + k) * stride + c), column);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_transposed() {
        let data: Vec<f32> = (0..256).map(|i| i as f32).collect();
        let rows = || std::array::from_fn(|r| data[r * SIDE..].first_chunk().unwrap());
        for stride in [20, 16, 6] {
            let (mut plain, mut fast) = (vec![0.0; 320], vec![0.0; 320]);
            transpose_plain(rows(), &mut plain, stride);
            transpose_f32(rows(), &mut fast, stride);
            assert_eq!(fast, plain);
        }
        let mut plain = vec![0.0; 320];
        transpose_plain(rows(), &mut plain, 20);
        assert!((0..256).all(|i| plain[i % 16 * 20 + i / 16] == i as f32));
    }

    #[test]
    fn columns_of_any_number_are_transposed() {
        let src: Vec<f32> = (0..20_000).map(|i| i as f32).collect();
        for rows in [8, 9, 15, 16, 17, 64, 65, 71, 130] {
            for (cols, more) in [(8, 0), (9, 3), (16, 0), (31, 1), (100, 5)] {
                let (step, stride) = (rows + more, cols + more);
                let end = (rows - 1) * stride + cols;
                let mut out = vec![-1.0; end + 7];
                if !transpose_columns(
                    &src[5..][..(cols - 1) * step + rows],
                    step,
                    [rows, cols],
                    &mut out[..end],
                    stride,
                ) {
                    return;
                }
                for (i, &found) in out.iter().enumerate() {
                    let (r, c) = (i / stride, i % stride);
                    let want = if c < cols && i < end { src[5 + c * step + r] } else { -1.0 };
                    assert_eq!(found, want, "row {r} and column {c} of {rows} by {cols}");
                }
            }
        }
    }
}
