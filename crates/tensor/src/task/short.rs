//! The short way of small tasks over tensors of one shape and of the types that are wanted: the blocks go to the kernel
//! as they are, nothing is planned.

use super::{Does, Read, Space, Task, To};
use crate::buffer::Storage;
use crate::dtype::{Block, DType};
use crate::error::Result;
use crate::kernels::doors;
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::threads::GRAIN;

/// What most tasks read at most.
const FEW: usize = 4;

/// The result of a task that makes one tensor of others that lie alike. `None` if nothing has happened.
#[inline(always)]
pub(super) fn alike(task: &mut Task<'_, '_>) -> Option<Result<Tensor>> {
    let kernel = match (&task.does, &*task.to) {
        (Does::Blocks(kernel), [To::New(_) | To::Sum { .. }]) => Some(*kernel),
        (Does::Same, [To::Sum { .. }]) => None,
        _ => return None,
    };
    let [Read::Tensor(first, own), ..] = task.reads else { return None };
    let (shape, n) = (first.shape(), first.numel());
    let elsewhere = matches!(task.space, Space::Of(space) if space != shape);
    if n == 0 || n > GRAIN || task.reads.len() > FEW || elsewhere {
        return None;
    }
    let mut blocks = [Block::Bool(&[]); FEW];
    for (block, read) in blocks.iter_mut().zip(task.reads) {
        let Read::Tensor(t, want) = *read else { return None };
        if !lies_like(t, shape, want) {
            return None;
        }
        *block = t.storage.block().range(t.layout.offset, n);
    }
    let blocks = &blocks[..task.reads.len()];
    match (&mut *task.to, kernel) {
        ([To::New(dtype)], Some(kernel)) => {
            let mut storage = Storage::scratch(*dtype, n);
            kernel.run(blocks, &mut [storage.block_mut()]);
            Some(Ok(Tensor::from_storage(storage, shape.clone())))
        }
        ([To::Sum { shape: target, dtype, prior }], _) if *target == shape && dtype == own => {
            if prior.as_ref().is_some_and(|prior| !lies_like(prior, shape, *dtype)) {
                return None;
            }
            let Some(kernel) = kernel else {
                return prior.take().map(|prior| onto(task.op, prior, blocks[0]));
            };
            let mut storage = Storage::scratch(*dtype, n);
            kernel.run(blocks, &mut [storage.block_mut()]);
            Some(match prior.take() {
                None => Ok(Tensor::from_storage(storage, shape.clone())),
                Some(prior) => onto(task.op, prior, storage.block()),
            })
        }
        _ => None,
    }
}

/// Whether a tensor lies in order, in this shape and type.
#[inline(always)]
fn lies_like(t: &Tensor, shape: &Shape, dtype: DType) -> bool {
    t.dtype() == dtype && t.layout.shape == *shape && t.is_contiguous()
}

/// A tensor with a block of its size and type added to it.
#[inline]
fn onto(op: &'static str, mut sum: Tensor, block: Block<'_>) -> Result<Tensor> {
    sum.make_writable(op)?;
    doors::add_to(sum.block_mut(), block);
    Ok(sum)
}
