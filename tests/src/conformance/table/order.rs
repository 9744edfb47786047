//! Elements in order, running sums and products, class numbers.

use foldback_graph::Var;

use super::reduce::along;
use super::{Operation, Outcome, one, operation};
use crate::conformance::args::{Args, Read, Refusal};

pub(super) const ROWS: &[Operation] = &[
    operation!(Exact "sort", "input dim descending stable", |a| {
        two(a.var("input")?.sort_with(axis(a)?, a.flag("descending", false)?))
    }),
    operation!(Exact "argsort", "input dim descending stable", |a| {
        one(a.var("input")?.argsort_with(axis(a)?, a.flag("descending", false)?))
    }),
    operation!(Exact "topk", "input k dim largest sorted", |a| {
        let k = size(a, "k")?;
        two(a.var("input")?.topk_with(k, axis(a)?, a.flag("largest", true)?, a.flag("sorted", true)?))
    }),
    operation!("median", "input dim keepdim", |a| match a.has("dim") {
        true => two(a.var("input")?.median_with_indices(a.over()?)),
        false => one(a.var("input")?.median(a.over()?)),
    }),
    along!("cumsum", cumsum, cumsum_with),
    along!("cumprod", cumprod, cumprod_with),
    operation!(Exact "one_hot", "input tensor num_classes", |a| {
        let classes = a.int("num_classes")?.unwrap_or(-1);
        one(a.var(if a.has("tensor") { "tensor" } else { "input" })?.one_hot(classes))
    }),
    operation!(Sum "bincount", "input weights minlength", |a| {
        let (x, minlength) = (a.var("input")?, if a.has("minlength") { size(a, "minlength")? } else { 0 });
        one(match a.maybe_var("weights")? {
            Some(weights) => x.bincount_with(minlength, weights),
            None => x.bincount(minlength),
        })
    }),
];

fn two(result: foldback_graph::Result<(Var, Var)>) -> Outcome {
    result.map(|(a, b)| vec![a, b]).map_err(Into::into)
}

/// The last axis unless another one is given.
fn axis(a: &Args) -> Read<isize> {
    Ok(a.int("dim")?.unwrap_or(-1))
}

fn size(a: &Args, name: &str) -> Read<usize> {
    let size = a.int_of(name)?;
    usize::try_from(size).map_err(|_| Refusal::Argument(format!("`{name}` is negative")))
}
