//! Rows of activations, and of functions that integers have too; the elementary functions are in `list.rs`.

use foldback_tensor::kernel::{FloatOps, Gelu, Real, slope};

use super::macros::pointwise;

/// 2 sqrt(2 / pi)
const GELU_SCALE_TWICE: f64 = 1.595_769_121_605_730_8;

/// The logistic function and its slope, both to the last digits for either sign, and so are the derivatives of this very
/// formula. `1 - sigmoid(x)` has lost them all where x is large.
#[inline(always)]
pub(super) fn logistic<R: Real>(x: R) -> (R, R)
where
    f64: FloatOps<R>,
{
    // The exponential of what is negative; at 0 both branches are alike, and each is differentiable.
    let positive = x.gt(R::lit(0.0));
    let e = R::select(positive, -x, x).exp();
    let larger = (e + 1.0).reciprocal();
    let smaller = e * larger;
    (R::select(positive, larger, smaller), smaller * larger)
}

pointwise! {
    in rows;

    /// `-self`.
    ///
    /// # Errors
    /// For `bool`.
    pub fn neg, try_neg(a) -> Var = a.try_neg();
        d a: |g| -g;
        check(Any);

    /// The absolute value. Its gradient is 0 at 0.
    ///
    /// # Errors
    /// For `bool`.
    pub fn abs, try_abs(a) -> Var = a.try_abs();
        d a: |g, a| g * a.sign();
        check(NonZero);

    /// -1, 0 or 1 by the sign. Its gradient is 0 everywhere.
    pub fn sign, try_sign(a) -> Var = a.try_sign();
        d a = 0;
        check(NonZero);

    /// The square.
    pub fn square(a) -> Var = a.square();
        d a: |g, a| g * (a * 2.0);
        check(Any);

    /// `max(x, 0)`. Its gradient is 0 at 0.
    ///
    /// # Errors
    /// For `bool`.
    pub fn relu, try_relu(a) -> Var = a.try_relu() => y;
        d a: |g, y| R::select(y.le(R::lit(0.0)), R::lit(0.0), g);
        check(NonZero);

    /// The Gaussian error linear unit `x Phi(x)` (Hendrycks and Gimpel, 2016).
    ///
    /// # Errors
    /// For integers and `bool`.
    pub fn gelu, try_gelu(a) -> Var = a.try_gelu();
        d a: |g, a| slope(Gelu, g, a);
        check(Any);

    /// [`Var::gelu`](Self::gelu) by its tanh approximation, from the same paper.
    ///
    /// # Errors
    /// For integers and `bool`.
    pub fn gelu_tanh, try_gelu_tanh(a) -> Var = a.try_gelu_tanh();
        d a: |g, a| {
            let (share, slope) = logistic((a + a * a * a * 0.044715) * GELU_SCALE_TWICE);
            g * (share + a * ((a * a * 0.134145 + 1.0) * GELU_SCALE_TWICE) * slope)
        };
        check(Any);

    /// `ln(1 + exp(beta x)) / beta`, and `x` itself where `beta x` exceeds `threshold`.
    ///
    /// # Errors
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let x = foldback_tensor::tensor![30.0].requires_grad();
    /// assert_eq!(x.softplus_with(2.0, 10.0)?.value(), foldback_tensor::tensor![30.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn softplus_with(a; beta: f64, threshold: f64) -> Result = a.softplus_with(beta, threshold);
        // At the threshold itself the slope is that of the curve, and constant: PyTorch's second derivative is 0 there.
        d a: |g, a| R::select(
            (a * beta).gt(R::lit(threshold)),
            g,
            g * R::select(
                (a * beta).eq(R::lit(threshold)),
                R::lit(threshold).sigmoid(),
                logistic(a * beta).0,
            ),
        );
        /// `ln(1 + exp(x))`, and `x` itself above 20.
        ///
        /// # Errors
        /// For integers and `bool`.
        ///
        /// ```
        /// use foldback_graph::RequiresGrad;
        /// let x = foldback_tensor::tensor![30.0].requires_grad();
        /// assert_eq!(x.softplus().value(), foldback_tensor::tensor![30.0]);
        /// # Ok::<(), foldback_graph::Error>(())
        /// ```
        also softplus, try_softplus { default 1.0, 20.0 }
        check(Any; 1.5, 2.0);

    /// `x sigmoid(x)`, also called swish (Elfwing, Uchibe and Doya, 2018).
    ///
    /// # Errors
    /// For integers and `bool`.
    pub fn silu, try_silu(a) -> Var = a.try_silu();
        // By hand: the slope of `sigmoid` reads the result alone, and where that is near 1 has few digits.
        d a: |g, a| {
            let (share, slope) = logistic(a);
            g * (share + a * slope)
        };
        check(Any);

    /// `min(max(self, lo), hi)`, with broadcasting.
    ///
    /// With numbers as bounds the gradient is 0 at a bound and beyond it; with tensors, an element equal to its bound
    /// shares the gradient with it by halves. Both as in PyTorch 2.15.
    ///
    /// # Errors
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![-1.0, 0.5, 2.0].requires_grad();
    /// x.clamp(0.0, 1.0)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 1.0, 0.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn clamp(a, lo | number, hi | number) -> Result = a.clamp(lo, hi);
        // Where the bounds cross, the upper one wins; an element on a bound shares with it, if the bounds differ.
        d a: |g, a, lo, hi| R::select(
            R::or(a.lt(lo), a.gt(hi)),
            R::lit(0.0),
            R::select(R::and(lo.lt(hi), R::or(a.eq(lo), a.eq(hi))), g * 0.5, g),
        );
        d lo: |g, a, lo, hi| R::select(
            R::and(a.lt(lo), lo.le(hi)),
            g,
            R::select(R::and(a.eq(lo), lo.lt(hi)), g * 0.5, R::lit(0.0)),
        );
        d hi: |g, a, lo, hi| R::select(
            R::or(lo.gt(hi), R::and(a.gt(hi), lo.le(hi))),
            g,
            R::select(R::and(a.eq(hi), lo.lt(hi)), g * 0.5, R::lit(0.0)),
        );
        number d a: |g, a; lo, hi| R::select(R::and(a.gt(R::lit(lo)), a.lt(R::lit(hi))), g, R::lit(0.0));
        check(Any, Any | -0.7, Any | 0.9);

    /// `max(self, lo)`: [`Var::clamp`](Self::clamp) with a lower bound only.
    ///
    /// # Errors
    /// As [`Var::clamp`](Self::clamp).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 2.0].requires_grad().clamp_min(0.0)?.value(), tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn clamp_min(a, lo | number) -> Result = a.clamp_min(lo);
        d a: |g, a, lo| R::select(a.eq(lo), g * 0.5, R::select(a.lt(lo), R::lit(0.0), g));
        d lo: |g, a, lo| R::select(a.eq(lo), g * 0.5, R::select(a.gt(lo), R::lit(0.0), g));
        number d a: |g, a; lo| R::select(a.gt(R::lit(lo)), g, R::lit(0.0));
        check(Any, Any | -0.7);

    /// `min(self, hi)`: [`Var::clamp`](Self::clamp) with an upper bound only.
    ///
    /// # Errors
    /// As [`Var::clamp`](Self::clamp).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 2.0].requires_grad().clamp_max(1.0)?.value(), tensor![-1.0, 1.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn clamp_max(a, hi | number) -> Result = a.clamp_max(hi);
        d a: |g, a, hi| R::select(a.eq(hi), g * 0.5, R::select(a.gt(hi), R::lit(0.0), g));
        d hi: |g, a, hi| R::select(a.eq(hi), g * 0.5, R::select(a.lt(hi), R::lit(0.0), g));
        number d a: |g, a; hi| R::select(a.lt(R::lit(hi)), g, R::lit(0.0));
        check(Any, Any | 0.9);
}

pub(super) use rows::ALL;
