//! Squares of a transposed matrix, which stay in registers.

use super::each;
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

/// Four columns at a time, from eight rows and then from the others.
///
/// # Safety
/// As for [`transpose_avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn transpose_avx2(rows: [&[f32; SIDE]; SIDE], out: *mut f32, stride: usize) {
    use std::arch::x86_64::*;
    for col in (0..SIDE).step_by(FOUR) {
        let mut columns = [[_mm256_setzero_ps(); 2]; FOUR];
        for half in 0..2 {
            let first: [*const f32; EIGHT] =
                each(std::ptr::null(), |i| rows[EIGHT * half + i][col..].as_ptr());
            // SAFETY: a row has four numbers from `col` on.
            let of_half = unsafe { columns_of_f32(first) };
            for (halves, column) in columns.iter_mut().zip(of_half) {
                halves[half] = column;
            }
        }
        for (r, halves) in columns.into_iter().enumerate() {
            for (half, column) in halves.into_iter().enumerate() {
                // SAFETY: as promised by the caller.
                unsafe { _mm256_storeu_ps(out.add((col + r) * stride + EIGHT * half), column) };
            }
        }
    }
}

/// Rows and columns that are transposed in a few registers.
pub(super) const EIGHT: usize = 8;
pub(super) const FOUR: usize = 4;

/// Says that the processor has the shuffles of AVX2.
#[derive(Clone, Copy)]
pub(super) struct WideShuffles(());

impl WideShuffles {
    /// `None` where a loop does without, at the level that is set.
    #[inline(always)]
    pub(super) fn of_processor() -> Option<WideShuffles> {
        has_wide_shuffles().then_some(WideShuffles(()))
    }

    /// Four columns of the eight rows that begin `step` apart, in registers.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub(super) fn four_columns<T: Element>(self, x: &[T], step: usize) -> [[T; EIGHT]; FOUR] {
        const { assert!(size_of::<T>() == size_of::<f32>() || size_of::<T>() == size_of::<f64>()) }
        assert!(x.len() >= (EIGHT - 1) * step + FOUR);
        // SAFETY: the processor has AVX2, as `self` says, and the last row has four elements. Elements of either size are moved as they
        // are, and there are as many.
        unsafe {
            if size_of::<T>() == size_of::<f32>() {
                let x = x.as_ptr().cast::<f32>();
                std::mem::transmute_copy(&columns_of_f32(each(x, |i| x.add(i * step))))
            } else {
                let x = x.as_ptr().cast::<f64>();
                std::mem::transmute_copy(&columns_of_f64(each(x, |i| x.add(i * step))))
            }
        }
    }

    /// The same numbers, of which the compiler is not told where they come from.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub(super) fn hidden<T: Element>(self, x: [T; EIGHT]) -> [T; EIGHT] {
        const { assert!(size_of::<T>() == size_of::<f32>() || size_of::<T>() == size_of::<f64>()) }
        // SAFETY: the processor has AVX2, as `self` says. Elements of either size are in as many registers.
        unsafe {
            if size_of::<T>() == size_of::<f32>() {
                std::mem::transmute_copy(&hidden_ps(std::mem::transmute_copy(&x)))
            } else {
                let [a, b]: [_; 2] = std::mem::transmute_copy(&x);
                std::mem::transmute_copy(&[hidden_pd(a), hidden_pd(b)])
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn hidden<T>(self, x: [T; EIGHT]) -> [T; EIGHT] {
        x
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn four_columns<T: Element>(self, x: &[T], step: usize) -> [[T; EIGHT]; FOUR] {
        each([T::default(); EIGHT], |col| each(T::default(), |row| x[row * step + col]))
    }
}

/// Each register holds four numbers of a row and of the fourth row below it; squares of four by four are transposed in either half.
///
/// # Safety
/// Each row has four numbers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn columns_of_f32(rows: [*const f32; EIGHT]) -> [std::arch::x86_64::__m256; FOUR] {
    use std::arch::x86_64::*;
    let mut x = [_mm256_setzero_ps(); FOUR];
    for i in 0..FOUR {
        // SAFETY: as promised by the caller.
        x[i] = unsafe { _mm256_loadu2_m128(rows[i + FOUR], rows[i]) };
    }
    let (a, b) = (_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1]));
    let (c, d) = (_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3]));
    [
        hidden_ps(_mm256_shuffle_ps::<0x44>(a, c)),
        hidden_ps(_mm256_shuffle_ps::<0xee>(a, c)),
        hidden_ps(_mm256_shuffle_ps::<0x44>(b, d)),
        hidden_ps(_mm256_shuffle_ps::<0xee>(b, d)),
    ]
}

/// The same with registers of four numbers: of two columns, in two rows and two others.
///
/// # Safety
/// Each row has four numbers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn columns_of_f64(rows: [*const f64; EIGHT]) -> [[std::arch::x86_64::__m256d; 2]; FOUR] {
    use std::arch::x86_64::*;
    let mut columns = [[_mm256_setzero_pd(); 2]; FOUR];
    for half in 0..2 {
        for col in [0, 2] {
            // SAFETY: as promised by the caller.
            let pair = |i: usize| unsafe {
                _mm256_loadu2_m128d(rows[4 * half + i + 2].add(col), rows[4 * half + i].add(col))
            };
            let (a, b) = (pair(0), pair(1));
            columns[col][half] = hidden_pd(_mm256_unpacklo_pd(a, b));
            columns[col + 1][half] = hidden_pd(_mm256_unpackhi_pd(a, b));
        }
    }
    columns
}

/// Hides from the compiler where a register comes from: it would take the arithmetic behind shuffles apart, to smaller vectors.
macro_rules! hidden {
    ($name:ident, $register:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        #[inline]
        fn $name(mut x: std::arch::x86_64::$register) -> std::arch::x86_64::$register {
            // SAFETY: there are no instructions.
            unsafe {
                std::arch::asm!("/* {0} */", inout(ymm_reg) x, options(pure, nomem, nostack, preserves_flags));
            }
            x
        }
    };
}
hidden!(hidden_ps, __m256);
hidden!(hidden_pd, __m256d);

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
