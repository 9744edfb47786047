//! Small products: blocks of results kept in registers, compiled once per instruction-set level.

use std::marker::PhantomData;

use super::gemm::row_major;
use super::{Matrix, Multiply, Out, Tile};
use crate::buffer::Buffer;
use crate::kernels::level::{Level, level};

/// Numbers with a multiply-add that is fused where the loop is compiled for it.
pub(super) trait Fused: Multiply {
    fn fused<const FMA: bool>(a: Self, b: Self, c: Self) -> Self;
}

/// A small product, at the level of this processor. `W` is the number of columns kept in one wide register.
pub(super) fn small<T: Fused, const W: usize>(tile: Tile<'_, T>) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn avx2<T: Fused, const W: usize>(tile: Tile<'_, T>) {
            small_body::<true, T, W>(tile)
        }
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
        fn avx512<T: Fused, const W: usize>(tile: Tile<'_, T>) {
            small_body::<true, T, W>(tile)
        }
        match level() {
            // SAFETY: `level` never exceeds what was detected on this processor, and `Avx512` is only detected where
            // every feature named above is present.
            Level::Avx512 => return unsafe { avx512::<T, W>(tile) },
            // SAFETY: as above, for AVX2 and FMA.
            Level::Avx2 => return unsafe { avx2::<T, W>(tile) },
            Level::Baseline => {}
        }
    }
    small_body::<false, T, W>(tile)
}

#[inline(always)]
pub(super) fn small_body<const FMA: bool, T: Fused, const W: usize>(mut tile: Tile<'_, T>) {
    debug_assert_eq!(tile.b.col_step, 1);
    let (n, mut col) = (tile.n, 0);
    while n - col >= W {
        let b = tile.b.moved(0, 0, col);
        columns::<FMA, T, W>(&mut tile, b, col);
        col += W;
    }
    if col < n {
        last_columns::<FMA, T, W>(&mut tile, col);
    }
}

/// The columns from `col` on, fewer than `W`: filled up to a whole register, and cut off again.
#[inline(always)]
fn last_columns<const FMA: bool, T: Fused, const W: usize>(tile: &mut Tile<'_, T>, col: usize) {
    let (m, k, rest) = (tile.m, tile.k, tile.n - col);
    let mut wide: Buffer<T> = Buffer::stale(k * W);
    for (p, line) in wide.as_mut_slice().chunks_exact_mut(W).enumerate() {
        let at = (tile.b.start as isize + p as isize * tile.b.row_step) as usize + col;
        for (c, v) in line.iter_mut().enumerate() {
            *v = if c < rest { tile.b.data[at + c] } else { T::default() };
        }
    }
    let mut results: Buffer<T> = Buffer::stale(m * W);
    let out =
        Out { start: results.as_mut_slice().as_mut_ptr(), stride: W, rows: m, cols: W, life: PhantomData };
    let b = row_major(wide.as_slice(), W);
    columns::<FMA, T, W>(&mut Tile { m, n: W, k, a: tile.a, b, out, scale: tile.scale, add: false }, b, 0);
    for (i, line) in results.as_slice().chunks_exact(W).enumerate() {
        for (o, &s) in tile.out.row(i)[col..].iter_mut().zip(line) {
            *o = if tile.add { T::plus(*o, s) } else { s };
        }
    }
}

/// Rows that are computed together: enough sums in flight to hide the latency of a multiply-add, and few enough for the
/// sixteen registers of AVX2.
const ROWS: usize = 6;

/// All rows of `W` columns of the result from `col` on, where `b` starts.
///
/// The last rows are computed as often as it takes to make six: one shape of loop, which the compiler vectorises, is
/// faster than several.
#[inline(always)]
fn columns<const FMA: bool, T: Fused, const W: usize>(tile: &mut Tile<'_, T>, b: Matrix<'_, T>, col: usize) {
    let mut row = 0;
    while row < tile.m {
        block::<FMA, T, W>(tile, b, row, col);
        row += ROWS;
    }
}

/// Six rows of `W` results, kept in registers while the inner index runs. Six arrays rather than one of six, because
/// the compiler keeps what is indexed by a loop it does not unroll in memory.
#[inline(always)]
fn block<const FMA: bool, T: Fused, const W: usize>(
    tile: &mut Tile<'_, T>,
    b: Matrix<'_, T>,
    row: usize,
    col: usize,
) {
    let (a, last) = (tile.a, tile.m - 1);
    let none = [T::default(); W];
    let (mut s0, mut s1, mut s2, mut s3, mut s4, mut s5) = (none, none, none, none, none, none);
    for p in 0..tile.k {
        let at = (b.start as isize + p as isize * b.row_step) as usize;
        let line: [T; W] = b.data[at..at + W].try_into().expect("a slice of that length");
        // SAFETY: `Product::run` has checked the rows 0..m and the columns 0..k of the left operand.
        let left = |r: usize| unsafe { a.at((row + r).min(last), p) };
        s0 = step::<FMA, T, W>(left(0), &line, s0);
        s1 = step::<FMA, T, W>(left(1), &line, s1);
        s2 = step::<FMA, T, W>(left(2), &line, s2);
        s3 = step::<FMA, T, W>(left(3), &line, s3);
        s4 = step::<FMA, T, W>(left(4), &line, s4);
        s5 = step::<FMA, T, W>(left(5), &line, s5);
    }
    put(tile, row, col, s0);
    put(tile, row + 1, col, s1);
    put(tile, row + 2, col, s2);
    put(tile, row + 3, col, s3);
    put(tile, row + 4, col, s4);
    put(tile, row + 5, col, s5);
}

/// Writes or adds a piece of a row, if there is such a row.
#[inline(always)]
fn put<T: Fused, const W: usize>(tile: &mut Tile<'_, T>, row: usize, col: usize, sums: [T; W]) {
    if row < tile.m {
        let add = tile.add;
        let out: &mut [T; W] =
            (&mut tile.out.row(row)[col..col + W]).try_into().expect("a slice of that length");
        *out = if add { std::array::from_fn(|c| T::plus(out[c], sums[c])) } else { sums };
    }
}

/// `a * line + sums`
#[inline(always)]
fn step<const FMA: bool, T: Fused, const W: usize>(a: T, line: &[T; W], sums: [T; W]) -> [T; W] {
    std::array::from_fn(|c| T::fused::<FMA>(a, line[c], sums[c]))
}
