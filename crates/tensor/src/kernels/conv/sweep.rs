//! Which sources meet in each result of a convolution, along one axis, and how they lie in a window.
//!
//! Note [Sweeps]
//! A result of a convolution meets one source per tap of the kernel; from a result to the next, all of them move by the
//! stride. Seen from the input, whose gradient is a sum over results, it is the same with a stride of 1, once for each
//! remainder modulo the stride: the inputs of one remainder meet the same taps. So one loop computes convolutions and their
//! transposes, one [`Sweep`] along each axis per remainder.
//!
//! A task copies the sources of its results into a *window*: with zeros around them, and apart by their remainder modulo
//! the stride, so that the sources of neighbouring results are neighbours. Taps that meet nothing but zeros are left out,
//! which bounds a window whatever padding and dilation are.

use smallvec::SmallVec;

use crate::kernels::lay_out::copy_run;

/// Which sources meet in each of some results, along one axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sweep {
    /// how many results
    pub(crate) count: usize,
    /// the place of the first one, and from one to the next
    pub(crate) first: usize,
    pub(crate) step: usize,
    /// the size of the axis of the sources, and from those of one result to those of the next
    pub(crate) sources: usize,
    pub(crate) stride: usize,
    /// the taps that meet a source: their numbers, and where their source for the first result lies
    pub(crate) taps: SmallVec<[Tap; 4]>,
}

/// A tap of the kernel along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tap {
    pub(crate) number: usize,
    /// of its source for the first result; it may lie before the sources or behind them
    pub(crate) place: isize,
}

/// Sizes and settings of a convolution along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConvAxis {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    /// zeros in front of the input
    pub(crate) before: usize,
}

impl ConvAxis {
    /// The place of a tap's source for the first output.
    fn place(&self, tap: usize) -> isize {
        (tap * self.dilation) as isize - self.before as isize
    }

    /// Outputs as sums over inputs.
    pub(crate) fn forward(&self) -> Sweep {
        let (count, stride) = (self.output, self.stride);
        let taps = (0..self.kernel).map(|number| Tap { number, place: self.place(number) });
        Sweep::new([count, 0, 1], [self.input, stride], taps)
    }

    /// Inputs as sums over outputs: of those with a remainder modulo the stride.
    fn back(&self, remainder: usize) -> Sweep {
        let stride = self.stride as isize;
        let far = |tap: usize| remainder as isize - self.place(tap);
        let meets = |tap: &usize| far(*tap).rem_euclid(stride) == 0;
        let taps =
            (0..self.kernel).filter(meets).map(|t| Tap { number: t, place: far(t).div_euclid(stride) });
        let count = (self.input - remainder).div_ceil(self.stride);
        Sweep::new([count, remainder, self.stride], [self.output, 1], taps)
    }

    /// Inputs as sums over outputs.
    pub(crate) fn backward(&self) -> Vec<Sweep> {
        (0..self.stride.min(self.input)).map(|remainder| self.back(remainder)).collect()
    }

    /// Whether inputs and outputs are the same.
    pub(crate) fn is_trivial(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.before == 0 && self.input == self.output
    }
}

impl Sweep {
    fn new(
        [count, first, step]: [usize; 3],
        [sources, stride]: [usize; 2],
        taps: impl Iterator<Item = Tap>,
    ) -> Sweep {
        let last = count.saturating_sub(1) * stride;
        let meets = |tap: &Tap| {
            // The first result at or behind the start of the sources, if there is one, and what it meets.
            let skipped = if tap.place < 0 { tap.place.unsigned_abs().div_ceil(stride) * stride } else { 0 };
            skipped <= last && tap.place + (skipped as isize) < sources as isize
        };
        Sweep { count, first, step, sources, stride, taps: taps.filter(meets).collect() }
    }

    /// The place of the source that a tap of these meets for the result of that number, if there is one.
    pub(super) fn source(&self, tap: usize, result: usize) -> Option<usize> {
        let place = self.taps[tap].place + (result * self.stride) as isize;
        usize::try_from(place).ok().filter(|&place| place < self.sources)
    }
}

/// How the sources of neighbouring results lie in a window along one axis: those of a remainder modulo the stride beside
/// each other.
#[derive(Debug)]
pub(super) struct Lanes {
    /// the place of the first source of each remainder for the first result
    starts: SmallVec<[isize; 2]>,
    stride: usize,
    sources: usize,
    /// how many sources of a remainder more than results
    longer: usize,
    /// for each tap, the number of its remainder and how far it is from the first source of it
    taps: SmallVec<[(usize, usize); 4]>,
}

impl Lanes {
    pub(super) fn new(sweep: &Sweep) -> Lanes {
        let stride = sweep.stride as isize;
        let mut starts: SmallVec<[isize; 2]> = SmallVec::new();
        for tap in &sweep.taps {
            match starts.iter_mut().find(|s| (tap.place - **s).rem_euclid(stride) == 0) {
                Some(start) => *start = tap.place.min(*start),
                None => starts.push(tap.place),
            }
        }
        let lane = |tap: &Tap| {
            let own = |s: &isize| (tap.place - s).rem_euclid(stride) == 0;
            let lane = starts.iter().position(own).expect("every tap has a remainder");
            (lane, ((tap.place - starts[lane]) / stride) as usize)
        };
        let taps: SmallVec<[(usize, usize); 4]> = sweep.taps.iter().map(lane).collect();
        let longer = taps.iter().map(|&(_, far)| far).max().unwrap_or(0);
        Lanes { starts, stride: sweep.stride, sources: sweep.sources, longer, taps }
    }

    /// The places in the axis of `n` sources of a lane that begins `results` results behind the first, and those of them
    /// that exist.
    fn part(&self, lane: usize, results: usize, n: usize) -> (isize, std::ops::Range<usize>) {
        let start = self.starts[lane] + (results * self.stride) as isize;
        let until = |place: usize| {
            let far = place as isize - start;
            if far <= 0 { 0 } else { (far as usize).div_ceil(self.stride).min(n) }
        };
        (start, until(0)..until(self.sources))
    }
}

/// The sources of some neighbouring results, of both axes, in one image or several.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    lanes: &'a [Lanes; 2],
    /// results in front of these
    from: [usize; 2],
    /// sources of each lane along both axes
    sizes: [usize; 2],
    images: usize,
}

impl<'a> Window<'a> {
    /// For `count` results from `from` on.
    pub(super) fn new(lanes: &'a [Lanes; 2], from: [usize; 2], count: [usize; 2]) -> Window<'a> {
        let sizes = [count[0] + lanes[0].longer, count[1] + lanes[1].longer];
        Window { lanes, from, sizes, images: 1 }
    }

    /// The same results of so many images, whose planes of a pair of lanes lie one behind the other.
    pub(super) fn of_images(self, images: usize) -> Window<'a> {
        Window { images, ..self }
    }

    /// From the sources of a result to those of the one below.
    pub(super) fn pitch(&self) -> usize {
        self.sizes[1]
    }

    /// From the sources of an image's result to those of the next image's.
    pub(super) fn plane(&self) -> usize {
        self.sizes[0] * self.sizes[1]
    }

    /// How many elements there are: a plane for each pair of lanes and image.
    pub(super) fn len(&self) -> usize {
        self.lanes[0].starts.len() * self.lanes[1].starts.len() * self.images * self.plane()
    }

    /// Where the first result's source lies for each pair of taps.
    pub(super) fn taps(&self) -> impl Iterator<Item = usize> {
        let ([rows, cols], lanes) = (self.sizes, self.lanes[1].starts.len());
        let rows = self.images * rows;
        let [down, across] = self.lanes.each_ref().map(|l| &l.taps);
        down.iter().flat_map(move |&(y, far_y)| {
            across.iter().map(move |&(x, far_x)| ((y * lanes + x) * rows + far_y) * cols + far_x)
        })
    }

    /// The rows and columns of a plane that the window shows, and those between them.
    pub(super) fn shown(&self) -> [std::ops::Range<usize>; 2] {
        std::array::from_fn(|axis| {
            let (lanes, mut all) = (&self.lanes[axis], 0..0);
            for lane in 0..lanes.starts.len() {
                let (start, there) = lanes.part(lane, self.from[axis], self.sizes[axis]);
                if !there.is_empty() {
                    let place = |i: usize| (start + (i * lanes.stride) as isize) as usize;
                    let (first, end) = (place(there.start), place(there.end - 1) + 1);
                    all = if all.is_empty() { first..end } else { all.start.min(first)..all.end.max(end) };
                }
            }
            all
        })
    }

    /// Copies the sources of one of the images, a plane, into the window.
    pub(super) fn fill<T: Copy + Default>(&self, plane: &[T], image: usize, out: &mut [T]) {
        let ([down, across], [rows, cols]) = (self.lanes, self.sizes);
        let mut blocks = out.chunks_exact_mut(rows * cols).skip(image).step_by(self.images);
        for y in 0..down.starts.len() {
            let (top, there) = down.part(y, self.from[0], rows);
            for x in 0..across.starts.len() {
                let (start, inside) = across.part(x, self.from[1], cols);
                let block = blocks.next().expect("there is a block for each pair of lanes");
                // At once: zeros at both ends of each line would be a call for each.
                if there.len() < rows || inside.len() < cols {
                    block.fill(T::default());
                }
                if inside.is_empty() {
                    continue;
                }
                let first = (start + (inside.start * across.stride) as isize) as usize;
                for i in there.clone() {
                    let row = (top + (i * down.stride) as isize) as usize;
                    let from = &plane[row * across.sources..][..across.sources][first..];
                    let line = &mut block[i * cols..][inside.clone()];
                    match across.stride {
                        1 => copy_run(from, line),
                        2 => copy_every_second(from, line),
                        stride => line.iter_mut().zip(from.iter().step_by(stride)).for_each(|(o, &v)| *o = v),
                    }
                }
            }
        }
    }
}

/// As pairs, which take no check for each.
fn copy_every_second<T: Copy>(from: &[T], out: &mut [T]) {
    let pairs = from.as_chunks::<2>().0;
    out.iter_mut().zip(pairs).for_each(|(o, pair)| *o = pair[0]);
    // The last one may end the row.
    if let Some(last) = out.get_mut(pairs.len()) {
        *last = from[2 * pairs.len()];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sources that a window shows are those of the definition, whatever the settings.
    #[test]
    fn windows_show_what_the_definition_says() {
        let mut tried = 0;
        for (input, kernel, stride, dilation, before) in [
            (7, 3, 1, 1, 1),
            (9, 3, 2, 1, 0),
            (9, 3, 2, 2, 3),
            (5, 2, 3, 1, 0),
            (3, 5, 1, 1, 4),
            (4, 1, 2, 1, 0),
        ] {
            let output = (input + 2 * before - dilation * (kernel - 1) - 1) / stride + 1;
            let axis = ConvAxis { input, output, kernel, stride, dilation, before };
            let plane: Vec<i64> = (1..=(input * input) as i64).collect();
            let sweep = axis.forward();
            let lanes = [Lanes::new(&sweep), Lanes::new(&sweep)];
            for from in 0..output {
                let count = output - from;
                let window = Window::new(&lanes, [from, from], [count, count]).of_images(2);
                let mut seen = vec![-1; window.len()];
                window.fill(&plane.iter().map(|i| 1000 + i).collect::<Vec<_>>(), 0, &mut seen);
                window.fill(&plane, 1, &mut seen);
                // What lies elsewhere makes no difference.
                let [rows, cols] = window.shown();
                let shown = |i: usize| rows.contains(&(i / input)) && cols.contains(&(i % input));
                let inside = |i: usize| if shown(i) { plane[i] } else { -9 };
                let mut again = seen.clone();
                window.fill(&(0..plane.len()).map(inside).collect::<Vec<_>>(), 1, &mut again);
                assert_eq!(seen, again);
                let taps: Vec<usize> = window.taps().collect();
                let pairs = sweep.taps.iter().flat_map(|y| sweep.taps.iter().map(move |x| (y, x)));
                for ((y, x), tap) in pairs.zip(taps) {
                    for (i, j) in (0..count).flat_map(|i| (0..count).map(move |j| (i, j))) {
                        let place = |t: &Tap, at: usize| {
                            let p = (((from + at) * stride + t.number * dilation) as isize) - before as isize;
                            (0..input as isize).contains(&p).then_some(p as usize)
                        };
                        let met = place(y, i).zip(place(x, j));
                        let want = met.map_or(0, |(y, x)| plane[y * input + x]);
                        let at = tap + i * window.pitch() + j;
                        assert_eq!(seen[at], met.map_or(0, |_| 1000 + want));
                        assert_eq!(seen[at + window.plane()], want);
                        tried += 1;
                    }
                }
            }
        }
        assert!(tried > 1000);
    }

    #[test]
    fn going_backward_every_pair_is_met_once() {
        let axis = ConvAxis { input: 11, output: 4, kernel: 3, stride: 3, dilation: 2, before: 2 };
        let mut pairs = Vec::new();
        for sweep in axis.backward() {
            for (i, tap) in (0..sweep.count).flat_map(|i| sweep.taps.iter().map(move |t| (i, t))) {
                let source = tap.place + i as isize;
                if (0..axis.output as isize).contains(&source) {
                    pairs.push((sweep.first + i * sweep.step, source as usize, tap.number));
                }
            }
        }
        let mut want: Vec<_> = (0..axis.output)
            .flat_map(|o| (0..axis.kernel).map(move |t| (o, t)))
            .filter_map(|(o, t)| Some(((o * 3 + t * 2).checked_sub(2)?, o, t)))
            .filter(|(i, ..)| *i < axis.input)
            .collect();
        pairs.sort();
        want.sort();
        assert_eq!(pairs, want);
    }

    #[test]
    fn taps_beyond_the_sources_are_left_out() {
        let axis = ConvAxis { input: 1, output: 1, kernel: 3, stride: 1, dilation: 1 << 40, before: 1 << 40 };
        assert_eq!(axis.forward().taps[..], [Tap { number: 1, place: 0 }]);
        let lanes = [Lanes::new(&axis.forward()), Lanes::new(&axis.forward())];
        assert_eq!(Window::new(&lanes, [0, 0], [1, 1]).len(), 1);
    }
}
