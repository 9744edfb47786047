//! The closure form: an operation made of a forward function on tensors and a backward function on gradients.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::{array, fmt};

use foldback_tensor::{Here, StateCell, Tensor};
use smallvec::SmallVec;

use super::context::{FunctionContext, are};
use super::given::{BackwardResult, ForwardResult};
use super::own::{BackwardFunction, ContextParts, Declared, record};
use crate::error::{GraphFacts, Result};
use crate::fuse::Operands;
use crate::input::variables_of;
use crate::node::{Context, Var};

/// An operation of one's own, made of two closures: one computes outputs from `N` tensors, the other computes the gradients
/// of the inputs from those of the outputs. `V` is what a call returns, a variable or an array of them.
///
/// What the backward function reads is declared by methods named as those of [`Function`](crate::Function), the form
/// for operations with attributes or with lists of inputs; what it sees is the same [`FunctionContext`]. Anything else
/// is kept by returning it beside the outputs. The engine folds, casts and adds up gradients as it does for its own
/// operations.
///
/// ```
/// use foldback_graph::{Operation, RequiresGrad};
/// use foldback_tensor::{Tensor, tensor};
///
/// let exp = Operation::new("my_exp", |[x]| x.exp(), |ctx, [g]| g * ctx.output()).saves_output();
/// let cube = Operation::new("cube", |[x]| x.pow(3), |ctx, [g]| g * ctx.input(0).square() * 3.0).saves_inputs();
///
/// let x = tensor![0.0, 2.0].requires_grad();
/// cube.call([&exp.call([&x])?])?.sum(..)?.backward()?;
/// assert!((x.grad().unwrap().slice(0)?.item()? - 3.0).abs() < 1e-6);
///
/// // Keeps a mask, which is neither an input nor an output.
/// let positive = Operation::new(
///     "positive",
///     |[x]| {
///         let mask = x.gt(0.0)?;
///         Ok((mask.where_cond(x, 0.0)?, mask))
///     },
///     |ctx, [g]| g.mul(ctx.saved()),
/// );
/// let x = tensor![-1.0, 2.0].requires_grad();
/// positive.call([&x])?.sum(..)?.backward()?;
/// assert_eq!(x.grad(), Some(tensor![0.0, 1.0]));
///
/// // Two inputs, two outputs.
/// let rotate = Operation::new(
///     "rotate",
///     |[a, b]: [&Tensor; 2]| Ok([a.sub(b)?, a.add(b)?]),
///     |_, [g, h]| (g.add(&h), h.sub(&g)),
/// );
/// let [_, sum] = rotate.call((&x, 5.0))?;
/// assert_eq!(sum.value(), tensor![4.0, 7.0]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
pub struct Operation<const N: usize, V = Var> {
    declared: Declared,
    outputs: usize,
    forward: Arc<Forward<N>>,
    variables: fn(SmallVec<[Var; 1]>) -> V,
}

// As nodes are: functions are shared with other threads, and what they change of their own is behind their own locks.
impl<const N: usize, V> UnwindSafe for Operation<N, V> {}
impl<const N: usize, V> RefUnwindSafe for Operation<N, V> {}

/// A forward function, whatever its types.
type Forward<const N: usize> = dyn Fn([&Tensor; N]) -> Result<Computed> + Send + Sync;

/// What it computed, and how to go back.
type Computed = (SmallVec<[Tensor; 1]>, Box<dyn BackwardFunction>);

impl<const N: usize, V> Operation<N, V> {
    /// An operation of a forward function, which gets a tensor per input, and a backward function, which gets a gradient per
    /// output (zeros if nothing depended on it). Errors and `Debug` output show the name. See [`ForwardResult`] and
    /// [`BackwardResult`] for what they may return.
    pub fn new<O, G, const M: usize>(
        name: &'static str,
        forward: impl Fn([&Tensor; N]) -> O + Send + Sync + 'static,
        backward: impl Fn(&FunctionContext<'_, O::Saved>, [Var; M]) -> G + Send + Sync + 'static,
    ) -> Self
    where
        O: ForwardResult<M, Vars = V>,
        G: BackwardResult<N>,
    {
        let backward = Arc::new(backward);
        let forward = move |inputs: [&Tensor; N]| {
            let (outputs, saved) = forward(inputs).outputs()?;
            let (backward, kept) = (backward.clone(), SavedForBackward::new(saved));
            let run = move |parts: ContextParts<'_>| {
                let saved = kept.get(parts.inner)?;
                let ctx = parts.context(&*saved);
                backward(&ctx, array::from_fn(|k| ctx.grad(k))).gradients()
            };
            Ok((SmallVec::from_iter(outputs), Box::new(run) as Box<dyn BackwardFunction>))
        };
        Operation::of::<O, M>(name, Arc::new(forward))
    }

    /// An operation that has no derivative. A backward pass that reaches it is refused with its name; one that does not
    /// reach it is not.
    ///
    /// ```
    /// use foldback_graph::{Operation, RequiresGrad};
    /// use foldback_tensor::tensor;
    /// let halves = Operation::without_derivative("halves", |[x]| x.floor().div(2.0));
    /// let x = tensor![3.5].requires_grad();
    /// let e = halves.call([&x])?.backward().unwrap_err();
    /// assert!(e.to_string().starts_with("halves: it has no derivative (recorded at "));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn without_derivative<O, const M: usize>(
        name: &'static str,
        forward: impl Fn([&Tensor; N]) -> O + Send + Sync + 'static,
    ) -> Self
    where
        O: ForwardResult<M, Vars = V>,
    {
        let forward = move |inputs: [&Tensor; N]| {
            let (outputs, _) = forward(inputs).outputs()?;
            let run = |parts: ContextParts<'_>| parts.context(&()).no_derivative();
            Ok((SmallVec::from_iter(outputs), Box::new(run) as Box<dyn BackwardFunction>))
        };
        Operation::of::<O, M>(name, Arc::new(forward))
    }

    fn of<O: ForwardResult<M, Vars = V>, const M: usize>(
        name: &'static str,
        forward: Arc<Forward<N>>,
    ) -> Self {
        Operation { declared: Declared::new(name), outputs: M, forward, variables: variables::<O, M> }
    }

    /// Lets the backward function read the inputs, by [`FunctionContext::input`]; they are kept until it has run.
    #[must_use]
    pub fn saves_inputs(mut self) -> Self {
        self.declared.saves_inputs = true;
        self
    }

    /// Lets the backward function read the first output, by [`FunctionContext::output`]; it is kept until that has run.
    #[must_use]
    pub fn saves_output(mut self) -> Self {
        self.declared.saves_output = true;
        self
    }

    /// Makes a backward pass through the operation an error where it is recorded (`create_graph`): there is no second
    /// derivative, and the backward function may compute with tensors.
    #[must_use]
    pub fn once_differentiable(mut self) -> Self {
        self.declared.once_differentiable = true;
        self
    }

    /// Says of an output that it has no derivative though it is of a floating-point type. It never requires a gradient.
    ///
    /// # Panics
    /// If there is no such output.
    #[must_use]
    #[track_caller]
    pub fn non_differentiable(mut self, output: usize) -> Self {
        if output >= self.outputs {
            panic!(
                "{}: non_differentiable({output}): there {}",
                self.declared.name,
                are(self.outputs, "output")
            );
        }
        self.declared.non_differentiable.push(output);
        self
    }

    /// Runs the forward function on variables, tensors or numbers, in an array or a tuple, and records the operation.
    ///
    /// # Errors
    /// What the forward function returns.
    #[track_caller]
    pub fn call(&self, inputs: impl Operands<N>) -> Result<V> {
        let inputs = variables_of(inputs.inputs());
        let _span = crate::profile::forward(self.declared.name);
        let values: [Tensor; N] = array::from_fn(|k| inputs[k].value());
        let (outputs, backward) = (self.forward)(values.each_ref()).or_here()?;
        let inputs: SmallVec<[&Var; 4]> = inputs.iter().collect();
        Ok((self.variables)(record(self.declared.clone(), &inputs, outputs, || backward)))
    }
}

fn variables<O: ForwardResult<M>, const M: usize>(outputs: SmallVec<[Var; 1]>) -> O::Vars {
    O::variables(outputs.into_vec().try_into().expect("an operation has all its outputs"))
}

impl<const N: usize, V> Clone for Operation<N, V> {
    fn clone(&self) -> Self {
        let (declared, forward) = (self.declared.clone(), self.forward.clone());
        Operation { declared, forward, ..*self }
    }
}

impl<const N: usize, V> fmt::Debug for Operation<N, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.declared.name)
    }
}

/// What is kept beside inputs and outputs; freed as they are, when the backward function has run.
struct SavedForBackward<S>(StateCell<Option<Arc<S>>>);

impl<S> SavedForBackward<S> {
    fn new(saved: S) -> Self {
        SavedForBackward(StateCell::new(Some(Arc::new(saved))))
    }

    fn get(&self, ctx: &Context<'_>) -> Result<Arc<S>> {
        let retain = ctx.retain || size_of::<S>() == 0;
        let saved = if retain { self.0.read() } else { self.0.replace(None) };
        saved.ok_or_else(|| GraphFacts::Freed { op: ctx.node.name(), location: ctx.node.location }.into())
    }
}
