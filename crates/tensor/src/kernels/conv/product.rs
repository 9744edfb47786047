//! Convolutions and their transposes as products: the sources of a tile are laid out strip by strip.

use super::few::FEW;
use super::strips::Strips;
use super::sweep::{Lanes, Sweep, Tap, Window};
use super::{ConvTile, ConvTiles, Convolved, spaced};
use crate::buffer::Room;
use crate::kernels::lay_out::copy_run;
use crate::kernels::matmul::{Columns, DEPTH, Form, Places, row_major};
use crate::kernels::{Ahead, Scattered};
use crate::threads::{num_threads, split_work};

/// Results of `rows` channels in each of `groups` groups, of which each is a sum over `channels` source channels and the taps
/// that the sweeps name.
#[derive(Debug)]
pub(crate) struct SlideProduct<'a, T> {
    pub(crate) items: usize,
    pub(crate) groups: usize,
    pub(crate) rows: usize,
    pub(crate) channels: usize,
    /// `[items, groups, channels, ..]`
    pub(crate) source: &'a [T],
    pub(crate) weight: Kernel<'a, T>,
    /// `[groups, rows]`
    pub(crate) bias: Option<&'a [T]>,
    /// the sizes of the results
    pub(crate) sizes: [usize; 2],
    /// the sweeps along both axes: all results are named by one pair of them
    pub(crate) sweeps: [Vec<Sweep>; 2],
}

/// The numbers that sources are multiplied by, and how far they are from one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) group_step: usize,
    pub(crate) row_step: usize,
    pub(crate) channel_step: usize,
    /// the kernel's sizes
    pub(crate) sizes: [usize; 2],
}

/// Elements of a tile's results, and of its sources, at most: all of a task fits in the second-level cache.
const TILE: usize = 1 << 17;

/// Places of a tile, at least.
const FEWEST: usize = 64;

/// Multiplications of a task, at least.
const TASK: usize = 1 << 20;

/// Computes all results into `out`, `[items, groups, rows, ..]`.
pub(crate) fn slide<T: Convolved>(x: &SlideProduct<'_, T>, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    if x.channels == 0 {
        return x.fill(out);
    }
    if super::abreast::pays(x) {
        return super::abreast::slide(x, out);
    }
    if super::abreast::pays_by_places(x) {
        return super::abreast::slide_by_places(x, out);
    }
    if x.sweeps.iter().flatten().any(|sweep| sweep.taps.is_empty()) {
        x.fill(out);
    }
    let out = Scattered::new(out);
    for sweeps in x.pairs() {
        if x.rows <= FEW {
            super::few::slide(x, sweeps, &out);
        } else {
            Phase::new(x, sweeps).run(&out);
        }
    }
}

impl<T: Copy + Default> SlideProduct<'_, T> {
    /// The pairs of sweeps that meet any sources.
    pub(super) fn pairs(&self) -> impl Iterator<Item = [&Sweep; 2]> {
        let [down, across] = self.sweeps.each_ref().map(|s| s.iter().filter(|s| !s.taps.is_empty()));
        down.flat_map(move |y| across.clone().map(move |x| [y, x]))
    }

    /// What a tile of a group writes, and what the next one reads, to be asked for while the tile is computed.
    pub(super) fn ahead(
        &self,
        steps: usize,
        (sweeps, lanes): ([&Sweep; 2], &[Lanes; 2]),
        (group, tile): (usize, &ConvTile),
        next: Option<(usize, ConvTile)>,
        out: &Scattered<'_, T>,
    ) -> Ahead {
        let mut ahead = Ahead::new(steps);
        if !Ahead::pays(size_of_val(self.source).saturating_add(out.bytes())) {
            return ahead;
        }
        let [down, across] = sweeps;
        // Results with a step between them share their lines with those of other sweeps, and are twice as many lines.
        if down.step * across.step == 1 {
            let [height, width] = self.sizes;
            for i in 0..tile.items * self.rows {
                let plane = ((tile.item + i / self.rows) * self.groups + group) * self.rows + i % self.rows;
                let first = (plane * height + tile.from[0]) * width + tile.from[1];
                ahead.add(out.place(first), (tile.count[0] - 1) * width + tile.count[1]);
            }
        }
        let Some((group, tile)) = next else { return ahead };
        let [rows, cols] = Window::new(lanes, tile.from, tile.count).shown();
        if rows.is_empty() || cols.is_empty() {
            return ahead;
        }
        // Whole rows lie one behind the other; of parts of rows each is asked for alone.
        let width = across.sources;
        let whole = tile.count[1] == across.count;
        let (pieces, len) =
            if whole { (1, (rows.len() - 1) * width + cols.len()) } else { (rows.len(), cols.len()) };
        for i in 0..tile.items * self.channels {
            let plane =
                ((tile.item + i / self.channels) * self.groups + group) * self.channels + i % self.channels;
            for row in rows.clone().take(pieces) {
                let first = (plane * down.sources + row) * width + cols.start;
                ahead.add(self.source[first..][..len].as_ptr(), len);
            }
        }
        ahead
    }

    /// Writes what there is without any source.
    pub(super) fn fill(&self, out: &mut [T]) {
        let plane = self.sizes[0] * self.sizes[1];
        for (i, out) in out.chunks_exact_mut(plane).enumerate() {
            out.fill(self.bias.map_or(T::default(), |b| b[i % (self.groups * self.rows)]));
        }
    }
}

/// The results of one pair of sweeps.
struct Phase<'a, T> {
    x: &'a SlideProduct<'a, T>,
    sweeps: [&'a Sweep; 2],
    lanes: [Lanes; 2],
    form: Form,
    /// inner positions, and how many of them at a time
    inner: usize,
    depth: usize,
    /// the kernel's numbers, laid out for all groups and parts of the inner index
    left: Room<T>,
}

impl<'a, T: Convolved> Phase<'a, T> {
    fn new(x: &'a SlideProduct<'a, T>, sweeps: [&'a Sweep; 2]) -> Phase<'a, T> {
        let lanes = sweeps.map(Lanes::new);
        let inner = x.channels * sweeps[0].taps.len() * sweeps[1].taps.len();
        let depth = inner.div_ceil(inner.div_ceil(DEPTH));
        let form = T::form(x.rows);
        let mut phase = Phase { x, sweeps, lanes, form, inner, depth, left: Room::new(0) };
        phase.left = phase.lay_kernel();
        phase
    }

    fn parts(&self) -> usize {
        self.inner.div_ceil(self.depth)
    }

    fn part(&self) -> usize {
        self.form.room(self.x.rows, self.depth)
    }

    /// The kernel's numbers, a part after another.
    fn lay_kernel(&self) -> Room<T> {
        let (parts, part) = (self.parts(), self.part());
        let mut left: Room<T> = Room::new(self.x.groups * parts * part);
        let grain = (TASK / part).max(1);
        split_work(
            self.x.groups * parts,
            grain,
            left.as_mut_slice(),
            &|o: &mut [T], at| o.split_at_mut(at * part),
            &|start, _, out| {
                for (i, out) in out.chunks_exact_mut(part).enumerate() {
                    let (group, from) = ((start + i) / parts, (start + i) % parts * self.depth);
                    self.lay_part(group, from, self.depth.min(self.inner - from), out);
                }
            },
        );
        left
    }

    /// One part of the kernel's numbers: `[rows, depth]`.
    fn lay_part(&self, group: usize, from: usize, depth: usize, out: &mut [T]) {
        let (x, w) = (self.x, self.x.weight);
        let [down, across] = self.sweeps.map(|s| &s.taps);
        let taps = down.len() * across.len();
        let start = group * w.group_step;
        if w.channel_step == taps {
            // All taps, in order: as the kernel lies.
            let all = row_major(w.data, w.row_step);
            let a = crate::kernels::Matrix { start: start + from, ..all };
            return T::lay_left(self.form, &a, x.rows, depth, out, 0, depth);
        }
        let number = |y: &Tap, x: &Tap| y.number * w.sizes[1] + x.number;
        let taps: Vec<usize> = down.iter().flat_map(|y| across.iter().map(move |x| number(y, x))).collect();
        let mut numbers: Room<T> = Room::new(x.rows * depth);
        for (row, line) in numbers.as_mut_slice().chunks_exact_mut(depth).enumerate() {
            let (mut rest, mut channel, mut first) = (line, from / taps.len(), from % taps.len());
            while !rest.is_empty() {
                let at = start + row * w.row_step + channel * w.channel_step;
                let (run, behind) = rest.split_at_mut((taps.len() - first).min(rest.len()));
                run.iter_mut().zip(&taps[first..]).for_each(|(o, &tap)| *o = w.data[at + tap]);
                (rest, channel, first) = (behind, channel + 1, 0);
            }
        }
        T::lay_left(self.form, &row_major(numbers.as_slice(), depth), x.rows, depth, out, 0, depth);
    }

    fn run(&self, out: &Scattered<'_, T>) {
        let (x, counts) = (self.x, self.sweeps.map(|s| s.count));
        let most = (TILE / x.rows.max(x.channels)).max(FEWEST);
        let work = |places: usize| places.saturating_mul(x.rows).saturating_mul(self.inner);
        let mut places = most;
        let mut tiles = ConvTiles::new(x.items, counts, places);
        while num_threads() > 1
            && tiles.len() * x.groups < 4 * num_threads()
            && places > FEWEST
            && work(places) > 2 * TASK
        {
            places /= 2;
            tiles = ConvTiles::new(x.items, counts, places);
        }
        let grain = (TASK / work(places.min(counts[0] * counts[1] * x.items))).max(1);
        split_work(tiles.len() * x.groups, grain, (), &|(), _| ((), ()), &|start, len, ()| {
            // A group after another, so that its part of the kernel stays in the cache.
            let get = |task: usize| (task / tiles.len(), tiles.get(task % tiles.len()));
            for task in start..start + len {
                let next = (task + 1 < x.groups * tiles.len()).then(|| get(task + 1));
                let (group, tile) = get(task);
                self.tile(group, &tile, next, out);
            }
        });
    }

    /// The results of one group in a tile.
    fn tile(&self, group: usize, tile: &ConvTile, next: Option<(usize, ConvTile)>, out: &Scattered<'_, T>) {
        let (x, form) = (self.x, self.form);
        let window = Window::new(&self.lanes, tile.from, tile.count);
        let plane = spaced::<T>(window.len());
        let sources = self.gather(group, tile, &window, plane);
        let strips = Strips::new(form, tile, &window, x.channels * plane, x.rows);
        let stride = strips.count() * form.span;
        let places: Vec<usize> =
            (0..x.channels).flat_map(|c| window.taps().map(move |tap| c * plane + tap)).collect();
        let mut results: Room<T> = Room::new(x.rows * stride);
        let mut room: Room<T> = Room::new(self.depth * form.span + form.run);
        let steps = self.parts() * strips.count() * form.blocks(x.rows);
        let ahead = x.ahead(steps, (self.sweeps, &self.lanes), (group, tile), next, out);
        for part in 0..self.parts() {
            let from = part * self.depth;
            let depth = self.depth.min(self.inner - from);
            let left = &self.left.as_slice()[(group * self.parts() + part) * self.part()..][..self.part()];
            let lines = Places::new(&places[from..from + depth]);
            for s in 0..strips.count() {
                let strip = strips.lines(s, sources.as_slice(), lines, room.as_mut_slice());
                let to = Columns {
                    out: results.as_mut_slice(),
                    stride,
                    col: s * form.span,
                    add: part > 0,
                    ahead: Some(&ahead),
                };
                T::multiply_strip(form, left, strip, x.rows, depth, to);
            }
        }
        self.put(group, tile, results.as_slice(), &strips, out);
    }

    /// The sources of a tile: a window for each image and channel, `plane` elements from one to the next.
    fn gather(&self, group: usize, tile: &ConvTile, window: &Window<'_>, plane: usize) -> Room<T> {
        let x = self.x;
        // The last line of a strip may reach beyond its window.
        let mut sources: Room<T> = Room::new(tile.items * x.channels * plane + self.form.span);
        let size = self.sweeps[0].sources * self.sweeps[1].sources;
        for (i, out) in
            sources.as_mut_slice().chunks_exact_mut(plane).take(tile.items * x.channels).enumerate()
        {
            let (item, channel) = (tile.item + i / x.channels, i % x.channels);
            let at = (item * x.groups + group) * x.channels + channel;
            window.fill(&x.source[at * size..][..size], 0, &mut out[..window.len()]);
        }
        sources
    }

    /// Writes the results of a tile to their places.
    fn put(&self, group: usize, tile: &ConvTile, results: &[T], strips: &Strips, out: &Scattered<'_, T>) {
        let x = self.x;
        let [down, across] = self.sweeps;
        let [rows, cols] = tile.count;
        for (row, line) in results.chunks_exact(strips.count() * self.form.span).enumerate() {
            let channel = group * x.rows + row;
            let bias = x.bias.map(|b| b[channel]);
            for i in 0..tile.items * rows {
                let values = &line[i / rows * strips.image + i % rows * strips.pitch..][..cols];
                let plane = (tile.item + i / rows) * x.groups * x.rows + channel;
                let at =
                    (plane * x.sizes[0] + down.first + (tile.from[0] + i % rows) * down.step) * x.sizes[1];
                let first = at + across.first + tile.from[1] * across.step;
                // SAFETY: every image, channel, sweep and place belongs to one tile of one group, and sweeps of one axis
                // have other rows; along the other axis they are computed one after another.
                let to = unsafe { out.part(first, (cols - 1) * across.step + 1) };
                place(values, bias, across.step, to);
            }
        }
    }
}

/// Writes values with a step between them, plus a bias if there is one.
#[inline]
pub(super) fn place<T: Convolved>(values: &[T], bias: Option<T>, step: usize, to: &mut [T]) {
    match (bias, step) {
        (None, 1) => copy_run(values, to),
        (Some(b), 1) => to.iter_mut().zip(values).for_each(|(o, &v)| *o = v + b),
        (None, _) => to.iter_mut().step_by(step).zip(values).for_each(|(o, &v)| *o = v),
        (Some(b), _) => to.iter_mut().step_by(step).zip(values).for_each(|(o, &v)| *o = v + b),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConvAxis;
    use super::*;

    /// Of a row a million elements long a task asks for its own part, in each channel.
    #[test]
    fn no_more_is_asked_for_than_a_task_touches() {
        let axis =
            |input, output, kernel| ConvAxis { input, output, kernel, stride: 1, dilation: 1, before: 1 };
        for (rows, channels, sizes) in [(8, 4, [1, 1_000_000]), (3, 2, [40, 5000]), (16, 4, [300, 200])] {
            let [high, wide] = sizes;
            let kernel = if high == 1 { 1 } else { 3 };
            let down = ConvAxis { before: kernel / 2, ..axis(high, high, kernel) }.forward();
            let across = axis(wide, wide, 3).forward();
            let (source, weight) =
                (vec![0f32; channels * high * wide], vec![0f32; rows * channels * kernel * 3]);
            let step = kernel * 3;
            let weight = Kernel {
                data: &weight,
                group_step: 0,
                row_step: channels * step,
                channel_step: step,
                sizes: [kernel, 3],
            };
            let mut out = vec![0f32; rows * high * wide];
            let x = SlideProduct {
                items: 1,
                groups: 1,
                rows,
                channels,
                source: &source,
                weight,
                bias: None,
                sizes,
                sweeps: [vec![down.clone()], vec![across.clone()]],
            };
            let (sweeps, out) = ([&down, &across], Scattered::new(&mut out));
            let (lanes, tiles) = (sweeps.map(Lanes::new), ConvTiles::new(1, sizes, 2000));
            let all = (0..tiles.len()).map(|i| (0, tiles.get(i)));
            for (here, next) in all.clone().zip(all.skip(1)) {
                let asked = x.ahead(1, (sweeps, &lanes), (0, &here.1), Some(next), &out).lines();
                let lines = |[h, w]: [usize; 2]| h * (w / 16 + 2);
                let most = rows * lines(here.1.count) + channels * lines(next.1.count.map(|n| n + 2));
                assert!(asked > 0 && asked <= most, "{asked} of {most}");
            }
        }
    }
}
