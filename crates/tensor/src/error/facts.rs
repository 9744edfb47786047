//! What tensor operations refuse: one variant per kind of refusal, each holding the facts of the call.

use std::panic::Location;

use super::cures::*;
use super::{Facts, Kind, counted};
use crate::dtype::{DType, Scalar};
use crate::ops::doubt::{Doubt, Origins};
use crate::shape::{AlignedShapes, Shape};

/// Why a tensor operation was refused. Nothing has been changed when one is returned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorFacts {
    /// Two shapes that do not broadcast together.
    #[error(
        "{op}: cannot broadcast {a} with {b}\n{}\nThe size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {dim}: {}",
        AlignedShapes { a, b, dim: *dim }, size_at(a, b, *dim), size_at(b, a, *dim), broadcasting(op, a, b)
    )]
    Broadcast {
        /// the operation
        op: &'static str,
        /// the first shape
        a: Shape,
        /// the second shape
        b: Shape,
        /// the axis of the common shape where they disagree
        dim: usize,
    },
    /// A tensor that cannot be expanded to the shape it is wanted in; in-place operations never change a shape.
    #[error("{op}: {}", why_not_expanded(operand, from, to, *dim))]
    Expand {
        /// the operation
        op: &'static str,
        /// what is to expand (`"mask"`); empty where there is one tensor only
        operand: &'static str,
        /// the shape to expand
        from: Shape,
        /// the shape wanted
        to: Shape,
        /// the axis, counted in the longer shape, where they disagree
        dim: usize,
    },
    /// An axis that the tensor does not have.
    #[error("{op}: {}", axes_of(op, *axis, *limit, *rank))]
    AxisOutOfRange {
        /// the operation
        op: &'static str,
        /// the axis as given
        axis: isize,
        /// how many positions are valid
        limit: usize,
        /// the rank of the tensor
        rank: usize,
    },
    /// An axis named twice.
    #[error("{op}: axis {axis} appears more than once; name each axis once")]
    DuplicateAxis {
        /// the operation
        op: &'static str,
        /// the axis, counted from the front
        axis: usize,
    },
    /// A range of axes that holds none.
    #[error("{op}: the range of axes from {start} on holds none; `..` is all of them, `0..2` the first two")]
    EmptySpan {
        /// the operation
        op: &'static str,
        /// where the range starts
        start: usize,
    },
    /// A number of axes that does not fit the tensor.
    #[error("{op}: expected {expected} {}{}, got {found}: {}", if expected.ends_with('1') { "axis" } else { "axes" }, of(operand), ranked(op, operand, expected))]
    Rank {
        /// the operation
        op: &'static str,
        /// whose they are (`"weight"`); empty where there is one tensor only
        operand: &'static str,
        /// how many, in words (`"2"`, `"at least 1"`)
        expected: &'static str,
        /// how many there are
        found: usize,
    },
    /// A pattern that has not as many names as the tensor has axes.
    #[error("{op}: expected {}, found {}: the shape is {shape}", axes(*expected), shape.rank())]
    Sizes {
        /// the operation
        op: &'static str,
        /// how many names the pattern has
        expected: usize,
        /// the shape of the tensor
        shape: Shape,
    },
    /// A mask of other sizes than the axes that it stands for.
    #[error(
        "{op}: a mask of shape {mask} does not fit a tensor of shape {shape} from axis {axis} on: it must have the sizes of its axes, at least one"
    )]
    MaskShape {
        /// the operation
        op: &'static str,
        /// the shape of the mask
        mask: Shape,
        /// the first axis that it stands for
        axis: usize,
        /// the shape of the tensor
        shape: Shape,
    },
    /// An element type for which the operation has no meaning.
    #[error("{op}: not defined for {dtype}: {}", instead(op))]
    DTypeUnsupported {
        /// the operation
        op: &'static str,
        /// the type refused
        dtype: DType,
    },
    /// An element type other than the one that an operand must have.
    #[error("{op}: expected {operand} of dtype {expected}, found {found}: use to(DType::{expected:?})")]
    DTypeMismatch {
        /// the operation
        op: &'static str,
        /// what is of that type, with its article (`"an index"`)
        operand: &'static str,
        /// the type wanted
        expected: DType,
        /// the type given
        found: DType,
    },
    /// Operands whose element types should be equal.
    #[error("{op}: the {} is {}, the {} {}: they must have one dtype; {}", a.0, a.1, b.0, b.1, one_dtype(*a, *b))]
    MixedDTypes {
        /// the operation
        op: &'static str,
        /// the name of an operand and its type
        a: (&'static str, DType),
        /// the name of another and its type
        b: (&'static str, DType),
    },
    /// An integer outside the type it is wanted in.
    #[error("{op}: {value} does not fit {to}: use {}", if *to == "i64" { "f64" } else { "i64" })]
    Unfit {
        /// the operation
        op: &'static str,
        /// the integer
        value: i128,
        /// the type
        to: &'static str,
    },
    /// Rows of different lengths, which make no matrix.
    #[error("{op}: row {row} has {}, row 0 has {expected}: all rows must have one length", counted(*found, "element"))]
    Ragged {
        /// the operation
        op: &'static str,
        /// the number of the first row that differs from row 0
        row: usize,
        /// how many elements it has
        found: usize,
        /// how many row 0 has
        expected: usize,
    },
    /// A result that does not fit the tensor it is to be written to.
    #[error(
        "{op}: result type {from} can't be cast to the desired output type {to}: use the form that makes a new tensor, or convert the output with to(DType::{from:?})"
    )]
    ResultCast {
        /// the operation
        op: &'static str,
        /// the type of the result
        from: DType,
        /// the type of the destination
        to: DType,
    },
    /// A scale that the element type cannot express.
    #[error("{op}: alpha {alpha} must not be {} for tensors of dtype {dtype}: convert them with to(DType::{:?})", alpha.dtype().name(), alpha.dtype())]
    Alpha {
        /// the operation
        op: &'static str,
        /// the scale
        alpha: Scalar,
        /// the type of the result
        dtype: DType,
    },
    /// An operand of another shape than it must have.
    #[error(
        "{op}: the {operand} must have shape {expected}, found {found}: {}",
        fitting(operand, expected, found)
    )]
    ShapeMismatch {
        /// the operation
        op: &'static str,
        /// what is of that shape (`"bias"`)
        operand: &'static str,
        /// the shape wanted
        expected: Shape,
        /// the shape given
        found: Shape,
    },
    /// Tensors of a list that do not fit together.
    #[error(
        "{op}: tensor {index} has shape {found}, tensor {first} has {expected}: {}",
        match axis {
            _ if found.rank() != expected.rank() => "all must have as many axes: unsqueeze adds one".to_owned(),
            Some(axis) => format!("they must agree on every axis but {axis}"),
            None => "all must have one shape".to_owned(),
        }
    )]
    ListShapes {
        /// the operation
        op: &'static str,
        /// the number of the tensor that does not fit
        index: usize,
        /// its shape
        found: Shape,
        /// the number of the one that it is compared with
        first: usize,
        /// the shape of that
        expected: Shape,
        /// the axis along which they may differ, if there is one
        axis: Option<usize>,
    },
    /// A shape whose product is not the number of elements.
    #[error("{op}: shape {shape} is invalid for {}: its sizes must multiply to that; one of them may be -1", counted(*elements, "element"))]
    ElementCount {
        /// the operation
        op: &'static str,
        /// the shape, as text because it may hold -1
        shape: String,
        /// how many elements there are
        elements: usize,
    },
    /// A view that strides cannot express.
    #[error(
        "{op}: a tensor of shape {shape} and strides {strides:?} cannot be viewed as {wanted} without a copy; use reshape"
    )]
    ViewNeedsCopy {
        /// the operation
        op: &'static str,
        /// the shape
        shape: Shape,
        /// the strides, in elements
        strides: Vec<isize>,
        /// the shape wanted
        wanted: Shape,
    },
    /// An index outside its axis.
    #[error("{op}: index {index} is out of bounds for axis {axis} of size {size}{}", indices(op, *size))]
    IndexOutOfRange {
        /// the operation
        op: &'static str,
        /// the index as given
        index: i64,
        /// the axis
        axis: usize,
        /// the size of the axis
        size: usize,
    },
    /// A range of an axis that is not inside it, or a step that is not positive.
    #[error(
        "{op}: range {start}..{end} with step {step} is not valid for axis {axis} of size {size}: ranges lie inside their axis, and steps are positive"
    )]
    Range {
        /// the operation
        op: &'static str,
        /// first index
        start: isize,
        /// end, exclusive
        end: isize,
        /// distance between taken elements
        step: isize,
        /// the axis
        axis: usize,
        /// the size of the axis
        size: usize,
    },
    /// Matrices whose inner sizes differ.
    #[error("{op}: shapes cannot be multiplied ({a} x {b}){}", inner_sizes(a, b))]
    Matmul {
        /// the operation
        op: &'static str,
        /// the left shape
        a: Shape,
        /// the right shape
        b: Shape,
    },
    /// An input that has not as many features as a weight takes.
    #[error(
        "{op}: a weight of shape {weight} takes inputs of {} in their last axis, found {input}: transpose the weight, or flatten axes of the input into one",
        weight.last().copied().unwrap_or(1)
    )]
    Features {
        /// the operation
        op: &'static str,
        /// the shape of the input
        input: Shape,
        /// the shape of the weight, `[out, in]`
        weight: Shape,
    },
    /// A reduction without an identity over an axis of size 0.
    #[error(
        "{op}: cannot reduce an empty axis of shape {shape}: the operation has no identity; leave the axis out, or check for elements first"
    )]
    EmptyReduction {
        /// the operation
        op: &'static str,
        /// the shape of the input
        shape: Shape,
    },
    /// A list of tensors that must not be empty.
    #[error("{op}: expected at least one tensor: the list is empty")]
    NoTensors {
        /// the operation
        op: &'static str,
    },
    /// A destination in which several elements share one place in memory.
    #[error(
        "{op}: the output of shape {shape} and strides {strides:?} overlaps itself: use the form that makes a new tensor, or write to its contiguous() copy (try_contiguous() returns an error where that is too large)"
    )]
    Overlap {
        /// the operation
        op: &'static str,
        /// the shape
        shape: Shape,
        /// the strides, in elements
        strides: Vec<isize>,
    },
    /// An integer power with a negative exponent.
    #[error(
        "{op}: integers to negative integer powers are not allowed (exponent {exponent}): convert them with to(DType::F32)"
    )]
    NegativePower {
        /// the operation
        op: &'static str,
        /// the exponent
        exponent: i64,
    },
    /// An integer division by zero.
    #[error("{op}: integers cannot be divided by zero: replace the zeros, or convert with to(DType::F32)")]
    DivisionByZero {
        /// the operation
        op: &'static str,
    },
    /// A shape too large to address, or to find memory for.
    #[error(
        "{op}: a tensor of shape {shape} is too large: no memory holds it; check its sizes, or work on parts of it"
    )]
    TooLarge {
        /// the operation
        op: &'static str,
        /// the shape
        shape: Shape,
    },
    /// `item()` on a tensor that does not hold exactly one element.
    #[error("item: a tensor of shape {shape} does not hold exactly one element: select one, or use to_vec")]
    NotASingleElement {
        /// the shape
        shape: Shape,
    },
    /// A parameter outside its domain.
    #[error("{op}: {name} = {value} is not valid: expected {expected}")]
    Parameter {
        /// the operation
        op: &'static str,
        /// the parameter
        name: &'static str,
        /// its value
        value: String,
        /// its domain
        expected: &'static str,
    },
    /// Names for another number of axes than there are, see [`NamedAxes`](crate::NamedAxes).
    #[error(
        "{op}: expected {} [{names}], found the shape {shape}: name each axis, or reshape",
        if names.contains(',') || names.is_empty() { "the axes" } else { "the axis" }
    )]
    NamedRank {
        /// the operation
        op: &'static str,
        /// the names
        names: String,
        /// the shape
        shape: Shape,
    },
    /// Two axes of one name that differ in size, see [`NamedAxes`](crate::NamedAxes).
    #[error(
        "{op}: axis {axis} of {shape}, {name}, has size {}, but size {expected} in {seen_in} (at {seen_at}): one of the two is not what its name says",
        shape[*axis]
    )]
    NamedSize {
        /// the operation
        op: &'static str,
        /// the name
        name: &'static str,
        /// the axis
        axis: usize,
        /// the shape that it belongs to
        shape: Shape,
        /// the size that an axis of this name had
        expected: usize,
        /// the shape that one belongs to
        seen_in: Shape,
        /// the line that named it
        seen_at: &'static Location<'static>,
    },
    /// A window that does not slide over its input.
    #[error("{op}: the input {input} {why}")]
    Window {
        /// the operation
        op: &'static str,
        /// the shape of the input
        input: Shape,
        /// what does not fit, and what to do
        why: String,
    },
    /// An equation of labels that does not fit its operands.
    #[error("{op}: {equation:?}: {problem}")]
    Equation {
        /// the operation
        op: &'static str,
        /// the equation as given
        equation: String,
        /// what is wrong with it, and the cure
        problem: String,
    },
    /// Broadcasting that the user has asked to refuse, see [`broadcast_warning`](crate::broadcast_warning).
    #[error("{}", Doubt::BothGrow.text(op, [a, b], origins))]
    BroadcastRefused {
        /// the operation
        op: &'static str,
        /// the first shape
        a: Shape,
        /// the second shape
        b: Shape,
        /// where the operands of these shapes were recorded, if they were
        origins: Origins,
    },
}

impl TensorFacts {
    /// By another operation.
    pub(super) fn set_op(&mut self, name: &'static str) {
        use TensorFacts::*;
        match self {
            Broadcast { op, .. }
            | Expand { op, .. }
            | AxisOutOfRange { op, .. }
            | DuplicateAxis { op, .. }
            | Rank { op, .. }
            | Sizes { op, .. }
            | EmptySpan { op, .. }
            | DTypeUnsupported { op, .. }
            | DTypeMismatch { op, .. }
            | MixedDTypes { op, .. }
            | Unfit { op, .. }
            | Ragged { op, .. }
            | ResultCast { op, .. }
            | Alpha { op, .. }
            | ShapeMismatch { op, .. }
            | ListShapes { op, .. }
            | ElementCount { op, .. }
            | ViewNeedsCopy { op, .. }
            | IndexOutOfRange { op, .. }
            | Range { op, .. }
            | Matmul { op, .. }
            | Features { op, .. }
            | MaskShape { op, .. }
            | EmptyReduction { op, .. }
            | NoTensors { op }
            | Overlap { op, .. }
            | NegativePower { op, .. }
            | DivisionByZero { op }
            | TooLarge { op, .. }
            | Parameter { op, .. }
            | Window { op, .. }
            | NamedRank { op, .. }
            | NamedSize { op, .. }
            | Equation { op, .. }
            | BroadcastRefused { op, .. } => *op = name,
            NotASingleElement { .. } => {}
        }
    }
}

impl Facts for TensorFacts {
    fn kind(&self) -> Kind {
        use TensorFacts::*;
        match self {
            Broadcast { .. } | Expand { .. } | Rank { .. } | ShapeMismatch { .. } | ElementCount { .. } => {
                Kind::Shape
            }
            ViewNeedsCopy { .. }
            | MaskShape { .. }
            | Matmul { .. }
            | Features { .. }
            | EmptyReduction { .. }
            | NotASingleElement { .. } => Kind::Shape,
            BroadcastRefused { .. } | ListShapes { .. } | Sizes { .. } | Ragged { .. } | Window { .. } => {
                Kind::Shape
            }
            NamedRank { .. } | NamedSize { .. } => Kind::Shape,
            AxisOutOfRange { .. } | DuplicateAxis { .. } | EmptySpan { .. } => Kind::Axis,
            DTypeUnsupported { .. } | DTypeMismatch { .. } | MixedDTypes { .. } => Kind::DType,
            ResultCast { .. } | Alpha { .. } | Unfit { .. } => Kind::DType,
            IndexOutOfRange { .. } | Range { .. } => Kind::Index,
            NoTensors { .. } | Overlap { .. } | NegativePower { .. } | DivisionByZero { .. } => {
                Kind::Argument
            }
            Parameter { .. } | Equation { .. } => Kind::Argument,
            TooLarge { .. } => Kind::Memory,
        }
    }
}
