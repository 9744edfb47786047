//! Operations of one's own: a forward function on tensors and a backward function on variables.

use foldback_tensor::Tensor;
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::gradient::{Context, Flow};
use crate::mode::is_grad_enabled;
use crate::record::record_function;
use crate::table::Slot;
use crate::var::Var;

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
/// let y = Cube.apply(&[&x])?.remove(0);
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
    /// Whatever it likes; [`Error::User`] takes any error type.
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>>;

    /// Whether `backward` reads the inputs, which are then kept until it has run. At most seven inputs can be saved.
    fn saves_inputs(&self) -> bool {
        false
    }

    /// Whether `backward` reads the first output, which is then kept until it has run.
    fn saves_output(&self) -> bool {
        false
    }

    /// Whether there is no second derivative: `backward` may then compute with tensors, and a pass with
    /// `create_graph` through it is an error.
    fn once_differentiable(&self) -> bool {
        false
    }

    /// Computes one gradient per input; `None` where there is none, also for inputs that need none.
    ///
    /// # Errors
    /// Whatever it likes; it surfaces unchanged from the backward pass.
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>>;

    /// Runs `forward` and records the operation.
    ///
    /// # Errors
    /// What `forward` returns.
    #[track_caller]
    fn apply(self, inputs: &[&Var]) -> Result<Vec<Var>> {
        let values: Vec<Tensor> = inputs.iter().map(|v| v.value()).collect();
        let outputs = self.forward(&values.iter().collect::<Vec<_>>())?;
        if outputs.is_empty() {
            return Err(Error::Empty { what: "the list of outputs" });
        }
        let mut mask = if self.saves_inputs() { ((1u16 << inputs.len().min(7)) - 1) as u8 } else { 0 };
        if self.saves_output() {
            mask |= 1 << crate::node::OUTPUT;
        }
        let (name, count) = (self.name(), inputs.len());
        let vars = record_function(name, inputs, SmallVec::from_vec(outputs), mask, move || {
            Box::new(move |ctx: &Context<'_>| {
                if self.once_differentiable() && is_grad_enabled() {
                    return Err(Error::OnceDifferentiable { op: name, location: ctx.node.location });
                }
                let mut gradients = self.backward(&FunctionContext { inner: ctx })?;
                // A surplus of None is forgiven, as in PyTorch.
                while gradients.len() > count && gradients.last().is_some_and(Option::is_none) {
                    gradients.pop();
                }
                Ok(gradients.into_iter().map(|g| g.map(Flow::Value)).collect())
            })
        });
        Ok(vars.into_vec())
    }
}

/// What a [`Function`]'s backward sees.
pub struct FunctionContext<'a> {
    inner: &'a Context<'a>,
}

impl FunctionContext<'_> {
    /// The gradient of an output; zeros if nothing depended on it.
    pub fn grad(&self, output: usize) -> Var {
        match &self.inner.grads[output] {
            Some(g) => g.clone(),
            None => {
                let meta = &self.inner.node.metadata[output];
                Var::constant(Tensor::zeros(&meta.shape, meta.dtype))
            }
        }
    }

    /// A saved input.
    ///
    /// # Panics
    /// If [`Function::saves_inputs`] is false.
    pub fn input(&self, index: usize) -> Var {
        self.inner.value(Slot::Input(index as u8))
    }

    /// The saved first output.
    ///
    /// # Panics
    /// If [`Function::saves_output`] is false.
    pub fn output(&self) -> Var {
        self.inner.value(Slot::Output)
    }

    /// Whether the gradient of an input is asked for.
    pub fn needs(&self, input: usize) -> bool {
        self.inner.needs(input)
    }
}
