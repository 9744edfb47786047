//! The places of the largest elements of windows.

use super::{Alike, PlaneBlock, each_plane};
use crate::buffer::Room;
use crate::dtype::Element;
use crate::kernels::doors::door;
use crate::kernels::lane::Float;
use crate::kernels::level::{Level, level};

/// Along one axis, the elements of each window that are no padding: where they begin, how many there are, and the step
/// from one to the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Windows {
    pub(crate) size: usize,
    pub(crate) step: usize,
    pub(crate) each: Vec<(usize, usize)>,
}

impl Windows {
    /// Those that are as long as the longest.
    fn alike(&self) -> Alike {
        let longest = self.each.iter().map(|w| w.1).max().unwrap_or(0);
        let like = self.each.iter().position(|w| w.1 == longest).unwrap_or(0);
        Alike::new(&self.each, like, |w| w.0, |a, b| a.1 == b.1)
    }

    /// How far the elements of a window are from its first.
    fn offsets(&self, window: usize) -> impl Iterator<Item = usize> + Clone {
        (0..self.each[window].1).map(|i| i * self.step)
    }
}

/// The place in its plane of the largest element of each window: the first among equals, or the last that is no number.
pub(crate) fn places_of_largest<T: Element + PartialOrd>(
    x: &[T],
    [down, across]: [&Windows; 2],
    out: &mut [i64],
) {
    let (width, wide) = (across.size, across.each.len());
    let (size, results) = (down.size * width, down.each.len() * wide);
    let alike = [down.alike(), across.alike()];
    each_plane(out, results, 4 * results, &|number, out| {
        let x = &x[number * size..][..size];
        for block in PlaneBlock::all(&alike, width) {
            let (row, col) = (block.rows.start, block.cols.start);
            let offsets = down.offsets(row).flat_map(|i| across.offsets(col).map(move |j| i * width + j));
            places_in_block(x, &block, offsets, &mut out[row * wide..], wide);
        }
        for (row, line) in out.chunks_exact_mut(wide).enumerate() {
            for col in Alike::others(&alike, row, wide) {
                let start = down.each[row].0 * width + across.each[col].0;
                let mut place = start;
                for i in down.offsets(row) {
                    for at in across.offsets(col).map(|j| start + i * width + j) {
                        if is_larger(x[at], x[place]) {
                            place = at;
                        }
                    }
                }
                line[col] = place as i64;
            }
        }
    });
}

/// The places in a block of windows; `offsets` are those of a window's elements, and `out` begins with the block's first row.
fn places_in_block<T: Element + PartialOrd>(
    x: &[T],
    block: &PlaneBlock,
    offsets: impl Iterator<Item = usize>,
    out: &mut [i64],
    wide: usize,
) {
    let n = block.len();
    let (mut room, mut places): (Room<T>, Room<i64>) = (Room::new(2 * n), Room::new(n));
    let (largest, laid) = room.as_mut_slice().split_at_mut(n);
    let places = places.as_mut_slice();
    for (i, offset) in offsets.enumerate() {
        if i == 0 {
            block.lay_out(x, offset, largest);
            places.fill(offset as i64);
        } else {
            block.lay_out(x, offset, laid);
            larger(laid, offset as i64, largest, places);
        }
    }
    let lines = out.chunks_mut(wide).zip(places.chunks_exact(block.cols.len()));
    for (i, (line, places)) in lines.enumerate() {
        let first = block.at + i * block.steps[0];
        for (j, (o, place)) in line[block.cols.clone()].iter_mut().zip(places).enumerate() {
            *o = (first + j * block.steps[1]) as i64 + place;
        }
    }
}

/// Whether an element takes the place of the largest so far. Only what is no number differs from itself.
#[inline(always)]
#[allow(clippy::eq_op, reason = "only what is no number differs from itself")]
fn is_larger<T: PartialOrd + Copy>(v: T, largest: T) -> bool {
    (v > largest) | (v != v)
}

door! {
    /// Compares an element of each of many windows with the largest of it so far, which lies so far from the window's first.
    fn larger[T: Element + PartialOrd][T](x: &[T], offset: i64, largest: &mut [T], offsets: &mut [i64]);
    body larger_body
}
#[inline(always)]
fn larger_body<const FMA: bool, T: Element + PartialOrd>(
    x: &[T],
    offset: i64,
    largest: &mut [T],
    offsets: &mut [i64],
) {
    for ((&v, largest), o) in x.iter().zip(largest).zip(offsets) {
        let takes = is_larger(v, *largest);
        (*largest, *o) = (if takes { v } else { *largest }, if takes { offset } else { *o });
    }
}

/// The elements of each plane at places in it.
pub(crate) fn take_places<T: Element>(x: &[T], size: usize, places: &[i64], results: usize, out: &mut [T]) {
    each_plane(out, results, results, &|number, out| {
        let x = &x[number * size..][..size];
        let places = &places[number * results..][..results];
        out.iter_mut().zip(places).for_each(|(o, &place)| *o = x[place as usize]);
    });
}

/// The transpose of [`take_places`]: each element is added at its place of a plane of zeros.
pub(crate) fn add_places<T: Float>(x: &[T], results: usize, places: &[i64], size: usize, out: &mut [T]) {
    each_plane(out, size, size, &|number, out| {
        out.fill(T::default());
        let (x, places) = (&x[number * results..][..results], &places[number * results..][..results]);
        for (&v, &place) in x.iter().zip(places) {
            out[place as usize] = out[place as usize] + v;
        }
    });
}
