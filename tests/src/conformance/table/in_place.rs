//! Operations that write their input. A tensor's own form decides what is refused; a tracked operand goes through the
//! variable's form, which must give the same bits.

use foldback_graph::{Input, Result, Var};
use foldback_tensor::{Arg, Scalar, Tensor};

use super::pointwise::replaced;
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

/// A function of one number with settings, written over it; if none is given, the form without them.
macro_rules! setting {
    ($names:literal, $parameters:literal, $form:ident, |$x:ident, $a:ident| $with:expr) => {
        operation!($names, concat!("input ", $parameters), |$a| {
            let mut x = $a.var("input")?;
            let given = $parameters.split(' ').any(|p| $a.has(p));
            let nothing = Operand::Number(Scalar::I64(0));
            if !given {
                written(&mut x, &nothing, |x, _| x.$form().map(drop), |t, _| t.$form().map(drop))?;
                return Ok(vec![x]);
            }
            let mut own = x.value();
            let tensor = {
                let $x = &mut own;
                $with.map(drop)
            };
            let var = {
                let $x = &mut x;
                $with.map(drop)
            };
            agree(&x, &own, var, tensor)?;
            Ok(vec![x])
        })
    };
}

/// A product or a quotient, added in place.
macro_rules! products {
    ($names:literal, $form:ident, $scaled:ident) => {
        operation!($names, "input tensor1 tensor2 value", |a| {
            let (mut x, b, c) = (a.var("input")?, a.var("tensor1")?, a.operand("tensor2")?);
            match a.scalar("value")? {
                Some(v) => written(
                    &mut x,
                    &c,
                    |x, c| x.$scaled(&b, c, v).map(drop),
                    |t, c| t.$scaled(&b.value(), c, v).map(drop),
                )?,
                None => written(
                    &mut x,
                    &c,
                    |x, c| x.$form(&b, c).map(drop),
                    |t, c| t.$form(&b.value(), c).map(drop),
                )?,
            }
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
    unary!("log_", log_),
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
    unary!("exp2_", exp2_),
    unary!("log2_", log2_),
    unary!("log10_", log10_),
    unary!("asin_ arcsin_", asin_),
    unary!("acos_ arccos_", acos_),
    unary!("atan_ arctan_", atan_),
    unary!("sinh_", sinh_),
    unary!("cosh_", cosh_),
    unary!("asinh_ arcsinh_", asinh_),
    unary!("acosh_ arccosh_", acosh_),
    unary!("atanh_ arctanh_", atanh_),
    unary!("erfc_", erfc_),
    unary!("floor_", floor_),
    unary!("ceil_", ceil_),
    unary!("trunc_ fix_", trunc_),
    unary!("frac_", frac_),
    setting!("nan_to_num_", "nan posinf neginf", nan_to_num_, |x, a| {
        let [nan, posinf, neginf] = replaced(a, x.dtype())?;
        x.nan_to_num_with_(nan, posinf, neginf)
    }),
    unary!("selu_", selu_),
    unary!("bitwise_not_", bitwise_not_),
    setting!("round_", "decimals", round_, |x, a| x.round_with_(a.int_of("decimals")? as i32)),
    setting!("elu_", "alpha", elu_, |x, a| x.elu_with_(a.float("alpha", 1.0)?)),
    setting!("celu_", "alpha", celu_, |x, a| x.celu_with_(a.float("alpha", 1.0)?)),
    setting!("leaky_relu_", "negative_slope", leaky_relu_, |x, a| {
        x.leaky_relu_with_(a.float("negative_slope", 0.01)?)
    }),
    setting!("hardtanh_", "min_val max_val", hardtanh_, |x, a| {
        x.hardtanh_with_(a.float("min_val", -1.0)?, a.float("max_val", 1.0)?)
    }),
    binary!("atan2_ arctan2_", "other", atan2_),
    binary!("hypot_", "other", hypot_),
    binary!("copysign_", "other", copysign_),
    binary!("xlogy_", "other", xlogy_),
    binary!("remainder_", "other", remainder_),
    binary!("fmod_", "other", fmod_),
    binary!("bitwise_and_", "other", bitwise_and_),
    binary!("bitwise_or_", "other", bitwise_or_),
    binary!("bitwise_xor_", "other", bitwise_xor_),
    operation!("lerp_", "input end weight", |a| {
        let (mut x, end, weight) = (a.var("input")?, a.var("end")?, a.operand("weight")?);
        written(
            &mut x,
            &weight,
            |x, w| x.lerp_(&end, w).map(drop),
            |t, w| t.lerp_(end.value(), w).map(drop),
        )?;
        Ok(vec![x])
    }),
    products!("addcmul_", addcmul_, addcmul_with_),
    products!("addcdiv_", addcdiv_, addcdiv_with_),
    binary!("add_", "other", add_, add_with_),
    binary!("sub_ subtract_", "other", sub_, sub_with_),
    binary!("mul_ multiply_", "other", mul_),
    operation!("div_ divide_", "input other rounding_mode", |a| divide(a)),
    binary!("true_divide_", "other", div_),
    binary!("floor_divide_", "other", div_floor_),
    binary!("pow_", "exponent", pow_),
    operation!("clamp_ clip_", "input min max", |a| clamp(a)),
    binary!("clamp_min_", "min", clamp_min_),
    binary!("clamp_max_", "max", clamp_max_),
    binary!(Exact "fill_", "value", fill_),
    binary!(Exact "copy_", "src", copy_),
    operation!(Exact "masked_fill_", "input mask value", |a| {
        let (mut x, mask) = (a.var("input")?, a.var("mask")?);
        let (m, value) = (mask.value(), a.operand("value")?);
        written(&mut x, &value, |x, v| x.masked_fill_(&mask, v).map(drop), |t, v| t.masked_fill_(&m, v).map(drop))?;
        Ok(vec![x])
    }),
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
    agree(x, &own, var, tensor)
}

/// A variable and its tensor were written with equal bits, or neither was.
fn agree(x: &Var, own: &Tensor, var: Result<()>, tensor: Result<()>) -> Read<()> {
    if var.is_ok() != tensor.is_ok() || (var.is_ok() && !same_bits(own, &x.value())) {
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
