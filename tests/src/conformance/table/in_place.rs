//! Operations that write their input. A tensor's own form decides what is refused; a tracked operand goes through the
//! variable's form, which must give the same bits.

use foldback_graph::Var;


use super::{Operation, operation};
use crate::conformance::args::{Args, Operand, Read, Refusal};

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
    ($names:literal, $parameters:literal, $other:literal, |$x:ident, $y:ident, $a:ident| $body:expr, |$t:ident, $u:ident| $tensor:expr) => {
        operation!($names, $parameters, |$a| {
            let (mut $x, other) = ($a.var("input")?, $a.operand($other)?);
            if !$x.requires_grad() {
                let mut $t = $x.value();
                match &other {
                    Operand::Var(v) => {
                        let $u = &v.value();
                        $tensor?;
                    }
                    Operand::Number(s) => {
                        let $u = *s;
                        $tensor?;
                    }
                }
            }
            let $y = other.input();
            $body?;
            Ok(vec![$x])
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
    unary!("tanh_", |t| t.tanh_()),
    unary!("sigmoid_", |t| t.sigmoid_()),
    unary!("erf_", |t| t.erf_()),
    unary!("relu_", |t| t.relu_()),
    unary!("silu_", |t| t.silu_()),
    unary!("logical_not_", |t| t.logical_not_()),
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
