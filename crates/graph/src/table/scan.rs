//! Rows of running sums and products.

use foldback_tensor::{Axis, Tensor};

use super::function_rows::function;
use crate::error::Result;
use crate::node::Var;

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
        t: |t, a, y| {
            if a.rank() == 0 || a.numel() == 0 {
                Ok(t.clone())
            } else if a.value_ref().all(..)?.item_as()? {
                t.div(a)?.cumsum(axis)?.mul(y)
            } else {
                running_product_tangent(t, a, y, axis)
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
/// product of all before, times `s[i] = g[i] + x[i + 1] s[i + 1]`.
fn running_product_back(g: &Var, a: &Var, y: &Var, axis: Axis) -> Result<Var> {
    before(y, axis)?.mul(recurring(g, &ahead(a, 1, axis)?, axis)?)
}

/// The tangent of a running product: `s[i] = y[i - 1] t[i] + x[i] s[i - 1]`, which recurs from the end once it is turned.
fn running_product_tangent(t: &Var, a: &Var, y: &Var, axis: Axis) -> Result<Var> {
    let terms = before(y, axis)?.mul(t)?.flip(axis)?;
    let factors = ahead(&a.flip(axis)?.roll(1, axis)?, 1, axis)?;
    recurring(&terms, &factors, axis)?.flip(axis)
}

/// `s[i] = terms[i] + factors[i] s[i + 1]`. A step from `s[i]` to `s[i + 1]` is an affine map; steps of 1, 2, 4, ... are put
/// together of pairs of shorter ones, by operations that have gradients themselves.
fn recurring(terms: &Var, factors: &Var, axis: Axis) -> Result<Var> {
    let (mut sums, mut factors, mut by) = (terms.clone(), factors.clone(), 1);
    while by < factors.size(axis)? {
        sums = sums.add(factors.mul(ahead(&sums, by, axis)?)?)?;
        factors = factors.mul(ahead(&factors, by, axis)?)?;
        by *= 2;
    }
    Ok(sums)
}

/// What stands `by` places further on, and zero behind the end.
fn ahead(v: &Var, by: usize, axis: Axis) -> Result<Var> {
    let end = Tensor::zeros_with((), v.dtype()).expand(v.value_ref().narrow(axis, 0, by)?.shape())?;
    Var::cat([&v.narrow(axis, by, v.size(axis)? - by)?, &Var::constant(end)], axis)
}

/// The product of all before each element: 1 for the first.
fn before(y: &Var, axis: Axis) -> Result<Var> {
    let one = Tensor::ones_with(y.value_ref().narrow(axis, 0, 1)?.shape(), y.dtype());
    Var::cat([&Var::constant(one), &y.narrow(axis, 0, y.size(axis)? - 1)?], axis)
}
