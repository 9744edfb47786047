//! The gradient of a convolution's kernel: the product of the results' gradients with the matrix of sources from its other
//! side.
//!
//! The inner index runs over the places of all images. A line of the right operand holds the sources that one place meets;
//! in windows whose channels are neighbours, those of a tap are a run. So the inner index of columns is (tap, channel) here.

use super::few::FEW;
use super::sweep::{Lanes, Sweep, Window};
use super::{ConvTile, ConvTiles, Convolved};
use crate::buffer::Room;
use crate::kernels::matmul::{Columns, DEPTH, Form, Lines, Places};
use crate::kernels::{Matrix, Scattered};
use crate::threads::{num_threads, split_work};

use super::strips::lay_out;

/// `out[group, row, channel, tap] = sum over items and places of gradient[item, group, row, place] * source[item, group,
/// channel, what the tap meets there]`
#[derive(Debug)]
pub(crate) struct WeightProduct<'a, T> {
    pub(crate) items: usize,
    pub(crate) groups: usize,
    pub(crate) rows: usize,
    pub(crate) channels: usize,
    pub(crate) gradient: &'a [T],
    pub(crate) source: &'a [T],
    pub(crate) sweeps: [Sweep; 2],
    /// the kernel's sizes
    pub(crate) kernel: [usize; 2],
}

/// Rows of a group up to which sources of few channels are summed as they lie: more rows pay for laying them out.
const FEW_ROWS: usize = 16;

/// Elements of a tile's sources, at most.
const TILE: usize = 1 << 16;

/// Multiplications per part that the places are cut into, and parts, at most.
const PART: usize = 1 << 22;
const MAX_PARTS: usize = 16;

/// Elements of all parts together, at most, unless one alone has more.
const ASIDE: usize = 1 << 22;

/// Computes `[groups, rows, channels, ..]`.
pub(crate) fn weight_gradient<T: Convolved>(x: &WeightProduct<'_, T>, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    let taps = x.sweeps[0].taps.len() * x.sweeps[1].taps.len();
    let places = x.items * x.sweeps[0].count * x.sweeps[1].count;
    if taps * places == 0 {
        return out.fill(T::default());
    }
    if x.channels > FEW || x.rows > FEW_ROWS {
        WeightSums::new(x, taps, places).run(out);
    } else if super::abreast::pays_for_weight(x) {
        super::abreast::weight_gradient(x, out);
    } else {
        super::few::weight_gradient(x, out);
    }
}

struct WeightSums<'a, T> {
    x: &'a WeightProduct<'a, T>,
    lanes: [Lanes; 2],
    /// columns of the product, and of their strips together
    inner: usize,
    stride: usize,
    tiles: ConvTiles,
    parts: usize,
    form: Form,
    /// channels that are neighbours: as many as a strip is wide, which then lies line after line in the windows, or all
    beside: usize,
}

impl<'a, T: Convolved> WeightSums<'a, T> {
    fn new(x: &'a WeightProduct<'a, T>, taps: usize, places: usize) -> WeightSums<'a, T> {
        let inner = taps * x.channels;
        let form = T::form(x.rows);
        let stride = inner.next_multiple_of(form.span);
        let counts = x.sweeps.each_ref().map(|s| s.count);
        let tiles = ConvTiles::new(x.items, counts, (TILE / x.channels).max(DEPTH));
        let all = x.groups * x.rows * stride;
        let work = x.rows.saturating_mul(inner).saturating_mul(places);
        let parts = (work / PART).min(MAX_PARTS / x.groups).min(ASIDE / all).min(tiles.len()).max(1);
        let lanes = x.sweeps.each_ref().map(Lanes::new);
        let beside = if x.channels.is_multiple_of(form.span) { form.span } else { x.channels };
        WeightSums { x, lanes, inner, stride, tiles, parts, form, beside }
    }

    fn run(&self, out: &mut [T]) {
        let x = self.x;
        let all = x.groups * x.rows * self.stride;
        let mut sums: Room<T> = Room::new(self.parts * all);
        let threads = num_threads();
        // Rows are cut where there are too few tasks otherwise: that costs each a window of its own.
        let wanted = if threads == 1 { 1 } else { (2 * threads).div_ceil(self.parts * x.groups) };
        let high = x.rows.div_ceil(wanted).next_multiple_of(24).min(x.rows);
        let cuts = x.rows.div_ceil(high);
        let shared = Scattered::new(sums.as_mut_slice());
        let tasks = self.parts * x.groups * cuts;
        let work =
            x.rows * self.inner / cuts * (x.items * self.tiles.sizes[0] * self.tiles.sizes[1] / self.parts);
        let grain = (PART / 4 / work.max(1)).max(1);
        split_work(tasks, grain, (), &|(), _| ((), ()), &|start, len, ()| {
            for task in start..start + len {
                let (part, rest) = (task / (x.groups * cuts), task % (x.groups * cuts));
                let (group, row) = (rest / cuts, rest % cuts * high);
                let rows = high.min(x.rows - row);
                let at = ((part * x.groups + group) * x.rows + row) * self.stride;
                // SAFETY: every part, group and row belongs to one task.
                let sums = unsafe { shared.part(at, rows * self.stride) };
                self.part(part, group, row, rows, sums);
            }
        });
        let width = x.channels * x.kernel[0] * x.kernel[1];
        let sums = sums.as_slice();
        let grain = (PART / 16 / (width * self.parts)).max(1);
        split_work(
            x.groups * x.rows,
            grain,
            out,
            &|o: &mut [T], at| o.split_at_mut(at * width),
            &|start, _, out| {
                for (i, line) in out.chunks_exact_mut(width).enumerate() {
                    let at = (start + i) * self.stride;
                    self.collect((0..self.parts).map(|p| &sums[p * all + at..][..self.inner]), line);
                }
            },
        );
    }

    /// Adds up a row of all parts, in order, and brings it into the kernel's.
    fn collect<'s>(&self, parts: impl Iterator<Item = &'s [T]>, line: &mut [T])
    where
        T: 's,
    {
        let (x, taps) = (self.x, self.x.kernel[0] * self.x.kernel[1]);
        line.fill(T::default());
        let [down, across] = self.x.sweeps.each_ref().map(|s| &s.taps);
        for part in parts {
            let mut sums = part.chunks_exact(x.channels);
            for y in down {
                for x in across {
                    let tap = y.number * self.x.kernel[1] + x.number;
                    let sums = sums.next().expect("each tap has its columns");
                    let places = line[tap..].iter_mut().step_by(taps);
                    places.zip(sums).for_each(|(o, &s)| *o = *o + s);
                }
            }
        }
    }

    /// The sum over one part of the tiles, for some rows of a group.
    fn part(&self, part: usize, group: usize, row: usize, rows: usize, sums: &mut [T]) {
        let count = self.tiles.len();
        let mut add = false;
        for tile in part * count / self.parts..(part + 1) * count / self.parts {
            self.tile(&self.tiles.get(tile), group, (row, rows), sums, &mut add);
        }
    }

    /// Adds the sum over a tile.
    fn tile(
        &self,
        tile: &ConvTile,
        group: usize,
        (row, rows): (usize, usize),
        sums: &mut [T],
        add: &mut bool,
    ) {
        let form = self.form;
        let window = Window::new(&self.lanes, tile.from, tile.count);
        let sources = self.gather(group, tile, &window);
        let places = self.places(tile, &window);
        let taps: Vec<usize> = window.taps().collect();
        let most = places.len().div_ceil(places.len().div_ceil(DEPTH));
        let mut left: Room<T> = Room::new(form.room(rows, most));
        let mut room: Room<T> = Room::new(most * form.span + form.run);
        let mut runs = Vec::new();
        for from in (0..places.len()).step_by(most) {
            let depth = most.min(places.len() - from);
            self.lay_gradient(tile, group, (row, rows), from..from + depth, left.as_mut_slice());
            let lines = Places::new(&places[from..from + depth]);
            for col in (0..self.stride).step_by(form.span) {
                self.runs_of(col, &taps, window.len(), &mut runs);
                let strip = if self.beside == form.span {
                    Lines::Placed(&sources.as_slice()[runs[0].1..], lines)
                } else {
                    lay_out(form, &runs, sources.as_slice(), lines, room.as_mut_slice());
                    Lines::Beside(room.as_slice())
                };
                let to = Columns { out: &mut *sums, stride: self.stride, col, add: *add, ahead: None };
                T::multiply_strip(form, left.as_slice(), strip, rows, depth, to);
            }
            *add = true;
        }
    }

    /// The runs of a strip that begins with this column: where they begin in the strip, and counted from a place's source.
    fn runs_of(&self, col: usize, taps: &[usize], plane: usize, runs: &mut Vec<(usize, usize)>) {
        let (channels, form) = (self.x.channels, self.form);
        let end = (col + form.span).min(self.inner);
        runs.clear();
        let mut at = col;
        while at < end {
            let (tap, channel) = (at / channels, at % channels);
            let len = (channels - channel).min(end - at);
            let from = (channel / self.beside * plane + taps[tap]) * self.beside + channel % self.beside;
            runs.extend((0..len).step_by(form.run).map(|i| (at - col + i, from + i)));
            at += len;
        }
    }

    /// Lays out the gradients of some places of a tile.
    fn lay_gradient(
        &self,
        tile: &ConvTile,
        group: usize,
        (row, rows): (usize, usize),
        places: std::ops::Range<usize>,
        out: &mut [T],
    ) {
        let (x, sizes) = (self.x, self.tiles.sizes);
        let plane = sizes[0] * sizes[1];
        // Neighbours in memory: the rows of an image, or a part of one.
        let beside = tile.count[0] * tile.count[1];
        let mut at = places.start;
        while at < places.end {
            let (item, place) = (at / beside, at % beside);
            let len = (beside - place).min(places.end - at);
            let first = ((tile.item + item) * x.groups + group) * x.rows + row;
            let start = first * plane + tile.from[0] * sizes[1] + tile.from[1] + place;
            let a = Matrix { data: x.gradient, start, row_step: plane as isize, col_step: 1 };
            T::lay_left(self.form, &a, rows, len, out, at - places.start, places.len());
            at += len;
        }
    }

    /// The sources of a tile: windows of images, in which `beside` channels of a place are neighbours.
    fn gather(&self, group: usize, tile: &ConvTile, window: &Window<'_>) -> Room<T> {
        let (x, plane) = (self.x, window.len());
        let size = x.sweeps[0].sources * x.sweeps[1].sources;
        let mut sources: Room<T> = Room::new(tile.items * x.channels * plane + self.form.run);
        let mut planes: Room<T> = Room::new(x.channels * plane);
        let each = x.channels * plane;
        for (i, out) in sources.as_mut_slice().chunks_exact_mut(each).take(tile.items).enumerate() {
            let planes = planes.as_mut_slice();
            for (channel, to) in planes.chunks_exact_mut(plane).enumerate() {
                let at = ((tile.item + i) * x.groups + group) * x.channels + channel;
                window.fill(&x.source[at * size..][..size], 0, to);
            }
            let blocks =
                planes.chunks_exact(plane * self.beside).zip(out.chunks_exact_mut(plane * self.beside));
            for (data, out) in blocks {
                let a = Matrix { data, start: 0, row_step: 1, col_step: plane as isize };
                T::lay_rows(&a, plane, self.beside, out);
            }
        }
        sources
    }

    /// Where the first source of each place lies in the windows of a tile.
    fn places(&self, tile: &ConvTile, window: &Window<'_>) -> Vec<usize> {
        let [rows, cols] = tile.count;
        let mut places = Vec::with_capacity(tile.places());
        for line in 0..tile.items * rows {
            let image = line / rows * window.len() * self.x.channels;
            let first = line % rows * window.pitch();
            places.extend((first..first + cols).map(|place| image + place * self.beside));
        }
        places
    }
}
