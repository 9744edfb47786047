//! Whole matrices of derivatives, each in one batched pass.

use foldback_tensor::{Here, Shape, Tensor};

use super::arguments::{Arguments, Outputs};
use super::call::Call;
use crate::error::Result;
use crate::node::Var;

/// The Jacobian of a function, by one backward pass for all its outputs (`torch.func.jacrev`,
/// `torch.autograd.functional.jacobian`).
///
/// For an output of shape `[.., m]` and an argument of shape `[.., n]` it has shape `[.., m, .., n]`; several outputs, and
/// several arguments, give one for each pair, outputs first. Zeros where an output does not depend on an argument. The pass
/// takes the memory of as many gradients as there are outputs; of a function with fewer arguments than outputs
/// [`jacfwd`] takes less.
///
/// # Errors
/// What `f` returns; `ArgumentDType` for an argument of integers or `bool`; otherwise as [`Grad::run`](crate::Grad::run).
///
/// ```
/// use foldback_graph::jacobian;
/// use foldback_tensor::tensor;
/// let x = tensor![1.0, 2.0, 3.0];
/// let j = jacobian(|x| x.square().cumsum(0), &x)?;
/// assert_eq!(j.value(), tensor![[2.0, 0.0, 0.0], [2.0, 4.0, 0.0], [2.0, 4.0, 6.0]]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
#[doc(alias = "jacrev")]
pub fn jacobian<I: Arguments, O: Outputs>(
    f: impl FnOnce(&I::Seen) -> O,
    inputs: I,
) -> Result<O::Of<I::Of<Var>>> {
    let call = Call::new("jacobian", f, inputs).or_here()?;
    rows(&call).map(|rows| O::gather(rows.into_iter().map(I::gather).collect())).or_here()
}

/// The Jacobian of a function, by one forward pass for all its arguments (`torch.func.jacfwd`): the same as [`jacobian`], which is
/// cheaper for a function with fewer outputs than arguments.
///
/// # Errors
/// As [`jvp`](crate::jvp).
///
/// ```
/// use foldback_graph::jacfwd;
/// use foldback_tensor::tensor;
/// let j = jacfwd(|x| x.mul(tensor![1.0, 2.0, 3.0]), &tensor![5.0])?;
/// assert_eq!(j.value(), tensor![[1.0], [2.0], [3.0]]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn jacfwd<I: Arguments, O: Outputs>(
    f: impl FnOnce(&I::Seen) -> O,
    inputs: I,
) -> Result<O::Of<I::Of<Var>>> {
    let call = Call::new("jacfwd", f, inputs).or_here()?;
    let columns = identities(call.op, &call.arguments).and_then(|(count, tangents)| {
        let tangents = call.push(tangents, Some(count))?;
        tangents.iter().map(|t| columns(t, &call.arguments)).collect::<Result<Vec<_>>>()
    });
    Ok(O::gather(columns.or_here()?.into_iter().map(I::gather).collect()))
}

/// The matrix of second derivatives of a function that returns a single number: its gradient, and one forward pass through
/// that for all arguments (`torch.func.hessian`, `torch.autograd.functional.hessian`).
///
/// For arguments of shapes `[.., m]` and `[.., n]` the part is of shape `[.., m, .., n]`.
///
/// # Errors
/// `NotANumber` if `f` returns something else than one number; `OnceDifferentiable` for an operation without a second
/// derivative; otherwise as [`jvp`](crate::jvp).
///
/// ```
/// use foldback_graph::hessian;
/// use foldback_tensor::tensor;
/// let h = hessian(|x| x.pow(3.0)?.sum(..), &tensor![1.0, 2.0])?;
/// assert_eq!(h.value(), tensor![[6.0, 0.0], [0.0, 12.0]]);
/// let [[_, ab], _] = hessian(|[a, b]| a.mul(b), [&tensor![2.0], &tensor![3.0]])?;
/// assert_eq!(ab.value(), tensor![[1.0]]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn hessian<I: Arguments, O: Outputs>(
    f: impl FnOnce(&I::Seen) -> O,
    inputs: I,
) -> Result<I::Of<I::Of<Var>>> {
    let call = Call::new("hessian", f, inputs).or_here()?;
    let columns = identities(call.op, &call.arguments).and_then(|(count, tangents)| {
        let tangents = call.push_gradients(tangents, Some(count))?;
        tangents.iter().map(|t| columns(t, &call.arguments)).collect::<Result<Vec<_>>>()
    });
    Ok(I::gather(columns.or_here()?.into_iter().map(I::gather).collect()))
}

/// For each output and each argument, the gradients of the output's elements.
fn rows(call: &Call) -> Result<Vec<Vec<Var>>> {
    let (count, seeds) = identities(call.op, &call.outputs)?;
    let gradients = call.pull(&seeds, Some(count))?;
    let mut start = 0;
    let mut rows = Vec::with_capacity(call.outputs.len());
    for y in &call.outputs {
        let part = |(g, x): (&Var, &Var)| {
            g.narrow(0, start as isize, y.numel())?.reshape(joined(y.shape(), x.shape()))
        };
        let parts = gradients.iter().zip(&call.arguments).map(part);
        rows.push(parts.collect::<Result<Vec<_>>>().nowhere()?);
        start += y.numel();
    }
    Ok(rows)
}

/// For each argument, the derivatives of an output for the argument's elements.
fn columns(tangents: &Var, arguments: &[Var]) -> Result<Vec<Var>> {
    let (mut start, mut parts) = (0, Vec::with_capacity(arguments.len()));
    let of: Shape = tangents.shape().dims()[1..].into();
    for x in arguments {
        let part =
            || tangents.narrow(0, start as isize, x.numel())?.movedim(0, -1)?.reshape(joined(&of, x.shape()));
        parts.push(part().nowhere()?);
        start += x.numel();
    }
    Ok(parts)
}

fn joined(a: &Shape, b: &Shape) -> Shape {
    let mut dims = a.dims().to_vec();
    dims.extend(b.dims());
    dims.into()
}

/// For each value a direction for each element of all of them, one after another: ones at its own elements, one at a time.
fn identities(op: &'static str, values: &[Var]) -> Result<(usize, Vec<Var>)> {
    // A count that no integer holds is refused as any that no memory holds.
    let count = values.iter().fold(0, |sum: usize, v| sum.saturating_add(v.numel()));
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let all = || {
        let all = Tensor::try_arange(0..number(count))?.reshape([count, 1])?;
        let (mut start, mut seeds) = (0, Vec::with_capacity(values.len()));
        for v in values {
            let own = Tensor::try_arange(number(start)..number(start + v.numel()))?;
            let ones = all.eq(&own)?.try_to(v.dtype())?;
            seeds.push(Var::constant(ones.reshape(joined(&[count].into(), v.shape()))?));
            start += v.numel();
        }
        Ok((count, seeds))
    };
    all().nowhere().map_err(|e| e.named(op))
}
