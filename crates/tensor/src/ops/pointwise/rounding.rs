//! Whole numbers near a number, and what is left.

use super::super::arg::{Arg, Meta};
use super::super::formulas as f;
use super::elementwise::{Elementwise, apply, apply_in_place, plan_float_only, plan_no_bool};
use super::unary::{unary, with_numbers};
use crate::error::{Here, Result, or_panic};
use crate::kernels::{FloatKernel, NumKernel};
use crate::tensor::Tensor;

unary! {
    /// The largest whole number not above each element. Integers stay what they are.
    ///
    /// # Panics
    /// For `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.5, -1.5].floor(), tensor![1.0, -2.0]);
    /// ```
    floor, floor_, try_floor = |a| plan_no_bool("floor", a, NumKernel(f::Floor));

    /// The smallest whole number not below each element. Integers stay what they are.
    ///
    /// # Panics
    /// For `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.5, -1.5].ceil(), tensor![2.0, -1.0]);
    /// ```
    ceil, ceil_, try_ceil = |a| plan_no_bool("ceil", a, NumKernel(f::Ceil));

    /// The nearest whole number, the even one where two are as near. Integers stay what they are.
    ///
    /// # Panics
    /// For `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.5, 1.5, -2.7].round(), tensor![0.0, 2.0, -3.0]);
    /// ```
    #[doc(alias = "rint")]
    round, round_, try_round = |a| plan_no_bool("round", a, NumKernel(f::Round));

    /// The whole number next to each element towards zero. Integers stay what they are.
    ///
    /// # Panics
    /// For `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.5, -1.5].trunc(), tensor![1.0, -1.0]);
    /// ```
    #[doc(alias = "fix")]
    trunc, trunc_, try_trunc = |a| plan_no_bool("trunc", a, NumKernel(f::Trunc));

    /// What [`Self::trunc`] takes off, which has the sign of the element.
    ///
    /// # Panics
    /// For integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.5, -1.25].frac(), tensor![0.5, -0.25]);
    /// ```
    #[doc(alias = "fract")]
    frac, frac_, try_frac = |a| plan_float_only("frac", a, FloatKernel(f::Frac));
}

with_numbers! {
    /// Rounded to so many places behind the point, or, where that is negative, to tens, hundreds, ...: the number times a
    /// power of ten, rounded as by [`Self::round`], and divided again.
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.125, 25.0].round_with(2)?, tensor![0.12, 25.0]);
    /// assert_eq!(tensor![0.125, 25.0].round_with(-1)?, tensor![0.0, 20.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[doc(alias = "decimals")]
    round_with, round_with_(decimals: i32) = |op, a| plan_round(op, a, decimals);
}

fn plan_round(op: &'static str, a: Meta, decimals: i32) -> Result<Elementwise> {
    let unit = 10f64.powf(decimals.unsigned_abs().into());
    match decimals {
        0 => plan_float_only(op, a, NumKernel(f::Round)),
        1.. => plan_float_only(op, a, FloatKernel(f::RoundToPlaces { unit })),
        _ => plan_float_only(op, a, FloatKernel(f::RoundToUnits { unit })),
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, TensorFacts, refused, tensor};

    #[test]
    fn halves_go_to_the_even_neighbour() {
        let x = tensor![-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.4999; f64];
        assert_eq!(x.round(), tensor![-2.0, -2.0, 0.0, 0.0, 2.0, 2.0, 3.0; f64]);
        assert!(x.round().to_vec::<f64>().unwrap()[2].is_sign_negative());
        assert_eq!(tensor![15.0, 25.0, -150.0].round_with(-1).unwrap(), tensor![20.0, 20.0, -150.0]);
        assert!(tensor![1.0].round_with(400).unwrap().to_vec::<f32>().unwrap()[0].is_nan());
    }

    #[test]
    fn integers_are_whole_and_truth_values_no_numbers() {
        let (i, b) = (tensor![i64::MAX, -3; i64], tensor![true; bool]);
        assert_eq!([i.floor(), i.ceil(), i.round(), i.trunc()], [(); 4].map(|()| i.clone()));
        for r in [b.try_floor(), b.try_ceil(), b.try_round(), b.try_trunc(), b.try_frac(), b.round_with(0)] {
            assert!(refused!(r, TensorFacts::DTypeUnsupported { dtype: DType::Bool, .. }));
        }
        assert!(refused!(i.try_frac(), TensorFacts::DTypeUnsupported { op: "frac", .. }));
        assert!(refused!(i.clone().round_with_(0), TensorFacts::DTypeUnsupported { op: "round_with_", .. }));
    }
}
