//! The largest elements of windows, and their places.

use super::{Alike, PlaneBlock, each_plane, each_plane_of_two};
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

/// The largest element of each window, the first among equals or the last that is no number, and its place in its plane if `places` has room for it.
pub(crate) fn largest<T: Element>(x: &[T], windows: [&Windows; 2], values: &mut [T], places: &mut [i64]) {
    let [down, across] = windows;
    let results = down.each.len() * across.each.len();
    let (size, with_places) = (down.size * across.size, !places.is_empty());
    let mut alike = [down.alike(), across.alike()];
    // In a block, places within a window are numbers of 32 bits, which lie beside those of `f32`.
    if i32::try_from(size).is_err() {
        alike[0].results = 0..0;
    }
    let own_places = if with_places { results } else { 0 };
    each_plane_of_two((values, places), [results, own_places], 4 * results, &|number, values, places| {
        let x = &x[number * size..][..size];
        match with_places {
            true => largest_of_plane::<T, true>(x, windows, &alike, values, places),
            false => largest_of_plane::<T, false>(x, windows, &alike, values, places),
        }
    });
}

fn largest_of_plane<T: Element, const PLACES: bool>(
    x: &[T],
    [down, across]: [&Windows; 2],
    alike: &[Alike; 2],
    values: &mut [T],
    places: &mut [i64],
) {
    let (width, wide) = (across.size, across.each.len());
    for block in PlaneBlock::all(alike, width) {
        let (row, col) = (block.rows.start, block.cols.start);
        let offsets = down.offsets(row).flat_map(|i| across.offsets(col).map(move |j| i * width + j));
        largest_of_block::<T, PLACES>(x, &block, offsets, wide, values, places);
    }
    for row in 0..down.each.len() {
        for col in Alike::others(alike, row, wide) {
            let start = down.each[row].0 * width + across.each[col].0;
            let mut place = start;
            for i in down.offsets(row) {
                for at in across.offsets(col).map(|j| start + i * width + j) {
                    if is_larger(x[at], x[place]) {
                        place = at;
                    }
                }
            }
            values[row * wide + col] = x[place];
            if PLACES {
                places[row * wide + col] = place as i64;
            }
        }
    }
}

/// The largest elements of a block of windows; `offsets` are those of a window's elements.
fn largest_of_block<T: Element, const PLACES: bool>(
    x: &[T],
    block: &PlaneBlock,
    offsets: impl Iterator<Item = usize>,
    wide: usize,
    values: &mut [T],
    places: &mut [i64],
) {
    let n = block.len();
    let mut room = Room::new(2 * n);
    let (largest, laid) = room.as_mut_slice().split_at_mut(n);
    let mut taken = vec![0; if PLACES { n } else { 0 }];
    for (i, offset) in offsets.enumerate() {
        if i == 0 {
            block.lay_out(x, offset, largest);
            taken.fill(offset as i32);
            continue;
        }
        block.lay_out(x, offset, laid);
        match PLACES {
            true => larger_at(laid, offset as i32, largest, &mut taken),
            false => larger(laid, largest),
        }
    }
    let cols = block.cols.len();
    for (i, row) in block.rows.clone().enumerate() {
        let line = row * wide + block.cols.start..row * wide + block.cols.end;
        values[line.clone()].copy_from_slice(&largest[i * cols..][..cols]);
        if PLACES {
            let first = (block.at + i * block.steps[0]) as i64;
            places_from(&taken[i * cols..], first, block.steps[1] as i64, &mut places[line]);
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
    /// Compares an element of each of many windows with the largest of it so far.
    fn larger[T: Element][T](x: &[T], largest: &mut [T]);
    body larger_body
}
#[inline(always)]
fn larger_body<const FMA: bool, T: Element>(x: &[T], largest: &mut [T]) {
    for (&v, largest) in x.iter().zip(largest) {
        *largest = if is_larger(v, *largest) { v } else { *largest };
    }
}

door! {
    /// The same, which remembers how far the largest element lies from the window's first.
    fn larger_at[T: Element][T](x: &[T], offset: i32, largest: &mut [T], offsets: &mut [i32]);
    body larger_at_body
}
#[inline(always)]
fn larger_at_body<const FMA: bool, T: Element>(x: &[T], offset: i32, largest: &mut [T], offsets: &mut [i32]) {
    for ((&v, largest), o) in x.iter().zip(largest).zip(offsets) {
        let takes = is_larger(v, *largest);
        (*largest, *o) = (if takes { v } else { *largest }, if takes { offset } else { *o });
    }
}

door! {
    /// Places that lie so far from the first elements of their windows, which lie a step apart.
    fn places_from[][](offsets: &[i32], first: i64, step: i64, places: &mut [i64]);
    body places_from_body
}
#[inline(always)]
fn places_from_body<const FMA: bool>(offsets: &[i32], first: i64, step: i64, places: &mut [i64]) {
    let mut window = first;
    for (place, &offset) in places.iter_mut().zip(offsets) {
        *place = window + i64::from(offset);
        window += step;
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
