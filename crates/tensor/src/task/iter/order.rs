//! The order of a sum: which elements are folded with which, by the description of the fold alone.
//!
//! Note [The order of a sum]
//! The bits of a fold follow from the common shape of its operands, the axes that are kept, and the strides of one
//! operand, the *lead*: the one that moves over most elements; among equals the first that lies in the order of the shape, else the first.
//! They do not follow from what else is evaluated in the same walk, from other operands' layouts, from the kernel, the size of a block or the number
//! of threads. Whoever folds computes this order and obeys it. The rule:
//!
//! 1. Axes of size 1 are dropped; so are axes along which no operand moves, which multiply a sum if they are reduced.
//! 2. The others are put in an order, outermost first. Kept axes stay in the order of the shape; a reduced axis goes
//!    where the lead's memory is read from front to back. If the two innermost groups of axes (a group: neighbours that
//!    are all kept or all reduced) make a plane of less than `SMALL_PLANE` elements, the longest reduced axis further
//!    out goes between the two, if it is longer than the outer one.
//! 3. What is folded in the element type before it is *lifted* to a wide accumulator is a *leaf*. Where the innermost
//!    group is reduced, a leaf is `RUN` elements of a row of the innermost axis, or as many whole rows of the group as
//!    a power of two gives in `RUN` elements; folded by lanes and a tree over the lanes. Where the innermost group is
//!    kept, the rows are the group of reduced axes before it, and a leaf is `ROWS` rows, folded by a tree; of at most
//!    `FEW` columns, as many rows as a power of two gives in `RUN` elements, folded by lanes of whole rows and a tree
//!    over them. What is left at the end of a row or group is a leaf of its own.
//! 4. Large folds are divided into *segments*: chunks of reduced axes, outermost first, of a power of two in size, if
//!    more parts are wanted than the kept axes before them give: at most `MAX_PARTS`, of `GRAIN` elements each, and of
//!    `MIN_DEPTH` elements for each accumulator. There are none where strips of kept results, each of `STRIP` elements that
//!    lie together, give more parts.
//! 5. Leaves are added to their segment's accumulator in their order, segments are merged in theirs.
//!
//! A walk that serves several targets is taken only if it obeys the order of each.

use std::cmp::Reverse;
use std::ops::Range;

use smallvec::SmallVec;

use crate::threads::GRAIN;

/// Elements that are folded in their own type: few enough for accuracy, enough to make lifting cheap.
pub(crate) const RUN: usize = 1024;

/// Rows whose elements are folded into each other, column by column.
pub(crate) const ROWS: usize = 4;

/// At most so many columns are folded several rows abreast.
pub(crate) const FEW: usize = 32;

/// Elements of a plane that is too small to be walked on its own.
pub(crate) const SMALL_PLANE: usize = 512;

/// Parts that a walk is cut into, unless the accumulators would be too many.
pub(crate) const MAX_PARTS: usize = 64;

/// Elements walked per accumulator that segments hold beside each other.
const MIN_DEPTH: usize = 128;

/// Neighbouring elements that stay together where a narrower strip would waste the cache lines it touches.
pub(crate) const STRIP: usize = 1024;

/// What is folded in the element type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FirstSums {
    /// so many elements one after another
    Run(usize),
    /// so many rows, column by column; so many of them abreast
    Rows { rows: usize, abreast: usize },
}

impl FirstSums {
    /// Of a group of reduced axes, the innermost of which has `n` elements.
    pub(crate) fn of_lines(n: usize) -> FirstSums {
        FirstSums::Run(if n > RUN { RUN } else { whole_rows(n) * n })
    }

    /// Of so many columns.
    pub(crate) fn of_columns(n: usize) -> FirstSums {
        if n > FEW {
            return FirstSums::Rows { rows: ROWS, abreast: 1 };
        }
        FirstSums::Rows { rows: whole_rows(n), abreast: previous_power_of_two(LANES / n) }
    }
}

/// Elements that are folded beside each other where rows are short.
pub(crate) const LANES: usize = 64;

fn whole_rows(n: usize) -> usize {
    previous_power_of_two(RUN / n)
}

fn previous_power_of_two(n: usize) -> usize {
    1 << n.ilog2()
}

/// The order in which the elements of one result are folded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FoldOrder {
    /// the axes as they are walked, outermost first
    pub(crate) axes: SmallVec<[usize; 4]>,
    pub(crate) leaf: FirstSums,
    /// the places in `axes` of those that leaves reach across
    pub(crate) rows: Range<usize>,
    /// per place, how much of the axis a segment has: all of it where it is kept or not divided
    pub(crate) chunks: SmallVec<[usize; 4]>,
}

impl FoldOrder {
    /// The order for axes of these sizes, with the lead's strides.
    pub(crate) fn new(sizes: &[usize], lead: &[isize], kept: &dyn Fn(usize) -> bool) -> FoldOrder {
        let mut axes = arrange(lead, kept);
        bring_rows_inside(&mut axes, sizes, kept);
        let n = axes.len();
        let group = innermost(&axes, kept);
        let (leaf, rows) = match axes.last() {
            None => (FirstSums::Run(1), 0..0),
            Some(&last) if kept(last) => {
                let columns = axes[group..].iter().fold(1usize, |c, &a| c.saturating_mul(sizes[a]));
                (FirstSums::of_columns(columns), innermost(&axes[..group], kept)..group)
            }
            Some(&last) => {
                let leaf = FirstSums::of_lines(sizes[last]);
                let within_a_row = leaf == FirstSums::Run(RUN.min(sizes[last]));
                (leaf, if within_a_row { n - 1..n - 1 } else { group..n - 1 })
            }
        };
        let chunks = segments(&axes, sizes, kept);
        FoldOrder { axes, leaf, rows, chunks }
    }
}

/// The axes in the order of the lead's memory, but kept ones as they are. Where the lead does not move, nothing says
/// that an axis is elsewhere than just outside the next one.
fn arrange(lead: &[isize], kept: &dyn Fn(usize) -> bool) -> SmallVec<[usize; 4]> {
    let mut reach: SmallVec<[usize; 4]> = lead.iter().map(|s| s.unsigned_abs()).collect();
    for i in (1..reach.len()).rev() {
        if reach[i - 1] == 0 {
            reach[i - 1] = reach[i];
        }
    }
    let (kept, mut reduced): (SmallVec<[usize; 4]>, SmallVec<[usize; 4]>) =
        (0..lead.len()).partition(|&a| kept(a));
    reduced.sort_by_key(|&a| (Reverse(reach[a]), a));
    let mut order = SmallVec::new();
    let mut reduced = reduced.into_iter().peekable();
    for axis in kept {
        let key = (Reverse(reach[axis]), axis);
        while let Some(r) = reduced.next_if(|&r| (Reverse(reach[r]), r) < key) {
            order.push(r);
        }
        order.push(axis);
    }
    order.extend(reduced);
    order
}

/// Whether the axes of a lead, with these sizes and strides, are in the order of the shape. `None` if it does not move along all axes.
pub(crate) fn is_in_order(axes: impl Iterator<Item = (usize, isize)>) -> Option<bool> {
    let (mut reach, mut falls) = (usize::MAX, true);
    for (_, stride) in axes.filter(|axis| axis.0 != 1) {
        let stride = stride.unsigned_abs();
        if stride == 0 {
            return None;
        }
        (reach, falls) = (stride, falls && stride <= reach);
    }
    Some(falls)
}

/// Where the innermost group of axes starts that are all kept or all reduced.
fn innermost(axes: &[usize], kept: &dyn Fn(usize) -> bool) -> usize {
    let Some(&last) = axes.last() else { return 0 };
    axes.iter().rposition(|&a| kept(a) != kept(last)).map_or(0, |i| i + 1)
}

/// Gives a tiny plane more rows, if there are some further out.
fn bring_rows_inside(axes: &mut SmallVec<[usize; 4]>, sizes: &[usize], kept: &dyn Fn(usize) -> bool) {
    let group = innermost(axes, kept);
    let before = innermost(&axes[..group], kept);
    let size = |range: &[usize]| range.iter().fold(1usize, |n, &a| n.saturating_mul(sizes[a]));
    let rows = size(&axes[before..group]);
    if rows.saturating_mul(size(&axes[group..])) >= SMALL_PLANE {
        return;
    }
    let longest = (0..before).filter(|&i| !kept(axes[i])).max_by_key(|&i| sizes[axes[i]]);
    if let Some(i) = longest.filter(|&i| sizes[axes[i]] > rows) {
        let axis = axes.remove(i);
        axes.insert(group - 1, axis);
    }
}

/// How much of each axis a segment has.
fn segments(axes: &[usize], sizes: &[usize], kept: &dyn Fn(usize) -> bool) -> SmallVec<[usize; 4]> {
    let whole: SmallVec<[usize; 4]> = axes.iter().map(|&a| sizes[a]).collect();
    let product = |of: bool| (axes.iter().filter(|&&a| kept(a) == of)).map(|&a| sizes[a]).product::<usize>();
    let depth = product(false);
    let want = (depth * product(true)).div_ceil(GRAIN).min(MAX_PARTS);
    let most = depth / MIN_DEPTH;
    if want <= 1 || most <= 1 {
        return whole;
    }
    let (mut chunks, mut parts, mut count) = (whole.clone(), 1, 1);
    for (place, &axis) in axes.iter().enumerate() {
        let left = want.div_ceil(parts);
        if left <= 1 {
            break;
        }
        if kept(axis) {
            parts *= sizes[axis];
            continue;
        }
        let left = left.min(most / count);
        let least = if place + 1 == axes.len() { STRIP } else { 1 };
        chunks[place] = sizes[axis].div_ceil(left.max(1)).next_power_of_two().max(least).min(sizes[axis]);
        let chunk_count = sizes[axis].div_ceil(chunks[place]);
        (parts, count) = (parts * chunk_count, count * chunk_count);
        if chunks[place] > 1 {
            break;
        }
    }
    if strips(axes, sizes, kept).min(want) > parts { whole } else { chunks }
}

/// How many elements a segment of one result has, where axes are kept and reduced in two groups and lie in order; and how many it is, if not all of them,
/// that segments divide, at whose end the last one may be shorter: the others repeat these.
pub(crate) fn segment(shape: &[usize], kept: &[bool]) -> Option<(usize, Option<usize>)> {
    let (sizes, kept): (SmallVec<[usize; 4]>, SmallVec<[bool; 4]>) =
        shape.iter().copied().zip(kept.iter().copied()).filter(|axis| axis.0 != 1).unzip();
    let axes: SmallVec<[usize; 4]> = (0..sizes.len()).collect();
    let chunks = segments(&axes, &sizes, &|axis| kept[axis]);
    let mut reduced = (0..sizes.len()).filter(|&axis| !kept[axis]);
    let outermost = reduced.next()?;
    let cut = (outermost..sizes.len()).find(|&axis| !kept[axis] && chunks[axis] > 1).unwrap_or(outermost);
    let is_even = cut == outermost || sizes[cut] % chunks[cut] == 0;
    let size = std::iter::once(outermost).chain(reduced.clone()).map(|axis| chunks[axis]).product();
    let divided = reduced.filter(|&axis| axis >= cut).map(|axis| sizes[axis]).product();
    Some((size, (!is_even).then_some(divided)))
}

/// Into how many parts the results alone can be cut, if each reads at least [`STRIP`] elements that lie together.
fn strips(axes: &[usize], sizes: &[usize], kept: &dyn Fn(usize) -> bool) -> usize {
    let (mut strips, mut inner) = (1usize, 1usize);
    for &axis in axes.iter().rev() {
        if kept(axis) {
            strips = strips.saturating_mul(sizes[axis].div_ceil(STRIP.div_ceil(inner)));
        }
        inner = inner.saturating_mul(sizes[axis]);
    }
    strips
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(sizes: &[usize], lead: &[isize], kept: &[bool]) -> FoldOrder {
        FoldOrder::new(sizes, lead, &|a| kept[a])
    }

    #[test]
    fn leaves_are_runs_or_whole_rows() {
        let runs = [3, 100, 300, 512, 513, 1025].map(FirstSums::of_lines);
        assert_eq!(runs, [768, 800, 600, 1024, 513, 1024].map(FirstSums::Run));
        assert_eq!(FirstSums::of_columns(1000), FirstSums::Rows { rows: ROWS, abreast: 1 });
        for columns in 2..=FEW {
            let FirstSums::Rows { rows, abreast } = FirstSums::of_columns(columns) else { panic!("columns") };
            assert!(rows * columns <= RUN && 2 * rows * columns > RUN, "{columns}");
            assert!(abreast * columns <= LANES && rows == RUN / LANES * abreast, "{columns}");
        }
    }

    #[test]
    fn reduced_axes_go_where_the_lead_is_read_in_order() {
        assert_eq!(order(&[40, 50], &[50, 1], &[true, false]).axes[..], [0, 1]);
        assert_eq!(order(&[40, 50], &[1, 40], &[true, false]).axes[..], [1, 0]);
        assert_eq!(order(&[40, 50], &[1, 40], &[false, false]).axes[..], [1, 0]);
        assert_eq!(order(&[40, 50], &[0, 1], &[false, true]).axes[..], [0, 1]);
        assert_eq!(order(&[40, 50], &[1, 0], &[false, true]).axes[..], [0, 1]);
        assert_eq!(order(&[40, 50, 60], &[3000, -60, 1], &[false, true, false]).axes[..], [0, 1, 2]);
        // A plane of twelve elements gets the long axis.
        assert_eq!(order(&[900, 4, 3], &[12, 3, 1], &[false, true, false]).axes[..], [1, 0, 2]);
    }

    #[test]
    fn rows_are_all_reduced_axes_beside_each_other() {
        let order = |kept: [bool; 3]| order(&[90, 40, 100], &[4000, 100, 1], &kept);
        assert_eq!(order([false, false, true]).rows, 0..2);
        assert_eq!(order([false, true, true]).rows, 0..1);
        assert_eq!(order([true, false, false]).rows, 1..2);
        assert_eq!(order([false, true, false]).rows, 2..2);
    }

    #[test]
    fn segments_nest_and_have_few_accumulators() {
        for sizes in
            [[4096, 1024], [1_000_003, 3], [3, 1_000_003], [100_000, 40], [8, 1 << 20], [1000, 10_000]]
        {
            let chunks = |kept: [bool; 2]| order(&sizes, &[sizes[1] as isize, 1], &kept).chunks;
            for kept in [[true, false], [false, true], [false, false]] {
                let chunks = chunks(kept);
                let (mut count, mut results) = (1, 1);
                for axis in 0..2 {
                    let whole = chunks[axis] == sizes[axis];
                    assert!(whole || !kept[axis] && chunks[axis].is_power_of_two(), "{sizes:?} {kept:?}");
                    count *= sizes[axis].div_ceil(chunks[axis]);
                    results *= if kept[axis] { sizes[axis] } else { 1 };
                }
                assert!(
                    count == 1 || count * results * MIN_DEPTH <= sizes[0] * sizes[1],
                    "{sizes:?} {kept:?}"
                );
            }
        }
        assert_eq!(order(&[4096, 1024], &[1024, 1], &[false, true]).chunks[..], [128, 1024]);
        assert_eq!(order(&[4096, 1024], &[1024, 1], &[false, false]).chunks[..], [64, 1024]);
        assert_eq!(order(&[4096, 1024], &[1024, 1], &[true, false]).chunks[..], [4096, 1024]);
    }
}
