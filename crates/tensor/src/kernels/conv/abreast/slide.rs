//! Convolutions and their transposes side by side.

use super::super::Convolved;
use super::super::few::add_products;
use super::super::product::SlideProduct;
use super::{LINE, LaidPlanes, PLACES, TASK, TapTable, add, line_at, rows_together, sources, transpose};
use crate::buffer::Room;
use crate::kernels::Ahead;
use crate::kernels::doors::door;
use crate::kernels::lane::Float;
use crate::kernels::level::{Level, level};
use crate::threads::split_work;

/// Computes all results: `[items, groups, rows, ..]`.
pub(in super::super) fn slide<T: Convolved>(x: &SlideProduct<'_, T>, out: &mut [T]) {
    match LINE / size_of::<T>() {
        16 => SlideBlocks::<T, 16>::new(x).run(out),
        _ => SlideBlocks::<T, 8>::new(x).run(out),
    }
}

/// Convolutions in blocks.
struct SlideBlocks<'a, T, const L: usize> {
    x: &'a SlideProduct<'a, T>,
    sources: LaidPlanes<'a, T, L>,
    /// elements of a plane of results
    places: usize,
    parts: Vec<TapTable>,
    /// A row for each part, result channel, source channel and tap, with a number for each group: those of a block lie side by side, as
    /// those of the first groups stand behind the last one, too.
    weights: Room<T>,
    bias: Option<Room<T>>,
    /// channels of results that are summed together
    together: usize,
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
        let together = rows_together();
        SlideBlocks {
            x,
            sources: LaidPlanes { data: x.source, channels: x.channels, size: sources(&x.sweeps) },
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
                let (mut lines, mut results) = (self.sources.room(), Room::new(x.rows * self.places * L));
                let lines = lines.as_mut_slice().as_chunks_mut().0;
                for (i, out) in out.chunks_mut(each).enumerate() {
                    let ahead = if asks { self.ahead(start + i, out) } else { Ahead::new(0) };
                    self.block(start + i, lines, results.as_mut_slice().as_chunks_mut().0, out, &ahead);
                }
            },
        );
    }

    /// What a block writes, and what the next one reads.
    fn ahead(&self, number: usize, out: &[T]) -> Ahead {
        let few: usize = self.parts.iter().map(|part| part.to.len().div_ceil(PLACES)).sum();
        let mut ahead = Ahead::new(few * self.x.rows.div_ceil(self.together));
        let next = self.sources.of_block(number + 1);
        ahead.add(out.as_ptr(), out.len());
        ahead.add(next.as_ptr(), next.len());
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
        self.sources.lay_out(number * L, count, lines);
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
            sum_places::<T, R, L>(results, part, (lines, self.sources.size + 1), &weights, bias, ahead);
        }
    }
}

/// Numbers of so many groups, and of the first ones again.
fn wrap<T: Copy>(line: &mut [T], groups: usize, number: impl Fn(usize) -> T) {
    let (own, again) = line.split_at_mut(groups);
    own.iter_mut().enumerate().for_each(|(group, o)| *o = number(group));
    again.chunks_mut(groups).for_each(|o| o.copy_from_slice(&own[..o.len()]));
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
