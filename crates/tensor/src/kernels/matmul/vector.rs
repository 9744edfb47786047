//! Products with a vector: every element of the matrix is used once, so they run at the speed of memory.
//!
//! Note [Products with a vector]
//! The matrix is read in the order in which it lies. Where inner positions are neighbours, an element of the result is
//! the dot product of a row, four rows at a time, each in lanes that are added up by a tree. Where results are neighbours,
//! rows are multiplied by a number each and added up, eight at a time. What lies neither way is laid out as the former,
//! a few rows at a time. The inner index is cut at multiples of [`DEPTH`]; what an element is made of, and in which
//! order, depends on the sizes and steps of the product alone.

use super::Tile;
use super::block::Fused;
use super::pack::pack;
use crate::buffer::Room;
use crate::kernels::doors::door;
use crate::kernels::folds::Table;
use crate::kernels::lane::Float;
use crate::kernels::level::{Level, level};

/// Inner positions that are summed before the next ones: so much of the vector stays in the first-level cache.
const DEPTH: usize = 4096;

/// Results that are added up at once, rows of so many elements at a time.
const ABREAST: usize = 1024;

/// Elements of a matrix that are laid out at once.
const ASIDE: usize = 16_384;

/// A tile of one row. `W` is the number of lanes of a dot product.
pub(super) fn vector<T: Fused, const W: usize>(mut tile: Tile<'_, T>) {
    debug_assert_eq!(tile.m, 1);
    let (n, scale) = (tile.n, tile.scale);
    // A row for each result.
    let all = tile.b.transposed();
    for from in (0..tile.k).step_by(DEPTH) {
        let depth = (tile.k - from).min(DEPTH);
        let mut aside = None;
        let mut x = tile.a.moved(0, 0, from);
        if x.col_step != 1 {
            let room = aside.insert(Room::<T>::new(depth));
            pack(&x, 1, depth, room.as_mut_slice(), depth);
            x = super::row_major(room.as_slice(), depth);
        }
        let x = &x.rest()[..depth];
        let out = tile.out.row(0);
        let b = all.moved(0, 0, from);
        let (data, start) = (b.data, b.start as isize);
        if b.col_step == 1 && (b.row_step != 1 || n <= depth) {
            let rows = Table { data, start, rows: n, step: b.row_step, cols: depth };
            dots::<T, W>(out, rows, x, scale, tile.add);
        } else if b.row_step == 1 {
            let rows = Table { data, start, rows: depth, step: b.col_step, cols: n };
            scaled_rows(out, rows, x, scale, tile.add);
        } else {
            let high = (ASIDE / depth).clamp(1, n);
            let mut room: Room<T> = Room::new(high * depth);
            for (i, out) in out.chunks_mut(high).enumerate() {
                pack(&b.moved(0, i * high, 0), out.len(), depth, room.as_mut_slice(), depth);
                let rows = out.len();
                let rows = Table { data: room.as_slice(), start: 0, rows, step: depth as isize, cols: depth };
                dots::<T, W>(out, rows, x, scale, tile.add);
            }
        }
        tile.add = true;
    }
}

/// `a * b + c`, fused if the loop is compiled for it.
#[inline(always)]
fn fused<const FMA: bool, T: Float>(a: T, b: T, c: T) -> T {
    if FMA { a.mul_add_(b, c) } else { a * b + c }
}

/// Writes a sum, or adds it to what is there.
#[inline(always)]
fn put<T: Float>(out: &mut T, sum: T, scale: T, add: bool) {
    *out = if add { *out + scale * sum } else { scale * sum };
}

door! {
    /// The dot product of each row with `x`, scaled.
    fn dots[T: Float, const W: usize][T, W](out: &mut [T], rows: Table<'_, T>, x: &[T], scale: T, add: bool);
    body dots_body
}
#[inline(always)]
fn dots_body<const FMA: bool, T: Float, const W: usize>(
    out: &mut [T],
    rows: Table<'_, T>,
    x: &[T],
    scale: T,
    add: bool,
) {
    let (fours, rest) = out.as_chunks_mut::<4>();
    let whole = 4 * fours.len();
    for (i, four) in fours.iter_mut().enumerate() {
        let sums = dot::<FMA, T, W, 4>(std::array::from_fn(|r| rows.row(4 * i + r)), x);
        for (o, sum) in four.iter_mut().zip(sums) {
            put(o, sum, scale, add);
        }
    }
    for (i, o) in rest.iter_mut().enumerate() {
        let [sum] = dot::<FMA, T, W, 1>([rows.row(whole + i)], x);
        put(o, sum, scale, add);
    }
}

/// The dot products of `R` rows with `x`; each has the same bits as alone.
#[inline(always)]
fn dot<const FMA: bool, T: Float, const W: usize, const R: usize>(rows: [&[T]; R], x: &[T]) -> [T; R] {
    let (xs, x_rest) = x.as_chunks::<W>();
    let rows = rows.map(|row| row[..x.len()].as_chunks::<W>());
    let mut lanes = [[T::default(); W]; R];
    for (p, x) in xs.iter().enumerate() {
        for r in 0..R {
            let row = &rows[r].0[p];
            for l in 0..W {
                lanes[r][l] = fused::<FMA, T>(row[l], x[l], lanes[r][l]);
            }
        }
    }
    let mut sums = lanes.map(tree);
    for (p, &x) in x_rest.iter().enumerate() {
        for r in 0..R {
            sums[r] = fused::<FMA, T>(rows[r].1[p], x, sums[r]);
        }
    }
    sums
}

/// Adds the upper half to the lower one until one is left.
#[inline(always)]
fn tree<T: Float, const W: usize>(mut v: [T; W]) -> T {
    let mut width = W / 2;
    while width > 0 {
        for l in 0..width {
            v[l] = v[l] + v[l + width];
        }
        width /= 2;
    }
    v[0]
}

door! {
    /// The sum of all rows, each times its element of `x`, scaled.
    fn scaled_rows[T: Float][T](out: &mut [T], rows: Table<'_, T>, x: &[T], scale: T, add: bool);
    body scaled_rows_body
}
#[inline(always)]
fn scaled_rows_body<const FMA: bool, T: Float>(
    out: &mut [T],
    rows: Table<'_, T>,
    x: &[T],
    scale: T,
    add: bool,
) {
    let mut room = [T::default(); ABREAST];
    let (eights, rest) = x.as_chunks::<8>();
    for (block, out) in out.chunks_mut(ABREAST).enumerate() {
        let n = out.len();
        let row = |p: usize| &rows.row(p)[block * ABREAST..][..n];
        let sums = &mut room[..n];
        sums.fill(T::default());
        for (i, x) in eights.iter().enumerate() {
            let rows: [&[T]; 8] = std::array::from_fn(|p| row(8 * i + p));
            for j in 0..n {
                let mut sum = sums[j];
                for p in 0..8 {
                    sum = fused::<FMA, T>(x[p], rows[p][j], sum);
                }
                sums[j] = sum;
            }
        }
        for (i, &x) in rest.iter().enumerate() {
            for (s, &v) in sums.iter_mut().zip(row(8 * eights.len() + i)) {
                *s = fused::<FMA, T>(x, v, *s);
            }
        }
        for (o, &sum) in out.iter_mut().zip(&*sums) {
            put(o, sum, scale, add);
        }
    }
}
