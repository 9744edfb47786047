//! The derivative table: one operation, one row, one place.
//!
//! Note [Rows]
//! A row names an operation, its inputs, its forward value, the gradient of each input and where to try it. From a row
//! come the method of [`Var`], the node, the double backward and the checks; nothing else needs to be written.
//!
//! *Naming is saving.* A gradient may use only what its `|...|` names: `g`, the inputs, the output (the name behind
//! `=>`). What is named is kept alive until the backward pass, or made again within a budget (`budget`); nothing else is.
//!
//! A *pointwise* row's gradients are formulas over [`Real`](foldback_tensor::kernel::Real). The engine runs them as one
//! fused pass, straight into the shape of the input; under `create_graph` it records them. A *function* row's gradients
//! are expressions over variables, for operations that a formula does not fit. Rows never undo broadcasting, never add
//! up gradients and never check shapes: the engine does (`validate_outputs`).

mod activations;
mod affine;
mod arithmetic;
mod attention;
mod classes;
mod composed;
mod conv;
mod conversions;
mod direction;
mod elementary;
mod embedding;
mod function_rows;
mod functions;
mod gate;
mod index;
mod joins;
mod linalg;
mod list;
mod macros;
mod mask;
mod moves;
mod norm;
mod normal_slopes;
mod normalise;
mod order;
mod pairs;
mod pieces;
mod pool;
mod reduce;
mod safe_where;
mod samples;
mod scan;
mod slices;
mod softmax;
mod together;
mod triangle;
mod variance;
mod views;

pub(crate) use reduce::unreduced;
pub(crate) use samples::Samples;
pub use samples::{Domain, InputSpec, OwnedSample, Row, Sample};

/// Every row of the table, for tests that walk it.
///
/// ```
/// assert!(foldback_graph::rows().any(|row| row.name == "tanh"));
/// ```
pub fn rows() -> impl Iterator<Item = &'static Row> {
    [
        arithmetic::ALL,
        pairs::ALL,
        elementary::ALL,
        activations::ALL,
        list::ALL,
        reduce::ALL,
        softmax::ALL,
        variance::ALL,
        norm::ALL,
        order::ALL,
        scan::ALL,
        views::ALL,
        triangle::ALL,
        conversions::ALL,
        slices::ALL,
        pieces::ALL,
        moves::ALL,
        linalg::ALL,
        affine::ALL,
        index::ALL,
        conv::ALL,
        pool::ALL,
        joins::ALL,
        normalise::ALL,
        attention::ALL,
        gate::ALL,
        embedding::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}
