//! Tasks that are done block by block: pointwise, folded, cast, copied, in place.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::iter::{self, Addition, Fold, Goal, Onto, Operand, OverItself, ScalarCell};
use super::{Done, Read, Reduce, To};
use crate::create::room;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernels::BlockKernel;
use crate::shape::{Dims, Shape, expect_expansion};
use crate::tensor::Tensor;
use crate::threads::GRAIN;

impl Read<'_> {
    /// A place for the number, if it is one, that an operand can borrow.
    fn cell(&self) -> ScalarCell {
        match self {
            Read::Tensor(..) => ScalarCell::NONE,
            Read::Number(s, _) => ScalarCell::new(*s),
        }
    }

    fn operand<'b>(&'b self, cell: &'b ScalarCell) -> Operand<'b> {
        match self {
            Read::Tensor(t, want) => Operand::new(t, *want),
            Read::Number(_, want) => cell.operand(*want),
        }
    }
}

/// Runs a kernel, or without one casts the only thing that is read.
pub(super) fn run(
    op: &'static str,
    kernel: Option<&dyn BlockKernel>,
    reads: &[Read<'_>],
    space: Cow<'_, Shape>,
    to: &mut [To<'_>],
) -> Result<Done> {
    let cells: SmallVec<[ScalarCell; 4]> = reads.iter().map(Read::cell).collect();
    let mut operands: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
    reads.iter().zip(&cells).for_each(|(r, cell)| operands.push(r.operand(cell)));
    Ok(match to {
        [To::New(dtype)] => Done::One(iter::map(op, kernel, &operands, space.into_owned(), *dtype)?),
        [To::Dense(dtype)] => {
            let mut storage = room(op, &space, *dtype)?;
            iter::write(kernel, &operands, &space, storage.block_mut());
            Done::One(Tensor::from_storage(storage, space.into_owned()))
        }
        [To::Fold(reduce, dtype, kept, shape)] => {
            let fold = Fold { op, reduce: *reduce, dtype: *dtype };
            Done::One(iter::fold(fold, kernel, &operands, &space, kept, None)?.unsqueeze_to(shape))
        }
        [To::Over(out)] => {
            out.make_room(op)?;
            iter::write(kernel, &operands, &space, out.block_mut());
            Done::Changed
        }
        [To::Change(out)] => {
            out.make_writable(op)?;
            let kernel = kernel.expect("what is changed in place is changed by a kernel");
            iter::change(&OverItself(kernel), &mut [out], &operands, &space);
            Done::Changed
        }
        [To::Block(out)] => {
            let n = out.len();
            iter::write(kernel, &operands, &space, out.range(0, n));
            Done::Changed
        }
        [To::Sum { shape, dtype, prior }] => {
            Done::One(sum(op, kernel, &operands, space, shape, *dtype, prior.take())?)
        }
        _ => Done::Several(sums(op, kernel, &operands, &space, to)?),
    })
}

/// Runs a kernel that changes several tensors of one shape.
pub(super) fn update(
    op: &'static str,
    kernel: &dyn BlockKernel,
    reads: &[Read<'_>],
    space: &Shape,
    to: &mut [To<'_>],
) -> Result<Done> {
    let mut state: SmallVec<[&mut Tensor; 3]> = SmallVec::new();
    for place in to {
        let To::Change(t) = place else { unreachable!("an update changes tensors in place") };
        state.push(t);
    }
    for t in &mut state {
        t.make_writable(op)?;
    }
    let cells: SmallVec<[ScalarCell; 4]> = reads.iter().map(Read::cell).collect();
    let mut operands: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
    reads.iter().zip(&cells).for_each(|(r, cell)| operands.push(r.operand(cell)));
    iter::change(kernel, &mut state, &operands, space);
    Ok(Done::Changed)
}

/// The sum of a kernel's results, or of what is read, down to a shape.
fn sum(
    op: &'static str,
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    space: Cow<'_, Shape>,
    target: &Shape,
    dtype: DType,
    prior: Option<Tensor>,
) -> Result<Tensor> {
    let own = operands.first().map_or(dtype, |o| o.want);
    let (kept, mut prior) = reach(op, &space, target, own, prior)?;
    if *target == *space {
        match (kernel, &mut prior) {
            (_, None) => return iter::map(op, kernel, operands, space.into_owned(), own)?.cast(op, dtype),
            (Some(kernel), Some(sum)) => {
                sum.make_writable(op)?;
                if space.numel() <= GRAIN && iter::lie_like(operands, target) {
                    iter::change(&Onto(kernel), &mut [sum], operands, &space);
                    return prior.expect("borrowed just now").cast(op, dtype);
                }
            }
            (None, Some(sum)) => {
                sum.make_writable(op)?;
                iter::change(&Addition, &mut [sum], operands, &space);
                return prior.expect("borrowed just now").cast(op, dtype);
            }
        }
    }
    let fold = Fold { op, reduce: Reduce::Sum, dtype: own };
    iter::fold(fold, kernel, operands, &space, &kept, prior)?.unsqueeze_to(target).cast(op, dtype)
}

/// The sums of a kernel's outputs, each down to a shape of its own; dense.
fn sums(
    op: &'static str,
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    space: &Shape,
    to: &mut [To<'_>],
) -> Result<SmallVec<[Tensor; 2]>> {
    let own = operands.first().map_or(DType::F32, |o| o.want);
    let mut goals: SmallVec<[Goal; 2]> = SmallVec::new();
    for (output, place) in to.iter_mut().enumerate() {
        let To::Sum { shape, prior, .. } = place else { unreachable!("several outputs are summed") };
        let (kept, prior) = reach(op, space, shape, own, prior.take())?;
        goals.push(Goal { output, kept, prior });
    }
    let fold = Fold { op, reduce: Reduce::Sum, dtype: own };
    let results = iter::fold_each(fold, kernel.map(|kernel| (kernel, goals.len())), operands, space, goals)?;
    let finished = results.into_iter().zip(to).map(|(t, place)| match place {
        To::Sum { shape, dtype, .. } => t.unsqueeze_to(shape).laid_out(op)?.cast(op, *dtype),
        _ => unreachable!("several outputs are summed"),
    });
    finished.collect()
}

/// Which axes of a shape are kept by a sum to `target`, and the prior, of these axes and of the type of the sum.
fn reach(
    op: &'static str,
    shape: &Shape,
    target: &Shape,
    dtype: DType,
    prior: Option<Tensor>,
) -> Result<(Dims<bool>, Option<Tensor>)> {
    expect_expansion(op, target, shape)?;
    if let Some(found) = prior.as_ref().map(|p| p.shape()).filter(|p| *p != target) {
        return Err(Error::ShapeMismatch { op, expected: target.clone(), found: found.clone() });
    }
    let missing = shape.rank() - target.rank();
    let is_kept = |i: usize| i >= missing && !(target[i - missing] == 1 && shape[i] != 1);
    let kept: Dims<bool> = (0..shape.rank()).map(is_kept).collect();
    let prior = prior.map(|p| p.cast(op, dtype)).transpose()?;
    let prior = prior.map(|p| p.keep_axes(&kept[missing..]));
    Ok((kept, prior))
}
