//! Operations that write their input. A tensor's own form decides what is refused; a tracked operand goes through the
//! variable's form, which must give the same bits.

use foldback_graph::{Input, Result, Var};
use foldback_tensor::{Arg, Tensor};

use super::{Operation, Outcome, operation};
use crate::conformance::args::{Args, Operand, Read, Refusal};
use crate::conformance::close::same_bits;

/// A function of one number, written over it.
macro_rules! unary {
    ($names:literal, |$t:ident| $body:expr) => {
        operation!($names, "input", |a| {
            let x = writable(a)?;
            let mut $t = x.value();
            $body?;
            Ok(vec![Var::from($t)])
        })
    };
}

/// A function of two numbers without a gradient, written over the first.
macro_rules! truth {
    ($names:literal, $form:ident) => {
        operation!($names, "input other", |a| {
            let (x, other) = (writable(a)?, a.operand("other")?);
            let mut t = x.value();
            match &other {
                Operand::Var(v) => t.$form(&v.value())?,
                Operand::Number(s) => t.$form(*s)?,
            };
            Ok(vec![Var::from(t)])
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
                    written(&mut x, &other, |x, y| x.$scaled(y, alpha), |t, u| t.$scaled(u, alpha).map(drop))?
                }
                None => written(&mut x, &other, |x, y| x.$form(y), |t, u| t.$form(u).map(drop))?,
            }
            Ok(vec![x])
        })
    };
    ($names:literal, $other:literal, $form:ident) => {
        operation!($names, concat!("input ", $other), |a| {
            let (mut x, other) = (a.var("input")?, a.operand($other)?);
            written(&mut x, &other, |x, y| x.$form(y), |t, u| t.$form(u).map(drop))?;
            Ok(vec![x])
        })
    };
}

pub(super) const ROWS: &[Operation] = &[
    unary!("neg_ negative_", |t| t.neg_()),
    unary!("abs_ absolute_", |t| t.abs_()),
    unary!("sign_", |t| t.sign_()),
    unary!("square_", |t| t.square_()),
    unary!("exp_", |t| t.exp_()),
    unary!("expm1_", |t| t.expm1_()),
    unary!("log_", |t| t.ln_()),
    unary!("log1p_", |t| t.log1p_()),
    unary!("sqrt_", |t| t.sqrt_()),
    unary!("rsqrt_", |t| t.rsqrt_()),
    unary!("reciprocal_", |t| t.reciprocal_()),
    unary!("sin_", |t| t.sin_()),
    unary!("cos_", |t| t.cos_()),
    unary!("tan_", |t| t.tan_()),
    unary!("tanh_", |t| t.tanh_()),
    unary!("sigmoid_", |t| t.sigmoid_()),
    unary!("erf_", |t| t.erf_()),
    unary!("relu_", |t| t.relu_()),
    unary!("silu_", |t| t.silu_()),
    unary!("logical_not_", |t| t.logical_not_()),
    binary!("add_", "other", add_, add_with_),
    binary!("sub_ subtract_", "other", sub_, sub_with_),
    binary!("mul_ multiply_", "other", mul_),
    operation!("div_ divide_", "input other rounding_mode", |a| divide(a)),
    binary!("true_divide_", "other", div_),
    binary!("floor_divide_", "other", div_floor_),
    binary!("pow_", "exponent", pow_),
    operation!("clamp_ clip_", "input min max", |a| clamp(a)),
    operation!(Exact "fill_", "input value", |a| fill(a)),
    operation!(Exact "masked_fill_", "input mask value", |a| {
        let (mut x, mask) = (a.var("input")?, a.var("mask")?);
        let (m, value) = (mask.value(), a.operand("value")?);
        written(&mut x, &value, |x, v| x.masked_fill_(&mask, v), |t, v| t.masked_fill_(&m, v).map(drop))?;
        Ok(vec![x])
    }),
    truth!("eq_", eq_),
    truth!("ne_ not_equal_", ne_),
    truth!("lt_ less_", lt_),
    truth!("le_ less_equal_", le_),
    truth!("gt_ greater_", gt_),
    truth!("ge_ greater_equal_", ge_),
    truth!("logical_and_", logical_and_),
    truth!("logical_or_", logical_or_),
    truth!("logical_xor_", logical_xor_),
];

/// The input, which must not be tracked: variables have no such form to write through.
fn writable(a: &Args) -> Read<Var> {
    let x = a.var("input")?;
    if x.requires_grad() {
        return Err(Refusal::Argument("a tracked variable is not written by this operation".into()));
    }
    Ok(x)
}

fn divide(a: &Args) -> Outcome {
    let (mut x, other) = (a.var("input")?, a.operand("other")?);
    match a.word("rounding_mode", "")?.as_str() {
        "" => written(&mut x, &other, |x, y| x.div_(y), |t, u| t.div_(u).map(drop))?,
        "floor" => written(&mut x, &other, |x, y| x.div_floor_(y), |t, u| t.div_floor_(u).map(drop))?,
        "trunc" => written(&mut x, &other, |x, y| x.div_trunc_(y), |t, u| t.div_trunc_(u).map(drop))?,
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
    }
    Ok(vec![x])
}

/// `fill_` with a number; a 0-d tensor is written into all of the input.
fn fill(a: &Args) -> Outcome {
    let mut x = writable(a)?;
    match a.operand("value")? {
        Operand::Number(s) => {
            let mut t = x.value();
            t.fill_(s);
            Ok(vec![Var::from(t)])
        }
        Operand::Var(v) if v.rank() == 0 => {
            x.slice_assign((), &v)?;
            Ok(vec![x])
        }
        Operand::Var(_) => Err(Refusal::Argument("a value of more than one element".into())),
    }
}
