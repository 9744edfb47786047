//! Activations with kinks or settings of their own; the smooth ones without settings are in `unary.rs`.

use super::super::arg::{Arg, Meta};
use super::super::formulas as f;
use super::elementwise::{Elementwise, apply, apply_in_place, plan_float_only, plan_no_bool, unsupported};
use super::unary::{unary, with_numbers};
use crate::dtype::DType;
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::kernels::{FloatKernel, NumKernel};
use crate::tensor::Tensor;

unary! {
    /// `x`, and `exp(x) - 1` below zero, the exponential linear unit (Clevert, Unterthiner and Hochreiter, 2016); see
    /// [`Self::elu_with`].
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![2.0, -1.0].elu(), tensor![2.0, -0.632_120_55]);
    /// ```
    elu, elu_, try_elu = |a| plan_float_only("elu", a, FloatKernel(f::Elu { above: 1.0, below: 1.0, inner: 1.0 }));

    /// [`Self::elu`] with the scales that keep mean and variance (Klambauer, Unterthiner, Mayr and Hochreiter, 2017).
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![2.0, -1.0].selu(), tensor![2.101_402, -1.111_330_7]);
    /// ```
    selu, selu_, try_selu = |a| plan_float_only("selu", a, FloatKernel(f::Elu { above: f::SELU.0, below: f::SELU.1, inner: 1.0 }));

    /// [`Self::elu`], which [`Self::celu_with`] stretches in another way than [`Self::elu_with`].
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![2.0, -1.0].celu(), tensor![2.0, -0.632_120_55]);
    /// ```
    celu, celu_, try_celu = |a| plan_float_only("celu", a, FloatKernel(f::Elu { above: 1.0, below: 1.0, inner: 1.0 }));

    /// `x`, and `x / 100` below zero; see [`Self::leaky_relu_with`].
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0, -1.0].leaky_relu(), tensor![2.0, -0.01]);
    /// ```
    leaky_relu, leaky_relu_, try_leaky_relu = |a| plan_float_only("leaky_relu", a, FloatKernel(f::LeakyRelu { slope: 0.01 }));

    /// `x` between -1 and 1, which are the results beyond; see [`Self::hardtanh_with`].
    ///
    /// # Panics
    /// For `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.5, -3.0].hardtanh(), tensor![0.5, -1.0]);
    /// ```
    hardtanh, hardtanh_, try_hardtanh = |a| plan_no_bool("hardtanh", a, NumKernel(f::HardTanh { lo: -1.0, hi: 1.0 }));

    /// `(x + 3) / 6` between 0 and 1, which are the results beyond.
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0, -4.0].hardsigmoid(), tensor![0.5, 0.0]);
    /// ```
    hardsigmoid, hardsigmoid_, try_hardsigmoid = |a| plan_float_only("hardsigmoid", a, FloatKernel(f::HardSigmoid));

    /// `x` times [`Self::hardsigmoid`] (Howard and others, 2019).
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 1.5, -4.0].hardswish(), tensor![3.0, 1.125, 0.0]);
    /// ```
    hardswish, hardswish_, try_hardswish = |a| plan_float_only("hardswish", a, FloatKernel(f::HardSwish));

    /// `x tanh(softplus(x))` (Misra, 2020).
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![1.0, 0.0].mish(), tensor![0.865_098_4, 0.0]);
    /// ```
    mish, mish_, try_mish = |a| plan_float_only("mish", a, FloatKernel(f::Mish));

    /// The logarithm of [`Self::sigmoid`], accurate for either sign.
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![0.0, -1000.0].logsigmoid(), tensor![-0.693_147_2, -1000.0]);
    /// ```
    #[doc(alias = "log_sigmoid")]
    logsigmoid, logsigmoid_, try_logsigmoid = |a| plan_float_only("logsigmoid", a, FloatKernel(f::LogSigmoid));

    /// `x / (1 + |x|)`. Integers become the default float.
    ///
    /// # Panics
    /// For `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, -3.0].softsign(), tensor![0.5, -0.75]);
    /// ```
    softsign, softsign_, try_softsign = |a| match a.dtype {
        DType::Bool => unsupported("softsign", a.dtype),
        number => Elementwise::same(FloatKernel(f::Softsign), number.to_float()),
    };
}

with_numbers! {
    /// `x`, and `alpha (exp(x) - 1)` below zero.
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![2.0, -1.0].elu_with(2)?, tensor![2.0, -1.264_241_1]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    elu_with, elu_with_(alpha: f64) =
        |op, a| plan_float_only(op, a, FloatKernel(f::Elu { above: 1.0, below: alpha, inner: 1.0 }));

    /// `x`, and `alpha (exp(x / alpha) - 1)` below zero, which has no kink for any alpha (Barron, 2017).
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`, `Parameter` for an alpha of 0.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![2.0, -1.0].celu_with(2)?, tensor![2.0, -0.786_938_7]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    celu_with, celu_with_(alpha: f64) = |op, a| plan_celu(op, a, alpha);

    /// `x`, and `slope x` below zero. At zero its own slope is that of the left side.
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0, -1.0].leaky_relu_with(0.5)?, tensor![2.0, -0.5]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[doc(alias = "negative_slope")]
    leaky_relu_with, leaky_relu_with_(slope: f64) =
        |op, a| plan_float_only(op, a, FloatKernel(f::LeakyRelu { slope }));

    /// `x` between two numbers, which are the results beyond. Integers stay integers, for which the bounds are cut off.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `bool`, `Parameter` if the bounds cross, or if one is NaN and the elements are integers.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.5, -3.0].hardtanh_with(-2, 2)?, tensor![0.5, -2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    hardtanh_with, hardtanh_with_(lo: f64, hi: f64) = |op, a| plan_hardtanh(op, a, lo, hi);
}

fn plan_celu(op: &'static str, a: Meta, alpha: f64) -> Result<Elementwise> {
    if alpha == 0.0 {
        let value = alpha.to_string();
        return refuse(TensorFacts::Parameter {
            op,
            name: "alpha",
            value,
            expected: "a number other than 0",
        });
    }
    plan_float_only(op, a, FloatKernel(f::Elu { above: 1.0, below: alpha, inner: 1.0 / alpha }))
}

fn plan_hardtanh(op: &'static str, a: Meta, lo: f64, hi: f64) -> Result<Elementwise> {
    if lo > hi {
        let value = format!("{lo} with hi = {hi}");
        return refuse(TensorFacts::Parameter {
            op,
            name: "lo",
            value,
            expected: "a bound that is at most the other",
        });
    }
    if a.dtype == DType::I64 && (lo.is_nan() || hi.is_nan()) {
        let value = format!("{lo} with hi = {hi}");
        return refuse(TensorFacts::Parameter {
            op,
            name: "lo",
            value,
            expected: "numbers, as the elements are integers",
        });
    }
    plan_no_bool(op, a, NumKernel(f::HardTanh { lo, hi }))
}

#[cfg(test)]
mod tests {
    use crate::{Kind, TensorFacts, refused, tensor};

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let (mut x, i) = (tensor![1.0], tensor![1, -7; i64]);
        assert!(refused!(x.celu_with(0), TensorFacts::Parameter { op: "celu_with", name: "alpha", .. }));
        assert!(refused!(x.celu_with_(-0.0), TensorFacts::Parameter { op: "celu_with_", .. }));
        assert!(refused!(x.hardtanh_with(1, -1), TensorFacts::Parameter { name: "lo", .. }));
        assert_eq!(i.hardtanh_with(f64::NAN, 1).unwrap_err().kind(), Kind::Argument);
        assert_eq!(i.hardtanh_with(-2.5, 0.5).unwrap(), tensor![0, -2; i64]);
        assert!(x.hardtanh_with(f64::NAN, 1).unwrap().isnan().all(..).unwrap().item_as::<bool>().unwrap());
    }

    #[test]
    fn types_without_these_functions() {
        let (i, b) = (tensor![1; i64], tensor![true]);
        for r in [
            i.try_elu(),
            i.try_selu(),
            i.try_celu(),
            i.try_leaky_relu(),
            i.try_hardsigmoid(),
            i.try_hardswish(),
        ] {
            assert!(refused!(r, TensorFacts::DTypeUnsupported { .. }));
        }
        for r in [
            i.try_mish(),
            i.try_logsigmoid(),
            b.try_hardtanh(),
            b.try_softsign(),
            i.elu_with(1),
            i.leaky_relu_with(1),
        ] {
            assert!(refused!(r, TensorFacts::DTypeUnsupported { .. }));
        }
        assert_eq!(i.softsign(), tensor![0.5]);
    }

    #[test]
    fn far_out_nothing_overflows() {
        let x = tensor![-1e300, -800.0, 800.0, 1e300; f64];
        assert_eq!(x.mish(), tensor![0.0, 0.0, 800.0, 1e300; f64]);
        assert_eq!(x.logsigmoid(), tensor![-1e300, -800.0, 0.0, 0.0; f64]);
        assert_eq!(x.elu_with(3.0).unwrap(), tensor![-3.0, -3.0, 800.0, 1e300; f64]);
        assert_eq!(x.softsign().round(), tensor![-1.0, -1.0, 1.0, 1.0; f64]);
    }
}
