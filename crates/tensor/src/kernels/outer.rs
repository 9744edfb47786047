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
    const BY_OPERATORS: bool = F::BY_OPERATORS;
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

#[cfg(test)]
mod tests {
    use super::super::{FloatKernel, GradientKernel};
    use super::*;
    use crate::Tensor;
    use crate::ops::kernel::{evaluate, evaluate_each};

    /// With the function, and with what it gives in the place of `w`.
    #[derive(Clone, Copy)]
    struct Scaled<const GIVEN: bool>;
    impl<const GIVEN: bool> Formula<3> for Scaled<GIVEN> {
        const CALLS: usize = 1;
        const OF_FUNCTION: Option<usize> = Some(1);
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w, b]: [R; 3]) -> R
        where
            f64: FloatOps<R>,
        {
            let given = if GIVEN { w } else { (w * 0.5).exp() };
            (x - b) * given * given + R::select(x.lt(b), given, b)
        }
    }

    #[test]
    fn it_is_the_formula_of_what_the_function_gives() {
        for n in [1, 40, 700] {
            let x = [1.0, -2.0, 0.5].map(|step| Tensor::arange(n as f64).mul(step / 100.0).unwrap().sin());
            let (g, x) = (x[0].exp(), x.each_ref());
            let value = |kernel: &dyn super::super::BlockKernel| evaluate("t", kernel, &x).unwrap();
            assert_eq!(value(&FloatKernel(Outer(Scaled::<false>))), value(&FloatKernel(Scaled::<true>)));
            for wanted in [&[0, 1, 2][..], &[1], &[2, 1]] {
                let reads = [&g, x[0], x[1], x[2]];
                let [found, expected] = [
                    evaluate_each("t", &GradientKernel::new(Outer(Scaled::<false>), wanted), &reads),
                    evaluate_each("t", &GradientKernel::new(Scaled::<true>, wanted), &reads),
                ];
                assert_eq!(found.unwrap(), expected.unwrap(), "{wanted:?} of {n}");
            }
        }
    }
}
