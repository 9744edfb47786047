//! Convolutions: sums over windows of sources, as products whose right operand is gathered tile by tile.
//!
//! Note [Convolutions]
//! The results of a convolution are a product: a row for each result channel, a column for each place, and an inner
//! position for each source channel and tap. The matrix of sources, in which an element of the input stands once per tap,
//! is never stored: a task takes some hundred places and copies their sources into a window (Note [Sweeps]). There the sources
//! of neighbouring places are neighbours, tap by tap, so strips of the matrix are read where they lie, or laid out as the product
//! comes to them (`strips.rs`, `product.rs`). The gradient of the kernel is the product of
//! the same matrix from the other side (`weight.rs`). Where channels are few there is no product: every place is a
//! sum over taps (`few.rs`). Small planes of few channels, of many images and groups, are not even gathered: a vector holds the
//! elements of as many of them at one place (`abreast`), which changes no bit of a result; of many
//! channels each place is a product of its own, with the taps that meet sources there.
//!
//! The order of additions in a result depends on the sizes of the convolution, and on whether all weights are finite numbers, so it has
//! the same bits for any number of threads.

mod abreast;
mod few;
mod integers;
mod product;
mod strips;
mod sweep;
mod weight;

pub(crate) use integers::slide_integers;
pub(crate) use product::{Kernel, SlideProduct, slide};
pub(crate) use sweep::ConvAxis;
pub(crate) use weight::{WeightProduct, weight_gradient};

use super::lane::Float;
use super::matmul::Panels;

/// Numbers that are convolved.
pub(crate) trait Convolved: Float + Panels {}
impl<T: Float + Panels> Convolved for T {}

/// Results of some images, rows and columns: what a task computes.
#[derive(Clone, Copy, Debug)]
struct ConvTile {
    item: usize,
    items: usize,
    from: [usize; 2],
    count: [usize; 2],
}

impl ConvTile {
    fn places(&self) -> usize {
        self.items * self.count[0] * self.count[1]
    }
}

/// How results are cut into tiles of about so many places: whole images, whole rows, or parts of a row.
#[derive(Clone, Copy, Debug)]
struct ConvTiles {
    items: usize,
    sizes: [usize; 2],
    /// images, rows and columns of a tile
    each: [usize; 3],
    /// tiles along each
    counts: [usize; 3],
}

impl ConvTiles {
    fn new(items: usize, sizes: [usize; 2], places: usize) -> ConvTiles {
        let [rows, cols] = sizes.map(|n| n.max(1));
        // Of like sizes, so that no thread waits for the others long.
        let even = |n: usize, most: usize| n.div_ceil(n.div_ceil(most.clamp(1, n)));
        let each = [
            even(items.max(1), places / rows.saturating_mul(cols)),
            even(rows, places / cols),
            even(cols, places),
        ];
        let counts = [items.div_ceil(each[0]), sizes[0].div_ceil(each[1]), sizes[1].div_ceil(each[2])];
        ConvTiles { items, sizes, each, counts }
    }

    fn len(&self) -> usize {
        self.counts.iter().product()
    }

    fn get(&self, number: usize) -> ConvTile {
        let (rest, x) = (number / self.counts[2], number % self.counts[2]);
        let (z, y) = (rest / self.counts[1], rest % self.counts[1]);
        let (item, from) = (z * self.each[0], [y * self.each[1], x * self.each[2]]);
        let count = [0, 1].map(|d| self.each[d + 1].min(self.sizes[d] - from[d]));
        ConvTile { item, items: self.each[0].min(self.items - item), from, count }
    }
}

/// How far windows of so many elements are from one another: an odd number of lines of memory, so that the same place of
/// all of them does not go to the same few lines of the cache.
fn spaced<T>(len: usize) -> usize {
    let line = 64 / size_of::<T>();
    (len.div_ceil(line) | 1) * line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_all_places_once() {
        for (items, sizes, places) in [
            (1, [1, 1], 1),
            (5, [3, 4], 30),
            (2, [7, 9], 20),
            (1, [1, 1000], 64),
            (3, [5, 40], 7),
            (0, [2, 2], 9),
        ] {
            let tiles = ConvTiles::new(items, sizes, places);
            let mut seen = vec![0; items * sizes[0] * sizes[1]];
            for tile in (0..tiles.len()).map(|i| tiles.get(i)) {
                for i in 0..tile.places() {
                    let (z, y, x) = (
                        i / (tile.count[0] * tile.count[1]) + tile.item,
                        i / tile.count[1] % tile.count[0] + tile.from[0],
                        i % tile.count[1] + tile.from[1],
                    );
                    seen[(z * sizes[0] + y) * sizes[1] + x] += 1;
                }
            }
            assert!(seen.iter().all(|&n| n == 1), "{items} of {sizes:?} by {places}");
        }
    }
}
