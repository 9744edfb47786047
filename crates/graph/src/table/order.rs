//! Rows of elements in order: sorted, the largest few, the one in the middle. Gradients go back to where they were taken from.

use foldback_tensor::{Axes, Axis, Here, Over, keep, kernel};

use super::function_rows::function;
use super::functions::{gather_along, scatter_back};
use super::reduce::{reduced, share_among_largest, unreduced};
use crate::error::Result;
use crate::lead::Lead;
use crate::node::Var;

function! {
    in rows;

    /// The elements along an axis from the smallest to the largest, or from the largest on if `descending`, and their
    /// indices (which require no gradient); see [`Tensor::sort_with`](foldback_tensor::Tensor::sort_with).
    ///
    /// # Errors
    /// If the axis does not exist.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![3.0, 1.0, 2.0].requires_grad();
    /// let (values, indices) = x.sort_with(0, true)?;
    /// values.select(0, 0)?.backward()?;
    /// assert_eq!(indices.value(), tensor![0, 2, 1; i64]);
    /// assert_eq!(x.grad(), Some(tensor![1.0, 0.0, 0.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn sort_with(a; axis: Axis, descending: bool) { let shape = a.shape().clone(); }
        = a.sort_with(axis, descending) => (y: g, indices);
        d a: |g, indices| scatter_back(g, indices, &shape, &keep(axis), n);
        t: |t, indices| gather_along(t, indices, &keep(axis), n);
        over leading axes (n);
        check {
            "rows": [[3, 2] Distinct] |x| Ok(x[0].sort_with(0, false)?.0);
            "columns, descending": [[2, 3] Distinct] |x| Ok(x[0].sort_with(-1, true)?.0);
            "a number": [[] Any] |x| Ok(x[0].sort_with(0, false)?.0);
            "nothing": [[2, 0] Any] |x| Ok(x[0].sort_with(1, false)?.0);
        }

    /// The element in the middle along an axis or of all (`..`): the lower of two, NaN if there is one; see
    /// [`Tensor::median`](foldback_tensor::Tensor::median).
    ///
    /// Over all axes equal elements share the gradient, and so do NaNs. Along an axis it goes to the element that
    /// [`Var::median_with_indices`] names.
    ///
    /// # Errors
    /// If the axis does not exist or has size 0, for several axes, and for `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![2.0, 1.0, 2.0].requires_grad();
    /// x.median(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.5, 0.0, 0.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn median(a; over: Over) {
        let r = kernel::reduction("median", &[a], over.axes())?;
    } = a.median(&over) => y;
        d a: |g, a, y| match over.axes() {
            Axes::All => share_among_largest(&unreduced(g, &r, n)?, a, &unreduced(y, &r, Lead(None))?),
            Axes::List(_) => {
                let (_, place) = a.value_ref().median_with_indices(&over)?;
                scatter_back(g, &Var::constant(place), a.shape(), &over, n)
            }
        };
        t: |t, a, y; full| match over.axes() {
            Axes::All => reduced(&share_among_largest(t, a, &unreduced(y, &r, Lead(None))?)?, &r, full, n),
            Axes::List(_) => {
                let (_, place) = a.value_ref().median_with_indices(&over)?;
                gather_along(t, &Var::constant(place), &over, n)
            }
        };
        over leading axes (n);
        check {
            "all": [[2, 3] Distinct] |x| x[0].median(..);
            "all, kept": [[2, 3] Distinct] |x| x[0].median(keep(..));
            "rows": [[3, 2] Distinct] |x| x[0].median(0);
            "columns, kept": [[2, 3] Distinct] |x| x[0].median(keep(-1));
            "a number": [[] Any] |x| x[0].median(0);
        }

    /// [`Var::median`] and its indices, which require no gradient; see [`Tensor::median_with_indices`](foldback_tensor::Tensor::median_with_indices).
    ///
    /// # Errors
    /// As [`Var::median`]; for nothing at all.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 5.0, 3.0]].requires_grad();
    /// let (values, indices) = x.median_with_indices(1)?;
    /// values.sum(..)?.backward()?;
    /// assert_eq!(indices.value(), tensor![2; i64]);
    /// assert_eq!(x.grad(), Some(tensor![[0.0, 0.0, 1.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn median_with_indices(a; over: Over) { let shape = a.shape().clone(); }
        = a.median_with_indices(&over) => (y: g, indices);
        d a: |g, indices| scatter_back(g, indices, &shape, &over, n);
        t: |t, indices| gather_along(t, indices, &over, n);
        over leading axes (n);
        check {
            "rows": [[3, 2] Distinct] |x| Ok(x[0].median_with_indices(0)?.0);
            "all, kept": [[2, 2] Distinct] |x| Ok(x[0].median_with_indices(keep(..))?.0);
        }
}

pub(super) use rows::ALL;

/// # Order
impl Var {
    /// The elements along an axis from the smallest to the largest, and their indices; see [`Tensor::sort`](foldback_tensor::Tensor::sort).
    ///
    /// # Errors
    /// As [`Var::sort_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let (values, indices) = tensor![3.0, 1.0].requires_grad().sort(0)?;
    /// assert_eq!((values.value(), indices.value()), (tensor![1.0, 3.0], tensor![1, 0; i64]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, axis: impl Into<Axis>) -> Result<(Var, Var)> {
        self.sort_with(axis, false)
    }

    /// The indices that sort an axis, which require no gradient; see [`Tensor::argsort`](foldback_tensor::Tensor::argsort).
    ///
    /// # Errors
    /// If the axis does not exist.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 1.0].requires_grad().argsort(0)?.value(), tensor![1, 0; i64]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(&self, axis: impl Into<Axis>) -> Result<Var> {
        self.argsort_with(axis, false)
    }

    /// The indices of [`Var::sort_with`].
    ///
    /// # Errors
    /// If the axis does not exist.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 3.0].requires_grad().argsort_with(0, true)?.value(), tensor![1, 0; i64]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort_with(&self, axis: impl Into<Axis>, descending: bool) -> Result<Var> {
        self.value_ref().argsort_with(axis, descending).map(Var::constant).here()
    }

    /// The `k` largest elements along an axis, and their indices; see [`Tensor::topk`](foldback_tensor::Tensor::topk).
    ///
    /// # Errors
    /// As [`Var::topk_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let (values, indices) = tensor![3.0, 1.0, 2.0].requires_grad().topk(2, -1)?;
    /// assert_eq!((values.value(), indices.value()), (tensor![3.0, 2.0], tensor![0, 2; i64]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: usize, axis: impl Into<Axis>) -> Result<(Var, Var)> {
        self.topk_with(k, axis, true, true)
    }

    /// The `k` largest elements along an axis, or the smallest unless `largest`, and their indices (which require no
    /// gradient); see [`Tensor::topk_with`](foldback_tensor::Tensor::topk_with).
    ///
    /// # Errors
    /// If the axis does not exist or has fewer elements, and for `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![3.0, 1.0, 2.0].requires_grad();
    /// let (values, _) = x.topk_with(2, 0, false, true)?;
    /// values.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 1.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn topk_with(
        &self,
        k: usize,
        axis: impl Into<Axis>,
        largest: bool,
        sorted: bool,
    ) -> Result<(Var, Var)> {
        let axis = axis.into();
        let (_, places) = self.value_ref().topk_with(k, axis, largest, sorted).here()?;
        Ok((self.gather(axis, &places)?, Var::constant(places)))
    }
}
