//! Convolutions whose groups have one channel of each kind: every place is a sum over taps, and there is no product.

use super::product::SlideProduct;
use super::sweep::{Lanes, Sweep, Window};
use super::weight::WeightProduct;
use super::{Convolved, Tiles};
use crate::buffer::Room;
use crate::kernels::doors::door;
use crate::kernels::lane::Float;
use crate::kernels::level::{Level, level};
use crate::threads::split_work;

/// Places that are summed at once.
const ABREAST: usize = 32;

/// Places of a tile, at most: its window fits in the first-level cache.
const TILE: usize = 1 << 12;

/// Multiplications of a task, at least.
const TASK: usize = 1 << 18;

/// Computes all results into `out`, `[items, groups, ..]`.
pub(super) fn slide<T: Convolved>(x: &SlideProduct<'_, T>, out: &mut [T]) {
    let plane = x.sizes[0] * x.sizes[1];
    let taps = x.weight.sizes[0] * x.weight.sizes[1];
    let grain = (TASK / plane.saturating_mul(taps)).max(1);
    let pairs: Vec<Pair<'_>> = x.pairs().map(Pair::new).collect();
    split_work(
        x.items * x.groups,
        grain,
        out,
        &|o: &mut [T], at| o.split_at_mut(at * plane),
        &|start, _, out| {
            for (i, out) in out.chunks_exact_mut(plane).enumerate() {
                pairs.iter().for_each(|pair| pair.slide(x, start + i, out));
            }
        },
    );
}

/// A pair of sweeps.
struct Pair<'a> {
    sweeps: [&'a Sweep; 2],
    lanes: [Lanes; 2],
}

impl<'a> Pair<'a> {
    fn new(sweeps: [&'a Sweep; 2]) -> Pair<'a> {
        Pair { sweeps, lanes: sweeps.map(Lanes::new) }
    }

    /// The sources of a plane.
    fn plane<'s, T>(&self, source: &'s [T], number: usize) -> &'s [T] {
        let size = self.sweeps[0].sources * self.sweeps[1].sources;
        &source[number * size..][..size]
    }

    /// The numbers of the taps.
    fn taps(&self, across: usize) -> impl Iterator<Item = usize> {
        let [down, right] = self.sweeps;
        down.taps.iter().flat_map(move |y| right.taps.iter().map(move |x| y.number * across + x.number))
    }

    /// The results of a plane.
    fn slide<T: Convolved>(&self, x: &SlideProduct<'_, T>, number: usize, out: &mut [T]) {
        let group = number % x.groups;
        let weight = &x.weight.data[group * x.weight.group_step..];
        let bias = x.bias.map_or(T::default(), |b| b[group]);
        let source = self.plane(x.source, number);
        let [down, across] = self.sweeps;
        let tiles = Tiles::new(1, [down.count, across.count], TILE);
        let mut line: Room<T> = Room::new(tiles.each[2]);
        for tile in (0..tiles.len()).map(|i| tiles.get(i)) {
            let window = Window::new(&self.lanes, tile.from, tile.count);
            let mut sources: Room<T> = Room::new(window.len() + ABREAST);
            window.fill(source, sources.as_mut_slice());
            let taps: Vec<(usize, T)> =
                window.taps().zip(self.taps(x.weight.sizes[1]).map(|t| weight[t])).collect();
            for i in 0..tile.count[0] {
                let row = (down.first + (tile.from[0] + i) * down.step) * x.sizes[1];
                let to = &mut out[row + across.first + tile.from[1] * across.step..];
                let sources = &sources.as_slice()[i * window.pitch()..];
                if across.step == 1 {
                    sum_taps(&mut to[..tile.count[1]], sources, &taps, bias);
                } else {
                    let line = &mut line.as_mut_slice()[..tile.count[1]];
                    sum_taps(line, sources, &taps, bias);
                    to.iter_mut().step_by(across.step).zip(&*line).for_each(|(o, &v)| *o = v);
                }
            }
        }
    }

    /// Adds the gradients of the taps that one plane has.
    fn dots<T: Convolved>(&self, x: &WeightProduct<'_, T>, number: usize, sums: &mut [T]) {
        let counts = self.sweeps.map(|s| s.count);
        let size = counts[0] * counts[1];
        let gradient = &x.gradient[number * size..][..size];
        let source = self.plane(x.source, number);
        let tiles = Tiles::new(1, counts, TILE);
        for tile in (0..tiles.len()).map(|i| tiles.get(i)) {
            let window = Window::new(&self.lanes, tile.from, tile.count);
            let mut sources: Room<T> = Room::new(window.len());
            window.fill(source, sources.as_mut_slice());
            for (at, tap) in window.taps().zip(self.taps(x.kernel[1])) {
                let a = (&gradient[tile.from[0] * counts[1] + tile.from[1]..], counts[1]);
                let b = (&sources.as_slice()[at..], window.pitch());
                sums[tap] = sums[tap] + dot_rows(a, b, tile.count);
            }
        }
    }
}

/// Computes `[groups, ..]`, the gradients of all taps of each channel.
pub(super) fn weight_gradient<T: Convolved>(x: &WeightProduct<'_, T>, out: &mut [T]) {
    let pair = Pair::new(x.sweeps.each_ref());
    let taps = x.kernel[0] * x.kernel[1];
    let work = x.items.saturating_mul(x.sweeps[0].count * x.sweeps[1].count).saturating_mul(taps);
    split_work(
        x.groups,
        (TASK / work).max(1),
        out,
        &|o: &mut [T], at| o.split_at_mut(at * taps),
        &|start, _, out| {
            for (i, sums) in out.chunks_exact_mut(taps).enumerate() {
                sums.fill(T::default());
                (0..x.items).for_each(|item| pair.dots(x, item * x.groups + start + i, sums));
            }
        },
    );
}

door! {
    /// `out[i] = bias + sum over taps of weight * sources[place + i]`; behind the last source there is room for more.
    fn sum_taps[T: Float][T](out: &mut [T], sources: &[T], taps: &[(usize, T)], bias: T);
    body sum_taps_body
}
#[inline(always)]
fn sum_taps_body<const FMA: bool, T: Float>(out: &mut [T], sources: &[T], taps: &[(usize, T)], bias: T) {
    for (c, out) in out.chunks_mut(ABREAST).enumerate() {
        let sources = &sources[c * ABREAST..];
        let mut sums = [bias; ABREAST];
        for &(place, weight) in taps {
            let line: &[T; ABREAST] = sources[place..].first_chunk().expect("windows end with room");
            for l in 0..ABREAST {
                sums[l] = line[l].fused::<FMA>(weight, sums[l]);
            }
        }
        match out.first_chunk_mut::<ABREAST>() {
            Some(out) => *out = sums,
            None => out.copy_from_slice(&sums[..out.len()]),
        }
    }
}

door! {
    /// The sum over rows and columns of the products of two matrices' elements, whose rows are so far apart.
    fn dot_rows[T: Float][T](a: (&[T], usize), b: (&[T], usize), count: [usize; 2]) -> T;
    body dot_rows_body
}
#[inline(always)]
fn dot_rows_body<const FMA: bool, T: Float>(
    (a, a_pitch): (&[T], usize),
    (b, b_pitch): (&[T], usize),
    [rows, cols]: [usize; 2],
) -> T {
    let mut sums = [T::of(0.0); ABREAST];
    for i in 0..rows {
        let (a, b) = (&a[i * a_pitch..][..cols], &b[i * b_pitch..][..cols]);
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<ABREAST>(), b.as_chunks::<ABREAST>());
        for (a, b) in a.iter().zip(b) {
            for l in 0..ABREAST {
                sums[l] = a[l].fused::<FMA>(b[l], sums[l]);
            }
        }
        for (l, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
            sums[l] = a.fused::<FMA>(b, sums[l]);
        }
    }
    let mut width = ABREAST / 2;
    while width > 0 {
        for l in 0..width {
            sums[l] = sums[l] + sums[l + width];
        }
        width /= 2;
    }
    sums[0]
}
