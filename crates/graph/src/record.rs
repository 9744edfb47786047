//! Recording: turning a computed value into a variable with a node behind it.

use foldback_tensor::{DType, Scalar, Tensor};
use smallvec::SmallVec;

use crate::mode::is_grad_enabled;
use crate::node::{Edge, Function, InputMetadata, Kind, Node, keep};
use crate::table::{Row, Rule, Slot};
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
    /// As a variable; a number becomes a 0-d constant of the type that an operation with one of type `beside` gives it.
    pub(crate) fn to_var(self, beside: DType) -> Var {
        match self {
            Input::Var(v) => v.clone(),
            Input::Tensor(t) => Var::constant(t.clone()),
            Input::Scalar(s) => {
                let dtype = if beside.category() >= s.dtype().category() { beside } else { s.dtype() };
                Var::constant(Tensor::full((), s, dtype))
            }
        }
    }
}

/// The type that a number among these operands stands beside. A condition has no say in it.
pub(crate) fn beside(own: &Var, others: &[Input<'_>]) -> DType {
    let dtype = |input: &Input<'_>| match input {
        Input::Var(v) => Some(v.dtype()),
        Input::Tensor(t) => Some(t.dtype()),
        Input::Scalar(_) => None,
    };
    match own.dtype() {
        DType::Bool => others.iter().find_map(dtype).unwrap_or(DType::Bool),
        own => own,
    }
}

/// Per input, the edge to what it came from.
type Edges = SmallVec<[Option<Edge>; 2]>;

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
    let mut next_edges = Edges::new();
    inputs.iter().for_each(|v| next_edges.push(v.edge()));
    let saved = {
        let mut values = values;
        let tracked = rule.gradients.iter().zip(&next_edges).filter(|(_, edge)| edge.is_some());
        keep(tracked.filter_map(|(gradient, _)| gradient.as_ref()).flat_map(|gradient| gradient.reads), N, result.shape(), |slot| match slot {
            // Each place is filled once, so that what is taken here is not asked for again.
            Slot::Input(n) => std::mem::replace(&mut values[n], ValueRef::Borrowed(&result)).into_owned(),
            _ => result.clone(),
        })
    };
    let mut metadata = SmallVec::new();
    metadata.push(InputMetadata::of(&result));
    let node = Node::new(Kind::Rule(rule, params), next_edges, metadata, saved, location());
    Var::tracked(result, node, 0)
}

/// Records a row whose gradients are a function. `slots` are the values to save.
#[track_caller]
pub(crate) fn record_function(
    row: &'static Row,
    inputs: &[&Var],
    values: SmallVec<[Tensor; 1]>,
    slots: &[Slot],
    function: impl FnOnce() -> Function,
) -> SmallVec<[Var; 1]> {
    record_own(row.name, inputs, values, slots, function)
}

/// The same for an operation of a user's own, or one made of a formula.
#[track_caller]
pub(crate) fn record_own(
    name: &'static str,
    inputs: &[&Var],
    values: SmallVec<[Tensor; 1]>,
    slots: &[Slot],
    function: impl FnOnce() -> Function,
) -> SmallVec<[Var; 1]> {
    // What is done for every operation alike is compiled once: only the closure is the operation's own.
    match edges(inputs, &values) {
        Some(edges) => with_node(name, inputs, values, slots, edges, function()),
        None => values.into_iter().map(Var::constant).collect(),
    }
}

/// The edges to the inputs, if there is something to record.
#[inline(never)]
fn edges(inputs: &[&Var], values: &[Tensor]) -> Option<Edges> {
    if !is_grad_enabled() || !values.iter().any(|v| v.dtype().is_float()) {
        return None;
    }
    let edges: Edges = inputs.iter().map(|v| v.edge()).collect();
    edges.iter().any(Option::is_some).then_some(edges)
}

/// Variables for the results, with a node behind those that have a gradient.
#[track_caller]
#[inline(never)]
fn with_node(
    name: &'static str,
    inputs: &[&Var],
    values: SmallVec<[Tensor; 1]>,
    slots: &[Slot],
    edges: Edges,
    function: Function,
) -> SmallVec<[Var; 1]> {
    let saved = keep(slots.iter(), inputs.len(), values[0].shape(), |slot| match slot {
        Slot::Input(n) => inputs[n].value(),
        Slot::Output(k) => values[k].clone(),
        _ => unreachable!("only inputs and outputs have a place among saved values"),
    });
    let metadata = values.iter().map(InputMetadata::of).collect();
    let node = Node::new(Kind::Function(name, function), edges, metadata, saved, location());
    let var = |(nr, value): (usize, Tensor)| {
        if value.dtype().is_float() {
            Var::tracked(value, node.clone(), nr as u32)
        } else {
            Var::constant(value)
        }
    };
    values.into_iter().enumerate().map(var).collect()
}
