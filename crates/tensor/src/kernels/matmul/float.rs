//! Products of floating-point numbers: blocks of results, or one pass over the matrix where the other operand is a vector.

use super::block::{MulAdd, blocked};
use super::few::few;
use super::panels::Form;
use super::passes::{Put, dots_f32, dots_f64, rows_f32, rows_f64};
use super::registers::{Panel, block_f32, block_f64};
use super::shared::{is_shared, shared};
use super::vector::vector;
use super::{Multiply, Onto, Product, ProductWay, Tile};
use crate::kernels::folds::Table;
use crate::kernels::level::{Level, level};
use crate::kernels::transpose::SIDE;

macro_rules! float_multiply {
    ($t:ident, $width:literal, $block:path, $dots:path, $rows:path, $transpose:path) => {
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
                multiply_float::<$t, $width>(tile);
            }
            fn multiply_shared(product: &Product<'_, $t>, out: &mut [$t], onto: Onto<'_, $t>) -> bool {
                let large = is_shared(product.m, product.n, product.k);
                if large {
                    shared(product, Form::new($width, product.m, level()), out, onto);
                }
                large
            }
        }
        impl MulAdd for $t {
            #[inline]
            unsafe fn compute(level: Level, block: &Panel<$t>) {
                // SAFETY: as promised by the caller.
                unsafe { $block(level, block) }
            }
            #[inline]
            unsafe fn dots(level: Level, out: &mut [$t], rows: Table<&[$t]>, x: &[$t], put: Put<$t>) {
                // SAFETY: as promised by the caller.
                unsafe { $dots(level, out, rows, x, put) }
            }
            #[inline]
            unsafe fn scaled_rows(level: Level, out: &mut [$t], rows: Table<&[$t]>, x: &[$t], put: Put<$t>) {
                // SAFETY: as promised by the caller.
                unsafe { $rows(level, out, rows, x, put) }
            }
            #[inline]
            fn transpose(rows: [&[$t; SIDE]; SIDE], out: &mut [$t], stride: usize) {
                $transpose(rows, out, stride)
            }
        }
    };
}
float_multiply!(f32, 16, block_f32, dots_f32, rows_f32, crate::kernels::transpose::transpose_f32);
float_multiply!(f64, 8, block_f64, dots_f64, rows_f64, crate::kernels::transpose::transpose_plain);

/// Products with a vector, or with few of them, read the matrix in order, see Note [Products with a vector]; all others run in
/// blocks, see Note [Blocks].
fn multiply_float<T: MulAdd, const W: usize>(tile: Tile<'_, T>) {
    let way = tile.way;
    // One column, written one element after another, is one row of the transposed product.
    let tile = if tile.n == 1 && tile.out.stride == 1 { tile.transposed() } else { tile };
    match way {
        ProductWay::Vector => vector(tile),
        ProductWay::FewColumns | ProductWay::FewRows => few(tile, level()),
        ProductWay::Blocks => blocked::<T, W>(tile),
    }
}
