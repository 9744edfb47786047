//! Variances and standard deviations over any axes: the mean first, and then the squares of what is left.

use super::formulas as f;
use super::reduce::{Kept, expect_float};
use crate::axes::{Over, keep};
use crate::error::{Here, Result};
use crate::kernels::FloatKernel;
use crate::task::{Read, Reduce};
use crate::tensor::Tensor;

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
        Ok(self.spread("var", &over.into(), correction.into()).here()?.0)
    }

    /// The variance, and the mean with all axes kept, for an operation of that name.
    fn spread(&self, op: &'static str, over: &Over, correction: f64) -> Result<(Tensor, Tensor)> {
        expect_float(op, self)?;
        let kept = Kept::new(op, self, over)?;
        let mean = self.average(op, &keep(over))?;
        let dtype = self.dtype();
        let operands = [Read::Tensor(self, dtype), Read::Tensor(&mean, dtype)];
        let sum =
            kept.fold(Reduce::Sum, Some(&FloatKernel(f::SquaredDifference)), &operands, self.shape(), dtype)?;
        Ok((sum.div((kept.count as f64 - correction).max(0.0))?, mean))
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
        Ok(self.spread("std", &over.into(), correction.into()).here()?.0.sqrt())
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
        Ok((var, mean))
    }
}
