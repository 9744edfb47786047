//! Matrix products, and sums of products.

use foldback_graph::Var;
use foldback_tensor::Scalar;

use super::{Operation, one, operation};
use crate::conformance::args::{Args, Read};

pub(super) const ROWS: &[Operation] = &[
    operation!(Sum "matmul linalg.matmul", "input other", |a| one(a.var("input")?.matmul(&a.var("other")?))),
    operation!(Sum "mm", "input mat2", |a| one(a.var("input")?.mm(&a.var("mat2")?))),
    operation!(Sum "bmm", "input mat2", |a| one(a.var("input")?.bmm(&a.var("mat2")?))),
    operation!(Sum "mv", "input vec", |a| one(a.var("input")?.mv(&a.var("vec")?))),
    operation!(Sum "dot", "input tensor", |a| one(a.var("input")?.dot(&a.var("tensor")?))),
    operation!(Sum "outer ger", "input vec2", |a| one(a.var("input")?.outer(&a.var("vec2")?))),
    operation!(Sum "addmm", "input mat1 mat2 beta alpha", |a| {
        let [own, x, y] = [a.var("input")?, a.var("mat1")?, a.var("mat2")?];
        one(own.addmm_with(&x, &y, scale(a, "beta")?, scale(a, "alpha")?))
    }),
    operation!(Sum "baddbmm", "input batch1 batch2 beta alpha", |a| {
        let [own, x, y] = [a.var("input")?, a.var("batch1")?, a.var("batch2")?];
        one(own.baddbmm_with(&x, &y, scale(a, "beta")?, scale(a, "alpha")?))
    }),
    operation!(Sum "einsum", "equation operands tensors", |a| {
        let operands = a.list(if a.has("tensors[0]") { "tensors" } else { "operands" })?;
        one(Var::einsum(&a.word("equation", "")?, operands))
    }),
];

/// `beta` or `alpha`, which are 1 unless they are given.
fn scale(a: &Args, name: &str) -> Read<Scalar> {
    Ok(a.scalar(name)?.unwrap_or(Scalar::I64(1)))
}
