//! Rows of functions of two and of three numbers that are not arithmetic.

use foldback_tensor::Scalar;
use foldback_tensor::kernel::{FloatKernel, FloatOps, PRelu, Real, evaluate, prelu_weight};

use super::macros::pointwise;
use crate::error::Result;
use crate::input::AsInput;
use crate::node::Var;

/// `1 / (x^2 + y^2)`, and 0 at the origin, where an angle has no derivative.
#[inline(always)]
fn inverse_square<R: Real>(x: R, y: R) -> R
where
    f64: FloatOps<R>,
{
    let square = x * x + y * y;
    R::select(square.eq(R::lit(0.0)), R::lit(0.0), square.reciprocal())
}

/// The whole number of times that `b` goes into `a`, from the remainder, so that it is exact where the quotient is not. An infinite
/// remainder is that of a number and an infinity of the other sign.
#[inline(always)]
fn floored_quotient<R: Real>(a: R, b: R, remainder: R) -> R
where
    f64: FloatOps<R>,
{
    let infinity = R::lit(f64::INFINITY);
    let finite = R::and(a.lt(infinity), a.gt(-infinity));
    let other_sign = R::and(remainder.abs().eq(infinity), finite);
    let whole = R::select(other_sign, R::lit(-1.0), ((-remainder + a) / b).round());
    // By nothing the quotient is infinite, or NaN; rounded, it is no more than that to a second derivative.
    R::select(b.eq(R::lit(0.0)), (a / b).round(), whole)
}

pointwise! {
    in rows;

    /// The larger of two elements, with broadcasting, where NaN is no number to compare with: the other one is taken. Equal elements
    /// share the gradient by halves.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![f32::NAN, 3.0].requires_grad();
    /// assert_eq!(x.fmax(2.0)?.value(), tensor![2.0, 3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn fmax(a, b | number) -> Result = a.fmax(b);
        d a: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(R::or(b.lt(a), b.ne(b)), g, R::lit(0.0)));
        d b: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(R::or(b.lt(a), b.ne(b)), R::lit(0.0), g));
        check(Distinct, Any | 0.5);

    /// The smaller of two elements, with broadcasting, where NaN is no number to compare with: the other one is taken. Equal elements
    /// share the gradient by halves.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![f32::NAN, 3.0].requires_grad();
    /// assert_eq!(x.fmin(2.0)?.value(), tensor![2.0, 2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn fmin(a, b | number) -> Result = a.fmin(b);
        d a: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(R::or(a.lt(b), b.ne(b)), g, R::lit(0.0)));
        d b: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(R::or(a.lt(b), b.ne(b)), R::lit(0.0), g));
        check(Distinct, Any | 0.5);

    /// The angle of the point `(other, self)`, between -pi and pi, with broadcasting. Its gradient is 0 at the origin.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let y = tensor![1.0, 0.0].requires_grad();
    /// y.atan2(tensor![2.0, 0.0])?.sum(..)?.backward()?;
    /// assert_eq!(y.grad(), Some(tensor![0.4, 0.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn atan2(a, b | number) -> Result = a.atan2(b);
        d a: |g, a, b| g * b * inverse_square(a, b);
        d b: |g, a, b| g * -a * inverse_square(a, b);
        check(NonZero, NonZero | 0.5);

    /// `sqrt(self^2 + other^2)`, with broadcasting. Its gradient is NaN at the origin.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![3.0].requires_grad();
    /// x.hypot(4.0)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.6]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn hypot(a, b | number) -> Result = a.hypot(b) => y;
        d a: |g, a, y| g * a / y;
        d b: |g, b, y| g * b / y;
        check(NonZero, NonZero | 0.5);

    /// `|self|` with the sign of `other`, with broadcasting. The gradient of `self` is 0 at 0, that of `other` everywhere.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![2.0, 0.0].requires_grad();
    /// x.copysign(-1)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![-1.0, 0.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn copysign(a, b | number) -> Result = a.copysign(b) => y;
        d a: |g, a, y| g * R::select(a.eq(R::lit(0.0)), R::lit(0.0), y / a);
        d b = 0;
        check(NonZero, NonZero | -0.5);

    /// `ln(exp(self) + exp(other))`, with broadcasting, where no exponential overflows.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1000.0].requires_grad();
    /// x.logaddexp(1000.0)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn logaddexp(a, b | number) -> Result = a.logaddexp(b);
        d a: |g, a, b| g / ((b - a).exp() + 1.0);
        d b: |g, a, b| g / ((a - b).exp() + 1.0);
        check(Any, Any | 0.5);

    /// `self ln(other)`, and 0 where `self` is 0, with broadcasting. The gradient of `self` is 0 where `other`
    /// is not positive and `self` is 0, or what arrives.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![0.0, 2.0].requires_grad();
    /// x.xlogy(tensor![0.0, 1.0])?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 0.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn xlogy(a, b | number) -> Result = a.xlogy(b);
        // Masked outside for what arrives, and inside for its slope: 0 by a logarithm that is not there would be NaN.
        d a: |g, a, b| {
            let none = || R::and(R::or(a.eq(R::lit(0.0)), g.eq(R::lit(0.0))), b.le(R::lit(0.0)));
            R::select(none(), R::lit(0.0), g * R::select(none(), R::lit(0.0), b.ln()))
        };
        d b: |g, a, b| g * a / b;
        check(Any, Positive | 0.5);

    /// What [`Var::div_floor`](Self::div_floor) leaves, with broadcasting: it has the sign of `other`. Integers stay integers.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7.5, -7.5].requires_grad().remainder(2)?.value(), tensor![1.5, 0.5]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn remainder(a, b | number) -> Result = a.remainder(b) => y;
        d a = g;
        d b: |g, a, b, y| -g * floored_quotient(a, b, y);
        check(Positive, NonZero | 0.7);

    /// What [`Var::div_trunc`](Self::div_trunc) leaves, with broadcasting: it has the sign of `self`. Integers stay integers.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7.5, -7.5].requires_grad().fmod(2)?.value(), tensor![1.5, -1.5]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn fmod(a, b | number) -> Result = a.fmod(b);
        d a = g;
        d b: |g, a, b| -g * (a / b).trunc();
        check(Positive, NonZero | 0.7);

    /// `self + weight * (end - self)`, with broadcasting: the point between two others. The weight may be a number.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// x.lerp(5.0, 0.25)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.75]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn lerp(a, b, w) -> Result = a.lerp(b, w);
        d a: |g, w| g * (1.0 - w);
        d b: |g, w| g * w;
        d w: |g, a, b| g * (b - a);
        check(Any, Any, Any);

    /// `self + value * b * c`, with broadcasting.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// assert_eq!(x.addcmul_with(tensor![2.0], tensor![3.0], 0.5)?.value(), tensor![4.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn addcmul_with(a, b, c; value: Scalar) -> Result = a.addcmul_with(b, c, value);
        d a = g;
        d b: |g, c| g * (c * value);
        d c: |g, b| g * (b * value);
        check(Any, Any, Any; 0.5);

    /// `self + value * b / c`, with broadcasting.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// assert_eq!(x.addcdiv_with(tensor![6.0], tensor![3.0], 0.5)?.value(), tensor![2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn addcdiv_with(a, b, c; value: Scalar) -> Result = a.addcdiv_with(b, c, value);
        d a = g;
        d b: |g, c| g * (value / c);
        d c: |g, b, c| -g * (b * value / (c * c));
        check(Any, Any, NonZero; 0.5);

    /// The rectifier with a weight that already broadcasts to its input.
    pub(crate) fn rectified(a, w) -> Result = evaluate("prelu", &FloatKernel(PRelu), &[a, w]);
        d a: |g, a, w| R::select(a.gt(R::lit(0.0)), g, g * w);
        d w: |g, a| {
            let above = a.gt(R::lit(0.0));
            R::select(above, R::lit(0.0), g * R::select(above, R::lit(0.0), a))
        };
        check(NonZero, Any);
}

pub(super) use rows::ALL;

impl Var {
    /// `x`, and `weight x` below zero (He, Zhang, Ren and Sun, 2015). A weight of several elements has one for each of axis 1, the
    /// channels. At zero the slope is the weight.
    ///
    /// # Errors
    /// For integers and `bool`; if the weight is of another type, or neither one number nor one for each channel.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let weight = tensor![0.25].requires_grad();
    /// tensor![-3.0, 2.0].requires_grad().prelu(&weight)?.sum(..)?.backward()?;
    /// assert_eq!(weight.grad(), Some(tensor![-3.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn prelu(&self, weight: impl AsInput) -> Result<Var> {
        use foldback_tensor::Here as _;
        let weight = weight.input();
        let weight = weight.beside(self);
        let shape = prelu_weight(&self.value_ref(), &weight.value_ref()).here()?;
        self.rectified(weight.reshape(shape).here()?).here()
    }

    /// `self + a * b`, with broadcasting; see [`Var::addcmul_with`].
    ///
    /// # Errors
    /// As [`Var::addcmul_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].requires_grad().addcmul(tensor![2.0], tensor![3.0])?.value(), tensor![7.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul(&self, a: impl AsInput, b: impl AsInput) -> Result<Var> {
        self.addcmul_with(a, b, 1).map_err(|e| e.named("addcmul"))
    }

    /// `self + a / b`, with broadcasting; see [`Var::addcdiv_with`].
    ///
    /// # Errors
    /// As [`Var::addcdiv_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].requires_grad().addcdiv(tensor![6.0], tensor![3.0])?.value(), tensor![3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv(&self, a: impl AsInput, b: impl AsInput) -> Result<Var> {
        self.addcdiv_with(a, b, 1).map_err(|e| e.named("addcdiv"))
    }
}
