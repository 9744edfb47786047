//! Operations that reduce axes, and the normalising ones.

use foldback_graph::{Result, Var};
use foldback_tensor::Over;
use serde_json::Value;

use super::{Operation, Outcome, one, operation};
use crate::conformance::args::{Args, Read, Refusal};

/// A reduction over `dim`, which may be absent.
macro_rules! over_axes {
    ($names:literal, $plain:ident, $in_dtype:ident) => {
        operation!(Sum $names, "input dim keepdim dtype", |a| {
            let (x, over) = (a.var("input")?, a.over()?);
            one(match a.dtype("dtype")? {
                Some(dtype) => x.$in_dtype(over, dtype),
                None => x.$plain(over),
            })
        })
    };
}

/// A function along `dim`.
macro_rules! along {
    ($names:literal, $plain:ident, $in_dtype:ident) => {
        operation!(Sum $names, "input dim dtype", |a| {
            let (x, axis) = (a.var("input")?, a.int_of("dim")?);
            one(match a.dtype("dtype")? {
                Some(dtype) => x.$in_dtype(axis, dtype),
                None => x.$plain(axis),
            })
        })
    };
}
pub(super) use along;

pub(super) const ROWS: &[Operation] = &[
    over_axes!("sum", sum, sum_with),
    over_axes!("mean", mean, mean_with),
    over_axes!("prod", prod, prod_with),
    operation!("amax", "input dim keepdim", |a| one(a.var("input")?.amax(a.over()?))),
    operation!("amin", "input dim keepdim", |a| one(a.var("input")?.amin(a.over()?))),
    operation!(Sum "logsumexp special.logsumexp", "input dim keepdim", |a| {
        a.ints_of("dim")?;
        one(a.var("input")?.logsumexp(a.over()?))
    }),
    operation!(Sum "var", "input dim keepdim correction unbiased", |a| spread(a, |x, over, c| x.var_with(over, c))),
    operation!(Sum "std", "input dim keepdim correction unbiased", |a| spread(a, |x, over, c| x.std_with(over, c))),
    operation!(Sum "var_mean", "input dim keepdim correction unbiased", |a| {
        let (var, mean) = a.var("input")?.var_mean_with(a.over()?, correction(a)?)?;
        Ok(vec![var, mean])
    }),
    operation!(Sum "norm", "input p dim keepdim", |a| {
        let of_matrices = a.value("p").and_then(Value::as_str) == Some("fro");
        if of_matrices && a.ints("dim")?.is_some_and(|axes| axes.len() > 2) {
            return Err(Refusal::Argument("more axes than a matrix has".into()));
        }
        one(a.var("input")?.norm_with(a.over()?, order(a, "p")?))
    }),
    operation!(Sum "linalg.vector_norm", "x input ord dim keepdim", |a| {
        one(a.var(if a.has("x") { "x" } else { "input" })?.norm_with(a.over()?, order(a, "ord")?))
    }),
    operation!("count_nonzero", "input dim", |a| one(a.var("input")?.count_nonzero(a.over()?))),
    operation!("any", "input dim keepdim", |a| one(a.var("input")?.any(a.over()?))),
    operation!("all", "input dim keepdim", |a| one(a.var("input")?.all(a.over()?))),
    operation!("argmax", "input dim keepdim", |a| one(a.var("input")?.argmax(a.over()?))),
    operation!("argmin", "input dim keepdim", |a| one(a.var("input")?.argmin(a.over()?))),
    operation!("max", "input dim keepdim other", |a| extreme(
        a,
        |x, over| x.max_with_indices(over),
        |x, over| x.max(over),
        |x, y| x.maximum(y)
    )),
    operation!("min", "input dim keepdim other", |a| extreme(
        a,
        |x, over| x.min_with_indices(over),
        |x, over| x.min(over),
        |x, y| x.minimum(y)
    )),
    along!("softmax special.softmax", softmax, softmax_with),
    along!("log_softmax special.log_softmax", log_softmax, log_softmax_with),
    operation!(Sum "sum_to_size", "input size", |a| {
        let size = super::views::sizes(a, "size")?;
        one(a.var("input")?.sum_to_size(size))
    }),
];

/// The order of a norm; that of Frobenius is 2.
fn order(a: &Args, name: &str) -> Read<f64> {
    match a.word(name, "") {
        Ok(word) if word == "fro" => Ok(2.0),
        Ok(word) if word == "nuc" => Err(Refusal::Unsupported("form norm(p='nuc')".into())),
        _ => a.float(name, 2.0),
    }
}

/// A variance or a standard deviation.
fn spread(a: &Args, f: impl Fn(&Var, Over, f64) -> Result<Var>) -> Outcome {
    one(f(&a.var("input")?, a.over()?, correction(a)?))
}

fn correction(a: &Args) -> Read<f64> {
    if a.ints("dim")?.is_some_and(|list| list.is_empty()) && a.var("input")?.requires_grad() {
        // PyTorch's value is that over all axes, but its gradient is divided as if there were one element.
        return Err(Refusal::Unsupported("by design: the gradient of var, std(dim=[])".into()));
    }
    match a.has("unbiased") {
        true => Ok(f64::from(u8::from(a.flag("unbiased", true)?))),
        false => a.float("correction", 1.0),
    }
}

/// `max` and `min`: of all elements, along an axis with the indices, or of two tensors.
fn extreme(
    a: &Args,
    along: impl Fn(&Var, Over) -> Result<(Var, Var)>,
    all: impl Fn(&Var, Over) -> Result<Var>,
    two: impl Fn(&Var, &Var) -> Result<Var>,
) -> Outcome {
    let x = a.var("input")?;
    if a.has("other") {
        return one(two(&x, &a.var("other")?));
    }
    match a.int("dim")? {
        Some(_) => {
            let (values, indices) = along(&x, a.over()?)?;
            Ok(vec![values, indices])
        }
        None if a.has("keepdim") => Err(Refusal::Argument("`keepdim` without `dim`".into())),
        None => one(all(&x, a.over()?)),
    }
}
