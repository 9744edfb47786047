//! Variances and standard deviations over any axes: the mean first, and then the squares of what is left.

use super::formulas as f;
use super::reduce::{Kept, expect_float};
use crate::axes::{Over, keep};
use crate::dtype::{Block, DType};
use crate::error::{Here, Result};
use crate::kernels::{BlockKernel, FloatKernel, NumKernel};
use crate::task::{Read, Reduce};
use crate::tensor::Tensor;

/// Whether a sum of squares of what a mean leaves shows that it is rounded: of `f32`, because the mean is so far from 0 that its rounding,
/// of half a unit in the last place, is seen in it, or because a square is beyond what the type holds; of `f64`, because the elements may be
/// equal.
fn rounding_shows(mean: &Tensor, sum: &Tensor, count: usize) -> bool {
    let far = |m: f64, s: f64, least: f64| m.powi(2) * count as f64 > s / least;
    match (mean.as_block(), sum.as_block()) {
        (Some(Block::F32(means)), Some(Block::F32(sums))) => means.iter().zip(sums).any(|(&m, &s)| {
            far(m.into(), s.into(), 2f64.powi(-22)) || !(1e-30..=1e30).contains(&f64::from(s))
        }),
        (Some(Block::F64(means)), Some(Block::F64(sums))) => {
            means.iter().zip(sums).any(|(&m, &s)| s > 0.0 && far(m, s, 2f64.powi(-96)))
        }
        _ => true,
    }
}

impl Tensor {
    /// The variance over `axes` with Bessel's correction: divided by `n - 1`. NaN for a single element.
    ///
    /// # Errors
    /// `AxisOutOfRange`, `DuplicateAxis`; `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0, 3.0, 6.0].var(..)?.item_as::<f32>()?, 14.0 / 3.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn var(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.var_with(over, 1.0).here()
    }

    /// The variance over `axes`, divided by `max(0, n - correction)`.
    ///
    /// # Errors
    /// As [`Self::var`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0, 3.0, 6.0].var_with(.., 0.0)?.item_as::<f32>()?, 3.5);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn var_with(&self, over: impl Into<Over>, correction: impl Into<f64>) -> Result<Tensor> {
        Ok(self.spread("var", &over.into(), correction.into()).here()?.0.to(self.dtype()))
    }

    /// The variance, in the type that it was computed in, and the mean with all axes kept, for an operation of that name.
    fn spread(&self, op: &'static str, over: &Over, correction: f64) -> Result<(Tensor, Tensor)> {
        expect_float(op, self)?;
        let kept = Kept::new(op, self, over)?;
        let squares = |mean: &Tensor, dtype| {
            let operands = [Read::Tensor(self, dtype), Read::Tensor(mean, dtype)];
            kept.fold(Reduce::Sum, Some(&FloatKernel(f::SquaredDifference)), &operands, self.shape(), dtype)
        };
        let mut mean = self.average(op, &keep(over))?;
        let mut sum = squares(&mean, self.dtype())?;
        if rounding_shows(&mean, &sum, kept.count) {
            let mean_of = |kernel: Option<&dyn BlockKernel>, operands: &[Read<'_>]| {
                let total = Kept::new(op, self, &keep(over))?;
                total.fold(Reduce::Sum, kernel, operands, self.shape(), DType::F64)?.div(kept.count as f64)
            };
            let elements = Read::Tensor(self, DType::F64);
            mean = match self.dtype() {
                DType::F32 => mean_of(None, &[elements])?,
                // What the mean leaves has a mean of its own, its rounding.
                _ => {
                    let left = [elements, Read::Tensor(&mean, DType::F64)];
                    mean.add(&mean_of(Some(&NumKernel(f::Sub)), &left)?)?
                }
            };
            sum = squares(&mean, DType::F64)?;
        }
        // Of no elements it is NaN, also where the correction would leave something to divide by.
        let count = if kept.count == 0 { 0.0 } else { kept.count as f64 - correction };
        let var = sum.div(count.max(0.0))?;
        Ok((var, mean.to(self.dtype())))
    }

    /// The standard deviation over `axes`: the square root of [`Self::var`].
    ///
    /// # Errors
    /// As [`Self::var`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 3.0, 5.0].std(..)?.item_as::<f32>()?, 2.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn std(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.std_with(over, 1.0).here()
    }

    /// The square root of [`Self::var_with`].
    ///
    /// # Errors
    /// As [`Self::var`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 3.0].std_with(.., 0.0)?.item_as::<f32>()?, 1.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn std_with(&self, over: impl Into<Over>, correction: impl Into<f64>) -> Result<Tensor> {
        Ok(self.spread("std", &over.into(), correction.into()).here()?.0.sqrt().to(self.dtype()))
    }

    /// The variance and the mean over `axes`: `(var, mean)`, as [`Self::var`] and [`Self::mean`].
    ///
    /// # Errors
    /// As [`Self::var`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (var, mean) = tensor![[1.0, 3.0], [2.0, 2.0]].var_mean(1)?;
    /// assert_eq!((var, mean), (tensor![2.0, 0.0], tensor![2.0, 2.0]));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn var_mean(&self, over: impl Into<Over>) -> Result<(Tensor, Tensor)> {
        self.var_mean_with(over, 1.0)
    }

    /// [`Self::var_with`] and the mean over `axes`: `(var, mean)`.
    ///
    /// # Errors
    /// As [`Self::var`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (var, mean) = tensor![1.0, 3.0].var_mean_with(0, 0)?;
    /// assert_eq!((var.item()?, mean.item()?), (1.0, 2.0));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn var_mean_with(
        &self,
        over: impl Into<Over>,
        correction: impl Into<f64>,
    ) -> Result<(Tensor, Tensor)> {
        let over = over.into();
        let (var, mean) = self.spread("var_mean", &over, correction.into()).here()?;
        let mean = mean.reshaped("var_mean", var.shape().clone()).here()?.with_meant(var.meant());
        Ok((var.to(self.dtype()), mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor;

    /// A mean of `f32` is rounded to a sixteenth at a million: the variance is that of the numbers all the same.
    #[test]
    fn numbers_far_from_zero_have_the_variance_of_their_deviations() {
        let deviations = Tensor::linspace(-1.0, 1.0, 999).to(DType::F64).square();
        for far in [0.0, 1e3, 1e6, -3e6] {
            let x = deviations.add(far).unwrap().to(DType::F32);
            let x = Tensor::stack([&x, &x.mul(2.0).unwrap(), &x.flip(0).unwrap()], 0).unwrap();
            let exact = x.to(DType::F64);
            for (found, want) in [
                (x.var(..).unwrap(), exact.var(..).unwrap()),
                (x.var(1).unwrap(), exact.var(1).unwrap()),
                (x.t().std_with(keep(0), 0).unwrap(), exact.t().std_with(keep(0), 0).unwrap()),
                (
                    x.narrow(0, 0, 1).unwrap().var_mean(..).unwrap().0,
                    exact.narrow(0, 0, 1).unwrap().var(..).unwrap(),
                ),
            ] {
                let error =
                    found.to(DType::F64).sub(&want).unwrap().div(&want).unwrap().abs().amax(..).unwrap();
                assert!(error.item().unwrap() < 3e-7, "{far}: {found} {want}");
            }
        }
        for (dtype, n) in
            [DType::F32, DType::F64].into_iter().flat_map(|d| [2, 3, 8, 100, 3000].map(|n| (d, n)))
        {
            let same =
                tensor![0.1, 1.92, -7e5, 0.0; f64].to(dtype).unsqueeze(1).unwrap().expand([4, n]).unwrap();
            for same in [same.contiguous(), same.t().contiguous().t()] {
                assert_eq!(same.var(1).unwrap(), Tensor::zeros_with([4], dtype), "{n}");
            }
        }
        for correction in [-1, 0, 1] {
            let empty = Tensor::zeros([2, 0]).var_with(1, correction).unwrap();
            assert!(empty.isnan().all(..).unwrap().item_as::<bool>().unwrap(), "{correction}: {empty}");
        }
        assert!(Tensor::full([3], f32::INFINITY).var(..).unwrap().item().unwrap().is_nan());
    }

    /// Squares beyond what `f32` holds are sums of `f64`, and so is the root.
    #[test]
    fn large_and_small_numbers_have_a_deviation() {
        for size in [1e30, 1e-30] {
            let x = Tensor::from_vec(vec![size, -size], 2).unwrap().to(DType::F32);
            let found = x.std(..).unwrap().item().unwrap() / size;
            assert!((found - 2f64.sqrt()).abs() < 1e-6, "{found}");
        }
        // Beside a column of equal numbers.
        let x = tensor![[1e30, 2.0], [-1e30, 2.0], [1e30, 2.0]];
        assert_eq!(x.var(0).unwrap(), tensor![f32::INFINITY, 0.0]);
        assert_eq!(x.var_mean(0).unwrap().0, tensor![f32::INFINITY, 0.0]);
        // A sum that no f32 holds.
        assert_eq!(
            Tensor::full([2], 3e38).var_mean(..).unwrap(),
            (tensor!(0.0).sum(..).unwrap(), Tensor::scalar(3e38))
        );
        let spread = tensor![3e38, 2e38].std(..).unwrap().item().unwrap();
        assert!((spread / 7.0710678e37 - 1.0).abs() < 1e-6, "{spread}");
    }
}
