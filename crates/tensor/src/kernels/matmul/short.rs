//! Dot products of short rows, for a whole batch of matrices, each with a vector of its own.
//!
//! Note [Short rows]
//! Of a row of a few registers the sum of the lanes takes longer than the products, and of a small matrix the way to its product longer
//! than both. So as many rows as a register has lanes are multiplied at a time, the next matrix's behind the last one's, and their lanes added
//! up by a tree of shuffles, which ends in a register of results. It is the tree of a single row (`fold_lanes`), with the same bits. A batch
//! of 8 by 8 with vectors takes a tenth of the time that product by product took, a matrix of 16 columns with a vector half.

use super::block::MulAdd;
use super::passes::{Put, plain_dots};
use super::{BatchAxis, Matrix, row_major};
use crate::kernels::folds::Table;
use crate::kernels::level::Level;

/// The rows of a batch of matrices, and the vector of each matrix.
pub(crate) struct Dots<'a, T> {
    /// of `k` elements each, a row for each result; or, if they are scaled, the other way round
    pub(super) rows: Matrix<'a, T>,
    /// a row for each matrix
    pub(super) x: Matrix<'a, T>,
    /// results of each matrix
    pub(super) count: usize,
    pub(super) k: usize,
    /// whether results are rows that are added up, each times a number of the vector, and not dot products of rows
    pub(super) scaled: bool,
    /// matrices, and how far rows and vectors are moved from one to the next
    pub(super) batch: BatchAxis,
}

impl<'a, T: Copy> Dots<'a, T> {
    /// The rows of one matrix.
    #[inline]
    pub(super) fn of(rows: Table<&'a [T]>, x: &'a [T]) -> Dots<'a, T> {
        let Table { data, start, rows: count, step: row_step, cols: k } = rows;
        assert_eq!(k, x.len());
        let rows = Matrix { data, start: start as usize, row_step, col_step: 1 };
        let batch = BatchAxis { size: 1, a_step: 0, b_step: 0 };
        Dots { rows, x: row_major(x, k), count, k, scaled: false, batch }
    }

    /// Panics unless all rows and vectors lie in their slices, and there are as many results.
    fn check(&self, results: usize) {
        let BatchAxis { size, a_step, b_step } = self.batch;
        assert!(self.rows.col_step == 1 && results == size * self.count);
        let (rows, cols) = if self.scaled { (self.k, self.count) } else { (self.count, self.k) };
        self.rows.check([(size, a_step)].into_iter(), rows, cols);
        self.x.check([(size, b_step)].into_iter(), 1, self.k);
    }
}

/// Matrix by matrix, for processors without wide registers.
fn plain_short<T: MulAdd>(out: &mut [T], dots: &Dots<'_, T>, put: Put<T>) {
    for (out, i) in out.chunks_exact_mut(dots.count).zip(0isize..) {
        let rows = dots.rows.moved(i * dots.batch.a_step, 0, 0);
        let x = dots.x.moved(i * dots.batch.b_step, 0, 0);
        if dots.scaled {
            for (j, o) in out.iter_mut().enumerate() {
                let mut sum = T::default();
                for p in 0..dots.k {
                    // SAFETY: `check` has found all elements in their slices.
                    sum = sum + unsafe { x.at(0, p) * rows.at(p, j) };
                }
                put.put(o, sum);
            }
            continue;
        }
        let (data, start, step) = (rows.data, rows.start as isize, rows.row_step);
        plain_dots(
            out,
            Table { data, start, rows: dots.count, step, cols: dots.k },
            &x.rest()[..dots.k],
            put,
        );
    }
}

/// Rows of at most four registers, of which the last may be partly filled.
macro_rules! short_dots {
    ($name:ident, $wide:ident, $of:ident, $scaled:ident, $tree:ident, $t:ty, $lanes:literal, $register:ty, $zero:ident, $load:ident, $store:ident,
     $mask:ident, $part:ident, $fused:ident, $plus:ident, $times:ident, $spread:ident) => {
        /// The dot products of rows of at most four registers.
        ///
        /// # Safety
        /// `level` is this processor's.
        pub(super) unsafe fn $name(level: Level, out: &mut [$t], dots: &Dots<'_, $t>, put: Put<$t>) {
            match level {
                // SAFETY: this processor has the level, by the caller's promise, and so its features.
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 | Level::Avx2 => unsafe { $wide(out, dots, put) },
                _ => plain_short(out, dots, put),
            }
        }

        /// Results in `N` registers: rows take turns in four sets of sums, as those of a single matrix.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $scaled<const N: usize>(out: &mut [$t], dots: &Dots<'_, $t>, put: Put<$t>) {
            use std::arch::x86_64::*;
            dots.check(out.len());
            let last = (N - 1) * $lanes;
            assert!(last < dots.count && dots.count <= N * $lanes);
            let mask = $mask(dots.count - last);
            let (mut matrix, mut vector) = (dots.rows.pointer(), dots.x.pointer());
            let (step, x_step, batch) = (dots.rows.row_step, dots.x.col_step, dots.batch);
            for out in out.chunks_exact_mut(dots.count) {
                let mut sums = [[$zero(); N]; 4];
                for p in (0..dots.k).step_by(4) {
                    for g in 0..4 {
                        let p = (p + g) as isize;
                        if p >= dots.k as isize {
                            break;
                        }
                        let row = matrix.wrapping_offset(p * step);
                        // SAFETY: `check` has found it in its slice.
                        let x = $spread(unsafe { *vector.offset(p * x_step) });
                        for c in 0..N - 1 {
                            // SAFETY: a row, which `check` found in its slice, has more elements than all registers but the last.
                            sums[g][c] = $fused(x, unsafe { $load(row.add(c * $lanes)) }, sums[g][c]);
                        }
                        // SAFETY: only elements of the row are read.
                        sums[g][N - 1] = $fused(x, unsafe { $part(row.add(last), mask) }, sums[g][N - 1]);
                    }
                }
                let mut all = [[0.0; $lanes]; N];
                for c in 0..N {
                    let sum = $plus($plus($plus(sums[0][c], sums[1][c]), sums[2][c]), sums[3][c]);
                    // SAFETY: as wide as a register.
                    unsafe { $store(all[c].as_mut_ptr(), sum) };
                }
                out.iter_mut().zip(all.as_flattened()).for_each(|(o, &sum)| put.put(o, sum));
                (matrix, vector) =
                    (matrix.wrapping_offset(batch.a_step), vector.wrapping_offset(batch.b_step));
            }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $wide(out: &mut [$t], dots: &Dots<'_, $t>, put: Put<$t>) {
            if dots.scaled {
                return if dots.count <= $lanes {
                    $scaled::<1>(out, dots, put)
                } else {
                    $scaled::<2>(out, dots, put)
                };
            }
            assert!(dots.x.col_step == 1);
            match (dots.k.div_ceil($lanes), dots.k % $lanes == 0) {
                (1, true) => $of::<1, true>(out, dots, put),
                (1, false) => $of::<1, false>(out, dots, put),
                (2, true) => $of::<2, true>(out, dots, put),
                (2, false) => $of::<2, false>(out, dots, put),
                (3, _) => $of::<3, false>(out, dots, put),
                (4, true) => $of::<4, true>(out, dots, put),
                _ => $of::<4, false>(out, dots, put),
            }
        }

        /// Rows of `N` registers, the last of which may be `FULL`.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $of<const N: usize, const FULL: bool>(out: &mut [$t], dots: &Dots<'_, $t>, put: Put<$t>) {
            use std::arch::x86_64::*;
            dots.check(out.len());
            let last = (N - 1) * $lanes;
            assert!(last < dots.k && dots.k <= N * $lanes && (!FULL || dots.k == N * $lanes));
            let mask = $mask(dots.k - last);
            let load = |row: *const $t| {
                let mut v = [$zero(); N];
                for c in 0..N - 1 {
                    // SAFETY: a row, which `check` found in its slice, has more elements than all registers but the last.
                    v[c] = unsafe { $load(row.add(c * $lanes)) };
                }
                // SAFETY: only elements of the row are read; a full register of them has all its lanes.
                v[N - 1] = unsafe { if FULL { $load(row.add(last)) } else { $part(row.add(last), mask) } };
                v
            };
            let products = |row: *const $t, x: [$register; N]| {
                let row = load(row);
                // Two chains, as of a long row.
                let mut sums = [$fused(row[0], x[0], $zero()), $zero()];
                for c in 1..N {
                    sums[c % 2] = $fused(row[c], x[c], sums[c % 2]);
                }
                if N == 1 { sums[0] } else { $plus(sums[0], sums[1]) }
            };
            let (mut matrix, mut vector, mut row) = (dots.rows.pointer(), dots.x.pointer(), 0);
            let (step, BatchAxis { a_step, b_step, .. }) = (dots.rows.row_step, dots.batch);
            let mut place = matrix;
            for out in out.chunks_mut($lanes) {
                let mut sums = [$zero(); $lanes];
                if row + $lanes <= dots.count {
                    let x = load(vector);
                    for r in 0..$lanes {
                        sums[r] = products(place.wrapping_offset(r as isize * step), x);
                    }
                    (place, row) = (place.wrapping_offset($lanes * step), row + $lanes);
                } else {
                    // Of several matrices, or the last ones, behind which the first is read again.
                    let mut places = [(place, vector); $lanes];
                    for at in &mut places {
                        if row == dots.count {
                            (matrix, vector) =
                                (matrix.wrapping_offset(a_step), vector.wrapping_offset(b_step));
                            (place, row) = (matrix, 0);
                        }
                        *at = (place, vector);
                        (place, row) = (place.wrapping_offset(step), row + 1);
                    }
                    let first = places[0];
                    places[out.len()..].fill(first);
                    for r in 0..$lanes {
                        sums[r] = products(places[r].0, load(places[r].1));
                    }
                }
                if row == dots.count {
                    (matrix, vector) = (matrix.wrapping_offset(a_step), vector.wrapping_offset(b_step));
                    (place, row) = (matrix, 0);
                }
                let sums = $tree(sums);
                match out.as_mut_array::<$lanes>() {
                    Some(out) if !put.add => {
                        // SAFETY: as wide as a register.
                        unsafe { $store(out.as_mut_ptr(), $times($spread(put.scale), sums)) };
                    }
                    _ => {
                        let mut all = [0.0; $lanes];
                        // SAFETY: as above.
                        unsafe { $store(all.as_mut_ptr(), sums) };
                        out.iter_mut().zip(all).for_each(|(o, sum)| put.put(o, sum));
                    }
                }
            }
        }
    };
}
#[rustfmt::skip]
short_dots!(
    short_f32, short_f32_wide, short_f32_of, short_f32_scaled, tree_f32, f32, 8, __m256, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps,
    mask_f32, _mm256_maskload_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_mul_ps, _mm256_set1_ps
);
#[rustfmt::skip]
short_dots!(
    short_f64, short_f64_wide, short_f64_of, short_f64_scaled, tree_f64, f64, 4, __m256d, _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd,
    mask_f64, _mm256_maskload_pd, _mm256_fmadd_pd, _mm256_add_pd, _mm256_mul_pd, _mm256_set1_pd
);

/// Masks, and trees over the lanes of as many registers as these have lanes: the upper half is added to the lower one until one is left.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Ones for the elements that there are.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(in super::super) fn mask_f32(len: usize) -> __m256i {
        let place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(len.min(8) as i32), place)
    }

    /// Ones for the elements that there are.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(in super::super) fn mask_f64(len: usize) -> __m256i {
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(len.min(4) as i64), _mm256_setr_epi64x(0, 1, 2, 3))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(in super::super) fn tree_f32(x: [__m256; 8]) -> __m256 {
        // Rows 0 to 3 in the lower half, four lanes each, and 4 to 7 in the upper one.
        let mut fours = [_mm256_setzero_ps(); 4];
        for i in 0..4 {
            let low = _mm256_permute2f128_ps::<0x20>(x[i], x[i + 4]);
            fours[i] = _mm256_add_ps(low, _mm256_permute2f128_ps::<0x31>(x[i], x[i + 4]));
        }
        let mut twos = [_mm256_setzero_ps(); 2];
        for i in 0..2 {
            let (a, b) = (_mm256_castps_pd(fours[2 * i]), _mm256_castps_pd(fours[2 * i + 1]));
            let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            twos[i] = _mm256_add_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high));
        }
        let even = _mm256_shuffle_ps::<0x88>(twos[0], twos[1]);
        _mm256_add_ps(even, _mm256_shuffle_ps::<0xdd>(twos[0], twos[1]))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(in super::super) fn tree_f64(x: [__m256d; 4]) -> __m256d {
        let mut twos = [_mm256_setzero_pd(); 2];
        for i in 0..2 {
            let low = _mm256_permute2f128_pd::<0x20>(x[i], x[i + 2]);
            twos[i] = _mm256_add_pd(low, _mm256_permute2f128_pd::<0x31>(x[i], x[i + 2]));
        }
        _mm256_add_pd(_mm256_unpacklo_pd(twos[0], twos[1]), _mm256_unpackhi_pd(twos[0], twos[1]))
    }
}
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{mask_f32, mask_f64, tree_f32, tree_f64};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Element;
    use crate::kernels::lane::Float;
    use crate::kernels::level::detected_level;

    /// Every row has the value of a plain loop, and the bits that it has alone, however many there are of each matrix.
    fn rows_of_batches_are_those_alone<T: MulAdd>() {
        let of = |i: usize| match i % 97 {
            3 => T::of(-0.0),
            50 if i > 2000 => T::of(f64::NAN),
            i => T::of(i as f64 / 7.0 - 3.0),
        };
        let data: Vec<T> = (0..9000).map(of).collect();
        for k in 1..=T::SHORT {
            for count in [1, 2, 3, 5, 8, 9, 17] {
                for (size, more, vectors) in [(1, 0, 1), (2, 3, 1), (7, 0, 0), (11, 1, 1)] {
                    let step = k + more;
                    let a_step = (count * step + more) as isize;
                    let batch = BatchAxis { size, a_step, b_step: (vectors * k) as isize };
                    let rows = Matrix { data: &data, start: 5, row_step: step as isize, col_step: 1 };
                    let dots = Dots { rows, x: row_major(&data[900..], k), count, k, scaled: false, batch };
                    for level in [Level::Baseline, Level::Avx2, Level::Avx512] {
                        if level > detected_level() {
                            continue;
                        }
                        for put in
                            [Put { scale: T::of(1.0), add: false }, Put { scale: T::of(3.0), add: true }]
                        {
                            let mut out = vec![T::of(0.5); size * count];
                            // SAFETY: the processor has the level.
                            unsafe { T::short_dots(level, &mut out, &dots, put) };
                            for (i, &found) in out.iter().enumerate() {
                                let row = &data[5 + i / count * a_step as usize + i % count * step..][..k];
                                let x = &data[900 + i / count * vectors * k..][..k];
                                let mut alone = [T::of(0.5)];
                                let table = Table { data: row, start: 0, rows: 1, step: 0, cols: k };
                                // SAFETY: as above.
                                unsafe { T::dots(level, &mut alone, table, x, put) };
                                let what = format!("{i} of {size} times {count} by {k} at {level:?}");
                                assert_eq!(bits(found), bits(alone[0]), "{what}");
                                let sum: f64 = row.iter().zip(x).map(|(a, b)| to_f64(*a) * to_f64(*b)).sum();
                                let want = if put.add { 0.5 + 3.0 * sum } else { sum };
                                let found = to_f64(found);
                                let near = (found - want).abs() <= 1e-2 || found.is_nan() && want.is_nan();
                                assert!(near, "{what}: {found} for {want}");
                            }
                        }
                    }
                }
            }
        }
    }

    /// Whole numbers, whose sums are exact in any order.
    fn scaled_rows_of_batches_follow_the_definition<T: MulAdd>() {
        let data: Vec<T> = (0..9000).map(|i| T::of(((i * 37 + 5) % 17) as f64 - 8.0)).collect();
        for count in 1..=2 * T::LANES {
            for (k, size, x_step) in [(1, 3, 1), (3, 1, 2), (8, 7, 1), (13, 5, 3)] {
                let step = count + k % 3;
                let batch = BatchAxis { size, a_step: (k * step + 1) as isize, b_step: k as isize };
                let rows = Matrix { data: &data, start: 5, row_step: step as isize, col_step: 1 };
                let x = Matrix { data: &data, start: 77, row_step: 0, col_step: x_step };
                let dots = Dots { rows, x, count, k, scaled: true, batch };
                for level in [Level::Baseline, Level::Avx2, Level::Avx512] {
                    if level > detected_level() {
                        continue;
                    }
                    let mut out = vec![T::of(0.5); size * count];
                    // SAFETY: the processor has the level.
                    unsafe { T::short_dots(level, &mut out, &dots, Put { scale: T::of(3.0), add: true }) };
                    for (i, &found) in out.iter().enumerate() {
                        let item = (i / count) as isize;
                        let (rows, x) =
                            (rows.moved(item * batch.a_step, 0, 0), x.moved(item * batch.b_step, 0, 0));
                        let at = |m: &Matrix<'_, T>, row, col| to_f64(m.moved(0, row, col).rest()[0]);
                        let sum: f64 = (0..k).map(|p| at(&x, 0, p) * at(&rows, p, i % count)).sum();
                        assert_eq!(
                            to_f64(found),
                            0.5 + 3.0 * sum,
                            "{i} of {size} times {count} by {k} at {level:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn scaled_rows_of_a_batch_follow_the_definition() {
        scaled_rows_of_batches_follow_the_definition::<f32>();
        scaled_rows_of_batches_follow_the_definition::<f64>();
    }

    fn to_f64<T: Element>(v: T) -> f64 {
        v.to_scalar().to_f64()
    }

    fn bits<T: Float>(v: T) -> u64 {
        if v.is_nan_() { u64::MAX } else { to_f64(v).to_bits() }
    }

    #[test]
    fn rows_of_a_batch_are_those_alone() {
        rows_of_batches_are_those_alone::<f32>();
        rows_of_batches_are_those_alone::<f64>();
    }
}
