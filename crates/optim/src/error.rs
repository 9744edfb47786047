//! What can go wrong in optimisers; each variant holds the facts.

use foldback_tensor::{DType, Shape};

/// The result of making an optimiser or of a step.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an optimiser or a step was refused. Nothing has been changed when one is returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter that cannot be written.
    #[error(transparent)]
    Graph(#[from] foldback_graph::Error),
    /// A setting outside its domain.
    #[error("{optimizer}: {name} = {value} is not valid: expected {expected}")]
    Parameter {
        /// the optimiser
        optimizer: &'static str,
        /// the setting
        name: &'static str,
        /// its value
        value: f64,
        /// its domain
        expected: &'static str,
    },
    /// Nesterov's step without momentum, or with dampening.
    #[error("{optimizer}: nesterov needs momentum above 0 and dampening 0, found {momentum} and {dampening}")]
    Nesterov {
        /// the optimiser
        optimizer: &'static str,
        /// the momentum
        momentum: f64,
        /// the dampening
        dampening: f64,
    },
    /// An empty list of parameters.
    #[error("{optimizer}: the list of parameters is empty")]
    NoParameters {
        /// the optimiser
        optimizer: &'static str,
    },
    /// One variable given twice, which would be changed twice in each step.
    #[error("{optimizer}: parameters {first} and {second} are the same variable")]
    Duplicate {
        /// the optimiser
        optimizer: &'static str,
        /// where it stands first
        first: usize,
        /// where it stands again
        second: usize,
    },
    /// A result of an operation, which has no value of its own to change.
    #[error("{optimizer}: parameter {index} is the result of an operation, not a leaf")]
    NotALeaf {
        /// the optimiser
        optimizer: &'static str,
        /// which parameter
        index: usize,
    },
    /// A gradient that does not fit its parameter.
    #[error(
        "{optimizer}: parameter {index} has shape {shape} and dtype {dtype}, its gradient {grad_shape} and {grad_dtype}"
    )]
    Gradient {
        /// the optimiser
        optimizer: &'static str,
        /// which parameter
        index: usize,
        /// its shape
        shape: Shape,
        /// its type
        dtype: DType,
        /// the shape of its gradient
        grad_shape: Shape,
        /// the type of its gradient
        grad_dtype: DType,
    },
}

impl From<foldback_tensor::Error> for Error {
    fn from(e: foldback_tensor::Error) -> Error {
        Error::Graph(e.into())
    }
}

/// How a text calls the learning rate.
pub(crate) const LR: &str = "the learning rate";

/// Refuses a setting unless it holds.
pub(crate) fn check(
    holds: bool,
    optimizer: &'static str,
    name: &'static str,
    value: f64,
    expected: &'static str,
) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Parameter { optimizer, name, value, expected }) }
}

/// Refuses a setting that is negative or not finite.
pub(crate) fn check_not_negative(optimizer: &'static str, name: &'static str, value: f64) -> Result<()> {
    check(value >= 0.0 && value.is_finite(), optimizer, name, value, "a finite number that is not negative")
}
