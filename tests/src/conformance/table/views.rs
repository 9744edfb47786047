//! Views, parts and casts: the same elements in another shape, order or type.

use foldback_graph::Var;
use foldback_tensor::{Axes, Slice, SliceItem, Slices};

use super::{Operation, Outcome, one, operation};
use crate::conformance::args::{Args, Read, Refusal};

pub(super) const ROWS: &[Operation] = &[
    operation!(Exact "expand", "input size", |a| {
        one(a.var("input")?.expand(a.ints_of("size")?))
    }),
    operation!(Exact "broadcast_to", "input size", |a| {
        one(a.var("input")?.broadcast_to(sizes(a, "size")?))
    }),
    operation!(Exact "expand_as", "input other", |a| one(a.var("input")?.expand_as(a.var("other")?))),
    operation!(Exact "permute", "input dims", |a| one(a.var("input")?.permute(a.ints_of("dims")?))),
    operation!(Exact "transpose swapaxes swapdims", "input dim0 dim1 axis0 axis1", |a| {
        let (first, second) = if a.has("axis0") { ("axis0", "axis1") } else { ("dim0", "dim1") };
        one(a.var("input")?.transpose(a.int_of(first)?, a.int_of(second)?))
    }),
    operation!(Exact "t", "input", |a| one(a.var("input")?.try_t())),
    operation!(Exact "mT", "input", |a| {
        let x = a.var("input")?;
        not_single(&x)?;
        one(x.transpose(-2, -1))
    }),
    operation!(Exact "movedim moveaxis", "input source destination", |a| {
        one(a.var("input")?.movedim(a.ints_of("source")?, a.ints_of("destination")?))
    }),
    operation!(Exact "reshape", "input shape", |a| one(a.var("input")?.reshape(a.ints_of("shape")?))),
    operation!(Exact "reshape_as", "input other", |a| one(a.var("input")?.reshape(a.var("other")?.shape()))),
    operation!(Exact "view", "input size shape", |a| {
        one(a.var("input")?.view(a.ints_of(if a.has("shape") { "shape" } else { "size" })?))
    }),
    operation!(Exact "view_as", "input other", |a| one(a.var("input")?.view(a.var("other")?.shape()))),
    operation!(Exact "ravel", "input", |a| one(a.var("input")?.flatten(..))),
    operation!(Exact "flatten", "input start_dim end_dim", |a| {
        one(a.var("input")?.flatten(a.int("start_dim")?.unwrap_or(0)..=a.int("end_dim")?.unwrap_or(-1)))
    }),
    operation!(Exact "squeeze", "input dim", |a| {
        one(a.var("input")?.squeeze(a.ints("dim")?.map_or(Axes::from(..), Axes::from)))
    }),
    operation!(Exact "unsqueeze", "input dim", |a| one(a.var("input")?.unsqueeze(a.int_of("dim")?))),
    operation!(Exact "flip", "input dims", |a| one(a.var("input")?.flip(a.ints_of("dims")?))),
    operation!(Exact "tril", "input diagonal", |a| one(a.var("input")?.tril_with(a.int("diagonal")?.unwrap_or(0) as i64))),
    operation!(Exact "triu", "input diagonal", |a| one(a.var("input")?.triu_with(a.int("diagonal")?.unwrap_or(0) as i64))),
    operation!(Exact "fliplr", "input", |a| one(a.var("input")?.flip(1))),
    operation!(Exact "flipud", "input", |a| {
        let x = a.var("input")?;
        not_single(&x)?;
        one(x.flip(0))
    }),
    operation!(Exact "narrow", "input dim start length", |a| {
        let length = usize::try_from(a.int_of("length")?).map_err(|_| Refusal::Argument("a negative length".into()))?;
        one(a.var("input")?.narrow(a.int_of("dim")?, a.int_of("start")?, length))
    }),
    operation!(Exact "select", "input dim index", |a| one(a.var("input")?.select(a.int_of("dim")?, a.int_of("index")?))),
    operation!(Exact "slice", "input dim start end step", |a| slice(a)),
    operation!(Exact "split", "tensor input split_size_or_sections split_size dim", |a| split(a)),
    operation!(Exact "chunk", "input chunks dim", |a| chunk(a)),
    operation!(Exact "unbind", "input dim", |a| Ok(a.var("input")?.unbind(a.int("dim")?.unwrap_or(0))?)),
    operation!(Exact "to", "input dtype", |a| {
        let x = a.var("input")?;
        Ok(vec![a.dtype("dtype")?.map_or(x.clone(), |d| x.to(d))])
    }),
    operation!(Exact "double", "input", |a| Ok(vec![a.var("input")?.double()])),
    operation!(Exact "float", "input", |a| Ok(vec![a.var("input")?.float()])),
    operation!(Exact "long", "input", |a| Ok(vec![a.var("input")?.long()])),
    operation!(Exact "bool", "input", |a| Ok(vec![a.var("input")?.bool()])),
    operation!(Exact "contiguous clone", "input", |a| Ok(vec![a.var("input")?.contiguous()])),
];

/// Sizes, none of which may be negative.
pub(super) fn sizes(a: &Args, name: &str) -> Read<Vec<usize>> {
    let sizes: Result<Vec<usize>, _> = a.ints_of(name)?.into_iter().map(usize::try_from).collect();
    sizes.map_err(|_| Refusal::Argument(format!("`{name}` holds a negative size")))
}

/// How an axis is written in a list of slices.
fn on_axis(x: &Var, axis: isize, item: impl Into<SliceItem>) -> Read<Slices> {
    not_single(x)?;
    // An axis that does not exist is refused with the words of the library.
    x.size(axis)?;
    let axis = if axis < 0 { axis + x.rank() as isize } else { axis };
    let mut items: Vec<SliceItem> = (0..axis).map(|_| SliceItem::from(..)).collect();
    items.push(item.into());
    Ok(Slices::from(items))
}

/// aten's `slice`: one axis, from `start` to `end`.
fn slice(a: &Args) -> Outcome {
    let x = a.var("input")?;
    let (start, end) = (a.int("start")?.unwrap_or(0), a.int("end")?.unwrap_or(isize::MAX));
    let slice = Slice::new(start, end, a.int("step")?.unwrap_or(1));
    one(x.slice(on_axis(&x, a.int("dim")?.unwrap_or(0), slice)?))
}

/// What PyTorch takes a single number for is another matter than what a call with axes does.
fn not_single(x: &Var) -> Read<()> {
    if x.rank() == 0 { Err(Refusal::Argument("a single number".into())) } else { Ok(()) }
}

fn split(a: &Args) -> Outcome {
    let x = a.var(if a.has("tensor") { "tensor" } else { "input" })?;
    let axis = a.int("dim")?.unwrap_or(0);
    let by = if a.has("split_size") { "split_size" } else { "split_size_or_sections" };
    match a.int(by) {
        Ok(Some(each)) => Ok(x.split(each, axis)?),
        _ => Ok(x.split(a.ints_of(by)?, axis)?),
    }
}

fn chunk(a: &Args) -> Outcome {
    let (x, axis) = (a.var("input")?, a.int("dim")?.unwrap_or(0));
    let n =
        usize::try_from(a.int_of("chunks")?).map_err(|_| Refusal::Argument("a negative number".into()))?;
    Ok(x.chunk(n, axis)?)
}
