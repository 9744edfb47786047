//! The one door: whatever computes elements is a [`Task`], said as data, and done here.
//!
//! Note [One door]
//! A task says completely what is read (each tensor or number, with its view, and the type it is wanted in), over which
//! shape, what is done, and where the results go. An operation's meta step infers types, refuses, and builds its task;
//! what is left to infer, the common shape of what is read, is found here. What a task leaves says who does it: [`make`] one
//! new tensor, [`make_each`] several, [`change`] none; [`Updates`] are many changes in place, done as one. The iterator, the
//! products and the rules have no other caller: `iter` and `product` are private to this module, and a test below reads the sources for places that
//! write to a storage without a task. What passes the door while a task runs is a part of that task: a rule may compute
//! with tensors, and what is written in place is copied first if somebody else holds it.

mod blocks;
mod iter;
mod product;
mod short;
mod space;
#[cfg(test)]
mod tests;
mod updates;
mod whole;

use smallvec::SmallVec;

pub(crate) use iter::{
    Accumulator, Blocks, FirstSums, LANES, ROWS, RUN, Reduce, Reducer, STRIP, Sum, WideMut, is_in_order,
    worth_streaming,
};
#[cfg(test)]
pub(crate) use iter::{Max, Min};
pub(crate) use product::{Spec, batch_of, expect_one_dtype};
use short::ReadAlike;
pub use short::{added, computed, folded};
pub(crate) use space::{common_shape, expect_expands};
pub use updates::Updates;
pub(crate) use whole::{SeveralRule, WholeRule};

use crate::dtype::{BlockMut, DType, Scalar};
use crate::error::{Here, Result};
use crate::kernels::BlockKernel;
use crate::ops::warning::Lists;
use crate::random::{Law, Reserve};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// A piece of work: everything that there is to know of it.
pub(crate) struct Task<'a, 'r> {
    /// the operation in whose name it is done
    pub(crate) op: &'static str,
    pub(crate) reads: &'a [Read<'a>],
    /// the shape that it is done over
    pub(crate) space: Space<'a>,
    pub(crate) does: Does<'a>,
    /// a place for each output
    pub(crate) to: &'a mut [To<'r>],
}

/// Something that is read, and the type it is wanted in.
#[derive(Clone, Copy)]
pub(crate) enum Read<'a> {
    Tensor(&'a Tensor, DType),
    Number(Scalar, DType),
}

/// Which shape a task is done over.
#[derive(Clone, Copy)]
pub(crate) enum Space<'a> {
    /// this one, which everything that is read broadcasts to
    Of(&'a Shape),
    /// the common shape of what is read
    Common,
    /// the same of what a user has brought together: said or refused where
    /// [`BroadcastWarning`](crate::BroadcastWarning) asks for it
    Asked(Lists),
}

/// What is done.
pub(crate) enum Does<'a> {
    /// nothing but a cast: the only thing that is read is the result
    Same,
    /// a kernel, block by block; what is changed in place is its first operand
    Blocks(&'a dyn BlockKernel),
    /// a product of the first two, each row of which starts as the third if there is one
    Product(&'a Spec),
    /// one value everywhere
    Fill(Scalar),
    /// random numbers, with the counters that a generator gives
    Draw(Law, Reserve<'a>),
    /// a rule that reads whole tensors and writes a whole result
    Whole(&'a dyn WholeRule),
    /// the same with several results
    Several(&'a dyn SeveralRule),
}

/// Where a result goes.
pub(crate) enum To<'a> {
    /// a new tensor of this type, which lies as what is read; with stride 0 where nothing moves that is read
    New(DType),
    /// a new row-major tensor of this type
    Dense(DType),
    /// a new row-major tensor of this type and of a shape of its own
    Shaped(&'a Shape, DType),
    /// a new tensor of this shape and type, of the axes that are kept and others of size 1: folded along all others
    Fold(Reduce, DType, &'a [bool], &'a Shape),
    /// the sum over the axes that this shape lacks or has with size 1, added to what is there
    Sum { shape: &'a Shape, dtype: DType, prior: &'a mut Option<Tensor> },
    /// over all elements of a tensor, whatever they were
    Over(&'a mut Tensor),
    /// a tensor that is changed in place
    Change(&'a mut Tensor),
    /// elements that leave the tensors, or a part of what a rule writes
    Block(BlockMut<'a>),
}

/// Does a task that makes one tensor: its meta step, as far as the operation has left it, and the work.
///
/// # Errors
/// `Broadcast` and `BroadcastRefused` for the common shape, `Expand` and `ShapeMismatch` for a sum, `TooLarge`, and what a
/// rule refuses. Nothing has changed then.
#[inline(never)]
#[track_caller]
pub(crate) fn make(task: Task<'_, '_>) -> Result<Tensor> {
    make_here(task)
}

/// [`make`], with the shortest way compiled into its caller: for those that small models are made of. An error has the caller's line,
/// so that whoever hands the result on need not look at it.
#[inline(always)]
#[track_caller]
pub(crate) fn make_here(task: Task<'_, '_>) -> Result<Tensor> {
    match ReadAlike::of(&task) {
        Some(alike) => Ok(alike.make()),
        // By value: a task whose address is taken would be put together in memory for the short way, too.
        None => make_at_length(task).here(),
    }
}

#[inline(never)]
#[track_caller]
fn make_at_length(task: Task<'_, '_>) -> Result<Tensor> {
    if let Some(alike) = ReadAlike::beside_a_number(&task) {
        return Ok(alike.make());
    }
    if let Some(alike) = ReadAlike::of_sum(&task) {
        return short::summed(task.op, alike.make(), task.to);
    }
    let mut common = None;
    let Task { op, reads, space, mut does, to } = task;
    if let Does::Blocks(kernel) = does
        && let Some(result) = short::with_repeats(kernel, reads, space, op, to)
    {
        return result;
    }
    let space = space.shape(op, reads, &mut common)?;
    match does {
        Does::Same => blocks::make(op, None, reads, space, to),
        Does::Blocks(kernel) => blocks::make(op, Some(kernel), reads, space, to),
        Does::Product(spec) => product::make(op, spec, reads, to),
        Does::Several(_) => unreachable!("one tensor is made"),
        Does::Fill(_) | Does::Draw(..) | Does::Whole(_) => whole::make(op, &mut does, reads, space, to),
    }
}

/// Does a task that makes several tensors: each the sum of an output, or what a rule writes.
///
/// # Errors
/// As [`make`].
#[track_caller]
pub(crate) fn make_each(task: Task<'_, '_>) -> Result<SmallVec<[Tensor; 2]>> {
    let Task { op, reads, space, does, to } = task;
    let mut common = None;
    match does {
        Does::Blocks(kernel) => {
            blocks::make_each(op, kernel, reads, space.shape(op, reads, &mut common)?, to)
        }
        Does::Several(rule) => whole::make_each(op, rule, reads, to),
        _ => unreachable!("kernels and rules have several outputs"),
    }
}

/// Does a task that writes to what there is.
///
/// # Errors
/// As [`make`].
#[track_caller]
pub(crate) fn change(task: Task<'_, '_>) -> Result<()> {
    let mut common = None;
    let Task { op, reads, space, mut does, to } = task;
    if let (Does::Blocks(kernel), [To::Change(out)]) = (&does, &mut *to)
        && short::in_place(*kernel, reads, out)
    {
        return Ok(());
    }
    let space = space.shape(op, reads, &mut common)?;
    match does {
        Does::Same => blocks::change(op, None, reads, space, to),
        Does::Blocks(kernel) => blocks::change(op, Some(kernel), reads, space, to),
        Does::Product(_) | Does::Several(_) => unreachable!("products and several results are new tensors"),
        Does::Fill(_) | Does::Draw(..) | Does::Whole(_) => whole::change(op, &mut does, reads, to),
    }
}

/// A kernel over what is read, in a new tensor of a shape that everything broadcasts to.
pub(crate) fn map(
    op: &'static str,
    kernel: &dyn BlockKernel,
    reads: &[Read<'_>],
    shape: &Shape,
    dtype: DType,
) -> Result<Tensor> {
    make(Task { op, reads, space: Space::Of(shape), does: Does::Blocks(kernel), to: &mut [To::New(dtype)] })
}

/// A whole result of this shape and type, by a rule.
pub(crate) fn whole(
    op: &'static str,
    rule: &dyn WholeRule,
    reads: &[Read<'_>],
    shape: &Shape,
    dtype: DType,
) -> Result<Tensor> {
    make(Task { op, reads, space: Space::Of(shape), does: Does::Whole(rule), to: &mut [To::Dense(dtype)] })
}

/// Whole results of these shapes and types, by a rule.
pub(crate) fn several<const N: usize>(
    op: &'static str,
    rule: &dyn SeveralRule,
    reads: &[Read<'_>],
    results: [(&Shape, DType); N],
) -> Result<[Tensor; N]> {
    let mut to = results.map(|(shape, dtype)| To::Shaped(shape, dtype));
    let (space, does) = (Space::Common, Does::Several(rule));
    let made = make_each(Task { op, reads, space, does, to: &mut to })?;
    Ok(made.into_iter().collect::<Vec<_>>().try_into().expect("a tensor for each shape"))
}
