//! Rows of variances and standard deviations.

use foldback_tensor::kernel::{self, ReducedShapes};
use foldback_tensor::{Axes, Here, Over, Tensor, keep};

use super::function_rows::function;
use super::reduce::{reduced, unreduced};
use crate::error::Result;
use crate::node::Var;

function! {
    in rows;

    /// The variance over `axes`, divided by `max(0, n - correction)`.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice, and for integers and `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 3.0].requires_grad();
    /// assert_eq!(x.var_with(.., 0.0)?.value().item_as::<f32>()?, 1.0);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn var_with(a; over: Over, correction: f64) {
        let r = kernel::reduction("var", &[a], over.axes())?;
    } = a.var_with(&over, correction);
        d a: |g, a| spread_back(&unreduced(g, &r, n)?, a, &r, &over, correction);
        t: |t, a; full| reduced(&spread_back(t, a, &r, &over, correction)?, &r, full, n);
        over leading axes (n);
        check {
            "rows": [[3, 2] Any] |x| x[0].var_with(0, 1.0);
            "all, without correction": [[2, 3] Any] |x| x[0].var_with(keep(..), 0.0);
        }

    /// The standard deviation over `axes`: the root of [`Var::var_with`]. The gradient is 0 where all are equal.
    ///
    /// # Errors
    /// As [`Var::var_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![2.0, 2.0].requires_grad();
    /// x.std_with(.., 1.0)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 0.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn std_with(a; over: Over, correction: f64) {
        let r = kernel::reduction("std", &[a], over.axes())?;
    } = a.std_with(&over, correction) => y;
        d a: |g, a, y| {
            spread_back(&unreduced(&of_root(g, y)?, &r, n)?, a, &r, &over, correction)
        };
        t: |t, a, y; full| of_root(&reduced(&spread_back(t, a, &r, &over, correction)?, &r, full, n)?, y);
        over leading axes (n);
        check {
            "rows": [[3, 2] Distinct] |x| x[0].std_with(0, 1.0);
            "all, kept": [[2, 3] Distinct] |x| x[0].std_with(keep(..), 0.0);
        }
}

pub(super) use rows::ALL;

/// The gradient of a variance: `2 / (n - correction) * g * (a - mean)`.
///
/// Over all axes, and without degrees of freedom, it is infinite, or NaN where an element equals the mean, as PyTorch's.
fn spread_back(g: &Var, a: &Var, r: &ReducedShapes, over: &Over, correction: f64) -> Result<Var> {
    let freedom = r.count as f64 - correction;
    if (*over.axes() == Axes::All || a.rank() == 0) && freedom <= 0.0 {
        let own = a.detach();
        let infinite = Tensor::full_with((), f64::INFINITY, a.dtype());
        return g.mul(&own.eq(&own.mean(keep(over))?)?.where_cond(f64::NAN, &infinite)?);
    }
    g.mul(2.0 / freedom)?.mul(&a.sub(&a.mean(keep(over))?)?)
}

/// The gradient of a variance, given that of its root `y`, and as well the tangent of the root.
fn of_root(g: &Var, y: &Var) -> Result<Var> {
    y.eq(0.0)?.where_cond(0.0, &g.div(&y.mul(2.0)?)?)
}

impl Var {
    /// The variance over `axes` with Bessel's correction: divided by `n - 1`.
    ///
    /// # Errors
    /// As [`Var::var_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 3.0].requires_grad().var(..)?.value().item_as::<f32>()?, 2.0);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn var(&self, over: impl Into<Over>) -> Result<Var> {
        self.var_with(over, 1.0)
    }

    /// The standard deviation over `axes`: the root of [`Var::var`].
    ///
    /// # Errors
    /// As [`Var::var_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 3.0, 5.0].requires_grad().std(..)?.value().item_as::<f32>()?, 2.0);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn std(&self, over: impl Into<Over>) -> Result<Var> {
        self.std_with(over, 1.0)
    }

    /// The variance with Bessel's correction and the mean over `axes`: `(var, mean)`.
    ///
    /// # Errors
    /// As [`Var::var_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let (var, mean) = tensor![1.0, 3.0].requires_grad().var_mean(..)?;
    /// assert_eq!((var.item()?, mean.item()?), (2.0, 2.0));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn var_mean(&self, over: impl Into<Over>) -> Result<(Var, Var)> {
        self.var_mean_with(over, 1.0)
    }

    /// [`Var::var_with`] and [`Var::mean`]: `(var, mean)`.
    ///
    /// # Errors
    /// As [`Var::var_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let (var, mean) = tensor![1.0, 3.0].requires_grad().var_mean_with(.., 0)?;
    /// assert_eq!((var.item()?, mean.item()?), (1.0, 2.0));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn var_mean_with(&self, over: impl Into<Over>, correction: impl Into<f64>) -> Result<(Var, Var)> {
        let over = over.into();
        let var = self.var_with(&over, correction).map_err(|e| e.named("var_mean")).here()?;
        Ok((var, self.mean(over)?))
    }
}
