//! The fold: a walk whose blocks are folded into accumulators, so that nothing unreduced is ever stored.
//!
//! Note [The tree of a sum]
//! A result is folded in three layers. A run of up to 1,024 elements goes through 64 lanes and a tree over the lanes;
//! where the innermost axis is kept, 8 rows are folded into each other by a tree, element by element. What comes out
//! is added to a *wide* accumulator (f64 for f32; a pair of f64 with the error of each addition for f64), so that the
//! error does not grow with the length. Large walks are cut into parts at places that depend on the plan alone, and
//! the parts' wide accumulators are merged in order. Threads only decide who computes a part.

use smallvec::{SmallVec, smallvec};

use super::joint::{Kind, Target, Walk};
use super::plan::{Axis, Plan};
use super::reducer::{Max, Min, Prod, Reducer, Sum};
use super::{Operand, flat};
use crate::buffer::Storage;
use crate::create::{checked_len, room_for};
use crate::dtype::{Block, BlockMut, DType};
use crate::error::Result;
use crate::kernels::BlockKernel;
use crate::kernels::folds::{self, Table};
use crate::shape::Shape;
use crate::tensor::{Layout, Tensor};

/// The foldings there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduce {
    Sum,
    Prod,
    Max,
    Min,
}

/// A folding in the name of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Fold {
    pub(crate) op: &'static str,
    pub(crate) reduce: Reduce,
    /// the type of the operands, the kernel and the result
    pub(crate) dtype: DType,
}

/// Folds a kernel's results over the axes of `shape` that are not `kept`. Without a kernel, the only operand itself.
///
/// The result has the kept axes, row-major; with stride 0 where no operand moves. A sum is added to `prior`, a tensor of
/// the result's shape (without the reduced axes) whose memory is used again if nobody else holds it.
pub(crate) fn fold(
    Fold { op, reduce, dtype }: Fold,
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    shape: &[usize],
    kept: &[bool],
    mut prior: Option<Tensor>,
) -> Result<Tensor> {
    if let Some(prior) = &mut prior {
        prior.make_writable(op)?;
    }
    let result = Shape(shape.iter().zip(kept).filter(|k| *k.1).map(|k| *k.0).collect());
    if reduce == Reduce::Sum
        && let Some(table) = SmallTable::new(shape, kept)
        && operands_fit(kernel, operands, shape)
    {
        return Ok(table.sum(kernel, operands, result, dtype, prior));
    }
    let plan = Plan::new(shape, operands, &|i| kept[i], prior.is_none());
    let empty = shape.contains(&0);
    let n =
        if empty { result.numel() } else { plan.axes.iter().filter(|a| a.kept).map(|a| a.size).product() };
    let axes = if empty { SmallVec::new() } else { arrange(plan.axes) };
    let walk = Walk { kernel, operands, axes, repeats: plan.repeats };
    if let Some(mut prior) = prior {
        debug_assert_eq!(prior.shape(), &result);
        dispatch(reduce, &walk, empty, prior.block_mut(), Kind::FoldOnto);
        return Ok(prior);
    }
    checked_len(op, &result, dtype)?;
    let mut storage = room_for(op, &result, n, dtype)?;
    dispatch(reduce, &walk, empty, storage.block_mut(), Kind::Fold);
    if empty {
        return Ok(Tensor::from_storage(storage, result));
    }
    let still: SmallVec<[bool; 4]> = plan.still.iter().zip(kept).filter(|s| *s.1).map(|s| *s.0).collect();
    Ok(Tensor { storage, layout: Layout::with_still_axes(result, &still) })
}

/// A small shape seen as a table of rows and columns, one of which is reduced: no plan, no parts.
struct SmallTable {
    rows: usize,
    cols: usize,
    /// whether each row is summed, or each column
    by_row: bool,
}

/// Elements of a table that is worth no plan.
const SMALL_TABLE: usize = 4096;

impl SmallTable {
    fn new(shape: &[usize], kept: &[bool]) -> Option<SmallTable> {
        let (mut outer, mut inner) = (1, 1);
        let (mut first, mut last) = (None, None);
        for (&size, &kept) in shape.iter().zip(kept).filter(|s| *s.0 != 1) {
            match (first, last) {
                (None, _) => (first, outer) = (Some(kept), size),
                (Some(f), None) if f == kept => outer *= size,
                (_, None) => (last, inner) = (Some(kept), size),
                (_, Some(l)) if l == kept => inner *= size,
                _ => return None,
            }
        }
        let n = outer * inner;
        match (first?, last) {
            _ if n == 0 || n > SMALL_TABLE => None,
            (true, None) => None,
            (true, _) => Some(SmallTable { rows: outer, cols: inner, by_row: true }),
            (false, None) => Some(SmallTable { rows: 1, cols: outer, by_row: true }),
            (false, _) => Some(SmallTable { rows: outer, cols: inner, by_row: false }),
        }
    }

    /// The sums, onto `prior`, which is writable, if there is one. The operands fit, see [`operands_fit`].
    fn sum(
        &self,
        kernel: Option<&dyn BlockKernel>,
        operands: &[Operand<'_>],
        result: Shape,
        dtype: DType,
        prior: Option<Tensor>,
    ) -> Tensor {
        let n = self.rows * self.cols;
        let mut computed = Storage::scratch(dtype, if kernel.is_some() { n } else { 0 });
        let values = match kernel {
            Some(kernel) => {
                flat::map(kernel, operands, computed.block_mut());
                computed.block()
            }
            None => operands[0].data.range(operands[0].offset, n),
        };
        let onto = prior.is_some();
        let sums = if self.by_row { self.rows } else { self.cols };
        let mut sum = prior.unwrap_or_else(|| Tensor::from_storage(Storage::scratch(dtype, sums), result));
        match (values, sum.block_mut()) {
            (Block::F32(x), BlockMut::F32(out)) => self.run::<Sum<f32>>(x, out, onto),
            (Block::F64(x), BlockMut::F64(out)) => self.run::<Sum<f64>>(x, out, onto),
            (Block::I64(x), BlockMut::I64(out)) => self.run::<Sum<i64>>(x, out, onto),
            _ => unreachable!("sums are planned in one type of number"),
        }
        sum
    }

    fn run<R: Reducer>(&self, x: &[R::T], out: &mut [R::T], onto: bool) {
        let mut wide: SmallVec<[R::Acc; 64]> = SmallVec::from_elem(R::START, out.len());
        let table = Table { data: x, start: 0, rows: self.rows, step: self.cols as isize, cols: self.cols };
        if self.by_row {
            folds::fold_lines::<R>(&mut wide, 1, table);
        } else {
            folds::fold_columns::<R>(&mut wide, table);
        }
        for (o, &acc) in out.iter_mut().zip(&wide) {
            let v = R::finish(acc);
            *o = if onto { R::combine(*o, v) } else { v };
        }
    }
}

/// Whether the elements of a small table lie in order, or can be computed in order.
fn operands_fit(kernel: Option<&dyn BlockKernel>, operands: &[Operand<'_>], shape: &[usize]) -> bool {
    match kernel {
        Some(_) => flat::applies(operands, shape),
        None => operands[0].is_direct(shape),
    }
}

/// Runs the walk with the reducer of this folding and element type.
fn dispatch(reduce: Reduce, walk: &Walk<'_>, empty: bool, out: BlockMut<'_>, kind: Kind) {
    match (reduce, out) {
        (Reduce::Sum, BlockMut::F32(o)) => run::<Sum<f32>>(walk, empty, o, kind),
        (Reduce::Sum, BlockMut::F64(o)) => run::<Sum<f64>>(walk, empty, o, kind),
        (Reduce::Sum, BlockMut::I64(o)) => run::<Sum<i64>>(walk, empty, o, kind),
        (Reduce::Prod, BlockMut::F32(o)) => run::<Prod<f32>>(walk, empty, o, kind),
        (Reduce::Prod, BlockMut::F64(o)) => run::<Prod<f64>>(walk, empty, o, kind),
        (Reduce::Prod, BlockMut::I64(o)) => run::<Prod<i64>>(walk, empty, o, kind),
        (Reduce::Max, BlockMut::F32(o)) => run::<Max<f32>>(walk, empty, o, kind),
        (Reduce::Max, BlockMut::F64(o)) => run::<Max<f64>>(walk, empty, o, kind),
        (Reduce::Max, BlockMut::I64(o)) => run::<Max<i64>>(walk, empty, o, kind),
        (Reduce::Min, BlockMut::F32(o)) => run::<Min<f32>>(walk, empty, o, kind),
        (Reduce::Min, BlockMut::F64(o)) => run::<Min<f64>>(walk, empty, o, kind),
        (Reduce::Min, BlockMut::I64(o)) => run::<Min<i64>>(walk, empty, o, kind),
        (_, BlockMut::Bool(_)) => unreachable!("booleans are folded as integers"),
    }
}

fn run<R: Reducer>(walk: &Walk<'_>, empty: bool, out: &mut [R::T], kind: Kind) {
    if !empty {
        return walk.run::<R>(smallvec![Target { out, kind }]);
    }
    let nothing = R::finish(R::START);
    for o in out {
        *o = if kind == Kind::FoldOnto { R::combine(*o, nothing) } else { nothing };
    }
}

/// Planes smaller than this are made larger if another axis can help.
const SMALL_PLANE: usize = 512;

/// The order in which a single target's axes are walked, with the steps of its accumulators appended.
///
/// Results keep their order, reduced axes may stand anywhere: they are put where memory is read from front to back.
fn arrange(mut axes: SmallVec<[Axis; 4]>) -> SmallVec<[Axis; 4]> {
    let mut step = 1isize;
    for axis in axes.iter_mut().rev() {
        axis.steps.push(if axis.kept { step } else { 0 });
        step *= if axis.kept { axis.size as isize } else { 1 };
    }
    let (kept, mut reduced): (SmallVec<[Axis; 4]>, SmallVec<[Axis; 4]>) =
        axes.into_iter().partition(|a| a.kept);
    reduced.sort_by_key(|a| std::cmp::Reverse(reach(a)));
    let mut order: SmallVec<[Axis; 4]> = SmallVec::new();
    let mut reduced = reduced.into_iter().peekable();
    for axis in kept {
        while let Some(r) = reduced.next_if(|r| reach(r) > reach(&axis)) {
            push_merged(&mut order, r);
        }
        push_merged(&mut order, axis);
    }
    reduced.for_each(|r| push_merged(&mut order, r));
    // Rows that are folded into each other are the best to have; a tiny plane is the worst.
    let n = order.len();
    if n > 2 {
        let both_kept = order[n - 1].kept && order[n - 2].kept;
        if both_kept || order[n - 1].size * order[n - 2].size < SMALL_PLANE {
            let best = (0..n - 2).filter(|&i| !order[i].kept).max_by_key(|&i| order[i].size);
            if let Some(i) = best.filter(|&i| both_kept || order[i].size > order[n - 2].size) {
                let axis = order.remove(i);
                order.insert(n - 2, axis);
            }
        }
    }
    order
}

/// Adds an axis, merged into the one before where everything steps over both alike.
fn push_merged(axes: &mut SmallVec<[Axis; 4]>, axis: Axis) {
    if let Some(outer) = axes.last_mut()
        && outer.kept == axis.kept
        && outer.steps.iter().zip(&axis.steps).all(|(&o, &i)| o == i * axis.size as isize)
    {
        outer.size *= axis.size;
        outer.steps = axis.steps;
        return;
    }
    axes.push(axis);
}

/// How far an operand at most moves along an axis.
fn reach(a: &Axis) -> usize {
    let operands = &a.steps[..a.steps.len() - 1];
    operands.iter().map(|s| s.unsigned_abs()).max().unwrap_or(0)
}
