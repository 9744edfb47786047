//! Functions of three numbers: a point between two others, and products and quotients that are added. Beside them the rectifier
//! with a weight, whose shape is that of a row.

use super::super::arg::{Arg, AsArg, metas_of, result_type};
use super::super::formulas as f;
use super::elementwise::{Elementwise, apply, apply_in_place, unsupported};
use crate::dtype::{DType, Scalar};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::FloatKernel;
use crate::shape::Shape;
use crate::tensor::Tensor;

type Args<'a> = [Arg<'a>; 3];

/// The types of the operands are equal; a number or a 0-d weight takes that of the others.
fn plan_lerp(op: &'static str, args: &Args<'_>) -> Result<Elementwise> {
    let [own, end, weight] = metas_of(args);
    if !own.dtype.is_float() {
        return unsupported(op, own.dtype);
    }
    let free = weight.zero_dim && weight.dtype.is_float();
    for (name, other, free) in [("end", end, false), ("weight", weight, free)] {
        if other.scalar.is_none() && !free && other.dtype != own.dtype {
            return refuse(TensorFacts::MixedDTypes { op, a: ("start", own.dtype), b: (name, other.dtype) });
        }
    }
    Elementwise::same(FloatKernel(f::Lerp), own.dtype)
}

fn plan_addcmul(op: &'static str, args: &Args<'_>, value: Scalar) -> Result<Elementwise> {
    match result_type(&metas_of(args)) {
        DType::Bool => unsupported(op, DType::Bool),
        DType::I64 => Elementwise::same(f::AddMultipleOfProduct(value.to_i64()), DType::I64),
        float => Elementwise::same(FloatKernel(f::AddCMul { value: value.to_f64() }), float),
    }
}

fn plan_addcdiv(op: &'static str, args: &Args<'_>, value: Scalar) -> Result<Elementwise> {
    let quotient = result_type(&[args[1].meta(), args[2].meta()]);
    if !quotient.is_float() {
        return unsupported(op, quotient);
    }
    let dtype = result_type(&metas_of(args));
    Elementwise::same(FloatKernel(f::AddCDiv { value: value.to_f64() }), dtype)
}

macro_rules! triples {
    ($($(#[$doc:meta])* $name:ident, $name_:ident($b:ident, $c:ident $(; $p:ident)?) = |$op:ident, $args:ident| $plan:expr;)*) => {
        /// The meta steps, which no caller compiles again.
        mod plans {
            use super::*;
            $(pub(super) fn $name($op: &'static str, $args: &Args<'_> $(, $p: Scalar)?) -> Result<Elementwise> { $plan })*
        }

        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, $b: impl AsArg, $c: impl AsArg $(, $p: impl Into<Scalar>)?) -> Result<Tensor> {
                let args = [Arg::Tensor(self), $b.arg(), $c.arg()];
                apply(stringify!($name), plans::$name(stringify!($name), &args $(, $p.into())?), &args).here()
            }

            #[doc = concat!("[`Self::", stringify!($name), "`] into this tensor, whose shape and type stay as they are.")]
            ///
            /// # Errors
            /// As the new form; `Expand` or `Broadcast` if another operand does not expand to this shape, `ResultCast` if the
            /// result is of a higher category than this tensor. Nothing is changed then.
            #[track_caller]
            pub fn $name_(&mut self, $b: impl AsArg, $c: impl AsArg $(, $p: impl Into<Scalar>)?) -> Result<&mut Tensor> {
                let others = [$b.arg(), $c.arg()];
                let args = [Arg::Tensor(self), others[0], others[1]];
                let plan = plans::$name(stringify!($name_), &args $(, $p.into())?);
                apply_in_place(stringify!($name_), plan, self, &others).here()?;
                Ok(self)
            }
        )*}
    };
}

triples! {
    /// `self + weight * (end - self)`, with broadcasting: the point between two others; both ends are met exactly.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` for integers and `bool`, `MixedDTypes` if the types
    /// differ. The weight may be a number.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].lerp(&tensor![5.0, 2.0], 0.25)?, tensor![2.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    lerp, lerp_(end, weight) = |op, a| plan_lerp(op, a);

    /// `self + a * b`, with broadcasting; see [`Self::addcmul_with`].
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` if all are `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].addcmul(&tensor![2.0], &tensor![3.0, 4.0])?, tensor![7.0, 9.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    addcmul, addcmul_(a, b) = |op, args| plan_addcmul(op, args, Scalar::I64(1));

    /// `self + value * a * b`, with broadcasting. For integers the fraction of `value` is cut off, and the result wraps.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` if all are `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].addcmul_with(&tensor![2.0], &tensor![3.0, 4.0], 0.5)?, tensor![4.0, 5.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    addcmul_with, addcmul_with_(a, b; value) = |op, args| plan_addcmul(op, args, value);

    /// `self + a / b`, with broadcasting; see [`Self::addcdiv_with`].
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` if neither `a` nor `b` is a float.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].addcdiv(&tensor![6.0], &tensor![3.0, 4.0])?, tensor![3.0, 2.5]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    addcdiv, addcdiv_(a, b) = |op, args| plan_addcdiv(op, args, Scalar::I64(1));

    /// `self + value * a / b`, with broadcasting.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` if neither `a` nor `b` is a float.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].addcdiv_with(&tensor![6.0], &tensor![3.0, 4.0], 2)?, tensor![5.0, 4.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    addcdiv_with, addcdiv_with_(a, b; value) = |op, args| plan_addcdiv(op, args, value);
}

impl Tensor {
    /// `x`, and `weight x` below zero (He, Zhang, Ren and Sun, 2015). A weight of several elements has one for each of axis 1, the
    /// channels.
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`, `MixedDTypes` if the weight is of another type, `Rank` or `ShapeMismatch` if it
    /// is neither one number nor one for each channel.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[2.0, -2.0], [-4.0, -6.0]];
    /// assert_eq!(x.prelu(&tensor![0.5, 0.25])?, tensor![[2.0, -0.5], [-2.0, -1.5]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn prelu(&self, weight: impl AsArg) -> Result<Tensor> {
        prelu(self, weight.arg()).here()
    }
}

fn prelu(x: &Tensor, weight: Arg<'_>) -> Result<Tensor> {
    let weight = weight.tensor(x.dtype());
    let weight = weight.reshape(prelu_weight(x, &weight)?)?;
    let plan = Elementwise::same(FloatKernel(f::PRelu), x.dtype());
    apply("prelu", plan, &[Arg::Tensor(x), Arg::Tensor(&weight)])
}

/// The shape in which the weight of a rectifier broadcasts to its input.
#[doc(hidden)]
pub fn prelu_weight(x: &Tensor, weight: &Tensor) -> Result<Shape> {
    const OP: &str = "prelu";
    if !x.dtype().is_float() {
        return unsupported(OP, x.dtype());
    }
    if weight.dtype() != x.dtype() {
        let (a, b) = (("input", x.dtype()), ("weight", weight.dtype()));
        return refuse(TensorFacts::MixedDTypes { op: OP, a, b });
    }
    if weight.rank() > 1 {
        let found = weight.rank();
        return refuse(TensorFacts::Rank { op: OP, operand: "weight", expected: "0 or 1", found });
    }
    if weight.numel() == 1 {
        return Ok(().into());
    }
    let channels = if x.rank() > 1 { x.dims()[1] } else { 1 };
    if weight.numel() != channels {
        let (expected, found) = ([channels].into(), weight.shape().clone());
        return refuse(TensorFacts::ShapeMismatch { op: OP, operand: "weight", expected, found });
    }
    let mut sizes = vec![1; x.rank() - 1];
    sizes[0] = channels;
    Ok(sizes.into())
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, TensorFacts, refused, tensor};

    #[test]
    fn both_ends_are_met() {
        let (a, b) = (tensor![1e16, -3.0; f64], tensor![1.0, 0.1; f64]);
        assert_eq!(a.lerp(&b, 1).unwrap(), b);
        assert_eq!(a.lerp(&b, 0.0).unwrap(), a);
        let weight = tensor![0.5];
        assert!(refused!(
            a.lerp(&b, &weight),
            TensorFacts::MixedDTypes { op: "lerp", b: ("weight", DType::F32), .. }
        ));
        assert_eq!(a.lerp(&b, weight.sum(..).unwrap()).unwrap(), a.lerp(&b, 0.5).unwrap());
        assert!(refused!(a.lerp(b.float(), 0.5), TensorFacts::MixedDTypes { b: ("end", DType::F32), .. }));
        assert!(refused!(tensor![1; i64].lerp(2, 0.5), TensorFacts::DTypeUnsupported { .. }));
    }

    #[test]
    fn products_of_integers_are_exact_and_wrap() {
        let (zero, one) = (tensor![0; i64], tensor![1; i64]);
        let big = 9_007_199_254_740_993i64;
        assert_eq!(zero.addcmul_with(&one, &one, big).unwrap(), tensor![big; i64]);
        assert_eq!(zero.addcmul_with(&tensor![3; i64], 5, 2.5).unwrap(), tensor![30; i64]);
        assert_eq!(one.addcmul(&tensor![i64::MAX; i64], 2).unwrap(), tensor![-1; i64]);
        let truth = tensor![true];
        assert!(refused!(truth.addcmul(&truth, &truth), TensorFacts::DTypeUnsupported { op: "addcmul", .. }));
        assert_eq!(one.addcmul(&truth, &truth).unwrap(), tensor![2; i64]);
    }

    #[test]
    fn quotients_of_integers_are_refused() {
        let (x, i) = (tensor![1.0], tensor![1; i64]);
        assert!(refused!(x.addcdiv(&i, 2), TensorFacts::DTypeUnsupported { op: "addcdiv", .. }));
        assert!(refused!(
            x.clone().addcdiv_with_(&i, true, 1),
            TensorFacts::DTypeUnsupported { op: "addcdiv_with_", .. }
        ));
        assert_eq!(i.addcdiv(&i, 2.0).unwrap(), tensor![1.5]);
        assert!(refused!(i.clone().addcdiv_(&x, &x), TensorFacts::ResultCast { .. }));
    }

    #[test]
    fn weights_of_rectifiers() {
        let x = Tensor::full([2, 3, 2], -1.0);
        let y = x.prelu(&tensor![1.0, 2.0, 3.0]).unwrap();
        assert_eq!(y.sum([0, 2]).unwrap(), tensor![-4.0, -8.0, -12.0]);
        assert_eq!(x.prelu(0.5).unwrap(), Tensor::full([2, 3, 2], -0.5));
        assert!(refused!(x.prelu(&tensor![1.0, 2.0]), TensorFacts::ShapeMismatch { op: "prelu", .. }));
        assert!(refused!(x.prelu(&tensor![[1.0]]), TensorFacts::Rank { op: "prelu", .. }));
        assert!(refused!(x.prelu(&tensor![1.0; f64]), TensorFacts::MixedDTypes { op: "prelu", .. }));
        assert!(refused!(x.long().prelu(1), TensorFacts::DTypeUnsupported { op: "prelu", .. }));
        let number = x.sum(..).unwrap();
        assert!(number.prelu(&tensor![1.0, 2.0]).is_err());
        assert!(tensor![1.0].prelu(Tensor::zeros([0])).is_err());
        assert_eq!(Tensor::zeros([2, 0]).prelu(Tensor::zeros([0])).unwrap(), Tensor::zeros([2, 0]));
    }
}
