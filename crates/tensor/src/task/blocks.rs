//! Tasks that are done block by block: pointwise, folded, cast, copied, in place.

use smallvec::SmallVec;

use super::iter::{self, Addition, Fold, Goal, Operand, OverItself, ScalarCell};
use super::{Read, Reduce, To};
use crate::create::room;
use crate::dtype::DType;
use crate::error::{Result, TensorFacts, refuse};
use crate::kernels::BlockKernel;
use crate::meant::Meant;
use crate::shape::{Dims, Shape, expect_expansion};
use crate::tensor::Tensor;

/// Numbers, where operands can borrow them.
type Cells = SmallVec<[ScalarCell; 2]>;

/// What is read, as the iterator sees it.
#[inline(always)]
fn operands<'b>(reads: &'b [Read<'_>], cells: &'b mut Cells) -> SmallVec<[Operand<'b>; 4]> {
    for read in reads {
        if let Read::Number(s, _) = read {
            cells.push(ScalarCell::new(*s));
        }
    }
    let (mut operands, mut cells) = (SmallVec::new(), cells.iter());
    for read in reads {
        operands.push(match read {
            Read::Tensor(t, want) => Operand::new(t, *want),
            Read::Number(_, want) => cells.next().expect("a cell for each number").operand(*want),
        });
    }
    operands
}

/// Makes a tensor by a kernel, or without one by a cast of the only thing that is read.
pub(super) fn make(
    op: &'static str,
    kernel: Option<&dyn BlockKernel>,
    reads: &[Read<'_>],
    space: &Shape,
    to: &mut [To<'_>],
) -> Result<Tensor> {
    let meant = Meant::carried(reads, space);
    let mut cells = Cells::new();
    let operands = operands(reads, &mut cells);
    match to {
        [To::New(dtype)] => Ok(iter::map(op, kernel, &operands, space.clone(), *dtype)?.with_meant(meant)),
        [To::Dense(dtype)] => {
            let mut storage = room(op, space, *dtype)?;
            iter::write(kernel, &operands, space, storage.block_mut());
            Ok(Tensor::from_storage(storage, space.clone()).with_meant(meant))
        }
        [To::Fold(reduce, dtype, kept, shape)] => {
            let fold = Fold { op, reduce: *reduce, dtype: *dtype };
            let folded = iter::fold(fold, kernel, &operands, space, kept, None)?.unsqueeze_to(shape);
            Ok(folded.with_meant(meant.folded(kept, shape.rank())))
        }
        [To::Sum { shape, dtype, prior }] => sum(op, kernel, &operands, space, shape, *dtype, prior.take()),
        _ => unreachable!("one new tensor is made"),
    }
}

/// Writes to a tensor or a block, by a kernel or by a cast.
pub(super) fn change(
    op: &'static str,
    kernel: Option<&dyn BlockKernel>,
    reads: &[Read<'_>],
    space: &Shape,
    to: &mut [To<'_>],
) -> Result<()> {
    let mut cells = Cells::new();
    let operands = operands(reads, &mut cells);
    match to {
        [To::Change(out)] => {
            out.make_writable(op)?;
            let kernel = kernel.expect("what is changed in place is changed by a kernel");
            iter::change(&OverItself(kernel), out, &operands, space);
        }
        [To::Over(out)] => {
            out.make_room(op)?;
            iter::write(kernel, &operands, space, out.block_mut());
        }
        [To::Block(out)] => {
            let n = out.len();
            iter::write(kernel, &operands, space, out.range(0, n));
        }
        _ => unreachable!("one tensor or block is written to"),
    }
    Ok(())
}

/// The sum of a kernel's results, or of what is read, down to a shape.
fn sum(
    op: &'static str,
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    space: &Shape,
    target: &Shape,
    dtype: DType,
    prior: Option<Tensor>,
) -> Result<Tensor> {
    let own = operands.first().map_or(dtype, |o| o.want);
    let (kept, mut prior) = reach(op, space, target, own, prior)?;
    if target == space {
        match (kernel, &mut prior) {
            (_, None) => return iter::map(op, kernel, operands, space.clone(), own)?.into_type(op, dtype),
            (Some(_), Some(_)) => {}
            (None, Some(sum)) => {
                sum.make_writable(op)?;
                iter::change(&Addition, sum, operands, space);
                return prior.expect("borrowed just now").into_type(op, dtype);
            }
        }
    }
    let fold = Fold { op, reduce: Reduce::Sum, dtype: own };
    let sum = iter::fold(fold, kernel, operands, space, &kept, prior)?.unsqueeze_to(target);
    let meant = Meant::NONE.folded(&kept[space.rank() - target.rank()..], target.rank());
    sum.with_meant(meant).into_type(op, dtype)
}

/// The sums of a kernel's outputs, each down to a shape of its own; without repeats if there are several.
pub(super) fn make_each(
    op: &'static str,
    kernel: &dyn BlockKernel,
    reads: &[Read<'_>],
    space: &Shape,
    to: &mut [To<'_>],
) -> Result<SmallVec<[Tensor; 2]>> {
    if to.len() == 1 {
        return Ok(SmallVec::from_iter([make(op, Some(kernel), reads, space, to)?]));
    }
    let mut cells = Cells::new();
    let operands = operands(reads, &mut cells);
    let own = operands.first().map_or(DType::F32, |o| o.want);
    let mut goals: SmallVec<[Goal; 2]> = SmallVec::new();
    for (output, place) in to.iter_mut().enumerate() {
        let To::Sum { shape, prior, .. } = place else { unreachable!("several outputs are summed") };
        let (kept, prior) = reach(op, space, shape, own, prior.take())?;
        goals.push(Goal { output, kept, prior });
    }
    let fold = Fold { op, reduce: Reduce::Sum, dtype: own };
    let results = iter::fold_each(fold, Some((kernel, goals.len())), &operands, space, goals)?;
    let finished = results.into_iter().zip(to).map(|(t, place)| match place {
        To::Sum { shape, dtype, .. } => {
            let t = t.unsqueeze_to(shape);
            let repeats = t.layout.own_strides().is_some_and(|strides| strides.contains(&0));
            if repeats { t.laid_out(op)? } else { t }.into_type(op, *dtype)
        }
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
    expect_expansion(op, "target", target, shape)?;
    if let Some(found) = prior.as_ref().map(|p| p.shape()).filter(|p| *p != target) {
        return refuse(TensorFacts::ShapeMismatch {
            op,
            operand: "prior",
            expected: target.clone(),
            found: found.clone(),
        });
    }
    let missing = shape.rank() - target.rank();
    let is_kept = |i: usize| i >= missing && !(target[i - missing] == 1 && shape[i] != 1);
    let kept: Dims<bool> = (0..shape.rank()).map(is_kept).collect();
    let prior = prior.map(|p| p.into_type(op, dtype)).transpose()?;
    let prior = prior.map(|p| p.keep_axes(&kept[missing..]));
    Ok((kept, prior))
}
