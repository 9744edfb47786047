//! Rows of arithmetic: two operands with broadcasting, and their forms with a number on one side.

use foldback_tensor::{DType, Scalar};

use super::macros::pointwise;
use crate::error::Result;
use crate::record::Input;
use crate::var::Var;

/// Two further operands of an operation on `own`, as variables.
pub(crate) fn beside(own: &Var, second: Input<'_>, third: Input<'_>) -> (Var, Var) {
    // A condition has no say in the type of the branches.
    let like = match (own.dtype(), second, third) {
        (DType::Bool, Input::Var(v), _) | (DType::Bool, _, Input::Var(v)) => v.clone(),
        (DType::Bool, Input::Tensor(t), _) | (DType::Bool, _, Input::Tensor(t)) => Var::constant(t.clone()),
        _ => own.clone(),
    };
    (second.to_var(&like), third.to_var(&like))
}

/// In a formula, `p - 1.0` would be an operation of the formula's numbers.
const fn one_less(p: f64) -> f64 {
    p - 1.0
}

pointwise! {
    fn add_vars(a, b) -> Result = a.add(b);
        d a: |g| g;
        d b: |g| g;
        check(Any, Any);

    fn add_number(a; c) -> Result = a.add(c);
        d a: |g| g;
        check(Any; 1.5);

    fn sub_vars(a, b) -> Result = a.sub(b);
        d a: |g| g;
        d b: |g| -g;
        check(Any, Any);

    fn rsub_number(a; c) -> Result = a.rsub(c);
        d a: |g| -g;
        check(Any; 1.5);

    fn mul_vars(a, b) -> Result = a.mul(b);
        d a: |g, b| g * b;
        d b: |g, a| g * a;
        check(Any, Any);

    fn mul_number(a; c) -> Result = a.mul(c);
        d a: |g| g * c;
        check(Any; -2.5);

    fn div_vars(a, b) -> Result = a.div(b);
        d a: |g, b| g / b;
        d b: |g, a, b| -g * (a / b / b);
        check(Any, NonZero);

    fn div_number(a; c) -> Result = a.div(c);
        d a: |g| g / c;
        check(Any; -2.5);

    fn rdiv_number(a; c) -> Result = a.rdiv(c) => y;
        d a: |g, a, y| -g * (y / a);
        check(NonZero; 1.5);

    // Rounded quotients are constant almost everywhere; a NaN in `g` does not get through.
    fn div_floor_vars(a, b) -> Result = a.div_floor(b);
        d a: |g| R::select(g.eq(g), R::lit(0.0), R::lit(0.0));
        d b: |g| R::select(g.eq(g), R::lit(0.0), R::lit(0.0));
        check(Positive, NonZero);

    fn div_floor_number(a; c) -> Result = a.div_floor(c);
        d a: |g| R::select(g.eq(g), R::lit(0.0), R::lit(0.0));
        check(Positive; 0.7);

    fn div_trunc_vars(a, b) -> Result = a.div_trunc(b);
        d a: |g| R::select(g.eq(g), R::lit(0.0), R::lit(0.0));
        d b: |g| R::select(g.eq(g), R::lit(0.0), R::lit(0.0));
        check(Positive, NonZero);

    fn div_trunc_number(a; c) -> Result = a.div_trunc(c);
        d a: |g| R::select(g.eq(g), R::lit(0.0), R::lit(0.0));
        check(Positive; 0.7);

    fn add_scaled_vars(a, b; alpha) -> Result = a.add_scaled(b, alpha);
        d a: |g| g;
        d b: |g| g * alpha;
        check(Any, Any; 0.5);

    fn pow_vars(a, b) -> Result = a.pow(b) => y;
        d a: |g, a, b| R::select(b.eq(R::lit(0.0)), R::lit(0.0), g * (b * a.pow(b - 1.0)));
        d b: |g, a, b, y| g * R::select(R::and(a.eq(R::lit(0.0)), b.ge(R::lit(0.0))), R::lit(0.0), y * a.ln());
        check(Positive, Any);

    fn pow_number(a; p) -> Result = a.pow(p);
        d a: |g, a| if p == 0.0 { R::lit(0.0) } else { g * (p * a.pow_number(one_less(p))) };
        check(Positive; 2.5);

    fn rpow_number(b; c) -> Result = b.rpow(c) => y;
        d b: |g, b, y| if c == 0.0 {
            g * R::select(b.ge(R::lit(0.0)), R::lit(0.0), y * c.ln())
        } else {
            g * (y * c.ln())
        };
        check(Any; 1.5);

    fn maximum_vars(a, b) -> Result = a.maximum(b);
        d a: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(a.lt(b), R::lit(0.0), g));
        d b: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(b.lt(a), R::lit(0.0), g));
        check(Any, Any);

    fn minimum_vars(a, b) -> Result = a.minimum(b);
        d a: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(a.gt(b), R::lit(0.0), g));
        d b: |g, a, b| R::select(a.eq(b), g * 0.5, R::select(b.gt(a), R::lit(0.0), g));
        check(Any, Any);

    /// `yes` where this `bool` variable is true, else `no`; all three broadcast. PyTorch's `where`.
    ///
    /// A branch that is not taken has no influence on the gradient, not even a NaN.
    ///
    /// # Errors
    /// `Tensor` if this is not `bool` or the shapes do not broadcast.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let x = tensor![-1.0, 2.0].requires_grad();
    /// let y = x.gt(0.0)?.where_cond(&x, 0.0)?;
    /// y.sum(.., false)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn where_cond(c, a, b) -> Result = c.where_cond(a, b);
        // A condition has no gradient; this formula is never asked for.
        d c: |g| g * 0.0;
        d a: |g, c| R::select(c.ne(R::lit(0.0)), g, R::lit(0.0));
        d b: |g, c| R::select(c.ne(R::lit(0.0)), R::lit(0.0), g);
        check(Truth, Any, Any);
}

/// The public form of an operation on two operands, either of which may be a number.
macro_rules! operation {
    ($($(#[$doc:meta])* $name:ident: $vars:ident, $tensor:ident, |$own:ident, $c:ident| $number:expr;)*) => {
        impl Var {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// `Tensor` if the shapes do not broadcast, or the types have no such operation.
            #[track_caller]
            pub fn $name<'a>(&self, other: impl Into<Input<'a>>) -> Result<Var> {
                match other.into() {
                    Input::Scalar(s) if self.dtype().is_float() => {
                        if let Scalar::Bool(_) = s {
                            // Some operations refuse truth values, with the tensor's words.
                            self.value_ref().$tensor(s)?;
                        }
                        let ($own, $c) = (self, s.to_f64());
                        $number
                    }
                    Input::Scalar(s) => Ok(Var::constant(self.value_ref().$tensor(s)?)),
                    other => self.$vars(other),
                }
            }
        )*}
    };
}

operation! {
    /// `self + other`, elementwise with broadcasting.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// assert_eq!(x.add(&tensor![[10.0], [20.0]])?.value(), tensor![[11.0, 12.0], [21.0, 22.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    add: add_vars, add, |a, c| a.add_number(c);
    /// `self - other`, elementwise with broadcasting.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().sub(1.0)?.value(), tensor![0.0, 1.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    sub: sub_vars, sub, |a, c| a.add_number(-c);
    /// `self * other`, elementwise with broadcasting.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().mul(3.0)?.value(), tensor![3.0, 6.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    mul: mul_vars, mul, |a, c| a.mul_number(c);
    /// `self / other`, elementwise with broadcasting.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().div(2.0)?.value(), tensor![0.5, 1.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    div: div_vars, div, |a, c| a.div_number(c);
    /// `self / other` rounded downwards, with broadcasting; its gradient is zero. Integers stay integers.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7.0, -7.0].requires_grad().div_floor(2.0)?.value(), tensor![3.0, -4.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    div_floor: div_floor_vars, div_floor, |a, c| a.div_floor_number(c);
    /// `self / other` rounded towards zero, with broadcasting; its gradient is zero. Integers stay integers.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7.0, -7.0].requires_grad().div_trunc(2.0)?.value(), tensor![3.0, -3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    div_trunc: div_trunc_vars, div_trunc, |a, c| a.div_trunc_number(c);
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
    pow: pow_vars, pow, |a, c| a.pow_number(c);
    /// The larger of two elements, with broadcasting. Equal elements share the gradient by halves.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 3.0, 2.0].requires_grad();
    /// x.maximum(2.0)?.sum(.., false)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 1.0, 0.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    maximum: maximum_vars, maximum, |a, c| a.maximum_vars(Input::Scalar(c.into()));
    /// The smaller of two elements, with broadcasting. Equal elements share the gradient by halves.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 3.0, 2.0].requires_grad();
    /// x.minimum(2.0)?.sum(.., false)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![1.0, 0.0, 0.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    minimum: minimum_vars, minimum, |a, c| a.minimum_vars(Input::Scalar(c.into()));
}

/// Forms with the number on the left: `other - self`, `other / self`, `other ** self`.
macro_rules! reversed {
    ($($(#[$doc:meta])* $name:ident, $number:ident;)*) => {
        impl Var {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// `Tensor` if the type has no such operation.
            #[track_caller]
            pub fn $name(&self, number: impl Into<Scalar>) -> Result<Var> {
                let number = number.into();
                if self.dtype().is_float() {
                    if let Scalar::Bool(_) = number {
                        self.value_ref().$name(number)?;
                    }
                    self.$number(number.to_f64())
                } else {
                    Ok(Var::constant(self.value_ref().$name(number)?))
                }
            }
        )*}
    };
}

reversed! {
    /// `number - self`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].requires_grad().rsub(3.0)?.value(), tensor![2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    rsub, rsub_number;
    /// `number / self`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0].requires_grad().rdiv(3.0)?.value(), tensor![1.5]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    rdiv, rdiv_number;
    /// `number` to the power `self`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0].requires_grad().rpow(3.0)?.value(), tensor![9.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    rpow, rpow_number;
}

impl Var {
    /// `self + alpha * other`.
    ///
    /// # Errors
    /// `Tensor` if the shapes do not broadcast, or the type cannot express `alpha`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// assert_eq!(x.add_scaled(&tensor![10.0], 0.5)?.value(), tensor![6.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn add_scaled<'a>(&self, other: impl Into<Input<'a>>, alpha: impl Into<Scalar>) -> Result<Var> {
        let (other, alpha) = (other.into().to_var(self), alpha.into());
        if self.dtype().is_float() || other.dtype().is_float() {
            if let Scalar::Bool(_) = alpha {
                // The tensor operation refuses it with its own words.
                self.value_ref().add_scaled(&*other.value_ref(), alpha)?;
            }
            return self.add_scaled_vars(&other, alpha.to_f64());
        }
        Ok(Var::constant(self.value_ref().add_scaled(&*other.value_ref(), alpha)?))
    }

    /// `self - alpha * other`.
    ///
    /// # Errors
    /// As [`Var::add_scaled`]; `bool` has no subtraction.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// assert_eq!(x.sub_scaled(&tensor![10.0], 0.5)?.value(), tensor![-4.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn sub_scaled<'a>(&self, other: impl Into<Input<'a>>, alpha: impl Into<Scalar>) -> Result<Var> {
        let (other, alpha) = (other.into().to_var(self), alpha.into());
        if self.dtype() == DType::Bool
            || other.dtype() == DType::Bool
            || !matches!(alpha, Scalar::F64(_) | Scalar::I64(_))
        {
            return Ok(Var::constant(self.value_ref().sub_scaled(&*other.value_ref(), alpha)?));
        }
        match alpha {
            Scalar::I64(v) => self.add_scaled(&other, v.wrapping_neg()),
            _ => self.add_scaled(&other, -alpha.to_f64()),
        }
    }
}
