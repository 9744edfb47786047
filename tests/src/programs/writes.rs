//! In-place forms, called on the variable in its slot.

use foldback_graph::Var;

use crate::conformance::args::{Args, Refusal};

/// Writes over a variable by PyTorch's name of the operation.
pub(super) fn write(x: &mut Var, op: &str, a: &Args) -> Result<(), Refusal> {
    match op {
        "add_" => x.add_(a.operand("other")?.input())?,
        "sub_" => x.sub_(a.operand("other")?.input())?,
        "mul_" => x.mul_(a.operand("other")?.input())?,
        "div_" => x.div_(a.operand("other")?.input())?,
        "pow_" => x.pow_(a.operand("exponent")?.input())?,
        "clamp_" => x.clamp_(a.operand("min")?.input(), a.operand("max")?.input())?,
        _ => return Err(Refusal::Unsupported(format!("operation {op}"))),
    };
    Ok(())
}
