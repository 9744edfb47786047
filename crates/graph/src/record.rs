//! Recording: turning a computed value into a variable with a node behind it.

use foldback_tensor::{Scalar, Tensor};
use smallvec::SmallVec;

use crate::mode::is_grad_enabled;
use crate::node::{Edge, Function, InputMetadata, Kind, Node, OUTPUT, Saved};
use crate::table::Rule;
use crate::var::{Var, location};

/// The other side of an operation: a variable, a tensor, or a number.
///
/// Made by `Into`, so that `x.mul(&y)`, `x.mul(&tensor)` and `x.mul(2.0)` work.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// a variable
    Var(&'a Var),
    /// a tensor, which requires no gradient
    Tensor(&'a Tensor),
    /// a number, which never widens a tensor of its own category
    Scalar(Scalar),
}

impl<'a> From<&'a Var> for Input<'a> {
    fn from(v: &'a Var) -> Self {
        Input::Var(v)
    }
}
impl<'a> From<&'a Tensor> for Input<'a> {
    fn from(t: &'a Tensor) -> Self {
        Input::Tensor(t)
    }
}
macro_rules! input_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Input<'_> {
            fn from(s: $t) -> Self {
                Input::Scalar(s.into())
            }
        }
    )*};
}
input_from!(bool, i8, i16, i32, i64, u8, u32, f32, f64);

impl Input<'_> {
    /// As a variable; a number becomes a 0-d constant of the type that the other side's operation would give it.
    pub(crate) fn to_var(self, beside: &Var) -> Var {
        match self {
            Input::Var(v) => v.clone(),
            Input::Tensor(t) => Var::constant(t.clone()),
            Input::Scalar(s) => {
                let other = beside.dtype();
                let dtype = if other.category() >= s.dtype().category() { other } else { s.dtype() };
                Var::constant(Tensor::full((), s, dtype))
            }
        }
    }
}

/// Records a row of pointwise formulas; without a tracked input the value alone is returned.
#[track_caller]
#[inline]
pub(crate) fn record_rule(rule: &'static Rule, params: [f64; 2], inputs: &[&Var], value: Tensor) -> Var {
    if !is_grad_enabled() || !value.dtype().is_float() {
        return Var::constant(value);
    }
    let next_edges: SmallVec<[Option<Edge>; 2]> = inputs.iter().map(|v| v.edge()).collect();
    if next_edges.iter().all(Option::is_none) {
        return Var::constant(value);
    }
    let tracked = next_edges.iter().zip(rule.gradients).filter(|e| e.0.is_some());
    let mask = tracked.fold(0, |m, (_, g)| m | g.saves);
    let saved = save(mask, inputs, &value);
    let metadata = smallvec::smallvec![InputMetadata::of(&value)];
    let node = Node::new(Kind::Rule(rule, params), next_edges, metadata, saved, location());
    Var::tracked(value, node, 0)
}

/// Records an operation whose gradients are a function. `mask` tells what to save, see [`Saved`].
#[track_caller]
pub(crate) fn record_function(
    name: &'static str,
    inputs: &[&Var],
    values: SmallVec<[Tensor; 1]>,
    mask: u8,
    function: impl FnOnce() -> Function,
) -> SmallVec<[Var; 1]> {
    let constant = !is_grad_enabled() || !values.iter().any(|v| v.dtype().is_float());
    let next_edges: SmallVec<[Option<Edge>; 2]> =
        if constant { SmallVec::new() } else { inputs.iter().map(|v| v.edge()).collect() };
    if next_edges.iter().all(Option::is_none) {
        return values.into_iter().map(Var::constant).collect();
    }
    let saved = save(mask, inputs, &values[0]);
    let metadata = values.iter().map(InputMetadata::of).collect();
    let node = Node::new(Kind::Function(name, function()), next_edges, metadata, saved, location());
    let var = |(nr, value): (usize, Tensor)| {
        if value.dtype().is_float() {
            Var::tracked(value, node.clone(), nr as u32)
        } else {
            Var::constant(value)
        }
    };
    values.into_iter().enumerate().map(var).collect()
}

/// [`record_function`] for an operation with one result.
#[track_caller]
pub(crate) fn record_one(
    name: &'static str,
    inputs: &[&Var],
    value: Tensor,
    mask: u8,
    function: impl FnOnce() -> Function,
) -> Var {
    record_function(name, inputs, smallvec::smallvec![value], mask, function).remove(0)
}

fn save(mask: u8, inputs: &[&Var], output: &Tensor) -> Saved {
    let mut values: SmallVec<[Tensor; 2]> = SmallVec::new();
    for (i, v) in inputs.iter().enumerate() {
        if mask & (1 << i) != 0 {
            values.push(v.value());
        }
    }
    if mask & (1 << OUTPUT) != 0 {
        values.push(output.clone());
    }
    Saved { mask, freed: false, values }
}
