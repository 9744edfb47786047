//! Tasks that write a whole result: a value everywhere, random numbers, a rule.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::{Done, Read, To};
use crate::buffer::Storage;
use crate::create::{checked_len, room};
use crate::dtype::{BlockMut, DType, Element, Scalar, with_block};
use crate::error::{Error, Result};
use crate::random::{Law, Reserve};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// A rule that reads whole tensors and writes a whole result, in one way that nobody looks into.
pub(crate) trait WholeRule {
    /// Writes all elements of `out`; what is changed in place has its old ones. What depends on data is refused before
    /// anything is written.
    fn run(&self, op: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()>;
}

pub(super) fn run(
    op: &'static str,
    rule: &dyn WholeRule,
    reads: &[Read<'_>],
    space: Cow<'_, Shape>,
    to: &mut [To<'_>],
) -> Result<Done> {
    let mut tensors: SmallVec<[&Tensor; 4]> = SmallVec::new();
    for read in reads {
        let Read::Tensor(t, _) = read else { unreachable!("rules read tensors") };
        tensors.push(t);
    }
    write(op, space, to, |out| rule.run(op, &tensors, out))
}

pub(super) fn draw(
    op: &'static str,
    law: Law,
    reserve: Reserve<'_>,
    space: Cow<'_, Shape>,
    to: &mut [To<'_>],
) -> Result<Done> {
    // Two elements per counter, which every type has.
    let counters = space.numel().div_ceil(2) as u64;
    write(op, space, to, |out| {
        law.draw(reserve(counters), out);
        Ok(())
    })
}

pub(super) fn fill(
    op: &'static str,
    value: Scalar,
    space: Cow<'_, Shape>,
    to: &mut [To<'_>],
) -> Result<Done> {
    fn put<T: Element>(out: &mut [T], value: Scalar) {
        out.fill(T::from_scalar(value));
    }
    if let ([To::Dense(dtype)], Scalar::I64(0)) = (&*to, value) {
        return zeros(op, space.into_owned(), *dtype).map(Done::One);
    }
    write(op, space, to, |out| {
        with_block!(BlockMut, out, s => put(s, value));
        Ok(())
    })
}

/// Zeros that the system may have at hand.
fn zeros(op: &'static str, shape: Shape, dtype: DType) -> Result<Tensor> {
    match Storage::zeros(dtype, checked_len(op, &shape, dtype)?) {
        Some(storage) => Ok(Tensor::from_storage(storage, shape)),
        None => Err(Error::TooLarge { op, shape }),
    }
}

/// Has all elements of the only result written.
fn write(
    op: &'static str,
    space: Cow<'_, Shape>,
    to: &mut [To<'_>],
    f: impl FnOnce(BlockMut<'_>) -> Result<()>,
) -> Result<Done> {
    match to {
        [To::Dense(dtype)] => {
            let mut storage = room(op, &space, *dtype)?;
            f(storage.block_mut())?;
            return Ok(Done::One(Tensor::from_storage(storage, space.into_owned())));
        }
        [To::Over(out)] => {
            out.make_room(op)?;
            f(out.block_mut())?;
        }
        [To::Change(out)] => {
            out.make_writable(op)?;
            f(out.block_mut())?;
        }
        _ => unreachable!("one tensor is written as a whole"),
    }
    Ok(Done::Changed)
}
