//! Rows of arithmetic: two operands with broadcasting, and their forms with a number on one side.

use foldback_tensor::Scalar;

use super::macros::pointwise;

/// In a formula, `p - 1.0` would be an operation of the formula's numbers.
const fn one_less(p: f64) -> f64 {
    p - 1.0
}

pointwise! {
    in rows;

    /// `self + other`, elementwise with broadcasting.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// assert_eq!(x.add(&tensor![[10.0], [20.0]])?.value(), tensor![[11.0, 12.0], [21.0, 22.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn add(a, b | number) -> Result = a.add(b);
        d a = g;
        d b = g;
        check(Any, Any | 1.5);

    /// `self - other`, elementwise with broadcasting.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().sub(1.0)?.value(), tensor![0.0, 1.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn sub(a, b | number) -> Result = a.sub(b);
        d a = g;
        d b: |g| -g;
        /// `number - self`.
        ///
        /// ```
        /// use foldback_graph::RequiresGrad;
        /// use foldback_tensor::tensor;
        /// assert_eq!(tensor![1.0].requires_grad().rsub(3.0)?.value(), tensor![2.0]);
        /// # Ok::<(), foldback_graph::Error>(())
        /// ```
        ///
        /// # Errors
        /// If the type has no such operation.
        also rsub { left b.rsub(a) }
        check(Any, Any | 1.5);

    /// `self * other`, elementwise with broadcasting.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().mul(3.0)?.value(), tensor![3.0, 6.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn mul(a, b | number) -> Result = a.mul(b);
        d a: |g, b| g * b, summed;
        d b: |g, a| g * a, summed;
        check(Any, Any | -2.5);

    /// `self / other`, elementwise with broadcasting.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().div(2.0)?.value(), tensor![0.5, 1.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn div(a, b | number) -> Result = a.div(b) => y;
        d a: |g, b| g / b;
        d b: |g, b, y| -g * (y / b);
        /// `number / self`.
        ///
        /// ```
        /// use foldback_graph::RequiresGrad;
        /// use foldback_tensor::tensor;
        /// assert_eq!(tensor![2.0].requires_grad().rdiv(3.0)?.value(), tensor![1.5]);
        /// # Ok::<(), foldback_graph::Error>(())
        /// ```
        ///
        /// # Errors
        /// If the type has no such operation.
        also rdiv { left b.rdiv(a) }
        check(Any, NonZero | -2.5);

    // Rounded quotients are constant almost everywhere; a NaN in `g` does not get through.
    /// `self / other` rounded downwards, with broadcasting; its gradient is zero. Integers stay integers.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7.0, -7.0].requires_grad().div_floor(2.0)?.value(), tensor![3.0, -4.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn div_floor(a, b | number) -> Result = a.div_floor(b);
        d a = 0;
        d b = 0;
        check(Positive, NonZero | 0.7);

    /// `self / other` rounded towards zero, with broadcasting; its gradient is zero. Integers stay integers.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7.0, -7.0].requires_grad().div_trunc(2.0)?.value(), tensor![3.0, -3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn div_trunc(a, b | number) -> Result = a.div_trunc(b);
        d a = 0;
        d b = 0;
        check(Positive, NonZero | 0.7);

    /// `self + alpha * other`.
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the type cannot express `alpha`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// assert_eq!(x.add_with(&tensor![10.0], 0.5)?.value(), tensor![6.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn add_with(a, b | number; alpha: Scalar) -> Result = a.add_with(b, alpha);
        d a = g;
        d b: |g| g * alpha;
        check(Any, Any | 0.7; 0.5);

    /// `self - alpha * other`.
    ///
    /// # Errors
    /// As [`Var::add_with`](Self::add_with); `bool` has no subtraction.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// assert_eq!(x.sub_with(&tensor![10.0], 0.5)?.value(), tensor![-4.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn sub_with(a, b | number; alpha: Scalar) -> Result = a.sub_with(b, alpha);
        d a = g;
        d b: |g| -(g * alpha);
        check(Any, Any | 0.7; 0.5);

    /// `self` to the power `other`, elementwise with broadcasting. The gradient of the exponent is 0 at `0**0`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![3.0].requires_grad();
    /// x.pow(2.0)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![6.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn pow(a, b | number) -> Result = a.pow(b) => y;
        d a: |g, a, b| R::select(b.eq(R::lit(0.0)), R::lit(0.0), g * (b * a.pow(b - 1.0)));
        d b: |g, a, b, y| g * R::select(R::and(a.eq(R::lit(0.0)), b.ge(R::lit(0.0))), R::lit(0.0), y * a.ln());
        // Roots have kernels of their own, and the signs of zeros that go with them.
        number d a: |g, a; b| if b == 0.0 { R::lit(0.0) } else { g * (b * a.pow_number(one_less(b))) };
        /// `number` to the power `self`.
        ///
        /// ```
        /// use foldback_graph::RequiresGrad;
        /// use foldback_tensor::tensor;
        /// assert_eq!(tensor![2.0].requires_grad().rpow(3.0)?.value(), tensor![9.0]);
        /// # Ok::<(), foldback_graph::Error>(())
        /// ```
        ///
        /// # Errors
        /// If the type has no such operation.
        // The logarithm is that of the number itself, which the type of the elements may not hold.
        also rpow { left b.rpow(a); d b: |g, b, y; a| if a == 0.0 {
            g * R::select(b.ge(R::lit(0.0)), R::lit(0.0), y * a.ln())
        } else {
            g * (y * a.ln())
        } }
        check(Positive, Any | 2.5);

    /// The larger of two elements, with broadcasting. Equal elements share the gradient by halves.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 3.0, 2.0].requires_grad();
    /// x.maximum(2.0)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 1.0, 0.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn maximum(a, b | number) -> Result = a.maximum(b);
        d a: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(a.lt(b), R::lit(0.0), g));
        d b: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(b.lt(a), R::lit(0.0), g));
        check(Any, Any | 0.5);

    /// The smaller of two elements, with broadcasting. Equal elements share the gradient by halves.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 3.0, 2.0].requires_grad();
    /// x.minimum(2.0)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![1.0, 0.0, 0.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or the types have no such operation.
    pub fn minimum(a, b | number) -> Result = a.minimum(b);
        d a: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(a.gt(b), R::lit(0.0), g));
        d b: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(b.gt(a), R::lit(0.0), g));
        check(Any, Any | 0.5);

    /// `yes` where this `bool` variable is true, else `no`; all three broadcast. PyTorch's `where`.
    ///
    /// A branch that is not taken gets a gradient of 0, even if it is NaN itself. What it was computed from may still get NaN, which
    /// is 0 times an infinite derivative: [`Var::safe_where`](crate::Var::safe_where) keeps that out.
    ///
    /// # Errors
    /// If this is not `bool` or the shapes do not broadcast.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let x = tensor![-1.0, 2.0].requires_grad();
    /// let y = x.gt(0.0)?.where_cond(&x, 0.0)?;
    /// y.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn where_cond(c, a, b) -> Result = c.where_cond(a, b);
        d c = _;
        d a: |g, c| R::select(c.ne(R::lit(0.0)), g, R::lit(0.0));
        d b: |g, c| R::select(c.ne(R::lit(0.0)), R::lit(0.0), g);
        check(Truth, Any, Any);
}

pub(super) use rows::ALL;
