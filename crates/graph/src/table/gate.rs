//! The row of the gated linear unit.

use foldback_tensor::Axis;

use super::function_rows::function;
use crate::error::Result;
use crate::lead::Lead;
use crate::node::Var;

function! {
    in rows;

    /// The first half along an axis times the sigmoid of the second; see [`Tensor::glu`](foldback_tensor::Tensor::glu).
    ///
    /// # Errors
    /// As [`Tensor::glu`](foldback_tensor::Tensor::glu).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![3.0, 0.0].requires_grad();
    /// x.glu(0)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.5, 0.75]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn glu(a; axis: Axis) = a.glu(axis);
        d a: |g, a| gate_slopes(g, a, axis, n);
        t: |t, a| gate_tangent(t, a, axis, n);
        over leading axes (n);
        check {
            "a row": [[4] Any] |x| x[0].glu(0);
            "columns": [[3, 4] Any] |x| x[0].glu(-1);
            "rows": [[4, 3] Any] |x| x[0].glu(0);
            "nothing": [[2, 0] Any] |x| x[0].glu(1);
        }
}

pub(super) use rows::ALL;

fn gate_slopes(g: &Var, a: &Var, axis: Axis, n: Lead) -> Result<Var> {
    let [x, y] = a.chunks(axis)?;
    let share = g.mul(y.sigmoid())?;
    Var::cat([&share, &share.mul(y.neg().sigmoid())?.mul(&x)?], n.axis(axis))
}

fn gate_tangent(t: &Var, a: &Var, axis: Axis, n: Lead) -> Result<Var> {
    let ([x, y], [dx, dy]) = (a.chunks(axis)?, t.chunks(n.axis(axis))?);
    y.sigmoid().mul(dx.add(dy.mul(y.neg().sigmoid())?.mul(&x)?)?)
}
