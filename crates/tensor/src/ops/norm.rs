//! Norms over any axes.

use super::formulas as f;
use super::reduce::{Kept, expect_float};
use crate::axes::Over;
use crate::error::{Here, Result};
use crate::kernels::{BlockKernel, FloatKernel, FloatOps, Formula, NumKernel, Real};
use crate::task::{Read, Reduce};
use crate::tensor::Tensor;

/// # Norms
impl Tensor {
    /// The Euclidean norm over `axes`: the square root of the sum of squares. The norm of nothing is 0.
    ///
    /// # Errors
    /// `AxisOutOfRange`, `DuplicateAxis`; `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[3.0, 4.0], [0.0, 2.0]].norm(1)?, tensor![5.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "vector_norm")]
    pub fn norm(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.norm_with(over, 2.0)
    }

    /// The `p`-norm over `axes`: `sum(|x| ** p) ** (1 / p)` for any `p`; for 0 how many elements are not zero, for
    /// infinity the largest absolute value, for minus infinity the smallest. Of one element the absolute value, for any `p` but 0.
    ///
    /// # Errors
    /// As [`Self::norm`]; `EmptyReduction` for a negative or infinite `p` over nothing.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![3.0, -4.0, 0.0];
    /// assert_eq!(x.norm_with(.., 1)?.item()?, 7.0);
    /// assert_eq!(x.norm_with(.., 0)?.item()?, 2.0);
    /// assert_eq!(x.norm_with(.., f64::INFINITY)?.item()?, 4.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn norm_with(&self, over: impl Into<Over>, p: impl Into<f64>) -> Result<Tensor> {
        self.p_norm(&over.into(), p.into()).here()
    }

    fn p_norm(&self, over: &Over, p: f64) -> Result<Tensor> {
        let (op, dtype) = ("norm", self.dtype());
        expect_float(op, self)?;
        let kept = Kept::new(op, self, over)?;
        // Powers of a single number could overflow or vanish.
        let p = if p != 0.0 && kept.count == 1 { 1.0 } else { p };
        if p < 0.0 || p == f64::INFINITY {
            kept.expect_elements(op, self)?;
        }
        let reduce = match p {
            f64::INFINITY => Reduce::Max,
            f64::NEG_INFINITY => Reduce::Min,
            _ => Reduce::Sum,
        };
        let kernel: &dyn BlockKernel = match p {
            0.0 => &FloatKernel(NotZero),
            2.0 => &NumKernel(f::Square),
            _ if p == 1.0 || p.is_infinite() => &NumKernel(f::Abs),
            _ => &FloatKernel(AbsPower(p)),
        };
        let folded = kept.fold(reduce, Some(kernel), &[Read::Tensor(self, dtype)], self.shape(), dtype)?;
        match p {
            2.0 => Ok(folded.sqrt()),
            _ if p == 0.0 || p == 1.0 || p.is_infinite() => Ok(folded),
            _ => folded.pow(1.0 / p).map_err(|e| e.named(op)),
        }
    }

    /// How many elements over `axes` are not zero: `I64`. NaN is not zero. For nothing 0.
    ///
    /// # Errors
    /// `AxisOutOfRange` or `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[0.0, 1.0], [2.0, 3.0]].count_nonzero(1)?, tensor![1, 2; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn count_nonzero(&self, over: impl Into<Over>) -> Result<Tensor> {
        let over = over.into();
        self.true_ones("count_nonzero", Reduce::Sum, over.axes(), over.keepdim()).here()
    }
}

/// 1 where a number is not zero, NaN among them.
#[derive(Clone, Copy)]
struct NotZero;
impl Formula<1> for NotZero {
    #[inline(always)]
    fn eval<R: Real>(&self, [a]: [R; 1]) -> R
    where
        f64: FloatOps<R>,
    {
        R::select(a.eq(R::lit(0.0)), R::lit(0.0), R::lit(1.0))
    }
}

/// `|a| ** p`
#[derive(Clone, Copy)]
struct AbsPower(f64);
impl Formula<1> for AbsPower {
    #[inline(always)]
    fn eval<R: Real>(&self, [a]: [R; 1]) -> R
    where
        f64: FloatOps<R>,
    {
        a.abs().pow(R::lit(self.0))
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, TensorFacts, keep, refused, tensor};

    const INF: f64 = f64::INFINITY;

    #[test]
    fn every_order_follows_the_definition() {
        let x = tensor![[1.0, -2.0, 0.0], [0.5, 3.0, -4.0]; f64];
        for (p, want) in [(0.0, 3.0), (1.0, 7.5), (INF, 4.0), (-INF, 0.5)] {
            assert_eq!(x.norm_with(1, p).unwrap().select(0, 1).unwrap().item().unwrap(), want, "{p}");
        }
        for p in [0.5, 1.5, 2.0, 3.0, -1.0, -2.5] {
            let row = x.select(0, 1).unwrap();
            let want = row.abs().pow(p).unwrap().sum(..).unwrap().pow(1.0 / p).unwrap();
            crate::assert_close!(row.norm_with(.., p).unwrap(), want, rtol = 1e-14, atol = 0.0);
            let turned = x.t().contiguous().t().norm_with(keep(0), p).unwrap();
            assert_eq!(turned, x.norm_with(keep(0), p).unwrap());
        }
        assert_eq!(x.norm_with(0, -1.0).unwrap().select(0, 2).unwrap().item().unwrap(), 0.0);
    }

    #[test]
    fn special_numbers() {
        let n = |x: Tensor, p: f64| x.norm_with(.., p).unwrap().item().unwrap();
        for p in [0.5, 1.0, 2.0, 3.0, INF, -INF, -1.0] {
            assert!(n(tensor![f32::NAN, 1.0], p).is_nan(), "{p}");
        }
        assert_eq!(n(tensor![f32::NAN, 0.0], 0.0), 1.0);
        for p in [1.0, 2.0, 0.5, INF] {
            assert_eq!(n(tensor![f32::NEG_INFINITY, 1.0], p), INF);
            assert_eq!(n(tensor![0.0, -0.0], p), 0.0);
        }
        assert!(n(tensor![1.0, 2.0], f64::NAN).is_nan());
        let small_and_large = tensor![[1e-25, -3e19, 0.0]];
        for p in [0.5, 1.0, 2.0, 3.0, INF, -1.0, -INF] {
            assert_eq!(small_and_large.norm_with(0, p).unwrap(), tensor![1e-25, 3e19, 0.0], "{p}");
        }
        assert_eq!(small_and_large.norm_with(0, 0.0).unwrap(), tensor![1.0, 1.0, 0.0]);
    }

    #[test]
    fn nothing_types_and_refusals() {
        let none = Tensor::zeros([0, 2]);
        assert_eq!(none.norm(..).unwrap().item().unwrap(), 0.0);
        assert_eq!(none.norm_with(0, 3).unwrap(), tensor![0.0, 0.0]);
        assert_eq!(none.norm_with(1, INF).unwrap().dims(), [0]);
        for p in [INF, -INF, -1.0] {
            assert!(refused!(none.norm_with(0, p), TensorFacts::EmptyReduction { op: "norm", .. }));
        }
        assert_eq!(tensor![3.0, 4.0; f64].norm(0).unwrap().dtype(), DType::F64);
        assert!(refused!(tensor![1; i64].norm(..), TensorFacts::DTypeUnsupported { op: "norm", .. }));
        assert!(refused!(tensor![1.0].norm([0, 0]), TensorFacts::DuplicateAxis { op: "norm", .. }));
        assert!(refused!(tensor![1.0].norm_with(1, 0), TensorFacts::AxisOutOfRange { op: "norm", .. }));
    }

    #[test]
    fn what_is_not_zero_is_counted() {
        let x = tensor![[0.0, -0.0, f32::NAN], [1.0, 0.0, 1e-45]];
        assert_eq!(x.count_nonzero(1).unwrap(), tensor![1, 2; i64]);
        assert_eq!(x.count_nonzero([] as [i32; 0]).unwrap().item().unwrap(), 3.0);
        assert_eq!(x.bool().count_nonzero(keep(0)).unwrap(), tensor![[1, 0, 2]; i64]);
        assert_eq!(tensor![0, 7; i64].count_nonzero(0).unwrap().item().unwrap(), 1.0);
        assert_eq!(Tensor::zeros([0, 2]).count_nonzero(0).unwrap(), tensor![0, 0; i64]);
        assert!(refused!(x.count_nonzero([0, -2]), TensorFacts::DuplicateAxis { op: "count_nonzero", .. }));
    }
}
