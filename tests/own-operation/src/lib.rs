//! `a exp(-b)`, in one operation that keeps its inputs and its result.

use foldback::graph::Operation;
use foldback::prelude::*;

/// `a exp(-b)`, for shapes that broadcast.
///
/// ```
/// use foldback::prelude::*;
/// use own_operation::damped;
/// # fn main() -> Result<()> {
/// let (a, b) = (tensor![[1.0], [2.0]].requires_grad(), tensor![0.0, 1.0, 2.0].requires_grad());
/// let y = damped(&a, &b)?;
/// assert_eq!(y.shape(), [2, 3]);
/// y.sum(..)?.backward()?;
/// assert_eq!(b.grad().unwrap().shape(), [3]); // folded
/// # Ok(())
/// # }
/// ```
pub fn damped(a: &Var, b: &Var) -> Result<Var> {
    let op = Operation::new(
        "damped",
        |[a, b]| a.mul(b.neg().exp()),
        |ctx, [g]| {
            let slope = ctx.input(1).neg().exp();
            [&g * &slope, -(&g * ctx.input(0) * &slope)]
        },
    );
    op.saves_inputs().call([a, b])
}
