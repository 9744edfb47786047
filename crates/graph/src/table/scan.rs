//! Rows of running sums and products.

use foldback_tensor::{Axis, Tensor};

use super::macros::function;
use crate::error::Result;
use crate::var::Var;

function! {
    in rows;

    /// The running sum along an axis; see [`Tensor::cumsum`].
    ///
    /// # Errors
    /// If the axis does not exist.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0, 3.0].requires_grad();
    /// let y = x.cumsum(0)?;
    /// y.sum(..)?.backward()?;
    /// assert_eq!(y.value(), tensor![1.0, 3.0, 6.0]);
    /// assert_eq!(x.grad(), Some(tensor![3.0, 2.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn cumsum(a; axis: Axis) = a.cumsum(axis);
        d a: |g| from_the_end(g, n.axis(axis));
        t: |t| t.cumsum(n.axis(axis));
        over leading axes (n);
        check {
            "rows": [[3, 2] Any] |x| x[0].cumsum(0);
            "columns": [[2, 3] Any] |x| x[0].cumsum(-1);
            "a number": [[] Any] |x| x[0].cumsum(0);
            "nothing": [[2, 0] Any] |x| x[0].cumsum(1);
        }

    /// The running product along an axis; see [`Tensor::cumprod`]. The gradient is right where there are zeros, to any
    /// order.
    ///
    /// # Errors
    /// If the axis does not exist.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![2.0, 0.0, 3.0].requires_grad();
    /// x.cumprod(0)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![1.0, 8.0, 0.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn cumprod(a; axis: Axis) { let axis = from_the_back(axis, a.rank()); } = a.cumprod(axis) => y;
        d a: |g, a, y| {
            if a.rank() == 0 || a.numel() == 0 || a.value_ref().size(axis)? == 1 {
                Ok(g.clone())
            } else if a.value_ref().all(..)?.item_as()? {
                from_the_end(&g.mul(y)?, axis)?.div(a)
            } else {
                running_product_back(g, a, y, axis)
            }
        };
        over leading axes;
        check {
            "rows": [[3, 2] NonZero] |x| x[0].cumprod(0);
            "columns": [[2, 5] NonZero] |x| x[0].cumprod(-1);
            "zeros": [[3, 5] Truth] |x| x[0].cumprod(1);
            "zeros, rows": [[4, 2, 2] Truth] |x| x[0].cumprod(0);
            "a number": [[] Any] |x| x[0].cumprod(0);
            "nothing": [[2, 0] Any] |x| x[0].cumprod(1);
        }
}

pub(super) use rows::ALL;

/// An axis by its number from the back, which is the same behind a leading axis.
fn from_the_back(axis: Axis, rank: usize) -> Axis {
    match axis.get() {
        // What is no axis is refused by the operation, by the number that was given.
        number if (0..rank as isize).contains(&number) => Axis::from(number - rank as isize),
        _ => axis,
    }
}

/// Running sums from the end of an axis.
fn from_the_end(g: &Var, axis: Axis) -> Result<Var> {
    if g.rank() == 0 {
        return Ok(g.clone());
    }
    g.flip(axis)?.cumsum(axis)?.flip(axis)
}

/// The gradient of a running product without a division, which zeros would not survive.
///
/// `y[j]` is `x[i]` times what stands before it times what stands between `i` and `j`. So the gradient of `x[i]` is the
/// product of all before, times `s[i] = g[i] + x[i + 1] s[i + 1]`. A step from `s[i]` to `s[i + 1]` is an affine map;
/// steps of 1, 2, 4, ... are put together of pairs of shorter ones, by operations that have gradients themselves.
fn running_product_back(g: &Var, a: &Var, y: &Var, axis: Axis) -> Result<Var> {
    let n = a.value_ref().size(axis)?;
    // What stands `by` places further on, and a number behind the end.
    let ahead = |v: &Var, by: usize, behind: f64| {
        let end =
            Tensor::full_with((), behind, v.dtype()).expand(v.value_ref().narrow(axis, 0, by)?.shape())?;
        Var::cat([&v.narrow(axis, by, n - by)?, &Var::constant(end)], axis)
    };
    let (mut sums, mut factors) = (g.clone(), ahead(a, 1, 0.0)?);
    let mut by = 1;
    while by < n {
        sums = sums.add(factors.mul(ahead(&sums, by, 0.0)?)?)?;
        factors = factors.mul(ahead(&factors, by, 0.0)?)?;
        by *= 2;
    }
    let one = Tensor::ones_with(y.value_ref().narrow(axis, 0, 1)?.shape(), y.dtype());
    Var::cat([&Var::constant(one), &y.narrow(axis, 0, n - 1)?], axis)?.mul(sums)
}
