//! The table: each of PyTorch's operations, its parameters, and how it is called here.
//!
//! A row reads `operation!("name alias", "parameter parameter", |a| ...)`; the function takes the named arguments and
//! gives the outputs in PyTorch's order. An argument that is not among the parameters is unsupported by name.

mod in_place;
mod index;
mod linalg;
mod pointwise;
mod reduce;
mod views;

use foldback_graph::Var;

use super::args::{Args, Refusal};
use super::close::Precision;

/// What a call gives: its outputs, or why there are none.
pub(super) type Outcome = Result<Vec<Var>, Refusal>;

/// One row.
pub(super) struct Operation {
    /// PyTorch's names for it
    names: &'static str,
    /// PyTorch's names for its parameters
    parameters: &'static str,
    /// how closely its values must agree
    pub(super) precision: Precision,
    /// the call
    pub(super) call: fn(&Args) -> Outcome,
}

impl Operation {
    /// Whether it has a parameter of that name.
    pub(super) fn takes(&self, parameter: &str) -> bool {
        self.parameters.split(' ').any(|p| p == parameter)
    }
}

/// The row of an operation, by any of its names.
pub(super) fn find(name: &str) -> Option<&'static Operation> {
    let name = name.strip_prefix("nn.functional.").unwrap_or(name);
    let families = [pointwise::ROWS, in_place::ROWS, reduce::ROWS, views::ROWS, index::ROWS, linalg::ROWS];
    families.into_iter().flatten().find(|o| o.names.split(' ').any(|n| n == name))
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
        }
    };
}
use operation;

/// A call with one output.
fn one<E: Into<Refusal>>(result: Result<Var, E>) -> Outcome {
    result.map(|v| vec![v]).map_err(Into::into)
}

/// A call whose output has no gradient.
fn plain<E: Into<Refusal>>(result: Result<foldback_tensor::Tensor, E>) -> Outcome {
    one(result.map(Var::from))
}
