//! Squares of a transposed matrix, which stay in registers.

use crate::dtype::Element;
#[cfg(target_arch = "x86_64")]
use crate::kernels::level::{Level, level};

/// Rows and columns of a square.
pub(crate) const SIDE: usize = 16;

/// Whether [`transpose_f32`] is more than a loop.
#[inline]
pub(crate) fn has_wide_shuffles() -> bool {
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
        let is_wide = level() == Level::Avx512;
        // SAFETY: `level` never exceeds what was detected on this processor, and `out` has room for the last row.
        return unsafe {
            let out = out.as_mut_ptr();
            if is_wide { transpose_avx512(rows, out, stride) } else { transpose_avx2(rows, out, stride) }
        };
    }
    transpose_plain(rows, out, stride);
}

/// Pairs of rows are interleaved by one, then by two numbers; then their quarters are gathered, twice.
///
/// # Safety
/// Sixteen rows of sixteen, `stride` apart, may be written at `out`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn transpose_avx512(rows: [&[f32; SIDE]; SIDE], out: *mut f32, stride: usize) {
    use std::arch::x86_64::*;
    let zero = _mm512_setzero_ps();
    let (mut x, mut y) = ([zero; SIDE], [zero; SIDE]);
    for i in 0..SIDE {
        // SAFETY: a row is sixteen numbers.
        x[i] = unsafe { _mm512_loadu_ps(rows[i].as_ptr()) };
    }
    for i in (0..SIDE).step_by(2) {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    // Now x[4 i + j] holds, in each quarter q, the four numbers of column 4 q + j from the rows 4 i to 4 i + 3.
    for i in (0..SIDE).step_by(4) {
        for j in 0..2 {
            let (a, b) = (_mm512_castps_pd(y[i + j]), _mm512_castps_pd(y[i + j + 2]));
            x[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            x[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    }
    for j in 0..4 {
        // Quarters 0 and 2, and 1 and 3, of the rows 0 to 7 and 8 to 15.
        let (even, odd) = (_mm512_shuffle_f32x4::<0x88>, _mm512_shuffle_f32x4::<0xdd>);
        let (low_even, low_odd) = (even(x[j], x[j + 4]), odd(x[j], x[j + 4]));
        let (high_even, high_odd) = (even(x[j + 8], x[j + 12]), odd(x[j + 8], x[j + 12]));
        y[j] = even(low_even, high_even);
        y[j + 4] = even(low_odd, high_odd);
        y[j + 8] = odd(low_even, high_even);
        y[j + 12] = odd(low_odd, high_odd);
    }
    for (r, column) in y.into_iter().enumerate() {
        // SAFETY: as promised by the caller.
        unsafe { _mm512_storeu_ps(out.add(r * stride), column) };
    }
}

/// Four columns at a time, from eight rows and then from the others: each register holds four numbers of a row and of the fourth
/// row below it, and squares of four by four are transposed in either half.
///
/// # Safety
/// As for [`transpose_avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn transpose_avx2(rows: [&[f32; SIDE]; SIDE], out: *mut f32, stride: usize) {
    use std::arch::x86_64::*;
    let zero = _mm256_setzero_ps();
    for col in (0..SIDE).step_by(4) {
        let mut columns = [[zero; 2]; 4];
        for half in 0..2 {
            let mut x = [zero; 4];
            for i in 0..4 {
                let [high, low] = [0, 4].map(|below| rows[8 * half + below + i][col..].as_ptr());
                // SAFETY: a row has four numbers from `col` on.
                x[i] = unsafe { _mm256_loadu2_m128(low, high) };
            }
            let (a, b) = (_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1]));
            let (c, d) = (_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3]));
            columns[0][half] = _mm256_shuffle_ps::<0x44>(a, c);
            columns[1][half] = _mm256_shuffle_ps::<0xee>(a, c);
            columns[2][half] = _mm256_shuffle_ps::<0x44>(b, d);
            columns[3][half] = _mm256_shuffle_ps::<0xee>(b, d);
        }
        for (r, halves) in columns.into_iter().enumerate() {
            for (half, column) in halves.into_iter().enumerate() {
                // SAFETY: as promised by the caller.
                unsafe { _mm256_storeu_ps(out.add((col + r) * stride + 8 * half), column) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "x86_64")]
    use crate::kernels::level::detected_level;

    #[test]
    fn squares_are_transposed_at_every_level() {
        let data: Vec<f32> = (0..256).map(|i| i as f32).collect();
        let rows = || std::array::from_fn(|r| data[r * SIDE..].first_chunk().unwrap());
        for stride in [20, 16, 6] {
            let (mut plain, mut fast) = (vec![0.0; 320], vec![0.0; 320]);
            transpose_plain(rows(), &mut plain, stride);
            transpose_f32(rows(), &mut fast, stride);
            assert_eq!(fast, plain);
            #[cfg(target_arch = "x86_64")]
            if detected_level() >= Level::Avx2 {
                fast.fill(0.0);
                // SAFETY: the processor has it, and there is room for sixteen rows.
                unsafe { transpose_avx2(rows(), fast.as_mut_ptr(), stride) };
                assert_eq!(fast, plain);
            }
        }
        let mut plain = vec![0.0; 320];
        transpose_plain(rows(), &mut plain, 20);
        assert!((0..256).all(|i| plain[i % 16 * 20 + i / 16] == i as f32));
    }
}
