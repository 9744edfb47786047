//! Rows of activations with kinks or settings of their own, of rounding, and of what replaces numbers that are none.

use foldback_tensor::kernel::{FloatOps, Real, SELU, Softsign, slope};

use super::elementary::logistic;
use super::macros::pointwise;
use crate::error::Result;
use crate::node::Var;

/// The sixth part that PyTorch 2.15 multiplies with here: rounded to single precision, for doubles, too.
const SIXTH: f64 = (1.0f32 / 6.0) as f64;

/// `tanh(ln(1 + exp(x)))`, which is 1 to the last digit where the exponential could overflow.
#[inline(always)]
fn tanh_of_softplus<R: Real>(x: R) -> R
where
    f64: FloatOps<R>,
{
    R::select(x.gt(R::lit(20.0)), x, x.exp().log1p()).tanh()
}

/// `x` below zero, and 0 above, whose exponential does not overflow. At zero it counts as constant: the second derivative there is 0.
#[inline(always)]
fn below_zero<R: Real>(x: R) -> R {
    R::select(x.ge(R::lit(0.0)), R::lit(0.0), x)
}

pointwise! {
    in rows;

    /// The largest whole number not above each element. Its gradient is 0. Integers stay what they are.
    ///
    /// # Errors
    /// For `bool`.
    pub fn floor, try_floor(a) -> Var = a.try_floor();
        d a = 0;
        check(NonInteger);

    /// The smallest whole number not below each element. Its gradient is 0. Integers stay what they are.
    ///
    /// # Errors
    /// For `bool`.
    pub fn ceil, try_ceil(a) -> Var = a.try_ceil();
        d a = 0;
        check(NonInteger);

    /// The nearest whole number, the even one where two are as near. Its gradient is 0. Integers stay what they are.
    ///
    /// # Errors
    /// For `bool`.
    pub fn round, try_round(a) -> Var = a.try_round();
        d a = 0;
        check(NonInteger);

    /// The whole number next to each element towards zero. Its gradient is 0. Integers stay what they are.
    ///
    /// # Errors
    /// For `bool`.
    pub fn trunc, try_trunc(a) -> Var = a.try_trunc();
        d a = 0;
        check(NonInteger);

    /// What [`Var::trunc`](Self::trunc) takes off, which has the sign of the element. Its gradient is 1.
    ///
    /// # Errors
    /// For integers and `bool`.
    pub fn frac, try_frac(a) -> Var = a.try_frac();
        d a = g;
        check(NonInteger);

    /// Rounded to so many places behind the point, or, where that is negative, to tens, hundreds, ... Its gradient is 0.
    ///
    /// # Errors
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.125].requires_grad().round_with(2)?.value(), tensor![0.12]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn round_with(a; decimals: i32) -> Result = a.round_with(decimals);
        d a = 0;
        check(NonInteger; 0);

    /// 0 in the place of NaN, and the largest and the smallest number of the type in the place of the infinities, with gradient 0 there.
    pub fn nan_to_num(a) -> Var = a.nan_to_num();
        d a: |g, a| R::select(a.abs().lt(R::lit(f64::INFINITY)), g, R::lit(0.0));
        check(Any);

    /// `x`, and `alpha (exp(x) - 1)` below zero (Clevert, Unterthiner and Hochreiter, 2016). At zero the slope is `alpha`.
    ///
    /// # Errors
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0].requires_grad().elu_with(0.5)?.value(), tensor![2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn elu_with(a; alpha: f64) -> Result = a.elu_with(alpha);
        d a: |g, a| R::select(a.gt(R::lit(0.0)), g, g * (below_zero(a).exp() * alpha));
        /// `x`, and `exp(x) - 1` below zero.
        ///
        /// # Errors
        /// For integers and `bool`.
        also elu, try_elu { default 1.0 }
        check(NonZero; 1.5);

    /// [`Var::elu`](Self::elu) with the scales that keep mean and variance (Klambauer, Unterthiner, Mayr and Hochreiter, 2017). At zero the
    /// slope is that of the left side.
    ///
    /// # Errors
    /// For integers and `bool`.
    pub fn selu, try_selu(a) -> Var = a.try_selu();
        d a: |g, a| R::select(a.gt(R::lit(0.0)), g * SELU.0, g * (below_zero(a).exp() * SELU.1));
        check(NonZero);

    /// `x`, and `alpha (exp(x / alpha) - 1)` below zero (Barron, 2017).
    ///
    /// # Errors
    /// For integers and `bool`, and for an alpha of 0.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0].requires_grad().celu_with(0.5)?.value(), tensor![2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn celu_with(a; alpha: f64) -> Result = a.celu_with(alpha);
        d a: |g, a| R::select(a.gt(R::lit(0.0)), g, g * (below_zero(a) / alpha).exp());
        /// `x`, and `exp(x) - 1` below zero.
        ///
        /// # Errors
        /// For integers and `bool`.
        also celu, try_celu { default 1.0 }
        check(NonZero; 1.5);

    /// `x`, and `slope x` below zero. At zero its own slope is that of the left side.
    ///
    /// # Errors
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-2.0].requires_grad().leaky_relu_with(0.5)?.value(), tensor![-1.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn leaky_relu_with(a; slope: f64) -> Result = a.leaky_relu_with(slope);
        d a: |g, a| R::select(a.gt(R::lit(0.0)), g, g * slope);
        /// `x`, and `x / 100` below zero.
        ///
        /// # Errors
        /// For integers and `bool`.
        also leaky_relu, try_leaky_relu { default 0.01 }
        check(NonZero; 0.25);

    /// `x` between two numbers, which are the results beyond. Its gradient is 0 at a bound and beyond it.
    ///
    /// # Errors
    /// For `bool`, and if the bounds cross.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-3.0].requires_grad().hardtanh_with(-2, 2)?.value(), tensor![-2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn hardtanh_with(a; lo: f64, hi: f64) -> Result = a.hardtanh_with(lo, hi);
        d a: |g, a| R::select(R::and(a.gt(R::lit(lo)), a.lt(R::lit(hi))), g, R::lit(0.0));
        /// `x` between -1 and 1, which are the results beyond.
        ///
        /// # Errors
        /// For `bool`.
        also hardtanh, try_hardtanh { default -1.0, 1.0 }
        check(NonZero; -0.3, 0.4);

    /// `(x + 3) / 6` between 0 and 1, which are the results beyond. Its gradient is 0 at -3 and at 3.
    ///
    /// # Errors
    /// For integers and `bool`.
    pub fn hardsigmoid, try_hardsigmoid(a) -> Var = a.try_hardsigmoid();
        d a: |g, a| R::select(a.abs().lt(R::lit(3.0)), g * SIXTH, R::lit(0.0));
        check(Any);

    /// `x` times [`Var::hardsigmoid`](Self::hardsigmoid) (Howard and others, 2019). Its gradient is 0 at -3 and 1 at 3.
    ///
    /// # Errors
    /// For integers and `bool`.
    pub fn hardswish, try_hardswish(a) -> Var = a.try_hardswish();
        d a: |g, a| {
            let curved = R::and(a.gt(R::lit(-3.0)), a.lt(R::lit(3.0)));
            let flat = R::select(a.le(R::lit(-3.0)), R::lit(0.0), R::lit(f64::NAN));
            let flat = R::select(a.ge(R::lit(3.0)), R::lit(1.0), flat);
            g * R::select(curved, a / 3.0 + 0.5, flat)
        };
        check(Any);

    /// `x tanh(softplus(x))` (Misra, 2020).
    ///
    /// # Errors
    /// For integers and `bool`.
    pub fn mish, try_mish(a) -> Var = a.try_mish();
        d a: |g, a| {
            let t = tanh_of_softplus(a);
            g * (t + a * logistic(a).0 * (1.0 - t * t))
        };
        check(Any);

    /// The logarithm of [`Var::sigmoid`](Self::sigmoid), accurate for either sign.
    ///
    /// # Errors
    /// For integers and `bool`.
    pub fn logsigmoid, try_logsigmoid(a) -> Var = a.try_logsigmoid();
        d a: |g, a| g * logistic(-a).0;
        check(Any);

    /// `x / (1 + |x|)`. Integers become the default float.
    ///
    /// # Errors
    /// For `bool`.
    pub fn softsign, try_softsign(a) -> Var = a.try_softsign();
        d a: |g, a| slope(Softsign, g, a);
        check(NonZero);
}

pub(super) use rows::ALL;

impl Var {
    /// These numbers in the place of NaN, of infinity and of minus infinity, with gradient 0 there.
    ///
    /// # Errors
    /// As [`Tensor::nan_to_num_with`](foldback_tensor::Tensor::nan_to_num_with).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![f32::NAN, 1.0].requires_grad();
    /// x.nan_to_num_with(5, 0, 0)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn nan_to_num_with(
        &self,
        nan: impl Into<f64>,
        posinf: impl Into<f64>,
        neginf: impl Into<f64>,
    ) -> Result<Var> {
        use foldback_tensor::Here as _;
        // The row has room for two numbers, and its gradient needs none.
        let _span = crate::profile::forward("nan_to_num");
        let own = self.value_ref();
        let value = own.nan_to_num_with(nan, posinf, neginf).here()?;
        Ok(crate::record::record_rule(&rows::nan_to_num.vars, [0.0; 2], [self], [&own], value))
    }
}
