//! What recording and going backward refuse; each variant holds the facts.

mod kinds;

use std::panic::Location;

use foldback_tensor::{DType, Shape, counted};
pub(crate) use foldback_tensor::{Error, Result};

/// Why an operation or a backward pass was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphFacts {
    /// A gradient that cannot be folded to the shape of the input it belongs to.
    #[error(
        "{op}: the gradient of input {input} has shape {found}, which is not compatible with the input's shape {expected} (recorded at {location}): a gradient has its input's shape, or one that it broadcasts to"
    )]
    GradientShape {
        /// the operation
        op: &'static str,
        /// which of its inputs
        input: usize,
        /// the shape of the input
        expected: Shape,
        /// the shape of the gradient
        found: Shape,
        /// the source line that recorded the operation
        location: &'static Location<'static>,
    },
    /// A gradient rule that returned another number of gradients than the operation has inputs.
    #[error("{op}: returned {} for {} (recorded at {location}): return one for each, or None", counted(*found, "gradient"), counted(*expected, "input"))]
    GradientCount {
        /// the operation
        op: &'static str,
        /// how many inputs there are
        expected: usize,
        /// how many gradients came
        found: usize,
        /// the source line that recorded the operation
        location: &'static Location<'static>,
    },
    /// A failure inside the gradient of an operation.
    #[error("{op}: in the backward pass of the operation recorded at {location}: {source}")]
    Backward {
        /// the operation
        op: &'static str,
        /// the source line that recorded the operation
        location: &'static Location<'static>,
        /// what went wrong
        source: Error,
    },
    /// A gradient that is NaN or infinite, in anomaly mode.
    #[error(
        "{op}: the gradient of input {input} holds {found} (recorded at {location}{derivative_of}); what arrived was finite{}: keep the operand away from where the derivative is not, by clamp, an epsilon or where in front of the operation",
        if *not_taken { ", and 0 at these elements, since where_cond or a mask does not take them, but 0 times infinity is NaN: Var::safe_where keeps them out. Or else" } else { "" }
    )]
    NotFinite {
        /// the operation
        op: &'static str,
        /// which of its inputs
        input: usize,
        /// what the gradient holds
        found: String,
        /// the source line that recorded the operation
        location: &'static Location<'static>,
        /// the operations whose derivatives it is part of; empty if it is none
        derivative_of: String,
        /// whether it is so only where a choice between branches, such as `where_cond`, takes nothing
        not_taken: bool,
    },
    /// A seed, or what a hook returned, that is NaN or infinite, in anomaly mode.
    #[error("{op}: {what} holds {found} (the operation was recorded at {location}): hand in finite numbers")]
    GivenNotFinite {
        /// what was handed in
        what: String,
        /// the operation whose result it is the gradient of
        op: &'static str,
        /// what the gradient holds
        found: String,
        /// the source line that recorded the operation
        location: &'static Location<'static>,
    },
    /// A checkpoint whose function does something else when it is run again.
    #[error(
        "checkpoint: run again for the backward pass, the function did not do what it did at first: {what} (recorded at {location}); it must depend on its inputs, on captured variables that stay as they are, and on random numbers alone"
    )]
    CheckpointChanged {
        /// what is otherwise
        what: String,
        /// the source line of the checkpoint
        location: &'static Location<'static>,
    },
    /// A graph that grows from step to step.
    #[error(
        "{op}: the graph behind its results grows from step to step, by now {} (recorded at {location}): something holds a result and so its history; hold a value instead, by detach(), value() or item_as()", counted(*nodes, "node")
    )]
    Growing {
        /// the operation whose results are held
        op: &'static str,
        /// how many nodes they hold
        nodes: usize,
        /// the source line that recorded them
        location: &'static Location<'static>,
    },
    /// A second backward pass through a graph whose saved values are gone.
    #[error(
        "{op}: trying to go backward through the graph a second time (recorded at {location}); its saved values were freed by the first pass: detach() what is carried over from it, or keep them by backward_with(Backward::new().retain_graph(true))"
    )]
    Freed {
        /// the operation
        op: &'static str,
        /// the source line that recorded the operation
        location: &'static Location<'static>,
    },
    /// `backward` on something other than a single number, without a seed.
    #[error(
        "{op}: grad can be implicitly created only for scalar outputs: this one has shape {shape}; reduce it, with sum(..) or mean(..), or pass a seed: backward_with(&seed), or Backward::new().seed(..) for grad_with"
    )]
    NotScalar {
        /// the pass
        op: &'static str,
        /// the shape of the root
        shape: Shape,
    },
    /// A root that no tracked variable contributed to.
    #[error("{op}: output {index} does not require grad and does not have a recorded operation: {cause}")]
    NoGraph {
        /// the pass
        op: &'static str,
        /// which root
        index: usize,
        /// why, where the output shows it, or else what it may be; and the cure
        cause: String,
    },
    /// A seed of another shape than its root.
    #[error(
        "{op}: the seed of output {index} has shape {seed}, the output {output}: a seed has the shape of its output"
    )]
    SeedShape {
        /// the pass
        op: &'static str,
        /// which root
        index: usize,
        /// the shape of the seed
        seed: Shape,
        /// the shape of the root
        output: Shape,
    },
    /// Seeds that have no leading axis, where the options say that they have one.
    #[error(
        "is_grads_batched: every output needs a seed of shape [n, ..], one gradient after another: pass them with seeds"
    )]
    SeedsNotBatched,
    /// Another number of seeds than roots.
    #[error("{op}: expected {}, one per output, got {found}", counted(*expected, "seed"))]
    SeedCount {
        /// the pass
        op: &'static str,
        /// how many roots
        expected: usize,
        /// how many seeds
        found: usize,
    },
    /// A function of one's own whose forward returned another number of outputs than its caller takes.
    #[error("{op}: its forward returned {}, the call takes {expected}: `call` is for one, `let [a, b] = op.apply(..)?` for two", counted(*found, "output"))]
    OutputCount {
        /// the name of the function
        op: &'static str,
        /// how many the caller takes
        expected: usize,
        /// how many there are
        found: usize,
    },
    /// An argument of a function to be differentiated that has no derivative.
    #[error(
        "{op}: argument {index} is of type {dtype}, which has no derivative: use to(DType::F32), or let the function capture it"
    )]
    ArgumentDType {
        /// which derivative was asked for
        op: &'static str,
        /// which argument
        index: usize,
        /// its type
        dtype: DType,
    },
    /// Another number of tangents or cotangents than there are values.
    #[error("{op}: expected {}, one for each {what}, got {found}", counted(*expected, "direction"))]
    DirectionCount {
        /// which derivative was asked for
        op: &'static str,
        /// argument or output
        what: &'static str,
        /// how many there are
        expected: usize,
        /// how many were given
        found: usize,
    },
    /// A tangent or cotangent of another shape, or of integers.
    #[error(
        "{op}: the direction of {what} {index} has shape {found} and type {dtype}, the {what} has shape {expected}: a direction has the same shape, and floating-point numbers"
    )]
    Direction {
        /// which derivative was asked for
        op: &'static str,
        /// argument or output
        what: &'static str,
        /// which one
        index: usize,
        /// the shape of the value
        expected: Shape,
        /// the shape of its direction
        found: Shape,
        /// the type of its direction
        dtype: DType,
    },
    /// A function that must return one number.
    #[error(
        "{op}: the function must return a single number, found {found}: reduce it, with sum(..) for instance"
    )]
    NotANumber {
        /// which derivative was asked for
        op: &'static str,
        /// what it returns
        found: String,
    },
    /// A forward derivative of a function that computes its gradients with tensors.
    #[error(
        "{op}: marked once-differentiable, so it has no forward derivative (recorded at {location}): let its backward compute with variables, or use vjp or jacobian"
    )]
    NoForward {
        /// the operation
        op: &'static str,
        /// the source line that recorded the operation
        location: &'static Location<'static>,
    },
    /// An empty list of roots or inputs.
    #[error("{op}: the list of {what} must not be empty: name at least one")]
    Empty {
        /// the operation
        op: &'static str,
        /// which list
        what: &'static str,
    },
    /// A hook on a variable that no gradient reaches.
    #[error(
        "{op}: the variable does not require grad, so the hook would never run: it was made inside no_grad, detached, or of a tensor without requires_grad()"
    )]
    HookWithoutGrad {
        /// what was asked
        op: &'static str,
    },
    /// A hook for leaves on the result of an operation.
    #[error(
        "{op}: only for leaves, in which gradients accumulate; register_hook is for results of operations"
    )]
    HookOnResult {
        /// what was asked
        op: &'static str,
    },
    /// A hook on a node that returned another number of gradients than it saw.
    #[error("{op}: the {hook} registered at {registered} returned {}, and saw {expected} (the operation was recorded at {location}): return one for each, or None", counted(*found, "gradient"))]
    HookGradients {
        /// the operation
        op: &'static str,
        /// which of its hooks
        hook: &'static str,
        /// the source line that registered it
        registered: &'static Location<'static>,
        /// how many there are
        expected: usize,
        /// how many came
        found: usize,
        /// the source line that recorded the operation
        location: &'static Location<'static>,
    },
    /// A callback for the end of a pass where there is none.
    #[error(
        "queue_callback: no backward pass is running on this thread; call it from a hook or a Function's backward"
    )]
    NoPass,
    /// A gradient to be kept where none arrives.
    #[error(
        "retain_grad: the variable does not require grad, so no gradient will arrive: it was made inside no_grad, detached, or of a tensor without requires_grad()"
    )]
    RetainWithoutGrad,
    /// Inputs named by the call and by its options.
    #[error("grad_with: its inputs are the second argument; Backward::inputs is for backward_with")]
    InputsTwice,
    /// An input that the roots do not depend on.
    #[error(
        "grad: input {index} appears not to have been used in the graph; `Grad::new(..).allow_unused(true)` returns None for it"
    )]
    Unused {
        /// which input
        index: usize,
    },
    /// An input that does not require a gradient.
    #[error(
        "{op}: input {index} does not require grad: it was made inside no_grad, detached, or made of a tensor without requires_grad()"
    )]
    InputWithoutGrad {
        /// the pass
        op: &'static str,
        /// which input
        index: usize,
    },
    /// A gradient asked of an element type that has none.
    #[error(
        "requires_grad: only floating-point tensors can require a gradient, not {dtype}: use to(DType::F32)"
    )]
    DTypeWithoutGrad {
        /// the type
        dtype: DType,
    },
    /// What only a leaf can be asked for, of the result of an operation or of a value without history.
    #[error(
        "{op}: only for leaf variables, those that requires_grad() makes; detach() gives the value of a result without its history"
    )]
    NotALeaf {
        /// what was asked
        op: &'static str,
    },
    /// An in-place operation on a leaf that requires a gradient.
    #[error(
        "{op}: a leaf variable that requires grad is being used in an in-place operation; do it inside no_grad"
    )]
    LeafInPlace {
        /// the operation
        op: &'static str,
    },
    /// A gradient, or a new value, that does not fit its variable.
    #[error(
        "{what} must have shape {expected_shape} and dtype {expected_dtype}, found {found_shape} and {found_dtype}: reshape it, or convert it with to"
    )]
    Assigned {
        /// what was assigned
        what: String,
        /// the shape of the variable
        expected_shape: Shape,
        /// the type of the variable
        expected_dtype: DType,
        /// the shape given
        found_shape: Shape,
        /// the type given
        found_dtype: DType,
    },
    /// A second derivative of a function that has only a first.
    #[error("{op}: marked once-differentiable, so it has no second derivative (recorded at {location})")]
    OnceDifferentiable {
        /// the operation
        op: &'static str,
        /// the source line that recorded the operation
        location: &'static Location<'static>,
    },
    /// A backward pass that reached an operation of one's own which has no backward function.
    #[error(
        "{op}: it has no derivative (recorded at {location}): give it a backward function, detach() what it is applied to, or mark its output as non_differentiable"
    )]
    NoDerivative {
        /// the operation
        op: &'static str,
        /// the source line that recorded the operation
        location: &'static Location<'static>,
    },
    /// A leaf's value written by the very function that is updating it.
    #[error(
        "{op}: the leaf is being updated by a function that this call comes from; change the tensor that the function was given"
    )]
    Updating {
        /// the operation
        op: &'static str,
    },
    /// A backward pass inside a backward pass inside a backward pass ..., which got no thread to run on.
    #[error(
        "backward: a pass, started inside many others by a hook or a function, needs a thread of its own: {source}"
    )]
    TooDeep {
        /// what the operating system says
        source: std::io::Error,
    },
}
