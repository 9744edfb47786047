//! Gradients of the softmax family: one pass over the rows, or, where they are to be recorded, formulas over variables.

use foldback_tensor::Tensor;
use foldback_tensor::kernel::{self, FloatOps, Formula, Real};

use crate::error::Result;
use crate::mode::is_grad_enabled;
use crate::var::Var;

/// `g exp(a - y)`
#[derive(Clone, Copy)]
struct Share;
impl Formula<3> for Share {
    #[inline(always)]
    fn eval<R: Real>(&self, [g, a, y]: [R; 3]) -> R
    where
        f64: FloatOps<R>,
    {
        g * (a - y).exp()
    }
}

/// The gradient of `y = logsumexp(a)`, once `g` and `y` have the axes of `a`.
pub(super) fn share_by_exponential(g: &Var, a: &Var, y: &Var) -> Result<Var> {
    if is_grad_enabled() {
        return g.mul(&a.sub(y)?.exp());
    }
    let [g, a, y] = [g, a, y].map(|v| v.value_ref());
    Ok(Var::constant(kernel::evaluate("logsumexp", Share, [&g, &a, &y])?))
}

/// `y (g - sum(g y))`
pub(super) fn softmax_backward(g: &Var, y: &Var, axis: isize) -> Result<Var> {
    if is_grad_enabled() {
        return y.mul(&g.sub(&g.mul(y)?.sum(axis, true)?)?);
    }
    Ok(Var::constant(kernel::softmax_backward(&g.value_ref(), &y.value_ref(), axis)?))
}

/// `g - exp(y) sum(g)`
pub(super) fn log_softmax_backward(g: &Var, y: &Var, axis: isize) -> Result<Var> {
    if is_grad_enabled() {
        return g.sub(&y.exp().mul(&g.sum(axis, true)?)?);
    }
    Ok(Var::constant(kernel::log_softmax_backward(&g.value_ref(), &y.value_ref(), axis)?))
}

/// `g softmax(scores)`, less `g` at the class of each row.
pub(super) fn cross_entropy_backward(g: &Var, scores: &Var, classes: &Tensor, norms: &Tensor) -> Result<Var> {
    if is_grad_enabled() {
        let (g, classes) = (g.unsqueeze(-1)?, classes.unsqueeze(-1)?);
        return scores.softmax(-1)?.mul(&g)?.scatter_add(&g.neg()?, -1, &classes);
    }
    let gradient = kernel::cross_entropy_backward(&g.value_ref(), &scores.value_ref(), classes, norms)?;
    Ok(Var::constant(gradient))
}
