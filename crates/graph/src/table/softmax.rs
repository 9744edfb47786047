//! Gradients of the softmax family: one pass over the rows, or, where they are to be recorded, the same formulas over
//! variables.

use foldback_tensor::kernel::{self, FloatKernel, Formula, Real, RowFormula};
use foldback_tensor::{Axis, Tensor, keep};

use crate::error::Result;
use crate::lead::Lead;
use crate::traced::trace;
use crate::var::Var;
use crate::work::Work;

/// `g exp(a - y)`
#[derive(Clone, Copy)]
struct ExponentialShare;
impl Formula<3> for ExponentialShare {
    #[inline(always)]
    fn eval<R: Real>(&self, [g, a, y]: [R; 3]) -> R {
        g * (a - y).exp()
    }
}

/// The gradient of `y = logsumexp(a)`, once `g` and `y` have the axes of `a`.
pub(super) fn share_by_exponential(g: &Var, a: &Var, y: &Var) -> Result<Work<'static>> {
    Ok(Work::either(
        [g, a, y].map(Var::clone),
        |x| {
            kernel::evaluate(
                "logsumexp",
                &FloatKernel(ExponentialShare),
                &x.each_ref().map(Var::value).each_ref(),
            )
        },
        |x| trace(&x.each_ref(), &|x| ExponentialShare.eval([x[0], x[1], x[2]])),
    ))
}

/// A gradient along an axis of rows, given that of the result and the result `y`: a kernel, and what it evaluates.
pub(super) fn in_rows(
    now: fn(&Tensor, &Tensor, Axis) -> foldback_tensor::Result<Tensor>,
    formula: impl RowFormula,
    [g, y]: [&Var; 2],
    axis: Axis,
) -> Result<Work<'static>> {
    Ok(Work::either(
        [g.clone(), y.clone()],
        move |[g, y]| match y.shape() == g.shape() {
            true => now(&g.value_ref(), &y.value_ref(), axis),
            false => now(&g.value_ref(), &y.value_ref().expand(g.shape())?, axis),
        },
        move |[g, y]| {
            let term = trace(&[g, y], &|x| formula.term(x[0], x[1]))?;
            let sum = term.sum(keep(axis))?;
            trace(&[g, y, &term, &sum], &|x| formula.result(x[0], x[1], x[2], x[3]))
        },
    ))
}

/// `g softmax(scores)`, less `g` at the class of each row.
pub(super) fn cross_entropy_backward(
    g: &Var,
    scores: &Var,
    classes: &Tensor,
    norms: &Tensor,
    n: Lead,
) -> Result<Work<'static>> {
    Ok(Work::either(
        (g.clone(), scores.clone(), classes.clone(), norms.clone()),
        move |(g, x, classes, norms)| match n.0 {
            None => kernel::cross_entropy_backward(&g.value_ref(), &x.value_ref(), classes, norms),
            Some(_) => softmax_less_one(g, x, classes, n).map(|g| g.value()),
        },
        move |(g, scores, classes, _)| softmax_less_one(g, scores, classes, n),
    ))
}

fn softmax_less_one(g: &Var, scores: &Var, classes: &Tensor, n: Lead) -> Result<Var> {
    let (g, classes) = (g.unsqueeze(-1)?, n.index(&classes.into())?.unsqueeze(-1)?);
    scores.softmax(-1)?.mul(&g)?.scatter_add(-1, classes, g.neg())
}
