//! Elements moved and repeated.

use foldback_graph::Var;
use foldback_tensor::{Pad, Repeats};

use super::views::sizes;
use super::{Operation, Outcome, one, operation};
use crate::conformance::args::{Args, Read, Refusal};

pub(super) const ROWS: &[Operation] = &[
    operation!(Exact "roll", "input shifts dims", |a| {
        one(a.var("input")?.roll(a.ints_of("shifts")?, a.ints("dims")?.unwrap_or_default()))
    }),
    operation!(Exact "diagonal", "input offset dim1 dim2", |a| {
        let [first, second] = axes(a, [0, 1])?;
        one(a.var("input")?.diagonal_with(offset(a)?, first, second))
    }),
    operation!(Exact "diag_embed", "input offset dim1 dim2", |a| {
        let [first, second] = axes(a, [-2, -1])?;
        one(a.var("input")?.diag_embed_with(offset(a)?, first, second))
    }),
    operation!(Exact "pad constant_pad_nd", "input pad mode value", |a| pad(a)),
    operation!(Exact "repeat", "input repeats sizes", |a| {
        let counts = sizes(a, if a.has("sizes") { "sizes" } else { "repeats" })?;
        one(a.var("input")?.repeat(counts))
    }),
    operation!(Exact "tile", "input dims reps", |a| {
        let counts = sizes(a, if a.has("reps") { "reps" } else { "dims" })?;
        one(a.var("input")?.tile(counts))
    }),
    operation!(Exact "repeat_interleave", "input repeats dim", |a| {
        let repeats = match a.maybe_var("repeats") {
            Ok(Some(each)) => Repeats::from(&each),
            _ => Repeats::from(a.int_of("repeats")?),
        };
        one(a.var("input")?.repeat_interleave(repeats, a.along()?))
    }),
    operation!(Exact "unfold", "input dimension size step", |a| {
        let negative = || Refusal::Argument("a negative number".into());
        let count = |name| usize::try_from(a.int_of(name)?).map_err(|_| negative());
        one(a.var("input")?.unfold(a.int_of("dimension")?, count("size")?, count("step")?))
    }),
    operation!(Exact "meshgrid", "tensors indexing", |a| {
        let vectors = a.list("tensors")?;
        match a.word("indexing", "ij")?.as_str() {
            "ij" => Ok(Var::meshgrid(vectors)?),
            "xy" => Ok(Var::meshgrid_xy(vectors)?),
            other => Err(Refusal::Argument(format!("`indexing` = {other}"))),
        }
    }),
];

fn offset(a: &Args) -> Read<i64> {
    Ok(a.int("offset")?.unwrap_or(0) as i64)
}

/// The axes `dim1` and `dim2`, or their defaults.
fn axes(a: &Args, [first, second]: [isize; 2]) -> Read<[isize; 2]> {
    Ok([a.int("dim1")?.unwrap_or(first), a.int("dim2")?.unwrap_or(second)])
}

fn pad(a: &Args) -> Outcome {
    let (x, widths) = (a.var("input")?, a.ints_of("pad")?);
    // Beside a mode that takes no value PyTorch's is 0.
    let value = a.scalar("value")?.filter(|v| v.to_f64() != 0.0 || !a.has("mode"));
    let mode = match (a.word("mode", "constant")?.as_str(), value) {
        ("constant", None) => return one(x.pad(widths)),
        ("constant", Some(value)) => Pad::from(value),
        ("reflect", None) => Pad::Reflect,
        ("replicate", None) => Pad::Replicate,
        ("circular", None) => Pad::Circular,
        (other, _) => return Err(Refusal::Argument(format!("`mode` = {other}, with or without a value"))),
    };
    one(x.pad_with(widths, mode))
}
