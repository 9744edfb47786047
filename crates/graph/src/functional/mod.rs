//! Derivatives of functions: products with Jacobians and Hessians from either side, and whole matrices.

mod arguments;
mod call;
mod forward;
mod matrices;
mod reverse;
#[cfg(test)]
mod tests;

use foldback_tensor::Here;

pub use arguments::{Arguments, Outputs};
use call::Call;
pub use matrices::{hessian, jacfwd, jacobian};
use reverse::pull;

use crate::error::Result;
use crate::node::Var;

/// A function's value at `inputs`, and `v` times its Jacobian there: the gradients of its outputs, summed with weights `v`.
///
/// `v` has the shape of the output, the result those of the arguments; zeros for an argument that no output depends on. The
/// function is called once, with variables of its own. What it returns, and what this does, has a history if it depends on
/// something else that requires a gradient: an argument that was given as such a variable, or one that the function
/// captures. Inside [`no_grad`](crate::no_grad) it has none.
///
/// # Errors
/// What `f` returns; `ArgumentDType` for an argument of integers or `bool`; `DirectionCount` and `Direction` for a `v` that does
/// not match the outputs; otherwise as [`Grad::run`](crate::Grad::run).
///
/// ```
/// use foldback_graph::vjp;
/// use foldback_tensor::tensor;
/// let (a, b) = (tensor![1.0, 2.0], tensor![[3.0], [4.0]]);
/// let (y, [da, db]) = vjp(|[a, b]| a.mul(b), [&a, &b], &tensor![[1.0, 0.0], [0.0, 1.0]])?;
/// assert_eq!(y.value(), tensor![[3.0, 6.0], [4.0, 8.0]]);
/// assert_eq!((da.value(), db.value()), (tensor![3.0, 4.0], tensor![[1.0], [2.0]]));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn vjp<I: Arguments, O: Outputs>(
    f: impl FnOnce(&I::Seen) -> O,
    inputs: I,
    v: impl Arguments,
) -> Result<(O::Of<Var>, I::Of<Var>)> {
    let call = Call::new("vjp", f, inputs).or_here()?;
    let gradients = call.cotangents(v.into_vars()).and_then(|v| call.pull(&v, None)).or_here()?;
    Ok((O::gather(call.values()), I::gather(gradients)))
}

/// The value of a function that returns a single number, and its gradients.
///
/// The gradients have the shapes of the arguments; zeros for an argument that the number does not depend on. Histories are as for
/// [`vjp`], so that calls may be nested, in each other and in the other functions of this family.
///
/// # Errors
/// What `f` returns; `ArgumentDType` for an argument of integers or `bool`; `NotANumber` for a function that does not return a single
/// number; otherwise as [`Var::backward`].
///
/// ```
/// use foldback_graph::value_and_grad;
/// use foldback_tensor::tensor;
/// let (x, w) = (tensor![1.0, 2.0], tensor![3.0]);
/// let (value, gradient) = value_and_grad(|x| x.square().sum(..), &x)?;
/// assert_eq!(value.item()?, 5.0);
/// assert_eq!(gradient.value(), tensor![2.0, 4.0]);
/// let (_, [of_x, of_w]) = value_and_grad(|[x, w]| (x * w).sum(..), [&x, &w])?;
/// assert_eq!((of_x.value(), of_w.value()), (tensor![3.0, 3.0], tensor![3.0]));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn value_and_grad<I: Arguments, O: Outputs>(
    f: impl FnOnce(&I::Seen) -> O,
    inputs: I,
) -> Result<(O::Of<Var>, I::Of<Var>)> {
    let call = Call::new("value_and_grad", f, inputs).or_here()?;
    let gradients = call.gradients(call.recorded).or_here()?;
    Ok((O::gather(call.values()), I::gather(gradients)))
}

/// A function's value at `inputs`, and its Jacobian there times `v`: the derivative in the direction `v`, by forward mode.
///
/// `v` has the shapes of the arguments, the result those of the outputs; zeros for an output that depends on no argument. It
/// is exact: no differences are taken. An operation costs about as much as its gradients do; one of a user's own two
/// of its backward passes. Hooks are not called. Calls may be nested, in each other and in the other functions of this family.
///
/// # Errors
/// What `f` returns; `ArgumentDType` for an argument of integers or `bool`; `DirectionCount` and `Direction` for a `v` that does
/// not match the arguments; `NoForward` for a [`Function`](crate::Function) that is
/// [`once_differentiable`](crate::Function::once_differentiable).
///
/// ```
/// use foldback_graph::jvp;
/// use foldback_tensor::tensor;
/// let (y, dy) = jvp(|x| x.square().sum(..), &tensor![1.0, 2.0], &tensor![1.0, 10.0])?;
/// assert_eq!((y.value(), dy.value()), (tensor![5.0].squeeze(0)?, tensor![42.0].squeeze(0)?));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn jvp<I: Arguments, O: Outputs>(
    f: impl FnOnce(&I::Seen) -> O,
    inputs: I,
    v: impl Arguments,
) -> Result<(O::Of<Var>, O::Of<Var>)> {
    let call = Call::new("jvp", f, inputs).or_here()?;
    let tangents = call.tangents(v.into_vars()).and_then(|v| call.push(v, None)).or_here()?;
    Ok((O::gather(call.values()), O::gather(tangents)))
}

/// The value of a function that returns a single number, and its Hessian times `v`: its gradient, and forward mode through that.
///
/// `v` and the result have the shapes of the arguments.
///
/// # Errors
/// As [`hessian`] and [`jvp`].
///
/// ```
/// use foldback_graph::hvp;
/// use foldback_tensor::tensor;
/// let (y, hv) = hvp(|x| x.pow(3.0)?.sum(..), &tensor![1.0, 2.0], &tensor![1.0, 10.0])?;
/// assert_eq!(y.value().item_as::<f32>()?, 9.0);
/// assert_eq!(hv.value(), tensor![6.0, 120.0]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn hvp<I: Arguments, O: Outputs>(
    f: impl FnOnce(&I::Seen) -> O,
    inputs: I,
    v: impl Arguments,
) -> Result<(O::Of<Var>, I::Of<Var>)> {
    let call = Call::new("hvp", f, inputs).or_here()?;
    let products = call.tangents(v.into_vars()).and_then(|v| call.push_gradients(v, None)).or_here()?;
    Ok((O::gather(call.values()), I::gather(products)))
}

/// The value of a function that returns a single number, and `v` times its Hessian: its gradient, and reverse mode through that. The
/// same numbers as [`hvp`], as far as second derivatives can be exchanged.
///
/// `v` and the result have the shapes of the arguments.
///
/// # Errors
/// As [`hessian`] and [`vjp`].
///
/// ```
/// use foldback_graph::vhp;
/// use foldback_tensor::tensor;
/// let (_, vh) = vhp(|[a, b]| a.square().mul(b)?.sum(..), [&tensor![2.0], &tensor![3.0]], [1.0, 10.0].map(|v| tensor![v]))?;
/// assert_eq!(vh.map(|v| v.value()), [tensor![46.0], tensor![4.0]]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn vhp<I: Arguments, O: Outputs>(
    f: impl FnOnce(&I::Seen) -> O,
    inputs: I,
    v: impl Arguments,
) -> Result<(O::Of<Var>, I::Of<Var>)> {
    let call = Call::new("vhp", f, inputs).or_here()?;
    let products = products(&call, v.into_vars()).or_here()?;
    Ok((O::gather(call.values()), I::gather(products)))
}

fn products(call: &Call, v: Vec<Var>) -> Result<Vec<Var>> {
    let (v, gradients) = (call.tangents(v)?, call.gradients(true)?);
    let both = gradients.iter().zip(&v);
    let (roots, seeds): (Vec<&Var>, Vec<&Var>) = both.filter(|(g, _)| g.requires_grad()).unzip();
    pull(&roots, &seeds, &call.arguments, None, call.recorded)
}
