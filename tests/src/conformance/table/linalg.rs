//! Matrix products, and sums of products.

use foldback_graph::{Result, Var};
use foldback_tensor::{Scalar, Tensor};

use super::{Operation, one, operation};
use crate::conformance::args::{Args, Read};

/// The products of fixed ranks are refused by the tensor's own form and computed by `matmul`.
macro_rules! product {
    ($name:literal, $parameters:literal, $other:literal, $tensor:ident) => {
        operation!(Sum $name, $parameters, |a| one(of_rank(&a.var("input")?, &a.var($other)?, |a, b| a.$tensor(b))?))
    };
}

pub(super) const ROWS: &[Operation] = &[
    operation!(Sum "matmul linalg.matmul", "input other", |a| one(a.var("input")?.matmul(&a.var("other")?))),
    product!("mm", "input mat2", "mat2", mm),
    product!("bmm", "input mat2", "mat2", bmm),
    product!("mv", "input vec", "vec", mv),
    product!("dot", "input tensor", "tensor", dot),
    operation!(Sum "outer ger", "input vec2", |a| one(a.var("input")?.outer(&a.var("vec2")?))),
    operation!(Sum "addmm", "input mat1 mat2 beta alpha", |a| {
        let [own, x, y] = [a.var("input")?, a.var("mat1")?, a.var("mat2")?];
        one(own.addmm_with(&x, &y, scale(a, "beta")?, scale(a, "alpha")?))
    }),
    operation!(Sum "baddbmm", "input batch1 batch2 beta alpha", |a| {
        let [own, x, y] = [a.var("input")?, a.var("batch1")?, a.var("batch2")?];
        one(own.baddbmm_with(&x, &y, scale(a, "beta")?, scale(a, "alpha")?))
    }),
    operation!(Sum "einsum", "equation operands", |a| {
        one(Var::einsum(&a.word("equation", "")?, a.list("operands")?))
    }),
];

/// `beta` or `alpha`, which are 1 unless they are given.
fn scale(a: &Args, name: &str) -> Read<Scalar> {
    Ok(a.scalar(name)?.unwrap_or(Scalar::I64(1)))
}

fn of_rank(
    x: &Var,
    y: &Var,
    form: fn(&Tensor, &Tensor) -> foldback_tensor::Result<Tensor>,
) -> Read<Result<Var>> {
    form(&x.value(), &y.value())?;
    Ok(x.matmul(y))
}
