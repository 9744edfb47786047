//! Operations of one's own: a forward function on tensors and a backward function on variables.

mod context;
mod given;
mod operation;
mod own;

use foldback_tensor::{Here, Tensor, refuse};
use smallvec::SmallVec;

pub use context::FunctionContext;
pub use given::{BackwardResult, ForwardResult};
pub use operation::Operation;

use crate::error::{GraphFacts, Result};
use crate::input::{AsInput, variables_of};
use crate::node::Var;
use own::{Declared, record};

/// An operation of one's own.
///
/// The engine folds, casts and adds up what `backward` returns, as for the library's own operations: a gradient may
/// have any shape that the input could have broadcast to.
///
/// ```
/// use foldback_graph::{Function, FunctionContext, RequiresGrad, Result, Var};
/// use foldback_tensor::{Tensor, tensor};
///
/// /// x^3, saving the input.
/// struct Cube;
/// impl Function for Cube {
///     fn name(&self) -> &'static str { "cube" }
///     fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
///         Ok(vec![inputs[0] * inputs[0] * inputs[0]])
///     }
///     fn saves_inputs(&self) -> bool { true }
///     fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
///         let (g, x) = (ctx.grad(0), ctx.input(0));
///         Ok(vec![Some(g * x.square() * 3.0)])
///     }
/// }
///
/// let x = tensor![2.0].requires_grad();
/// let y = Cube.call([&x])?;
/// y.backward()?;
/// assert_eq!(x.grad(), Some(tensor![12.0]));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
pub trait Function: Send + Sync + Sized + 'static {
    /// The name that messages and `Debug` output show.
    fn name(&self) -> &'static str;

    /// Computes the outputs.
    ///
    /// # Errors
    /// Whatever it likes; [`Error::other`](crate::Error::other) takes any error.
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>>;

    /// Whether `backward` reads the inputs, which are then kept until it has run.
    fn saves_inputs(&self) -> bool {
        false
    }

    /// Whether `backward` reads the first output, which is then kept until it has run. An intermediate value can be that
    /// output.
    fn saves_output(&self) -> bool {
        false
    }

    /// Whether there is no second derivative: `backward` may then compute with tensors, and a pass with
    /// `create_graph` through it is an error.
    fn once_differentiable(&self) -> bool {
        false
    }

    /// Whether an output has no derivative though it is of a floating-point type. It never requires a gradient.
    fn non_differentiable(&self, output: usize) -> bool {
        let _ = output;
        false
    }

    /// Computes one gradient per input; `None` where there is none, also for inputs that need none, and for those whose
    /// gradient [`FunctionContext::fold`] has described. An operation that leaves this function out has no derivative.
    ///
    /// Its operations record only where the pass is recorded ([`Backward::create_graph`](crate::Backward::create_graph));
    /// [`enable_grad`](crate::enable_grad) switches recording on, which a backward pass of its own needs.
    ///
    /// # Errors
    /// Whatever it likes. The backward pass returns it as it is, but for a tensor's: that comes as [`GraphFacts::Backward`], with
    /// the name of this function and the line that recorded it. Without a `backward` it is `NoDerivative`.
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        ctx.no_derivative()
    }

    /// Runs `forward`, which has one output, and records the operation.
    ///
    /// # Errors
    /// As [`Function::apply`].
    #[track_caller]
    fn call(self, inputs: impl IntoIterator<Item: AsInput>) -> Result<Var> {
        let [output] = self.apply(inputs)?;
        Ok(output)
    }

    /// Runs `forward` and records the operation: `let [a, b] = MyOp.apply([&x])?`.
    ///
    /// # Errors
    /// What `forward` returns; `OutputCount` if that is another number of outputs than the caller takes, or none.
    #[track_caller]
    fn apply<const N: usize>(self, inputs: impl IntoIterator<Item: AsInput>) -> Result<[Var; N]> {
        let inputs = variables_of(inputs);
        let _span = crate::profile::forward(self.name());
        let inputs: Vec<&Var> = inputs.iter().collect();
        let values: Vec<Tensor> = inputs.iter().map(|v| v.value()).collect();
        let outputs = self.forward(&values.iter().collect::<Vec<_>>()).or_here()?;
        if outputs.len() != N || N == 0 {
            return refuse(GraphFacts::OutputCount { op: self.name(), expected: N, found: outputs.len() })
                .here();
        }
        let count = outputs.len();
        let declared = Declared {
            name: self.name(),
            saves_inputs: self.saves_inputs(),
            saves_output: self.saves_output(),
            once_differentiable: self.once_differentiable(),
            non_differentiable: (0..count).filter(|&k| self.non_differentiable(k)).collect(),
        };
        let backward = || -> Box<dyn own::BackwardFunction> {
            Box::new(move |parts: own::ContextParts<'_>| {
                Ok(SmallVec::from_vec(self.backward(&parts.context(&()))?))
            })
        };
        let vars = record(declared, &inputs, SmallVec::from_vec(outputs), backward);
        Ok(vars.into_vec().try_into().expect("an operation has all its outputs"))
    }
}
