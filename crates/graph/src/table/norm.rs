//! The row of norms.

use foldback_tensor::{Over, Tensor, keep, kernel};

use super::function_rows::function;
use super::reduce::{reduced, unreduced};
use crate::error::Result;
use crate::lead::Lead;
use crate::node::Var;

function! {
    in rows;

    /// The `p`-norm over `axes`, for any `p`; see [`Tensor::norm_with`](foldback_tensor::Tensor::norm_with).
    ///
    /// The gradient at 0 is 0 for a `p` of 1, of 2 and above; for infinities the elements of largest size share it.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice, and for integers and `bool`; for a negative or infinite `p` over
    /// nothing.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, -2.0].requires_grad();
    /// x.norm_with(.., 1)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![1.0, -1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn norm_with(a; over: Over, p: f64) {
        let r = kernel::reduction("norm", &[a], over.axes())?;
    } = a.norm_with(&over, p) => y;
        d a: |g, a, y| norm_back(&unreduced(g, &r, n)?, a, &unreduced(y, &r, Lead(None))?, &over, p);
        t: |t, a, y; full| reduced(&norm_back(t, a, &unreduced(y, &r, Lead(None))?, &over, p)?, &r, full, n);
        over leading axes (n);
        check {
            "rows, 2": [[3, 2] NonZero] |x| x[0].norm_with(0, 2.0);
            "all, kept, 2": [[2, 3] NonZero] |x| x[0].norm_with(keep(..), 2.0);
            "rows, 1": [[3, 2] NonZero] |x| x[0].norm_with(0, 1.0);
            "rows, 0": [[3, 2] NonZero] |x| x[0].norm_with(0, 0.0);
            "rows, 3": [[3, 2] NonZero] |x| x[0].norm_with(0, 3.0);
            "rows, 1.5": [[3, 2] NonZero] |x| x[0].norm_with(0, 1.5);
            "columns, 0.5": [[3, 2] NonZero] |x| x[0].norm_with(1, 0.5);
            "rows, -1": [[3, 2] NonZero] |x| x[0].norm_with(0, -1.0);
            "rows, infinity": [[3, 2] Distinct] |x| x[0].norm_with(0, f64::INFINITY);
            "all, minus infinity": [[3, 2] Distinct] |x| x[0].norm_with(.., f64::NEG_INFINITY);
        }
}

pub(super) use rows::ALL;

/// The gradient of a `p`-norm, by PyTorch's formulas (`norm_backward` in its `FunctionsManual.cpp`).
fn norm_back(g: &Var, a: &Var, y: &Var, over: &Over, p: f64) -> Result<Var> {
    let zeros = |of: &Var, then: &Var| of.detach().eq(0.0)?.where_cond(0.0, then);
    if p == 0.0 {
        return g.mul(Tensor::try_zeros_with(a.dims(), a.dtype())?);
    } else if p == 1.0 {
        return g.mul(a.try_sign()?);
    } else if p == 2.0 {
        return g.mul(zeros(y, &a.div(y)?)?);
    } else if p.is_infinite() {
        let size = a.detach().try_abs()?;
        let mask = size.eq(y.detach())?.logical_or(size.ne(&size)?)?.to(g.dtype());
        return a.try_sign()?.mul(g.div(mask.sum(keep(over))?)?.mul(mask)?);
    } else if p < 1.0 {
        let powers = zeros(a, &a.try_sign()?.mul(a.try_abs()?.pow(p - 1.0)?)?)?;
        return powers.mul(g)?.mul(y.pow(1.0 - p)?);
    }
    let powers = if p < 2.0 {
        a.try_sign()?.mul(a.try_abs()?.pow(p - 1.0)?)?
    } else {
        a.mul(a.try_abs()?.pow(p - 2.0)?)?
    };
    powers.mul(zeros(y, &g.div(y.pow(p - 1.0)?)?)?)
}

impl Var {
    /// The Euclidean norm over `axes`: the square root of the sum of squares. The gradient of a norm of 0 is 0.
    ///
    /// # Errors
    /// As [`Var::norm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[3.0, 4.0], [0.0, 0.0]].requires_grad();
    /// x.norm(1)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![[0.6, 0.8], [0.0, 0.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "vector_norm")]
    pub fn norm(&self, over: impl Into<Over>) -> Result<Var> {
        self.norm_with(over, 2.0)
    }
}
