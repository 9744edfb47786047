//! The meta step of pointwise operations: type rules, refusals, and the task that they make.

use smallvec::SmallVec;

use super::super::arg::{Arg, Meta, result_type};
use super::super::formulas as f;
use super::super::warning::{self, Lists};
use crate::dtype::{DType, Scalar};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::{BlockKernel, FloatKernel, IntPowKernel, LogicKernel, NumKernel, UnaryLogicKernel};
use crate::task::{self, Does, Read, Space, Task, To, expect_expands};
use crate::tensor::Tensor;

/// What the meta step of a pointwise operation decides: the kernel, and the types it computes in and returns.
pub(in crate::ops) struct Elementwise {
    /// most kernels have no size, so that the box is no allocation
    pub(in crate::ops) kernel: Box<dyn BlockKernel>,
    /// the type that each operand is wanted in
    pub(in crate::ops) compute: DType,
    /// the type of the result
    pub(in crate::ops) out: DType,
    pub(in crate::ops) lists: Lists,
}

impl Elementwise {
    /// A plan that computes and returns one type.
    pub(in crate::ops) fn same(kernel: impl BlockKernel + 'static, dtype: DType) -> Result<Elementwise> {
        Ok(Elementwise { kernel: Box::new(kernel), compute: dtype, out: dtype, lists: Lists::Idiom })
    }

    /// Of elements that belong together.
    pub(in crate::ops) fn of_pairs(self) -> Elementwise {
        Elementwise { lists: Lists::Doubtful, ..self }
    }
}

/// Applies an operation to broadcast arguments, if its meta step allows it. An error has the caller's line.
#[track_caller]
pub(in crate::ops) fn apply<const N: usize>(
    op: &'static str,
    plan: Result<Elementwise>,
    args: &[Arg<'_>; N],
) -> Result<Tensor> {
    let plan = plan.here()?;
    task::make_here(Task {
        op,
        reads: &args.each_ref().map(|a| a.read(plan.compute)),
        space: Space::Asked(plan.lists),
        does: Does::Blocks(&*plan.kernel),
        to: &mut [To::New(plan.out)],
    })
}

/// Applies an operation to its first argument in place, whose shape and type stay what they are.
#[track_caller]
pub(in crate::ops) fn apply_in_place(
    op: &'static str,
    plan: Result<Elementwise>,
    out: &mut Tensor,
    others: &[Arg<'_>],
) -> Result<()> {
    let plan = plan.map_err(|e| e.named(op))?;
    expect_castable(op, plan.out, out.dtype())?;
    expect_no_overlap(op, out)?;
    for a in others {
        expect_expands(op, a.shape(), out.shape())?;
        if a.shape() != out.dims() {
            let operands = [Read::Tensor(out, out.dtype()), a.read(plan.compute)];
            warning::check(op, plan.lists, || operands.iter().map(Read::operand).collect())?;
        }
    }
    let (shape, does) = (out.shape().clone(), Does::Blocks(&*plan.kernel));
    let reads = reads_of(others, plan.compute);
    if plan.compute == out.dtype() && plan.out == out.dtype() {
        let space = Space::Of(&shape);
        task::change(Task { op, reads: &reads, space, does, to: &mut [To::Change(out)] })?;
        return Ok(());
    }
    // The result has another type than its destination: compute it apart, and cast.
    let own = out.clone();
    let mut all: Reads<'_> = SmallVec::from_slice(&[Read::Tensor(&own, plan.compute)]);
    all.extend_from_slice(&reads);
    *out = task::map(op, &*plan.kernel, &all, &shape, plan.out)?.cast(op, own.dtype())?;
    Ok(())
}

type Reads<'a> = SmallVec<[Read<'a>; 4]>;

/// The arguments as a task reads them.
pub(super) fn reads_of<'a>(args: &[Arg<'a>], compute: DType) -> Reads<'a> {
    let mut reads = Reads::new();
    for a in args {
        reads.push(a.read(compute));
    }
    reads
}

/// Refuses a result that an output of type `to` cannot hold: a higher category.
pub(crate) fn expect_castable(op: &'static str, from: DType, to: DType) -> Result<()> {
    if from.category() <= to.category() { Ok(()) } else { refuse(TensorFacts::ResultCast { op, from, to }) }
}

/// Refuses a destination several of whose elements share one place in memory, as PyTorch does.
pub(in crate::ops) fn expect_no_overlap(op: &'static str, out: &Tensor) -> Result<()> {
    if out.overlaps_itself() {
        return refuse(TensorFacts::Overlap {
            op,
            shape: out.shape().clone(),
            strides: out.strides().to_vec(),
        });
    }
    Ok(())
}

pub(super) fn unsupported<T>(op: &'static str, dtype: DType) -> Result<T> {
    refuse(TensorFacts::DTypeUnsupported { op, dtype })
}

/// Checks the scale of `add` and `sub` against the type of the result.
#[doc(hidden)]
pub fn check_alpha(op: &'static str, alpha: Scalar, dtype: DType) -> Result<()> {
    let fits = match alpha {
        Scalar::Bool(_) => dtype == DType::Bool,
        Scalar::I64(_) => true,
        Scalar::F64(_) => dtype.is_float(),
    };
    if fits { Ok(()) } else { refuse(TensorFacts::Alpha { op, alpha, dtype }) }
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
pub(super) fn plan_add(op: &'static str, args: &[Meta], alpha: Scalar, sign: f64) -> Result<Elementwise> {
    let sum = plan_sum(op, args, alpha, sign);
    if sign * alpha.to_f64() < 0.0 { sum.map(Elementwise::of_pairs) } else { sum }
}

fn plan_sum(op: &'static str, args: &[Meta], alpha: Scalar, sign: f64) -> Result<Elementwise> {
    if sign < 0.0 && args.iter().any(|a| a.dtype == DType::Bool) {
        return unsupported(op, DType::Bool);
    }
    let dtype = result_type(args);
    check_alpha(op, alpha, dtype)?;
    if dtype == DType::I64 {
        let scale = if sign < 0.0 { alpha.to_i64().wrapping_neg() } else { alpha.to_i64() };
        return match scale {
            1 => Elementwise::same(NumKernel(f::Add), dtype),
            -1 => Elementwise::same(NumKernel(f::Sub), dtype),
            _ => Elementwise::same(f::AddMultiple(scale), dtype),
        };
    }
    let scale = sign * alpha.to_f64();
    match dtype {
        DType::Bool => Elementwise::same(if alpha.to_bool() { OR } else { FIRST }, dtype),
        _ if scale == 1.0 => Elementwise::same(NumKernel(f::Add), dtype),
        _ if scale == -1.0 => Elementwise::same(NumKernel(f::Sub), dtype),
        _ => Elementwise::same(NumKernel(f::AddScaled(scale)), dtype),
    }
}

/// An arithmetic operation that is `logic` on truth values.
pub(super) fn plan_num(
    args: &[Meta],
    kernel: impl BlockKernel + 'static,
    logic: impl BlockKernel + 'static,
) -> Result<Elementwise> {
    match result_type(args) {
        DType::Bool => Elementwise::same(logic, DType::Bool),
        dtype => Elementwise::same(kernel, dtype),
    }
}

/// A function of real numbers; integers become the default float.
pub(super) fn plan_real(args: &[Meta], kernel: impl BlockKernel + 'static) -> Result<Elementwise> {
    Elementwise::same(kernel, result_type(args).to_float())
}

/// A function that only floating-point tensors have.
pub(super) fn plan_float_only(
    op: &'static str,
    a: Meta,
    kernel: impl BlockKernel + 'static,
) -> Result<Elementwise> {
    if a.dtype.is_float() { Elementwise::same(kernel, a.dtype) } else { unsupported(op, a.dtype) }
}

/// A function of numbers that truth values do not have.
pub(super) fn plan_no_bool(
    op: &'static str,
    a: Meta,
    kernel: impl BlockKernel + 'static,
) -> Result<Elementwise> {
    if a.dtype == DType::Bool { unsupported(op, a.dtype) } else { Elementwise::same(kernel, a.dtype) }
}

/// A power. Exponents that PyTorch computes by other means (0.5 is a square root, ...) are the same here.
pub(super) fn plan_pow(op: &'static str, args: &[Meta]) -> Result<Elementwise> {
    let dtype = result_type(args);
    let exponent = args[1].scalar;
    match (dtype, exponent) {
        // true to any power is true, and so is false to the power false
        (DType::Bool, Some(_)) => Elementwise::same(LogicKernel(0b1101), dtype),
        (DType::Bool, None) => unsupported(op, dtype),
        (DType::I64, Some(s)) if s.to_i64() < 0 => {
            refuse(TensorFacts::NegativePower { op, exponent: s.to_i64() })
        }
        (DType::I64, _) => Elementwise::same(IntPowKernel, dtype),
        (_, Some(s)) if s.to_f64() == 2.0 => Elementwise::same(FloatKernel(f::PowSquare), dtype),
        (_, Some(s)) if s.to_f64() == 0.5 => Elementwise::same(FloatKernel(f::PowSqrt), dtype),
        (_, Some(s)) if s.to_f64() == -0.5 => Elementwise::same(FloatKernel(f::PowRsqrt), dtype),
        (_, Some(s)) if s.to_f64() == -1.0 => Elementwise::same(FloatKernel(f::PowReciprocal), dtype),
        _ => Elementwise::same(FloatKernel(f::Pow), dtype),
    }
}

/// A relation; truth values compare as integers.
pub(super) fn plan_compare(args: &[Meta], kernel: impl BlockKernel + 'static) -> Result<Elementwise> {
    let compute = result_type(args).max(DType::I64);
    Ok(Elementwise { kernel: Box::new(kernel), compute, out: DType::Bool, lists: Lists::Idiom })
}
