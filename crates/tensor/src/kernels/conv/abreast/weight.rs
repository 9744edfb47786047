//! Gradients of kernels side by side.

use super::super::Convolved;
use super::super::few::add_products;
use super::super::weight::WeightProduct;
use super::{LINE, LaidPlanes, PLACES, TASK, TapTable, add, rows_together};
use crate::buffer::Room;
use crate::kernels::Ahead;
use crate::kernels::doors::door;
use crate::kernels::lane::Float;
use crate::kernels::level::{Level, level};
use crate::threads::split_work;

/// Parts that blocks are cut into, at most: each has sums of its own.
const PARTS: usize = 16;

/// Places that are summed one after another: sums of more lose digits.
const LEAF: usize = 128;

/// Computes `[groups, rows, channels, ..]`.
pub(in super::super) fn weight_gradient<T: Convolved>(x: &WeightProduct<'_, T>, out: &mut [T]) {
    match LINE / size_of::<T>() {
        16 => WeightBlocks::<T, 16>::new(x).run(out),
        _ => WeightBlocks::<T, 8>::new(x).run(out),
    }
}

/// Gradients of a kernel in blocks.
struct WeightBlocks<'a, T, const L: usize> {
    x: &'a WeightProduct<'a, T>,
    sources: LaidPlanes<'a, T, L>,
    gradient: LaidPlanes<'a, T, L>,
    table: TapTable,
    /// Numbers of a row of sums: there is a row for each row of the kernel, channel and tap, with a number for each group and, behind the
    /// last one, for the first ones again, so that those of a block lie side by side.
    around: usize,
}

impl<'a, T: Convolved, const L: usize> WeightBlocks<'a, T, L> {
    fn new(x: &'a WeightProduct<'a, T>) -> WeightBlocks<'a, T, L> {
        let [down, across] = &x.sweeps;
        WeightBlocks {
            x,
            sources: LaidPlanes { data: x.source, channels: x.channels, size: down.sources * across.sources },
            gradient: LaidPlanes { data: x.gradient, channels: x.rows, size: down.count * across.count },
            table: TapTable::new([down, across], x.kernel[1], across.count),
            around: x.groups + L - 1,
        }
    }

    fn run(&self, out: &mut [T]) {
        let (x, taps) = (self.x, self.table.taps.len());
        let lines = x.rows * x.channels * taps;
        let blocks = (x.items * x.groups).div_ceil(L);
        let work =
            (self.table.from.len() * PLACES * L).saturating_mul(x.rows * x.channels).saturating_mul(blocks);
        let parts = (work / TASK).clamp(1, PARTS.min(blocks));
        let each = lines * self.around;
        let mut sums: Room<T> = Room::new(parts * each);
        split_work(
            parts,
            1,
            sums.as_mut_slice(),
            &|s: &mut [T], at| s.split_at_mut(at * each),
            &|start, _, sums| {
                for (i, sums) in sums.chunks_exact_mut(each).enumerate() {
                    let part = start + i;
                    self.part(part * blocks / parts..(part + 1) * blocks / parts, sums);
                }
            },
        );
        out.fill(T::default());
        let kernel = x.kernel[0] * x.kernel[1];
        for sums in sums.as_slice().chunks_exact(each) {
            for (i, sums) in sums.chunks_exact(self.around).enumerate() {
                let at = i / taps * kernel + self.table.taps[i % taps];
                for (group, &sum) in sums.iter().enumerate() {
                    let o = &mut out[group % x.groups * x.rows * x.channels * kernel + at];
                    *o = *o + sum;
                }
            }
        }
    }

    /// The sums over some blocks.
    fn part(&self, blocks: std::ops::Range<usize>, sums: &mut [T]) {
        let (x, taps) = (self.x, self.table.taps.len());
        let (mut sources, mut gradient) = (self.sources.room(), self.gradient.room());
        let sources = sources.as_mut_slice().as_chunks_mut().0;
        let gradient = gradient.as_mut_slice().as_chunks_mut().0;
        let together = rows_together();
        let mut found = vec![[T::default(); L]; together * taps];
        let asks = Ahead::pays(size_of_val(x.source).saturating_add(size_of_val(x.gradient)));
        sums.fill(T::default());
        for block in blocks {
            let count = L.min(x.items * x.groups - block * L);
            if count < L {
                // Nothing of an earlier block may stay there.
                [&mut *sources, &mut *gradient]
                    .into_iter()
                    .flatten()
                    .for_each(|line| line[count..].fill(T::default()));
            }
            self.sources.lay_out(block * L, count, sources);
            self.gradient.lay_out(block * L, count, gradient);
            let mut ahead = Ahead::new(if asks {
                x.rows.div_ceil(together) * x.channels * self.table.to.len().div_ceil(PLACES)
            } else {
                0
            });
            for next in [self.sources.of_block(block + 1), self.gradient.of_block(block + 1)] {
                if asks {
                    ahead.add(next.as_ptr(), next.len());
                }
            }
            let group = block * L % x.groups;
            for (row, gradient) in gradient.chunks(together * (self.gradient.size + 1)).enumerate() {
                let rows = gradient.len() / (self.gradient.size + 1);
                let sum = if rows == 2 { sum_taps::<T, 2, L> } else { sum_taps::<T, 1, L> };
                for (channel, sources) in sources.chunks_exact(self.sources.size + 1).enumerate() {
                    let leaves = self.table.to.chunks(LEAF).zip(self.table.from.chunks(LEAF / PLACES * taps));
                    for leaf in leaves {
                        let found = &mut found[..rows * taps];
                        found.fill([T::default(); L]);
                        sum(found, leaf, sources, gradient, &ahead);
                        for (i, found) in found.iter().enumerate() {
                            let line = ((row * together + i / taps) * x.channels + channel) * taps + i % taps;
                            let sum = sums[line * self.around + group..].first_chunk_mut();
                            add(sum.expect("there are as many numbers behind each group"), found);
                        }
                    }
                }
            }
        }
    }
}

door! {
    /// Adds what the elements of `R` planes of a gradient, at these places, times the sources that each tap meets give.
    fn sum_taps[T: Float, const R: usize, const L: usize][T, R, L](sums: &mut [[T; L]], places: (&[usize], &[[u32; PLACES]]), sources: &[[T; L]], gradient: &[[T; L]], ahead: &Ahead);
    body sum_taps_body
}
#[inline(always)]
fn sum_taps_body<const FMA: bool, T: Float, const R: usize, const L: usize>(
    sums: &mut [[T; L]],
    (to, from): (&[usize], &[[u32; PLACES]]),
    sources: &[[T; L]],
    gradient: &[[T; L]],
    ahead: &Ahead,
) {
    let (sums, next) = sums.split_at_mut(sums.len() / R);
    let (gradient, behind) = gradient.split_at(gradient.len() / R);
    let zeros = gradient.len() - 1;
    for (to, from) in to.chunks(PLACES).zip(from.chunks(sums.len())) {
        ahead.step();
        let at = |i: usize| to.get(i).copied().unwrap_or(zeros);
        let [a, b, c, d] = [&gradient[at(0)], &gradient[at(1)], &gradient[at(2)], &gradient[at(3)]];
        let behind = if R == 2 { behind } else { gradient };
        let [e, f, g, h] = [&behind[at(0)], &behind[at(1)], &behind[at(2)], &behind[at(3)]];
        for (k, from) in from.iter().enumerate() {
            let [w, x, y, z] = *from;
            let [w, x, y, z] =
                [&sources[w as usize], &sources[x as usize], &sources[y as usize], &sources[z as usize]];
            let mut total = sums[k];
            add_products::<FMA, T, L>(&mut total, w, a);
            add_products::<FMA, T, L>(&mut total, x, b);
            add_products::<FMA, T, L>(&mut total, y, c);
            add_products::<FMA, T, L>(&mut total, z, d);
            sums[k] = total;
            if R == 2 {
                let mut total = next[k];
                add_products::<FMA, T, L>(&mut total, w, e);
                add_products::<FMA, T, L>(&mut total, x, f);
                add_products::<FMA, T, L>(&mut total, y, g);
                add_products::<FMA, T, L>(&mut total, z, h);
                next[k] = total;
            }
        }
    }
}
