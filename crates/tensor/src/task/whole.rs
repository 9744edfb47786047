//! Tasks that write a whole result: a value everywhere, random numbers, a rule.

use smallvec::SmallVec;

use super::{Does, Read, To};
use crate::buffer::Storage;
use crate::create::{checked_len, room};
use crate::dtype::{BlockMut, Element, Scalar, with_block};
use crate::error::{Result, TensorFacts};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// A rule that reads whole tensors and writes a whole result, in one way that nobody looks into.
pub(crate) trait WholeRule {
    /// Writes all elements of `out`; what is changed in place has its old ones. What depends on data is refused before
    /// anything is written.
    fn run(&self, op: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()>;
}

/// A rule with several whole results.
pub(crate) trait SeveralRule {
    /// Writes all elements of all results. What depends on data is refused before anything is written.
    fn run(&self, op: &'static str, reads: &[&Tensor], outs: SmallVec<[BlockMut<'_>; 2]>) -> Result<()>;
}

/// Makes several tensors and has all their elements written.
pub(super) fn make_each(
    op: &'static str,
    rule: &dyn SeveralRule,
    reads: &[Read<'_>],
    to: &mut [To<'_>],
) -> Result<SmallVec<[Tensor; 2]>> {
    let mut made: SmallVec<[_; 2]> = SmallVec::new();
    for place in to {
        let To::Shaped(shape, dtype) = *place else { unreachable!("every result has a shape of its own") };
        made.push((room(op, shape, dtype)?, shape.clone()));
    }
    rule.run(op, &tensors(reads), made.iter_mut().map(|(storage, _)| storage.block_mut()).collect())?;
    Ok(made.into_iter().map(|(storage, shape)| Tensor::from_storage(storage, shape)).collect())
}

/// What a rule reads.
fn tensors<'a>(reads: &[Read<'a>]) -> SmallVec<[&'a Tensor; 4]> {
    let tensor = |read: &Read<'a>| match *read {
        Read::Tensor(t, _) => t,
        Read::Number(..) => unreachable!("rules read tensors"),
    };
    reads.iter().map(tensor).collect()
}

/// Makes a tensor and has all its elements written.
pub(super) fn make(
    op: &'static str,
    does: &mut Does<'_>,
    reads: &[Read<'_>],
    space: &Shape,
    to: &mut [To<'_>],
) -> Result<Tensor> {
    let [To::Dense(dtype)] = *to else { unreachable!("one whole tensor is made") };
    if let Does::Fill(Scalar::I64(0)) = does {
        // Zeros are what the system has at hand.
        let storage = Storage::zeros(dtype, checked_len(op, space, dtype)?);
        let storage = storage.ok_or_else(|| TensorFacts::TooLarge { op, shape: space.clone() })?;
        return Ok(Tensor::from_storage(storage, space.clone()));
    }
    let mut storage = room(op, space, dtype)?;
    write(op, does, reads, storage.block_mut())?;
    Ok(Tensor::from_storage(storage, space.clone()))
}

/// Has all elements of a tensor written, or changed by a rule.
pub(super) fn change(
    op: &'static str,
    does: &mut Does<'_>,
    reads: &[Read<'_>],
    to: &mut [To<'_>],
) -> Result<()> {
    let [To::Over(out) | To::Change(out)] = to else { unreachable!("one tensor is written to") };
    match does {
        Does::Whole(_) => out.make_writable(op)?,
        _ => out.make_room(op)?,
    }
    write(op, does, reads, out.block_mut())
}

/// Writes all elements of a block.
fn write(op: &'static str, does: &mut Does<'_>, reads: &[Read<'_>], out: BlockMut<'_>) -> Result<()> {
    match does {
        Does::Fill(value) => with_block!(BlockMut, out, s => fill(s, *value)),
        // Two elements per counter, which every type has.
        Does::Draw(law, reserve) => law.draw(reserve(out.len().div_ceil(2) as u64), out),
        Does::Whole(rule) => rule.run(op, &tensors(reads), out)?,
        _ => unreachable!("the others go block by block"),
    }
    Ok(())
}

fn fill<T: Element>(out: &mut [T], value: Scalar) {
    out.fill(T::from_scalar(value));
}
