//! Numbers that are none, and infinite ones: found, and replaced.

use super::super::arg::{Arg, Meta};
use super::super::formulas as f;
use super::super::warning;
use super::elementwise::{Elementwise, IDENTITY, apply, apply_in_place};
use super::unary::{unary, with_numbers};
use crate::dtype::DType;
use crate::error::{Here, Result, or_panic};
use crate::kernels::{FloatKernel, NumKernel, NumberKind};
use crate::tensor::Tensor;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $kind:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                let (kernel, compute) = (Box::new(NumberKind::$kind), self.dtype().to_float());
                let plan = Elementwise { kernel, compute, out: DType::Bool, lists: warning::Lists::Idiom };
                or_panic(apply(stringify!($name), Ok(plan), &[Arg::Tensor(self)]))
            }
        )*}
    };
}

kinds! {
    /// Whether each element is NaN: a `bool` tensor.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![f32::NAN, f32::INFINITY, 1.0].isnan(), tensor![true, false, false]);
    /// ```
    #[doc(alias = "is_nan")]
    isnan = Nan;

    /// Whether each element is infinite: a `bool` tensor.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![f32::NAN, f32::INFINITY, 1.0].isinf(), tensor![false, true, false]);
    /// ```
    #[doc(alias = "is_infinite")]
    isinf = Infinite;

    /// Whether each element is neither NaN nor infinite: a `bool` tensor.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![f32::NAN, f32::INFINITY, 1.0].isfinite(), tensor![false, false, true]);
    /// ```
    #[doc(alias = "is_finite")]
    isfinite = Finite;
}

unary! {
    /// 0 in the place of NaN, and the largest and the smallest number of the type in the place of the infinities. Integers and
    /// `bool` stay what they are.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![f32::NAN, f32::INFINITY, 1.0].nan_to_num(), tensor![0.0, f32::MAX, 1.0]);
    /// ```
    nan_to_num, nan_to_num_ = |a| {
        let most = if a.dtype == DType::F32 { f32::MAX.into() } else { f64::MAX };
        plan_replace(a, 0.0, most, -most)
    };
}

with_numbers! {
    /// These numbers in the place of NaN, of infinity and of minus infinity. Integers and `bool` stay what they are.
    ///
    /// # Errors
    /// None today; the signature is that of its relatives.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![f32::NAN, f32::INFINITY].nan_to_num_with(1.0, 2.0, 3.0)?, tensor![1.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    nan_to_num_with, nan_to_num_with_(nan: f64, posinf: f64, neginf: f64) = |op, a| {
        let _ = op;
        plan_replace(a, nan, posinf, neginf)
    };
}

fn plan_replace(a: Meta, nan: f64, posinf: f64, neginf: f64) -> Result<Elementwise> {
    match a.dtype {
        DType::Bool => Elementwise::same(IDENTITY, a.dtype),
        // Integers are whole.
        DType::I64 => Elementwise::same(NumKernel(f::Floor), a.dtype),
        float => Elementwise::same(FloatKernel(f::NanToNum { nan, posinf, neginf }), float),
    }
}

#[cfg(test)]
mod tests {
    use crate::tensor;

    #[test]
    fn the_extremes_are_those_of_the_type() {
        let x = tensor![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0; f64];
        assert_eq!(x.nan_to_num(), tensor![0.0, f64::MAX, f64::MIN, 0.0; f64]);
        assert_eq!(x.float().nan_to_num(), tensor![0.0, f32::MAX, f32::MIN, 0.0]);
        // What the type does not hold is infinite.
        assert_eq!(x.float().nan_to_num_with(0.0, 1e300, 1).unwrap(), tensor![0.0, f32::INFINITY, 1.0, 0.0]);
        assert_eq!(tensor![7, -7; i64].nan_to_num(), tensor![7, -7; i64]);
        assert_eq!(tensor![true].nan_to_num_with(0, 0, 0).unwrap(), tensor![true]);
    }

    #[test]
    fn integers_and_truth_values_are_finite() {
        let (i, b) = (tensor![i64::MAX, 0; i64], tensor![true, false]);
        assert_eq!(
            [i.isfinite(), i.isnan(), i.isinf()],
            [tensor![true, true], tensor![false, false], tensor![false, false]]
        );
        assert_eq!(
            [b.isfinite(), b.isnan(), b.isinf()],
            [tensor![true, true], tensor![false, false], tensor![false, false]]
        );
    }
}
