//! Directions: what is divided by its norm, composed of operations that have gradients.

use foldback_tensor::{Axes, Axis, Here, keep, kernel};

use crate::error::Result;
use crate::input::AsInput;
use crate::mode::{LineGuard, location};
use crate::node::Var;

/// # Directions
impl Var {
    /// This variable divided by its Euclidean norm along an axis, or several; see
    /// [`Tensor::normalize`](foldback_tensor::Tensor::normalize).
    ///
    /// # Errors
    /// As [`Tensor::normalize_with`](foldback_tensor::Tensor::normalize_with).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor};
    /// let x = tensor![3.0, 4.0].requires_grad();
    /// assert_close!(x.normalize(0)?.value(), tensor![0.6, 0.8]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn normalize(&self, axes: impl Into<Axes>) -> Result<Var> {
        self.normalize_with(axes, 2.0, kernel::LEAST_NORM).here()
    }

    /// [`Var::normalize`] by the `p`-norm, or by `eps` if the norm is smaller; see
    /// [`Tensor::normalize_with`](foldback_tensor::Tensor::normalize_with).
    ///
    /// # Errors
    /// As [`Tensor::normalize_with`](foldback_tensor::Tensor::normalize_with).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, -3.0].requires_grad();
    /// assert_eq!(x.normalize_with(0, 1, 1e-12)?.value(), tensor![0.25, -0.75]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn normalize_with(
        &self,
        axes: impl Into<Axes>,
        p: impl Into<f64>,
        eps: impl Into<f64>,
    ) -> Result<Var> {
        let _line = LineGuard::set(location());
        let norm = self.norm_with(keep(axes.into()), p).and_then(|n| n.clamp_min(eps.into()));
        norm.and_then(|n| self.div(n)).map_err(|e| e.named("normalize")).here()
    }

    /// The cosine of the angle between this variable and another along an axis; see
    /// [`Tensor::cosine_similarity`](foldback_tensor::Tensor::cosine_similarity).
    ///
    /// # Errors
    /// As [`Tensor::cosine_similarity_with`](foldback_tensor::Tensor::cosine_similarity_with).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor};
    /// let x = tensor![1.0, 0.0].requires_grad();
    /// x.cosine_similarity(&tensor![3.0, 4.0], 0)?.backward()?;
    /// assert_close!(x.grad().unwrap(), tensor![0.0, 0.8]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_similarity(&self, other: impl AsInput, axis: impl Into<Axis>) -> Result<Var> {
        self.cosine_similarity_with(other, axis, kernel::LEAST_LENGTH).here()
    }

    /// [`Var::cosine_similarity`] with another least norm `eps`. As in PyTorch the gradient does not know of it: it is that of
    /// the norm, divided by `eps` where that is larger.
    ///
    /// # Errors
    /// As [`Tensor::cosine_similarity_with`](foldback_tensor::Tensor::cosine_similarity_with).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![0.5, 0.0].requires_grad();
    /// assert_eq!(x.cosine_similarity_with(tensor![1.0, 0.0], 0, 1.0)?.item()?, 0.5);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_similarity_with(
        &self,
        other: impl AsInput,
        axis: impl Into<Axis>,
        eps: impl Into<f64>,
    ) -> Result<Var> {
        let _line = LineGuard::set(location());
        let other = other.input().beside(self);
        cosine(self, &other, axis.into(), eps.into()).map_err(|e| e.named("cosine_similarity")).here()
    }
}

fn cosine(x: &Var, y: &Var, axis: Axis, eps: f64) -> Result<Var> {
    let dtype = kernel::cosine_dtype(&x.value_ref(), &y.value_ref())?;
    let shape = foldback_tensor::broadcast_shapes(&[x.dims(), y.dims()])?;
    let unit = |v: &Var| {
        let v = if v.dtype().is_float() { v.clone() } else { v.try_to(dtype)? };
        let v = v.expand(&shape)?;
        let norm = v.norm(keep(axis))?;
        let missing = norm.value_ref().rsub(eps)?.clamp_min(0.0)?;
        v.div(norm.add(&missing)?)
    };
    unit(x)?.mul(unit(y)?)?.sum(axis)
}
