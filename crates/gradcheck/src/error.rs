//! What a check can find.

use std::fmt;

pub(crate) use foldback_tensor::Result;
use foldback_tensor::{DType, Facts, Kind, Shape};

use crate::diagnosis::Explanation;

/// What a check found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GradcheckFacts {
    /// Differences need `f64`.
    #[error(
        "gradcheck: {argument} has dtype {dtype}; differences are meaningful in f64 only: convert it with to(DType::F64) (tensor![..; f64] makes one), or, for a function that takes either type, ask for Check::single_precision"
    )]
    DType {
        /// what has the wrong type
        argument: Argument,
        /// its type
        dtype: DType,
    },
    /// The list of flags that say which inputs are tracked does not fit.
    #[error("gradcheck: {flags} flags say which of {inputs} inputs are tracked: give one for each")]
    TrackedCount {
        /// the number of flags
        flags: usize,
        /// the number of inputs
        inputs: usize,
    },
    /// There is nothing to take a gradient of.
    #[error(
        "gradcheck: no input is tracked, so there is no gradient to check: give an input, and true among the flags"
    )]
    NothingTracked,
    /// The function returns nothing.
    #[error(
        "gradcheck: the function returns no variable, so there is no gradient to check: return what it computes"
    )]
    NoOutputs,
    /// Nothing would be compared: no random seeds are to be tried, and none was given.
    #[error(
        "gradcheck: seeds(0) without a seed(..) compares nothing; ask for at least one random seed or give one"
    )]
    NoSeeds,
    /// An option with which every gradient would pass, or none.
    #[error("gradcheck: {name} must be {expected}, found {value}")]
    Parameter {
        /// the option
        name: &'static str,
        /// its value
        value: f64,
        /// its domain
        expected: &'static str,
    },
    /// A seed does not have the shape of the output, or the output changes its shape near the inputs.
    #[error(
        "gradcheck: {argument} has shape {found} where {expected} was expected: {}",
        if *argument == Argument::Seed { "a seed has the shape of the output" } else { "the function's shapes must not change with its inputs' values" }
    )]
    Shape {
        /// what has the wrong shape
        argument: Argument,
        /// the shape that fits
        expected: Shape,
        /// the shape it has
        found: Shape,
    },
    /// A gradient has another shape or type than what it is the gradient of.
    #[error(
        "gradcheck: the {order}-order gradient of {argument} is {found_dtype}{found} where {expected_dtype}{expected} was expected"
    )]
    GradientForm {
        /// which derivative
        order: Order,
        /// what it is the gradient of
        argument: Argument,
        /// the shape of the argument
        expected: Shape,
        /// the type of the argument
        expected_dtype: DType,
        /// the shape of the gradient
        found: Shape,
        /// the type of the gradient
        found_dtype: DType,
    },
    /// The backward pass and the differences disagree; of all disagreements, the worst.
    #[error(
        "gradcheck: the {order}-order gradient of {argument}{} {place} is {analytical} by the backward pass and {numerical} by differences (tolerance {tolerance:.1e}): {explanation}",
        called(explanation)
    )]
    Gradient {
        /// which derivative
        order: Order,
        /// what it is the gradient of
        argument: Argument,
        /// one element or a direction
        place: Place,
        /// by the backward pass
        analytical: f64,
        /// by differences
        numerical: f64,
        /// how far they may be apart
        tolerance: f64,
        /// what is wrong, as far as it can be told
        explanation: Box<Explanation>,
    },
    /// The function has a kink or a jump within a step of the inputs: no gradient can be confirmed there, nor refuted.
    #[error(
        "gradcheck: there is a kink or a jump within {step:.1e} of {argument} {place}: to either side the {order}-order slopes are {before} and {after}, and the gradient there is {analytical}; check at other values, or let Check::resample choose some"
    )]
    Kink {
        /// which derivative
        order: Order,
        /// what was varied
        argument: Argument,
        /// one element or a direction
        place: Place,
        /// the step of the differences
        step: f64,
        /// the slope before the point
        before: f64,
        /// the slope behind it
        after: f64,
        /// by the backward pass
        analytical: f64,
    },
    /// Another way to compute derivatives gives other numbers.
    #[error(
        "gradcheck: the {order}-order derivative by {argument} {place} is {found} by {mode} and {expected} by a backward pass (tolerance {tolerance:.1e})"
    )]
    Mode {
        /// which way
        mode: Mode,
        /// which derivative
        order: Order,
        /// what was varied
        argument: Argument,
        /// one element or a direction
        place: Place,
        /// what it gives
        found: f64,
        /// what a backward pass gives
        expected: f64,
        /// how far they may be apart
        tolerance: f64,
    },
    /// Parameters have no forward mode here: they are not arguments of the function.
    #[error(
        "gradcheck: check_forward_ad needs a function of its inputs: give the parameters as inputs, and use gradcheck"
    )]
    ForwardOfParameters,
}

/// Another way to compute a derivative, which should give the numbers of a backward pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mode {
    /// forward mode
    Forward,
    /// one pass for several seeds
    Batched,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Forward => "forward mode",
            Mode::Batched => "a pass with several seeds at once",
        })
    }
}

/// The name of a parameter, in brackets.
fn called(explanation: &Explanation) -> String {
    explanation.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default()
}

impl Facts for GradcheckFacts {
    fn kind(&self) -> Kind {
        use GradcheckFacts::*;
        match self {
            DType { .. } => Kind::DType,
            TrackedCount { .. }
            | NothingTracked
            | NoOutputs
            | NoSeeds
            | Parameter { .. }
            | ForwardOfParameters => Kind::Argument,
            Shape { .. } => Kind::Shape,
            GradientForm { .. } | Gradient { .. } | Kink { .. } | Mode { .. } => Kind::Gradcheck,
        }
    }
}

/// Which derivative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// of the function
    First,
    /// of the gradient
    Second,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::First => "first",
            Order::Second => "second",
        })
    }
}

/// What a derivative is taken by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Argument {
    /// an input, by its number
    Input(usize),
    /// the seed of the first backward pass
    Seed,
    /// all that are tracked, together
    All,
    /// the output
    Output,
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Input(i) => write!(f, "input {i}"),
            Argument::Seed => f.write_str("the seed"),
            Argument::All => f.write_str("all inputs"),
            Argument::Output => f.write_str("the output"),
        }
    }
}

/// Where in an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Place {
    /// one element, by its indices
    Element(Vec<usize>),
    /// along a random direction
    Direction,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Element(index) => write!(f, "at {index:?}"),
            Place::Direction => f.write_str("along a random direction"),
        }
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::Error;

    use super::*;
    use crate::diagnosis::{Diagnosis, Region};

    /// What gradients may disagree with.
    fn disagreements() -> [GradcheckFacts; 3] {
        use GradcheckFacts::*;
        let (order, argument) = (Order::First, Argument::Input(0));
        let gradient = Gradient {
            order,
            argument,
            place: Place::Direction,
            analytical: 1.0,
            numerical: 2.0,
            tolerance: 1e-6,
            explanation: Box::new(Explanation {
                diagnosis: Diagnosis::SignFlipped,
                wrong: 1,
                of: 2,
                region: Region::Negative,
                operation: None,
                name: Some("weight".into()),
            }),
        };
        let kink = Kink {
            order,
            argument,
            place: Place::Direction,
            step: 1e-6,
            before: 0.0,
            after: 1.0,
            analytical: 0.0,
        };
        let mode = Mode {
            mode: super::Mode::Batched,
            order,
            argument,
            place: Place::Direction,
            found: 1.0,
            expected: 2.0,
            tolerance: 1e-9,
        };
        [gradient, kink, mode]
    }

    #[test]
    fn every_fact_has_a_kind() {
        use GradcheckFacts::*;
        let (order, argument, s, f64) =
            (Order::First, Argument::Input(0), || [2].into(), foldback_tensor::DType::F64);
        let form = GradientForm {
            order,
            argument,
            expected: s(),
            expected_dtype: f64,
            found: s(),
            found_dtype: foldback_tensor::DType::F32,
        };
        let all = [
            (ForwardOfParameters, Kind::Argument),
            (DType { argument, dtype: f64 }, Kind::DType),
            (TrackedCount { flags: 1, inputs: 2 }, Kind::Argument),
            (NothingTracked, Kind::Argument),
            (NoOutputs, Kind::Argument),
            (NoSeeds, Kind::Argument),
            (Parameter { name: "step", value: -1.0, expected: "positive" }, Kind::Argument),
            (Shape { argument, expected: s(), found: s() }, Kind::Shape),
            (form, Kind::Gradcheck),
        ];
        let disagreements = disagreements().map(|facts| (facts, Kind::Gradcheck));
        for (facts, kind) in all.into_iter().chain(disagreements) {
            let e = Error::from(facts.clone());
            assert_eq!(e.kind(), kind, "{e}");
            assert_eq!(e, facts);
        }
    }
}
