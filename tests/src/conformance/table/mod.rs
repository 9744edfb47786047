//! The table: each of PyTorch's operations, its parameters, and how it is called here.
//!
//! A row reads `operation!("name alias", "parameter parameter", |a| ...)`; the function takes the named arguments and
//! gives the outputs in PyTorch's order. An argument that is not among the parameters is unsupported by name.

pub(crate) mod images;
mod in_place;
mod index;
mod linalg;
mod moves;
mod nn;
mod normalise;
mod order;
mod places;
mod pointwise;
mod reduce;
mod views;

use foldback_graph::Var;

use super::args::{Args, Refusal};
use super::case::Case;
use super::close::Precision;

/// What a call gives: its outputs, or why there are none.
pub(crate) type Outcome = Result<Vec<Var>, Refusal>;

/// One row.
pub(crate) struct Operation {
    /// PyTorch's names for it
    pub(super) names: &'static str,
    /// PyTorch's names for its parameters
    pub(super) parameters: &'static str,
    /// how closely its values must agree
    pub(crate) precision: Precision,
    /// the call
    pub(crate) call: fn(&Args) -> Outcome,
    /// the call's text, and the file that it stands in
    pub(super) source: [&'static str; 2],
}

impl Operation {
    /// Whether it has a parameter of that name.
    pub(crate) fn takes(&self, parameter: &str) -> bool {
        self.parameters.split(' ').any(|p| p == parameter)
    }
}

/// The row of an operation, by any of its names.
pub(crate) fn find(name: &str) -> Option<&'static Operation> {
    let name = name.strip_prefix("nn.functional.").unwrap_or(name);
    rows().find(|o| o.names.split(' ').any(|n| n == name))
}

/// All rows.
pub(super) fn rows() -> impl Iterator<Item = &'static Operation> {
    let families = [
        pointwise::ROWS,
        in_place::ROWS,
        reduce::ROWS,
        views::ROWS,
        index::ROWS,
        linalg::ROWS,
        nn::ROWS,
        normalise::ROWS,
        order::ROWS,
        moves::ROWS,
        places::ROWS,
        images::ROWS,
    ];
    families.into_iter().flatten()
}

/// Where only the second order differs by design, the name of the difference.
pub(crate) fn second_order_by_design(case: &Case) -> Option<&'static str> {
    let data = &case.inputs.first()?.tensor.data;
    let zero = data.iter().any(|v| v.as_f64() == Some(0.0));
    let infinite = data.iter().any(|v| v.is_string());
    // At zero PyTorch's second derivative takes the slope from above and its first the one from below.
    if case.op == "prelu" && zero {
        return Some("by design: second order of prelu at zero");
    }
    // PyTorch divides an infinite product by its infinite factor there and gets NaN; here the other factors remain.
    (case.op == "prod" && zero && infinite)
        .then_some("by design: second order of prod with a zero and inf or NaN")
}

/// Whether an operation writes truth values over numbers. They are constants here; PyTorch records them, with gradients of zeros.
pub(crate) fn writes_constants(case: &Case) -> bool {
    let comparisons = "eq_ ne_ not_equal_ lt_ less_ le_ less_equal_ gt_ greater_ ge_ greater_equal_";
    comparisons.split(' ').any(|name| name == case.op)
}

/// A row; the values agree element by element unless it says `Sum` or `Exact`.
macro_rules! operation {
    ($names:expr, $parameters:expr, $call:expr) => {
        operation!(Each $names, $parameters, $call)
    };
    ($precision:ident $names:expr, $parameters:expr, $call:expr) => {
        $crate::conformance::table::Operation {
            names: $names,
            parameters: $parameters,
            precision: $crate::conformance::close::Precision::$precision,
            call: $call,
            source: [stringify!($call), file!()],
        }
    };
}
use operation;

/// A call with one output.
fn one(result: foldback_tensor::Result<Var>) -> Outcome {
    result.map(|v| vec![v]).map_err(Into::into)
}
