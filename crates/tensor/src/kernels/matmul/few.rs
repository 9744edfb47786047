//! Products with few columns or rows, and many inner positions: a product with a vector for each of them.
//!
//! A strip of blocks (Note [Blocks]) is as wide as a register, most of which a few columns would leave empty; here a register holds
//! inner positions. As with a vector, what an element is made of depends on the sizes and steps of the product alone.

use super::block::MulAdd;
use super::passes::Put;
use super::{Matrix, Onto, ProductWay, Tile, row_major};
use crate::buffer::Room;
use crate::kernels::folds::Table;
use crate::kernels::lay_out::lay_out;
use crate::kernels::level::Level;

/// Columns or rows that are few.
pub(super) const FEW: usize = 4;

/// Inner positions from which on it pays.
pub(super) const DEEP: usize = 64;

/// Inner positions that are summed before the next ones: four rows of them stay in the first-level cache for all vectors. 4 by 25,000 with 4 of them transposed take
/// 0.75 of the time that four times as many do, with half as many two rows with two 1.27.
const DEPTH: usize = 1024;

/// A tile with all of its product's few columns or rows.
pub(super) fn few<T: MulAdd>(mut tile: Tile<'_, T>, level: Level) {
    // Each of many rows is multiplied with each of few vectors.
    let columns = tile.way == ProductWay::FewColumns;
    let (rows, vectors) = if columns { (tile.a, tile.b.transposed()) } else { (tile.b.transposed(), tile.a) };
    let (many, few) = if columns { (tile.m, tile.n) } else { (tile.n, tile.m) };
    assert!(few <= FEW);
    let mut onto = tile.out.begin(tile.onto);
    let mut sums: Room<T> = Room::new(many);
    let deepest = tile.k.min(DEPTH);
    let mut laid: Option<Room<T>> = (vectors.col_step != 1).then(|| Room::new(few * deepest));
    let mut laid_rows: Option<Room<T>> = (rows.col_step != 1).then(|| Room::new(many * deepest));
    for from in (0..tile.k).step_by(DEPTH) {
        let depth = (tile.k - from).min(DEPTH);
        let (mut rows, mut vectors) = (rows.moved(0, 0, from), vectors.moved(0, 0, from));
        if let Some(room) = &mut laid {
            lay_out_rows(vectors, depth, &mut room.as_mut_slice()[..few * depth]);
            vectors = row_major(room.as_slice(), depth);
        }
        if let Some(room) = &mut laid_rows {
            lay_out_rows(rows, depth, &mut room.as_mut_slice()[..many * depth]);
            rows = row_major(room.as_slice(), depth);
        }
        for v in 0..few {
            let x = &vectors.moved(0, v, 0).rest()[..depth];
            let table = Table {
                data: rows.data,
                start: rows.start as isize,
                rows: many,
                step: rows.row_step,
                cols: depth,
            };
            let sums = sums.as_mut_slice();
            // SAFETY: the level is this processor's.
            unsafe { T::dots(level, sums, table, x, Put { scale: tile.scale, add: false }) };
            let put = |o: &mut T, s: T| *o = if onto == Onto::Result { T::plus(*o, s) } else { s };
            if columns {
                for (i, &s) in sums.iter().enumerate() {
                    put(&mut tile.out.row(i)[v], s);
                }
            } else {
                for (o, &s) in tile.out.row(v).iter_mut().zip(&*sums) {
                    put(o, s);
                }
            }
        }
        onto = Onto::Result;
    }
}

/// Rows of `depth` elements, one after another.
fn lay_out_rows<T: MulAdd>(rows: Matrix<'_, T>, depth: usize, out: &mut [T]) {
    lay_out(rows.data, rows.start as isize, [rows.row_step, rows.col_step], depth, out);
}
