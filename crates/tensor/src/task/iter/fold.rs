//! The fold: a walk whose blocks are folded into accumulators, so that nothing unreduced is ever stored.

use smallvec::{SmallVec, smallvec};

use super::fold_table::{Elements, FoldTable};
use super::order::{FoldOrder, is_in_order};
use super::plan::broadcast_stride;
use super::sink::{Goal, fold_each};
use super::stream::worth_streaming;
use super::walk::write;
use super::{Operand, flat};
use crate::buffer::{Handle, Storage};
use crate::dtype::{BlockMut, DType};
use crate::error::Result;
use crate::kernels::{BlockKernel, doors};
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
        if let (Some(sum), false) = (&mut prior, kept.contains(&false))
            && let Some(computed) = few(kernel, (1, false), operands, shape, fold.dtype)
        {
            doors::add_to(sum.block_mut(), computed[0].block());
            return Ok(prior.expect("borrowed just now"));
        }
        let is_flat = flat::applies(operands, shape);
        let elements = Elements::computed(fold, kernel, operands);
        if let Some(table) = FoldTable::of_many(is_flat, &elements, shape, kept) {
            return table.fold(fold, elements, kept_of(shape, kept), prior);
        }
        if kept.contains(&false)
            && let Some(table) = FoldTable::new(shape, kept, Some(at_once(is_flat)))
            && (is_flat || lie_in_order(operands, shape))
        {
            let mut computed = Storage::scratch(fold.dtype, table.len());
            compute(kernel, operands, shape, is_flat, &mut [computed.block_mut()]);
            return table.fold(fold, Elements::Stored(computed.block()), kept_of(shape, kept), prior);
        }
    } else {
        let table = match operands[0].is_direct(shape) {
            true => FoldTable::new(shape, kept, None),
            false => as_it_lies(&operands[0], shape, kept)
                .and_then(|(shape, kept, step)| FoldTable::apart(&shape, &kept, None, step)),
        };
        if let Some(table) = table {
            let data = operands[0].data.range(operands[0].offset, table.len());
            return table.fold(fold, Elements::Stored(data), kept_of(shape, kept), prior);
        }
    }
    let goal = Goal { output: 0, kept: Dims::from_slice(kept), prior };
    let kernel = kernel.map(|kernel| (kernel, 1));
    let mut results = fold_each(fold, kernel, operands, shape, smallvec![goal])?;
    Ok(results.pop().expect("a result for the goal"))
}

/// All outputs of a kernel, computed at once, without a plan. `None` if they are many, and not wanted whole from operands that lie like
/// them, or lie in another order than that of their sums.
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
    let fits = n <= at_once(is_flat) || are_whole && is_flat && need_no_streaming(operands, n, outputs);
    if n == 0 || !fits || !is_flat && !lie_in_order(operands, shape) {
        return None;
    }
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

fn kept_of(shape: &[usize], kept: &[bool]) -> Shape {
    Shape(shape.iter().zip(kept).filter(|k| *k.1).map(|k| *k.0).collect())
}

/// Whether so many outputs of `n` elements need not be written past the cache.
pub(super) fn need_no_streaming(operands: &[Operand<'_>], n: usize, outputs: usize) -> bool {
    let bytes = |o: &Operand<'_>| if o.is_one() { 0 } else { n.saturating_mul(o.want.size()) };
    let written = outputs.saturating_mul(n).saturating_mul(operands[0].want.size());
    !worth_streaming(operands.iter().map(bytes).sum(), written)
}

/// Whether operands lie in the order in which their results are computed and folded: the first one that moves along all axes does.
fn lie_in_order(operands: &[Operand<'_>], shape: &[usize]) -> bool {
    let axes =
        |o| shape.iter().enumerate().map(move |(i, &size)| (size, broadcast_stride(o, i, shape.len())));
    operands.iter().find_map(|o| is_in_order(axes(o))).unwrap_or(false)
}

/// Blocks of several outputs.
type Outs<'o> = SmallVec<[BlockMut<'o>; 4]>;

fn split_each(outs: Outs<'_>, at: usize) -> (Outs<'_>, Outs<'_>) {
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
    let lay_out = |op: &Operand<'_>| {
        let mut room = Storage::scratch(op.want, n);
        write(None, &[*op], shape, room.block_mut());
        room
    };
    let is_flat = |op: &Operand<'_>| flat::lie_like(std::slice::from_ref(op), shape);
    let laid: SmallVec<[Option<Handle>; 4]> =
        operands.iter().map(|op| (!is_flat(op)).then(|| lay_out(op))).collect();
    let mut flat: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
    for (op, laid) in operands.iter().zip(&laid) {
        flat.push(laid.as_ref().map_or(*op, |laid| Operand::in_order(laid.block(), shape)));
    }
    flat::run(kernel, &flat, 0, outs);
}

/// Elements of a table that is computed in one go and folded while it is in a near cache, what broadcasts laid out: 10,000 of rows of 100,
/// their sum and back to both take 0.75 of the time of a plan, 20,000 take 1.1 of it.
const SMALL_COMPUTED: usize = 12 << 10;

/// Elements that are computed in one go, without a plan, and folded while they are in the second-level cache: where nothing is laid out
/// for that, all that one thread computes.
fn at_once(is_flat: bool) -> usize {
    if is_flat { GRAIN } else { SMALL_COMPUTED }
}

/// The sizes of axes, which are kept, and how far apart what lies together does, where not all does.
type Described = (SmallVec<[usize; 4]>, SmallVec<[bool; 4]>, Option<usize>);

/// The axes of an operand in the order in which they are folded, if its elements lie in that order, and without a gap but for one behind
/// the innermost axes that are all kept or all reduced: those of a transposed one do, mostly, and of a band of columns.
fn as_it_lies(op: &Operand<'_>, shape: &[usize], kept: &[bool]) -> Option<Described> {
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
            found.is_some_and(|(shape, kept, step)| FoldTable::apart(&shape, &kept, None, step).is_some())
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
            assert!(x.softmax(axis).unwrap().numel() == 0);
        }
        assert_eq!(x.sum(..).unwrap().item().unwrap(), 0.0);
    }
}
