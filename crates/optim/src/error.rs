//! What optimisers refuse; each variant holds the facts.

pub(crate) use foldback_tensor::Result;
use foldback_tensor::{DType, Facts, Kind, Shape};

/// Why an optimiser or a step was refused. Nothing has been changed when one is returned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimFacts {
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
    /// A setting that an optimiser does not have.
    #[error("{optimizer}: there is no setting {name}: it has {known}")]
    Setting {
        /// the optimiser
        optimizer: &'static str,
        /// the name
        name: String,
        /// the names of those that it has
        known: String,
    },
    /// Numbers by group, of another length than there are groups.
    #[error("{optimizer}: expected one number for each of {expected} groups, found {found}")]
    Groups {
        /// the optimiser or the schedule
        optimizer: &'static str,
        /// how many groups there are
        expected: usize,
        /// how many numbers came
        found: usize,
    },
    /// A group without parameters, or with those of others.
    #[error("{optimizer}: a group of parameters: {problem}")]
    Members {
        /// the optimiser
        optimizer: &'static str,
        /// what is wrong, and what to do
        problem: String,
    },
    /// What does not go together, or an order of calls that has no meaning.
    #[error("{of}: {problem}")]
    Refused {
        /// the optimiser, the schedule or the function
        of: &'static str,
        /// what is wrong, and what to do
        problem: String,
    },
    /// A saved state that does not fit.
    #[error("{of}: load_state_dict: {problem}")]
    State {
        /// the optimiser or the schedule
        of: &'static str,
        /// what is wrong, and what to do
        problem: String,
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
    #[error(
        "{optimizer}: the list of parameters is empty: give those of a model, model.parameters(), or of a pattern that matches some of model.named_parameters()"
    )]
    NoParameters {
        /// the optimiser
        optimizer: &'static str,
    },
    /// One variable given twice, which would be changed twice in each step.
    #[error("{optimizer}: parameters {first} and {second} are the same variable: give it once")]
    Duplicate {
        /// the optimiser
        optimizer: &'static str,
        /// where it stands first
        first: usize,
        /// where it stands again
        second: usize,
    },
    /// A result of an operation, which has no value of its own to change.
    #[error(
        "{optimizer}: parameter {index} is the result of an operation, not a leaf; give the leaf that it was made of, or detach() and requires_grad() it first"
    )]
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

impl Facts for OptimFacts {
    fn kind(&self) -> Kind {
        use OptimFacts::*;
        match self {
            Parameter { .. } | Setting { .. } | Groups { .. } | Members { .. } | Refused { .. } => {
                Kind::Argument
            }
            State { .. } | Nesterov { .. } | NoParameters { .. } | Duplicate { .. } => Kind::Argument,
            NotALeaf { .. } => Kind::Graph,
            Gradient { shape, grad_shape, .. } if shape == grad_shape => Kind::DType,
            Gradient { .. } => Kind::Shape,
        }
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::Error;

    use super::*;

    #[test]
    fn every_fact_has_a_kind() {
        use OptimFacts::*;
        let (optimizer, dtype) = ("SGD", DType::F32);
        let gradient = |size: usize, grad_dtype| Gradient {
            optimizer,
            index: 0,
            shape: 2.into(),
            dtype,
            grad_shape: size.into(),
            grad_dtype,
        };
        let all = [
            (Parameter { optimizer, name: "momentum", value: -1.0, expected: "more" }, Kind::Argument),
            (Setting { optimizer, name: "rho".into(), known: "lr".into() }, Kind::Argument),
            (Groups { optimizer, expected: 1, found: 2 }, Kind::Argument),
            (Members { optimizer, problem: "none".into() }, Kind::Argument),
            (Refused { of: optimizer, problem: "no".into() }, Kind::Argument),
            (State { of: optimizer, problem: "no".into() }, Kind::Argument),
            (Nesterov { optimizer, momentum: 0.0, dampening: 1.0 }, Kind::Argument),
            (NoParameters { optimizer }, Kind::Argument),
            (Duplicate { optimizer, first: 0, second: 1 }, Kind::Argument),
            (NotALeaf { optimizer, index: 0 }, Kind::Graph),
            (gradient(3, dtype), Kind::Shape),
            (gradient(2, DType::F64), Kind::DType),
        ];
        for (facts, kind) in all {
            let e = Error::from(facts.clone());
            assert_eq!(e.kind(), kind, "{e}");
            assert_eq!(e, facts);
        }
    }
}
