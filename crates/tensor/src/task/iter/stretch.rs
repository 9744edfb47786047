//! The planes of a walk: which axes are rows and columns, what a block of them has, and whether one walk obeys the orders
//! of several sinks.
//!
//! A plane has the innermost axis as its columns. Its rows are all axes that leaves reach across, so that a block, whose
//! height is a multiple of every sink's leaf, holds whole leaves, whichever axes the operands can be walked over in one; only the innermost
//! of these axes if leaves end where it does.

use std::ops::Range;

use smallvec::SmallVec;

use super::cut::Ranges;
use super::order::FirstSums;
use super::plan::{PlanAxis, Steps};
use super::sink::Walk;

/// Bytes that the block of an output takes: a third of a first-level cache, or four rows of a thousand `f32`.
pub(super) const BLOCK_BYTES: usize = 16 << 10;

/// How many blocks' bytes whole rows that are folded together may take.
const WIDE_BLOCKS: usize = 4;

/// Columns of a strip are a multiple of this where leaves do not say more.
const STRIP_STEP: usize = 64;

/// Elements of a plane that is worth being walked on its own where it could also be a part of a larger one.
pub(super) const LEAST_PLANE: usize = 4096;

/// The axes that planes follow each other along, and those of a plane.
pub(super) struct Stretch {
    pub(super) outer: SmallVec<[PlanAxis; 4]>,
    pub(super) rows: SmallVec<[PlanAxis; 4]>,
    pub(super) cols: PlanAxis,
    /// whether axes were walked in another order than the walk's
    pub(super) turned: bool,
}

/// Merged axes, with the first place in the walk that each stands for.
type Placed = SmallVec<[(usize, PlanAxis); 4]>;

impl Walk<'_> {
    /// The axes over some ranges, merged where everything steps over both alike and no leaf minds.
    fn merged(&self, ranges: &Ranges) -> Placed {
        let last = self.axes.len().wrapping_sub(1);
        let merge = |bar: bool| {
            let mut merged: Placed = SmallVec::new();
            for (place, axis) in self.axes.iter().enumerate() {
                let len = ranges[place].1;
                if len == 1 && merged.is_empty() && place != last {
                    continue;
                }
                let may_merge = len == axis.size && !(bar && place == last);
                match merged.last_mut() {
                    Some((_, outer)) if may_merge && outer.is_one_with(axis) => {
                        outer.size *= len;
                        outer.steps = axis.steps.clone();
                    }
                    _ => merged.push((place, PlanAxis { size: len, steps: axis.steps.clone() })),
                }
            }
            merged
        };
        let merged = merge(false);
        let (from, n) = merged.last().map_or((0, 1), |(from, _)| (*from, self.axes[last].size));
        let minds = |t: usize| match self.sinks[t].order.leaf {
            FirstSums::Run(leaf) if leaf < n => n % leaf != 0,
            // The rows that leaves reach across are either all in the columns or none.
            FirstSums::Run(_) => {
                merged.len() > 1 && merged[merged.len() - 2].0 >= self.sinks[t].order.rows.start
            }
            FirstSums::Rows { .. } => false,
        };
        if from < last && self.folded().any(minds) { merge(true) } else { merged }
    }

    fn folded(&self) -> impl Iterator<Item = usize> {
        (0..self.sinks.len()).filter(|&t| self.is_folded(t))
    }

    /// The rows that the leaves of a sink reach across, if those of any do; of one that obeys all they are the same.
    fn reached(&self) -> impl Iterator<Item = &Range<usize>> {
        self.folded().map(|t| &self.sinks[t].order.rows).filter(|rows| !rows.is_empty())
    }

    pub(super) fn stretch(&self, ranges: &Ranges) -> Stretch {
        let mut outer = self.merged(ranges);
        let still = || PlanAxis { size: 1, steps: Steps::from_elem(0, self.nr(self.sinks.len())) };
        let cols = outer.pop().map_or_else(still, |(_, axis)| axis);
        let (mut rows, mut turned) = (Placed::new(), false);
        if let Some(reached) = self.reached().next() {
            // Kept axes between the rows and the columns go before the rows.
            let (between, others): (Placed, Placed) = outer.into_iter().partition(|a| a.0 >= reached.end);
            (rows, outer) = others.into_iter().partition(|a| a.0 >= reached.start);
            turned = !between.is_empty();
            outer.extend(between);
        }
        if rows.is_empty() {
            rows.extend(outer.pop());
        }
        // Leaves that end where the innermost of several axes does need no others in their planes.
        if let Some((_, last)) = rows.last()
            && !turned
            && last.size * cols.size >= LEAST_PLANE
            && last.size.is_multiple_of(self.rows_of_a_leaf(cols.size))
        {
            let inner = rows.len() - 1;
            outer.extend(rows.drain(..inner));
        }
        let plain = |axes: Placed| axes.into_iter().map(|(_, axis)| axis).collect();
        Stretch { outer: plain(outer), rows: plain(rows), cols, turned }
    }

    /// How many rows of so many columns the largest leaf of a sink has, if leaves reach across rows.
    fn rows_of_a_leaf(&self, cols: usize) -> usize {
        let rows = |t: usize| match self.sinks[t].order.leaf {
            FirstSums::Run(leaf) if leaf <= cols => 1,
            _ if self.sinks[t].order.rows.is_empty() => 1,
            FirstSums::Run(leaf) => leaf / cols,
            FirstSums::Rows { rows, .. } => rows,
        };
        self.folded().map(rows).max().unwrap_or(1)
    }

    /// The most elements that a block of an output should have.
    fn room(&self) -> usize {
        // A single result and its operands should fit in the first-level cache together.
        let share = if self.kernel.is_some_and(|k| k.1 == 1) { 2 } else { 1 };
        self.block_bytes / share / self.fold.dtype.size()
    }

    /// Rows and columns of the blocks of a plane: whole leaves of every sink.
    pub(super) fn block(&self, rows: usize, cols: usize) -> (usize, usize) {
        let room = self.room();
        let grain = self.folded().fold(STRIP_STEP, |grain, t| match self.sinks[t].order.leaf {
            FirstSums::Run(leaf) if leaf <= cols => grain.max(leaf),
            _ => grain,
        });
        let unit = self.rows_of_a_leaf(cols).min(rows);
        // Several rows are read in long pieces, as far as a block stays in the second-level cache: a processor that reads ahead of
        // a loop begins anew with each (W3 takes 0.8 of the time).
        let wide = if unit > 1 { WIDE_BLOCKS * self.block_bytes / self.fold.dtype.size() } else { room };
        if cols * unit <= wide {
            return ((room / cols / unit * unit).clamp(unit, rows), cols);
        }
        (unit, (wide / unit / grain * grain).clamp(grain, cols))
    }
}

/// Whether one walk obeys the orders of several sinks whose axes are in the same order.
pub(super) fn obey_all(walk: &Walk<'_>) -> bool {
    let sizes: SmallVec<[usize; 4]> = walk.axes.iter().map(|a| a.size).collect();
    let stretch = walk.stretch(&walk.whole());
    let mut reached = walk.reached();
    let first = reached.next();
    if stretch.turned || reached.any(|rows| Some(rows) != first) {
        return false;
    }
    // Rows that are folded into one accumulator must not be walked beside each other.
    let rows = stretch.rows.iter().map(|a| a.size).product();
    let (height, width) = walk.block(rows, stretch.cols.size);
    let in_one = |t: usize| stretch.rows.iter().any(|a| a.steps[walk.nr(t)] == 0);
    let is_line = |t: usize| matches!(walk.sinks[t].order.leaf, FirstSums::Run(_));
    if height > 1 && width < stretch.cols.size && walk.folded().any(|t| is_line(t) && in_one(t)) {
        return false;
    }
    let cells = walk.cells(&sizes);
    (0..sizes.len()).filter(|&p| cells[p] < sizes[p]).all(|place| {
        let in_order = cells[..place].iter().all(|&c| c == 1);
        in_order && walk.folded().all(|t| cells_hold_leaves(walk, t, place, &cells))
    })
}

/// Whether the cells of a segment of a sink, along an axis that it reduces, end where leaves do.
fn cells_hold_leaves(walk: &Walk<'_>, t: usize, place: usize, cells: &[usize]) -> bool {
    let order = &walk.sinks[t].order;
    if walk.axes[place].steps[walk.nr(t)] != 0 || order.chunks[place] == cells[place] {
        return true;
    }
    let inner = |range: Range<usize>| walk.axes[range].iter().map(|a| a.size).product::<usize>();
    match order.leaf {
        FirstSums::Run(leaf) if place + 1 == cells.len() => cells[place].is_multiple_of(leaf),
        FirstSums::Run(leaf) if order.rows.contains(&place) => {
            (cells[place] * inner(place + 1..cells.len())).is_multiple_of(leaf)
        }
        FirstSums::Rows { rows, .. } if order.rows.contains(&place) => {
            (cells[place] * inner(place + 1..order.rows.end)).is_multiple_of(rows)
        }
        _ => true,
    }
}

#[cfg(test)]
thread_local! {
    static PRETENDED: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Makes the blocks of walks that this thread plans hold so many bytes, and has it walk where it could store.
#[cfg(test)]
pub(super) fn pretend_block(bytes: Option<usize>) {
    PRETENDED.set(bytes);
}

/// Whether results may be stored before they are folded: not where tests want walks.
pub(super) fn may_store() -> bool {
    #[cfg(test)]
    if PRETENDED.get().is_some() {
        return false;
    }
    true
}

/// Bytes of the block of an output.
pub(super) fn block_bytes() -> usize {
    #[cfg(test)]
    if let Some(bytes) = PRETENDED.get() {
        return bytes;
    }
    BLOCK_BYTES
}
