//! Pointwise operations: type rules, refusals, and the new and in-place form of each.

use smallvec::SmallVec;

use super::arg::{Arg, Meta, result_type};
use super::formulas as f;
use super::warning;
use crate::create::checked_room;
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::iter::{self, Operand};
use crate::kernels::{
    BlockKernel, CompareKernel, FloatKernel, IntPowKernel, LogicKernel, NumKernel, UnaryLogicKernel,
    WhereKernel,
};
use crate::shape::{Shape, broadcast_two, expands_to};
use crate::tensor::Tensor;

/// What the meta step of a pointwise operation decides: the kernel, and the types it computes in and returns.
pub(crate) struct Plan {
    /// most kernels have no size, so that the box is no allocation
    kernel: Box<dyn BlockKernel>,
    /// the type that each operand is wanted in
    compute: DType,
    /// the type of the result
    out: DType,
}

impl Plan {
    /// A plan that computes and returns one type.
    pub(super) fn same(kernel: impl BlockKernel + 'static, dtype: DType) -> Result<Plan> {
        Ok(Plan { kernel: Box::new(kernel), compute: dtype, out: dtype })
    }
}

/// Runs a planned operation over broadcast arguments.
#[track_caller]
pub(super) fn run<const N: usize>(op: &'static str, plan: &Plan, args: &[Arg<'_>; N]) -> Result<Tensor> {
    let shape = common_shape(op, args, plan.out)?;
    let cells = args.each_ref().map(Arg::cell);
    let operands: [Operand<'_>; N] = std::array::from_fn(|i| args[i].operand(&cells[i], plan.compute));
    Ok(iter::map(&*plan.kernel, &operands, shape, plan.out))
}

/// Runs a planned operation into its first argument, whose shape and type stay what they are.
#[track_caller]
pub(super) fn run_in_place<const N: usize>(
    op: &'static str,
    plan: &Plan,
    out: &mut Tensor,
    others: &[Arg<'_>; N],
) -> Result<()> {
    expect_castable(op, plan.out, out.dtype())?;
    for a in others {
        expect_expands(op, a.shape(), out.shape())?;
        warning::check(op, out.dims(), a.shape())?;
    }
    let cells = others.each_ref().map(Arg::cell);
    let operands: [Operand<'_>; N] = std::array::from_fn(|i| others[i].operand(&cells[i], plan.compute));
    if plan.compute == out.dtype() && plan.out == out.dtype() {
        iter::map_in_place(&*plan.kernel, out, &operands);
        return Ok(());
    }
    // The result has another type than its destination: compute it apart, and cast.
    let own = out.clone();
    let mut all: SmallVec<[Operand<'_>; 4]> = SmallVec::from_slice(&[Operand::new(&own, plan.compute)]);
    all.extend(operands);
    *out = iter::map(&*plan.kernel, &all, own.shape().clone(), plan.out).to_dtype(own.dtype());
    Ok(())
}

#[track_caller]
pub(super) fn common_shape(op: &'static str, args: &[Arg<'_>], out: DType) -> Result<Shape> {
    let mut shape = Shape::from(args[0].shape());
    for a in &args[1..] {
        if a.shape() != &shape[..] {
            let next = broadcast_two(op, &shape, a.shape())?;
            warning::check(op, &shape, a.shape())?;
            checked_room(op, &next, out)?;
            shape = next;
        }
    }
    Ok(shape)
}

/// Refuses a result that an output of type `to` cannot hold: a higher category.
pub(crate) fn expect_castable(op: &'static str, from: DType, to: DType) -> Result<()> {
    if from.category() <= to.category() { Ok(()) } else { Err(Error::ResultCast { op, from, to }) }
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
    let rank = from.len().max(to.len());
    let size = |s: &[usize], d: usize| if d < rank - s.len() { 1 } else { s[d - (rank - s.len())] };
    let differs = |d: &usize| size(from, *d) != 1 && size(from, *d) != size(to, *d);
    let dim = (0..rank).rev().find(differs).unwrap_or(0);
    // The destination is what would have to expand.
    Err(Error::Expand { op, from: from.into(), to: to.into(), dim })
}

fn unsupported<T>(op: &'static str, dtype: DType) -> Result<T> {
    Err(Error::DTypeUnsupported { op, dtype })
}

/// Checks the scale of `add` and `sub` against the type of the result.
fn check_alpha(op: &'static str, alpha: Scalar, dtype: DType) -> Result<()> {
    let fits = match alpha {
        Scalar::Bool(_) => dtype == DType::Bool,
        Scalar::I64(_) => true,
        Scalar::F64(_) => dtype.is_float(),
    };
    if fits { Ok(()) } else { Err(Error::Alpha { op, alpha, dtype }) }
}

/// `or`, `and`, ... as the bits of [`LogicKernel`].
const AND: LogicKernel = LogicKernel(0b1000);
const OR: LogicKernel = LogicKernel(0b1110);
const XOR: LogicKernel = LogicKernel(0b0110);
const FIRST: LogicKernel = LogicKernel(0b1100);
/// `not a`, and `a` itself, of one argument.
const NOT: UnaryLogicKernel = UnaryLogicKernel(true);
const IDENTITY: UnaryLogicKernel = UnaryLogicKernel(false);

/// `a + alpha b`, or minus.
fn plan_add(op: &'static str, args: &[Meta], alpha: Scalar, sign: f64) -> Result<Plan> {
    if sign < 0.0 && args.iter().any(|a| a.dtype == DType::Bool) {
        return unsupported(op, DType::Bool);
    }
    let dtype = result_type(args);
    check_alpha(op, alpha, dtype)?;
    let scale = sign * alpha.to_f64();
    match dtype {
        DType::Bool => Plan::same(if alpha.to_bool() { OR } else { FIRST }, dtype),
        _ if scale == 1.0 => Plan::same(NumKernel(f::Add), dtype),
        _ if scale == -1.0 => Plan::same(NumKernel(f::Sub), dtype),
        _ => Plan::same(NumKernel(f::AddScaled(scale)), dtype),
    }
}

/// An arithmetic operation that is `logic` on truth values.
fn plan_num(
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
fn plan_real(args: &[Meta], kernel: impl BlockKernel + 'static) -> Result<Plan> {
    Plan::same(kernel, result_type(args).to_float())
}

/// A function that only floating-point tensors have.
fn plan_float_only(op: &'static str, a: Meta, kernel: impl BlockKernel + 'static) -> Result<Plan> {
    if a.dtype.is_float() { Plan::same(kernel, a.dtype) } else { unsupported(op, a.dtype) }
}

/// A function of numbers that truth values do not have.
fn plan_no_bool(op: &'static str, a: Meta, kernel: impl BlockKernel + 'static) -> Result<Plan> {
    if a.dtype == DType::Bool { unsupported(op, a.dtype) } else { Plan::same(kernel, a.dtype) }
}

/// A power. Exponents that PyTorch computes by other means (0.5 is a square root, ...) are the same here.
fn plan_pow(args: &[Meta]) -> Result<Plan> {
    let dtype = result_type(args);
    let exponent = args[1].scalar;
    match (dtype, exponent) {
        // true to any power is true, and so is false to the power false
        (DType::Bool, Some(_)) => Plan::same(LogicKernel(0b1101), dtype),
        (DType::Bool, None) => unsupported("pow", dtype),
        (DType::I64, Some(s)) if s.to_i64() < 0 => {
            Err(Error::NegativePower { op: "pow", exponent: s.to_i64() })
        }
        (DType::I64, _) => Plan::same(IntPowKernel, dtype),
        (_, Some(s)) if s.to_f64() == 2.0 => Plan::same(FloatKernel(f::PowSquare), dtype),
        (_, Some(s)) if s.to_f64() == 0.5 => Plan::same(FloatKernel(f::PowSqrt), dtype),
        (_, Some(s)) if s.to_f64() == -0.5 => Plan::same(FloatKernel(f::PowRsqrt), dtype),
        (_, Some(s)) if s.to_f64() == -1.0 => Plan::same(FloatKernel(f::PowReciprocal), dtype),
        _ => Plan::same(FloatKernel(f::Pow), dtype),
    }
}

/// A relation; truth values compare as integers.
fn plan_compare(args: &[Meta], kernel: impl BlockKernel + 'static) -> Result<Plan> {
    let compute = result_type(args).max(DType::I64);
    Ok(Plan { kernel: Box::new(kernel), compute, out: DType::Bool })
}

/// Arithmetic with a number on the left: `2.0 - x`.
#[track_caller]
pub(crate) fn reversed(op: &'static str, number: Scalar, other: &Tensor) -> Result<Tensor> {
    let args = [Arg::Scalar(number), Arg::Tensor(other)];
    let metas = &args.map(|a| a.meta());
    let plan = match op {
        "add" => plan_add(op, metas, Scalar::I64(1), 1.0),
        "sub" => plan_add(op, metas, Scalar::I64(1), -1.0),
        "mul" => plan_num(metas, NumKernel(f::Mul), AND),
        "div" => plan_real(metas, FloatKernel(f::Div)),
        "pow" => plan_pow(metas),
        _ => unreachable!("operators are + - * / and the power"),
    };
    run(op, &plan?, &args)
}

/// Defines the new and the in-place form of an operation of two arguments.
macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident, $name_:ident = |$args:ident| $plan:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<'a>(&'a self, other: impl Into<Arg<'a>>) -> Result<Tensor> {
                let args = [Arg::Tensor(self), other.into()];
                let $args = &args.map(|a| a.meta());
                run(stringify!($name), &$plan?, &args)
            }

            #[doc = concat!("[`Self::", stringify!($name), "`] into this tensor, whose shape and type stay as they are.")]
            ///
            /// # Errors
            /// As the new form; `Expand` or `Broadcast` if the other operand does not expand to this shape,
            /// `ResultCast` if the result is of a higher category than this tensor. Nothing is changed then.
            #[track_caller]
            pub fn $name_<'a>(&mut self, other: impl Into<Arg<'a>>) -> Result<&mut Tensor> {
                let other = other.into();
                let $args = &[Arg::Tensor(self).meta(), other.meta()];
                let plan = $plan?;
                run_in_place(stringify!($name_), &plan, self, &[other])?;
                Ok(self)
            }
        )*}
    };
}

binary! {
    /// `self + other`, elementwise with broadcasting; logical or for two `bool` tensors.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let sum = tensor![[1.0], [2.0]].add(&tensor![10.0, 20.0, 30.0])?;
    /// assert_eq!(sum, tensor![[11.0, 21.0, 31.0], [12.0, 22.0, 32.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    add, add_ = |a| plan_add("add", a, Scalar::I64(1), 1.0);

    /// `self - other`, elementwise with broadcasting.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` if either is `bool`, as in PyTorch.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 2.0].sub(1.0)?, tensor![2.0, 1.0]);
    /// assert!(tensor![true; bool].sub(&tensor![false; bool]).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    sub, sub_ = |a| plan_add("sub", a, Scalar::I64(1), -1.0);

    /// `self * other`, elementwise with broadcasting; logical and for two `bool` tensors.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[2.0], [3.0]].mul(&tensor![1.0, 10.0])?, tensor![[2.0, 20.0], [3.0, 30.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    mul, mul_ = |a| plan_num(a, NumKernel(f::Mul), AND);

    /// `self / other`, elementwise with broadcasting: true division, a float also for integers.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1, 3; i64].div(2)?, tensor![0.5, 1.5]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    div, div_ = |a| plan_real(a, FloatKernel(f::Div));

    /// `self` to the power `other`, elementwise with broadcasting. Integer powers wrap.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `NegativePower` for integers to a negative number;
    /// `DTypeUnsupported` for two `bool` tensors.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0, 3.0].pow(&tensor![[0.0], [2.0]])?, tensor![[1.0, 1.0], [4.0, 9.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    pow, pow_ = |a| plan_pow(a);

    /// The larger of two elements, with broadcasting; NaN if either is.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 5.0].maximum(3.0)?, tensor![3.0, 5.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    maximum, maximum_ = |a| plan_num(a, NumKernel(f::Maximum), OR);

    /// The smaller of two elements, with broadcasting; NaN if either is.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 5.0].minimum(3.0)?, tensor![1.0, 3.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    minimum, minimum_ = |a| plan_num(a, NumKernel(f::Minimum), AND);

    /// Whether elements are equal, with broadcasting: a `bool` tensor. NaN equals nothing.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].eq(2.0)?, tensor![false, true; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    eq, eq_ = |a| plan_compare(a, CompareKernel(f::Eq));

    /// Whether elements differ, with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].ne(2.0)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    ne, ne_ = |a| plan_compare(a, CompareKernel(f::Ne));

    /// `self < other`, with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].lt(2.0)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    lt, lt_ = |a| plan_compare(a, CompareKernel(f::Lt));

    /// `self <= other`, with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 3.0].le(2.0)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    le, le_ = |a| plan_compare(a, CompareKernel(f::Le));

    /// `self > other`, with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 3.0].gt(2.0)?, tensor![false, true; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    gt, gt_ = |a| plan_compare(a, CompareKernel(f::Gt));

    /// `self >= other`, with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].ge(2.0)?, tensor![false, true; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    ge, ge_ = |a| plan_compare(a, CompareKernel(f::Ge));

    /// Whether both are true (not zero), with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 0.0].logical_and(true)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    logical_and, logical_and_ = |_a| Plan::same(AND, DType::Bool);

    /// Whether at least one is true (not zero), with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 0.0].logical_or(false)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    logical_or, logical_or_ = |_a| Plan::same(OR, DType::Bool);

    /// Whether exactly one is true (not zero), with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 0.0].logical_xor(true)?, tensor![false, true; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    logical_xor, logical_xor_ = |_a| Plan::same(XOR, DType::Bool);

    /// `max(self, lo)`: [`Self::clamp`] with a lower bound only.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 2.0].clamp_min(0.0)?, tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    clamp_min, clamp_min_ = |a| plan_num(a, NumKernel(f::Maximum), OR);

    /// `min(self, hi)`: [`Self::clamp`] with an upper bound only.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 2.0].clamp_max(1.0)?, tensor![-1.0, 1.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    clamp_max, clamp_max_ = |a| plan_num(a, NumKernel(f::Minimum), AND);
}

/// Defines the new and the in-place form of a function of one tensor. `-> Tensor` where it cannot fail.
macro_rules! unary {
    (@new [Result] $name:ident $plan:expr, $x:expr) => {
        run(stringify!($name), &$plan?, &[Arg::Tensor($x)])
    };
    (@new [Tensor] $name:ident $plan:expr, $x:expr) => {
        $plan.and_then(|plan| run(stringify!($name), &plan, &[Arg::Tensor($x)])).expect("one operand of any type")
    };
    (@type Result) => { Result<Tensor> };
    (@type Tensor) => { Tensor };
    ($($(#[$doc:meta])* $name:ident, $name_:ident -> $ret:ident = |$a:ident| $plan:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            pub fn $name(&self) -> unary!(@type $ret) {
                let $a = Arg::Tensor(self).meta();
                unary!(@new [$ret] $name $plan, self)
            }

            #[doc = concat!("[`Self::", stringify!($name), "`] into this tensor.")]
            ///
            /// # Errors
            /// `DTypeUnsupported` where the function has no meaning, `ResultCast` if the result is of a higher
            /// category than this tensor. Nothing is changed then.
            pub fn $name_(&mut self) -> Result<&mut Tensor> {
                let $a = Arg::Tensor(self).meta();
                let plan = $plan?;
                run_in_place(stringify!($name_), &plan, self, &[])?;
                Ok(self)
            }
        )*}
    };
}

unary! {
    /// `-self`.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `bool`; use [`Self::logical_not`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, -2.0].neg()?, tensor![-1.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    neg, neg_ -> Result = |a| plan_no_bool("neg", a, NumKernel(f::Neg));

    /// The absolute value.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, -2.0].abs()?, tensor![1.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    abs, abs_ -> Result = |a| plan_no_bool("abs", a, NumKernel(f::Abs));

    /// -1, 0 or 1 by the sign; the identity for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 0.0, -2.0].sign(), tensor![1.0, 0.0, -1.0]);
    /// ```
    sign, sign_ -> Tensor = |a| plan_num(&[a], NumKernel(f::Sign), IDENTITY);

    /// The square; an integer for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, -2.0].square(), tensor![9.0, 4.0]);
    /// ```
    square, square_ -> Tensor = |a| Plan::same(NumKernel(f::Square), a.dtype.to_accumulator());

    /// e to the power of each element. Integers become the default float.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].exp(), tensor![1.0]);
    /// ```
    exp, exp_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Exp));

    /// `exp(x) - 1`, accurate near 0.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1e-10].expm1(), tensor![1e-10]);
    /// ```
    expm1, expm1_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Expm1));

    /// The natural logarithm; NaN below 0.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 0.0].ln(), tensor![0.0, f32::NEG_INFINITY]);
    /// ```
    ln, ln_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Ln));

    /// `ln(1 + x)`, accurate near 0.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1e-10].log1p(), tensor![1e-10]);
    /// ```
    log1p, log1p_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Log1p));

    /// The square root; NaN below 0.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![4.0, 9.0].sqrt(), tensor![2.0, 3.0]);
    /// ```
    sqrt, sqrt_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Sqrt));

    /// `1 / sqrt(x)`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![4.0].rsqrt(), tensor![0.5]);
    /// ```
    rsqrt, rsqrt_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Rsqrt));

    /// `1 / x`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![4.0].reciprocal(), tensor![0.25]);
    /// ```
    reciprocal, reciprocal_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Reciprocal));

    /// The sine of an angle in radians.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].sin(), tensor![0.0]);
    /// ```
    sin, sin_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Sin));

    /// The cosine of an angle in radians.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].cos(), tensor![1.0]);
    /// ```
    cos, cos_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Cos));

    /// The hyperbolic tangent.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0, 100.0].tanh(), tensor![0.0, 1.0]);
    /// ```
    tanh, tanh_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Tanh));

    /// The logistic function `1 / (1 + exp(-x))`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].sigmoid(), tensor![0.5]);
    /// ```
    sigmoid, sigmoid_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Sigmoid));

    /// The error function.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// foldback_tensor::assert_close!(tensor![0.0, 10.0].erf(), tensor![0.0, 1.0]);
    /// ```
    erf, erf_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::Erf));

    /// `max(x, 0)`; NaN stays NaN.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 2.0].relu()?, tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    relu, relu_ -> Result = |a| plan_no_bool("relu", a, NumKernel(f::Relu));

    /// The Gaussian error linear unit `x Phi(x)` (Hendrycks and Gimpel, 2016).
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].gelu()?, tensor![0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    gelu, gelu_ -> Result = |a| plan_float_only("gelu", a, FloatKernel(f::Gelu));

    /// [`Self::gelu`] by its tanh approximation, from the same paper.
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].gelu_tanh()?, tensor![0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    gelu_tanh, gelu_tanh_ -> Result = |a| plan_float_only("gelu_tanh", a, FloatKernel(f::GeluTanh));

    /// `ln(1 + exp(x))`, and `x` itself above 20; see [`Self::softplus_with`].
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![30.0].softplus()?, tensor![30.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    softplus, softplus_ -> Result = |a| plan_float_only("softplus", a, FloatKernel(f::Softplus { beta: 1.0, threshold: 20.0 }));

    /// `x sigmoid(x)`, also called swish (Elfwing, Uchibe and Doya, 2018).
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].silu()?, tensor![0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    silu, silu_ -> Result = |a| plan_float_only("silu", a, FloatKernel(f::Silu));

    /// Whether each element is false (zero): a `bool` tensor.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0, 2.0].logical_not(), tensor![true, false; bool]);
    /// ```
    logical_not, logical_not_ -> Tensor = |_a| Plan::same(NOT, DType::Bool);
}

impl Tensor {
    /// `self + alpha * other`.
    ///
    /// # Errors
    /// As [`Self::add`]; `Alpha` if the scale does not suit the type of the result (a fraction for integers, a truth
    /// value for numbers).
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].add_scaled(&tensor![10.0, 20.0], 0.5)?, tensor![6.0, 12.0]);
    /// assert!(tensor![1; i64].add_scaled(&tensor![1; i64], 0.5).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn add_scaled<'a>(&'a self, other: impl Into<Arg<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor> {
        let args = [Arg::Tensor(self), other.into()];
        run("add", &plan_add("add", &args.map(|a| a.meta()), alpha.into(), 1.0)?, &args)
    }

    /// `self - alpha * other`.
    ///
    /// # Errors
    /// As [`Self::sub`] and [`Self::add_scaled`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].sub_scaled(&tensor![10.0], 2)?, tensor![-19.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn sub_scaled<'a>(&'a self, other: impl Into<Arg<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor> {
        let args = [Arg::Tensor(self), other.into()];
        run("sub", &plan_add("sub", &args.map(|a| a.meta()), alpha.into(), -1.0)?, &args)
    }

    /// `number - self`.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].rsub(3.0)?, tensor![2.0, 1.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    pub fn rsub(&self, number: impl Into<Scalar>) -> Result<Tensor> {
        reversed("sub", number.into(), self)
    }

    /// `number / self`.
    ///
    /// # Errors
    /// None today; the signature is that of its relatives.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].rdiv(3.0)?, tensor![3.0, 1.5]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    pub fn rdiv(&self, number: impl Into<Scalar>) -> Result<Tensor> {
        reversed("div", number.into(), self)
    }

    /// `number` to the power `self`.
    ///
    /// # Errors
    /// `DTypeUnsupported` for a `bool` to the power of `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].rpow(3.0)?, tensor![3.0, 9.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    pub fn rpow(&self, number: impl Into<Scalar>) -> Result<Tensor> {
        reversed("pow", number.into(), self)
    }

    /// [`Self::add_scaled`] into this tensor.
    ///
    /// # Errors
    /// As [`Self::add_`] and [`Self::add_scaled`]. Nothing is changed then.
    #[track_caller]
    pub fn add_scaled_<'a>(
        &mut self,
        other: impl Into<Arg<'a>>,
        alpha: impl Into<Scalar>,
    ) -> Result<&mut Tensor> {
        let other = other.into();
        let plan = plan_add("add_", &[Arg::Tensor(self).meta(), other.meta()], alpha.into(), 1.0)?;
        run_in_place("add_", &plan, self, &[other])?;
        Ok(self)
    }

    /// [`Self::sub_scaled`] into this tensor.
    ///
    /// # Errors
    /// As [`Self::sub_`] and [`Self::add_scaled`]. Nothing is changed then.
    #[track_caller]
    pub fn sub_scaled_<'a>(
        &mut self,
        other: impl Into<Arg<'a>>,
        alpha: impl Into<Scalar>,
    ) -> Result<&mut Tensor> {
        let other = other.into();
        let plan = plan_add("sub_", &[Arg::Tensor(self).meta(), other.meta()], alpha.into(), -1.0)?;
        run_in_place("sub_", &plan, self, &[other])?;
        Ok(self)
    }

    /// `ln(1 + exp(beta x)) / beta`, and `x` itself where `beta x` exceeds `threshold`.
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0].softplus_with(2.0, 5.0)?, tensor![3.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    pub fn softplus_with(&self, beta: f64, threshold: f64) -> Result<Tensor> {
        let arg = Arg::Tensor(self);
        run(
            "softplus",
            &plan_float_only("softplus", arg.meta(), FloatKernel(f::Softplus { beta, threshold }))?,
            &[arg],
        )
    }

    /// `min(max(self, lo), hi)`, with broadcasting; where `lo > hi` the result is `hi`.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` if all are `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 0.5, 2.0].clamp(0.0, 1.0)?, tensor![0.0, 0.5, 1.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp<'a>(&'a self, lo: impl Into<Arg<'a>>, hi: impl Into<Arg<'a>>) -> Result<Tensor> {
        let args = [Arg::Tensor(self), lo.into(), hi.into()];
        let dtype = result_type(&args.map(|a| a.meta()));
        if dtype == DType::Bool {
            return unsupported("clamp", dtype);
        }
        run("clamp", &Plan::same(NumKernel(f::Clamp), dtype)?, &args)
    }

    /// [`Self::clamp`] into this tensor.
    ///
    /// # Errors
    /// As [`Self::clamp`]; `Expand` or `ResultCast` if the result does not fit this tensor. Nothing is changed then.
    #[track_caller]
    pub fn clamp_<'a>(&mut self, lo: impl Into<Arg<'a>>, hi: impl Into<Arg<'a>>) -> Result<&mut Tensor> {
        let others = [lo.into(), hi.into()];
        let dtype = result_type(&[Arg::Tensor(self).meta(), others[0].meta(), others[1].meta()]);
        if dtype == DType::Bool {
            return unsupported("clamp_", dtype);
        }
        let plan = Plan::same(NumKernel(f::Clamp), dtype)?;
        run_in_place("clamp_", &plan, self, &others)?;
        Ok(self)
    }

    /// `yes` where this `bool` tensor is true, else `no`; all three broadcast (PyTorch's `where`).
    ///
    /// # Errors
    /// `DTypeMismatch` if this is not `bool`; `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![-1.0, 2.0];
    /// assert_eq!(x.gt(0.0)?.where_cond(&x, 0.0)?, tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn where_cond<'a>(&'a self, yes: impl Into<Arg<'a>>, no: impl Into<Arg<'a>>) -> Result<Tensor> {
        self.expect_dtype("where", DType::Bool)?;
        let args = [Arg::Tensor(self), yes.into(), no.into()];
        let dtype = result_type(&[args[1].meta(), args[2].meta()]);
        let shape = common_shape("where", &args, dtype)?;
        let cells = [args[1].cell(), args[2].cell()];
        let operands = [
            Operand::new(self, DType::Bool),
            args[1].operand(&cells[0], dtype),
            args[2].operand(&cells[1], dtype),
        ];
        Ok(iter::map(&WhereKernel, &operands, shape, dtype))
    }
}

/// Defines the form that writes into a given tensor.
macro_rules! out_forms {
    ($($name:ident, $name_out:ident $(, $alpha:ident)? = |$args:ident| $plan:expr;)*) => {
        impl Tensor {$(
            #[doc = concat!("[`Self::", stringify!($name), "`] written into `out`, which must have the result's shape.")]
            ///
            /// The result is cast to the type of `out`. An `out` whose buffer is shared is detached first: no other
            /// tensor sees the write.
            ///
            /// # Errors
            #[doc = concat!("As [`Self::", stringify!($name), "`]; `ShapeMismatch` if `out` has another shape,")]
            /// `Overlap` if it is expanded (stride 0), `ResultCast` if it is of a lower category than the result.
            /// Nothing is written then.
            #[track_caller]
            pub fn $name_out<'a>(
                &'a self,
                other: impl Into<Arg<'a>>,
                $($alpha: impl Into<Scalar>,)?
                out: &mut Tensor,
            ) -> Result<()> {
                $(let $alpha = $alpha.into();)?
                let args = [Arg::Tensor(self), other.into()];
                let $args = &args.map(|a| a.meta());
                run_out(stringify!($name_out), &$plan?, &args, out)
            }
        )*}
    };
}

out_forms! {
    add_scaled, add_out, alpha = |a| plan_add("add_out", a, alpha, 1.0);
    sub_scaled, sub_out, alpha = |a| plan_add("sub_out", a, alpha, -1.0);
    mul, mul_out = |a| plan_num(a, NumKernel(f::Mul), AND);
    div, div_out = |a| plan_real(a, FloatKernel(f::Div));
}

/// Runs a planned operation into a tensor of the result's shape.
#[track_caller]
fn run_out(op: &'static str, plan: &Plan, args: &[Arg<'_>; 2], out: &mut Tensor) -> Result<()> {
    let shape = common_shape(op, args, plan.out)?;
    expect_castable(op, plan.out, out.dtype())?;
    if *out.shape() != shape {
        return Err(Error::ShapeMismatch { op, expected: shape, found: out.shape().clone() });
    }
    if out.strides().iter().zip(out.dims()).any(|(&s, &n)| s == 0 && n > 1) {
        return Err(Error::Overlap { op, shape, strides: out.strides().to_vec() });
    }
    if plan.out != out.dtype() {
        *out = run(op, plan, args)?.to_dtype(out.dtype());
        return Ok(());
    }
    if !out.is_writable_in_place() {
        *out = Tensor::zeros(shape.clone(), out.dtype());
    }
    let cells = args.each_ref().map(Arg::cell);
    let operands: [Operand<'_>; 2] = std::array::from_fn(|i| args[i].operand(&cells[i], plan.compute));
    iter::map_out(&*plan.kernel, &operands, &shape, out.block_mut());
    Ok(())
}
