//! Rows of reductions.

use foldback_tensor::kernel::{self, ReducedShapes};
use foldback_tensor::{Axes, Over, Shape, Tensor, keep};

use super::function_rows::function;
use super::functions::{gather_along, product_of_others, scatter_back};
use crate::arrival::{alike, shared};
use crate::error::Result;
use crate::lead::Lead;
use crate::node::{Var, Work};

function! {
    in rows;

    /// The sum over `axes` (`1`, `[0, -1]`, `..` or an empty list for all).
    ///
    /// Saves nothing. Its gradient is the incoming one expanded, so it stays one number per sum in memory.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// assert_eq!(x.sum(0)?.value(), tensor![4.0, 6.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn sum(a; over: Over) {
        let r = kernel::reduction("sum", &[a], over.axes())?;
    } = a.sum(&over);
        d a: |g| unreduced(g, &r, n)?.expand(n.shape(&r.full));
        t: |t; full| reduced(t, &r, full, n);
        over leading axes (n);
        arrives shared;
        check {
            "rows": [[2, 3] Any] |x| x[0].sum(0);
            "columns, kept": [[2, 3] Any] |x| x[0].sum(keep(-1));
            "all": [[2, 1, 3] Any] |x| x[0].sum(..);
            "two of three": [[2, 3, 2] Any] |x| x[0].sum([0, 2]);
            "a number": [[] Any] |x| x[0].sum(..);
            "nothing": [[0, 3] Any] |x| x[0].sum(0);
        }

    /// The mean over `axes`.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice, and for integers and `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 3.0].requires_grad();
    /// x.mean(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.5, 0.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn mean(a; over: Over) {
        let r = kernel::reduction("mean", &[a], over.axes())?;
    } = a.mean(&over);
        // Divided before it is expanded; where there are no elements, not at all.
        d a: |g| {
            let share = if r.count == 0 { g.clone() } else { g.div(r.count as f64)? };
            unreduced(&share, &r, n)?.expand(n.shape(&r.full))
        };
        // Of no elements the mean is no number.
        t: |t; full| reduced(t, &r, full, n)?.div(r.count as f64);
        over leading axes (n);
        arrives alike;
        check {
            "rows": [[2, 3] Any] |x| x[0].mean(0);
            "columns, kept": [[2, 3] Any] |x| x[0].mean(keep(1));
            "all": [[2, 3] Any] |x| x[0].mean(..);
        }

    /// The product over `axes`. The gradient is right where there are zeros, to any order.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![0.0, 3.0, 2.0].requires_grad();
    /// x.prod(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![6.0, 0.0, 0.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn prod(a; over: Over) {
        let r = kernel::reduction("prod", &[a], over.axes())?;
    } = a.prod(&over) => y;
        d a: |g, a, y| {
            let g = unreduced(g, &r, n)?;
            let zeros: i64 = a.value_ref().eq(0.0)?.sum(..)?.item_as()?;
            if a.rank() == 0 {
                Ok(Work::from(g))
            } else if zeros == 0 {
                g.mul(&unreduced(y, &r, Lead(None))?.div(a)?).map(Work::from)
            } else if zeros > 1 && *over.axes() == Axes::All {
                // As in PyTorch, whatever comes in.
                let r = r.clone();
                let nothing = move |[_, a]: &[Var; 2]| Tensor::zeros_with((), a.dtype()).expand(n.shape(a.shape()));
                Ok(Work::either([g, a.clone()], nothing, move |[g, a]| g.mul(&product_of_others(a, &r)?)))
            } else {
                g.mul(&product_of_others(a, &r)?).map(Work::from)
            }
        };
        t: |t, a; full| match a.rank() {
            0 => Ok(t.clone()),
            _ => reduced(&t.mul(product_of_others(a, &r)?)?, &r, full, n),
        };
        over leading axes (n);
        check {
            "rows": [[2, 3] Any] |x| x[0].prod(0);
            "columns, kept": [[2, 3] NonZero] |x| x[0].prod(keep(1));
            "all": [[2, 3] Any] |x| x[0].prod(..);
            "odd": [[5] Any] |x| x[0].prod(0);
            "two of three": [[2, 3, 2] Any] |x| x[0].prod([0, 2]);
            "zeros": [[3, 4] Truth] |x| x[0].prod(1);
        }

    /// The largest element over `axes`. Equal ones share the gradient; with a NaN every gradient is NaN.
    ///
    /// # Errors
    /// If an axis does not exist, is named twice or has size 0.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 3.0, 3.0].requires_grad();
    /// x.amax(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 0.5, 0.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn amax(a; over: Over) {
        let r = kernel::reduction("amax", &[a], over.axes())?;
    } = a.amax(&over) => y;
        d a: |g, a, y| share_among_equals(&unreduced(g, &r, n)?, a, &unreduced(y, &r, Lead(None))?, &over);
        t: |t, a, y; full| reduced(&share_among_equals(t, a, &unreduced(y, &r, Lead(None))?, &over)?, &r, full, n);
        over leading axes (n);
        check {
            "rows": [[3, 2] Distinct] |x| x[0].amax(0);
            "all, kept": [[2, 3] Distinct] |x| x[0].amax(keep(..));
        }

    /// The smallest element over `axes`. Equal ones share the gradient; with a NaN every gradient is NaN.
    ///
    /// # Errors
    /// If an axis does not exist, is named twice or has size 0.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 3.0, 1.0].requires_grad();
    /// x.amin(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.5, 0.0, 0.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn amin(a; over: Over) {
        let r = kernel::reduction("amin", &[a], over.axes())?;
    } = a.amin(&over) => y;
        d a: |g, a, y| share_among_equals(&unreduced(g, &r, n)?, a, &unreduced(y, &r, Lead(None))?, &over);
        t: |t, a, y; full| reduced(&share_among_equals(t, a, &unreduced(y, &r, Lead(None))?, &over)?, &r, full, n);
        over leading axes (n);
        check {
            "rows": [[3, 2] Distinct] |x| x[0].amin(0);
            "all, kept": [[2, 3] Distinct] |x| x[0].amin(keep(..));
        }

    /// The largest element over `over`; NaN if there is one.
    ///
    /// Over all axes (`..`) equal elements share the gradient, and so do NaNs. Along one axis it goes to the first among
    /// equals, as that of [`Var::max_with_indices`]; over several axes it is that of [`Var::amax`].
    ///
    /// # Errors
    /// If an axis does not exist, is named twice or has size 0.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 3.0], [3.0, 1.0]].requires_grad();
    /// x.max(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![[0.0, 0.5], [0.5, 0.0]]));
    /// assert_eq!(x.max(1)?.value(), tensor![3.0, 3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn max(a; over: Over) { let r = kernel::reduction("max", &[a], over.axes())?; } = a.max(&over) => y;
        d a: |g, a, y| match over.axes() {
            Axes::All => share_among_largest(&unreduced(g, &r, n)?, a, &unreduced(y, &r, Lead(None))?),
            Axes::List(list) if list.len() == 1 => {
                let first = a.value_ref().argmax(&over)?;
                scatter_back(g, &Var::constant(first), a.shape(), &over, n)
            }
            Axes::List(_) => {
                share_among_equals(&unreduced(g, &r, n)?, a, &unreduced(y, &r, Lead(None))?, &over)
            }
        };
        t: |t, a, y; full| match over.axes() {
            Axes::All => reduced(&share_among_largest(t, a, &unreduced(y, &r, Lead(None))?)?, &r, full, n),
            Axes::List(list) if list.len() == 1 => {
                let first = a.value_ref().argmax(&over)?;
                gather_along(t, &Var::constant(first), &over, n)
            }
            Axes::List(_) => {
                let shares = share_among_equals(t, a, &unreduced(y, &r, Lead(None))?, &over)?;
                reduced(&shares, &r, full, n)
            }
        };
        over leading axes (n);
        check {
            "all": [[2, 3] Distinct] |x| x[0].max(..);
            "all, kept": [[2, 3] Distinct] |x| x[0].max(keep(..));
            "rows": [[3, 2] Distinct] |x| x[0].max(0);
            "columns, kept": [[2, 3] Distinct] |x| x[0].max(keep(-1));
            "two of three": [[2, 3, 2] Distinct] |x| x[0].max([0, 2]);
            "a number": [[] Any] |x| x[0].max(0);
        }

    /// The smallest element over `over`; NaN if there is one.
    ///
    /// Over all axes (`..`) equal elements share the gradient, and so do NaNs. Along one axis it goes to the first among
    /// equals, as that of [`Var::min_with_indices`]; over several axes it is that of [`Var::amin`].
    ///
    /// # Errors
    /// If an axis does not exist, is named twice or has size 0.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 3.0], [3.0, 1.0]].requires_grad();
    /// x.min(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![[0.5, 0.0], [0.0, 0.5]]));
    /// assert_eq!(x.min(1)?.value(), tensor![1.0, 1.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn min(a; over: Over) { let r = kernel::reduction("min", &[a], over.axes())?; } = a.min(&over) => y;
        d a: |g, a, y| match over.axes() {
            Axes::All => share_among_largest(&unreduced(g, &r, n)?, a, &unreduced(y, &r, Lead(None))?),
            Axes::List(list) if list.len() == 1 => {
                let first = a.value_ref().argmin(&over)?;
                scatter_back(g, &Var::constant(first), a.shape(), &over, n)
            }
            Axes::List(_) => {
                share_among_equals(&unreduced(g, &r, n)?, a, &unreduced(y, &r, Lead(None))?, &over)
            }
        };
        t: |t, a, y; full| match over.axes() {
            Axes::All => reduced(&share_among_largest(t, a, &unreduced(y, &r, Lead(None))?)?, &r, full, n),
            Axes::List(list) if list.len() == 1 => {
                let first = a.value_ref().argmin(&over)?;
                gather_along(t, &Var::constant(first), &over, n)
            }
            Axes::List(_) => {
                let shares = share_among_equals(t, a, &unreduced(y, &r, Lead(None))?, &over)?;
                reduced(&shares, &r, full, n)
            }
        };
        over leading axes (n);
        check {
            "all": [[2, 3] Distinct] |x| x[0].min(..);
            "all, kept": [[2, 3] Distinct] |x| x[0].min(keep(..));
            "rows": [[3, 2] Distinct] |x| x[0].min(0);
            "columns, kept": [[2, 3] Distinct] |x| x[0].min(keep(-1));
            "two of three": [[2, 3, 2] Distinct] |x| x[0].min([0, 2]);
            "a number": [[] Any] |x| x[0].min(0);
        }

    /// Sums down to `shape`, from which this could have been broadcast: leading axes and axes of size 1.
    ///
    /// # Errors
    /// If `shape` does not broadcast to this shape.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// assert_eq!(x.sum_to_size([2, 1])?.value(), tensor![[3.0], [7.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn sum_to_size(a; shape: Shape) {
        let own = a.shape().clone();
    } unless (own == shape && a.dtype().is_float()) = a.sum_to_size(&shape);
        d a: |g| g.reshape(n.aligned(&shape, own.rank()))?.expand(n.shape(&own));
        t: |t; full| t.sum_to_size(n.aligned(&shape, own.rank()))?.reshape(full);
        over leading axes (n);
        arrives shared;
        check {
            "leading": [[2, 3] Any] |x| x[0].sum_to_size([3]);
            "size 1": [[2, 3] Any] |x| x[0].sum_to_size([2, 1]);
            "both": [[2, 3, 4] Any] |x| x[0].sum_to_size([1, 4]);
            "a number": [[2, 3] Any] |x| x[0].sum_to_size(());
        }

    /// The largest elements along an axis, and their indices (which require no gradient): PyTorch's `max(dim)`.
    /// The gradient goes to the first among equals.
    ///
    /// # Errors
    /// If the axis does not exist or has size 0.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 5.0], [7.0, 7.0]].requires_grad();
    /// let (values, indices) = x.max_with_indices(1)?;
    /// values.sum(..)?.backward()?;
    /// assert_eq!(indices.value(), tensor![1, 0; i64]);
    /// assert_eq!(x.grad(), Some(tensor![[0.0, 1.0], [1.0, 0.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn max_with_indices(a; over: Over) { let shape = a.shape().clone(); }
        = a.max_with_indices(&over) => (y: g, indices);
        d a: |g, indices| scatter_back(g, indices, &shape, &over, n);
        t: |t, indices| gather_along(t, indices, &over, n);
        over leading axes (n);
        check {
            "rows": [[3, 2] Distinct] |x| Ok(x[0].max_with_indices(0)?.0);
            "columns, kept": [[2, 3] Distinct] |x| Ok(x[0].max_with_indices(keep(-1))?.0);
            "a number": [[] Any] |x| Ok(x[0].max_with_indices(0)?.0);
        }

    /// The smallest elements along an axis, and their indices, as [`Var::max_with_indices`].
    ///
    /// # Errors
    /// As [`Var::max_with_indices`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let (values, _) = tensor![[1.0, 5.0], [7.0, 7.0]].requires_grad().min_with_indices(1)?;
    /// assert_eq!(values.value(), tensor![1.0, 7.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn min_with_indices(a; over: Over) { let shape = a.shape().clone(); }
        = a.min_with_indices(&over) => (y: g, indices);
        d a: |g, indices| scatter_back(g, indices, &shape, &over, n);
        t: |t, indices| gather_along(t, indices, &over, n);
        over leading axes (n);
        check {
            "rows": [[3, 2] Distinct] |x| Ok(x[0].min_with_indices(0)?.0);
            "columns, kept": [[2, 3] Distinct] |x| Ok(x[0].min_with_indices(keep(-1))?.0);
            "a number": [[] Any] |x| Ok(x[0].min_with_indices(0)?.0);
        }
}

pub(super) use rows::ALL;

/// What was reduced, with its axes as axes of size 1; a number, which broadcasts as it is, stays one.
pub(crate) fn unreduced(v: &Var, r: &ReducedShapes, n: Lead) -> Result<Var> {
    match n.0 {
        None if v.numel() == 1 || *v.shape() == r.kept => Ok(v.clone()),
        _ => v.reshape(n.shape(&r.kept)),
    }
}

/// The sum of tangents over what was reduced.
pub(super) fn reduced(t: &Var, r: &ReducedShapes, full: &Shape, n: Lead) -> Result<Var> {
    t.sum_to_size(n.shape(&r.kept))?.reshape(full)
}

/// The gradient of an extreme: equal elements get equal parts.
fn share_among_equals(g: &Var, a: &Var, y: &Var, over: &Over) -> Result<Var> {
    let mask = a.detach().eq(y.detach())?.to(g.dtype());
    let count = mask.sum(keep(over))?;
    g.mul(&mask)?.div(&count)
}

/// The gradient of the extreme of all elements, in equal shares.
pub(super) fn share_among_largest(g: &Var, a: &Var, y: &Var) -> Result<Var> {
    let (a, y) = (a.detach(), y.detach());
    let nan = y.value().ne(y.value())?.any(..)?.item_as()?;
    let mask = if nan { a.ne(&a)? } else { a.eq(&y)? };
    // Selected, not multiplied: an infinite gradient leaves the others at zero.
    mask.where_cond(&g.div(&mask.to(g.dtype()).sum(..)?)?, 0.0)
}
