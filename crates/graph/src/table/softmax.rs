//! Rows of the softmax family. Their gradients are one pass over the rows of a tensor, or, where they are to be recorded, the
//! same formulas over variables.

use foldback_tensor::kernel::{self, FloatKernel, Formula, Real, RowFormula};
use foldback_tensor::{Axis, Indices, Over, Tensor, keep};

use super::function_rows::function;
use super::reduce::{reduced, unreduced};
use crate::error::Result;
use crate::lead::Lead;
use crate::node::{Var, Work};
use crate::traced::trace;

function! {
    in rows;

    /// `ln(sum(exp(x)))` over `axes`, without overflow.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1000.0, 1000.0].requires_grad();
    /// x.logsumexp(..)?.backward()?;
    /// foldback_tensor::assert_close!(x.grad().unwrap(), tensor![0.5, 0.5], atol = 1e-4);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn logsumexp(a; over: Over) {
        let r = kernel::reduction("logsumexp", &[a], over.axes())?;
    } = a.logsumexp(&over) => y;
        d a: |g, a, y| share_by_exponential(&unreduced(g, &r, n)?, a, &unreduced(y, &r, Lead(None))?);
        t: |t, a, y; full| reduced(&a.sub(unreduced(y, &r, Lead(None))?)?.exp().mul(t)?, &r, full, n);
        over leading axes (n);
        check {
            "rows": [[3, 2] Any] |x| x[0].logsumexp(0);
            "all, kept": [[2, 3] Any] |x| x[0].logsumexp(keep(..));
        }

    /// Softmax along an axis: `exp(x) / sum(exp(x))`, without overflow.
    ///
    /// # Errors
    /// If the axis does not exist, and for integers and `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 1.0].requires_grad();
    /// assert_eq!(x.softmax(0)?.value(), tensor![0.5, 0.5]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn softmax(a; axis: Axis) = a.softmax(axis) => y;
        d a: |g, y| in_rows(kernel::softmax_backward, kernel::SoftmaxGradient, [g, y], n.axis(axis));
        // The Jacobian is symmetric.
        t: |t, y| in_rows(kernel::softmax_backward, kernel::SoftmaxGradient, [t, y], n.axis(axis));
        over leading axes (n);
        check {
            "rows": [[3, 2] Any] |x| x[0].softmax(0);
            "columns": [[2, 3] Any] |x| x[0].softmax(-1);
            "a row": [[5] Any] |x| x[0].softmax(0);
        }

    /// The logarithm of [`Var::softmax`], computed as `x - logsumexp(x)`.
    ///
    /// # Errors
    /// If the axis does not exist, and for integers and `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![0.0, f32::NEG_INFINITY].requires_grad();
    /// assert_eq!(x.log_softmax(0)?.value(), tensor![0.0, f32::NEG_INFINITY]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn log_softmax(a; axis: Axis) = a.log_softmax(axis) => y;
        d a: |g, y| in_rows(kernel::log_softmax_backward, kernel::LogSoftmaxGradient, [g, y], n.axis(axis));
        t: |t, y| t.sub(t.mul(y.exp())?.sum(keep(n.axis(axis)))?);
        over leading axes (n);
        check {
            "rows": [[3, 2] Any] |x| x[0].log_softmax(0);
            "columns": [[2, 3] Any] |x| x[0].log_softmax(-1);
            "a row": [[5] Any] |x| x[0].log_softmax(0);
        }

    // A loss is a function of `nn`, which stands on this.
    #[doc(hidden)]
    /// The cross-entropy of scores `[..., c]` and class numbers `[...]` (`i64`): `-log_softmax(scores)` at each row's
    /// class, without storing the logarithms of the others. One loss per row.
    ///
    /// # Errors
    /// If the scores are not of a floating-point type, the classes do not fit, or no memory can hold what is expanded
    /// (`TooLarge`).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let scores = tensor![[0.0, 0.0]].requires_grad();
    /// scores.cross_entropy(&tensor![1; i64])?.backward()?;
    /// foldback_tensor::assert_close!(scores.grad().unwrap(), tensor![[0.5, -0.5]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn cross_entropy(a; classes: Indices) {
        let (losses, norms) = kernel::cross_entropy(a, &classes)?;
    } = Ok::<_, crate::Error>(losses);
        d a: |g, a| cross_entropy_backward(g, a, &classes, &norms, n);
        t: |t, a| {
            let picked = t.gather(-1, n.index(&classes)?.unsqueeze(-1)?)?.squeeze(-1)?;
            a.softmax(-1)?.mul(t)?.sum(-1)?.sub(picked)
        };
        over leading axes (n);
        check {
            "a matrix": [[3, 4] Any] |x| x[0].cross_entropy(&foldback_tensor::tensor![1, 3, 1; i64]);
            "three axes": [[2, 1, 3] Any] |x| x[0].cross_entropy(&foldback_tensor::tensor![[2], [0]; i64]);
            "a row": [[5] Any] |x| x[0].cross_entropy(Tensor::from(2i64));
            "nothing": [[0, 3] Any] |x| x[0].cross_entropy(Tensor::zeros_with([0], foldback_tensor::DType::I64));
        }
}

pub(super) use rows::ALL;

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
fn share_by_exponential(g: &Var, a: &Var, y: &Var) -> Result<Work<'static>> {
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
fn in_rows(
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
fn cross_entropy_backward(
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
