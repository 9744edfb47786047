//! Operations that work element by element.

use foldback_graph::{Input, Result, Var};
use foldback_tensor::{DType, Scalar};

use super::{Operation, Outcome, one, operation};
use crate::conformance::args::{Args, Operand, Read, Refusal};

/// A function of one variable.
macro_rules! unary {
    ($names:literal, |$x:ident| $body:expr) => {
        operation!($names, "input", |a| {
            let $x = a.var("input")?;
            one($body)
        })
    };
}

/// A function of two operands, of which PyTorch wants the first to be a tensor.
macro_rules! binary {
    ($names:literal, |$x:ident, $y:ident| $body:expr) => {
        operation!($names, "input other", |a| {
            let ($x, other) = (a.var("input")?, a.operand("other")?);
            let $y = other.input();
            one($body)
        })
    };
}

/// A product or a quotient that is added.
macro_rules! products {
    ($names:literal, $f:ident, $scaled:ident) => {
        operation!($names, "input tensor1 tensor2 value", |a| {
            let (x, b, c) = (a.var("input")?, a.var("tensor1")?, a.var("tensor2")?);
            one(match a.scalar("value")? {
                Some(value) => x.$scaled(&b, &c, value),
                None => x.$f(&b, &c),
            })
        })
    };
}

/// A function of two tensors, neither of which may be a number.
macro_rules! tensors {
    ($names:literal, |$x:ident, $y:ident| $body:expr) => {
        operation!($names, "input other", |a| {
            let ($x, $y) = (a.var("input")?, a.var("other")?);
            one($body)
        })
    };
}

/// A function of two operands, either of which may be a number; the last function has the number on its left.
macro_rules! either {
    ($names:literal, $left:literal $f:ident $right:literal, $reversed:expr) => {
        operation!($names, "input other", |a| {
            reflected(a, $right)?;
            either(a, $left, $right, |x, y| x.$f(y), $reversed)
        })
    };
}

/// A sum or a difference, the right side of which may be scaled.
macro_rules! scaled {
    ($names:literal, $left:literal $f:ident $scaled:ident $right:literal, $reversed:expr) => {
        operation!($names, "input other alpha", |a| {
            reflected(a, $right)?;
            match a.scalar("alpha")? {
                None => either(a, $left, $right, |x, y| x.$f(y), $reversed),
                Some(alpha) => one(a.var($left)?.$scaled(a.operand($right)?.input(), alpha)),
            }
        })
    };
}

pub(super) const ROWS: &[Operation] = &[
    unary!("neg negative", |x| x.try_neg()),
    unary!("abs absolute", |x| x.try_abs()),
    unary!("sign", |x| Ok(x.sign())),
    unary!("square", |x| Ok(x.square())),
    unary!("exp", |x| Ok(x.exp())),
    unary!("expm1 special.expm1", |x| Ok(x.expm1())),
    unary!("log", |x| Ok(x.log())),
    unary!("log1p special.log1p", |x| Ok(x.log1p())),
    unary!("sqrt", |x| Ok(x.sqrt())),
    unary!("rsqrt", |x| Ok(x.rsqrt())),
    unary!("reciprocal", |x| Ok(x.reciprocal())),
    unary!("sin", |x| Ok(x.sin())),
    unary!("cos", |x| Ok(x.cos())),
    unary!("tan", |x| Ok(x.tan())),
    unary!("tanh", |x| Ok(x.tanh())),
    unary!("sigmoid special.expit", |x| Ok(x.sigmoid())),
    unary!("erf special.erf", |x| Ok(x.erf())),
    unary!("relu", |x| x.try_relu()),
    unary!("silu", |x| x.try_silu()),
    unary!("logical_not", |x| Ok(x.logical_not())),
    unary!("exp2 special.exp2", |x| Ok(x.exp2())),
    unary!("log2", |x| Ok(x.log2())),
    unary!("log10", |x| Ok(x.log10())),
    unary!("asin arcsin", |x| Ok(x.asin())),
    unary!("acos arccos", |x| Ok(x.acos())),
    unary!("atan arctan", |x| Ok(x.atan())),
    unary!("sinh", |x| Ok(x.sinh())),
    unary!("cosh", |x| Ok(x.cosh())),
    unary!("asinh arcsinh", |x| Ok(x.asinh())),
    unary!("acosh arccosh", |x| Ok(x.acosh())),
    unary!("atanh arctanh", |x| Ok(x.atanh())),
    unary!("erfc special.erfc", |x| Ok(x.erfc())),
    unary!("floor", |x| x.try_floor()),
    unary!("ceil", |x| x.try_ceil()),
    unary!("trunc fix", |x| x.try_trunc()),
    unary!("frac", |x| x.try_frac()),
    operation!("round special.round", "input decimals", |a| {
        let x = a.var("input")?;
        one(match a.int("decimals")? {
            Some(places) => x.round_with(places as i32),
            None => x.try_round(),
        })
    }),
    operation!("nan_to_num", "input nan posinf neginf", |a| {
        let x = a.var("input")?;
        if !(a.has("nan") || a.has("posinf") || a.has("neginf")) {
            return one(Ok(x.nan_to_num()));
        }
        let [nan, posinf, neginf] = replaced(a, x.dtype())?;
        one(x.nan_to_num_with(nan, posinf, neginf))
    }),
    unary!("isnan", |x| Ok(x.isnan())),
    unary!("isinf", |x| Ok(x.isinf())),
    unary!("isfinite", |x| Ok(x.isfinite())),
    unary!("bitwise_not", |x| x.try_bitwise_not()),
    unary!("selu", |x| x.try_selu()),
    unary!("hardsigmoid", |x| x.try_hardsigmoid()),
    unary!("hardswish", |x| x.try_hardswish()),
    unary!("mish", |x| x.try_mish()),
    unary!("logsigmoid", |x| x.try_logsigmoid()),
    unary!("softsign", |x| x.try_softsign()),
    operation!("elu", "input alpha", |a| {
        let x = a.var("input")?;
        one(if a.has("alpha") { x.elu_with(a.float("alpha", 1.0)?) } else { x.try_elu() })
    }),
    operation!("celu", "input alpha", |a| {
        let x = a.var("input")?;
        one(if a.has("alpha") { x.celu_with(a.float("alpha", 1.0)?) } else { x.try_celu() })
    }),
    operation!("leaky_relu", "input negative_slope", |a| {
        let x = a.var("input")?;
        let slope = a.float("negative_slope", 0.01)?;
        one(if a.has("negative_slope") { x.leaky_relu_with(slope) } else { x.try_leaky_relu() })
    }),
    operation!("hardtanh", "input min_val max_val", |a| {
        let x = a.var("input")?;
        if !a.has("min_val") && !a.has("max_val") {
            return one(x.try_hardtanh());
        }
        one(x.hardtanh_with(a.float("min_val", -1.0)?, a.float("max_val", 1.0)?))
    }),
    operation!("prelu", "input weight", |a| one(a.var("input")?.prelu(a.var("weight")?))),
    tensors!("fmax", |x, y| x.fmax(&y)),
    tensors!("fmin", |x, y| x.fmin(&y)),
    tensors!("atan2 arctan2", |x, y| x.atan2(&y)),
    tensors!("hypot", |x, y| x.hypot(&y)),
    tensors!("logaddexp", |x, y| x.logaddexp(&y)),
    binary!("copysign", |x, y| x.copysign(y)),
    binary!("fmod", |x, y| x.fmod(y)),
    binary!("remainder", |x, y| x.remainder(y)),
    binary!("xlogy special.xlogy", |x, y| x.xlogy(y)),
    binary!("bitwise_and", |x, y| x.bitwise_and(y)),
    binary!("bitwise_or", |x, y| x.bitwise_or(y)),
    binary!("bitwise_xor", |x, y| x.bitwise_xor(y)),
    operation!("lerp", "input end weight", |a| {
        let weight = a.operand("weight")?;
        one(a.var("input")?.lerp(a.var("end")?, weight.input()))
    }),
    products!("addcmul", addcmul, addcmul_with),
    products!("addcdiv", addcdiv, addcdiv_with),
    operation!("gelu", "input approximate", |a| match a.word("approximate", "none")?.as_str() {
        "none" => one(a.var("input")?.try_gelu()),
        "tanh" => one(a.var("input")?.try_gelu_tanh()),
        other => Err(Refusal::Argument(format!("`approximate` = {other}"))),
    }),
    operation!("softplus", "input beta threshold", |a| {
        one(a.var("input")?.softplus_with(a.float("beta", 1.0)?, a.float("threshold", 20.0)?))
    }),
    scaled!("add", "input" add add_with "other", |x, c| x.add(Input::Scalar(c))),
    scaled!("sub subtract", "input" sub sub_with "other", Var::rsub),
    scaled!("rsub", "other" sub sub_with "input", Var::rsub),
    either!("__rsub__", "other" sub "input", Var::rsub),
    either!("mul multiply", "input" mul "other", |x, c| x.mul(Input::Scalar(c))),
    operation!("div divide", "input other rounding_mode", |a| match a.word("rounding_mode", "")?.as_str() {
        "" => either(a, "input", "other", |x, y| x.div(y), Var::rdiv),
        "floor" => one(a.var("input")?.div_floor(a.operand("other")?.input())),
        "trunc" => one(a.var("input")?.div_trunc(a.operand("other")?.input())),
        other => Err(Refusal::Argument(format!("`rounding_mode` = {other}"))),
    }),
    binary!("floor_divide", |x, y| x.div_floor(y)),
    either!("true_divide", "input" div "other", Var::rdiv),
    either!("__rdiv__", "other" div "input", Var::rdiv),
    operation!("pow", "input self exponent", |a| {
        let base = if a.has("self") { "self" } else { "input" };
        either(a, base, "exponent", |x, y| x.pow(y), Var::rpow)
    }),
    either!("__rpow__", "other" pow "input", Var::rpow),
    tensors!("maximum", |x, y| x.maximum(&y)),
    tensors!("minimum", |x, y| x.minimum(&y)),
    binary!("eq", |x, y| x.eq(y)),
    binary!("ne not_equal", |x, y| x.ne(y)),
    binary!("lt less", |x, y| x.lt(y)),
    binary!("le less_equal", |x, y| x.le(y)),
    binary!("gt greater", |x, y| x.gt(y)),
    binary!("ge greater_equal", |x, y| x.ge(y)),
    tensors!("logical_and", |x, y| x.logical_and(&y)),
    tensors!("logical_or", |x, y| x.logical_or(&y)),
    tensors!("logical_xor", |x, y| x.logical_xor(&y)),
    operation!("clamp clip", "input min max", |a| {
        let (x, lo, hi) = (a.var("input")?, a.maybe_operand("min")?, a.maybe_operand("max")?);
        one(clamp(&x, lo, hi)?)
    }),
    operation!("clamp_min", "input min", |a| one(a.var("input")?.clamp_min(a.operand("min")?.input()))),
    operation!("clamp_max", "input max", |a| one(a.var("input")?.clamp_max(a.operand("max")?.input()))),
    operation!(Exact "where", "condition input other", |a| {
        let (condition, yes, no) = (a.var("condition")?, a.operand("input")?, a.operand("other")?);
        one(condition.where_cond(yes.input(), no.input()))
    }),
];

/// An operation whose right side is `input` is a method of a tensor, which cannot be a number.
fn reflected(a: &Args, right: &str) -> Read<()> {
    if right == "input" { a.var(right).map(drop) } else { Ok(()) }
}

/// What stands for NaN and the infinities: 0 and the largest numbers of the type unless they are given.
pub(super) fn replaced(a: &Args, dtype: DType) -> Read<[f64; 3]> {
    let most = if dtype == DType::F32 { f32::MAX.into() } else { f64::MAX };
    Ok([a.float("nan", 0.0)?, a.float("posinf", most)?, a.float("neginf", -most)?])
}

/// A clamp with either bound, or both.
pub(super) fn clamp(x: &Var, lo: Option<Operand>, hi: Option<Operand>) -> Read<Result<Var>> {
    Ok(match (lo, hi) {
        (Some(lo), Some(hi)) => x.clamp(lo.input(), hi.input()),
        (Some(lo), None) => x.clamp_min(lo.input()),
        (None, Some(hi)) => x.clamp_max(hi.input()),
        (None, None) => return Err(Refusal::Argument("clamp without a bound".into())),
    })
}

/// An operation on two operands, at most one of which is a number; `reversed` has the number on its left.
fn either(
    a: &Args,
    left: &str,
    right: &str,
    forward: fn(&Var, Input<'_>) -> Result<Var>,
    reversed: fn(&Var, Scalar) -> Result<Var>,
) -> Outcome {
    match (a.operand(left)?, a.operand(right)?) {
        (Operand::Var(x), y) => one(forward(&x, y.input())),
        (Operand::Number(c), Operand::Var(y)) => one(reversed(&y, c)),
        (Operand::Number(_), Operand::Number(_)) => Err(Refusal::Argument("two numbers".into())),
    }
}
