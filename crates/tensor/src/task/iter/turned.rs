//! Folds of operands whose axes are turned: in the order in which they lie, of which the results are turned, or the axes before; or laid out at once, beside a lead
//! that is not turned.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::elements::Elements;
use super::fold::{as_it_lies, kept_of, lie_in_order};
use super::fold_table::FoldTable;
use super::order::{FirstSums, FoldOrder, is_in_order};
use super::plan::{Plan, broadcast_stride};
use super::walk::lay_out_all;
use super::{Fold, Operand};
use crate::buffer::{Handle, Storage};
use crate::error::Result;
use crate::shape::{Dims, Shape};
use crate::tensor::{Tensor, is_row_major};
use crate::threads::GRAIN;

type Axes = SmallVec<[usize; 4]>;
type Strides = SmallVec<[isize; 4]>;

/// The axes in the order in which the first operand that moves along all of them lies, and that operand, if none of these lies in that of the
/// shape.
fn order_of_lead<'o, 'a>(operands: &'o [Operand<'a>], shape: &[usize]) -> Option<(Axes, &'o Operand<'a>)> {
    let is_direct = operands.first().is_some_and(|o| o.is_direct(shape));
    if is_direct || shape.contains(&0) || lie_in_order(operands, shape) {
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
    let mut order: Axes = (0..shape.len()).collect();
    order.sort_by_key(|&axis| Reverse(reach[axis]));
    Some((order, lead))
}

/// Operands of a shape whose axes are in another order.
pub(super) struct Reordered {
    pub(super) shape: Axes,
    order: Axes,
    /// of each operand, sizes and strides
    own: SmallVec<[(Axes, Strides); 4]>,
}

impl Reordered {
    fn new(operands: &[Operand<'_>], shape: &[usize], order: Axes) -> Reordered {
        let rank = shape.len();
        let own = operands.iter().map(|o| {
            let size = |axis: usize| (axis + o.shape.len()).checked_sub(rank).map_or(1, |own| o.shape[own]);
            let sizes = order.iter().map(|&axis| size(axis)).collect();
            (sizes, order.iter().map(|&axis| broadcast_stride(o, axis, rank)).collect())
        });
        let own = own.collect();
        Reordered { shape: order.iter().map(|&axis| shape[axis]).collect(), order, own }
    }

    /// The order in which the lead lies, and whether results of these kept axes, beside whether there is a prior, are the same in it (Note [The order of a sum]);
    /// without a prior their axes may be in another order, too, and are turned. The fused sum of a product of [300, 5, 4] or [5, 32, 50, 32] whose
    /// first operand is turned takes half of the time.
    pub(super) fn of<'k>(
        operands: &[Operand<'_>],
        shape: &[usize],
        mut goals: impl Iterator<Item = (&'k [bool], bool)>,
    ) -> Option<(Reordered, bool)> {
        let (order, lead) = order_of_lead(operands, shape)?;
        let fits = |(kept, has_prior): (&[bool], bool)| {
            let stays = order.iter().filter(|axis| kept[**axis]).is_sorted();
            stays || !has_prior && (!kept.contains(&false) || folds_alike(lead, shape, kept, &order))
        };
        let are_same = goals.all(fits);
        Some((Reordered::new(operands, shape, order), are_same))
    }

    /// What lies in the new order, seen in the order of the shape: folded, it has the bits that it has beside the lead.
    pub(super) fn seen(&self, elements: Handle) -> Tensor {
        Tensor::from_storage(elements, Shape::from(&self.shape[..])).put_back(&self.order)
    }

    /// Which axes are kept, in the new order.
    pub(super) fn kept(&self, kept: &[bool]) -> Dims<bool> {
        self.order.iter().map(|&axis| kept[axis]).collect()
    }

    /// A result of these kept axes, seen in the order of the shape. What has all axes stays as it lies.
    pub(super) fn back(&self, op: &'static str, kept: &[bool], result: Tensor) -> Result<Tensor> {
        let lying: Axes = self.order.iter().copied().filter(|&axis| kept[axis]).collect();
        let back = result.put_back(&lying);
        if kept.contains(&false) { back.laid_out(op) } else { Ok(back) }
    }

    pub(super) fn operands<'a>(&'a self, operands: &[Operand<'a>]) -> SmallVec<[Operand<'a>; 4]> {
        let one = |(o, (shape, strides)): (&Operand<'a>, &'a (Axes, Strides))| Operand {
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
        let [wanted, found] = [&axes, &lying].map(|axes| steps(op, shape, axes, kept));
        let told = wanted.of_columns(&found).map(|segment| (wanted.leaf, segment));
        if told.is_none() && wanted != found {
            return None;
        }
        let sizes: Axes = lying.iter().map(|&axis| shape[axis]).collect();
        let strides: Strides = lying.iter().map(|&axis| op.stride(axis)).collect();
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
        folded.put_back(&self.kept).laid_out(fold.op)?.reshape(&self.result[..])
    }
}

/// Whether results that a lead tells the order of have the same bits with its axes in another order.
fn folds_alike(lead: &Operand<'_>, shape: &[usize], kept: &[bool], order: &[usize]) -> bool {
    let own = |axes: &mut dyn Iterator<Item = usize>| axes.filter(|&axis| shape[axis] != 1).collect::<Axes>();
    let [wanted, found] = [own(&mut (0..shape.len())), own(&mut order.iter().copied())]
        .map(|axes| steps(lead, shape, &axes, kept));
    wanted == found
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
fn steps(lead: &Operand<'_>, shape: &[usize], axes: &[usize], kept: &[bool]) -> Steps {
    let sizes: Axes = axes.iter().map(|&axis| shape[axis]).collect();
    let strides: Strides = axes.iter().map(|&axis| broadcast_stride(lead, axis, shape.len())).collect();
    let order = FoldOrder::new(&sizes, &strides, &|axis| kept[axes[axis]]);
    let places = order.axes.iter().enumerate().filter(|(_, axis)| !kept[axes[**axis]]);
    let described =
        places.map(|(at, &axis)| (axes[axis], sizes[axis], order.chunks[at], order.rows.contains(&at)));
    Steps { leaf: order.leaf, reduced: described.collect() }
}

/// Operands that are turned beside a lead that is not: each laid out at once, where a walk would lay it out block by block. Fused sums of 90,000 to 450,000
/// elements take 0.15 to 0.6 of the time, of 2 to 12 million 0.06 to 0.8, their gradients 0.2 to 0.66.
pub(super) struct Straightened(SmallVec<[Option<(Handle, Strides)>; 4]>);

impl Straightened {
    /// `None` where none is turned, or they are few, for which there is a shorter way; and where there is no memory for it.
    pub(super) fn of(operands: &[Operand<'_>], shape: &[usize]) -> Option<Straightened> {
        let n = shape.iter().fold(1usize, |n, &size| n.saturating_mul(size));
        if n <= GRAIN || !lie_in_order(operands, shape) {
            return None;
        }
        let (mut all, mut is_any) = (SmallVec::new(), false);
        for o in operands {
            let axes = Plan::new(o.shape, std::slice::from_ref(o), true).axes;
            let own: usize = axes.iter().map(|axis| axis.size).product();
            let is_turned = is_in_order(axes.iter().map(|axis| (axis.size, axis.steps[0]))) == Some(false);
            if !is_turned {
                all.push(None);
                continue;
            }
            let (mut strides, mut len) = (SmallVec::from_elem(0, o.shape.len()), 1);
            for axis in (0..o.shape.len()).rev().filter(|&axis| o.stride(axis) != 0) {
                strides[axis] = len as isize;
                len *= o.shape[axis];
            }
            let mut storage = Storage::stale(o.want, own)?;
            lay_out_all(&axes, std::slice::from_ref(o), storage.block_mut());
            (_, is_any) = (all.push(Some((storage, strides))), true);
        }
        is_any.then_some(Straightened(all))
    }

    pub(super) fn operands<'a>(&'a self, operands: &[Operand<'a>]) -> SmallVec<[Operand<'a>; 4]> {
        let one = |(o, laid_out): (&Operand<'a>, &'a Option<(Handle, Strides)>)| match laid_out {
            None => *o,
            Some((storage, strides)) => Operand {
                data: storage.block(),
                offset: 0,
                strides: Some(strides),
                row_major: is_row_major(o.shape, strides),
                ..*o
            },
        };
        operands.iter().zip(&self.0).map(one).collect()
    }
}
