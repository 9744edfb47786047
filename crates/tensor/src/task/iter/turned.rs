//! Folds of operands whose axes are turned: in the order in which they lie, of which the results are turned, or the axes before.

use std::cmp::Reverse;

use smallvec::{SmallVec, smallvec};

use super::elements::Elements;
use super::fold::{as_it_lies, kept_of};
use super::fold_table::FoldTable;
use super::order::{FirstSums, FoldOrder};
use super::plan::broadcast_stride;
use super::sink::{Goal, fold_stored};
use super::{Fold, Operand};
use crate::buffer::Handle;
use crate::error::Result;
use crate::shape::{Dims, Shape};
use crate::tensor::{Tensor, is_row_major};

type Axes = SmallVec<[usize; 4]>;

/// The axes in the order in which the first operand that moves along all of them lies, if it is another one than that of the shape and kept
/// axes stay in theirs: in the new order the fold is the same (Note [The order of a sum]), and needs no plan as often as any. The fused sum of a product
/// of [300, 5, 4] or [5, 32, 50, 32] whose first operand is turned takes half of the time.
pub(super) fn order_of_lead(operands: &[Operand<'_>], shape: &[usize], kept: &[bool]) -> Option<Axes> {
    if operands.first().is_some_and(|o| o.is_direct(shape)) {
        return None;
    }
    let stride = |o: &Operand<'_>, axis: usize| broadcast_stride(o, axis, shape.len()).unsigned_abs();
    let moves = |o: &&Operand<'_>| (0..shape.len()).all(|axis| shape[axis] == 1 || stride(o, axis) != 0);
    let lead = operands.iter().find(moves)?;
    // An axis of one element stays behind the one before it.
    let mut reach: SmallVec<[usize; 4]> = SmallVec::with_capacity(shape.len());
    for (axis, &size) in shape.iter().enumerate() {
        let before = reach.last().copied().unwrap_or(usize::MAX);
        reach.push(if size == 1 { before } else { stride(lead, axis) });
    }
    if reach.is_sorted_by(|a, b| a >= b) {
        return None;
    }
    let mut order: Axes = (0..shape.len()).collect();
    order.sort_by_key(|&axis| Reverse(reach[axis]));
    order.iter().filter(|axis| kept[**axis]).is_sorted().then_some(order)
}

pub(super) fn reordered<T: Copy>(axes: &[T], order: &[usize]) -> SmallVec<[T; 4]>
where
    [T; 4]: smallvec::Array<Item = T>,
{
    order.iter().map(|&axis| axes[axis]).collect()
}

/// Operands of a shape whose axes are in another order.
pub(super) struct Reordered {
    pub(super) shape: Axes,
    /// of each operand, sizes and strides
    own: SmallVec<[(Axes, SmallVec<[isize; 4]>); 4]>,
}

impl Reordered {
    pub(super) fn new(operands: &[Operand<'_>], shape: &[usize], order: &[usize]) -> Reordered {
        let rank = shape.len();
        let own = operands.iter().map(|o| {
            let size = |axis: usize| (axis + o.shape.len()).checked_sub(rank).map_or(1, |own| o.shape[own]);
            let sizes = order.iter().map(|&axis| size(axis)).collect();
            (sizes, order.iter().map(|&axis| broadcast_stride(o, axis, rank)).collect())
        });
        Reordered { shape: reordered(shape, order), own: own.collect() }
    }

    pub(super) fn operands<'a>(&'a self, operands: &[Operand<'a>]) -> SmallVec<[Operand<'a>; 4]> {
        let one = |(o, (shape, strides)): (&Operand<'a>, &'a (Axes, SmallVec<[isize; 4]>))| Operand {
            shape,
            strides: Some(strides),
            row_major: is_row_major(shape, strides),
            ..*o
        };
        operands.iter().zip(&self.own).map(one).collect()
    }
}

/// A fold of an operand whose kept axes lie in another order than those of the shape, as it lies: the results, which are fewer, are
/// turned, and not the elements. Of 4,000 to 6 million elements whose axes are turned around sums of a middle axis take 0.06 to 0.47 of the time of a walk, which
/// lays all of them out.
pub(super) struct Turned {
    table: FoldTable,
    /// the axes that are kept, as they lie
    kept: Axes,
    result: Shape,
}

impl Turned {
    pub(super) fn new(op: &Operand<'_>, shape: &[usize], kept: &[bool]) -> Option<Turned> {
        if op.shape != shape || shape.contains(&0) {
            return None;
        }
        let axes: Axes = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
        let mut lying = axes.clone();
        lying.sort_by_key(|&axis| (Reverse(op.stride(axis)), axis));
        if lying == axes {
            return None;
        }
        let (wanted, found) = (steps(op, &axes, kept), steps(op, &lying, kept));
        let told = wanted.of_columns(&found).map(|segment| (wanted.leaf, segment));
        if told.is_none() && wanted != found {
            return None;
        }
        let sizes: Axes = lying.iter().map(|&axis| shape[axis]).collect();
        let strides: SmallVec<[isize; 4]> = lying.iter().map(|&axis| op.stride(axis)).collect();
        let are_kept: SmallVec<[bool; 4]> = lying.iter().map(|&axis| kept[axis]).collect();
        let turned = Operand { shape: &sizes, strides: Some(&strides), ..*op };
        let (shape, described, step) = as_it_lies(&turned, &sizes, &are_kept)?;
        let table = FoldTable::apart(&shape, &described, step, told)?;
        lying.retain(|axis| kept[*axis]);
        Some(Turned { table, kept: lying, result: kept_of(op.shape, kept) })
    }

    pub(super) fn fold(self, fold: Fold, op: &Operand<'_>) -> Result<Tensor> {
        let data = op.data.range(op.offset, self.table.len());
        let sizes = Shape(self.kept.iter().map(|&axis| op.shape[axis]).collect());
        let folded = self.table.fold(fold, Elements::Stored(data), sizes, None)?;
        let mut order: Axes = (0..self.kept.len()).collect();
        order.sort_by_key(|&place| self.kept[place]);
        let order: SmallVec<[isize; 4]> = order.into_iter().map(|place| place as isize).collect();
        folded.permute(&order[..])?.laid_out(fold.op)?.reshape(&self.result[..])
    }
}

/// What decides on the bits of a result of a fold.
#[derive(PartialEq)]
struct Steps {
    leaf: FirstSums,
    /// of each axis that is reduced, outermost first: which it is, how long, how much of it a segment has, and whether leaves reach across
    reduced: SmallVec<[(usize, usize, usize, bool); 4]>,
}

impl Steps {
    /// How many rows a segment has, if results are folded column by column and rows are those of these other steps, whose segments and
    /// leaves, which depend on what else is kept, are others.
    fn of_columns(&self, other: &Steps) -> Option<usize> {
        let are_columns = self.leaf == FirstSums::of_columns(usize::MAX)
            && matches!(other.leaf, FirstSums::Rows { .. })
            && self.reduced.len() == other.reduced.len()
            && self.reduced.iter().zip(&other.reduced).all(|(a, b)| a.0 == b.0 && a.3 && b.3);
        let inner = self.reduced.iter().skip(1);
        let are_whole = inner.clone().all(|&(_, size, chunk, _)| chunk == size);
        if are_columns && are_whole {
            Some(self.reduced.first()?.2 * inner.map(|axis| axis.1).product::<usize>())
        } else {
            None
        }
    }
}

/// The steps of a fold of these axes in this order.
fn steps(op: &Operand<'_>, axes: &[usize], kept: &[bool]) -> Steps {
    let sizes: Axes = axes.iter().map(|&axis| op.shape[axis]).collect();
    let strides: SmallVec<[isize; 4]> = axes.iter().map(|&axis| op.stride(axis)).collect();
    let order = FoldOrder::new(&sizes, &strides, &|axis| kept[axes[axis]]);
    let places = order.axes.iter().enumerate().filter(|(_, axis)| !kept[axes[**axis]]);
    let described =
        places.map(|(at, &axis)| (axes[axis], sizes[axis], order.chunks[at], order.rows.contains(&at)));
    Steps { leaf: order.leaf, reduced: described.collect() }
}

/// Outputs that are stored in the order in which the lead lies: sums are those of that order, and what is wanted whole is turned. The gradients of the fused
/// `x * y + z`, `x` turned, take 0.08 of the time of walks apart for 6,000 elements with a factor along the middle axis, and 0.6 to 0.75 for 256,000 and 120,000.
pub(super) struct OutputsInOrder {
    pub(super) axes: Reordered,
    order: Axes,
}

impl OutputsInOrder {
    /// `None` if the lead lies as the shape says, or kept axes do not stay in their order.
    pub(super) fn new(operands: &[Operand<'_>], shape: &[usize], goals: &[Goal]) -> Option<OutputsInOrder> {
        let order = order_of_lead(operands, shape, &Dims::from_elem(false, shape.len()))?;
        let stays = |goal: &Goal| order.iter().filter(|axis| goal.kept[**axis]).is_sorted();
        let fits = |goal: &Goal| if goal.kept.contains(&false) { stays(goal) } else { goal.prior.is_none() };
        let axes = Reordered::new(operands, shape, &order);
        goals.iter().all(fits).then_some(OutputsInOrder { axes, order })
    }

    pub(super) fn fold(
        &self,
        fold: Fold,
        elements: &mut Handle,
        shape: &[usize],
        goal: Goal,
    ) -> Result<Tensor> {
        let is_whole = !goal.kept.contains(&false);
        let own = kept_of(shape, &goal.kept);
        let kept: Dims<bool> = reordered(&goal.kept, &self.order).into_iter().collect();
        let prior = match goal.prior {
            Some(prior) => Some(prior.reshape(&kept_of(&self.axes.shape, &kept)[..])?),
            None => None,
        };
        let folded =
            fold_stored(fold, elements, &self.axes.shape, Goal { output: goal.output, kept, prior })?;
        if !is_whole {
            return folded.reshape(&own[..]);
        }
        let mut back: SmallVec<[isize; 4]> = smallvec![0; shape.len()];
        self.order.iter().zip(0..).for_each(|(&axis, place)| back[axis] = place);
        folded.permute(&back[..])?.laid_out(fold.op)
    }
}
