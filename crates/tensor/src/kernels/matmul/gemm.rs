//! The door to `gemm`, and the choice of a way around it where it is slow: tiny tiles and transposed right operands.

use std::marker::PhantomData;

use super::small::{Fused, small};
use super::{Matrix, Multiply, Out, Tile};
use crate::buffer::Buffer;
use crate::dtype::Element;

/// Products of at most this many multiplications go to our own loops instead of `gemm`.
const SMALL: usize = 32 * 32 * 32;

/// The longest inner size that those loops take.
const SMALL_DEPTH: usize = 1024;

/// Rows up to which `gemm` had better make the transposed result than read a right operand across its columns.
const FEW_ROWS: usize = 16;

/// Inner positions that are laid out at once where the right operand is transposed.
const PACK: usize = 256;

macro_rules! float_multiply {
    ($t:ident, $width:literal) => {
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
            #[inline(always)]
            fn fused<const FMA: bool>(a: $t, b: $t, c: $t) -> $t {
                if FMA { a.mul_add(b, c) } else { a * b + c }
            }
        }
    };
}
float_multiply!(f32, 16);
float_multiply!(f64, 8);

/// Picks the way to compute a tile from its sizes and the layout of its operands.
fn multiply_float<T: Fused, const W: usize>(tile: Tile<'_, T>, one: T) {
    let (m, n, k) = (tile.m, tile.n, tile.k);
    let tiny = m * n * k <= SMALL && k <= SMALL_DEPTH && tile.scale == one;
    let across = tile.b.row_step == 1 && tile.b.col_step != 1;
    if n == 1 || m == 1 || k <= 2 {
        if tiny && m == 1 && tile.b.col_step == 1 { small::<T, W>(tile) } else { gemm_tile(tile, one) }
    } else if tile.b.col_step == 1 {
        if tiny { small::<T, W>(tile) } else { gemm_tile(tile, one) }
    } else if across && tiny && m >= 4 {
        let mut packed = Buffer::stale(k * n);
        pack(&tile.b, k, n, packed.as_mut_slice());
        small::<T, W>(Tile { b: row_major(packed.as_slice(), n), ..tile });
    } else if across && !tiny && m <= FEW_ROWS {
        transposed_result(tile, one);
    } else if across && !tiny {
        packed_right(tile, one);
    } else {
        gemm_tile(tile, one);
    }
}

/// A row-major matrix of `cols` columns.
pub(super) fn row_major<T>(data: &[T], cols: usize) -> Matrix<'_, T> {
    Matrix { data, start: 0, row_step: cols as isize, col_step: 1 }
}

/// A product whose right operand is transposed, laid out a few hundred rows at a time: `gemm` would read it across.
fn packed_right<T: Fused>(mut tile: Tile<'_, T>, one: T) {
    let (n, k) = (tile.n, tile.k);
    let mut packed = Buffer::stale(k.min(PACK) * n);
    let mut from = 0;
    while from < k {
        let depth = (k - from).min(PACK);
        pack(&tile.b.moved(0, from, 0), depth, n, packed.as_mut_slice());
        let out = Out { life: PhantomData, ..tile.out };
        let (a, b) = (tile.a.moved(0, 0, from), row_major(packed.as_slice(), n));
        gemm_tile(Tile { m: tile.m, n, k: depth, a, b, out, scale: tile.scale, add: tile.add }, one);
        tile.add = true;
        from += depth;
    }
}

/// A product of few rows whose right operand is transposed: its transpose, whose columns are then written as rows.
fn transposed_result<T: Fused>(mut tile: Tile<'_, T>, one: T) {
    let (m, n) = (tile.m, tile.n);
    let mut columns: Buffer<T> = Buffer::stale(m * n);
    let out =
        Out { start: columns.as_mut_slice().as_mut_ptr(), stride: m, rows: n, cols: m, life: PhantomData };
    let (a, b) = (tile.b.transposed(), tile.a.transposed());
    gemm_tile(Tile { m: n, n: m, k: tile.k, a, b, out, scale: tile.scale, add: false }, one);
    let columns = columns.as_slice();
    for i in 0..m {
        let add = tile.add;
        for (o, c) in tile.out.row(i).iter_mut().zip(columns[i..].iter().step_by(m)) {
            *o = if add { T::plus(*o, *c) } else { *c };
        }
    }
}

/// Copies a matrix whose rows are neighbours in memory (a transposed one) into row-major order, in squares that fit in
/// the first-level cache.
fn pack<T: Element>(b: &Matrix<'_, T>, rows: usize, cols: usize, out: &mut [T]) {
    debug_assert_eq!(b.row_step, 1);
    const SIDE: usize = 16;
    let column = |c: usize, row: usize, len: usize| {
        let at = (b.start as isize + c as isize * b.col_step) as usize + row;
        &b.data[at..at + len]
    };
    let mut square = [[T::default(); SIDE]; SIDE];
    for row in (0..rows).step_by(SIDE) {
        let high = (rows - row).min(SIDE);
        for col in (0..cols).step_by(SIDE) {
            let wide = (cols - col).min(SIDE);
            if high == SIDE && wide == SIDE {
                for c in 0..SIDE {
                    let from: &[T; SIDE] =
                        column(col + c, row, SIDE).try_into().expect("a slice of that length");
                    for (line, &v) in square.iter_mut().zip(from) {
                        line[c] = v;
                    }
                }
                for (r, line) in square.iter().enumerate() {
                    out[(row + r) * cols + col..][..SIDE].copy_from_slice(line);
                }
            } else {
                for c in col..col + wide {
                    for (r, &v) in column(c, row, high).iter().enumerate() {
                        out[(row + r) * cols + c] = v;
                    }
                }
            }
        }
    }
}

/// One call of `gemm` on this thread.
pub(super) fn gemm_tile<T: Element>(t: Tile<'_, T>, one: T) {
    assert!(t.out.rows == t.m && t.out.cols == t.n);
    // SAFETY: `out` is a rectangle of m by n elements that this task alone writes; `Product::run` has checked that all
    // elements of the operands lie in their slices, and shared slices do not overlap an exclusive one. `gemm` takes
    // steps of any sign, or zero, for its operands, and `T` is f32 or f64.
    unsafe {
        ::gemm::gemm(
            t.m,
            t.n,
            t.k,
            t.out.start,
            1,
            t.out.stride as isize,
            t.add,
            t.a.pointer(),
            t.a.col_step,
            t.a.row_step,
            t.b.pointer(),
            t.b.col_step,
            t.b.row_step,
            one,
            t.scale,
            false,
            false,
            false,
            ::gemm::Parallelism::None,
        );
    }
}
