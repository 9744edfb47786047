//! Functions of two numbers that are neither arithmetic nor comparisons.

use super::super::arg::{AsArg, Meta, result_type};
use super::super::formulas as f;
use super::binary::binary;
use super::elementwise::{AND, Elementwise, OR, plan_num, plan_real, unsupported};
use crate::error::{Here, Result};
use crate::kernels::{BlockKernel, CopysignKernel, FloatKernel, NumKernel};
use crate::tensor::Tensor;

/// A function that only floating-point operands have.
fn plan_floats(op: &'static str, args: &[Meta], kernel: impl BlockKernel + 'static) -> Result<Elementwise> {
    let dtype = result_type(args);
    if dtype.is_float() { Elementwise::same(kernel, dtype) } else { unsupported(op, dtype) }
}

binary! {
    /// The larger of two elements, with broadcasting, where NaN is no number to compare with: the other one is taken.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![f32::NAN, 5.0].fmax(3.0)?, tensor![3.0, 5.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    fmax, fmax_ = |a| plan_num(a, NumKernel(f::Fmax), OR);

    /// The smaller of two elements, with broadcasting, where NaN is no number to compare with: the other one is taken.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![f32::NAN, 5.0].fmin(3.0)?, tensor![3.0, 3.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    fmin, fmin_ = |a| plan_num(a, NumKernel(f::Fmin), AND);

    /// The angle of the point `(other, self)`, between -pi and pi, with broadcasting. Integers become the default float.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![1.0, -1.0].atan2(-1.0)?, tensor![2.356_194_5, -2.356_194_5]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[doc(alias = "arctan2")]
    atan2, atan2_ = |a| plan_real(a, FloatKernel(f::Atan2));

    /// `sqrt(self^2 + other^2)`, with broadcasting, whose squares neither overflow nor vanish.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 3e30].hypot(&tensor![4.0, 4e30])?, tensor![5.0, 5e30]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    hypot, hypot_ = |a| plan_floats("hypot", a, FloatKernel(f::Hypot));

    /// `|self|` with the sign of `other`, be it that of a zero, with broadcasting. Integers become the default float.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, -2.0].copysign(&tensor![-0.0, 3.0])?, tensor![-1.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    copysign, copysign_ = |a| plan_real(a, CopysignKernel);

    /// `ln(exp(self) + exp(other))`, with broadcasting, where no exponential overflows.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![1000.0].logaddexp(1000.0)?, tensor![1000.693_1]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    logaddexp, logaddexp_ = |a| plan_floats("logaddexp", a, FloatKernel(f::LogAddExp));

    /// `self ln(other)`, and 0 where `self` is 0, with broadcasting. Integers become the default float.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![0.0, 2.0].xlogy(&tensor![0.0, 3.0])?, tensor![0.0, 2.197_224_6]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    xlogy, xlogy_ = |a| plan_real(a, FloatKernel(f::XLogY));
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, TensorFacts, refused, tensor};

    const NUMBERS: [f64; 11] =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -2.5, 1e-310, -1e300, 3.0, 0.4];

    /// All pairs, each beside what the standard library makes of it.
    fn pairs(ours: impl Fn(&Tensor, &Tensor) -> Tensor, std: impl Fn(f64, f64) -> f64, ulps: u64) {
        let (a, b): (Vec<f64>, Vec<f64>) =
            NUMBERS.into_iter().flat_map(|a| NUMBERS.into_iter().map(move |b| (a, b))).unzip();
        let tensor = |v: &[f64]| Tensor::from_vec(v.to_vec(), [v.len()]).unwrap();
        let found = ours(&tensor(&a), &tensor(&b)).to_vec::<f64>().unwrap();
        for ((a, b), y) in a.into_iter().zip(b).zip(found) {
            let want = std(a, b);
            let near = y.to_bits().abs_diff(want.to_bits()) <= ulps;
            assert!(near || y.is_nan() && want.is_nan(), "of {a:e} and {b:e}: {y:e}, not {want:e}");
        }
    }

    #[test]
    fn special_numbers_are_those_of_the_standard_library() {
        pairs(|y, x| y.atan2(x).unwrap(), f64::atan2, 3);
        pairs(|a, b| a.hypot(b).unwrap(), f64::hypot, 3);
        pairs(|a, b| a.copysign(b).unwrap(), f64::copysign, 0);
    }

    #[test]
    fn angles_and_lengths_are_accurate_everywhere() {
        let mut random = crate::random::Generator::new(7);
        let n = [20_000];
        let mut draw =
            || &random.randn_with(n, DType::F64) * &(&random.randn_with(n, DType::F64) * 40.0).exp2();
        let (a, b) = (draw(), draw());
        let numbers = |t: &Tensor| t.to_vec::<f64>().unwrap();
        let [angles, lengths] = [a.atan2(&b), a.hypot(&b)].map(|t| numbers(&t.unwrap()));
        for (i, (a, b)) in numbers(&a).into_iter().zip(numbers(&b)).enumerate() {
            for (name, y, want) in [("atan2", angles[i], a.atan2(b)), ("hypot", lengths[i], a.hypot(b))] {
                assert!(
                    y.to_bits().abs_diff(want.to_bits()) <= 3,
                    "{name}({a:e}, {b:e}) = {y:e}, not {want:e}"
                );
            }
        }
    }

    #[test]
    fn the_first_of_equal_ones_is_taken() {
        let (x, other) = (tensor![0.0, -0.0], tensor![-0.0, 0.0]);
        let pairs = [x.fmax(&other), x.fmin(&other), x.maximum(&other), x.minimum(&other)];
        let zero =
            [x.maximum(0), x.minimum(0), x.clamp(0, 0), x.clamp(&other, &other), x.hardtanh_with(0, 0)];
        for y in pairs.into_iter().chain(zero).chain([x.try_relu()]) {
            assert_eq!(y.unwrap().to_vec::<f32>().unwrap().map_signs(), [false, true]);
        }
        let (i, b) = (tensor![3, -4; i64], tensor![true, false]);
        assert_eq!(i.fmax(&tensor![0; i64]).unwrap(), tensor![3, 0; i64]);
        assert_eq!(b.fmin(true).unwrap(), b);
    }

    /// Bounds that are numbers are not read as those are that lie in tensors.
    #[test]
    fn numbers_bound_as_tensors_do() {
        let specials = [0.0, -0.0, 0.25, -3.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let x = Tensor::from_vec(specials.repeat(9).to_vec(), [63]).unwrap();
        for dtype in [DType::F32, DType::F64, DType::I64, DType::Bool] {
            let x = if dtype.is_float() { x.to(dtype) } else { tensor![-4, 0, 1, 7].to(dtype) };
            for lo in specials {
                for hi in specials {
                    let [low, high] = [lo, hi].map(|v| {
                        Tensor::full_with([], v, if dtype == DType::F64 { dtype } else { DType::F32 })
                    });
                    let (found, want) = (x.clamp(lo, hi).unwrap(), x.clamp(&low, &high).unwrap());
                    assert_eq!(found.dtype(), want.dtype());
                    let bits = |t: &Tensor| -> Vec<u64> {
                        let values = t.double().to_vec::<f64>().unwrap().into_iter();
                        values.map(|v| if v.is_nan() { u64::MAX } else { v.to_bits() }).collect()
                    };
                    assert_eq!(bits(&found), bits(&want), "{dtype} between {lo} and {hi}");
                }
            }
        }
        assert_eq!(tensor![-4, 7; i64].clamp(-1, i64::MAX).unwrap(), tensor![-1, 7; i64]);
        assert!(tensor![true].clamp(false, true).is_err());
    }

    trait Signs {
        fn map_signs(self) -> Vec<bool>;
    }
    impl Signs for Vec<f32> {
        fn map_signs(self) -> Vec<bool> {
            self.into_iter().map(f32::is_sign_negative).collect()
        }
    }

    #[test]
    fn infinities_that_are_equal_and_logarithms_of_zero() {
        let inf = f32::INFINITY;
        assert_eq!(tensor![inf, -inf].logaddexp(&tensor![inf, -inf]).unwrap(), tensor![inf, -inf]);
        assert_eq!(tensor![0.0, 0.0, 0.0].xlogy(&tensor![0.0, -1.0, inf]).unwrap(), tensor![0.0, 0.0, 0.0]);
        assert!(tensor![0.0].xlogy(f32::NAN).unwrap().isnan().item_as::<bool>().unwrap());
    }

    #[test]
    fn integers_become_floats_or_are_refused() {
        let (i, b) = (tensor![1, 0; i64], tensor![true, false]);
        assert_eq!(i.xlogy(1).unwrap(), tensor![0.0, 0.0]);
        assert_eq!(b.copysign(-1).unwrap(), tensor![-1.0, 0.0]);
        assert_eq!(b.atan2(&b).unwrap().dtype(), DType::F32);
        assert!(refused!(i.hypot(&i), TensorFacts::DTypeUnsupported { op: "hypot", .. }));
        assert!(refused!(b.clone().logaddexp_(&i), TensorFacts::DTypeUnsupported { op: "logaddexp_", .. }));
        assert!(i.hypot(0.5).is_ok());
        assert!(refused!(i.clone().atan2_(1), TensorFacts::ResultCast { .. }));
    }
}
