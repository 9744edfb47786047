//! Operations of one's own: a forward function on tensors and a backward function on variables.

use std::fmt;

use foldback_tensor::{Here, Tensor, counted, refuse};
use smallvec::SmallVec;

use crate::engine::in_function;
use crate::error::{GraphFacts, Result};
use crate::input::{AsInput, variables_of};
use crate::mode::is_grad_enabled;
use crate::record::{Reads, record_own};
use crate::rule::Slot;
use crate::var::Var;
use crate::work::{Context, Flow, Take};

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

    /// Computes one gradient per input; `None` where there is none, also for inputs that need none.
    ///
    /// Its operations record only where the pass is recorded ([`Backward::create_graph`](crate::Backward::create_graph));
    /// [`enable_grad`](crate::enable_grad) switches recording on, which a backward pass of its own needs.
    ///
    /// # Errors
    /// Whatever it likes. The backward pass returns it as it is, but for a tensor's: that comes as [`GraphFacts::Backward`], with
    /// the name of this function and the line that recorded it.
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>>;

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
        let saved = if self.saves_inputs() { inputs.len() } else { 0 };
        let mut slots: Vec<Slot> = (0..saved).map(Slot::Input).collect();
        if self.saves_output() {
            slots.push(Slot::Output(0));
        }
        let (name, count) = (self.name(), inputs.len());
        let vars = record_own(name, &inputs, SmallVec::from_vec(outputs), Reads::All(&slots), move || {
            Box::new(move |ctx: &Context<'_>, take: &mut Take<'_>| {
                if self.once_differentiable() && is_grad_enabled() {
                    return refuse(GraphFacts::OnceDifferentiable { op: name, location: ctx.node.location });
                }
                let given = self.backward(&FunctionContext { inner: ctx });
                let mut gradients = given.map_err(|e| in_function(ctx.node, e))?;
                // A surplus of None is forgiven, as in PyTorch.
                while gradients.len() > count && gradients.last().is_some_and(Option::is_none) {
                    gradients.pop();
                }
                if gradients.len() != count {
                    let (expected, found, location) = (count, gradients.len(), ctx.node.location);
                    return refuse(GraphFacts::GradientCount { op: name, expected, found, location });
                }
                let given = gradients.into_iter().enumerate();
                given.filter_map(|(i, g)| Some(Flow::to(i, g?))).try_for_each(take)
            })
        });
        Ok(vars.into_vec().try_into().expect("an operation has all its outputs"))
    }
}

/// What a [`Function`]'s backward sees.
///
/// Asking for what there is not, or for what the function did not declare that it saves, is a mistake in the function:
/// the accessors then panic at the line that asked, and the message names the operation, the line that recorded it and
/// what to declare. A pass that ends so has changed no gradient.
pub struct FunctionContext<'a> {
    inner: &'a Context<'a>,
}

impl FunctionContext<'_> {
    /// The gradient of an output; zeros if nothing depended on it.
    ///
    /// # Panics
    /// If there is no such output.
    #[track_caller]
    pub fn grad(&self, output: usize) -> Var {
        let outputs = &self.inner.node.metadata;
        let Some(meta) = outputs.get(output) else {
            self.refuse(format_args!("grad({output}): there {}", are(outputs.len(), "output")))
        };
        match &self.inner.grads[output] {
            Some(g) => g.clone(),
            None => Var::constant(Tensor::zeros_with(&meta.shape, meta.dtype)),
        }
    }

    /// A saved input.
    ///
    /// # Panics
    /// If [`Function::saves_inputs`] is false, or there is no such input.
    #[track_caller]
    pub fn input(&self, index: usize) -> Var {
        self.expect_input("input", index);
        match self.inner.saved(Slot::Input(index)) {
            Some(v) => v,
            None => self.refuse(format_args!(
                "input({index}): the inputs were not saved; let Function::saves_inputs return true"
            )),
        }
    }

    /// The saved first output.
    ///
    /// # Panics
    /// If [`Function::saves_output`] is false.
    #[track_caller]
    pub fn output(&self) -> Var {
        match self.inner.saved(Slot::Output(0)) {
            Some(v) => v,
            None => self.refuse(format_args!(
                "output(): the output was not saved; let Function::saves_output return true"
            )),
        }
    }

    /// Whether the gradient of an input is asked for.
    ///
    /// # Panics
    /// If there is no such input.
    #[track_caller]
    pub fn needs(&self, input: usize) -> bool {
        self.expect_input("needs", input);
        self.inner.needs(input)
    }

    #[track_caller]
    fn expect_input(&self, asked: &str, index: usize) {
        let inputs = self.inner.node.next_edges.len();
        if index >= inputs {
            self.refuse(format_args!("{asked}({index}): there {}", are(inputs, "input")))
        }
    }

    #[track_caller]
    #[cold]
    fn refuse(&self, why: fmt::Arguments<'_>) -> ! {
        let node = self.inner.node;
        panic!("{}: {why} (recorded at {})", node.name(), node.location)
    }
}

/// `is 1 input`, `are 2 inputs`
fn are(count: usize, what: &str) -> String {
    format!("{} {}", if count == 1 { "is" } else { "are" }, counted(count, what))
}
