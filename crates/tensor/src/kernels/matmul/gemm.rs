//! Products of floating-point numbers: our own loops, and the door to `gemm` for large products with a vector.

use gemm_common::Parallelism;

use super::block::{Fused, Gemm, blocked};
use super::pack::SIDE;
use super::registers::{Block, block_f32, block_f64};
use super::{Multiply, Tile};
use crate::kernels::level::Level;

/// Products of one row or column of at most this many multiplications go to our own loops.
const TINY: usize = 32 * 32 * 32;

macro_rules! float_multiply {
    ($t:ident, $width:literal, $gemm:path, $block:path, $transpose:path) => {
        impl Multiply for $t {
            fn of_count(n: usize) -> $t {
                n as $t
            }
            #[inline(always)]
            fn plus(a: $t, b: $t) -> $t {
                a + b
            }
            #[inline]
            fn multiply(tile: Tile<'_, $t>) {
                multiply_float::<$t, $width>(tile, 1.0);
            }
        }
        impl Fused for $t {
            #[inline]
            unsafe fn compute(level: Level, block: &Block<$t>) {
                // SAFETY: as promised by the caller.
                unsafe { $block(level, block) }
            }
            #[inline(always)]
            fn gemm() -> Gemm<$t> {
                $gemm()
            }
            #[inline]
            fn transpose(rows: [&[$t; SIDE]; SIDE], out: &mut [$t], stride: usize) {
                $transpose(rows, out, stride)
            }
        }
    };
}
float_multiply!(f32, 16, gemm_f32::gemm::f32::get_gemm_fn, block_f32, super::pack::transpose_f32);
float_multiply!(f64, 8, gemm_f64::gemm::f64::get_gemm_fn, block_f64, super::pack::transpose_plain);

/// Products with a vector, which are read once, and scaled ones go to `gemm`; all others to our own loops, see
/// Note [Blocks].
fn multiply_float<T: Fused, const W: usize>(tile: Tile<'_, T>, one: T) {
    let (m, n) = (tile.m, tile.n);
    if tile.vector && m.max(n).saturating_mul(tile.k) > TINY || tile.scale != one {
        gemm_tile(tile, one);
    } else {
        // One column, written one element after another, is one row of the transposed product.
        blocked::<T, W>(if n == 1 && tile.out.stride == 1 { tile.transposed() } else { tile });
    }
}

/// One call of `gemm` on this thread.
pub(super) fn gemm_tile<T: Fused>(t: Tile<'_, T>, one: T) {
    assert!(t.out.rows == t.m && t.out.cols == t.n);
    // `gemm` writes down the columns of its result: a row-major product is computed as its transpose.
    let flip = t.out.stride > 1;
    let (m, n, row, col) = if flip { (t.n, t.m, 1, t.out.stride) } else { (t.m, t.n, t.out.stride, 1) };
    let (mut a, mut b) = if flip { (t.b.transposed(), t.a.transposed()) } else { (t.a, t.b) };
    if a.col_step < 0 {
        a = a.moved(0, 0, t.k - 1);
        b = b.moved(0, t.k - 1, 0);
        (a.col_step, b.row_step) = (-a.col_step, -b.row_step);
    }
    // SAFETY: `out` is a rectangle of m by n elements that this task alone writes; `Product::run` has checked that all
    // elements of the operands lie in their slices, and shared slices do not overlap an exclusive one. `gemm` takes
    // steps of any sign, or zero, for its operands.
    unsafe {
        T::gemm()(
            m,
            n,
            t.k,
            t.out.start,
            col as isize,
            row as isize,
            t.add,
            a.pointer(),
            a.col_step,
            a.row_step,
            b.pointer(),
            b.col_step,
            b.row_step,
            one,
            t.scale,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
