//! The meta step of pointwise operations: type rules, refusals, and running what was planned.

use smallvec::SmallVec;

use super::super::arg::{Arg, Meta, result_type};
use super::super::formulas as f;
use super::super::warning;
use crate::buffer::Storage;
use crate::create::checked_len;
use crate::dtype::{Block, DType, Scalar};
use crate::error::{Error, Result};
use crate::iter::{self, Operand};
use crate::kernels::{BlockKernel, FloatKernel, IntPowKernel, LogicKernel, NumKernel, UnaryLogicKernel};
use crate::shape::{Shape, broadcast_two, expands_to, expect_expansion};
use crate::tensor::Tensor;
use crate::threads::GRAIN;

/// What the meta step of a pointwise operation decides: the kernel, and the types it computes in and returns.
pub(in crate::ops) struct Plan {
    /// most kernels have no size, so that the box is no allocation
    pub(in crate::ops) kernel: Box<dyn BlockKernel>,
    /// the type that each operand is wanted in
    pub(in crate::ops) compute: DType,
    /// the type of the result
    pub(in crate::ops) out: DType,
}

impl Plan {
    /// A plan that computes and returns one type.
    pub(in crate::ops) fn same(kernel: impl BlockKernel + 'static, dtype: DType) -> Result<Plan> {
        Ok(Plan { kernel: Box::new(kernel), compute: dtype, out: dtype })
    }
}

/// Runs a planned operation over broadcast arguments.
#[track_caller]
pub(in crate::ops) fn run<const N: usize>(
    op: &'static str,
    plan: &Plan,
    args: &[Arg<'_>; N],
) -> Result<Tensor> {
    if let Some(result) = run_alike(plan, args) {
        return Ok(result);
    }
    let shape = common_shape(op, args, plan.out)?;
    let cells = args.each_ref().map(Arg::cell);
    let operands: [Operand<'_>; N] = std::array::from_fn(|i| args[i].operand(&cells[i], plan.compute));
    iter::map(op, &*plan.kernel, &operands, shape, plan.out)
}

/// The short way for small tensors of one shape and of the type that is computed in: the blocks go to the kernel as they
/// are, and the result lies like the arguments.
#[inline]
fn run_alike<const N: usize>(plan: &Plan, args: &[Arg<'_>; N]) -> Option<Tensor> {
    let Arg::Tensor(first) = args[0] else { return None };
    let n = first.numel();
    if n == 0 || n > GRAIN {
        return None;
    }
    let mut blocks = [Block::Bool(&[]); N];
    for (block, arg) in blocks.iter_mut().zip(args) {
        let Arg::Tensor(t) = *arg else { return None };
        let alike = t.dtype() == plan.compute && t.layout.shape == first.layout.shape && t.is_contiguous();
        if !alike {
            return None;
        }
        *block = t.storage.block().range(t.layout.offset, n);
    }
    let mut storage = Storage::scratch(plan.out, n);
    plan.kernel.run(&blocks, &mut [storage.block_mut()]);
    Some(Tensor::from_storage(storage, first.layout.shape.clone()))
}

/// Runs a planned operation into its first argument, whose shape and type stay what they are.
#[track_caller]
pub(in crate::ops) fn run_in_place<const N: usize>(
    op: &'static str,
    plan: &Plan,
    out: &mut Tensor,
    others: &[Arg<'_>; N],
) -> Result<()> {
    expect_castable(op, plan.out, out.dtype())?;
    expect_no_overlap(op, out)?;
    for a in others {
        expect_expands(op, a.shape(), out.shape())?;
        warning::check(op, out.dims(), a.shape())?;
    }
    let cells = others.each_ref().map(Arg::cell);
    let operands: [Operand<'_>; N] = std::array::from_fn(|i| others[i].operand(&cells[i], plan.compute));
    if plan.compute == out.dtype() && plan.out == out.dtype() {
        out.make_writable(op)?;
        iter::map_in_place(&*plan.kernel, out, &operands);
        return Ok(());
    }
    // The result has another type than its destination: compute it apart, and cast.
    let own = out.clone();
    let mut all: SmallVec<[Operand<'_>; 4]> = SmallVec::from_slice(&[Operand::new(&own, plan.compute)]);
    all.extend(operands);
    *out = iter::map(op, &*plan.kernel, &all, own.shape().clone(), plan.out)?.cast(op, own.dtype())?;
    Ok(())
}

#[track_caller]
pub(in crate::ops) fn common_shape(op: &'static str, args: &[Arg<'_>], out: DType) -> Result<Shape> {
    let mut shape = Shape::from(args[0].shape());
    for a in &args[1..] {
        // A single number without axes changes no shape.
        if !a.shape().is_empty() && a.shape() != &shape[..] {
            let next = broadcast_two(op, &shape, a.shape())?;
            warning::check(op, &shape, a.shape())?;
            checked_len(op, &next, out)?;
            shape = next;
        }
    }
    Ok(shape)
}

/// Refuses a result that an output of type `to` cannot hold: a higher category.
pub(crate) fn expect_castable(op: &'static str, from: DType, to: DType) -> Result<()> {
    if from.category() <= to.category() { Ok(()) } else { Err(Error::ResultCast { op, from, to }) }
}

/// Refuses a destination several of whose elements share one place in memory, as PyTorch does.
pub(in crate::ops) fn expect_no_overlap(op: &'static str, out: &Tensor) -> Result<()> {
    if out.overlaps_itself() {
        return Err(Error::Overlap { op, shape: out.shape().clone(), strides: out.strides().to_vec() });
    }
    Ok(())
}

/// Refuses an operand that would need the destination to grow.
pub(crate) fn expect_expands(op: &'static str, from: &[usize], to: &[usize]) -> Result<()> {
    if expands_to(from, to) {
        return Ok(());
    }
    if from.len() <= to.len()
        && from.iter().rev().zip(to.iter().rev()).any(|(&f, &t)| f != t && f != 1 && t != 1)
    {
        return Err(broadcast_two(op, to, from).expect_err("a pair of sizes differs and neither is 1"));
    }
    // The destination is what would have to expand.
    expect_expansion(op, &from.into(), &to.into())
}

pub(super) fn unsupported<T>(op: &'static str, dtype: DType) -> Result<T> {
    Err(Error::DTypeUnsupported { op, dtype })
}

/// Checks the scale of `add` and `sub` against the type of the result.
pub(super) fn check_alpha(op: &'static str, alpha: Scalar, dtype: DType) -> Result<()> {
    let fits = match alpha {
        Scalar::Bool(_) => dtype == DType::Bool,
        Scalar::I64(_) => true,
        Scalar::F64(_) => dtype.is_float(),
    };
    if fits { Ok(()) } else { Err(Error::Alpha { op, alpha, dtype }) }
}

/// `or`, `and`, ... as the bits of [`LogicKernel`].
pub(super) const AND: LogicKernel = LogicKernel(0b1000);
pub(super) const OR: LogicKernel = LogicKernel(0b1110);
pub(super) const XOR: LogicKernel = LogicKernel(0b0110);
pub(super) const FIRST: LogicKernel = LogicKernel(0b1100);
/// `not a`, and `a` itself, of one argument.
pub(super) const NOT: UnaryLogicKernel = UnaryLogicKernel(true);
pub(super) const IDENTITY: UnaryLogicKernel = UnaryLogicKernel(false);

/// `a + alpha b`, or minus.
pub(super) fn plan_add(op: &'static str, args: &[Meta], alpha: Scalar, sign: f64) -> Result<Plan> {
    if sign < 0.0 && args.iter().any(|a| a.dtype == DType::Bool) {
        return unsupported(op, DType::Bool);
    }
    let dtype = result_type(args);
    check_alpha(op, alpha, dtype)?;
    if dtype == DType::I64 {
        let scale = if sign < 0.0 { alpha.to_i64().wrapping_neg() } else { alpha.to_i64() };
        return match scale {
            1 => Plan::same(NumKernel(f::Add), dtype),
            -1 => Plan::same(NumKernel(f::Sub), dtype),
            _ => Plan::same(f::AddMultiple(scale), dtype),
        };
    }
    let scale = sign * alpha.to_f64();
    match dtype {
        DType::Bool => Plan::same(if alpha.to_bool() { OR } else { FIRST }, dtype),
        _ if scale == 1.0 => Plan::same(NumKernel(f::Add), dtype),
        _ if scale == -1.0 => Plan::same(NumKernel(f::Sub), dtype),
        _ => Plan::same(NumKernel(f::AddScaled(scale)), dtype),
    }
}

/// An arithmetic operation that is `logic` on truth values.
pub(super) fn plan_num(
    args: &[Meta],
    kernel: impl BlockKernel + 'static,
    logic: impl BlockKernel + 'static,
) -> Result<Plan> {
    match result_type(args) {
        DType::Bool => Plan::same(logic, DType::Bool),
        dtype => Plan::same(kernel, dtype),
    }
}

/// A function of real numbers; integers become the default float.
pub(super) fn plan_real(args: &[Meta], kernel: impl BlockKernel + 'static) -> Result<Plan> {
    Plan::same(kernel, result_type(args).to_float())
}

/// A function that only floating-point tensors have.
pub(super) fn plan_float_only(op: &'static str, a: Meta, kernel: impl BlockKernel + 'static) -> Result<Plan> {
    if a.dtype.is_float() { Plan::same(kernel, a.dtype) } else { unsupported(op, a.dtype) }
}

/// A function of numbers that truth values do not have.
pub(super) fn plan_no_bool(op: &'static str, a: Meta, kernel: impl BlockKernel + 'static) -> Result<Plan> {
    if a.dtype == DType::Bool { unsupported(op, a.dtype) } else { Plan::same(kernel, a.dtype) }
}

/// A power. Exponents that PyTorch computes by other means (0.5 is a square root, ...) are the same here.
pub(super) fn plan_pow(op: &'static str, args: &[Meta]) -> Result<Plan> {
    let dtype = result_type(args);
    let exponent = args[1].scalar;
    match (dtype, exponent) {
        // true to any power is true, and so is false to the power false
        (DType::Bool, Some(_)) => Plan::same(LogicKernel(0b1101), dtype),
        (DType::Bool, None) => unsupported(op, dtype),
        (DType::I64, Some(s)) if s.to_i64() < 0 => Err(Error::NegativePower { op, exponent: s.to_i64() }),
        (DType::I64, _) => Plan::same(IntPowKernel, dtype),
        (_, Some(s)) if s.to_f64() == 2.0 => Plan::same(FloatKernel(f::PowSquare), dtype),
        (_, Some(s)) if s.to_f64() == 0.5 => Plan::same(FloatKernel(f::PowSqrt), dtype),
        (_, Some(s)) if s.to_f64() == -0.5 => Plan::same(FloatKernel(f::PowRsqrt), dtype),
        (_, Some(s)) if s.to_f64() == -1.0 => Plan::same(FloatKernel(f::PowReciprocal), dtype),
        _ => Plan::same(FloatKernel(f::Pow), dtype),
    }
}

/// A relation; truth values compare as integers.
pub(super) fn plan_compare(args: &[Meta], kernel: impl BlockKernel + 'static) -> Result<Plan> {
    let compute = result_type(args).max(DType::I64);
    Ok(Plan { kernel: Box::new(kernel), compute, out: DType::Bool })
}
