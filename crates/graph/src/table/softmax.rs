//! Gradients of the softmax family: one pass over the rows, or, where they are to be recorded, formulas over variables.

use foldback_tensor::{Tensor, kernel};

use crate::error::Result;
use crate::mode::is_grad_enabled;
use crate::var::Var;

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
