//! Products with a vector: every element of the matrix is used once, so they run at the speed of memory.
//!
//! Note [Products with a vector]
//! The matrix is read in the order in which it lies. Where inner positions are neighbours, an element of the result is
//! the dot product of a row, four rows at a time, each in lanes that are added up by a tree. Where results are neighbours,
//! rows are multiplied by a number each and added up, eight at a time, or in registers if they are short. What lies neither way is read element by element.
//! The inner index is cut at multiples of [`DEPTH`]; what an element is made of, and in which order, depends on the sizes
//! and steps of the product alone.

use super::block::MulAdd;
use super::pack::pack;
use super::passes::Put;
use super::{Matrix, Onto, Tile, row_major};
use crate::buffer::Room;
use crate::kernels::each;
use crate::kernels::folds::Table;
use crate::kernels::level::{Level, level};

/// Inner positions that are summed before the next ones: so much of the vector stays in the first-level cache.
const DEPTH: usize = 4096;

/// A tile of one row, at the level of this processor.
pub(super) fn vector<T: MulAdd>(tile: Tile<'_, T>) {
    vector_at(tile, level());
}

/// [`vector`] at a level that this processor has.
pub(super) fn vector_at<T: MulAdd>(mut tile: Tile<'_, T>, level: Level) {
    debug_assert_eq!(tile.m, 1);
    let n = tile.n;
    let mut onto = tile.out.begin(tile.onto);
    for from in (0..tile.k).step_by(DEPTH) {
        let depth = (tile.k - from).min(DEPTH);
        let mut aside = None;
        let mut x = tile.a.moved(0, 0, from);
        if x.col_step != 1 {
            let room = aside.insert(Room::<T>::new(depth));
            pack(&x, 1, depth, room.as_mut_slice(), depth);
            x = row_major(room.as_slice(), depth);
        }
        let x = &x.rest()[..depth];
        let out = tile.out.row(0);
        // A row for each result.
        let b = tile.b.moved(0, from, 0).transposed();
        let (data, start) = (b.data, b.start as isize);
        let put = Put { scale: tile.scale, add: onto == Onto::Result };
        if b.col_step == 1 && (b.row_step != 1 || n <= depth) {
            let rows = Table { data, start, rows: n, step: b.row_step, cols: depth };
            // SAFETY: the level is this processor's.
            unsafe { T::dots(level, out, rows, x, put) };
        } else if b.row_step == 1 {
            let rows = Table { data, start, rows: depth, step: b.col_step, cols: n };
            // SAFETY: as above.
            unsafe { T::scaled_rows(level, out, rows, x, put) };
        } else {
            one_by_one(out, b, x, put);
        }
        onto = Onto::Result;
    }
}

/// The dot products of a matrix of any steps, in eight sums each.
fn one_by_one<T: MulAdd>(out: &mut [T], b: Matrix<'_, T>, x: &[T], put: Put<T>) {
    let (eights, rest) = x.as_chunks::<8>();
    for (i, o) in out.iter_mut().enumerate() {
        // SAFETY: `Product::run` has checked all rows and columns of the operands.
        let at = |p: usize| unsafe { b.at(i, p) };
        let mut sum = T::default();
        if !eights.is_empty() {
            let mut sums = [T::default(); 8];
            for (c, x) in eights.iter().enumerate() {
                sums = each(T::default(), |l| sums[l] + at(8 * c + l) * x[l]);
            }
            let [a, b, c, d, e, f, g, h] = sums;
            sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
        }
        for (p, &x) in rest.iter().enumerate() {
            sum = sum + at(8 * eights.len() + p) * x;
        }
        put.put(o, sum);
    }
}
