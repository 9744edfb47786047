//! Products of floating-point numbers: blocks of results, or one pass over the matrix where the other operand is a vector.

use super::block::{MulAdd, blocked};
use super::few::{all_dots_f32, all_dots_f64, few};
use super::panels::Form;
use super::passes::{Put, dots_f32, dots_f64, rows_f32, rows_f64};
use super::registers::{Panel, block_f32, block_f64};
use super::shared::{is_shared, shared};
use super::short::{Dots, short_f32, short_f64};
use super::thin::{ThinSums, thin, thin_f32, thin_f64};
use super::vector::vector;
use super::{Matrix, Multiply, Onto, Out, Product, ProductWay, Tile};
use crate::kernels::folds::Table;
use crate::kernels::level::{Level, level};
use crate::kernels::transpose::{SIDE, transpose_f32, transpose_plain};

macro_rules! float_multiply {
    ($t:ident, $width:literal, $block:path, $dots:path, $rows:path, $short:path, $thin:path, $all_dots:path, $transpose:path) => {
        impl Multiply for $t {
            const SHORT: usize = 16;
            const LANES: usize = $width / 2;
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
            fn multiply_short(dots: &Dots<'_, $t>, out: Out<'_, $t>, scale: $t, onto: Onto<'_, $t>) {
                multiply_short_float(dots, out, scale, onto);
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
            unsafe fn thin_sums(
                level: Level,
                a: Matrix<'_, $t>,
                rows: usize,
                b: Table<&[$t]>,
            ) -> ThinSums<$t> {
                // SAFETY: as promised by the caller.
                unsafe { $thin(level, a, rows, b) }
            }
            #[inline]
            unsafe fn short_dots(level: Level, out: &mut [$t], dots: &Dots<'_, $t>, put: Put<$t>) {
                // SAFETY: as promised by the caller.
                unsafe { $short(level, out, dots, put) }
            }
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
            unsafe fn all_dots(level: Level, out: &mut [$t], rows: Table<&[$t]>, vectors: Table<&[$t]>) {
                // SAFETY: as promised by the caller.
                unsafe { $all_dots(level, out, rows, vectors) }
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
float_multiply!(f32, 16, block_f32, dots_f32, rows_f32, short_f32, thin_f32, all_dots_f32, transpose_f32);
float_multiply!(f64, 8, block_f64, dots_f64, rows_f64, short_f64, thin_f64, all_dots_f64, transpose_plain);

/// Products with a vector, or with few of them, read the matrix in order, see Note [Products with a vector]; all others run in
/// blocks, see Note [Blocks].
fn multiply_float<T: MulAdd, const W: usize>(tile: Tile<'_, T>) {
    let way = tile.way;
    // One column, written one element after another, is one row of the transposed product.
    let tile = if tile.n == 1 && tile.out.stride == 1 { tile.transposed() } else { tile };
    match way {
        ProductWay::Vector => vector(tile),
        ProductWay::FewColumns | ProductWay::FewRows => few(tile, level()),
        ProductWay::Thin => thin(tile, level()),
        ProductWay::Blocks => blocked::<T, W>(tile),
    }
}

/// Short rows, each with the vector of its matrix, see Note [Short rows].
fn multiply_short_float<T: MulAdd>(dots: &Dots<'_, T>, mut out: Out<'_, T>, scale: T, onto: Onto<'_, T>) {
    let put = Put { scale, add: out.begin(onto) == Onto::Result };
    // SAFETY: the level is this processor's.
    unsafe { T::short_dots(level(), out.run(), dots, put) }
}
