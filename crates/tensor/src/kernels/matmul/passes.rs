//! One pass over the rows of a table, as dot products or as scaled rows that are added up, for each instruction-set level.
//!
//! Written with the vector instructions themselves, as the register blocks are: left to the compiler, a dot product took
//! four times as long.

use super::Multiply;
use super::block::MulAdd;
use super::short::{Dots, short_f32, short_f64};
#[cfg(target_arch = "x86_64")]
use super::short::{mask_f32, mask_f64};
use crate::kernels::each;
use crate::kernels::folds::Table;
use crate::kernels::lane::fold_lanes;
use crate::kernels::level::Level;

/// What both passes do with a sum.
#[derive(Clone, Copy)]
pub(super) struct Put<T> {
    pub(super) scale: T,
    pub(super) add: bool,
}

impl<T: MulAdd> Put<T> {
    /// Writes a sum, scaled, or adds it to what is there.
    #[inline(always)]
    pub(super) fn put(self, out: &mut T, sum: T) {
        *out = if self.add { *out + self.scale * sum } else { self.scale * sum };
    }
}

/// Results that are added up at once.
pub(super) const ABREAST: usize = 1024;

/// Dot products, for processors without wide registers.
pub(super) fn plain_dots<T: MulAdd>(out: &mut [T], rows: Table<&[T]>, x: &[T], put: Put<T>) {
    let (eights, x_rest) = x.as_chunks::<8>();
    for (i, o) in out.iter_mut().enumerate() {
        let (row, rest) = rows.row(i).as_chunks::<8>();
        let mut lanes = [T::default(); 8];
        for (v, x) in row.iter().zip(eights) {
            lanes = each(T::default(), |l| lanes[l] + v[l] * x[l]);
        }
        let more = rest.iter().zip(x_rest).fold(T::default(), |sum, (&v, &x)| sum + v * x);
        put.put(o, fold_lanes(lanes, T::add) + more);
    }
}

/// Scaled rows, for processors without wide registers.
fn plain_rows<T: MulAdd>(out: &mut [T], rows: Table<&[T]>, x: &[T], put: Put<T>) {
    for (block, out) in out.chunks_mut(ABREAST).enumerate() {
        let mut sums = [T::default(); ABREAST];
        for (p, &x) in x.iter().enumerate() {
            for (sum, &v) in sums[..out.len()].iter_mut().zip(&rows.row(p)[block * ABREAST..]) {
                *sum = *sum + x * v;
            }
        }
        out.iter_mut().zip(sums).for_each(|(o, sum)| put.put(o, sum));
    }
}

/// Both passes at one level: `$part` loads the first few elements and zeros, `$narrow` adds the lanes up until few are
/// left.
macro_rules! passes {
    ($dots:ident, $dot:ident, $rows:ident, $group:ident, $narrow_rows:ident, $features:literal, $t:ty, $lanes:literal,
     $zero:ident, $spread:ident, $load:ident, $store:ident, $part:ident, $fused:ident, $plus:ident, $narrow:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $dots(out: &mut [$t], rows: Table<&[$t]>, x: &[$t], put: Put<$t>) {
            let (fours, rest) = out.as_chunks_mut::<4>();
            let whole = 4 * fours.len();
            for (i, four) in fours.iter_mut().enumerate() {
                let sums = $dot::<4>(each(&[][..], |r| rows.row(4 * i + r)), x);
                four.iter_mut().zip(sums).for_each(|(o, sum)| put.put(o, sum));
            }
            for (i, o) in rest.iter_mut().enumerate() {
                put.put(o, $dot::<1>([rows.row(whole + i)], x)[0]);
            }
        }

        /// The dot products of some rows with `x`; each has the same bits as alone.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        #[inline]
        fn $dot<const R: usize>(rows: [&[$t]; R], x: &[$t]) -> [$t; R] {
            use std::arch::x86_64::*;
            let n = x.len();
            assert!(rows.iter().all(|row| row.len() == n));
            let mut sums = [[$zero(); 2]; R];
            let whole = n - n % (2 * $lanes);
            for at in (0..whole).step_by(2 * $lanes) {
                for c in 0..2 {
                    // SAFETY: `x` and all rows have `whole` elements, and two registers from `at` on end there at most.
                    let v = unsafe { $load(x.as_ptr().add(at + c * $lanes)) };
                    for r in 0..R {
                        // SAFETY: as above.
                        let row = unsafe { $load(rows[r].as_ptr().add(at + c * $lanes)) };
                        sums[r][c] = $fused(row, v, sums[r][c]);
                    }
                }
            }
            for c in 0..2 {
                let at = whole + c * $lanes;
                if at < n {
                    let v = $part(&x[at..]);
                    for r in 0..R {
                        sums[r][c] = $fused($part(&rows[r][at..]), v, sums[r][c]);
                    }
                }
            }
            sums.map(|[a, b]| fold_lanes($narrow($plus(a, b)), |a, b| a + b))
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $rows(out: &mut [$t], rows: Table<&[$t]>, x: &[$t], put: Put<$t>) {
            match out.len().div_ceil($lanes) {
                1 => return $narrow_rows::<1, 4>(out, rows, x, put),
                2 => return $narrow_rows::<2, 4>(out, rows, x, put),
                3 => return $narrow_rows::<3, 2>(out, rows, x, put),
                4 => return $narrow_rows::<4, 2>(out, rows, x, put),
                5 => return $narrow_rows::<5, 1>(out, rows, x, put),
                6 => return $narrow_rows::<6, 1>(out, rows, x, put),
                7 => return $narrow_rows::<7, 1>(out, rows, x, put),
                8 => return $narrow_rows::<8, 1>(out, rows, x, put),
                _ => {}
            }
            let (eights, rest) = x.as_chunks::<8>();
            let mut sums = [0.0; ABREAST];
            for (block, out) in out.chunks_mut(ABREAST).enumerate() {
                let row = |p: usize| &rows.row(p)[block * ABREAST..][..out.len()];
                for (i, &x) in eights.iter().enumerate() {
                    $group::<8>(&mut sums, each(&[][..], |p| row(8 * i + p)), x, i == 0);
                }
                for (i, &x) in rest.iter().enumerate() {
                    let p = 8 * eights.len() + i;
                    $group::<1>(&mut sums, [row(p)], [x], p == 0);
                }
                out.iter_mut().zip(sums).for_each(|(o, sum)| put.put(o, sum));
            }
        }

        /// Adds some scaled rows to the sums, or starts these with them.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        #[inline]
        fn $group<const G: usize>(sums: &mut [$t; ABREAST], rows: [&[$t]; G], x: [$t; G], first: bool) {
            use std::arch::x86_64::*;
            let n = rows[0].len();
            assert!(n <= ABREAST && rows.iter().all(|row| row.len() == n));
            let (pairs, rest) = sums[..n.next_multiple_of($lanes)].as_chunks_mut::<{ 2 * $lanes }>();
            let whole = n / (2 * $lanes);
            for (j, sums) in pairs[..whole].iter_mut().enumerate() {
                let place = sums.as_mut_ptr();
                // SAFETY: a pair of registers is as wide as a chunk of the sums.
                let load = |c: usize| if first { $zero() } else { unsafe { $load(place.add(c * $lanes)) } };
                let mut pair = [load(0), load(1)];
                for p in 0..G {
                    for c in 0..2 {
                        // SAFETY: the rows have that many whole chunks.
                        let line = unsafe { $load(rows[p].as_ptr().add((2 * j + c) * $lanes)) };
                        pair[c] = $fused($spread(x[p]), line, pair[c]);
                    }
                }
                for c in 0..2 {
                    // SAFETY: as for the load.
                    unsafe { $store(place.add(c * $lanes), pair[c]) };
                }
            }
            let rest = pairs[whole..].as_flattened_mut().iter_mut().chain(rest);
            for (j, sum) in (2 * whole * $lanes..n).zip(rest) {
                let start = if first { 0.0 } else { *sum };
                *sum = (0..G).fold(start, |sum, p| x[p].mul_add(rows[p][j], sum));
            }
        }

        /// Rows that fit in `N` registers: their sums stay there, in `G` sets that take rows in turn.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $narrow_rows<const N: usize, const G: usize>(
            out: &mut [$t],
            rows: Table<&[$t]>,
            x: &[$t],
            put: Put<$t>,
        ) {
            use std::arch::x86_64::*;
            let last = (N - 1) * $lanes;
            assert!(last < out.len() && rows.cols == out.len());
            let mut sums = [[$zero(); N]; G];
            for (i, x) in x.chunks(G).enumerate() {
                for (g, &x) in x.iter().enumerate() {
                    let (row, x) = (rows.row(i * G + g), $spread(x));
                    for c in 0..N - 1 {
                        // SAFETY: a row has more elements than all registers but the last.
                        let line = unsafe { $load(row.as_ptr().add(c * $lanes)) };
                        sums[g][c] = $fused(x, line, sums[g][c]);
                    }
                    sums[g][N - 1] = $fused(x, $part(&row[last..]), sums[g][N - 1]);
                }
            }
            let mut all = [[0.0; $lanes]; N];
            for c in 0..N {
                let mut sum = sums[0][c];
                for g in 1..G {
                    sum = $plus(sum, sums[g][c]);
                }
                // SAFETY: as wide as a register.
                unsafe { $store(all[c].as_mut_ptr(), sum) };
            }
            out.iter_mut().zip(all.as_flattened()).for_each(|(o, &sum)| put.put(o, sum));
        }
    };
}

#[rustfmt::skip]
passes!(
    f32_avx512_dots, f32_avx512_dot, f32_avx512_rows, f32_avx512_group, f32_avx512_narrow_rows,
    "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma", f32, 16,
    _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, f32_avx512_part,
    _mm512_fmadd_ps, _mm512_add_ps, f32_avx512_narrow
);
#[rustfmt::skip]
passes!(
    f64_avx512_dots, f64_avx512_dot, f64_avx512_rows, f64_avx512_group, f64_avx512_narrow_rows,
    "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma", f64, 8,
    _mm512_setzero_pd, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, f64_avx512_part,
    _mm512_fmadd_pd, _mm512_add_pd, f64_avx512_narrow
);
#[rustfmt::skip]
passes!(
    f32_avx2_dots, f32_avx2_dot, f32_avx2_rows, f32_avx2_group, f32_avx2_narrow_rows,
    "avx2,fma", f32, 8,
    _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, f32_avx2_part,
    _mm256_fmadd_ps, _mm256_add_ps, f32_avx2_narrow
);
#[rustfmt::skip]
passes!(
    f64_avx2_dots, f64_avx2_dot, f64_avx2_rows, f64_avx2_group, f64_avx2_narrow_rows,
    "avx2,fma", f64, 4,
    _mm256_setzero_pd, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, f64_avx2_part,
    _mm256_fmadd_pd, _mm256_add_pd, f64_avx2_narrow
);

/// What a level needs beside single instructions.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Ones for the elements that there are.
    #[inline(always)]
    pub(in super::super) fn mask(len: usize, lanes: usize) -> u16 {
        ((1u32 << len.min(lanes)) - 1) as u16
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(in super::super) fn f32_avx512_part(x: &[f32]) -> __m512 {
        // SAFETY: only elements that there are are read.
        unsafe { _mm512_maskz_loadu_ps(mask(x.len(), 16), x.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(in super::super) fn f64_avx512_part(x: &[f64]) -> __m512d {
        // SAFETY: only elements that there are are read.
        unsafe { _mm512_maskz_loadu_pd(mask(x.len(), 8) as u8, x.as_ptr()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(in super::super) fn f32_avx2_part(x: &[f32]) -> __m256 {
        // SAFETY: only elements that there are are read.
        unsafe { _mm256_maskload_ps(x.as_ptr(), super::mask_f32(x.len())) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(in super::super) fn f64_avx2_part(x: &[f64]) -> __m256d {
        // SAFETY: only elements that there are are read.
        unsafe { _mm256_maskload_pd(x.as_ptr(), super::mask_f64(x.len())) }
    }

    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    pub(super) fn f32_avx512_narrow(v: __m512) -> [f32; 4] {
        f32_avx2_narrow(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v)))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn f64_avx512_narrow(v: __m512d) -> [f64; 2] {
        f64_avx2_narrow(_mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd::<1>(v)))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn f32_avx2_narrow(v: __m256) -> [f32; 4] {
        let mut four = [0.0; 4];
        // SAFETY: four elements are written.
        unsafe {
            _mm_storeu_ps(
                four.as_mut_ptr(),
                _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v)),
            );
        }
        four
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn f64_avx2_narrow(v: __m256d) -> [f64; 2] {
        let mut two = [0.0; 2];
        // SAFETY: two elements are written.
        unsafe {
            _mm_storeu_pd(
                two.as_mut_ptr(),
                _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd::<1>(v)),
            );
        }
        two
    }
}
#[cfg(target_arch = "x86_64")]
use x86::*;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{f32_avx2_part, f32_avx512_part, f64_avx2_part, f64_avx512_part, mask};

/// The function of a type: the pass of the level; that of short rows, if it has one.
macro_rules! pass_of {
    ($(#[$doc:meta])* $name:ident, $t:ty, $avx512:ident, $avx2:ident, $plain:ident $(, $short:ident)?) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// `level` is this processor's.
        pub(super) unsafe fn $name(level: Level, out: &mut [$t], rows: Table<&[$t]>, x: &[$t], put: Put<$t>) {
            $(
                if x.len() <= <$t>::SHORT {
                    // SAFETY: as promised by the caller.
                    return unsafe { $short(level, out, &Dots::of(rows, x), put) };
                }
            )?
            match level {
                // SAFETY: this processor has the level, by the caller's promise, and so its features.
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => unsafe { $avx512(out, rows, x, put) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => unsafe { $avx2(out, rows, x, put) },
                _ => $plain(out, rows, x, put),
            }
        }
    };
}
pass_of!(
    /// The dot product of each row with `x`.
    dots_f32, f32, f32_avx512_dots, f32_avx2_dots, plain_dots, short_f32
);
pass_of!(
    /// The dot product of each row with `x`.
    dots_f64, f64, f64_avx512_dots, f64_avx2_dots, plain_dots, short_f64
);
pass_of!(
    /// The sum of all rows, each times its element of `x`.
    rows_f32, f32, f32_avx512_rows, f32_avx2_rows, plain_rows
);
pass_of!(
    /// The sum of all rows, each times its element of `x`.
    rows_f64, f64, f64_avx512_rows, f64_avx2_rows, plain_rows
);
