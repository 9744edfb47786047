//! Products of few rows with a right operand whose rows are as short: a pass over many inner positions.
//!
//! Note [Thin products]
//! Each row of the right operand fits in a register, and is multiplied by a number of each row of the left one, which may lie
//! anyhow: nothing is laid out. Up to four rows of results stay in registers, in a few sets that take inner positions in turn. Such are the
//! gradients of the weights of small layers. 3 rows with 5 columns take a sixth of the time that blocks took, 4 with 4 0.75 of that of dot
//! products with a vector at a time, in `f64` 0.4.

use std::ops::Range;

use super::block::MulAdd;
use super::passes::Put;
#[cfg(target_arch = "x86_64")]
use super::short::{mask_f32, mask_f64};
use super::{Matrix, Multiply, Onto, Tile};
use crate::kernels::folds::Table;
use crate::kernels::level::Level;

/// Rows that are few.
pub(super) const FEW_ROWS: usize = 8;

/// Inner positions that are summed before the next ones.
const DEPTH: usize = 2048;

/// Rows of results that are in registers at once.
const AT_ONCE: usize = 4;

/// Some rows of sums, each in as many elements as a register has at most.
pub(super) type ThinSums<T> = [[T; 8]; AT_ONCE];

/// A tile with all of its product's few columns.
pub(super) fn thin<T: MulAdd>(mut tile: Tile<'_, T>, level: Level) {
    let mut onto = tile.out.begin(tile.onto);
    for from in (0..tile.k).step_by(DEPTH) {
        let depth = (tile.k - from).min(DEPTH);
        let b = tile.b.moved(0, from, 0);
        let b = Table { data: b.data, start: b.start as isize, rows: depth, step: b.row_step, cols: tile.n };
        let put = Put { scale: tile.scale, add: onto == Onto::Result };
        for row in (0..tile.m).step_by(AT_ONCE) {
            let rows = (tile.m - row).min(AT_ONCE);
            // SAFETY: the level is this processor's.
            let sums = unsafe { T::thin_sums(level, tile.a.moved(0, row, from), rows, b) };
            for (r, sums) in sums[..rows].iter().enumerate() {
                tile.out.row(row + r).iter_mut().zip(sums).for_each(|(o, &sum)| put.put(o, sum));
            }
        }
        onto = Onto::Result;
    }
}

/// The sums for processors without wide registers.
fn plain<T: MulAdd>(a: Matrix<'_, T>, rows: usize, b: Table<&[T]>) -> ThinSums<T> {
    let mut sums = [[T::default(); 8]; AT_ONCE];
    for p in 0..b.rows {
        for (r, sums) in sums[..rows].iter_mut().enumerate() {
            let x = a.moved(0, r, p).rest()[0];
            sums.iter_mut().zip(b.row(p)).for_each(|(sum, &v)| *sum = *sum + x * v);
        }
    }
    sums
}

macro_rules! thin_sums {
    ($name:ident, $wide:ident, $add:ident, $t:ty, $register:ty, $zero:ident, $spread:ident, $store:ident, $load:ident, $mask:ident, $part:ident, $fused:ident, $plus:ident) => {
        /// The sums over all rows of `b`, each times the element of every row of `a` that belongs to it.
        ///
        /// # Safety
        /// `level` is this processor's.
        pub(super) unsafe fn $name(
            level: Level,
            a: Matrix<'_, $t>,
            rows: usize,
            b: Table<&[$t]>,
        ) -> ThinSums<$t> {
            match (level, rows) {
                // SAFETY: this processor has the level, by the caller's promise, and so its features.
                #[cfg(target_arch = "x86_64")]
                (Level::Avx512 | Level::Avx2, 1) => unsafe { $wide::<1, 4>(a, b) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                (Level::Avx512 | Level::Avx2, 2) => unsafe { $wide::<2, 4>(a, b) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                (Level::Avx512 | Level::Avx2, 3) => unsafe { $wide::<3, 4>(a, b) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                (Level::Avx512 | Level::Avx2, 4) => unsafe { $wide::<4, 2>(a, b) },
                _ => plain(a, rows, b),
            }
        }

        /// `R` rows of sums, in `G` sets.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $wide<const R: usize, const G: usize>(a: Matrix<'_, $t>, b: Table<&[$t]>) -> ThinSums<$t> {
            use std::arch::x86_64::*;
            let right = Matrix { data: b.data, start: b.start as usize, row_step: b.step, col_step: 1 };
            right.check([].into_iter(), b.rows, b.cols);
            a.check([].into_iter(), R, b.rows);
            assert!(b.cols <= <$t>::LANES);
            // Of most rows a whole register is read, whatever stands behind them: sums of that are not looked at.
            let near = match b.data.len().checked_sub(right.start + <$t>::LANES) {
                Some(more) if b.step >= 0 => (more / (b.step as usize).max(1) + 1).min(b.rows) / G * G,
                _ => 0,
            };
            let mut sums = [[$zero(); G]; R];
            // SAFETY: `check` has found all rows and columns in their slices, and a register from each of the first rows on ends in its.
            unsafe {
                $add::<R, G, true>(&mut sums, a, right, 0..near, b.cols);
                $add::<R, G, false>(&mut sums, a, right, near..b.rows, b.cols);
            }
            let mut all = [[0.0; 8]; AT_ONCE];
            for r in 0..R {
                let sum = sums[r].into_iter().reduce(|a, b| $plus(a, b)).expect("there is a set");
                // SAFETY: there is room for a register.
                unsafe { $store(all[r].as_mut_ptr(), sum) };
            }
            all
        }

        /// Adds some inner positions, the first of which is the first set's.
        ///
        /// # Safety
        /// They lie in the slices of both operands, and if whole registers of the right one are read, these, too.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        #[inline]
        unsafe fn $add<const R: usize, const G: usize, const WHOLE: bool>(
            sums: &mut [[$register; G]; R],
            a: Matrix<'_, $t>,
            b: Matrix<'_, $t>,
            positions: Range<usize>,
            cols: usize,
        ) {
            use std::arch::x86_64::*;
            let (mask, left, right) = ($mask(cols), a.pointer(), b.pointer());
            let mut own = *sums;
            for from in positions.clone().step_by(G) {
                for g in 0..G {
                    let p = (from + g) as isize;
                    if !WHOLE && from + g >= positions.end {
                        break;
                    }
                    let place = right.wrapping_offset(p * b.row_step);
                    // SAFETY: as promised by the caller; only elements of the row are read through a mask.
                    let row = unsafe { if WHOLE { $load(place) } else { $part(place, mask) } };
                    for r in 0..R {
                        // SAFETY: as promised by the caller.
                        let x = unsafe { *left.offset(r as isize * a.row_step + p * a.col_step) };
                        own[r][g] = $fused($spread(x), row, own[r][g]);
                    }
                }
            }
            *sums = own;
        }
    };
}
#[rustfmt::skip]
thin_sums!(
    thin_f32, thin_f32_wide, thin_f32_add, f32, std::arch::x86_64::__m256, _mm256_setzero_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm256_loadu_ps, mask_f32,
    _mm256_maskload_ps, _mm256_fmadd_ps, _mm256_add_ps
);
#[rustfmt::skip]
thin_sums!(
    thin_f64, thin_f64_wide, thin_f64_add, f64, std::arch::x86_64::__m256d, _mm256_setzero_pd, _mm256_set1_pd, _mm256_storeu_pd, _mm256_loadu_pd, mask_f64,
    _mm256_maskload_pd, _mm256_fmadd_pd, _mm256_add_pd
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::level::detected_level;

    /// Whole numbers, whose sums are exact in any order.
    fn sums_are_those_of_loops<T: MulAdd>() {
        let of = |i: usize| T::of(((i * 37 + 5) % 17) as f64 - 8.0);
        let data: Vec<T> = (0..4000).map(of).collect();
        for cols in 1..=T::LANES {
            for (rows, depth, step) in [(1, 1, 9), (2, 7, 8), (3, 64, 10), (4, 65, 0), (4, 2, 8)] {
                for a_steps in [[70, 1], [1, 4], [0, 2], [-3, 5]] {
                    let a = Matrix { data: &data, start: 20, row_step: a_steps[0], col_step: a_steps[1] };
                    // Nothing behind the last row, too.
                    let end = 7 + (depth - 1) * step as usize + cols;
                    let b = Table { data: &data[..end], start: 7, rows: depth, step, cols };
                    for level in [Level::Baseline, Level::Avx2, Level::Avx512] {
                        if level > detected_level() {
                            continue;
                        }
                        // SAFETY: the processor has the level.
                        let found = unsafe { T::thin_sums(level, a, rows, b) };
                        for (i, found) in found[..rows].iter().enumerate() {
                            for (j, &found) in found[..cols].iter().enumerate() {
                                let mut want = T::of(0.0);
                                for p in 0..depth {
                                    want = want + a.moved(0, i, p).rest()[0] * b.row(p)[j];
                                }
                                assert!(found == want, "{rows} by {cols} by {depth} at {level:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn thin_sums_are_those_of_loops() {
        sums_are_those_of_loops::<f32>();
        sums_are_those_of_loops::<f64>();
    }
}
