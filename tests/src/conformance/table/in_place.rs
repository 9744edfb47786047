//! Operations that write their input. A tensor's own form decides what is refused; a tracked operand goes through the
//! variable's form, which must give the same bits.

use foldback_graph::{Input, Result, Var};
use foldback_tensor::{Arg, Scalar, Tensor};

use super::{Operation, Outcome, operation};
use crate::conformance::args::{Args, Operand, Read, Refusal};
use crate::conformance::close::same_bits;

/// A function of one number, written over it.
macro_rules! unary {
    ($names:literal, $form:ident) => {
        operation!($names, "input", |a| {
            let mut x = a.var("input")?;
            written(
                &mut x,
                &Operand::Number(Scalar::I64(0)),
                |x, _| x.$form().map(drop),
                |t, _| t.$form().map(drop),
            )?;
            Ok(vec![x])
        })
    };
}

/// A function of two numbers, written over the first.
macro_rules! binary {
    ($names:literal, $other:literal, $form:ident, $scaled:ident) => {
        operation!($names, concat!("input alpha ", $other), |a| {
            let (mut x, other) = (a.var("input")?, a.operand($other)?);
            match a.scalar("alpha")? {
                Some(alpha) => {
                    written(&mut x, &other, |x, y| x.$scaled(y, alpha).map(drop), |t, u| t.$scaled(u, alpha).map(drop))?
                }
                None => written(&mut x, &other, |x, y| x.$form(y).map(drop), |t, u| t.$form(u).map(drop))?,
            }
            Ok(vec![x])
        })
    };
    ($names:literal, $other:literal, $form:ident) => { binary!(Each $names, $other, $form) };
    ($precision:ident $names:literal, $other:literal, $form:ident) => {
        operation!($precision $names, concat!("input ", $other), |a| {
            let (mut x, other) = (a.var("input")?, a.operand($other)?);
            written(&mut x, &other, |x, y| x.$form(y).map(drop), |t, u| t.$form(u).map(drop))?;
            Ok(vec![x])
        })
    };
}

pub(super) const ROWS: &[Operation] = &[
    unary!("neg_ negative_", neg_),
    unary!("abs_ absolute_", abs_),
    unary!("sign_", sign_),
    unary!("square_", square_),
    unary!("exp_", exp_),
    unary!("expm1_", expm1_),
    unary!("log_", ln_),
    unary!("log1p_", log1p_),
    unary!("sqrt_", sqrt_),
    unary!("rsqrt_", rsqrt_),
    unary!("reciprocal_", reciprocal_),
    unary!("sin_", sin_),
    unary!("cos_", cos_),
    unary!("tan_", tan_),
    unary!("tanh_", tanh_),
    unary!("sigmoid_", sigmoid_),
    unary!("erf_", erf_),
    unary!("relu_", relu_),
    unary!("silu_", silu_),
    unary!("logical_not_", logical_not_),
    binary!("add_", "other", add_, add_with_),
    binary!("sub_ subtract_", "other", sub_, sub_with_),
    binary!("mul_ multiply_", "other", mul_),
    operation!("div_ divide_", "input other rounding_mode", |a| divide(a)),
    binary!("true_divide_", "other", div_),
    binary!("floor_divide_", "other", div_floor_),
    binary!("pow_", "exponent", pow_),
    operation!("clamp_ clip_", "input min max", |a| clamp(a)),
    binary!(Exact "fill_", "value", fill_),
    binary!(Exact "copy_", "src", copy_),
    binary!("eq_", "other", eq_),
    binary!("ne_ not_equal_", "other", ne_),
    binary!("lt_ less_", "other", lt_),
    binary!("le_ less_equal_", "other", le_),
    binary!("gt_ greater_", "other", gt_),
    binary!("ge_ greater_equal_", "other", ge_),
    binary!("logical_and_", "other", logical_and_),
    binary!("logical_or_", "other", logical_or_),
    binary!("logical_xor_", "other", logical_xor_),
];

fn divide(a: &Args) -> Outcome {
    let (mut x, other) = (a.var("input")?, a.operand("other")?);
    match a.word("rounding_mode", "")?.as_str() {
        "" => written(&mut x, &other, |x, y| x.div_(y).map(drop), |t, u| t.div_(u).map(drop))?,
        "floor" => {
            written(&mut x, &other, |x, y| x.div_floor_(y).map(drop), |t, u| t.div_floor_(u).map(drop))?
        }
        "trunc" => {
            written(&mut x, &other, |x, y| x.div_trunc_(y).map(drop), |t, u| t.div_trunc_(u).map(drop))?
        }
        other => return Err(Refusal::Argument(format!("`rounding_mode` = {other}"))),
    }
    Ok(vec![x])
}

/// Writes over a variable; over its tensor, too, if it is not tracked, and compares.
fn written(
    x: &mut Var,
    other: &Operand,
    on_var: impl Fn(&mut Var, Input<'_>) -> Result<()>,
    on_tensor: impl Fn(&mut Tensor, Arg<'_>) -> foldback_tensor::Result<()>,
) -> Read<()> {
    let mut own = x.value();
    let tensor = match other {
        Operand::Var(v) => on_tensor(&mut own, Arg::Tensor(&v.value())),
        Operand::Number(s) => on_tensor(&mut own, Arg::Scalar(*s)),
    };
    let var = on_var(x, other.input());
    if var.is_ok() != tensor.is_ok() || (var.is_ok() && !same_bits(&own, &x.value())) {
        return Err(Refusal::Library(format!("the variable gives {var:?} and the tensor {tensor:?}")));
    }
    Ok(var?)
}

fn clamp(a: &Args) -> Outcome {
    let mut x = a.var("input")?;
    match (a.maybe_operand("min")?, a.maybe_operand("max")?) {
        (Some(lo), Some(hi)) => x.clamp_(lo.input(), hi.input())?,
        (Some(lo), None) => x.clamp_min_(lo.input())?,
        (None, Some(hi)) => x.clamp_max_(hi.input())?,
        (None, None) => return Err(Refusal::Argument("clamp without a bound".into())),
    };
    Ok(vec![x])
}
