//! The fold: a walk whose blocks are folded into accumulators, so that nothing large is stored before it is reduced, but for
//! what is computed of turned operands (`turned.rs`).

use smallvec::{SmallVec, smallvec};

use super::elements::Elements;
use super::fold_table::FoldTable;
use super::order::{FoldOrder, is_in_order};
use super::plan::broadcast_stride;
use super::sink::{Goal, Outputs, fold_each};
use super::straight::LONG_ROW;
use super::stream::worth_streaming;
use super::turned::{Reordered, Straightened, Turned};
use super::{Operand, flat, pieces};
use crate::buffer::{Handle, Storage};
use crate::dtype::{BlockMut, DType};
use crate::error::Result;
use crate::kernels::{BlockKernel, are_added, doors, stays_in_cache};
use crate::shape::{Dims, Shape};
use crate::tensor::Tensor;
use crate::threads::{GRAIN, split_work};

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
    fold: Fold,
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    shape: &[usize],
    kept: &[bool],
    mut prior: Option<Tensor>,
) -> Result<Tensor> {
    if let Some(prior) = &mut prior {
        prior.make_writable(fold.op)?;
    }
    if let Some(kernel) = kernel {
        let goals = std::iter::once((kept, prior.is_some()));
        if let Some((turned, true)) = Reordered::of(operands, shape, goals) {
            let (own, of_own) = (turned.operands(operands), turned.kept(kept));
            let result = self::fold(fold, Some(kernel), &own, &turned.shape, &of_own, prior)?;
            return turned.back(fold.op, kept, result);
        }
        if let Some(straightened) = Straightened::of(operands, shape) {
            return self::fold(fold, Some(kernel), &straightened.operands(operands), shape, kept, prior);
        }
        if let (Some(sum), false) = (&mut prior, kept.contains(&false))
            && let Some(computed) = few(kernel, (1, false), operands, shape, fold.dtype)
        {
            doors::add_to(sum.block_mut(), computed[0].block());
            return Ok(prior.expect("borrowed just now"));
        }
        if let Some((table, elements)) = FoldTable::computed(fold, kernel, operands, shape, kept) {
            return table.fold(fold, elements, kept_of(shape, kept), prior);
        }
        if kept.contains(&false)
            && let Some(computed) = few(kernel, (1, false), operands, shape, fold.dtype)
        {
            let stored = Operand::in_order(computed[0].block(), shape);
            return self::fold(fold, None, &[stored], shape, kept, prior);
        }
    } else {
        let table = match operands[0].is_direct(shape) {
            true => FoldTable::new(shape, kept, None),
            false => as_it_lies(&operands[0], shape, kept)
                .and_then(|(shape, kept, step)| FoldTable::apart(&shape, &kept, step, None)),
        };
        if let Some(table) = table {
            let data = operands[0].data.range(operands[0].offset, table.len());
            return table.fold(fold, Elements::Stored(data), kept_of(shape, kept), prior);
        }
        if prior.is_none()
            && let Some(turned) = Turned::new(&operands[0], shape, kept)
        {
            return turned.fold(fold, &operands[0]);
        }
    }
    let goal = Goal { output: 0, kept: Dims::from_slice(kept), prior };
    let kernel = kernel.map(|kernel| (kernel, 1));
    let mut results = fold_each(fold, kernel, operands, shape, smallvec![goal])?;
    Ok(results.pop().expect("a result for the goal"))
}

/// All outputs of a kernel, computed at once, without a plan, and folded while they are in the second-level cache: all that one thread
/// computes. `None` if they are more, and not wanted whole from operands that lie like them, or lie in another order than that of their
/// sums. Products of 30,000 with a row, a column or a factor along the middle axis, their sum and back take 0.6 to 0.8 of the time of a plan.
///
/// A fused product of [8, 100] with a row, its sum and both gradients take 0.66 of the time.
pub(crate) fn few(
    kernel: &dyn BlockKernel,
    (outputs, are_whole): (usize, bool),
    operands: &[Operand<'_>],
    shape: &[usize],
    dtype: DType,
) -> Option<SmallVec<[Handle; 2]>> {
    let n = shape.iter().fold(1usize, |n, &size| n.saturating_mul(size));
    let is_flat = flat::applies(operands, shape);
    let fits = n <= GRAIN && (is_flat || n <= at_once(kernel, operands, shape, dtype))
        || are_whole && is_flat && need_no_streaming(operands, n, outputs);
    if n == 0 || !fits || !is_flat && !lie_in_order(operands, shape) {
        return None;
    }
    compute_all((kernel, outputs), operands, shape, is_flat, dtype)
}

/// All outputs of a kernel, computed without a plan, and folded where they lie: as long as one stays in the last-level cache. `None` if they
/// do not, or operands lie in another order than that of their sums.
pub(super) fn stored(
    outputs: Outputs<'_>,
    operands: &[Operand<'_>],
    shape: &[usize],
    dtype: DType,
) -> Option<SmallVec<[Handle; 2]>> {
    let n: usize = shape.iter().product();
    let is_flat = flat::applies(operands, shape);
    let fits = stays_in_cache(n.saturating_mul(dtype.size())) && (is_flat || lie_in_order(operands, shape));
    if fits { compute_all(outputs, operands, shape, is_flat, dtype) } else { None }
}

/// All outputs of a kernel, computed without a plan; `None` if there is no memory for them.
pub(super) fn compute_all(
    (kernel, outputs): Outputs<'_>,
    operands: &[Operand<'_>],
    shape: &[usize],
    is_flat: bool,
    dtype: DType,
) -> Option<SmallVec<[Handle; 2]>> {
    let n = shape.iter().product();
    let mut computed: SmallVec<[Handle; 2]> = SmallVec::with_capacity(outputs);
    for _ in 0..outputs {
        computed.push(if n <= GRAIN { Storage::scratch(dtype, n) } else { Storage::stale(dtype, n)? });
    }
    let mut outs = Outs::new();
    computed.iter_mut().for_each(|computed| outs.push(computed.block_mut()));
    compute(kernel, operands, shape, is_flat, &mut outs);
    drop(outs);
    Some(computed)
}

pub(super) fn kept_of(shape: &[usize], kept: &[bool]) -> Shape {
    Shape(shape.iter().zip(kept).filter(|k| *k.1).map(|k| *k.0).collect())
}

/// Whether so many outputs of `n` elements need not be written past the cache.
pub(super) fn need_no_streaming(operands: &[Operand<'_>], n: usize, outputs: usize) -> bool {
    let bytes = |o: &Operand<'_>| if o.is_one() { 0 } else { n.saturating_mul(o.want.size()) };
    let written = outputs.saturating_mul(n).saturating_mul(operands[0].want.size());
    !worth_streaming(operands.iter().map(bytes).sum(), written)
}

/// Whether operands lie in the order in which their results are computed and folded: one that moves along all axes does.
pub(super) fn lie_in_order(operands: &[Operand<'_>], shape: &[usize]) -> bool {
    let axes =
        |o| shape.iter().enumerate().map(move |(i, &size)| (size, broadcast_stride(o, i, shape.len())));
    operands.iter().any(|o| is_in_order(axes(o)) == Some(true))
}

/// Blocks of several outputs.
pub(super) type Outs<'o> = SmallVec<[BlockMut<'o>; 4]>;

pub(super) fn split_each(outs: Outs<'_>, at: usize) -> (Outs<'_>, Outs<'_>) {
    outs.into_iter().map(|out| out.split_at(at)).unzip()
}

/// All results of a kernel at once, row-major. Operands that do not lie like them are laid out.
pub(super) fn compute(
    kernel: &dyn BlockKernel,
    operands: &[Operand<'_>],
    shape: &[usize],
    is_flat: bool,
    outs: &mut [BlockMut<'_>],
) {
    let n = outs[0].len();
    if is_flat {
        if n <= GRAIN {
            return flat::run(kernel, operands, 0, outs);
        }
        let outs: Outs<'_> = outs.iter_mut().map(|out| out.range(0, n)).collect();
        return split_work(n, GRAIN, outs, &split_each, &|start, _, mut outs| {
            flat::run(kernel, operands, start, &mut outs);
        });
    }
    pieces::compute(kernel, operands, shape, outs);
}

/// Elements that are computed without a plan where it has the kernel add what it computes of long rows beside numbers: products of 20 rows
/// of 1,000 with columns, their sum and back take 0.86 of the time by the plan.
const SMALL_COMPUTED: usize = 12 << 10;

/// Elements of operands that do not lie like the result that are computed without a plan.
pub(super) fn at_once(
    kernel: &dyn BlockKernel,
    operands: &[Operand<'_>],
    shape: &[usize],
    dtype: DType,
) -> usize {
    let last = shape.len().saturating_sub(1);
    let is_still = |o: &Operand<'_>| broadcast_stride(o, last, shape.len()) == 0;
    let adds_rows = kernel.sums()
        && are_added(dtype)
        && shape.last().is_some_and(|&cols| cols >= LONG_ROW)
        && operands.iter().all(|o| is_still(o) || o.is_direct(shape));
    if adds_rows { SMALL_COMPUTED } else { usize::MAX }
}

/// The sizes of axes, which are kept, and how far apart what lies together does, where not all does.
pub(super) type Described = (SmallVec<[usize; 4]>, SmallVec<[bool; 4]>, Option<usize>);

/// The axes of an operand in the order in which they are folded, if its elements lie in that order, and without a gap but for one behind
/// the innermost axes that are all kept or all reduced: those of a transposed one do, mostly, and of a band of columns.
pub(super) fn as_it_lies(op: &Operand<'_>, shape: &[usize], kept: &[bool]) -> Option<Described> {
    let elements = shape.iter().fold(1usize, |n, &size| n.saturating_mul(size));
    if elements == 0 || op.shape != shape || op.data.dtype() != op.want || elements > op.data.len() {
        return None;
    }
    let axes: SmallVec<[usize; 4]> = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
    let sizes: SmallVec<[usize; 4]> = axes.iter().map(|&axis| shape[axis]).collect();
    let strides: SmallVec<[isize; 4]> = axes.iter().map(|&axis| op.stride(axis)).collect();
    let order = FoldOrder::new(&sizes, &strides, &|axis| kept[axes[axis]]).axes;
    let (mut next, mut step) = (1, None);
    for (k, &axis) in order.iter().enumerate().rev() {
        if strides[axis] != next {
            let inner = &order[k + 1..];
            let is_whole = inner.iter().all(|&i| kept[axes[i]] != kept[axes[axis]]);
            if step.is_some() || inner.is_empty() || !is_whole || strides[axis] < next {
                return None;
            }
            step = Some(strides[axis] as usize);
            next = strides[axis];
        }
        next *= sizes[axis] as isize;
    }
    Some((order.iter().map(|&a| sizes[a]).collect(), order.iter().map(|&a| kept[axes[a]]).collect(), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of channels and those of a band need no plan; those of small planes, and of bands that are folded whole, have one.
    #[test]
    fn layers_and_bands_are_tables() {
        let is_table = |x: &Tensor, kept: &[bool]| {
            let found = as_it_lies(&Operand::new(x, x.dtype()), x.shape(), kept);
            found.is_some_and(|(shape, kept, step)| FoldTable::apart(&shape, &kept, step, None).is_some())
        };
        let images = Tensor::ones([70, 32, 7, 7]);
        assert!(is_table(&images, &[false, true, false, false]));
        assert!(!is_table(&images.narrow(1, 0, 5).unwrap(), &[false, true, false, false]));
        let band = Tensor::ones([300, 64]).narrow(1, 5, 48).unwrap();
        assert!(is_table(&band, &[false, true]) && is_table(&band, &[true, false]));
        assert!(!is_table(&band, &[false, false]));
        assert!(!is_table(&band.narrow(1, 0, 5).unwrap(), &[false, true]), "rows abreast are a run");
    }

    /// Strides of nothing may look like those of something.
    #[test]
    fn folds_of_nothing_in_another_order() {
        let x = Tensor::zeros([4, 0, 4, 1, 4]).transpose(0, 2).unwrap().transpose(1, 4).unwrap();
        for axis in 0..5 {
            let sum = x.sum(axis).unwrap();
            assert_eq!(sum, Tensor::zeros(sum.shape()));
            assert!(x.amax(axis).is_ok() == (x.shape()[axis] != 0));
            assert!(x.argmax(axis).is_ok() == (x.shape()[axis] != 0));
            assert!(x.softmax(axis).unwrap().numel() == 0);
        }
        assert_eq!(x.sum(..).unwrap().item().unwrap(), 0.0);
    }
}
