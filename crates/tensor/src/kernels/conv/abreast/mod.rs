//! Small convolutions of many images or groups: as many of them side by side as a vector has numbers, so that no window is gathered, and
//! nothing between its rows summed.
//!
//! Where channels are few, a *line* holds the elements of `L` images and groups, a *block*, at one place: a pair of an image and a group
//! has a lane, and a table says which line each tap meets (`slide.rs`, `weight.rs`). Where they are many, a line holds those of as many
//! images as a strip is wide, and each place is a product (`places.rs`).

mod places;
mod slide;
mod weight;

pub(super) use places::{pays_by_places, slide_by_places};
pub(super) use slide::slide;
pub(super) use weight::weight_gradient;

use super::Convolved;
use super::few::FEW;
use super::product::SlideProduct;
use super::sweep::Sweep;
use super::weight::WeightProduct;
use crate::buffer::Room;
use crate::kernels::each;
use crate::kernels::lane::Float;
use crate::kernels::level::{Level, level};
use crate::kernels::transpose::{EIGHT, transpose_columns};

/// Bytes of a line.
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

/// Places whose sources are read together.
const PLACES: usize = 4;

/// Multiplications of a task, at least.
const TASK: usize = 1 << 18;

/// Whether images and groups are so many, and so small, that they are computed side by side.
pub(super) fn pays<T: Convolved>(x: &SlideProduct<'_, T>) -> bool {
    let planes = [x.channels.saturating_mul(sources(&x.sweeps) + 1), x.rows * x.sizes[0] * x.sizes[1]];
    x.rows <= FEW && fits::<T>(x.items * x.groups, planes, x.sweeps.each_ref().map(Vec::as_slice))
}

/// The same for the gradient of the kernel.
pub(super) fn pays_for_weight<T: Convolved>(x: &WeightProduct<'_, T>) -> bool {
    let [down, across] = &x.sweeps;
    let planes = [x.channels * (down.sources * across.sources + 1), x.rows * (down.count * across.count + 1)];
    x.rows <= FEW && fits::<T>(x.items * x.groups, planes, x.sweeps.each_ref().map(std::slice::from_ref))
}

fn fits<T>(pairs: usize, planes: [usize; 2], sweeps: [&[Sweep]; 2]) -> bool {
    let is_strided = sweeps.iter().any(|s| s.iter().any(|s| s.stride * s.step > 1));
    let most = if is_strided { STRIDED_BLOCK } else { BLOCK } / LINE;
    let terms = sweeps.map(|s| s.iter().map(|s| s.count.saturating_mul(s.taps.len())).sum::<usize>());
    let terms = terms[0].saturating_mul(terms[1]);
    let lanes = LINE / size_of::<T>();
    planes[0].saturating_add(planes[1]) <= most && (1..=TERMS).contains(&terms) && pairs >= BLOCKS * lanes
}

/// Channels of results for which sources are read once: there are registers for the sums of two where they are 32 of 64 bytes, and reading
/// takes longer than multiplying. Convolutions of two channels take 0.75 of the time.
fn rows_together() -> usize {
    if level() == Level::Avx512 { 2 } else { 1 }
}

/// The elements of a source plane.
fn sources(sweeps: &[Vec<Sweep>; 2]) -> usize {
    sweeps.each_ref().map(|s| s.first().map_or(0, |s| s.sources)).iter().product()
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
        let met = |(y, x): (usize, usize), (i, j): (usize, usize)| {
            let place = down.source(y, i).zip(across.source(x, j));
            place.map_or(zeros, |(y, x)| y * across.sources + x) as u32
        };
        let taps = (0..down.taps.len()).flat_map(|y| (0..across.taps.len()).map(move |x| (y, x)));
        let places: Vec<(usize, usize)> = places.collect();
        let mut from = Vec::with_capacity(taps.clone().count() * places.len().div_ceil(PLACES));
        for few in places.chunks(PLACES) {
            from.extend(
                taps.clone()
                    .map(|tap| each(zeros as u32, |i| few.get(i).map_or(zeros as u32, |&at| met(tap, at)))),
            );
        }
        let to = places.iter().map(|&(i, j)| at(i, j)).collect();
        TapTable {
            taps: taps.map(|(y, x)| down.taps[y].number * kernel + across.taps[x].number).collect(),
            to,
            from,
        }
    }
}

/// Planes of all images and groups, some to each, which are laid out block by block.
struct LaidPlanes<'a, T, const L: usize> {
    data: &'a [T],
    /// of an image's group
    channels: usize,
    /// elements of a plane
    size: usize,
}

impl<'a, T: Convolved, const L: usize> LaidPlanes<'a, T, L> {
    /// Room for the planes of a block, with a line of zeros behind each.
    fn room(&self) -> Room<T> {
        let mut room: Room<T> = Room::new(self.channels * (self.size + 1) * L);
        let lines = room.as_mut_slice().as_chunks_mut().0;
        let behind = lines.iter_mut().skip(self.size).step_by(self.size + 1);
        behind.for_each(|zeros| *zeros = [T::default(); L]);
        room
    }

    /// Lays out the planes of so many images and groups, from the one with that number on; other lanes are left as they are.
    fn lay_out(&self, first: usize, count: usize, lines: &mut [[T; L]]) {
        let (channels, size) = (self.channels, self.size);
        for (channel, lines) in lines.chunks_exact_mut(size + 1).enumerate() {
            let planes = &self.data[(first * channels + channel) * size..];
            transpose(planes, channels * size, [size, count], lines.as_flattened_mut(), L);
        }
    }

    /// The elements that a block lays out.
    fn of_block(&self, number: usize) -> &'a [T] {
        let each = L * self.channels * self.size;
        let rest = self.data.get(number * each..).unwrap_or(&[]);
        &rest[..each.min(rest.len())]
    }
}

/// A line of numbers of as many groups, from that place on.
fn line_at<T, const L: usize>(x: &[T], at: usize) -> &[T; L] {
    x[at..].first_chunk().expect("behind the numbers of the last group there are those of the first ones")
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

    fn weight_agrees_with_windows<T: Convolved>(
        axes: [ConvAxis; 2],
        [items, groups, rows, channels]: [usize; 4],
    ) {
        // Whole numbers, so that sums are exact in any order.
        let whole = |len: usize, odd: f64| -> Vec<T> {
            let number = |i: usize| if i == len / 2 { odd } else { ((i * 37 + 5) % 13) as f64 - 6.0 };
            (0..len).map(|i| T::of(number(i))).collect()
        };
        let [inputs, outputs] = [axes.map(|a| a.input), axes.map(|a| a.output)].map(|[h, w]| h * w);
        let kernel = axes.map(|a| a.kernel);
        for (odd, other) in [(1.0, 2.0), (f64::INFINITY, 1.0), (0.0, f64::INFINITY), (1.0, f64::NAN)] {
            let source = whole(items * groups * channels * inputs, odd);
            let gradient = whole(items * groups * rows * outputs, other);
            let sweeps = axes.map(|a| a.forward());
            let x = WeightProduct {
                items,
                groups,
                rows,
                channels,
                gradient: &gradient,
                source: &source,
                sweeps,
                kernel,
            };
            assert!(pays_for_weight(&x), "{axes:?}");
            let mut found = vec![T::of(9.0); groups * rows * channels * kernel[0] * kernel[1]];
            let mut want = found.clone();
            weight_gradient(&x, &mut found);
            few::weight_gradient(&x, &mut want);
            let same = |(a, b): (&T, &T)| a == b || a.is_nan_() && b.is_nan_();
            assert!(found.iter().zip(&want).all(same), "{axes:?} of {items}, {groups}, {rows}, {channels}");
        }
    }

    #[test]
    fn gradients_of_kernels_are_those_of_windows() {
        for (axes, sizes) in cases() {
            weight_agrees_with_windows::<f32>(axes, sizes);
            weight_agrees_with_windows::<f64>(axes, sizes);
        }
    }
}
