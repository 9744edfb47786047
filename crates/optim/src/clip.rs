//! Clipping of gradients, between the backward pass and the step.

use foldback_graph::Var;
use foldback_tensor::kernel::{FloatOps, Real, Update, UpdateKernel, Updates};
use foldback_tensor::{Here, Tensor, refuse};

use crate::error::{OptimFacts, Result};
use crate::group::AsParameter;

/// Makes all gradients together no longer than `max_norm`: each is multiplied with `max_norm / (norm + 1e-6)` if that is below
/// one. Returns the norm before. PyTorch's
/// [`clip_grad_norm_`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html).
///
/// The norm is that of all gradients in one row; parameters without one do not count, and 0 is the norm of none. One that is
/// not finite spreads to all gradients, as in PyTorch; [`clip_grad_norm_with_`] can refuse it.
///
/// # Errors
/// `Parameter` if `max_norm` is negative or NaN; `NotALeaf` if a parameter is the result of an operation. Nothing is
/// changed then.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::clip_grad_norm_;
/// use foldback_tensor::{assert_close, tensor};
/// let w = tensor![3.0, 4.0].requires_grad();
/// (w.square().sum(..)? * 0.5).backward()?;
/// assert_eq!(clip_grad_norm_([&w], 1.0)?, 5.0);
/// assert_close!(w.grad().unwrap(), tensor![0.6, 0.8]);
/// # Ok::<(), foldback_optim::Error>(())
/// ```
#[track_caller]
pub fn clip_grad_norm_(parameters: impl IntoIterator<Item: AsParameter>, max_norm: f64) -> Result<f64> {
    clip_norm(vars(parameters), max_norm, 2.0, false).here()
}

/// [`clip_grad_norm_`] with another norm than the second (`f64::INFINITY`: the largest gradient), which may be refused where
/// it is not finite.
///
/// # Errors
/// As [`clip_grad_norm_`]; also `Parameter` if `norm_type` is NaN, and `Refused` if the norm is not finite and
/// `error_if_nonfinite` says so.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::clip_grad_norm_with_;
/// use foldback_tensor::tensor;
/// let w = tensor![1.0].requires_grad();
/// w.set_grad(Some(tensor![f32::NAN]))?;
/// assert!(clip_grad_norm_with_([&w], 1.0, 2.0, true).is_err());
/// assert!(clip_grad_norm_with_([&w], 1.0, f64::INFINITY, false)?.is_nan());
/// # Ok::<(), foldback_optim::Error>(())
/// ```
#[track_caller]
pub fn clip_grad_norm_with_(
    parameters: impl IntoIterator<Item: AsParameter>,
    max_norm: f64,
    norm_type: f64,
    error_if_nonfinite: bool,
) -> Result<f64> {
    clip_norm(vars(parameters), max_norm, norm_type, error_if_nonfinite).here()
}

/// Brings every element of the gradients between `-clip_value` and `clip_value`. PyTorch's
/// [`clip_grad_value_`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_value_.html); NaN stays.
///
/// # Errors
/// `Parameter` if `clip_value` is negative or NaN; `NotALeaf` if a parameter is the result of an operation. Nothing is
/// changed then.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::clip_grad_value_;
/// use foldback_tensor::tensor;
/// let w = tensor![3.0, -0.5].requires_grad();
/// w.square().sum(..)?.backward()?;
/// clip_grad_value_([&w], 2.0)?;
/// assert_eq!(w.grad(), Some(tensor![2.0, -1.0]));
/// # Ok::<(), foldback_optim::Error>(())
/// ```
#[track_caller]
pub fn clip_grad_value_(parameters: impl IntoIterator<Item: AsParameter>, clip_value: f64) -> Result<()> {
    clip_value_(vars(parameters), clip_value).here()
}

fn vars(parameters: impl IntoIterator<Item: AsParameter>) -> Vec<Var> {
    parameters.into_iter().map(|p| p.var().clone()).collect()
}

const NORM: &str = "clip_grad_norm_";
const VALUE: &str = "clip_grad_value_";

fn clip_norm(vars: Vec<Var>, max_norm: f64, p: f64, error_if_nonfinite: bool) -> Result<f64> {
    check(NORM, "max_norm", max_norm, max_norm >= 0.0, "a number that is not negative")?;
    check(NORM, "norm_type", p, !p.is_nan(), "a number")?;
    expect_leaves(NORM, &vars)?;
    let norms = vars.iter().filter_map(Var::grad).map(|g| g.norm_with(.., p)?.item());
    let norms = norms.collect::<Result<Vec<f64>>>()?;
    if norms.is_empty() {
        return Ok(0.0);
    }
    let norm = Tensor::from(norms).norm_with(.., p)?.item()?;
    if error_if_nonfinite && !norm.is_finite() {
        let problem = format!(
            "the norm of the gradients is {norm}: look for its cause with detect_anomaly, or pass error_if_nonfinite false"
        );
        return refuse(OptimFacts::Refused { of: NORM, problem });
    }
    let factor = max_norm / (norm + 1e-6);
    // NaN is no reason to leave them as they are.
    if factor >= 1.0 {
        return Ok(norm);
    }
    change(&vars, NORM, Scale(factor))?;
    Ok(norm)
}

fn clip_value_(vars: Vec<Var>, most: f64) -> Result<()> {
    check(VALUE, "clip_value", most, most >= 0.0, "a number that is not negative")?;
    expect_leaves(VALUE, &vars)?;
    change(&vars, VALUE, Within(most))
}

fn check(
    of: &'static str,
    name: &'static str,
    value: f64,
    holds: bool,
    expected: &'static str,
) -> Result<()> {
    if holds { Ok(()) } else { refuse(OptimFacts::Parameter { optimizer: of, name, value, expected }) }
}

/// Refuses results of operations, whose gradients nobody steps by.
fn expect_leaves(of: &'static str, vars: &[Var]) -> Result<()> {
    match vars.iter().position(|var| !var.is_leaf()) {
        None => Ok(()),
        Some(index) => refuse(OptimFacts::NotALeaf { optimizer: of, index }),
    }
}

/// Changes the gradients where they lie, all in one pass.
fn change(vars: &[Var], op: &'static str, formula: impl Update<1, 0>) -> Result<()> {
    let kernel = UpdateKernel(formula);
    // Taken out, they are held by nobody else, and not copied.
    let mut grads: Vec<Option<Tensor>> = vars.iter().map(Var::take_grad).collect();
    let done = {
        let mut updates = Updates::with_capacity(op, vars.len());
        let checked = grads.iter_mut().flatten().try_for_each(|grad| updates.push(&kernel, [grad], []));
        checked.map(|()| updates.run())
    };
    let mut others = Vec::new();
    for (var, grad) in vars.iter().zip(grads) {
        match grad {
            Some(grad) => var.set_grad(Some(grad))?,
            None => others.push(var.clone()),
        }
    }
    done?;
    // A parameter that was given twice is changed twice.
    if others.len() < vars.len() { change(&others, op, formula) } else { Ok(()) }
}

#[derive(Clone, Copy)]
struct Scale(f64);

impl Update<1, 0> for Scale {
    #[inline(always)]
    fn eval<R: Real>(&self, [g]: [R; 1], []: [R; 0]) -> [R; 1]
    where
        f64: FloatOps<R>,
    {
        [g * self.0]
    }
}

#[derive(Clone, Copy)]
struct Within(f64);

impl Update<1, 0> for Within {
    #[inline(always)]
    fn eval<R: Real>(&self, [g]: [R; 1], []: [R; 0]) -> [R; 1]
    where
        f64: FloatOps<R>,
    {
        [g.maximum(R::lit(-self.0)).minimum(R::lit(self.0))]
    }
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::tensor;

    use super::*;

    #[test]
    fn gradients_are_changed_where_they_lie() {
        let w = Tensor::zeros([64, 64]).requires_grad();
        w.set_grad(Some(Tensor::ones([64, 64]))).unwrap();
        let address = || w.grad().unwrap().as_slice::<f32>().unwrap().as_ptr().addr();
        let before = address();
        assert_eq!(clip_grad_norm_([("w", &w)], 32.0).unwrap(), 64.0);
        clip_grad_value_(vec![w.clone()], 0.25).unwrap();
        assert_eq!((address(), w.grad().unwrap()), (before, Tensor::full([64, 64], 0.25)));
        // A handle that somebody has keeps its values.
        let held = w.grad().unwrap();
        clip_grad_value_([&w], 0.125).unwrap();
        assert_eq!(held, Tensor::full([64, 64], 0.25));
    }

    #[test]
    fn refusals() {
        let w = tensor![1.0].requires_grad();
        w.set_grad(Some(tensor![4.0])).unwrap();
        let text = |e: Result<f64>| e.unwrap_err().with_location(None).to_string();
        assert_eq!(
            text(clip_grad_norm_([&w], -1.0)),
            "clip_grad_norm_: max_norm = -1 is not valid: expected a number that is not negative"
        );
        assert!(text(clip_grad_norm_with_([&w], 1.0, f64::NAN, false)).contains("norm_type = NaN"));
        assert!(text(clip_grad_norm_([&w, &(&w * 2.0)], 1.0)).contains("parameter 1 is the result"));
        assert!(clip_grad_value_([&w], f64::NAN).is_err());
        assert_eq!(w.grad(), Some(tensor![4.0]));
        // Only to look at it.
        assert_eq!(clip_grad_norm_([&w], f64::INFINITY).unwrap(), 4.0);
        assert_eq!(clip_grad_norm_([] as [Var; 0], 1.0).unwrap(), 0.0);
    }
}
