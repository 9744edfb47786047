//! Operations of two arguments, in their new and in-place forms.

use super::super::arg::{Arg, AsArg, Meta, metas_of};
use super::super::formulas as f;
use super::elementwise::{
    AND, Elementwise, OR, XOR, apply, apply_in_place, plan_add, plan_compare, plan_num, plan_pow, plan_real,
};
use crate::dtype::{DType, Scalar};
use crate::error::{Here, Result};
use crate::kernels::{CompareKernel, FloatKernel, NumKernel};
use crate::tensor::Tensor;

/// Defines arithmetic with a number on the left: `2.0 - x`.
macro_rules! reversed {
    ($($name:ident = |$args:ident| $plan:expr;)*) => {$(
        #[track_caller]
        pub(crate) fn $name(number: Scalar, other: &Tensor) -> Result<Tensor> {
            let args = [Arg::Scalar(number), Arg::Tensor(other)];
            let $args = &metas_of(&args);
            apply(stringify!($name), $plan, &args)
        }
    )*};
}
reversed! {
    radd = |args| plan_add("radd", args, Scalar::I64(1), 1.0);
    rsub = |args| plan_add("rsub", args, Scalar::I64(1), -1.0);
    rmul = |args| plan_num(args, NumKernel(f::Mul), AND);
    rdiv = |args| plan_real(args, FloatKernel(f::Div));
    rpow = |args| plan_pow("rpow", args);
}

/// Defines the new and the in-place form of an operation of two arguments.
macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident, $name_:ident = |$args:ident| $plan:expr;)*) => {
        /// The meta steps, which no caller compiles again.
        mod plans {
            use super::*;
            $(pub(super) fn $name($args: &[Meta; 2]) -> Result<Elementwise> { $plan })*
        }

        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl AsArg) -> Result<Tensor> {
                let args = [$crate::Arg::Tensor(self), other.arg()];
                $crate::ops::pointwise::binary::of_two(stringify!($name), plans::$name, &args)
            }

            #[doc = concat!("[`Self::", stringify!($name), "`] into this tensor, whose shape and type stay as they are.")]
            ///
            /// # Errors
            /// As the new form; `Expand` or `Broadcast` if the other operand does not expand to this shape,
            /// `ResultCast` if the result is of a higher category than this tensor. Nothing is changed then.
            #[track_caller]
            pub fn $name_(&mut self, other: impl AsArg) -> Result<&mut Tensor> {
                $crate::ops::pointwise::binary::of_two_in_place(stringify!($name_), plans::$name, self, other.arg()).here()?;
                Ok(self)
            }
        )*}
    };
}

type Plan = fn(&[Meta; 2]) -> Result<Elementwise>;

#[track_caller]
pub(super) fn of_two(op: &'static str, plan: Plan, args: &[Arg<'_>; 2]) -> Result<Tensor> {
    apply(op, plan(&metas_of(args)), args)
}

#[track_caller]
pub(super) fn of_two_in_place(op: &'static str, plan: Plan, own: &mut Tensor, other: Arg<'_>) -> Result<()> {
    let plan = plan(&metas_of(&[Arg::Tensor(own), other]));
    apply_in_place(op, plan, own, &[other])
}

pub(super) use binary;

binary! {
    /// `self + other`, elementwise with broadcasting; logical or for two `bool` tensors.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let sum = tensor![[1.0], [2.0]].add(&tensor![10.0, 20.0, 30.0])?;
    /// assert_eq!(sum, tensor![[11.0, 21.0, 31.0], [12.0, 22.0, 32.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    add, add_ = |a| plan_add("add", a, Scalar::I64(1), 1.0);

    /// `self - other`, elementwise with broadcasting.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` if either is `bool`, as in PyTorch.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 2.0].sub(1.0)?, tensor![2.0, 1.0]);
    /// assert!(tensor![true; bool].sub(&tensor![false; bool]).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    sub, sub_ = |a| plan_add("sub", a, Scalar::I64(1), -1.0);

    /// `self * other`, elementwise with broadcasting; logical and for two `bool` tensors.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[2.0], [3.0]].mul(&tensor![1.0, 10.0])?, tensor![[2.0, 20.0], [3.0, 30.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    mul, mul_ = |a| plan_num(a, NumKernel(f::Mul), AND).map(Elementwise::of_pairs);

    /// `self / other`, elementwise with broadcasting: true division, a float also for integers.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1, 3; i64].div(2)?, tensor![0.5, 1.5]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    div, div_ = |a| plan_real(a, FloatKernel(f::Div)).map(Elementwise::of_pairs);

    /// `self` to the power `other`, elementwise with broadcasting. Integer powers wrap.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `NegativePower` for integers to a negative number;
    /// `DTypeUnsupported` for two `bool` tensors.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0, 3.0].pow(&tensor![[0.0], [2.0]])?, tensor![[1.0, 1.0], [4.0, 9.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    pow, pow_ = |a| plan_pow("pow", a);

    /// The larger of two elements, with broadcasting; NaN if either is.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 5.0].maximum(3.0)?, tensor![3.0, 5.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    maximum, maximum_ = |a| plan_num(a, NumKernel(f::Maximum), OR);

    /// The smaller of two elements, with broadcasting; NaN if either is.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 5.0].minimum(3.0)?, tensor![1.0, 3.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    minimum, minimum_ = |a| plan_num(a, NumKernel(f::Minimum), AND);

    /// Whether elements are equal, with broadcasting: a `bool` tensor. NaN equals nothing.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].eq(2.0)?, tensor![false, true; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    eq, eq_ = |a| plan_compare(a, CompareKernel(f::Eq));

    /// Whether elements differ, with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].ne(2.0)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    ne, ne_ = |a| plan_compare(a, CompareKernel(f::Ne));

    /// `self < other`, with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].lt(2.0)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    lt, lt_ = |a| plan_compare(a, CompareKernel(f::Lt));

    /// `self <= other`, with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 3.0].le(2.0)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    le, le_ = |a| plan_compare(a, CompareKernel(f::Le));

    /// `self > other`, with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 3.0].gt(2.0)?, tensor![false, true; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    gt, gt_ = |a| plan_compare(a, CompareKernel(f::Gt));

    /// `self >= other`, with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].ge(2.0)?, tensor![false, true; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    ge, ge_ = |a| plan_compare(a, CompareKernel(f::Ge));

    /// Whether both are true (not zero), with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 0.0].logical_and(true)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    logical_and, logical_and_ = |_a| Elementwise::same(AND, DType::Bool);

    /// Whether at least one is true (not zero), with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 0.0].logical_or(false)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    logical_or, logical_or_ = |_a| Elementwise::same(OR, DType::Bool);

    /// Whether exactly one is true (not zero), with broadcasting: a `bool` tensor.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 0.0].logical_xor(true)?, tensor![false, true; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    logical_xor, logical_xor_ = |_a| Elementwise::same(XOR, DType::Bool);

    /// `max(self, lo)`: [`Self::clamp`] with a lower bound only.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 2.0].clamp_min(0.0)?, tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    clamp_min, clamp_min_ = |a| plan_num(a, NumKernel(f::Maximum), OR);

    /// `min(self, hi)`: [`Self::clamp`] with an upper bound only.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 2.0].clamp_max(1.0)?, tensor![-1.0, 1.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    clamp_max, clamp_max_ = |a| plan_num(a, NumKernel(f::Minimum), AND);
}
