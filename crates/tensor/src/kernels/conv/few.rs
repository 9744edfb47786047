//! Convolutions of few channels, depthwise ones among them, for which strips of a product would cost more than they serve:
//! results are summed tap by tap as the windows lie.

use std::ops::Range;

use super::product::SlideProduct;
use super::sweep::{Lanes, Sweep, Window};
use super::weight::WeightProduct;
use super::{ConvTile, ConvTiles, Convolved};
use crate::buffer::Room;
use crate::kernels::doors::door;
use crate::kernels::each;
use crate::kernels::lane::{Float, fold_lanes};
use crate::kernels::lay_out::copy_run;
use crate::kernels::level::{Level, level};
use crate::kernels::{Ahead, Scattered};
use crate::threads::split_work;

/// Channels of results, or of sources where the kernel's gradient is wanted, up to which they are few.
pub(super) const FEW: usize = 4;

/// Places that are summed at once, where there are 32 registers of 64 bytes.
const ABREAST: usize = 32;

/// The same elsewhere. Of 16 registers, the sums of 32 places of `f32` would leave none: they went to the stack and back for each
/// term, twice as slow where that was not aligned.
const FEWER_ABREAST: usize = 16;

/// Elements of a tile's sources, at most: they fit in the second-level cache, those of a single channel in the first.
const TILE: usize = 1 << 16;

/// Places of a tile, at most.
const PLACES: usize = 1 << 12;

/// Multiplications of a task, at least.
const TASK: usize = 1 << 18;

/// The results of one pair of sweeps in all images.
pub(super) fn slide<T: Convolved>(x: &SlideProduct<'_, T>, sweeps: [&Sweep; 2], out: &Scattered<'_, T>) {
    match x.rows {
        1 => SweepPair::new(sweeps, x.channels).slide::<T, 1>(x, out),
        2 => SweepPair::new(sweeps, x.channels).slide::<T, 2>(x, out),
        _ => SweepPair::new(sweeps, x.channels).slide::<T, FEW>(x, out),
    }
}

/// A pair of sweeps.
struct SweepPair<'a> {
    sweeps: [&'a Sweep; 2],
    lanes: [Lanes; 2],
    /// source channels of a group
    channels: usize,
}

impl<'a> SweepPair<'a> {
    fn new(sweeps: [&'a Sweep; 2], channels: usize) -> SweepPair<'a> {
        SweepPair { sweeps, lanes: sweeps.map(Lanes::new), channels }
    }

    /// The tiles of so many images: several small ones are summed together, in one loop. 32 of 5 by 5, depthwise, take a third of the
    /// time of one by one, of 14 by 14 two thirds.
    fn tiles(&self, images: usize) -> ConvTiles {
        ConvTiles::new(images, self.sweeps.map(|s| s.count), (TILE / self.channels).clamp(64, PLACES))
    }

    /// The numbers of the taps.
    fn taps(&self, across: usize) -> impl Iterator<Item = usize> {
        let [down, right] = self.sweeps;
        down.taps.iter().flat_map(move |y| right.taps.iter().map(move |x| y.number * across + x.number))
    }

    /// The windows of a group of channels of a tile's images, and room behind them.
    fn gather<T: Convolved>(
        &self,
        source: &[T],
        (group, groups): (usize, usize),
        tile: &ConvTile,
        window: &Window<'_>,
    ) -> Room<T> {
        let size = self.sweeps[0].sources * self.sweeps[1].sources;
        let mut sources: Room<T> = Room::new(self.channels * window.len() + FEW * ABREAST);
        let windows = sources.as_mut_slice().chunks_exact_mut(window.len()).take(self.channels);
        for (channel, to) in windows.enumerate() {
            for image in 0..tile.items {
                let number = ((tile.item + image) * groups + group) * self.channels + channel;
                window.fill(&source[number * size..][..size], image, to);
            }
        }
        sources
    }

    /// All results; `R` is the number of rows, or a little more.
    fn slide<T: Convolved, const R: usize>(&self, x: &SlideProduct<'_, T>, out: &Scattered<'_, T>) {
        let tiles = self.tiles(x.items);
        // All groups of some images before the next images.
        let own = tiles.counts[1] * tiles.counts[2];
        let get = |task: usize| {
            let (rest, part) = (task / own, task % own);
            (rest % x.groups, tiles.get(rest / x.groups * own + part))
        };
        let (tasks, taps) = (tiles.len() * x.groups, self.sweeps[0].taps.len() * self.sweeps[1].taps.len());
        let work = tiles.each.iter().product::<usize>().saturating_mul(self.channels * taps * R);
        split_work(tasks, (TASK / work).max(1), (), &|(), _| ((), ()), &|start, len, ()| {
            for task in start..start + len {
                let next = (task + 1 < tasks).then(|| get(task + 1));
                self.tile::<T, R>(x, get(task), next, out);
            }
        });
    }

    /// The results of a group in a tile.
    fn tile<T: Convolved, const R: usize>(
        &self,
        x: &SlideProduct<'_, T>,
        (group, tile): (usize, ConvTile),
        next: Option<(usize, ConvTile)>,
        out: &Scattered<'_, T>,
    ) {
        let w = &x.weight;
        let window = Window::new(&self.lanes, tile.from, tile.count).of_images(tile.items);
        let sources = self.gather(x.source, (group, x.groups), &tile, &window);
        let [down, right] = self.sweeps.map(|s| s.taps.len());
        let mut terms: Vec<(usize, [T; R])> = Vec::with_capacity(self.channels * down * right);
        for channel in 0..self.channels {
            for (place, tap) in window.taps().zip(self.taps(w.sizes[1])) {
                let mut weights = [T::default(); R];
                for (row, weight) in weights.iter_mut().enumerate().take(x.rows) {
                    let at = group * w.group_step + row * w.row_step + channel * w.channel_step;
                    *weight = w.data[at + tap];
                }
                terms.push((channel * window.len() + place, weights));
            }
        }
        // Lines and planes as long as the window's: what lies between those of the results is summed, too, and left.
        let n = self.reach(&tile, &window);
        let mut sums: Room<T> = Room::new(R * n);
        let is_wide = level() == Level::Avx512;
        let abreast = if is_wide { ABREAST } else { FEWER_ABREAST };
        let steps = n.div_ceil(FEW / R * abreast);
        let ahead = x.ahead(steps, (self.sweeps, &self.lanes), (group, &tile), next, out);
        let sum = if is_wide { sum_terms::<T, R, ABREAST> } else { sum_terms::<T, R, FEWER_ABREAST> };
        sum(sums.as_mut_slice(), sources.as_slice(), &terms, &ahead);
        let [down, across] = self.sweeps;
        for (row, sums) in sums.as_slice().chunks_exact(n).enumerate().take(x.rows) {
            let bias = x.bias.map(|b| b[group * x.rows + row]);
            for (image, sums) in sums.chunks(window.plane()).enumerate() {
                let plane = ((tile.item + image) * x.groups + group) * x.rows + row;
                let line = plane * x.sizes[0] + down.first + tile.from[0] * down.step;
                let mut first = line * x.sizes[1] + across.first + tile.from[1] * across.step;
                for values in sums.chunks(window.pitch()).take(tile.count[0]) {
                    // SAFETY: every image, channel, sweep and place belongs to one tile of one group, and pairs of sweeps
                    // are computed one after another.
                    let to = unsafe { out.part(first, (tile.count[1] - 1) * across.step + 1) };
                    super::product::place(&values[..tile.count[1]], bias, across.step, to);
                    first += down.step * x.sizes[1];
                }
            }
        }
    }

    /// How far it is from the first result of a tile to behind its last, in lines and planes as long as the window's.
    fn reach(&self, tile: &ConvTile, window: &Window<'_>) -> usize {
        (tile.items - 1) * window.plane() + (tile.count[0] - 1) * window.pitch() + tile.count[1]
    }

    /// Adds the gradients of a group's kernel that some images have: `[rows, channels, ..]`.
    fn dots<T: Convolved>(
        &self,
        x: &WeightProduct<'_, T>,
        group: usize,
        images: Range<usize>,
        sums: &mut [T],
    ) {
        let kernel = x.kernel[0] * x.kernel[1];
        let tiles = self.tiles(images.len());
        for tile in (0..tiles.len()).map(|i| tiles.get(i)) {
            let tile = ConvTile { item: images.start + tile.item, ..tile };
            let window = Window::new(&self.lanes, tile.from, tile.count).of_images(tile.items);
            let mut sources = self.gather(x.source, (group, x.groups), &tile, &window);
            let sources = sources.as_mut_slice();
            let end = self.channels * window.len();
            sources[end..].fill(T::default());
            let places: Vec<(usize, usize)> = (0..self.channels)
                .flat_map(|c| {
                    let taps = window.taps().zip(self.taps(x.kernel[1]));
                    taps.map(move |(place, tap)| (c * window.len() + place, c * kernel + tap))
                })
                .collect();
            let [rows, cols] = tile.count;
            let n = self.reach(&tile, &window);
            let inside = &|i: usize| {
                let place = i % window.plane();
                i < n && place / window.pitch() < rows && place % window.pitch() < cols
            };
            for (row, sums) in sums.chunks_exact_mut(self.channels * kernel).enumerate() {
                let gradients = self.spaced(x, group * x.rows + row, &tile, &window);
                for places in places.chunks(PLACES_ABREAST) {
                    let found = dots(gradients.as_slice(), sources, places, inside);
                    for (&(_, tap), found) in places.iter().zip(found) {
                        sums[tap] = sums[tap] + found;
                    }
                }
            }
        }
    }

    /// The gradients of a channel in a tile, in lines and planes as long as the window's: zeros lie between and behind them.
    fn spaced<T: Convolved>(
        &self,
        x: &WeightProduct<'_, T>,
        channel: usize,
        tile: &ConvTile,
        window: &Window<'_>,
    ) -> Room<T> {
        let ([rows, cols], [height, width]) = (tile.count, self.sweeps.map(|s| s.count));
        let mut spaced: Room<T> = Room::new(self.reach(tile, window).next_multiple_of(LANES));
        spaced.as_mut_slice().fill(T::default());
        for (image, lines) in spaced.as_mut_slice().chunks_mut(window.plane()).enumerate().take(tile.items) {
            let plane = (tile.item + image) * x.groups * x.rows + channel;
            for (i, line) in lines.chunks_mut(window.pitch()).enumerate().take(rows) {
                let at = (plane * height + tile.from[0] + i) * width + tile.from[1];
                copy_run(&x.gradient[at..], &mut line[..cols]);
            }
        }
        spaced
    }
}

/// Parts that images are cut into, with all groups, at most.
const PARTS: usize = 16;

/// Computes `[groups, rows, channels, ..]`.
pub(super) fn weight_gradient<T: Convolved>(x: &WeightProduct<'_, T>, out: &mut [T]) {
    let pair = SweepPair::new(x.sweeps.each_ref(), x.channels);
    let each = out.len() / x.groups;
    let parts = PARTS.div_ceil(x.groups).min(x.items);
    let mut sums: Room<T> = Room::new(parts * out.len());
    let places = x.sweeps[0].count * x.sweeps[1].count;
    let work = (x.items / parts).saturating_mul(places).saturating_mul(each);
    split_work(
        parts * x.groups,
        (TASK / work.max(1)).max(1),
        sums.as_mut_slice(),
        &|o: &mut [T], at| o.split_at_mut(at * each),
        &|start, _, sums| {
            for (i, sums) in sums.chunks_exact_mut(each).enumerate() {
                let (part, group) = ((start + i) / x.groups, (start + i) % x.groups);
                sums.fill(T::default());
                pair.dots(x, group, part * x.items / parts..(part + 1) * x.items / parts, sums);
            }
        },
    );
    let (first, rest) = sums.as_slice().split_at(out.len());
    out.copy_from_slice(first);
    for part in rest.chunks_exact(out.len()) {
        out.iter_mut().zip(part).for_each(|(o, &s)| *o = *o + s);
    }
}

door! {
    /// `out[r, i] = sum over terms of weight[r] * sources[place + i]`; behind the last source there is room for more.
    fn sum_terms[T: Float, const R: usize, const ABREAST: usize][T, R, ABREAST](out: &mut [T], sources: &[T], terms: &[(usize, [T; R])], ahead: &Ahead);
    body sum_terms_body
}
#[inline(always)]
fn sum_terms_body<const FMA: bool, T: Float, const R: usize, const ABREAST: usize>(
    out: &mut [T],
    sources: &[T],
    terms: &[(usize, [T; R])],
    ahead: &Ahead,
) {
    let (n, runs) = (out.len() / R, FEW / R);
    for first in (0..n).step_by(runs * ABREAST) {
        ahead.step();
        // Four sums in flight, of several rows or of one: they hide how long an addition takes.
        let mut sums = [[T::of(0.0); ABREAST]; FEW];
        for &(place, weights) in terms {
            let line = &sources[place + first..][..runs * ABREAST];
            for c in 0..runs {
                for r in 0..R {
                    for l in 0..ABREAST {
                        let v = line[c * ABREAST + l];
                        sums[r * runs + c][l] = v.fused::<FMA>(weights[r], sums[r * runs + c][l]);
                    }
                }
            }
        }
        for r in 0..R {
            let len = (runs * ABREAST).min(n - first);
            out[r * n + first..][..len]
                .copy_from_slice(&sums[r * runs..(r + 1) * runs].as_flattened()[..len]);
        }
    }
}

/// Lanes of a sum.
const LANES: usize = 16;

/// Places whose sums are in flight together.
const PLACES_ABREAST: usize = 5;

/// The sums of the products of a row with what lies at some places. Where the row is not `inside` it is zero.
fn dots<T: Convolved>(
    row: &[T],
    sources: &[T],
    places: &[(usize, usize)],
    inside: &dyn Fn(usize) -> bool,
) -> [T; PLACES_ABREAST] {
    let lines = each(row, |s| &sources[places[s.min(places.len() - 1)].0..][..row.len()]);
    let mut lanes = [[T::default(); LANES]; PLACES_ABREAST];
    dots_abreast(row, lines, &mut lanes);
    // Out here: beside the loop that fills the lanes, the compiler would cut that loop up to suit their sum.
    let mut sums = lanes.map(|l| fold_lanes(l, T::add));
    for (sum, line) in sums.iter_mut().zip(lines) {
        // Zero times infinity is no number, and must not come from what lies between the lines.
        if sum.is_nan_() {
            let terms = row.iter().zip(line).enumerate().filter(|(i, _)| inside(*i));
            *sum = terms.fold(T::default(), |sum, (_, (&a, &b))| sum + a * b);
        }
    }
    sums
}

door! {
    /// Adds the products of a row with several lines to lanes of their sums; the row's length is a multiple of [`LANES`].
    fn dots_abreast[T: Float][T](row: &[T], lines: [&[T]; PLACES_ABREAST], sums: &mut [[T; LANES]; PLACES_ABREAST]);
    body dots_abreast_body
}
#[inline(always)]
fn dots_abreast_body<const FMA: bool, T: Float>(
    row: &[T],
    lines: [&[T]; PLACES_ABREAST],
    sums: &mut [[T; LANES]; PLACES_ABREAST],
) {
    let row = row.as_chunks::<LANES>().0;
    let [a, b, c, d, e] = lines.map(|line| &line.as_chunks::<LANES>().0[..row.len()]);
    // Named one by one: a loop over them would not be unrolled, and its sums lie in memory.
    let [mut sum_a, mut sum_b, mut sum_c, mut sum_d, mut sum_e] = *sums;
    for (k, row) in row.iter().enumerate() {
        add_products::<FMA, T, LANES>(&mut sum_a, row, &a[k]);
        add_products::<FMA, T, LANES>(&mut sum_b, row, &b[k]);
        add_products::<FMA, T, LANES>(&mut sum_c, row, &c[k]);
        add_products::<FMA, T, LANES>(&mut sum_d, row, &d[k]);
        add_products::<FMA, T, LANES>(&mut sum_e, row, &e[k]);
    }
    *sums = [sum_a, sum_b, sum_c, sum_d, sum_e];
}

#[inline(always)]
pub(super) fn add_products<const FMA: bool, T: Float, const L: usize>(
    sums: &mut [T; L],
    a: &[T; L],
    b: &[T; L],
) {
    for l in 0..L {
        sums[l] = a[l].fused::<FMA>(b[l], sums[l]);
    }
}
