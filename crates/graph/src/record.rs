//! Recording: turning a computed value into a variable with a node behind it.

use foldback_tensor::{Packed, Scalar, Tensor};
use smallvec::SmallVec;

use crate::mode::is_grad_enabled;
use crate::node::{Edge, Function, InputMetadata, Kind, Node, OUTPUT};
use crate::table::Rule;
use crate::var::{ValueRef, Var, location};

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

/// Records a row of pointwise formulas; without a tracked input the result alone is returned. `values` are those of
/// the inputs.
#[track_caller]
#[inline]
pub(crate) fn record_rule<const N: usize>(
    rule: &'static Rule,
    params: [f64; 2],
    inputs: [&Var; N],
    values: [ValueRef<'_>; N],
    result: Tensor,
) -> Var {
    if !is_grad_enabled() || !inputs.iter().any(|v| v.requires_grad()) || !result.dtype().is_float() {
        return Var::constant(result);
    }
    let (mut next_edges, mut mask) = (SmallVec::new(), 0);
    for (v, gradient) in inputs.iter().zip(rule.gradients) {
        let edge = v.edge();
        if edge.is_some() {
            mask |= gradient.saves;
        }
        next_edges.push(edge);
    }
    let mut saved = SmallVec::new();
    if mask != 0 {
        for (i, v) in values.into_iter().enumerate() {
            if mask & (1 << i) != 0 {
                saved.push(Packed::new(v.into_owned(), result.shape()));
            }
        }
        if mask & (1 << OUTPUT) != 0 {
            saved.push(Packed::new(result.clone(), result.shape()));
        }
    }
    let mut metadata = SmallVec::new();
    metadata.push(InputMetadata::of(&result));
    let node = Node::new(Kind::Rule(rule, params), next_edges, metadata, (mask, saved), location());
    Var::tracked(result, node, 0)
}

/// Records an operation whose gradients are a function. `mask` tells what to save, see [`Node`].
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

fn save(mask: u8, inputs: &[&Var], output: &Tensor) -> (u8, SmallVec<[Packed; 2]>) {
    let mut values = SmallVec::new();
    for (i, v) in inputs.iter().enumerate() {
        if mask & (1 << i) != 0 {
            values.push(Packed::new(v.value(), output.shape()));
        }
    }
    if mask & (1 << OUTPUT) != 0 {
        values.push(Packed::new(output.clone(), output.shape()));
    }
    (mask, values)
}
