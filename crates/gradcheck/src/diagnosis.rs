//! What is wrong with a gradient, in words.

use std::fmt;
use std::panic::Location;

use foldback_tensor::counted;

use crate::error::Argument;

/// What a wrong gradient is, compared with the one that differences show. A disagreement that is none of these, or of a
/// function with too many elements to look at each, is `Unexplained`.
///
/// ```
/// use foldback_gradcheck::Diagnosis;
/// let factor = Diagnosis::Factor { factor: 2.0, size: None };
/// assert_eq!(factor.to_string(), "it is 2 times what it should be");
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Diagnosis {
    /// it has the wrong sign
    SignFlipped,
    /// it is a multiple of the right one
    Factor {
        /// which multiple
        factor: f64,
        /// what has as many elements as the factor, or its inverse, says
        size: Option<Size>,
    },
    /// it is zero where it should not be
    Missing,
    /// the second derivative is zero where it should not be
    SecondOrderMissing,
    /// it is not zero where it should be
    Unwanted,
    /// the same number was added everywhere
    ConstantAdded(f64),
    /// it is the same whatever gradient comes in
    IncomingIgnored,
    /// it is not in proportion to the gradient that comes in
    NotProportional,
    /// it is NaN or infinite
    NonFinite,
    /// the function itself is not finite, so that there is nothing to compare with
    ValueNonFinite,
    /// it was rounded to `f32` on its way, or the function's value was
    SinglePrecision {
        /// whether it was the value
        of_value: bool,
    },
    /// it is right for contiguous inputs and seeds
    DependsOnLayout,
    /// two runs at the same inputs differ
    NotDeterministic {
        /// whether the value does; else the gradient
        of_value: bool,
    },
    /// two of its axes are swapped
    Transposed {
        /// the axes
        axes: (usize, usize),
    },
    /// it runs backwards along an axis
    Flipped {
        /// the axis
        axis: usize,
    },
    /// it has the right elements in other places
    Rearranged,
    /// it was summed over an axis that the input has
    OverReduced {
        /// the axis of the input
        axis: usize,
    },
    /// one position of an axis of the output counts, where all should be summed
    Unreduced {
        /// the axis of the output
        axis: usize,
        /// the position that counts
        index: usize,
    },
    /// it was summed over other axes of the output than the input was broadcast along
    WrongAxes {
        /// the axes that were summed over
        summed: Vec<usize>,
    },
    /// it is another input's gradient
    Swapped {
        /// the other input
        with: Argument,
    },
    /// it would be right if two inputs changed places
    InputsSwapped {
        /// the one and the other
        inputs: (Argument, Argument),
    },
    /// it would be right if something was transposed that it is computed from
    OperandTransposed {
        /// an input or the incoming gradient
        operand: Argument,
    },
    /// none of these
    Unexplained,
}

/// What a factor is the size of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Size {
    /// whose size
    pub of: Argument,
    /// an axis of it; its number of elements if none
    pub axis: Option<usize>,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.axis {
            Some(axis) => write!(f, "the size of axis {axis} of {}", self.of),
            None => write!(f, "the number of elements of {}", self.of),
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Diagnosis::*;
        let computed = |of_value: &bool| if *of_value { "the function's value" } else { "the gradient" };
        match self {
            SignFlipped => f.write_str("its sign is flipped"),
            Factor { factor, size } => write_factor(f, *factor, size.as_ref()),
            Missing => f.write_str(
                "it is zero: the gradient is missing, or a value was detached between input and output",
            ),
            SecondOrderMissing => f.write_str(
                "it is zero: the second order is missing, as where a backward function detaches or reads a value that \
                 was kept as a constant",
            ),
            Unwanted => f.write_str("it should be zero there, and is not"),
            ConstantAdded(c) => write!(f, "{c} was added to it everywhere"),
            IncomingIgnored => f.write_str(
                "it ignores the incoming gradient: it is the same for every seed, and should be proportional to it",
            ),
            NotProportional => f.write_str(
                "it is not proportional to the incoming gradient: for twice the seed it is not twice as large",
            ),
            NonFinite => f.write_str("it is not finite"),
            ValueNonFinite => f.write_str("the function's value is not finite there or close by, so no gradient can be confirmed"),
            SinglePrecision { of_value } => write!(
                f,
                "{} has only the digits of f32: something on the way computes in f32",
                computed(of_value)
            ),
            DependsOnLayout => {
                f.write_str("it depends on the layout: it is right for contiguous tensors of the same elements")
            }
            NotDeterministic { of_value } => {
                write!(f, "{} is not deterministic: two runs at the same inputs differ", computed(of_value))
            }
            Transposed { axes: (a, b) } => write!(f, "it is transposed: axes {a} and {b} are swapped"),
            Flipped { axis } => write!(f, "it runs backwards along axis {axis}"),
            Rearranged => f.write_str("it has the right elements in the wrong places"),
            OverReduced { axis } => write!(f, "it is summed over axis {axis}, which the input has itself"),
            Unreduced { axis, index } => write!(
                f,
                "it counts index {index} of the output's axis {axis} alone, where the whole axis should be summed"
            ),
            WrongAxes { summed } => write!(f, "it is summed over the wrong axes of the output: {summed:?}"),
            Swapped { with } => write!(f, "it is the gradient of {with}: the gradients are swapped"),
            InputsSwapped { inputs: (a, b) } => {
                write!(f, "it would be right with {a} and {b} swapped where it is computed")
            }
            OperandTransposed { operand } => write!(f, "it would be right if {operand} was transposed where it is computed"),
            Unexplained => f.write_str("no simple fault explains it"),
        }
    }
}

fn write_factor(f: &mut fmt::Formatter<'_>, factor: f64, size: Option<&Size>) -> fmt::Result {
    // A half reads better than 0.5, and so does a third.
    let inverse = (1.0 / factor).round();
    if factor.abs() < 1.0 && inverse.abs() < 1e6 && (factor * inverse - 1.0).abs() < 1e-4 {
        write!(f, "it is 1/{inverse} of what it should be")?;
    } else {
        write!(f, "it is {factor} times what it should be")?;
    }
    // Much has size 2, and many a formula a factor of 2.
    let also = if factor.abs() == 2.0 || inverse.abs() == 2.0 { "2 is also " } else { "" };
    size.map_or(Ok(()), |size| write!(f, " ({also}{size})"))
}

/// Which elements of an input are wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Region {
    /// all whose gradient is not zero in any case
    Everywhere,
    /// one
    Index(Vec<usize>),
    /// one position of an axis
    Along {
        /// the axis
        axis: usize,
        /// the position
        index: usize,
    },
    /// where the input is negative
    Negative,
    /// where the input is zero
    Zero,
    /// where the input is positive
    Positive,
    /// some, without a rule
    Some,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Region::Everywhere => f.write_str("everywhere"),
            Region::Index(index) => write!(f, "only at index {index:?}"),
            Region::Along { axis, index } => write!(f, "only at index {index} of axis {axis}"),
            Region::Negative => f.write_str("only where the input is negative"),
            Region::Zero => f.write_str("only where the input is zero"),
            Region::Positive => f.write_str("only where the input is positive"),
            Region::Some => f.write_str("in some places"),
        }
    }
}

/// A recorded operation whose own gradient is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongOperation {
    /// its name
    pub name: &'static str,
    /// the line that recorded it
    pub location: &'static Location<'static>,
    /// how many other recorded operations are wrong, too
    pub others: usize,
    /// how many operations were recorded in all
    pub recorded: usize,
    /// whether one of its inputs is not tracked, so that a value may have been detached before it
    pub has_constants: bool,
}

impl fmt::Display for WrongOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the gradient of {} is wrong, recorded at {}", self.name, self.location)?;
        match self.others {
            0 => {}
            n => write!(
                f,
                ", and {} after it",
                if n == 1 { "that of 1 operation".into() } else { format!("those of {n} operations") }
            )?,
        }
        if self.has_constants {
            f.write_str(" (unless a value was detached: one of its inputs is not tracked)")?;
        }
        Ok(())
    }
}

/// A diagnosis with where it holds.
///
/// ```
/// use foldback_gradcheck::{Diagnosis, GradcheckFacts, Region, gradcheck};
/// use foldback_graph::Operation;
/// use foldback_tensor::tensor;
/// let square = Operation::new("square", |[x]| x.square(), |ctx, [g]| g * ctx.input(0)).saves_inputs();
/// let e = gradcheck(|x| square.call([x]), &tensor![1.0, 2.0, 3.0; f64]).unwrap_err();
/// let Some(GradcheckFacts::Gradient { explanation, .. }) = e.facts() else { panic!() };
/// assert_eq!(explanation.diagnosis, Diagnosis::Factor { factor: 0.5, size: None });
/// assert_eq!((explanation.wrong, explanation.of, &explanation.region), (3, 3, &Region::Everywhere));
/// assert_eq!(explanation.operation.unwrap().name, "square");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Explanation {
    /// what is wrong
    pub diagnosis: Diagnosis,
    /// how many elements of the argument are; 0 where not each was looked at
    pub wrong: usize,
    /// of so many
    pub of: usize,
    /// and which
    pub region: Region,
    /// the first recorded operation whose own gradient is wrong, if that explains it
    pub operation: Option<WrongOperation>,
    /// what the argument is called, for parameters
    pub name: Option<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.diagnosis)?;
        if let (Diagnosis::Unexplained, Some(WrongOperation { recorded: 2.., .. })) =
            (&self.diagnosis, &self.operation)
        {
            f.write_str(" in the gradient of the whole: a check of the operation alone may say more")?;
        }
        if self.wrong > 0 {
            write!(f, "; wrong {}, in {} of {}", self.region, self.wrong, counted(self.of, "element"))?;
        }
        match &self.operation {
            Some(operation) => write!(f, "; {operation}"),
            None => Ok(()),
        }
    }
}
