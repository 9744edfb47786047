//! Matrix products.

use foldback_graph::{Result, Var};
use foldback_tensor::Tensor;

use super::{Operation, one, operation};
use crate::conformance::args::Read;

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
];

fn of_rank(
    x: &Var,
    y: &Var,
    form: fn(&Tensor, &Tensor) -> foldback_tensor::Result<Tensor>,
) -> Read<Result<Var>> {
    form(&x.value(), &y.value())?;
    Ok(x.matmul(y))
}
