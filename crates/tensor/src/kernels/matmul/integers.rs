//! Products of whole numbers.

use super::{Multiply, Onto, Tile};

impl Multiply for i64 {
    fn of_count(n: usize) -> i64 {
        n as i64
    }
    #[inline(always)]
    fn plus(a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }
    /// Row by row; integer products have no order to keep, so the compiler may vectorise along the columns.
    fn multiply(mut tile: Tile<'_, i64>) {
        let onto = tile.out.begin(tile.onto);
        for i in 0..tile.m {
            let (a, b) = (tile.a, tile.b);
            let row = tile.out.row(i);
            if onto == Onto::Nothing {
                row.fill(0);
            }
            for p in 0..tile.k {
                // SAFETY: `Product::run` has checked all rows and columns of the operands.
                let left = unsafe { a.at(i, p) }.wrapping_mul(tile.scale);
                if b.col_step == 1 {
                    let start = (b.start as isize + p as isize * b.row_step) as usize;
                    for (o, &v) in row.iter_mut().zip(&b.data[start..start + tile.n]) {
                        *o = o.wrapping_add(left.wrapping_mul(v));
                    }
                } else {
                    for (j, o) in row.iter_mut().enumerate() {
                        // SAFETY: as above.
                        *o = o.wrapping_add(left.wrapping_mul(unsafe { b.at(p, j) }));
                    }
                }
            }
        }
    }
}
