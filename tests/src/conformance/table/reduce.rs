//! Operations that reduce axes, and the normalising ones.

use foldback_graph::{Result, Var};
use foldback_tensor::{Axes, Tensor};

use super::{Operation, Outcome, one, operation, plain};
use crate::conformance::args::{Args, Read, Refusal};

/// A reduction over `dim`, which may be absent.
macro_rules! over_axes {
    ($names:literal, |$x:ident, $axes:ident, $keep:ident| $body:expr) => {
        operation!(Sum $names, "input dim keepdim dtype", |a| {
            let ($x, $axes, $keep) = (cast(a)?, a.axes("dim")?, a.flag("keepdim", false)?);
            in_dtype(a, $body)
        })
    };
}

pub(super) const ROWS: &[Operation] = &[
    over_axes!("sum", |x, axes, keep| x.sum(axes, keep)),
    over_axes!("mean", |x, axes, keep| x.mean(axes, keep)),
    operation!(Sum "prod", "input dim keepdim dtype", |a| {
        in_dtype(a, cast(a)?.prod(axis(a)?, a.flag("keepdim", false)?))
    }),
    operation!("amax", "input dim keepdim", |a| one(a
        .var("input")?
        .amax(a.axes("dim")?, a.flag("keepdim", false)?))),
    operation!("amin", "input dim keepdim", |a| one(a
        .var("input")?
        .amin(a.axes("dim")?, a.flag("keepdim", false)?))),
    operation!(Sum "logsumexp special.logsumexp", "input dim keepdim", |a| {
        a.ints_of("dim")?;
        one(a.var("input")?.logsumexp(a.axes("dim")?, a.flag("keepdim", false)?))
    }),
    operation!(Sum "var", "input dim keepdim correction unbiased", |a| spread(a, Var::var_with)),
    operation!(Sum "std", "input dim keepdim correction unbiased", |a| spread(a, Var::std_with)),
    operation!(Sum "var_mean", "input dim keepdim correction unbiased", |a| with_mean(a, spread(a, Var::var_with)?)),
    operation!(Sum "std_mean", "input dim keepdim correction unbiased", |a| with_mean(a, spread(a, Var::std_with)?)),
    operation!("any", "input dim keepdim", |a| truth(a, |x, axes, keep| x.any(axes, keep))),
    operation!("all", "input dim keepdim", |a| truth(a, |x, axes, keep| x.all(axes, keep))),
    operation!("argmax", "input dim keepdim", |a| plain(
        a.var("input")?.argmax(axis(a)?, a.flag("keepdim", false)?)
    )),
    operation!("argmin", "input dim keepdim", |a| plain(
        a.var("input")?.argmin(axis(a)?, a.flag("keepdim", false)?)
    )),
    operation!("max", "input dim keepdim other", |a| extreme(a, Var::max_with_indices, Var::max, |x, y| x
        .maximum(y))),
    operation!("min", "input dim keepdim other", |a| extreme(a, Var::min_with_indices, Var::min, |x, y| x
        .minimum(y))),
    operation!(Sum "softmax special.softmax", "input dim dtype", |a| one(cast(a)?.softmax(a.int_of("dim")?))),
    operation!(Sum "log_softmax special.log_softmax", "input dim dtype", |a| {
        one(cast(a)?.log_softmax(a.int_of("dim")?))
    }),
    operation!(Sum "softmin", "input dim dtype", |a| one(cast(a)?.neg()?.softmax(a.int_of("dim")?))),
    operation!(Sum "sum_to_size", "input size", |a| {
        let size = super::views::sizes(a, "size")?;
        one(a.var("input")?.sum_to(size))
    }),
];

/// The input, in the dtype asked for.
fn cast(a: &Args) -> Read<Var> {
    let x = a.var("input")?;
    Ok(match a.dtype("dtype")? {
        Some(dtype) => x.to_dtype(dtype),
        None => x,
    })
}

/// The result in the dtype asked for, which a sum of truth values has only afterwards.
fn in_dtype(a: &Args, result: Result<Var>) -> Outcome {
    let dtype = a.dtype("dtype")?;
    one(result.map(|y| dtype.map_or(y.clone(), |d| y.to_dtype(d))))
}

/// One axis, or all of them.
fn axis(a: &Args) -> Read<Axes> {
    Ok(a.int("dim")?.map_or(Axes::from(..), Axes::from))
}

/// A variance or a standard deviation.
fn spread(a: &Args, f: impl Fn(&Var, Axes, f64, bool) -> Result<Var>) -> Outcome {
    if a.ints("dim")?.is_some_and(|list| list.is_empty()) {
        // PyTorch's value is that over all axes, but its gradient is divided as if there were one element.
        return Err(Refusal::Unsupported("form var, std(dim=[])".into()));
    }
    let correction = match a.has("unbiased") {
        true => f64::from(u8::from(a.flag("unbiased", true)?)),
        false => a.float("correction", 1.0)?,
    };
    one(f(&a.var("input")?, a.axes("dim")?, correction, a.flag("keepdim", false)?))
}

fn with_mean(a: &Args, mut outputs: Vec<Var>) -> Outcome {
    outputs.push(a.var("input")?.mean(a.axes("dim")?, a.flag("keepdim", false)?)?);
    Ok(outputs)
}

/// `any` and `all`, for which an empty list of axes means none.
fn truth(a: &Args, f: impl Fn(&Tensor, Axes, bool) -> foldback_tensor::Result<Tensor>) -> Outcome {
    plain(f(&a.tensor("input")?, a.axes("dim")?, a.flag("keepdim", false)?))
}

/// `max` and `min`: of all elements, along an axis with the indices, or of two tensors.
fn extreme(
    a: &Args,
    along: impl Fn(&Var, isize, bool) -> Result<(Var, Var)>,
    all: impl Fn(&Var) -> Result<Var>,
    two: impl Fn(&Var, &Var) -> Result<Var>,
) -> Outcome {
    let x = a.var("input")?;
    if a.has("other") {
        return one(two(&x, &a.var("other")?));
    }
    match a.int("dim")? {
        Some(axis) => {
            let (values, indices) = along(&x, axis, a.flag("keepdim", false)?)?;
            Ok(vec![values, indices])
        }
        None if a.has("keepdim") => Err(Refusal::Argument("`keepdim` without `dim`".into())),
        None => one(all(&x)),
    }
}
