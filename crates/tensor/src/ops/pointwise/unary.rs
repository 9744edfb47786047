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

/// Defines the new and the in-place form of a function of one tensor. The new one panics where it fails: for want of memory,
/// which takes a view with overlapping strides, or for a type that it has no meaning for; then it has a twin with `try_`.
macro_rules! unary {
    (@method $(#[$doc:meta])* $name:ident |$a:ident| $plan:expr) => {
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self) -> Tensor {
            let $a = Arg::Tensor(self).meta();
            or_panic(apply(stringify!($name), $plan, &[Arg::Tensor(self)]))
        }
    };
    (@method $(#[$doc:meta])* $name:ident $try:ident |$a:ident| $plan:expr) => {
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self) -> Tensor {
            or_panic(self.$try())
        }

        #[doc = concat!("[`Self::", stringify!($name), "`], with an error where that panics.")]
        ///
        /// # Errors
        /// `DTypeUnsupported` where the function has no meaning; `TooLarge`.
        #[track_caller]
        pub fn $try(&self) -> Result<Tensor> {
            let $a = Arg::Tensor(self).meta();
            apply(stringify!($name), $plan, &[Arg::Tensor(self)])
        }
    };
    ($($(#[$doc:meta])* $name:ident, $name_:ident $(, $try:ident)? = |$a:ident| $plan:expr;)*) => {
        impl Tensor {$(
            unary!(@method $(#[$doc])* $name $($try)? |$a| $plan);

            #[doc = concat!("[`Self::", stringify!($name), "`] into this tensor.")]
            ///
            /// # Errors
            /// `DTypeUnsupported` where the function has no meaning, `ResultCast` if the result is of a higher
            /// category than this tensor, `TooLarge` if this is a compressed result that no memory can hold. Nothing is
            /// changed then.
            #[track_caller]
            pub fn $name_(&mut self) -> Result<&mut Tensor> {
                let $a = Arg::Tensor(self).meta();
                apply_in_place(stringify!($name_), $plan, self, &[]).here()?;
                Ok(self)
            }
        )*}
    };
}

pub(super) use unary;

/// Defines the new and the in-place form of a function of one tensor and of numbers.
macro_rules! with_numbers {
    ($($(#[$doc:meta])* $name:ident, $name_:ident($($p:ident: $t:ty),+) = |$op:ident, $a:ident| $plan:expr;)*) => {
        /// The meta steps, which no caller compiles again.
        mod plans {
            use super::*;
            $(pub(super) fn $name($op: &'static str, x: &Tensor, $($p: $t),+) -> Result<Elementwise> {
                let $a = Arg::Tensor(x).meta();
                $plan
            })*
        }

        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, $($p: impl Into<$t>),+) -> Result<Tensor> {
                let plan = plans::$name(stringify!($name), self, $($p.into()),+);
                apply(stringify!($name), plan, &[Arg::Tensor(self)])
            }

            #[doc = concat!("[`Self::", stringify!($name), "`] into this tensor.")]
            ///
            /// # Errors
            /// As the new form; `ResultCast` if the result is of a higher category than this tensor. Nothing is changed then.
            #[track_caller]
            pub fn $name_(&mut self, $($p: impl Into<$t>),+) -> Result<&mut Tensor> {
                let plan = plans::$name(stringify!($name_), self, $($p.into()),+);
                apply_in_place(stringify!($name_), plan, self, &[]).here()?;
                Ok(self)
            }
        )*}
    };
}
pub(super) use with_numbers;

macro_rules! elementary_methods {
    ($(
        $(#[$doc:meta])*
        $name:ident $name_:ident(
            $x:ident => $y:ident: |$g:ident, $read:ident| $slope:ident $op:tt $factor:expr, $domain:ident, $at:literal => $value:literal $(, $near:ident)?
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
            $name, $name_ = |a| plan_real(&[a], FloatKernel(f::$name));
        )*}
    };
}
elementary!(elementary_methods);

impl Tensor {
    /// The natural logarithm: [`Tensor::ln`] under PyTorch's name.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].log(), tensor![0.0]);
    /// ```
    #[track_caller]
    pub fn log(&self) -> Tensor {
        self.ln()
    }

    /// The natural logarithm in place: [`Tensor::ln_`] under PyTorch's name.
    ///
    /// # Errors
    /// `ResultCast` for integers and `bool`. Nothing is changed then.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let mut x = tensor![1.0];
    /// x.log_()?;
    /// assert_eq!(x, tensor![0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn log_(&mut self) -> Result<&mut Tensor> {
        self.ln_().map_err(|e| e.named("log_"))
    }

    /// A whole power: [`Tensor::pow`] as Rust's own numbers spell it.
    ///
    /// # Panics
    /// For a negative power of integers, and for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0, 3.0].powi(2), tensor![4.0, 9.0]);
    /// ```
    #[track_caller]
    pub fn powi(&self, power: i32) -> Tensor {
        or_panic(self.pow(power).map_err(|e| e.named("powi")))
    }

    /// A power of any kind: [`Tensor::pow`] as Rust's own numbers spell it.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![4.0, 9.0].powf(0.5), tensor![2.0, 3.0]);
    /// ```
    #[track_caller]
    pub fn powf(&self, power: f64) -> Tensor {
        or_panic(self.pow(power).map_err(|e| e.named("powf")))
    }
}

unary! {
    /// `-self`.
    ///
    /// # Panics
    /// For `bool`; use [`Self::logical_not`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, -2.0].neg(), tensor![-1.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    neg, neg_, try_neg = |a| plan_no_bool("neg", a, NumKernel(f::Neg));

    /// The absolute value.
    ///
    /// # Panics
    /// For `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, -2.0].abs(), tensor![1.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    abs, abs_, try_abs = |a| plan_no_bool("abs", a, NumKernel(f::Abs));

    /// -1, 0 or 1 by the sign; the identity for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 0.0, -2.0].sign(), tensor![1.0, 0.0, -1.0]);
    /// ```
    sign, sign_, try_sign = |a| plan_num(&[a], NumKernel(f::Sign), IDENTITY);

    /// The square; an integer for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, -2.0].square(), tensor![9.0, 4.0]);
    /// ```
    square, square_ = |a| Elementwise::same(NumKernel(f::Square), a.dtype.to_accumulator());

    /// `max(x, 0)`; NaN stays NaN.
    ///
    /// # Panics
    /// For `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 2.0].relu(), tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    relu, relu_, try_relu = |a| plan_no_bool("relu", a, NumKernel(f::Relu));

    /// The Gaussian error linear unit `x Phi(x)` (Hendrycks and Gimpel, 2016).
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].gelu(), tensor![0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    gelu, gelu_, try_gelu = |a| plan_float_only("gelu", a, FloatKernel(f::Gelu));

    /// [`Self::gelu`] by its tanh approximation, from the same paper.
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].gelu_tanh(), tensor![0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    gelu_tanh, gelu_tanh_, try_gelu_tanh = |a| plan_float_only("gelu_tanh", a, FloatKernel(f::GeluTanh));

    /// `ln(1 + exp(x))`, and `x` itself above 20; see [`Self::softplus_with`].
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![30.0].softplus(), tensor![30.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    softplus, softplus_, try_softplus = |a| plan_float_only("softplus", a, FloatKernel(f::Softplus { beta: 1.0, threshold: 20.0 }));

    /// `x sigmoid(x)`, also called swish (Elfwing, Uchibe and Doya, 2018).
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0].silu(), tensor![0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    silu, silu_, try_silu = |a| plan_float_only("silu", a, FloatKernel(f::Silu));

    /// Whether each element is false (zero): a `bool` tensor.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0, 2.0].logical_not(), tensor![true, false; bool]);
    /// ```
    logical_not, logical_not_ = |_a| Elementwise::same(NOT, DType::Bool);
}
