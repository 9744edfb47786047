//! Convolutions of few channels, depthwise ones among them, for which strips of a product would cost more than they serve:
//! results are summed tap by tap as the windows lie.

use super::product::SlideProduct;
use super::sweep::{Lanes, Sweep, Window};
use super::weight::WeightProduct;
use super::{Convolved, Shared, Tile, Tiles};
use crate::buffer::Room;
use crate::kernels::doors::door;
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
    fn dots<T: Convolved>(&self, x: &WeightProduct<'_, T>, plane: usize, sums: &mut [T]) {
        let cols = self.sweeps[1].count;
        let size = self.sweeps[0].count * cols;
        let taps = x.kernel[0] * x.kernel[1];
        let tiles = self.tiles();
        for tile in (0..tiles.len()).map(|i| tiles.get(i)) {
            let window = Window::new(&self.lanes, tile.from, tile.count);
            let sources = self.gather(x.source, plane, &window);
            let first = tile.from[0] * cols + tile.from[1];
            for channel in 0..self.channels {
                for (place, tap) in window.taps().zip(self.taps(x.kernel[1])) {
                    let b = &sources.as_slice()[channel * window.len() + place..];
                    for row in (0..x.rows).step_by(FEW) {
                        let live = FEW.min(x.rows - row);
                        let at = |r: usize| (plane * x.rows + row + r) * size + first;
                        let gradients = std::array::from_fn(|r| &x.gradient[at(r.min(live - 1))..]);
                        let found = match live {
                            1 => {
                                [dot_rows::<T, 1>([gradients[0]], cols, b, window.pitch(), tile.count)[0];
                                    FEW]
                            }
                            _ => dot_rows::<T, FEW>(gradients, cols, b, window.pitch(), tile.count),
                        };
                        for (r, found) in found.into_iter().enumerate().take(live) {
                            let sum = &mut sums[((row + r) * self.channels + channel) * taps + tap];
                            *sum = *sum + found;
                        }
                    }
                }
            }
        }
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
                    pair.dots(x, item * x.groups + group, sums);
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

door! {
    /// The sums over rows and columns of the products of several matrices' elements, whose rows are so far apart, with those of
    /// another.
    fn dot_rows[T: Float, const R: usize][T, R](a: [&[T]; R], a_pitch: usize, b: &[T], b_pitch: usize, count: [usize; 2]) -> [T; R];
    body dot_rows_body
}
/// Lanes of a sum.
const LANES: usize = 16;
#[inline(always)]
fn dot_rows_body<const FMA: bool, T: Float, const R: usize>(
    a: [&[T]; R],
    a_pitch: usize,
    b: &[T],
    b_pitch: usize,
    [rows, cols]: [usize; 2],
) -> [T; R] {
    // Four sums in flight: of several matrices, or of several rows of one.
    let at_once = FEW / R;
    let mut sums = [[T::of(0.0); LANES]; FEW];
    let whole = rows - rows % at_once;
    for first in (0..whole).step_by(at_once) {
        let row = |s: usize| first + s % at_once;
        let own = std::array::from_fn(|s| &a[s / at_once][row(s) * a_pitch..][..cols]);
        let other = std::array::from_fn(|s| &b[row(s) * b_pitch..][..cols]);
        add_dots::<FMA, T, FEW>(&mut sums, own, other);
    }
    for row in whole..rows {
        let own = std::array::from_fn(|r| &a[r][row * a_pitch..][..cols]);
        let mut more = [[T::of(0.0); LANES]; R];
        add_dots::<FMA, T, R>(&mut more, own, [&b[row * b_pitch..][..cols]; R]);
        for r in 0..R {
            for l in 0..LANES {
                sums[r * at_once][l] = sums[r * at_once][l] + more[r][l];
            }
        }
    }
    let mut totals = [T::of(0.0); R];
    for (total, sums) in totals.iter_mut().zip(sums.chunks_exact_mut(at_once)) {
        let sums = sums.as_flattened_mut();
        let mut width = sums.len() / 2;
        while width > 0 {
            for l in 0..width {
                sums[l] = sums[l] + sums[l + width];
            }
            width /= 2;
        }
        *total = sums[0];
    }
    totals
}

/// Adds the products of rows' elements, each pair of rows in lanes of its own. In a variable of its own the sums stay in
/// registers.
#[inline(always)]
fn add_dots<const FMA: bool, T: Float, const N: usize>(
    sums: &mut [[T; LANES]; N],
    a: [&[T]; N],
    b: [&[T]; N],
) {
    let cols = b[0].len();
    let whole = cols - cols % LANES;
    let mut own = *sums;
    for at in (0..whole).step_by(LANES) {
        for s in 0..N {
            let (a, b): (&[T; LANES], &[T; LANES]) = (
                a[s][at..].first_chunk().expect("rows are equally long"),
                b[s][at..].first_chunk().expect("rows are equally long"),
            );
            for l in 0..LANES {
                own[s][l] = a[l].fused::<FMA>(b[l], own[s][l]);
            }
        }
    }
    *sums = own;
    for s in 0..N {
        let (a, b) = (&a[s][whole..], &b[s][whole..]);
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<{ LANES / 2 }>(), b.as_chunks::<{ LANES / 2 }>());
        for (a, b) in a.iter().zip(b) {
            for l in 0..LANES / 2 {
                sums[s][l] = a[l].fused::<FMA>(b[l], sums[s][l]);
            }
        }
        for (l, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
            sums[s][l] = a.fused::<FMA>(b, sums[s][l]);
        }
    }
}
