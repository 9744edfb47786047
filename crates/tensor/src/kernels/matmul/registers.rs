//! The innermost loop of a product: a block of results in registers, written for each instruction-set level, because
//! whether the compiler finds this form by itself depends on what it inlines where.

use crate::dtype::Element;
use crate::kernels::each;
use crate::kernels::level::Level;

/// Rows of a block that each have a pointer, at most.
pub(super) const POINTERS: usize = 8;

/// Some rows of a strip of the result, and where their operands begin.
pub(super) struct Panel<T> {
    pub(super) depth: usize,
    /// how many rows there are, at least one
    pub(super) live: usize,
    /// whether the rows of the left operand lie beside each other, element by element, `a_step` of them
    pub(super) grouped: bool,
    /// rows of the left operand, those beyond `live` repeat the last one; or where the group begins
    pub(super) rows: [*const T; POINTERS],
    /// from one element of such a row to the next
    pub(super) a_step: isize,
    pub(super) b: *const T,
    /// from one line of the strip to the next
    pub(super) b_step: isize,
    /// from the lines of one block to those of the next
    pub(super) b_apart: usize,
    /// where lines are copied to as they are read, one after another, unless it is null
    pub(super) copy: *mut T,
    /// where each line begins, counted from `b`, unless it is null
    pub(super) places: *const usize,
    /// how many registers of 64 bytes a block is wide: one, two or [`WIDE`]
    pub(super) registers: usize,
    /// how many columns of the strip are written, at least one, block by block; those that fill the last block may be of anything
    pub(super) cols: usize,
    pub(super) out: *mut T,
    /// from one row of the result to the next
    pub(super) stride: usize,
    /// what the sums are added to, unless it is null
    pub(super) onto: *const T,
    /// from one row of that to the next
    pub(super) onto_stride: usize,
    /// what the sums are multiplied by
    pub(super) scale: T,
    /// what is asked for at the first inner position where rows have two registers, and from one position to the next
    pub(super) ahead: *const T,
    pub(super) ahead_step: isize,
}

/// The rows of a large product's blocks, in groups, on a processor with 32 registers of 64 bytes.
pub(super) const HIGH: usize = 12;

/// Registers of a row of a wide block, for sums so short that their strip fits in the first-level cache, or for few rows, and its rows.
pub(super) const WIDE: usize = 4;
pub(super) const LOW: usize = 6;

/// The rows of a block otherwise: enough sums in flight to hide the latency of a multiply-add, and few enough for the
/// registers.
pub(super) fn height(level: Level) -> usize {
    match level {
        Level::Avx512 => 8,
        Level::Avx2 => 6,
        Level::Baseline => 4,
    }
}

/// Lines a step apart; each at its place; a step apart, and copied.
const BESIDE: u8 = 0;
const PLACED: u8 = 1;
const COPIED: u8 = 2;

/// Blocks of `R` rows, of which `live` are written, in `N` registers per row, one beside the other until `cols` columns are written.
///
/// Where rows lie beside each other one pointer leads to all of them: a processor has fewer than it would take.
macro_rules! vector_block {
    ($name:ident, $features:literal, $t:ty, $lanes:literal,
     $zero:ident, $spread:ident, $load:ident, $store:ident, $fused:ident, $plus:ident, $times:ident,
     $part:path, $store_some:path) => {
        /// # Safety
        /// As for `MulAdd::compute`, on a processor with these features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<const R: usize, const N: usize, const GROUPED: bool, const LINES: u8>(x: &Panel<$t>) {
            use std::arch::x86_64::{
                _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, $fused, $load, $plus, $spread, $store, $times, $zero,
            };
            let scale = $spread(x.scale);
            for (number, from) in (0..x.cols).step_by(N * $lanes).enumerate() {
                let (out, cols) = (x.out.wrapping_add(from), x.cols - from);
                // Each row of the result lies on a page of its own: asked for now, it is there when the sums are.
                for r in 0..R.min(x.live) {
                    for c in 0..N {
                        _mm_prefetch::<_MM_HINT_T0>(out.wrapping_add(r * x.stride + c * $lanes).cast());
                    }
                }
                let mut sums = [[$zero(); N]; R];
                let mut line = [$zero(); N];
                let (mut b, mut step) = (x.b.wrapping_add(number * x.b_apart), 0);
                let (mut ahead, mut copy) = (x.ahead, x.copy);
                for p in 0..x.depth {
                    if N == 2 && LINES != PLACED {
                        _mm_prefetch::<_MM_HINT_T1>(ahead.cast());
                        ahead = ahead.wrapping_offset(x.ahead_step);
                    }
                    if LINES == PLACED {
                        // SAFETY: there is a place for each line.
                        b = x.b.wrapping_add(unsafe { *x.places.add(p) });
                    }
                    for c in 0..N {
                        // SAFETY: a line of the strip is as wide as these registers.
                        line[c] = unsafe { $load(b.add(c * $lanes)) };
                        if LINES == COPIED {
                            // SAFETY: there is room for as many lines as the strip is deep.
                            unsafe { $store(copy.add(c * $lanes), line[c]) };
                        }
                    }
                    if LINES == COPIED {
                        copy = copy.wrapping_add(N * $lanes);
                    }
                    for r in 0..R {
                        // SAFETY: every row is as long as the strip is deep, and a group is `a_step >= R` rows.
                        let left = $spread(unsafe {
                            if GROUPED { *x.rows[0].offset(step).add(r) } else { *x.rows[r].offset(step) }
                        });
                        for c in 0..N {
                            sums[r][c] = $fused(left, line[c], sums[r][c]);
                        }
                    }
                    if LINES != PLACED {
                        b = b.wrapping_offset(x.b_step);
                    }
                    step += x.a_step;
                }
                if cols < N * $lanes {
                    // Aside from the other loop, which a mask makes 1.05 to 1.1 times as long where sums are short.
                    for r in 0..R {
                        if r < x.live {
                            for c in 0..N {
                                if c * $lanes < cols {
                                    let some = (cols - c * $lanes).min($lanes);
                                    let sum = $times(sums[r][c], scale);
                                    // SAFETY: the result has `live` rows of `cols` columns, and so has what they are added to; no
                                    // others are read and written.
                                    unsafe {
                                        let place = out.add(r * x.stride + c * $lanes);
                                        let sum = if x.onto.is_null() {
                                            sum
                                        } else {
                                            let onto = x.onto.add(from + r * x.onto_stride + c * $lanes);
                                            $plus($part(std::slice::from_raw_parts(onto, some)), sum)
                                        };
                                        $store_some(place, some, sum);
                                    }
                                }
                            }
                        }
                    }
                    return;
                }
                for r in 0..R {
                    if r < x.live {
                        for c in 0..N {
                            let sum = $times(sums[r][c], scale);
                            // SAFETY: the result has `live` rows as wide as these registers, and so has what they are added to.
                            unsafe {
                                let place = out.add(r * x.stride + c * $lanes);
                                let sum = if x.onto.is_null() {
                                    sum
                                } else {
                                    $plus($load(x.onto.add(from + r * x.onto_stride + c * $lanes)), sum)
                                };
                                $store(place, sum);
                            }
                        }
                    }
                }
            }
        }
    };
}

vector_block!(
    f32_avx512,
    "avx512f",
    f32,
    16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_mul_ps,
    super::passes::f32_avx512_part,
    some::f32_avx512
);
vector_block!(
    f64_avx512,
    "avx512f",
    f64,
    8,
    _mm512_setzero_pd,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_fmadd_pd,
    _mm512_add_pd,
    _mm512_mul_pd,
    super::passes::f64_avx512_part,
    some::f64_avx512
);
vector_block!(
    f32_avx2,
    "avx2,fma",
    f32,
    8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_mul_ps,
    super::passes::f32_avx2_part,
    some::f32_avx2
);
vector_block!(
    f64_avx2,
    "avx2,fma",
    f64,
    4,
    _mm256_setzero_pd,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_fmadd_pd,
    _mm256_add_pd,
    _mm256_mul_pd,
    super::passes::f64_avx2_part,
    some::f64_avx2
);

/// Writes the first elements of a register, as many as there are: at least one.
#[cfg(target_arch = "x86_64")]
mod some {
    use super::super::passes::mask;
    use std::arch::x86_64::*;

    /// # Safety
    /// These elements can be written.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) unsafe fn f32_avx512(to: *mut f32, len: usize, v: __m512) {
        // SAFETY: as promised by the caller.
        unsafe { _mm512_mask_storeu_ps(to, mask(len, 16), v) }
    }

    /// # Safety
    /// These elements can be written.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) unsafe fn f64_avx512(to: *mut f64, len: usize, v: __m512d) {
        // SAFETY: as promised by the caller.
        unsafe { _mm512_mask_storeu_pd(to, mask(len, 8) as u8, v) }
    }

    /// By halves: through a mask of AVX2 a Zen 3 writes one register in twelve cycles.
    ///
    /// # Safety
    /// These elements can be written.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn f32_avx2(mut to: *mut f32, len: usize, v: __m256) {
        let mut rest = _mm256_castps256_ps128(v);
        // SAFETY: the parts that are written have `len` elements together, as promised by the caller.
        unsafe {
            if len >= 8 {
                return _mm256_storeu_ps(to, v);
            }
            if len & 4 != 0 {
                _mm_storeu_ps(to, rest);
                (to, rest) = (to.add(4), _mm256_extractf128_ps::<1>(v));
            }
            if len & 2 != 0 {
                _mm_storel_pd(to.cast(), _mm_castps_pd(rest));
                (to, rest) = (to.add(2), _mm_movehl_ps(rest, rest));
            }
            if len & 1 != 0 {
                _mm_store_ss(to, rest);
            }
        }
    }

    /// By halves, as [`f32_avx2`].
    ///
    /// # Safety
    /// These elements can be written.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn f64_avx2(mut to: *mut f64, len: usize, v: __m256d) {
        let mut rest = _mm256_castpd256_pd128(v);
        // SAFETY: the parts that are written have `len` elements together, as promised by the caller.
        unsafe {
            if len >= 4 {
                return _mm256_storeu_pd(to, v);
            }
            if len & 2 != 0 {
                _mm_storeu_pd(to, rest);
                (to, rest) = (to.add(2), _mm256_extractf128_pd::<1>(v));
            }
            if len & 1 != 0 {
                _mm_store_sd(to, rest);
            }
        }
    }
}

/// Row by row, for processors without wide registers.
///
/// # Safety
/// As for `MulAdd::compute`.
unsafe fn plain<T: Element + std::ops::Add<Output = T> + std::ops::Mul<Output = T>, const W: usize>(
    x: &Panel<T>,
) {
    for r in 0..x.live {
        let row = if x.grouped { x.rows[0].wrapping_add(r) } else { x.rows[r] };
        for (number, from) in (0..x.cols).step_by(W).enumerate() {
            let mut sums = [T::default(); W];
            for p in 0..x.depth as isize {
                // SAFETY: there is a place for each line, if there are any; every row is as long as the strip is deep, and a line of
                // a block has `W` elements.
                let (left, line) = unsafe {
                    let b = if x.places.is_null() { p * x.b_step } else { *x.places.offset(p) as isize };
                    (*row.offset(p * x.a_step), *x.b.offset(b).add(number * x.b_apart).cast::<[T; W]>())
                };
                sums = each(T::default(), |c| sums[c] + left * line[c]);
            }
            for (c, &sum) in (from..x.cols).zip(&sums) {
                let sum = sum * x.scale;
                // SAFETY: the result has `live` rows of `cols` elements, which nobody else uses now, and so has what the sums are added to.
                unsafe {
                    let sum = if x.onto.is_null() { sum } else { *x.onto.add(r * x.onto_stride + c) + sum };
                    *x.out.add(r * x.stride + c) = sum;
                }
            }
        }
    }
}

/// The function of a type: few heights, of which the last rows of a matrix take the one that wastes least.
macro_rules! block_of {
    ($name:ident, $t:ty, $width:literal, $avx512:ident, $avx2:ident) => {
        /// [`MulAdd::compute`](super::block::MulAdd::compute).
        ///
        /// # Safety
        /// As there.
        pub(super) unsafe fn $name(level: Level, x: &Panel<$t>) {
            // SAFETY: as promised by the caller; `level` is this processor's, so it has the features.
            unsafe {
                match (level, x.live) {
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, _) if x.registers == WIDE => match x.live {
                        5.. => $avx512::<LOW, WIDE, false, BESIDE>(x),
                        4 => $avx512::<4, WIDE, false, BESIDE>(x),
                        3 => $avx512::<3, WIDE, false, BESIDE>(x),
                        _ => $avx512::<2, WIDE, false, BESIDE>(x),
                    },
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, _) if !x.copy.is_null() => match x.grouped {
                        true => $avx512::<12, 2, true, COPIED>(x),
                        false => $avx512::<8, 2, false, COPIED>(x),
                    },
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, _) if !x.places.is_null() => match x.live {
                        9.. => $avx512::<12, 2, true, PLACED>(x),
                        5.. => $avx512::<8, 2, true, PLACED>(x),
                        _ => $avx512::<4, 2, true, PLACED>(x),
                    },
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, _) if x.grouped && x.registers == 2 => match x.live {
                        9.. => $avx512::<12, 2, true, BESIDE>(x),
                        5.. => $avx512::<8, 2, true, BESIDE>(x),
                        _ => $avx512::<4, 2, true, BESIDE>(x),
                    },
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, _) if x.registers == 2 => match x.live {
                        5.. => $avx512::<8, 2, false, BESIDE>(x),
                        2.. => $avx512::<4, 2, false, BESIDE>(x),
                        _ => $avx512::<1, 2, false, BESIDE>(x),
                    },
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, 9..) => $avx512::<12, 1, true, BESIDE>(x),
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, 5..) if x.grouped => $avx512::<8, 1, true, BESIDE>(x),
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, _) if x.grouped => $avx512::<4, 1, true, BESIDE>(x),
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, 5..) => $avx512::<8, 1, false, BESIDE>(x),
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, 2..) => $avx512::<4, 1, false, BESIDE>(x),
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, _) => $avx512::<1, 1, false, BESIDE>(x),
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx2, _) if !x.places.is_null() => $avx2::<6, 2, true, PLACED>(x),
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx2, _) if x.grouped => $avx2::<6, 2, true, BESIDE>(x),
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx2, 4..) => $avx2::<6, 2, false, BESIDE>(x),
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx2, _) => $avx2::<3, 2, false, BESIDE>(x),
                    _ => plain::<$t, $width>(x),
                }
            }
        }
    };
}
block_of!(block_f32, f32, 16, f32_avx512, f32_avx2);
block_of!(block_f64, f64, 8, f64_avx512, f64_avx2);
