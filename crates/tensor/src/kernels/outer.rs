//! `Outer`: a formula with one function as a formula of what that gives.
//!
//! Note [Composed formulas]
//! In `x * w.exp()` for a row `w` the function reads few elements. Recorded as two operations, what the function gives and the rest, the
//! gradient of what it gives is summed first, as by operators, and multiplied by the function's slope once for each element of `w`. As
//! nothing else reads the operands of the function, what it gives takes the place of one, so that the rest is a formula of as many operands.

use super::calls::{Called, Calls, MOST_CALLS};
use super::each;
use super::formula::Formula;
use super::real::{FloatOps, Real};

/// A formula of what its only function gives, which stands in the place of the [operand](Formula::OF_FUNCTION) that the function reads.
#[derive(Clone, Copy, Debug)]
pub struct Outer<F>(pub F);

impl<F: Formula<N>, const N: usize> Formula<N> for Outer<F> {
    const SUMS: bool = F::SUMS;
    #[inline(always)]
    fn eval<R: Real>(&self, x: [R; N]) -> R
    where
        f64: FloatOps<R>,
    {
        // It is not evaluated if there is none.
        let given = x[F::OF_FUNCTION.unwrap_or(0)];
        let calls = Calls::knowing(1, [given; MOST_CALLS]);
        self.0.eval::<Called<'_, R>>(each(calls.of(x[0]), |k| calls.of(x[k]))).number()
    }
}
