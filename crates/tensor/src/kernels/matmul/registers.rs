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
    /// where lines are copied to as they are read, one after another, unless it is null
    pub(super) copy: *mut T,
    /// where each line begins, counted from `b`, unless it is null
    pub(super) places: *const usize,
    /// how many registers of 64 bytes the strip is wide: one, two or [`WIDE`]
    pub(super) registers: usize,
    /// how many columns of the strip are written, at least one; the others may be of anything
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

/// A block of `R` rows, of which `live` are written, in `N` registers per row, of which `cols` columns are.
///
/// Where rows lie beside each other one pointer leads to all of them: a processor has fewer than it would take.
macro_rules! vector_block {
    ($name:ident, $features:literal, $t:ty, $lanes:literal,
     $zero:ident, $spread:ident, $load:ident, $store:ident, $fused:ident, $plus:ident, $times:ident,
     $some:path, $load_some:path, $store_some:path) => {
        /// # Safety
        /// As for `MulAdd::compute`, on a processor with these features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<const R: usize, const N: usize, const GROUPED: bool, const LINES: u8>(x: &Panel<$t>) {
            use std::arch::x86_64::{
                _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, $fused, $load, $plus, $spread, $store, $times, $zero,
            };
            // Each row of the result lies on a page of its own: asked for now, it is there when the sums are.
            for r in 0..R.min(x.live) {
                for c in 0..N {
                    _mm_prefetch::<_MM_HINT_T0>(x.out.wrapping_add(r * x.stride + c * $lanes).cast());
                }
            }
            let mut sums = [[$zero(); N]; R];
            let mut line = [$zero(); N];
            let (mut b, mut step, mut ahead, mut copy) = (x.b, 0, x.ahead, x.copy);
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
            let scale = $spread(x.scale);
            if x.cols < N * $lanes {
                // Aside from the other loop, which a mask makes 1.05 to 1.1 times as long where sums are short.
                for r in 0..R {
                    if r < x.live {
                        for c in 0..N {
                            if c * $lanes < x.cols {
                                let some = $some(x.cols - c * $lanes);
                                let sum = $times(sums[r][c], scale);
                                // SAFETY: the result has `live` rows of `cols` columns, and so has what they are added to; no
                                // others are read and written.
                                unsafe {
                                    let place = x.out.add(r * x.stride + c * $lanes);
                                    let sum = if x.onto.is_null() {
                                        sum
                                    } else {
                                        $plus(
                                            $load_some(x.onto.add(r * x.onto_stride + c * $lanes), some),
                                            sum,
                                        )
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
                            let place = x.out.add(r * x.stride + c * $lanes);
                            let sum = if x.onto.is_null() {
                                sum
                            } else {
                                $plus($load(x.onto.add(r * x.onto_stride + c * $lanes)), sum)
                            };
                            $store(place, sum);
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
    some::f32_avx512,
    some::f32_avx512_load,
    some::f32_avx512_store
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
    some::f64_avx512,
    some::f64_avx512_load,
    some::f64_avx512_store
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
    super::short::mask_f32,
    std::arch::x86_64::_mm256_maskload_ps,
    std::arch::x86_64::_mm256_maskstore_ps
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
    super::short::mask_f64,
    std::arch::x86_64::_mm256_maskload_pd,
    std::arch::x86_64::_mm256_maskstore_pd
);

/// Masks for the first elements of a register of 64 bytes, and what they read and write, in the order of arguments that 32 bytes have.
#[cfg(target_arch = "x86_64")]
mod some {
    use super::super::passes::mask;
    use std::arch::x86_64::*;

    macro_rules! some {
        ($t:ty, $lanes:literal, $mask:ty, $register:ty, $some:ident, $load:ident, $store:ident, $maskz_load:ident, $mask_store:ident) => {
            #[inline(always)]
            pub(super) fn $some(len: usize) -> $mask {
                mask(len, $lanes) as $mask
            }
            /// # Safety
            /// These elements can be read.
            #[target_feature(enable = "avx512f")]
            #[inline]
            pub(super) unsafe fn $load(from: *const $t, some: $mask) -> $register {
                // SAFETY: as promised by the caller.
                unsafe { $maskz_load(some, from) }
            }
            /// # Safety
            /// These elements can be written.
            #[target_feature(enable = "avx512f")]
            #[inline]
            pub(super) unsafe fn $store(to: *mut $t, some: $mask, v: $register) {
                // SAFETY: as promised by the caller.
                unsafe { $mask_store(to, some, v) }
            }
        };
    }
    #[rustfmt::skip]
    some!(f32, 16, u16, __m512, f32_avx512, f32_avx512_load, f32_avx512_store, _mm512_maskz_loadu_ps, _mm512_mask_storeu_ps);
    #[rustfmt::skip]
    some!(f64, 8, u8, __m512d, f64_avx512, f64_avx512_load, f64_avx512_store, _mm512_maskz_loadu_pd, _mm512_mask_storeu_pd);
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
        let mut sums = [T::default(); W];
        for p in 0..x.depth as isize {
            // SAFETY: there is a place for each line, if there are any; every row is as long as the strip is deep, and a line of
            // the strip has `W` elements.
            let (left, line) = unsafe {
                let b = if x.places.is_null() { p * x.b_step } else { *x.places.offset(p) as isize };
                (*row.offset(p * x.a_step), *x.b.offset(b).cast::<[T; W]>())
            };
            sums = each(T::default(), |c| sums[c] + left * line[c]);
        }
        for (c, &sum) in sums[..x.cols].iter().enumerate() {
            let sum = sum * x.scale;
            // SAFETY: the result has `live` rows of `cols` elements, which nobody else uses now, and so has what the sums are added to.
            unsafe {
                let sum = if x.onto.is_null() { sum } else { *x.onto.add(r * x.onto_stride + c) + sum };
                *x.out.add(r * x.stride + c) = sum;
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
