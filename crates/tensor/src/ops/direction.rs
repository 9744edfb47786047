//! Directions: what is divided by its norm.

use super::arg::{AsArg, result_type};
use super::reduce::expect_float;
use crate::axes::{Axes, Axis, keep};
use crate::dtype::DType;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::tensor::Tensor;
use crate::views::broadcast_tensors;

/// # Directions
impl Tensor {
    /// This tensor divided by its Euclidean norm along an axis, or several, or by 1e-12 if the norm is smaller.
    ///
    /// # Errors
    /// As [`Self::normalize_with`].
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![[3.0, 4.0], [0.0, 0.0]].normalize(1)?, tensor![[0.6, 0.8], [0.0, 0.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn normalize(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.normalize_with(axes, 2.0, LEAST_NORM).here()
    }

    /// [`Self::normalize`] by the `p`-norm (2), or by `eps` (1e-12) if the norm is smaller.
    ///
    /// # Errors
    /// `AxisOutOfRange`; `DTypeUnsupported` unless this is `F32` or `F64`; `EmptyReduction` for a negative or infinite `p` over
    /// nothing.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, -3.0].normalize_with(0, 1, 1e-12)?, tensor![0.25, -0.75]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn normalize_with(
        &self,
        axes: impl Into<Axes>,
        p: impl Into<f64>,
        eps: impl Into<f64>,
    ) -> Result<Tensor> {
        let norm = self.norm_with(keep(axes.into()), p).and_then(|n| n.clamp_min(eps.into()));
        norm.and_then(|n| self.div(n)).map_err(|e| e.named("normalize")).here()
    }

    /// The cosine of the angle between this tensor and another along an axis: `x y / (|x| |y|)`, with norms of 1e-8 at least.
    /// The others broadcast.
    ///
    /// # Errors
    /// As [`Self::cosine_similarity_with`].
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// let (x, y) = (tensor![[1.0, 0.0], [0.0, 0.0]], tensor![3.0, 4.0]);
    /// assert_close!(x.cosine_similarity(&y, 1)?, tensor![0.6, 0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_similarity(&self, other: impl AsArg, axis: impl Into<Axis>) -> Result<Tensor> {
        self.cosine_similarity_with(other, axis, LEAST_LENGTH).here()
    }

    /// [`Self::cosine_similarity`] with another least norm `eps` (1e-8).
    ///
    /// # Errors
    /// `Broadcast`, `AxisOutOfRange`; `DTypeUnsupported` if neither is of a floating-point type; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.5, 0.0].cosine_similarity_with(tensor![1.0, 0.0], 0, 1.0)?, tensor![0.5].sum(..)?);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_similarity_with(
        &self,
        other: impl AsArg,
        axis: impl Into<Axis>,
        eps: impl Into<f64>,
    ) -> Result<Tensor> {
        let other = other.arg().tensor(self.dtype());
        self.cosine(&other, axis.into(), eps.into()).map_err(|e| e.named("cosine_similarity")).here()
    }

    fn cosine(&self, other: &Tensor, axis: Axis, eps: f64) -> Result<Tensor> {
        let dtype = cosine_dtype(self, other)?;
        // Each is divided in its own type, as in PyTorch; integers in the common one.
        let own = |t: &Tensor| if t.dtype().is_float() { Ok(t.clone()) } else { t.try_to(dtype) };
        let both = broadcast_tensors([own(self)?, own(other)?])?;
        let unit = |x: &Tensor| x.div(x.norm(keep(axis))?.clamp_min(eps)?);
        unit(&both[0])?.mul(unit(&both[1])?)?.sum(axis)
    }
}

/// PyTorch's defaults.
pub const LEAST_NORM: f64 = 1e-12;
#[allow(missing_docs, reason = "as above")]
pub const LEAST_LENGTH: f64 = 1e-8;

/// The type that a cosine is computed in.
///
/// # Errors
/// `DTypeUnsupported` if neither is of a floating-point type.
pub fn cosine_dtype(a: &Tensor, b: &Tensor) -> Result<DType> {
    let dtype = result_type(&[a.arg().meta(), b.arg().meta()]);
    if dtype.is_float() {
        return Ok(dtype);
    }
    expect_float("cosine_similarity", a)?;
    refuse(TensorFacts::DTypeUnsupported { op: "cosine_similarity", dtype })
}
