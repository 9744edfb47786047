//! Convolutions of few channels, depthwise ones among them, for which strips of a product would cost more than they serve:
//! results are summed tap by tap as the windows lie.

use super::product::SlideProduct;
use super::sweep::{Lanes, Sweep, Window};
use super::weight::WeightProduct;
use super::{Convolved, Shared, Tile, Tiles};
use crate::buffer::Room;
use crate::kernels::doors::door;
use crate::kernels::each;
use crate::kernels::lane::Float;
use crate::kernels::level::{Level, level};
use crate::threads::split_work;

/// Channels of results, or of sources where the kernel's gradient is wanted, up to which they are few.
pub(super) const FEW: usize = 4;

/// Places that are summed at once.
const ABREAST: usize = 32;

/// Elements of a tile's sources, at most: they fit in the second-level cache, those of a single channel in the first.
const TILE: usize = 1 << 16;

/// Places of a tile, at most.
const PLACES: usize = 1 << 12;

/// Multiplications of a task, at least.
const TASK: usize = 1 << 18;

/// The results of one pair of sweeps in all images.
pub(super) fn slide<T: Convolved>(x: &SlideProduct<'_, T>, sweeps: [&Sweep; 2], out: &Shared<'_, T>) {
    match x.rows {
        1 => Pair::new(sweeps, x.channels).slide::<T, 1>(x, out),
        2 => Pair::new(sweeps, x.channels).slide::<T, 2>(x, out),
        _ => Pair::new(sweeps, x.channels).slide::<T, FEW>(x, out),
    }
}

/// A pair of sweeps.
struct Pair<'a> {
    sweeps: [&'a Sweep; 2],
    lanes: [Lanes; 2],
    /// source channels of a group
    channels: usize,
}

impl<'a> Pair<'a> {
    fn new(sweeps: [&'a Sweep; 2], channels: usize) -> Pair<'a> {
        Pair { sweeps, lanes: sweeps.map(Lanes::new), channels }
    }

    /// The tiles of one image.
    fn tiles(&self) -> Tiles {
        Tiles::new(1, self.sweeps.map(|s| s.count), (TILE / self.channels).clamp(64, PLACES))
    }

    /// The numbers of the taps.
    fn taps(&self, across: usize) -> impl Iterator<Item = usize> {
        let [down, right] = self.sweeps;
        down.taps.iter().flat_map(move |y| right.taps.iter().map(move |x| y.number * across + x.number))
    }

    /// The windows of a group of channels, and room behind them.
    fn gather<T: Convolved>(&self, source: &[T], group: usize, window: &Window<'_>) -> Room<T> {
        let (size, plane) = (self.sweeps[0].sources * self.sweeps[1].sources, window.len());
        let mut sources: Room<T> = Room::new(self.channels * plane + FEW * ABREAST);
        let windows = sources.as_mut_slice().chunks_exact_mut(plane).take(self.channels);
        for (to, number) in windows.zip(group * self.channels..) {
            window.fill(&source[number * size..][..size], to);
        }
        sources
    }

    /// All results; `R` is the number of rows, or a little more.
    fn slide<T: Convolved, const R: usize>(&self, x: &SlideProduct<'_, T>, out: &Shared<'_, T>) {
        let tiles = self.tiles();
        let taps = self.sweeps[0].taps.len() * self.sweeps[1].taps.len();
        let work = (tiles.each[1] * tiles.each[2]).saturating_mul(self.channels * taps * R);
        split_work(
            x.items * x.groups * tiles.len(),
            (TASK / work).max(1),
            (),
            &|(), _| ((), ()),
            &|start, len, ()| {
                for task in start..start + len {
                    self.tile::<T, R>(x, task / tiles.len(), &tiles.get(task % tiles.len()), out);
                }
            },
        );
    }

    /// The results of a tile of one image's group.
    fn tile<T: Convolved, const R: usize>(
        &self,
        x: &SlideProduct<'_, T>,
        plane: usize,
        tile: &Tile,
        out: &Shared<'_, T>,
    ) {
        let (w, group) = (&x.weight, plane % x.groups);
        let window = Window::new(&self.lanes, tile.from, tile.count);
        let sources = self.gather(x.source, plane, &window);
        let mut terms: Vec<(usize, [T; R])> = Vec::new();
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
        // Lines as long as the window's: what lies between those of the results is summed, too, and left.
        let n = (tile.count[0] - 1) * window.pitch() + tile.count[1];
        let mut sums: Room<T> = Room::new(R * n);
        sum_terms::<T, R>(sums.as_mut_slice(), sources.as_slice(), &terms);
        let [down, across] = self.sweeps;
        for (row, sums) in sums.as_slice().chunks_exact(n).enumerate().take(x.rows) {
            let bias = x.bias.map(|b| b[group * x.rows + row]);
            for (i, values) in sums.chunks(window.pitch()).enumerate() {
                let line = down.first + (tile.from[0] + i) * down.step;
                let first = ((plane * x.rows + row) * x.sizes[0] + line) * x.sizes[1] + across.first;
                let len = (tile.count[1] - 1) * across.step + 1;
                // SAFETY: every image, channel, sweep and place belongs to one tile of one group, and pairs of sweeps
                // are computed one after another.
                let to = unsafe { out.part(first + tile.from[1] * across.step, len) };
                super::product::place(&values[..tile.count[1]], bias, across.step, to);
            }
        }
    }

    /// Adds the gradients of a group's kernel that one image has: `[rows, channels, ..]`.
    fn dots<T: Convolved, const R: usize>(&self, x: &WeightProduct<'_, T>, plane: usize, sums: &mut [T]) {
        let kernel = x.kernel[0] * x.kernel[1];
        let tiles = self.tiles();
        for tile in (0..tiles.len()).map(|i| tiles.get(i)) {
            let window = Window::new(&self.lanes, tile.from, tile.count);
            let mut sources = self.gather(x.source, plane, &window);
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
            let inside = &|i: usize| i / window.pitch() < rows && i % window.pitch() < cols;
            for row in (0..x.rows).step_by(R) {
                let live = R.min(x.rows - row);
                let gradients = self.spaced::<T, R>(x, plane * x.rows + row, live, &tile, window.pitch());
                let a = gradients.as_slice();
                for places in places.chunks(FEW / R) {
                    let found = dots::<T, R>(a, sources, places, inside);
                    for (s, found) in found.into_iter().enumerate() {
                        let (r, p) = (s / (FEW / R), s % (FEW / R));
                        if r < live && p < places.len() {
                            let sum = &mut sums[(row + r) * self.channels * kernel + places[p].1];
                            *sum = *sum + found;
                        }
                    }
                }
            }
        }
    }

    /// The gradients of a tile, in lines as long as the window's: zeros lie between them, behind them, and where a row is
    /// missing.
    fn spaced<T: Convolved, const R: usize>(
        &self,
        x: &WeightProduct<'_, T>,
        first: usize,
        live: usize,
        tile: &Tile,
        pitch: usize,
    ) -> Room<T> {
        let ([rows, cols], across) = (tile.count, self.sweeps[1].count);
        let size = self.sweeps[0].count * across;
        let n = ((rows - 1) * pitch + cols).next_multiple_of(LANES);
        let mut spaced: Room<T> = Room::new(R * n);
        spaced.as_mut_slice().fill(T::default());
        for (r, out) in spaced.as_mut_slice().chunks_exact_mut(n).enumerate().take(live) {
            for (i, line) in out.chunks_mut(pitch).enumerate().take(rows) {
                let at = (first + r) * size + (tile.from[0] + i) * across + tile.from[1];
                line[..cols].copy_from_slice(&x.gradient[at..][..cols]);
            }
        }
        spaced
    }
}

/// Parts that images are cut into, with all groups, at most.
const PARTS: usize = 16;

/// Computes `[groups, rows, channels, ..]`.
pub(super) fn weight_gradient<T: Convolved>(x: &WeightProduct<'_, T>, out: &mut [T]) {
    let pair = Pair::new(x.sweeps.each_ref(), x.channels);
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
                for item in part * x.items / parts..(part + 1) * x.items / parts {
                    match x.rows {
                        1 => pair.dots::<T, 1>(x, item * x.groups + group, sums),
                        _ => pair.dots::<T, FEW>(x, item * x.groups + group, sums),
                    }
                }
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
    fn sum_terms[T: Float, const R: usize][T, R](out: &mut [T], sources: &[T], terms: &[(usize, [T; R])]);
    body sum_terms_body
}
#[inline(always)]
fn sum_terms_body<const FMA: bool, T: Float, const R: usize>(
    out: &mut [T],
    sources: &[T],
    terms: &[(usize, [T; R])],
) {
    let (n, runs) = (out.len() / R, FEW / R);
    for first in (0..n).step_by(runs * ABREAST) {
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

/// The sums of the products of `R` rows with what lies at one place after another: four together. Where a row is not
/// `inside` it is zero.
fn dots<T: Convolved, const R: usize>(
    a: &[T],
    sources: &[T],
    places: &[(usize, usize)],
    inside: &dyn Fn(usize) -> bool,
) -> [T; FEW] {
    let n = a.len() / R;
    let rows: [&[T]; FEW] = each(a, |s| &a[s / (FEW / R) * n..][..n]);
    let others: [&[T]; FEW] = each(a, |s| &sources[places[(s % (FEW / R)).min(places.len() - 1)].0..][..n]);
    let mut sums = [T::default(); FEW];
    dot_fours(rows, others, &mut sums);
    for s in 0..FEW {
        // Zero times infinity is no number, and must not come from what lies between the lines.
        if sums[s].is_nan_() {
            let terms = rows[s].iter().zip(others[s]).enumerate().filter(|(i, _)| inside(*i));
            sums[s] = terms.fold(T::default(), |sum, (_, (&a, &b))| sum + a * b);
        }
    }
    sums
}

door! {
    /// The sums of the products of four pairs of rows, whose length is a multiple of [`LANES`].
    fn dot_fours[T: Float][T](a: [&[T]; FEW], b: [&[T]; FEW], sums: &mut [T; FEW]);
    body dot_fours_body
}
#[inline(always)]
fn dot_fours_body<const FMA: bool, T: Float>(a: [&[T]; FEW], b: [&[T]; FEW], sums: &mut [T; FEW]) {
    let (mut rows, mut others) = ([&[][..]; FEW], [&[][..]; FEW]);
    let n = a[0].len() / LANES;
    for s in 0..FEW {
        (rows[s], others[s]) = (&a[s].as_chunks::<LANES>().0[..n], &b[s].as_chunks::<LANES>().0[..n]);
    }
    let mut lanes = [[T::of(0.0); LANES]; FEW];
    for k in 0..n {
        for s in 0..FEW {
            for l in 0..LANES {
                lanes[s][l] = rows[s][k][l].fused::<FMA>(others[s][k][l], lanes[s][l]);
            }
        }
    }
    for s in 0..FEW {
        let mut width = LANES / 2;
        while width > 0 {
            for l in 0..width {
                lanes[s][l] = lanes[s][l] + lanes[s][l + width];
            }
            width /= 2;
        }
        sums[s] = lanes[s][0];
    }
}
