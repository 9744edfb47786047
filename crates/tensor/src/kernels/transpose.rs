//! Squares of a transposed matrix, which stay in registers.

use super::each;
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

/// Rows of squares that are gone through together: where columns lie far apart, each gives some lines of memory at a time. A transposed
/// copy of 3,162 by 3,162 takes a third of the time that rows of sixteen took, by way of a block.
#[cfg(target_arch = "x86_64")]
const TALL: usize = 64;

/// Columns that are `step` apart, of at least [`EIGHT`] elements of four or eight bytes and as many columns, as rows that are `stride` apart;
/// where the processor has wide shuffles, else nothing is done. What is left over of a side has a square, too, that begins before it.
pub(crate) fn transpose_columns<T: Element>(
    src: &[T],
    step: usize,
    [rows, cols]: [usize; 2],
    out: &mut [T],
    stride: usize,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has_wide_shuffles() && matches!(size_of::<T>(), 4 | 8) {
        assert!(rows.min(cols) >= EIGHT && src.len() >= (cols - 1) * step + rows);
        assert!(stride >= cols && out.len() >= (rows - 1) * stride + cols);
        // SAFETY: `level` never exceeds what was detected on this processor, both matrices lie in their slices, and elements have one of the
        // two sizes.
        unsafe { columns_avx2(src.as_ptr(), step, [rows, cols], out.as_mut_ptr(), stride) };
        return true;
    }
    false
}

/// # Safety
/// So many columns of so many elements, `step` apart, may be read, and the rows, `stride` apart, written. An element has four or eight
/// bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn columns_avx2<T: Element>(
    src: *const T,
    step: usize,
    [rows, cols]: [usize; 2],
    out: *mut T,
    stride: usize,
) {
    for from in (0..rows).step_by(TALL) {
        for c in (0..cols).step_by(EIGHT) {
            let c = c.min(cols - EIGHT);
            for r in (from..(from + TALL).min(rows)).step_by(EIGHT) {
                let r = r.min(rows - EIGHT);
                for half in [r, r + FOUR] {
                    // SAFETY: the square lies in both matrices, as promised by the caller.
                    let column = |k: usize| unsafe { src.add((c + k) * step + half) };
                    // SAFETY: each of the columns has four elements from there on, of the size of the numbers, which are moved as they are.
                    let four: [[T; EIGHT]; FOUR] = unsafe {
                        if size_of::<T>() == size_of::<f32>() {
                            let columns = columns_of_f32(each(std::ptr::null(), |k| column(k).cast()));
                            std::mem::transmute_copy(&columns)
                        } else {
                            let columns = columns_of_f64(each(std::ptr::null(), |k| column(k).cast()));
                            std::mem::transmute_copy(&columns)
                        }
                    };
                    for (k, row) in four.into_iter().enumerate() {
                        // SAFETY: the square lies in the rows, as promised by the caller.
                        unsafe { out.add((half + k) * stride + c).cast::<[T; EIGHT]>().write(row) };
                    }
                }
            }
        }
    }
}

/// Rows and columns that are transposed in a few registers.
pub(crate) const EIGHT: usize = 8;
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
/// Registers of sixteen took 1.1 times as long to transpose squares on a Zen 4.
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
        are_transposed(|i| i as f32);
        are_transposed(|i| i as f64);
        are_transposed(|i| i as i64);
    }

    fn are_transposed<T: Element + PartialEq + std::fmt::Debug>(number: fn(i32) -> T) {
        let src: Vec<T> = (0..20_000).map(number).collect();
        for rows in [8, 9, 15, 16, 17, 64, 65, 71, 130] {
            for (cols, more) in [(8, 0), (9, 3), (16, 0), (31, 1), (100, 5)] {
                let (step, stride) = (rows + more, cols + more);
                let end = (rows - 1) * stride + cols;
                let mut out = vec![number(-1); end + 7];
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
                    let want = if c < cols && i < end { src[5 + c * step + r] } else { number(-1) };
                    assert_eq!(found, want, "row {r} and column {c} of {rows} by {cols}");
                }
            }
        }
    }
}
