//! Dropout as an operation, which always drops.

use crate::error::{Here, Result, TensorFacts, refuse};
use crate::ops::reduce::expect_float;
use crate::tensor::Tensor;

impl Tensor {
    /// Zeros in place of elements with probability `p`, by this thread's generator, and the others times `1 / (1 - p)`. It
    /// always drops: whether a model is being trained is known to a layer. (Srivastava and others, "Dropout", 2014.)
    ///
    /// # Errors
    /// `Parameter` unless `p` is between 0 and 1; `DTypeUnsupported` unless this is `F32` or `F64`; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::Tensor;
    /// let y = Tensor::ones([100]).dropout(0.5)?;
    /// assert!(y.to_vec::<f32>()?.iter().all(|&v| v == 0.0 || v == 2.0));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn dropout(&self, p: impl Into<f64>) -> Result<Tensor> {
        match self.dropout_mask(p.into()).here()? {
            Some(mask) => self.mul(&mask).map_err(|e| e.named("dropout")).here(),
            None => Ok(self.clone()),
        }
    }

    /// What [`Self::dropout`] multiplies by; nothing if nothing is dropped.
    ///
    /// # Errors
    /// As [`Self::dropout`].
    #[doc(hidden)]
    pub fn dropout_mask(&self, p: f64) -> Result<Option<Tensor>> {
        let op = "dropout";
        if !(0.0..=1.0).contains(&p) {
            let (name, value) = ("p", p.to_string());
            return refuse(TensorFacts::Parameter { op, name, value, expected: "between 0 and 1" });
        }
        expect_float(op, self)?;
        if p == 0.0 {
            return Ok(None);
        }
        let keep = 1.0 - p;
        let mut mask =
            Tensor::try_bernoulli_with(self.shape(), keep, self.dtype()).map_err(|e| e.named(op))?;
        if p < 1.0 {
            mask.mul_(1.0 / keep)?;
        }
        Ok(Some(mask))
    }
}
