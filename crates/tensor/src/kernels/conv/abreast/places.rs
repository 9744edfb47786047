//! Small convolutions of many channels, of many images: for each place a product of its own, of as many images as a strip is wide and with
//! the taps that meet sources there alone. No window is gathered, no strip laid out, and no padding multiplied: 32 images of 7 by 7, 64
//! channels, 3 by 3, take 0.64 of the time of windows, gradients of inputs without padding, 5 by 5 of 12 by 12, a third.

use std::ops::Range;

use super::super::Convolved;
use super::super::few::FEW;
use super::super::product::SlideProduct;
use super::super::spaced;
use super::super::sweep::Sweep;
use super::{TASK, TERMS, transpose};
use crate::buffer::Room;
use crate::kernels::Scattered;
use crate::kernels::lay_out::copy_run;
use crate::kernels::matmul::{Columns, Form, Lines, Places, row_major};
use crate::threads::{num_threads, split_work};

/// Bytes of a block's sources, at most, and of the results of a part of it.
const SOURCES: usize = 1 << 20;
const RESULTS: usize = 1 << 18;

/// Source channels that are worth a product, at least.
const CHANNELS: usize = 8;

/// How many times as much there may be to multiply, lanes without an image among it.
const MORE: f64 = 1.01;

/// Whether images are so many, and so small, that places are computed apart. Padding times what is no number is no number, which only
/// windows know.
pub(in super::super) fn pays_by_places<T: Convolved>(x: &SlideProduct<'_, T>) -> bool {
    let [[down], [across]] = x.sweeps.each_ref().map(Vec::as_slice) else { return false };
    let lanes = T::form(x.rows).span;
    let sources = down.sources * across.sources;
    let bytes = x.channels.saturating_mul(sources).saturating_mul(lanes * size_of::<T>());
    let all = |s: &Sweep| s.count.saturating_mul(s.taps.len());
    let is_small = bytes <= SOURCES && all(down).max(all(across)) <= TERMS;
    if x.rows <= FEW || x.channels < CHANNELS || x.items < lanes || down.step * across.step > 1 || !is_small {
        return false;
    }
    let met = |s: &Sweep| (0..s.count).map(|i| met(s, i).len()).sum::<usize>();
    let padded = x.items.next_multiple_of(lanes);
    let [met, all] = [met(down) * met(across), all(down) * all(across)];
    let is_finite = |v: &T| !(*v * T::default()).is_nan_();
    ((padded * met) as f64) < MORE * (x.items * all) as f64 && x.weight.data.iter().all(is_finite)
}

/// The taps that meet a source for the result of that number: neighbours, as their sources lie in order.
fn met(s: &Sweep, result: usize) -> Range<usize> {
    let meets = |tap: usize| s.source(tap, result).is_some();
    let first = (0..s.taps.len()).find(|&tap| meets(tap)).unwrap_or(0);
    first..(first..s.taps.len()).find(|&tap| !meets(tap)).unwrap_or(s.taps.len())
}

/// From the lines of a channel's sources to those of the next: not a power of two, so that a place of all of them is not in the same few
/// lines of the cache.
fn plane<T>([down, across]: [&Sweep; 2], form: Form) -> usize {
    spaced::<T>(down.sources * across.sources * form.span)
}

/// Computes all results: `[items, groups, rows, ..]`.
pub(in super::super) fn slide_by_places<T: Convolved>(x: &SlideProduct<'_, T>, out: &mut [T]) {
    let [[down], [across]] = x.sweeps.each_ref().map(Vec::as_slice) else {
        unreachable!("there is one pair of sweeps, as was asked")
    };
    PlaceProducts::new(x, [down, across]).run(&Scattered::new(out));
}

struct PlaceProducts<'a, T> {
    x: &'a SlideProduct<'a, T>,
    sweeps: [&'a Sweep; 2],
    form: Form,
    /// The taps across that meet sources in each column of results, and where the lines of their sources lie, tap by tap and then channel
    /// by channel.
    columns: Vec<(Range<usize>, Vec<usize>)>,
    /// the kernel's numbers for each group and tap down, laid out: `[rows, taps across, channels]`
    left: Room<T>,
}

impl<'a, T: Convolved> PlaceProducts<'a, T> {
    fn new(x: &'a SlideProduct<'a, T>, sweeps: [&'a Sweep; 2]) -> PlaceProducts<'a, T> {
        let (form, across) = (T::form(x.rows), sweeps[1]);
        let plane = plane::<T>(sweeps, form);
        let column = |result: usize| {
            let taps = met(across, result);
            let source = |tap: usize| across.source(tap, result).expect("it is met");
            let lines = taps
                .clone()
                .flat_map(|tap| (0..x.channels).map(move |c| c * plane + source(tap) * form.span));
            (taps, lines.collect())
        };
        let columns = (0..across.count).map(column).collect();
        let mut products = PlaceProducts { x, sweeps, form, columns, left: Room::new(0) };
        products.left = products.lay_kernel();
        products
    }

    /// Inner positions of a tap down.
    fn depth(&self) -> usize {
        self.sweeps[1].taps.len() * self.x.channels
    }

    fn lay_kernel(&self) -> Room<T> {
        let (x, w, depth, [down, across]) = (self.x, &self.x.weight, self.depth(), self.sweeps);
        let each = self.form.room(x.rows, depth);
        let mut left: Room<T> = Room::new(x.groups * down.taps.len() * each);
        split_work(
            x.groups * down.taps.len(),
            (TASK / each).max(1),
            left.as_mut_slice(),
            &|o: &mut [T], at| o.split_at_mut(at * each),
            &|start, _, out| {
                let mut numbers: Room<T> = Room::new(x.rows * depth);
                for (i, out) in out.chunks_exact_mut(each).enumerate() {
                    let (group, y) = ((start + i) / down.taps.len(), (start + i) % down.taps.len());
                    for (row, line) in numbers.as_mut_slice().chunks_exact_mut(depth).enumerate() {
                        let at = group * w.group_step + row * w.row_step + down.taps[y].number * w.sizes[1];
                        for (tap, line) in across.taps.iter().zip(line.chunks_exact_mut(x.channels)) {
                            let numbers = w.data[at + tap.number..].iter().step_by(w.channel_step);
                            line.iter_mut().zip(numbers).for_each(|(o, &v)| *o = v);
                        }
                    }
                    T::lay_left(
                        self.form,
                        &row_major(numbers.as_slice(), depth),
                        x.rows,
                        depth,
                        out,
                        0,
                        depth,
                    );
                }
            },
        );
        left
    }

    fn run(&self, out: &Scattered<'_, T>) {
        let (x, [down, across]) = (self.x, self.sweeps);
        let blocks = x.items.div_ceil(self.form.span) * x.groups;
        // Each part of a block lays its sources out for itself.
        let wanted = if num_threads() == 1 { 1 } else { (2 * num_threads()).div_ceil(blocks) };
        let results = x.rows * down.count * across.count * self.form.span * size_of::<T>();
        let parts = wanted.max(results.div_ceil(RESULTS)).min(down.count);
        split_work(blocks * parts, 1, (), &|(), _| ((), ()), &|start, len, ()| {
            let mut lines: Room<T> = Room::new(x.channels * plane::<T>(self.sweeps, self.form));
            let mut laid = None;
            for task in start..start + len {
                let (block, part) = (task / parts, task % parts);
                if laid != Some(block) {
                    self.lay_sources(block, lines.as_mut_slice());
                    laid = Some(block);
                }
                self.rows(
                    block,
                    part * down.count / parts..(part + 1) * down.count / parts,
                    lines.as_slice(),
                    out,
                );
            }
        });
    }

    /// The group, the first image and how many images a block has.
    fn images(&self, block: usize) -> (usize, usize, usize) {
        let (group, first) = (block % self.x.groups, block / self.x.groups * self.form.span);
        (group, first, self.form.span.min(self.x.items - first))
    }

    fn lay_sources(&self, block: usize, lines: &mut [T]) {
        let (x, span) = (self.x, self.form.span);
        let (group, first, count) = self.images(block);
        let size = self.sweeps[0].sources * self.sweeps[1].sources;
        for (channel, lines) in lines.chunks_exact_mut(plane::<T>(self.sweeps, self.form)).enumerate() {
            let planes = &x.source[((first * x.groups + group) * x.channels + channel) * size..];
            transpose(planes, x.groups * x.channels * size, [size, count], lines, span);
        }
    }

    /// Some rows of a block's results.
    fn rows(&self, block: usize, range: Range<usize>, lines: &[T], out: &Scattered<'_, T>) {
        let (x, span, cols) = (self.x, self.form.span, self.columns.len());
        let (group, first, count) = self.images(block);
        let places = range.len() * cols;
        let stride = spaced::<T>(places * span);
        let mut results: Room<T> = Room::new(x.rows * stride);
        let results = results.as_mut_slice();
        let columns: Vec<(Range<usize>, Places<'_>)> =
            self.columns.iter().map(|(taps, lines)| (taps.clone(), Places::new(lines))).collect();
        for (i, row) in range.clone().enumerate() {
            let down = met(self.sweeps[0], row);
            for (j, (across, sources)) in columns.iter().enumerate() {
                let taps = [down.clone(), across.clone()];
                self.place(group, row, (taps, *sources), lines, results, (i * cols + j, stride));
            }
        }
        let mut planes: Room<T> = Room::new(count * places);
        let [height, width] = x.sizes;
        for (row, results) in results.chunks_exact_mut(stride).enumerate() {
            let channel = group * x.rows + row;
            if let Some(bias) = x.bias {
                results.iter_mut().for_each(|v| *v = *v + bias[channel]);
            }
            transpose(results, span, [count, places], planes.as_mut_slice(), places);
            for (i, plane) in planes.as_slice().chunks_exact(places).enumerate() {
                let at = ((first + i) * x.groups * x.rows + channel) * height * width + range.start * width;
                // SAFETY: each row of each plane belongs to one part of one block.
                copy_run(plane, unsafe { out.part(at, places) });
            }
        }
    }

    /// The results of a block at one place.
    fn place(
        &self,
        group: usize,
        row: usize,
        ([rows, taps], sources): ([Range<usize>; 2], Places<'_>),
        lines: &[T],
        results: &mut [T],
        (place, stride): (usize, usize),
    ) {
        let (x, form, [down, across]) = (self.x, self.form, self.sweeps);
        let (depth, all) = (taps.len() * x.channels, self.depth());
        let (part, apart) = (form.room(x.rows, all), form.room(1, all));
        if rows.is_empty() || taps.is_empty() {
            for line in results[place * form.span..].chunks_mut(stride) {
                line[..form.span].fill(T::default());
            }
            return;
        }
        for (number, y) in rows.enumerate() {
            let source = down.source(y, row).expect("it is met") * across.sources * form.span;
            let left = &self.left.as_slice()[(group * down.taps.len() + y) * part..][..part];
            for (block, first) in (0..x.rows).step_by(form.height()).enumerate() {
                let to = Columns {
                    out: &mut results[first * stride..],
                    stride,
                    col: place * form.span,
                    add: number > 0,
                    ahead: None,
                };
                let left = &left[block * apart + taps.start * x.channels * form.height()..];
                let live = form.height().min(x.rows - first);
                T::multiply_strip(form, left, Lines::Placed(&lines[source..], sources), live, depth, to);
            }
        }
    }
}
