//! The short way of small tasks over tensors of one shape and of the types that are wanted: the blocks go to the kernel
//! as they are, nothing is planned.
//!
//! Who pays for it (one thread, a processor with AVX-512): by [`ReadAlike`] the backward pass of W8 takes 0.61 of the time, by
//! [`with_repeats`] a product of ten elements with a number 123 ns and not 191, with a tensor without axes 108 ns and not 226,
//! a product of ten elements, its sum and back 0.87 of the instructions (the gradient of a sum is a number); by
//! [`in_place`] a number added to a thousand elements 151 ns and not 249.

use smallvec::SmallVec;

use super::iter::{BLOCK, Blocks, LEAST_ADDED, Operand, ScalarCell, few, repeat};
use super::{Does, Read, Space, Task, To, blocks};
use crate::buffer::{Handle, Storage};
use crate::dtype::{Block, BlockMut, DType};
use crate::error::Result;
use crate::kernels::{BlockKernel, are_added, doors};
use crate::meant::Meant;
use crate::ops::warning::are_broadcasts_checked;
use crate::shape::{Shape, expands_to};
use crate::tensor::{Layout, Tensor, is_one};
use crate::threads::GRAIN;

/// What most tasks read at most.
const FEW: usize = 4;

/// Adds a small tensor to one that lies like it and that nobody else holds, where that lies. Whether it has been done.
#[inline]
pub fn added(sum: &mut Tensor, t: &Tensor) -> bool {
    let is_small = (1..=GRAIN).contains(&t.numel()) && t.dtype().is_float();
    let can = is_small && sum.is_writable_in_place() && lies_like(t, sum.shape(), sum.dtype());
    if can {
        doors::add_to(sum.block_mut(), elements(t));
    }
    can
}

/// Adds what a kernel computes of small tensors to one that lies like them and that nobody else holds, where that lies. Whether
/// it has been done. The backward pass of W8 moves no gradient for it, where it is the second one of a leaf.
#[inline]
pub fn folded(kernel: &dyn BlockKernel, reads: &[&Tensor], sum: &mut Tensor) -> bool {
    let (n, dtype) = (sum.numel(), sum.dtype());
    let alike = || reads.iter().all(|t| lies_like(t, sum.shape(), dtype));
    let can =
        (1..=GRAIN).contains(&n) && (1..=FEW).contains(&reads.len()) && sum.is_writable_in_place() && alike();
    let can = can && kernel.arity().is_none_or(|arity| arity == (reads.len(), 1));
    if can {
        let mut blocks = [Block::Bool(&[]); FEW];
        blocks.iter_mut().zip(reads).for_each(|(block, t)| *block = elements(t));
        let mut storage = Storage::scratch(dtype, n);
        kernel.run(&blocks[..reads.len()], &mut [storage.block_mut()]);
        doors::add_to(sum.block_mut(), storage.block());
    }
    can
}

/// All outputs of a kernel over few elements, in the shape and type of the first tensor, which the others expand to; over more where
/// they are wanted whole. `None` if nothing has happened.
pub fn computed(
    kernel: &dyn BlockKernel,
    reads: &[&Tensor],
    (outputs, are_whole): (usize, bool),
) -> Option<SmallVec<[Tensor; 2]>> {
    let (shape, dtype) = (reads.first()?.shape(), reads[0].dtype());
    let fit =
        reads.iter().all(|t| t.dtype() == dtype && (t.shape() == shape || expands_to(t.shape(), shape)));
    if !fit || !dtype.is_float() || kernel.arity().is_some_and(|arity| arity != (reads.len(), outputs)) {
        return None;
    }
    let computed = match of_a_block(kernel, reads, outputs, shape) {
        Some(computed) => computed,
        None => {
            let mut operands: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
            reads.iter().for_each(|t| operands.push(Operand::new(t, dtype)));
            few(kernel, (outputs, are_whole), &operands, shape, dtype)?
        }
    };
    let mut tensors = SmallVec::with_capacity(outputs);
    computed.into_iter().for_each(|storage| tensors.push(Tensor::from_storage(storage, shape.clone())));
    Some(tensors)
}

/// All outputs of a kernel over a block at most, beside numbers and rows, in the order of the first tensor that lies so. The fused `x * y + z` of
/// [10, 10] with two rows, forward and back, takes 0.95 of the instructions.
fn of_a_block(
    kernel: &dyn BlockKernel,
    tensors: &[&Tensor],
    outputs: usize,
    shape: &Shape,
) -> Option<SmallVec<[Handle; 2]>> {
    let mut reads: SmallVec<[Read<'_>; FEW]> = SmallVec::new();
    tensors.iter().for_each(|t| reads.push(Read::Tensor(t, t.dtype())));
    if !tensors.iter().any(|t| lies_in(t, shape)) || !are_small_and_alike(&reads, shape) {
        return None;
    }
    let repeats = RepeatedReads::of(kernel, &reads, shape);
    let blocks = repeats.beside(None, &reads, shape);
    let mut computed = SmallVec::new();
    (0..outputs).for_each(|_| computed.push(Storage::scratch(tensors[0].dtype(), shape.numel())));
    let mut outs: SmallVec<[BlockMut<'_>; FEW]> = SmallVec::new();
    computed.iter_mut().for_each(|storage: &mut Handle| outs.push(storage.block_mut()));
    kernel.run(&blocks, &mut outs);
    drop(outs);
    Some(computed)
}

/// What a task that makes one tensor of others reads, which lie alike, and where the result goes.
pub(super) struct ReadAlike<'a> {
    kernel: &'a dyn BlockKernel,
    blocks: [Block<'a>; FEW],
    count: usize,
    /// how many elements each has
    n: usize,
    shape: &'a Shape,
    dtype: DType,
    meant: Meant,
}

impl<'a> ReadAlike<'a> {
    /// `None` where a task is not of that kind.
    #[inline(always)]
    pub(super) fn of(task: &Task<'a, '_>) -> Option<ReadAlike<'a>> {
        ReadAlike::to::<false>(task, ReadAlike::whole)
    }

    /// The same where one of two is a number that is expanded, as the gradient of a sum is, and the kernel takes it so: `(x * w).sum()` of ten elements
    /// and back takes 0.92 of the time that it takes by [`with_repeats`].
    #[inline(never)]
    pub(super) fn beside_a_number(task: &Task<'a, '_>) -> Option<ReadAlike<'a>> {
        ReadAlike::to::<true>(task, ReadAlike::whole)
    }

    /// A result that is not summed.
    #[inline(always)]
    fn whole(to: &To<'_>, shape: &Shape, own: DType) -> Option<(DType, bool)> {
        match to {
            To::New(dtype) => Some((*dtype, true)),
            To::Sum { shape: target, dtype, prior: None } if *target == shape && *dtype == own => {
                Some((own, false))
            }
            _ => None,
        }
    }

    /// What a task reads that sums what it computes of it, and stores that first.
    pub(super) fn of_sum(task: &Task<'a, '_>) -> Option<ReadAlike<'a>> {
        let alike = ReadAlike::to::<false>(task, |to, shape, own| match to {
            To::Sum { shape: target, .. } if *target != shape => Some((own, false)),
            _ => None,
        })?;
        let is_added = alike.n >= LEAST_ADDED && alike.kernel.sums() && are_added(alike.dtype);
        (!is_added).then_some(alike)
    }

    /// The same where a result goes to a place that `makes` something: of which type, and whether it has the axes that are meant.
    #[inline(always)]
    fn to<const NUMBER: bool>(
        task: &Task<'a, '_>,
        makes: impl FnOnce(&To<'_>, &Shape, DType) -> Option<(DType, bool)>,
    ) -> Option<ReadAlike<'a>> {
        let (Does::Blocks(kernel), [to]) = (&task.does, &*task.to) else { return None };
        let [Read::Tensor(first, own), ..] = task.reads else { return None };
        let (shape, n) = (first.shape(), first.numel());
        let elsewhere = matches!(task.space, Space::Of(space) if space != shape);
        if n == 0 || n > GRAIN || task.reads.len() > FEW || elsewhere {
            return None;
        }
        let (dtype, carries) = makes(to, shape, *own)?;
        let mut blocks = [Block::Bool(&[]); FEW];
        let mut meant = Meant::NONE;
        let mut numbers = 0;
        for (block, read) in blocks.iter_mut().zip(task.reads) {
            let Read::Tensor(t, want) = *read else { return None };
            let count = if lies_like(t, shape, want) {
                n
            } else if NUMBER
                && t.dtype() == want
                && t.shape() == shape
                && is_one(shape, t.layout.own_strides())
            {
                numbers += 1;
                1
            } else {
                return None;
            };
            meant = meant | t.layout.meant;
            *block = t.storage.block().range(t.layout.offset(), count);
        }
        if NUMBER && (numbers != 1 || task.reads.len() != 2 || n > BLOCK || !kernel.takes_a_number()) {
            return None;
        }
        let meant = if carries { meant } else { Meant::NONE };
        Some(ReadAlike { kernel: *kernel, blocks, count: task.reads.len(), n, shape, dtype, meant })
    }

    /// The result. Put together where it is handed out, not moved there.
    #[inline(always)]
    pub(super) fn make(self) -> Tensor {
        let mut layout = Layout::row_major(self.shape.clone());
        layout.meant = self.meant;
        let mut storage = Storage::scratch(self.dtype, self.n);
        self.kernel.run(&self.blocks[..self.count], &mut [storage.block_mut()]);
        Tensor { storage, layout }
    }
}

/// The sum of what has been computed, which is in the cache.
#[inline(never)]
pub(super) fn summed(op: &'static str, t: Tensor, to: &mut [To<'_>]) -> Result<Tensor> {
    blocks::make(op, None, &[Read::Tensor(&t, t.dtype())], t.shape(), to)
}

/// A kernel over numbers, rows and tensors that lie alike, of a block at most. A tensor whose elements share one place, such as the gradient of
/// a sum, is a number, too.
pub(super) fn with_repeats(
    kernel: &dyn BlockKernel,
    reads: &[Read<'_>],
    space: Space<'_>,
    op: &'static str,
    to: &mut [To<'_>],
) -> Option<Result<Tensor>> {
    let in_order = reads.iter().filter_map(|read| match read {
        Read::Tensor(t, _) if t.is_contiguous() => Some(t.shape()),
        _ => None,
    });
    let shape = in_order.max_by_key(|shape| (shape.rank(), shape.numel()))?;
    if matches!(space, Space::Of(space) if space != shape) || !are_small_and_alike(reads, shape) {
        return None;
    }
    let (dtype, meant, is_summed) = match (&*to, reads[0]) {
        ([To::New(dtype)], _) => (*dtype, Meant::carried(reads, shape), false),
        ([To::Sum { shape: target, dtype, prior: None }], Read::Tensor(_, own))
            if *target == shape && own == *dtype =>
        {
            (own, Meant::NONE, false)
        }
        ([To::Sum { shape: target, .. }], Read::Tensor(_, own)) if *target != shape => {
            (own, Meant::NONE, true)
        }
        _ => return None,
    };
    let repeats = RepeatedReads::of(kernel, reads, shape);
    let blocks = repeats.beside(None, reads, shape);
    let mut storage = Storage::scratch(dtype, shape.numel());
    kernel.run(&blocks, &mut [storage.block_mut()]);
    let computed = Tensor::from_storage(storage, shape.clone());
    Some(if is_summed { summed(op, computed, to) } else { Ok(computed.with_meant(meant)) })
}

/// A kernel over a tensor of a block at most that nobody else holds, and others that lie like it, numbers or rows; in its
/// place. Whether it has been done.
pub(super) fn in_place(kernel: &dyn BlockKernel, reads: &[Read<'_>], out: &mut Tensor) -> bool {
    if !out.is_writable_in_place() || !are_small_and_alike(reads, out.shape()) {
        return false;
    }
    let n = out.numel();
    let own = written(out.dtype(), n, |block| out.as_block().expect("it lies in order").copy_to(block));
    let repeats = RepeatedReads::of(kernel, reads, out.shape());
    let blocks = repeats.beside(Some(own.block()), reads, out.shape());
    kernel.run(&blocks, &mut [out.block_mut()]);
    true
}

/// Whether tensors lie alike, in this shape, which is that of a block at most, or are numbers or rows that repeat.
#[inline]
fn are_small_and_alike(reads: &[Read<'_>], shape: &Shape) -> bool {
    let fits = |read: &Read<'_>| match *read {
        Read::Tensor(t, want) => {
            t.dtype() == want && (lies_in(t, shape) || is_number(t, shape) || is_row(t, shape))
        }
        Read::Number(..) => true,
    };
    (1..=BLOCK).contains(&shape.numel()) && reads.iter().all(fits)
}

/// The numbers and rows that are read: as a kernel takes numbers, or repeated in working memory.
struct RepeatedReads {
    takes_numbers: bool,
    /// the one that is no tensor, if there is one and the kernel takes it
    number: Option<(ScalarCell, DType)>,
    repeated: SmallVec<[Handle; 2]>,
}

impl RepeatedReads {
    #[inline]
    fn of(kernel: &dyn BlockKernel, reads: &[Read<'_>], shape: &Shape) -> RepeatedReads {
        let takes_numbers = || match reads {
            [Read::Tensor(_, own), others @ ..] => {
                kernel.takes_numbers(*own, shape.numel())
                    && others.iter().all(|read| matches!(read, Read::Tensor(..)))
            }
            _ => false,
        };
        let takes_numbers = kernel.takes_a_number() || takes_numbers();
        let repeat = |own: Block<'_>| {
            written(own.dtype(), shape.numel(), |mut block| {
                own.copy_to(block.range(0, own.len()));
                repeat(block, own.len());
            })
        };
        let (mut number, mut repeated) = (None, SmallVec::new());
        for read in reads {
            match *read {
                Read::Number(s, want) if takes_numbers => {
                    number = number.or(Some((ScalarCell::new(s), want)))
                }
                Read::Number(s, want) => repeated.push(repeat(ScalarCell::new(s).operand(want).data)),
                Read::Tensor(t, _) if is_repeated(t, takes_numbers, shape) => {
                    repeated.push(repeat(elements(t)))
                }
                Read::Tensor(..) => {}
            }
        }
        RepeatedReads { takes_numbers, number, repeated }
    }

    /// The blocks of what is read: of tensors of this shape, and of these numbers and rows.
    #[inline]
    fn beside<'b>(&'b self, own: Option<Block<'b>>, reads: &[Read<'b>], shape: &Shape) -> Blocks<'b> {
        let mut blocks = Blocks::new();
        own.into_iter().for_each(|own| blocks.push(own));
        let mut repeated = self.repeated.iter().map(Handle::block);
        for read in reads {
            blocks.push(match (read, &self.number) {
                (Read::Number(..), Some((cell, want))) => cell.operand(*want).data,
                (Read::Tensor(t, _), _) if !is_repeated(t, self.takes_numbers, shape) => elements(t),
                _ => repeated.next().expect("what is repeated"),
            });
        }
        blocks
    }
}

/// Whether the elements of a tensor are to be repeated beside others of this shape.
#[inline]
fn is_repeated(t: &Tensor, takes_numbers: bool, shape: &Shape) -> bool {
    !(lies_in(t, shape) || takes_numbers && is_number(t, shape))
}

/// All elements of a tensor that lies in order; of another, the number that it is.
#[inline]
fn elements(t: &Tensor) -> Block<'_> {
    t.storage.block().range(t.layout.offset(), if t.is_contiguous() { t.numel() } else { 1 })
}

/// Whether a tensor is one number beside others of this shape: without axes, of one element that nobody has to ask for, or expanded to it. Of 256 elements
/// `x * y * z` takes 0.65 of the time, where `z` has the shape `[1]`.
#[inline]
fn is_number(t: &Tensor, shape: &Shape) -> bool {
    let is_one_element = || t.numel() == 1 && t.rank() <= shape.rank() && !are_broadcasts_checked();
    t.shape().is_empty() || t.shape() == shape && is_one(shape, t.layout.own_strides()) || is_one_element()
}

/// Whether the elements of a tensor are those of the innermost axes of this shape, in order, for all positions of the others; nobody asks whether that was meant.
/// A sum of [200, 5] and a row takes 0.45 of the time.
#[inline]
fn is_row(t: &Tensor, shape: &Shape) -> bool {
    let mut own = t.dims();
    while let [1, inner @ ..] = own {
        own = inner;
    }
    shape.ends_with(own) && t.rank() <= shape.rank() && t.is_contiguous() && !are_broadcasts_checked()
}

/// Working memory with something in it.
#[inline]
fn written(dtype: DType, n: usize, write: impl FnOnce(BlockMut<'_>)) -> Handle {
    let mut handle = Storage::scratch(dtype, n);
    write(handle.block_mut());
    handle
}

/// Whether a tensor lies in order, in this shape and type.
#[inline(always)]
fn lies_like(t: &Tensor, shape: &Shape, dtype: DType) -> bool {
    t.dtype() == dtype && lies_in(t, shape)
}

/// Whether a tensor lies in order, in this shape.
#[inline(always)]
fn lies_in(t: &Tensor, shape: &Shape) -> bool {
    t.layout.shape == *shape && t.is_contiguous()
}
