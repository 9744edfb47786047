//! Places named by index tensors and masks.

use foldback_graph::Var;
use foldback_tensor::{DType, Slice, SliceItem, Slices};
use serde_json::Value;

use super::{Operation, one, operation};
use crate::conformance::args::{Args, Operand, Read, Refusal};

pub(super) const ROWS: &[Operation] = &[
    operation!(Exact "scatter", "input dim index src value reduce", |a| {
        let source = a.operand(if a.has("src") { "src" } else { "value" })?;
        let (x, axis, index) = (a.var("input")?, a.int_of("dim")?, a.var("index")?);
        one(match a.word("reduce", "")?.as_str() {
            "" => x.scatter(axis, index, source.input()),
            "add" if a.has("src") => x.scatter_add(axis, index, source.input()),
            other => return Err(Refusal::Argument(format!("`reduce` = {other}"))),
        })
    }),
    operation!(Exact "take_along_dim", "input indices dim", |a| {
        one(a.var("input")?.take_along_dim(a.var("indices")?, a.along()?))
    }),
    operation!(Exact "masked_fill", "input mask value", |a| {
        one(a.var("input")?.masked_fill(a.var("mask")?, a.operand("value")?.input()))
    }),
    operation!(Exact "masked_select", "input mask", |a| one(a.var("input")?.masked_select(a.var("mask")?))),
    operation!(Exact "nonzero argwhere", "input as_tuple", |a| {
        if a.flag("as_tuple", false)? {
            return Err(Refusal::Argument("a tuple of coordinates".into()));
        }
        one(a.var("input")?.try_nonzero())
    }),
    operation!(Exact "__getitem__ getitem", "input key tensors", |a| one(a.var("input")?.slice(key(a)?))),
    operation!(Exact "__setitem__ setitem", "input key tensors value", |a| {
        let (mut x, value) = (a.written("input")?, a.operand("value")?);
        if matches!(&value, Operand::Var(v) if v.dtype() != x.dtype() && !is_cast(v, &a.list("tensors")?)) {
            return Err(Refusal::Argument("a value of another dtype, which is cast here".into()));
        }
        x.slice_assign(key(a)?, value.input())?;
        Ok(vec![x])
    }),
    operation!(Exact "index", "input indices indices_at", |a| one(a.var("input")?.slice(indices(a)?))),
    operation!(Sum "index_put", "input indices indices_at values accumulate", |a| {
        let (mut x, values) = (a.written("input")?, a.var("values")?);
        if x.dtype() != values.dtype() {
            return Err(Refusal::Argument("values of another dtype, which are cast here".into()));
        }
        match a.flag("accumulate", false)? {
            true => x.slice_add(indices(a)?, values)?,
            false => x.slice_assign(indices(a)?, values)?,
        };
        Ok(vec![x])
    }),
];

/// Whether PyTorch casts a value of another dtype: beside slices and numbers, and a single one beside a mask.
fn is_cast(value: &Var, tensors: &[Var]) -> bool {
    let mut places = tensors.iter().filter(|t| t.rank() > 0);
    match (places.next(), places.next()) {
        (None, _) => true,
        (Some(mask), None) => mask.dtype() == DType::Bool && value.numel() == 1,
        _ => false,
    }
}

/// What stands between brackets: numbers, `[start, stop, step]`, and the names of members of `tensors`.
fn key(a: &Args) -> Read<Slices> {
    let tensors = a.list("tensors")?;
    let item = |value: &Value| match value {
        Value::Number(n) => n.as_i64().map(SliceItem::from),
        Value::Array(bounds) => {
            let at = |i: usize| bounds.get(i).and_then(Value::as_i64);
            let slice =
                Slice::new(at(0).unwrap_or(0), at(1).unwrap_or(i64::MAX), at(2).unwrap_or(1) as isize);
            Some(SliceItem::from(slice))
        }
        Value::String(name) => {
            let number = name.strip_prefix("tensors[")?.strip_suffix(']')?.parse::<usize>().ok()?;
            tensors.get(number).map(SliceItem::from)
        }
        _ => None,
    };
    let items: Option<Vec<SliceItem>> = a.items("key")?.iter().map(item).collect();
    items.map(Slices::from).ok_or_else(|| Refusal::Argument("a key of another kind".into()))
}

/// Index tensors by their place in a list: that of `indices_at`, or their own.
fn indices(a: &Args) -> Read<Slices> {
    let tensors = a.indices()?;
    let at = a.ints("indices_at")?.unwrap_or((0..tensors.len() as isize).collect());
    let last = at.iter().copied().fold(-1, isize::max);
    let item = |axis: isize| match at.iter().position(|&own| own == axis) {
        Some(i) => SliceItem::from(&tensors[i]),
        None => SliceItem::from(..),
    };
    Ok(Slices::from((0..=last).map(item).collect::<Vec<_>>()))
}
