//! Small convolutions of few channels, of many images or groups: as many of them side by side as a vector has numbers, so that no tap
//! that meets padding is summed, and no window gathered.

use super::Convolved;
use super::few::{FEW, add_products};
use super::product::SlideProduct;
use super::sweep::{Sweep, Tap};
use crate::buffer::Room;
use crate::kernels::Ahead;
use crate::kernels::doors::door;
use crate::kernels::each;
use crate::kernels::lane::Float;
use crate::kernels::level::{Level, level};
use crate::kernels::transpose::{EIGHT, transpose_columns};
use crate::threads::split_work;

/// Bytes of a line: an element of each image and group of a block.
const LINE: usize = 64;

/// Bytes of a block's sources and results, at most. Depthwise convolutions, 3 by 3, of 28 by 28 take 0.75 of the time of windows, of 40 by
/// 40 0.85, of 56 by 56 as long or longer.
const BLOCK: usize = 1 << 18;

/// The same where windows are copied element by element: with a stride of 2, 56 by 56 take half the time, 90 by 90 0.67.
const STRIDED_BLOCK: usize = 1 << 19;

/// Terms of all results of a plane, at most: where their sources lie is written down for each.
const TERMS: usize = 1 << 17;

/// Blocks for which what is laid out for all of them pays, at least.
const BLOCKS: usize = 4;

/// Places that are summed together: so many sums are in flight.
const PLACES: usize = 4;

/// Multiplications of a task, at least.
const TASK: usize = 1 << 18;

/// Whether images and groups are so many, and so small, that they are computed side by side.
pub(super) fn pays<T: Convolved>(x: &SlideProduct<'_, T>) -> bool {
    let lanes = LINE / size_of::<T>();
    let lines = x.channels.saturating_mul(sources(x) + 1).saturating_add(x.rows * x.sizes[0] * x.sizes[1]);
    let is_strided = x.sweeps.iter().flatten().any(|s| s.stride * s.step > 1);
    let most = if is_strided { STRIDED_BLOCK } else { BLOCK } / LINE;
    let of_axis =
        |sweeps: &Vec<Sweep>| sweeps.iter().map(|s| s.count.saturating_mul(s.taps.len())).sum::<usize>();
    let terms = of_axis(&x.sweeps[0]).saturating_mul(of_axis(&x.sweeps[1]));
    x.rows <= FEW && lines <= most && (1..=TERMS).contains(&terms) && x.items * x.groups >= BLOCKS * lanes
}

/// Computes all results: `[items, groups, rows, ..]`.
pub(super) fn slide<T: Convolved>(x: &SlideProduct<'_, T>, out: &mut [T]) {
    match LINE / size_of::<T>() {
        16 => SlideBlocks::<T, 16>::new(x).run(out),
        _ => SlideBlocks::<T, 8>::new(x).run(out),
    }
}

/// The elements of a source plane.
fn sources<T>(x: &SlideProduct<'_, T>) -> usize {
    x.sweeps.each_ref().map(|s| s.first().map_or(0, |s| s.sources)).iter().product()
}

/// Convolutions in blocks of `L` images and groups: a *line* holds the elements of all of them at one place.
struct SlideBlocks<'a, T, const L: usize> {
    x: &'a SlideProduct<'a, T>,
    /// elements of a source plane and of one of results
    sources: usize,
    places: usize,
    parts: Vec<TapTable>,
    /// A row for each part, result channel, source channel and tap, with a number for each group: those of a block lie side by side, as
    /// those of the first groups stand behind the last one, too.
    weights: Room<T>,
    bias: Option<Room<T>>,
    /// channels of results that are summed together: with vectors of 64 bytes, reading each of them once for both takes 0.75 of the time
    together: usize,
}

/// Results that meet the same taps.
struct TapTable {
    /// the numbers of the taps
    taps: Vec<usize>,
    /// where the results lie in their plane
    to: Vec<usize>,
    /// For every few results, for each tap, where the sources lie in their plane that they meet, or the line of zeros behind it.
    from: Vec<[u32; PLACES]>,
}

impl TapTable {
    fn new([down, across]: [&Sweep; 2], kernel: usize, width: usize) -> TapTable {
        let places = (0..down.count).flat_map(|i| (0..across.count).map(move |j| (i, j)));
        let at = |i: usize, j: usize| (down.first + i * down.step) * width + across.first + j * across.step;
        let zeros = down.sources * across.sources;
        let met = |(y, x): (&Tap, &Tap), (i, j): (usize, usize)| {
            let place = |s: &Sweep, tap: &Tap, i: usize| {
                usize::try_from(tap.place + (i * s.stride) as isize).ok().filter(|&p| p < s.sources)
            };
            let place = place(down, y, i).zip(place(across, x, j));
            place.map_or(zeros, |(y, x)| y * across.sources + x) as u32
        };
        let taps = down.taps.iter().flat_map(|y| across.taps.iter().map(move |x| (y, x)));
        let places: Vec<(usize, usize)> = places.collect();
        let mut from = Vec::with_capacity(taps.clone().count() * places.len().div_ceil(PLACES));
        for few in places.chunks(PLACES) {
            from.extend(
                taps.clone()
                    .map(|tap| each(zeros as u32, |i| few.get(i).map_or(zeros as u32, |&at| met(tap, at)))),
            );
        }
        let to = places.iter().map(|&(i, j)| at(i, j)).collect();
        TapTable { taps: taps.map(|(y, x)| y.number * kernel + x.number).collect(), to, from }
    }
}

impl<'a, T: Convolved, const L: usize> SlideBlocks<'a, T, L> {
    fn new(x: &'a SlideProduct<'a, T>) -> SlideBlocks<'a, T, L> {
        let [down, across] = &x.sweeps;
        let pairs = down.iter().flat_map(|y| across.iter().map(move |x| [y, x]));
        let parts: Vec<TapTable> =
            pairs.map(|pair| TapTable::new(pair, x.weight.sizes[1], x.sizes[1])).collect();
        let (w, around) = (&x.weight, x.groups + L - 1);
        let each = x.rows * x.channels;
        let lines: usize = parts.iter().map(|part| part.taps.len() * each).sum();
        let mut weights: Room<T> = Room::new(lines * around);
        let mut rest = weights.as_mut_slice().chunks_exact_mut(around);
        for part in &parts {
            for i in 0..each {
                let at = i / x.channels * w.row_step + i % x.channels * w.channel_step;
                for (tap, line) in part.taps.iter().zip(&mut rest) {
                    wrap(line, x.groups, |group| w.data[group * w.group_step + at + tap]);
                }
            }
        }
        let bias = x.bias.map(|bias| {
            let mut lines: Room<T> = Room::new(x.rows * around);
            for (row, line) in lines.as_mut_slice().chunks_exact_mut(around).enumerate() {
                wrap(line, x.groups, |group| bias[group * x.rows + row]);
            }
            lines
        });
        let together = if level() == Level::Avx512 { 2 } else { 1 };
        SlideBlocks {
            x,
            sources: sources(x),
            places: x.sizes[0] * x.sizes[1],
            parts,
            weights,
            bias,
            together,
        }
    }

    fn run(&self, out: &mut [T]) {
        let x = self.x;
        let each = L * x.rows * self.places;
        let terms: usize = self.parts.iter().map(|part| part.from.len() * PLACES).sum();
        let work = (terms * x.channels * x.rows * L).max(1);
        let asks = Ahead::pays(size_of_val(x.source).saturating_add(size_of_val(out)));
        split_work(
            (x.items * x.groups).div_ceil(L),
            (TASK / work).max(1),
            out,
            &|o: &mut [T], at| o.split_at_mut(at * each),
            &|start, _, out| {
                let mut lines: Room<T> = Room::new(x.channels * (self.sources + 1) * L);
                let mut results: Room<T> = Room::new(x.rows * self.places * L);
                let lines = lines.as_mut_slice().as_chunks_mut().0;
                let behind = lines.iter_mut().skip(self.sources).step_by(self.sources + 1);
                behind.for_each(|zeros| *zeros = [T::default(); L]);
                for (i, out) in out.chunks_mut(each).enumerate() {
                    let ahead = if asks { self.ahead(start + i, out) } else { Ahead::new(0) };
                    self.block(start + i, lines, results.as_mut_slice().as_chunks_mut().0, out, &ahead);
                }
            },
        );
    }

    /// What a block writes, and what the next one reads.
    fn ahead(&self, number: usize, out: &[T]) -> Ahead {
        let each = L * self.x.channels * self.sources;
        let few: usize = self.parts.iter().map(|part| part.to.len().div_ceil(PLACES)).sum();
        let mut ahead = Ahead::new(few * self.x.rows.div_ceil(self.together));
        ahead.add(out.as_ptr(), out.len());
        let next = self.x.source.get((number + 1) * each..).unwrap_or(&[]);
        ahead.add(next.as_ptr(), next.len().min(each));
        ahead
    }

    /// Computes a block, whose planes lie one behind the other.
    fn block(
        &self,
        number: usize,
        lines: &mut [[T; L]],
        results: &mut [[T; L]],
        out: &mut [T],
        ahead: &Ahead,
    ) {
        let (rows, places) = (self.x.rows, self.places);
        let count = out.len() / (rows * places);
        self.gather(number * L, count, lines);
        let group = number * L % self.x.groups;
        for (i, results) in results.chunks_mut(self.together * places).enumerate() {
            let sum = if results.len() > places { Self::sum::<2> } else { Self::sum::<1> };
            sum(self, i * self.together, group, lines, results, ahead);
        }
        for (row, results) in results.chunks_exact(places).enumerate() {
            let (planes, results) = (&mut out[row * places..], results.as_flattened());
            transpose(results, L, [count, places], planes, rows * places);
        }
    }

    /// Lays out the planes of so many images and groups, from the one with that number on.
    fn gather(&self, first: usize, count: usize, lines: &mut [[T; L]]) {
        let (channels, size) = (self.x.channels, self.sources);
        for (channel, lines) in lines.chunks_exact_mut(size + 1).enumerate() {
            let planes = &self.x.source[(first * channels + channel) * size..];
            transpose(planes, channels * size, [size, count], lines.as_flattened_mut(), L);
        }
    }

    /// The results of `R` channels of a block that begins with that group.
    fn sum<const R: usize>(
        &self,
        row: usize,
        group: usize,
        lines: &[[T; L]],
        results: &mut [[T; L]],
        ahead: &Ahead,
    ) {
        let (channels, around) = (self.x.channels, self.x.groups + L - 1);
        let at = |line: usize| line * around + group;
        let (all, bias) = (self.weights.as_slice(), self.bias.as_ref().map(Room::as_slice));
        let bias = bias.map(|bias| std::array::from_fn(|r| line_at(bias, at(row + r))));
        let (mut weights, mut first): (Vec<[&[T; L]; R]>, usize) = (Vec::new(), 0);
        for part in &self.parts {
            let each = channels * part.taps.len();
            let number = |i: usize, r: usize| first + (row + r) * each + i;
            weights.clear();
            weights.extend((0..each).map(|i| std::array::from_fn(|r| line_at(all, at(number(i, r))))));
            first += self.x.rows * each;
            sum_places::<T, R, L>(results, part, (lines, self.sources + 1), &weights, bias, ahead);
        }
    }
}

fn line_at<T, const L: usize>(x: &[T], at: usize) -> &[T; L] {
    x[at..].first_chunk().expect("behind the numbers of the last group there are those of the first ones")
}

/// Numbers of so many groups, and of the first ones again.
fn wrap<T: Copy>(line: &mut [T], groups: usize, number: impl Fn(usize) -> T) {
    let (own, again) = line.split_at_mut(groups);
    own.iter_mut().enumerate().for_each(|(group, o)| *o = number(group));
    again.chunks_mut(groups).for_each(|o| o.copy_from_slice(&own[..o.len()]));
}

/// Columns of `size` elements that are `step` apart as rows that are `stride` apart.
fn transpose<T: Convolved>(src: &[T], step: usize, [size, count]: [usize; 2], out: &mut [T], stride: usize) {
    if size.min(count) >= EIGHT && transpose_columns(src, step, [size, count], out, stride) {
        return;
    }
    for i in 0..count {
        let column = &src[i * step..][..size];
        out[i..].iter_mut().step_by(stride).zip(column).for_each(|(o, &v)| *o = v);
    }
}

door! {
    /// The sums of a part for `R` channels, with a weight for each source channel and tap. The lines of a channel are so many.
    fn sum_places[T: Float, const R: usize, const L: usize][T, R, L](out: &mut [[T; L]], part: &TapTable, lines: (&[[T; L]], usize), weights: &[[&[T; L]; R]], bias: Option<[&[T; L]; R]>, ahead: &Ahead);
    body sum_places_body
}
#[inline(always)]
fn sum_places_body<const FMA: bool, T: Float, const R: usize, const L: usize>(
    out: &mut [[T; L]],
    part: &TapTable,
    (lines, plane): (&[[T; L]], usize),
    weights: &[[&[T; L]; R]],
    bias: Option<[&[T; L]; R]>,
    ahead: &Ahead,
) {
    let (taps, rows) = (part.taps.len(), out.len() / R);
    for (few, to) in part.to.chunks(PLACES).enumerate() {
        ahead.step();
        let from = &part.from[few * taps..][..taps];
        // Named one by one: sums in arrays of arrays lie in memory.
        let [mut sum_a, mut sum_b, mut sum_c, mut sum_d] = [[T::of(0.0); L]; PLACES];
        let [mut next_a, mut next_b, mut next_c, mut next_d] = [[T::of(0.0); L]; PLACES];
        for (channel, lines) in lines.chunks_exact(plane).enumerate() {
            for (from, weights) in from.iter().zip(&weights[channel * taps..]) {
                let [a, b, c, d] = *from;
                let [a, b, c, d] =
                    [&lines[a as usize], &lines[b as usize], &lines[c as usize], &lines[d as usize]];
                add_products::<FMA, T, L>(&mut sum_a, a, weights[0]);
                add_products::<FMA, T, L>(&mut sum_b, b, weights[0]);
                add_products::<FMA, T, L>(&mut sum_c, c, weights[0]);
                add_products::<FMA, T, L>(&mut sum_d, d, weights[0]);
                if R == 2 {
                    add_products::<FMA, T, L>(&mut next_a, a, weights[1]);
                    add_products::<FMA, T, L>(&mut next_b, b, weights[1]);
                    add_products::<FMA, T, L>(&mut next_c, c, weights[1]);
                    add_products::<FMA, T, L>(&mut next_d, d, weights[1]);
                }
            }
        }
        if let Some(bias) = bias {
            [&mut sum_a, &mut sum_b, &mut sum_c, &mut sum_d].into_iter().for_each(|sum| add(sum, bias[0]));
            if R == 2 {
                [&mut next_a, &mut next_b, &mut next_c, &mut next_d]
                    .into_iter()
                    .for_each(|sum| add(sum, bias[1]));
            }
        }
        let sums = [[sum_a, sum_b, sum_c, sum_d], [next_a, next_b, next_c, next_d]];
        for r in 0..R {
            for (&to, sum) in to.iter().zip(&sums[r]) {
                out[r * rows + to] = *sum;
            }
        }
    }
}

#[inline(always)]
fn add<T: Float, const L: usize>(sums: &mut [T; L], x: &[T; L]) {
    for l in 0..L {
        sums[l] = sums[l] + x[l];
    }
}

#[cfg(test)]
mod tests {
    use super::super::product::Kernel;
    use super::super::{ConvAxis, few};
    use super::*;
    use crate::kernels::Scattered;

    const AXIS: ConvAxis = ConvAxis { input: 5, output: 5, kernel: 3, stride: 1, dilation: 1, before: 1 };

    /// Settings of two axes, and images, groups, result channels and source channels.
    fn cases() -> Vec<([ConvAxis; 2], [usize; 4])> {
        let wide = ConvAxis { input: 6, kernel: 2, before: 2, dilation: 3, output: 7, ..AXIS };
        let strided = ConvAxis { stride: 2, output: 3, ..AXIS };
        let apart = ConvAxis { kernel: 1, stride: 3, before: 0, input: 7, output: 3, ..AXIS };
        vec![
            ([AXIS, AXIS], [13, 5, 1, 1]),
            ([AXIS, wide], [70, 1, 3, 2]),
            ([strided, wide], [3, 23, 4, 1]),
            ([strided, strided], [64, 1, 2, 3]),
            ([apart, strided], [9, 16, 1, 2]),
            ([apart, apart], [1, 101, 2, 1]),
            ([ConvAxis { input: 1, output: 1, ..AXIS }, AXIS], [90, 1, 1, 4]),
        ]
    }

    fn numbers<T: Convolved>(len: usize, seed: usize) -> Vec<T> {
        let number = |i: usize| match (i * 37 + seed) % 211 {
            7 => f64::INFINITY,
            11 => f64::NAN,
            n => (n as f64 - 105.0) / 7.0,
        };
        (0..len).map(|i| T::of(number(i))).collect()
    }

    fn agrees_with_windows<T: Convolved>(
        axes: [ConvAxis; 2],
        sizes: [usize; 4],
        back: bool,
        with_bias: bool,
    ) {
        let [items, groups, rows, channels] = sizes;
        let planes = [axes.map(|a| a.input), axes.map(|a| a.output)].map(|[h, w]| h * w);
        let kernel = axes.map(|a| a.kernel);
        let taps = kernel[0] * kernel[1];
        let weight = numbers(groups * rows * channels * taps, 3);
        let source = numbers(items * groups * channels * planes[usize::from(back)], 5);
        let bias = numbers(groups * rows, 40);
        let x = SlideProduct::<T> {
            items,
            groups,
            rows,
            channels,
            source: &source,
            weight: Kernel {
                data: &weight,
                group_step: rows * channels * taps,
                row_step: if back { taps } else { channels * taps },
                channel_step: if back { rows * taps } else { taps },
                sizes: kernel,
            },
            bias: with_bias.then_some(&bias),
            sizes: axes.map(|a| if back { a.input } else { a.output }),
            sweeps: axes.map(|a| if back { a.backward() } else { vec![a.forward()] }),
        };
        assert!(pays(&x), "{axes:?}");
        let mut want = vec![T::default(); items * groups * rows * planes[usize::from(!back)]];
        let mut found = want.clone();
        x.fill(&mut want);
        let scattered = Scattered::new(&mut want);
        x.pairs().for_each(|pair| few::slide(&x, pair, &scattered));
        slide(&x, &mut found);
        let same = |(a, b): (&T, &T)| a == b || a.is_nan_() && b.is_nan_();
        assert!(found.iter().zip(&want).all(same), "{axes:?} of {sizes:?}, back: {back}");
    }

    #[test]
    fn sums_have_the_bits_of_windows() {
        for (axes, sizes) in cases() {
            for (back, with_bias) in [(false, false), (false, true), (true, false), (true, true)] {
                agrees_with_windows::<f32>(axes, sizes, back, with_bias);
                agrees_with_windows::<f64>(axes, sizes, back, with_bias);
            }
        }
    }
}
