//! Functions of one tensor, in their new and in-place forms.

use super::super::arg::Arg;
use super::super::formulas as f;
use super::elementwise::{
    Elementwise, IDENTITY, NOT, apply, apply_in_place, plan_float_only, plan_no_bool, plan_num, plan_real,
};
use crate::dtype::DType;
use crate::error::{Here, Result, or_panic};
use crate::kernels::{FloatKernel, NumKernel, elementary};
use crate::tensor::Tensor;

/// Defines the new and the in-place form of a function of one tensor. `-> Tensor` where it fails only for want of memory,
/// which takes a view with overlapping strides: it panics then.
macro_rules! unary {
    (@new [Result] $name:ident $plan:expr, $x:expr) => {
        apply(stringify!($name), &$plan.here()?, &[Arg::Tensor($x)]).here()
    };
    (@new [Tensor] $name:ident $plan:expr, $x:expr) => {
        or_panic($plan.and_then(|plan| apply(stringify!($name), &plan, &[Arg::Tensor($x)])))
    };
    (@type Result) => { Result<Tensor> };
    (@type Tensor) => { Tensor };
    ($($(#[$doc:meta])* $name:ident, $name_:ident -> $ret:ident = |$a:ident| $plan:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> unary!(@type $ret) {
                let $a = Arg::Tensor(self).meta();
                unary!(@new [$ret] $name $plan, self)
            }

            #[doc = concat!("[`Self::", stringify!($name), "`] into this tensor.")]
            ///
            /// # Errors
            /// `DTypeUnsupported` where the function has no meaning, `ResultCast` if the result is of a higher
            /// category than this tensor, `TooLarge` if this is a compressed result that no memory can hold. Nothing is
            /// changed then.
            #[track_caller]
            pub fn $name_(&mut self) -> Result<&mut Tensor> {
                let $a = Arg::Tensor(self).meta();
                let plan = $plan.map_err(|e| e.named(stringify!($name_))).here()?;
                apply_in_place(stringify!($name_), &plan, self, &[]).here()?;
                Ok(self)
            }
        )*}
    };
}

macro_rules! elementary_methods {
    ($(
        $(#[$doc:meta])*
        $name:ident $name_:ident(
            $x:ident => $y:ident: |$g:ident, $read:ident| $slope:ident $op:tt $factor:expr, $domain:ident, $at:literal => $value:literal
        );
    )*) => {
        unary! {$(
            $(#[$doc])*
            ///
            /// Integers and `bool` become the default float.
            ///
            /// ```
            /// use foldback_tensor::{assert_close, tensor};
            #[doc = concat!("assert_close!(tensor![", $at, "].", stringify!($name), "(), tensor![", $value, "]);")]
            /// ```
            $name, $name_ -> Tensor = |a| plan_real(&[a], FloatKernel(f::$name));
        )*}
    };
}
elementary!(elementary_methods);

unary! {
    /// `-self`.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `bool`; use [`Self::logical_not`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, -2.0].neg()?, tensor![-1.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    neg, neg_ -> Result = |a| plan_no_bool("neg", a, NumKernel(f::Neg));

    /// The absolute value.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, -2.0].abs()?, tensor![1.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    abs, abs_ -> Result = |a| plan_no_bool("abs", a, NumKernel(f::Abs));

    /// -1, 0 or 1 by the sign; the identity for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 0.0, -2.0].sign(), tensor![1.0, 0.0, -1.0]);
    /// ```
    sign, sign_ -> Tensor = |a| plan_num(&[a], NumKernel(f::Sign), IDENTITY);

    /// The square; an integer for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, -2.0].square(), tensor![9.0, 4.0]);
    /// ```
    square, square_ -> Tensor = |a| Elementwise::same(NumKernel(f::Square), a.dtype.to_accumulator());

    /// `max(x, 0)`; NaN stays NaN.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 2.0].relu()?, tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    relu, relu_ -> Result = |a| plan_no_bool("relu", a, NumKernel(f::Relu));

    /// The Gaussian error linear unit `x Phi(x)` (Hendrycks and Gimpel, 2016).
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].gelu()?, tensor![0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    gelu, gelu_ -> Result = |a| plan_float_only("gelu", a, FloatKernel(f::Gelu));

    /// [`Self::gelu`] by its tanh approximation, from the same paper.
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].gelu_tanh()?, tensor![0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    gelu_tanh, gelu_tanh_ -> Result = |a| plan_float_only("gelu_tanh", a, FloatKernel(f::GeluTanh));

    /// `ln(1 + exp(x))`, and `x` itself above 20; see [`Self::softplus_with`].
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![30.0].softplus()?, tensor![30.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    softplus, softplus_ -> Result = |a| plan_float_only("softplus", a, FloatKernel(f::Softplus { beta: 1.0, threshold: 20.0 }));

    /// `x sigmoid(x)`, also called swish (Elfwing, Uchibe and Doya, 2018).
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].silu()?, tensor![0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    silu, silu_ -> Result = |a| plan_float_only("silu", a, FloatKernel(f::Silu));

    /// Whether each element is false (zero): a `bool` tensor.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0, 2.0].logical_not(), tensor![true, false; bool]);
    /// ```
    logical_not, logical_not_ -> Tensor = |_a| Elementwise::same(NOT, DType::Bool);
}
