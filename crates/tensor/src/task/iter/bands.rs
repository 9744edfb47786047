//! What is too large for the cache, and better not folded as a whole: band by band.
//!
//! A band is some of the outermost axis. What a kernel gives of it is stored, and folded from there; of what lies in memory, and is folded in another
//! order than it lies in, a band is still in the cache when it is read again. What is folded along the outermost axis is carried on from band to
//! band, so that a sum has the bits that it has of all elements at once (Note [The order of a sum]).
//!
//! Who pays for it: on a Zen 3 `x.relu() * y` for `[128, 5000, 7, 2]` with `[128, 1, 7, 2]`, summed to the last axis, takes a tenth of the time of a walk, and with its gradients
//! 0.07; the gradients of `x * y.sigmoid()` for `[5000, 200, 7]` with `[1, 200, 7]` half. Of what lies in memory sums of `[50000, 9, 9]` to the middle axis take two thirds.

use std::cell::OnceCell;

use smallvec::SmallVec;

use super::cut::Ranges;
use super::fold::{Outs, compute, lie_in_order};
use super::order::FirstSums;
use super::plan::broadcast_stride;
use super::sink::{Goal, Outputs, Unfinished, Walk};
use super::{Fold, Operand, flat};
use crate::buffer::{Handle, Storage};
use crate::dtype::{BlockMut, DType};
use crate::error::Result;
use crate::kernels::{BlockKernel, most_in_cache};
use crate::shape::Dims;
use crate::tensor::Tensor;
use crate::threads::num_threads;

/// Elements of a band for each thread, if leaves do not want more: they stay in its second-level cache.
const BAND: usize = 1 << 16;

/// A shape that is cut into bands.
pub(super) struct Bands<'a> {
    fold: Fold,
    kernel: Option<Outputs<'a>>,
    operands: &'a [Operand<'a>],
    shape: &'a [usize],
    /// the axis that is cut, and how much of it a band has
    axis: usize,
    len: usize,
    /// elements for each place of the axis
    inner: usize,
    /// per output
    places: SmallVec<[BandPlace; 2]>,
}

/// Where the elements of an output are while a band is folded.
enum BandPlace {
    /// where a goal wants them, as they are
    Goal(usize),
    /// in memory for a band
    Room(Handle),
    /// where the only operand has them
    Operand,
}

impl<'a> Bands<'a> {
    /// `None` if all stays in the cache or a band would not, if some sum goes another way, or operands do not lie in the order of their sums.
    pub(super) fn new(
        fold: Fold,
        kernel: Option<Outputs<'a>>,
        operands: &'a [Operand<'a>],
        shape: &'a [usize],
        goals: &[Goal],
    ) -> Option<Bands<'a>> {
        let (band, stays) = limits(fold.dtype);
        let n = shape.iter().fold(1usize, |n, &size| n.saturating_mul(size));
        if n <= stays || !lie_in_order(operands, shape) {
            return None;
        }
        let axis = shape.iter().position(|&size| size != 1)?;
        let inner = n / shape[axis];
        let mut len = 1 << (band / inner).max(1).ilog2();
        let nothing = Storage::scratch(fold.dtype, 0);
        let like_all = Operand::in_order(nothing.block(), shape);
        for goal in goals {
            len = len.max(planned((fold, shape), like_all, &goal.kept, |walk| walk.least_of_outermost())?);
        }
        if len >= shape[axis] || len.saturating_mul(inner) > stays {
            return None;
        }
        let mut places: SmallVec<[BandPlace; 2]> = SmallVec::new();
        for output in 0..kernel.map_or(0, |k| k.1) {
            let as_it_is = goals.iter().position(|goal| goal.output == output && goal.is_new_whole());
            places.push(match as_it_is {
                Some(goal) => BandPlace::Goal(goal),
                None => BandPlace::Room(Storage::stale(fold.dtype, len * inner)?),
            });
        }
        if kernel.is_none() {
            places.push(BandPlace::Operand);
        }
        Some(Bands { fold, kernel, operands, shape, axis, len, inner, places })
    }

    pub(super) fn fold(mut self, goals: SmallVec<[Goal; 2]>) -> Result<SmallVec<[Tensor; 2]>> {
        let Bands { fold, operands, shape, axis, inner, .. } = self;
        let nothing = Storage::scratch(fold.dtype, 0);
        let like_all = Operand::in_order(nothing.block(), shape);
        let mut begun: SmallVec<[Unfinished; 2]> = SmallVec::new();
        let mut wanted: SmallVec<[(usize, Dims<bool>); 2]> = SmallVec::new();
        for goal in goals {
            let (output, kept) = (goal.output, goal.kept.clone());
            begun.push(planned((fold, shape), like_all, &kept, |walk| walk.begin(0, goal, !kept[axis]))?);
            wanted.push((output, kept));
        }
        for from in (0..shape[axis]).step_by(self.len) {
            let some = self.len.min(shape[axis] - from);
            if let Some((kernel, _)) = self.kernel {
                self.compute(kernel, (from, some), &mut begun);
            }
            for (t, (output, kept)) in wanted.iter().enumerate() {
                let (stored, own) = match &self.places[*output] {
                    BandPlace::Goal(whole) if *whole == t => continue,
                    BandPlace::Goal(whole) => {
                        let [own, whole] = begun.get_disjoint_mut([t, *whole]).expect("two goals");
                        (Operand::in_order(whole.result.tensor.storage.block(), shape), own)
                    }
                    BandPlace::Room(room) => {
                        // As if the bands before it lay before it.
                        let offset = 0usize.wrapping_sub(from * inner);
                        (Operand { offset, ..Operand::in_order(room.block(), shape) }, &mut begun[t])
                    }
                    BandPlace::Operand => (operands[0], &mut begun[t]),
                };
                planned((fold, shape), stored, kept, |walk| {
                    walk.walk(&walk.band(from, some), std::slice::from_mut(own));
                });
            }
        }
        let finish = |(begun, (_, kept)): (Unfinished, &(usize, Dims<bool>))| {
            planned((fold, shape), like_all, kept, |walk| walk.finish(0, begun))
        };
        Ok(begun.into_iter().zip(&wanted).map(finish).collect())
    }

    /// Computes all outputs of a band.
    fn compute(&mut self, kernel: &dyn BlockKernel, (from, some): (usize, usize), begun: &mut [Unfinished]) {
        let n = some * self.inner;
        let rank = self.shape.len();
        let sizes = |o: &Operand<'_>| {
            let mut sizes = Dims::from_slice(o.shape);
            if broadcast_stride(o, self.axis, rank) != 0 {
                sizes[self.axis + o.shape.len() - rank] = some;
            }
            sizes
        };
        let own: SmallVec<[Dims<usize>; 4]> = self.operands.iter().map(sizes).collect();
        let mut operands: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
        for (o, shape) in self.operands.iter().zip(&own) {
            let moved = from as isize * broadcast_stride(o, self.axis, rank);
            operands.push(Operand { offset: (o.offset as isize + moved) as usize, shape, ..*o });
        }
        let mut shape = Dims::from_slice(self.shape);
        shape[self.axis] = some;
        let mut wholes: SmallVec<[Option<BlockMut<'_>>; 2]> =
            begun.iter_mut().map(|begun| Some(begun.result.tensor.block_mut())).collect();
        let mut outs = Outs::new();
        for place in &mut self.places {
            outs.extend(match place {
                BandPlace::Goal(t) => wholes[*t].take().map(|whole| whole.into_range(from * self.inner, n)),
                BandPlace::Room(room) => Some(room.block_mut().into_range(0, n)),
                BandPlace::Operand => None,
            });
        }
        compute(kernel, &operands, &shape, flat::applies(&operands, &shape), &mut outs);
    }
}

/// What a walk for a single goal gives, over elements of a whole shape.
fn planned<R>(
    (fold, shape): (Fold, &[usize]),
    stored: Operand<'_>,
    kept: &Dims<bool>,
    then: impl FnOnce(&Walk<'_>) -> R,
) -> R {
    let (goal, room) = (Goal { output: 0, kept: kept.clone(), prior: None }, OnceCell::new());
    let stored = [stored];
    let walk = Walk::new(fold, None, &stored, shape, std::slice::from_ref(&goal), &room);
    then(&walk.expect("a walk for a single goal"))
}

impl Walk<'_> {
    /// Where the outermost axis is walked.
    fn place_of_outermost(&self) -> usize {
        self.sinks[0].order.axes.iter().position(|&axis| axis == 0).expect("all axes are walked")
    }

    /// The ranges of all axes, of which the outermost one is cut.
    fn band(&self, from: usize, len: usize) -> Ranges {
        let mut ranges = self.whole();
        ranges[self.place_of_outermost()] = (from, len);
        ranges
    }

    /// How much of the outermost axis is folded together at least, or a power of two of which any other is a part: no leaf of the only sink reaches from there to what
    /// follows. `None` if another reduced axis is walked before that one.
    fn least_of_outermost(&self) -> Option<usize> {
        let (place, order) = (self.place_of_outermost(), &self.sinks[0].order);
        let is_reduced = |place: usize| self.axes[place].steps[self.nr(0)] == 0;
        if !is_reduced(place) {
            return Some(1);
        }
        if (0..place).any(is_reduced) {
            return None;
        }
        let last = self.axes.len() - 1;
        let reaches = order.rows.contains(&place);
        let least = match order.leaf {
            FirstSums::Run(leaf) if place == last => leaf,
            FirstSums::Run(leaf) if reaches => leaf / self.axes[last].size,
            FirstSums::Rows { rows, .. } if reaches => rows,
            _ => 1,
        };
        Some(least.min(order.chunks[place]))
    }
}

#[cfg(test)]
thread_local! {
    static PRETENDED_BAND: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Makes bands hold so many elements, and the cache some more.
#[cfg(test)]
pub(super) fn pretend_band(elements: Option<usize>) {
    PRETENDED_BAND.set(elements);
}

/// Elements that a band should have, and of which no more stay in the cache.
fn limits(dtype: DType) -> (usize, usize) {
    #[cfg(test)]
    if let Some(elements) = PRETENDED_BAND.get() {
        return (elements, 8 * elements);
    }
    (BAND * num_threads(), most_in_cache() / dtype.size())
}
