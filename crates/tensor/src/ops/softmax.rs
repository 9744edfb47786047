//! Softmax and its logarithm, and the logarithm of a sum of exponentials, each shifted by the largest element.
//!
//! Along the last axis a row is worked on while it is in the cache (the file `rows`). Otherwise a fold finds the largest
//! element, a second one sums the exponentials without storing them, and one pointwise pass writes the result.

use super::formulas::real;
use super::reduce::Kept;
use super::rows::{self, Kind};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernels::{FloatKernel, FloatOps, Formula, Num, Real};
use crate::shape::Axes;
use crate::task::{self, Read, Reduce};
use crate::tensor::Tensor;

real! {
    pub(crate) formulas;
    Shifted(x, m) = (x - m).exp();
    Share(x, m, s) = (x - m).exp() / s;
    LogShare(x, m, l) = x - m - l;
    Ln(s) = s.ln();
    Unshifted(s, m) = s.ln() + m;
    FiniteOrZero(m) = R::select(Num::eq(m.abs(), R::lit(f64::INFINITY)), R::lit(0.0), m);
}

impl Tensor {
    /// `exp(x) / sum(exp(x))` along an axis, computed as `exp(x - m) / sum(exp(x - m))` with `m` the largest element.
    ///
    /// The result has the same shape and element type, `F32` or `F64`. A row that holds NaN or +inf, or nothing but -inf,
    /// is NaN, as in PyTorch.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `Bool` and `I64`, `AxisOutOfRange`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[0.0, 0.0], [1000.0, 1000.0]];
    /// assert_eq!(x.softmax(1)?, tensor![[0.5, 0.5], [0.5, 0.5]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn softmax(&self, axis: isize) -> Result<Tensor> {
        self.normalised("softmax", Kind::Softmax, axis, |x, m, s, dtype| {
            let operands = [x, Read::Tensor(m, dtype), Read::Tensor(s, dtype)];
            task::map("softmax", &FloatKernel(Share), &operands, self.shape(), dtype)
        })
    }

    /// `ln(softmax(x))` along an axis, computed as `x - m - ln(sum(exp(x - m)))`, which stays finite where the share
    /// itself is too small for a number.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `Bool` and `I64`, `AxisOutOfRange`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0, -1000.0].log_softmax(0)?, tensor![0.0, -1000.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn log_softmax(&self, axis: isize) -> Result<Tensor> {
        self.normalised("log_softmax", Kind::LogSoftmax, axis, |x, m, s, dtype| {
            let l = task::map("log_softmax", &FloatKernel(Ln), &[Read::Tensor(s, dtype)], s.shape(), dtype)?;
            let operands = [x, Read::Tensor(m, dtype), Read::Tensor(&l, dtype)];
            task::map("log_softmax", &FloatKernel(LogShare), &operands, self.shape(), dtype)
        })
    }

    /// Rows at once; or hands the tensor, the largest elements along the axis and the sums of shifted exponentials to `finish`.
    fn normalised(
        &self,
        op: &'static str,
        kind: Kind,
        axis: isize,
        finish: impl FnOnce(Read<'_>, &Tensor, &Tensor, DType) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let dtype = self.dtype();
        if !dtype.is_float() {
            return Err(Error::DTypeUnsupported { op, dtype });
        }
        let axis = self.shape().axis(op, axis)?;
        if self.numel() == 0 {
            return Ok(Tensor::zeros(self.shape(), dtype));
        }
        if let Some(y) = rows::forward(op, kind, self, axis) {
            return y;
        }
        let axes = Axes::from(axis);
        let kept = Kept::new(op, self, &axes, true)?;
        let x = Read::Tensor(self, dtype);
        let m = kept.fold(Reduce::Max, None, &[x], self.shape(), dtype)?;
        let shifted = [x, Read::Tensor(&m, dtype)];
        let s = kept.fold(Reduce::Sum, Some(&FloatKernel(Shifted)), &shifted, self.shape(), dtype)?;
        finish(x, &m, &s, dtype)
    }

    /// `ln(sum(exp(x)))` over `axes`, shifted by the largest element so that it neither overflows nor loses small terms.
    ///
    /// Integers and truth values are taken as `F32`. Nothing but -inf gives -inf, so does an empty axis; +inf gives +inf.
    ///
    /// # Errors
    /// `AxisOutOfRange` or `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1000.0, 1000.0], [0.0, f32::NEG_INFINITY]];
    /// let y = x.logsumexp(1, false)?;
    /// assert!((y.to_vec::<f32>()?[0] - (1000.0 + 2f32.ln())).abs() < 1e-4);
    /// assert_eq!(y.to_vec::<f32>()?[1], 0.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn logsumexp(&self, axes: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let (op, axes, dtype) = ("logsumexp", axes.into().reduced(), self.dtype().to_float());
        let kept = Kept::new(op, self, &axes, true)?;
        let x = Read::Tensor(self, dtype);
        let y = if self.numel() == 0 {
            let sum = kept.fold(Reduce::Sum, None, &[x], self.shape(), dtype)?;
            Tensor::try_full(sum.shape(), f64::NEG_INFINITY, dtype)?
        } else {
            let m = kept.fold(Reduce::Max, None, &[x], self.shape(), dtype)?;
            let m = task::map(op, &FloatKernel(FiniteOrZero), &[Read::Tensor(&m, dtype)], m.shape(), dtype)?;
            let m = Read::Tensor(&m, dtype);
            let s = kept.fold(Reduce::Sum, Some(&FloatKernel(Shifted)), &[x, m], self.shape(), dtype)?;
            task::map(op, &FloatKernel(Unshifted), &[Read::Tensor(&s, dtype), m], s.shape(), dtype)?
        };
        Ok(if keepdim { y } else { y.keep_axes(&kept.flags) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ThreadPool, tensor};

    const INF: f32 = f32::INFINITY;

    fn wave(shape: &[usize], dtype: DType) -> Tensor {
        let n: usize = shape.iter().product();
        let values: Vec<f64> = (0..n).map(|i| 20.0 * (i as f64 * 0.7).sin()).collect();
        Tensor::from_vec(values, shape).unwrap().to_dtype(dtype)
    }

    /// The definition in f64 for a matrix, along its last axis.
    fn naive(x: &Tensor) -> Vec<f64> {
        let n = *x.dims().last().unwrap();
        let x = x.to_dtype(DType::F64).to_vec::<f64>().unwrap();
        let share = |row: &[f64]| -> Vec<f64> {
            let m = row.iter().copied().fold(f64::MIN, f64::max);
            let s: f64 = row.iter().map(|v| (v - m).exp()).sum();
            row.iter().map(|v| (v - m).exp() / s).collect()
        };
        x.chunks(n).flat_map(share).collect()
    }

    fn close(a: &Tensor, b: &[f64], tolerance: f64) {
        let a = a.to_dtype(DType::F64).to_vec::<f64>().unwrap();
        assert_eq!(a.len(), b.len());
        for (x, y) in a.iter().zip(b) {
            assert!((x - y).abs() <= tolerance * (1.0 + y.abs()), "{x} against {y}");
        }
    }

    #[test]
    fn shares_follow_the_definition_along_every_axis() {
        for (dtype, tolerance) in [(DType::F32, 2e-6), (DType::F64, 1e-14)] {
            for shape in [&[5][..], &[3, 7], &[4, 100], &[2, 3, 50], &[3, 3000]] {
                let x = wave(shape, dtype);
                let want = naive(&x);
                close(&x.softmax(-1).unwrap(), &want, tolerance);
                let logs: Vec<f64> = want.iter().map(|v| v.ln()).collect();
                close(&x.log_softmax(-1).unwrap(), &logs, tolerance);
                if x.rank() > 1 {
                    let turned = x.transpose(0, -1).unwrap().contiguous();
                    close(&turned.softmax(0).unwrap().transpose(0, -1).unwrap(), &want, tolerance);
                    close(
                        &x.transpose(0, -1).unwrap().log_softmax(0).unwrap().transpose(0, -1).unwrap(),
                        &logs,
                        tolerance,
                    );
                }
            }
        }
    }

    #[test]
    fn rows_without_a_finite_maximum_are_nan() {
        let x = tensor![[-INF, -INF], [INF, 0.0], [f32::NAN, 0.0], [-INF, 0.0]];
        let y = x.softmax(1).unwrap().to_vec::<f32>().unwrap();
        assert!(y[0].is_nan() && y[1].is_nan() && y[2].is_nan() && y[4].is_nan() && y[5].is_nan());
        assert_eq!(&y[6..], [0.0, 1.0]);
        let l = x.log_softmax(1).unwrap().to_vec::<f32>().unwrap();
        assert!(l[0].is_nan() && l[1].is_nan() && l[4].is_nan());
        assert_eq!(&l[6..], [-INF, 0.0]);
    }

    #[test]
    fn single_numbers_and_empty_tensors() {
        assert_eq!(Tensor::scalar(3.0f32).softmax(0).unwrap(), Tensor::scalar(1.0f32));
        assert_eq!(Tensor::scalar(3.0f32).log_softmax(-1).unwrap(), Tensor::scalar(0.0f32));
        for shape in [[0, 3], [3, 0]] {
            assert_eq!(Tensor::zeros(shape, DType::F64).softmax(1).unwrap().dims(), shape);
            assert_eq!(Tensor::zeros(shape, DType::F64).log_softmax(0).unwrap().dims(), shape);
        }
        let wide = tensor![[1.0], [2.0]].expand([2, 4]).unwrap();
        assert_eq!(wide.softmax(1).unwrap(), Tensor::full([2, 4], 0.25, DType::F32));
    }

    #[test]
    fn bad_softmax_is_refused() {
        for dtype in [DType::Bool, DType::I64] {
            assert!(matches!(
                Tensor::ones([2], dtype).softmax(0),
                Err(Error::DTypeUnsupported { op: "softmax", .. })
            ));
            assert!(matches!(Tensor::ones([2], dtype).log_softmax(0), Err(Error::DTypeUnsupported { .. })));
        }
        assert!(matches!(
            Tensor::ones([2], DType::F32).softmax(1),
            Err(Error::AxisOutOfRange { axis: 1, .. })
        ));
        assert!(matches!(Tensor::scalar(1.0f32).softmax(1), Err(Error::AxisOutOfRange { .. })));
        assert!(matches!(
            Tensor::ones([2], DType::F32).logsumexp([0, 0], true),
            Err(Error::DuplicateAxis { .. })
        ));
    }

    #[test]
    fn logarithms_of_sums() {
        let x = wave(&[3, 40], DType::F64);
        let v = x.to_vec::<f64>().unwrap();
        let want: Vec<f64> = v.chunks(40).map(|r| r.iter().map(|v| v.exp()).sum::<f64>().ln()).collect();
        close(&x.logsumexp(1, false).unwrap(), &want, 1e-13);
        let all = v.iter().map(|v| v.exp()).sum::<f64>().ln();
        let y = x.logsumexp(.., true).unwrap();
        assert_eq!(y.dims(), [1, 1]);
        close(&y, &[all], 1e-13);
        let x = tensor![[-INF, -INF], [INF, 0.0], [INF, -INF], [0.0, f32::NAN]];
        let y = x.logsumexp(1, false).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(y[..3], [-INF, INF, INF]);
        assert!(y[3].is_nan());
        assert_eq!(tensor![0, 0; i64].logsumexp(0, false).unwrap().dtype(), DType::F32);
        assert_eq!(Tensor::ones([2], DType::Bool).logsumexp(0, true).unwrap().dims(), [1]);
        assert_eq!(
            Tensor::zeros([2, 0], DType::F32).logsumexp(1, false).unwrap(),
            Tensor::full([2], -INF, DType::F32)
        );
        assert_eq!(Tensor::zeros([0, 2], DType::F32).logsumexp(1, true).unwrap().dims(), [0, 1]);
        assert_eq!(Tensor::scalar(2.0f32).logsumexp(0, false).unwrap(), Tensor::scalar(2.0f32));
    }

    #[test]
    fn same_bits_for_any_number_of_threads() {
        for shape in [&[300, 500][..], &[2, 100_000], &[100_000, 2]] {
            let x = wave(shape, DType::F32);
            let one = ThreadPool::new(1).install(|| (x.softmax(1).unwrap(), x.log_softmax(0).unwrap()));
            for n in [2, 3, 8] {
                let many = ThreadPool::new(n).install(|| (x.softmax(1).unwrap(), x.log_softmax(0).unwrap()));
                assert_eq!(one, many);
            }
        }
    }
}
