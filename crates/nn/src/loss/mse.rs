//! The mean squared error.

use foldback_graph::{AsInput, Fused, Var};
use foldback_tensor::Here;
use foldback_tensor::kernel::{FloatOps, Formula, Real};

use super::{Reduction, expect_float, in_one_shape, weighted_mean};
use crate::error::Result;

const LOSS: &str = "mse_loss";

/// The options of [`mse_loss`]. PyTorch's
/// [`mse_loss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.mse_loss.html).
///
/// ```
/// use foldback_nn::loss::{MSELoss, Reduction};
/// use foldback_tensor::tensor;
/// let loss = MSELoss::new().reduction(Reduction::Sum);
/// assert_eq!(loss.forward(&tensor![1.0, 3.0], &tensor![0.0, 1.0])?.value().item_as::<f32>()?, 5.0);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MSELoss {
    weight: Option<Var>,
    reduction: Reduction,
}

impl MSELoss {
    /// No weights, the mean.
    pub fn new() -> MSELoss {
        MSELoss::default()
    }

    /// A weight per element, of the input's shape; a mean is then divided by the sum of the weights.
    #[must_use]
    pub fn weight(mut self, weight: impl Into<Var>) -> MSELoss {
        self.weight = Some(weight.into());
        self
    }

    /// What becomes of the losses of single elements. The default is their mean.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> MSELoss {
        self.reduction = reduction;
        self
    }

    /// `(input - target)^2`, reduced. Any shape, the same for both, or all pairs.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `ParameterShape` if that of the weight does, `DType` if neither input nor
    /// target is of a floating-point type.
    #[track_caller]
    pub fn forward(&self, input: impl AsInput, target: impl AsInput) -> Result<Var> {
        self.of(&input.to_var(), target.to_var()).here()
    }

    #[track_caller]
    fn of(&self, input: &Var, target: Var) -> Result<Var> {
        if !target.dtype().is_float() {
            expect_float(LOSS, "the input", input)?;
        }
        let [input, target] = in_one_shape(LOSS, input, &target)?;
        let squares = Fused::new(LOSS, SquareOf).call((&*input, &*target))?;
        weighted_mean(LOSS, squares, self.weight.as_ref(), self.reduction)
    }
}

/// `(x - t)^2`
#[derive(Clone, Copy)]
struct SquareOf;
impl Formula<2> for SquareOf {
    #[inline(always)]
    fn eval<R: Real>(&self, [x, t]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        (x - t).square()
    }
}

/// The mean of `(input - target)^2`. PyTorch's
/// [`mse_loss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.mse_loss.html), except that shapes
/// which differ are an error, but for pairs, see [`loss`](crate::loss). [`MSELoss`] has options.
///
/// # Errors
/// As [`MSELoss::forward`].
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_nn::loss::mse_loss;
/// use foldback_tensor::tensor;
/// let x = tensor![1.0, 3.0].requires_grad();
/// mse_loss(&x, &tensor![0.0, 1.0])?.backward()?;
/// assert_eq!(x.grad(), Some(tensor![1.0, 2.0]));
/// // [n, 1] against [n] would broadcast to [n, n].
/// let e = mse_loss(&x.unsqueeze(1)?, &tensor![0.0, 1.0]).unwrap_err().with_location(None).to_string();
/// assert!(e.contains("[2, 1]") && e.contains("squeeze the input"));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn mse_loss(input: impl AsInput, target: impl AsInput) -> Result<Var> {
    MSELoss::new().forward(input, target)
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Tensor, tensor};

    use super::*;

    fn message(input: Tensor, target: Tensor) -> String {
        mse_loss(&input, &target).unwrap_err().with_location(None).to_string()
    }

    #[test]
    fn shapes_that_differ_are_refused_with_advice() {
        assert_eq!(
            message(tensor![[1.0], [2.0], [3.0]], tensor![1.0, 2.0, 3.0]),
            "mse_loss: the input has shape [3, 1] and the target [3]; losses do not broadcast: \
             squeeze the input, unsqueeze the target, or reshape one like the other"
        );
        let e = message(tensor![1.0], tensor![[1.0]]);
        assert!(e.contains("squeeze the target, unsqueeze the input"), "{e}");
        let e = message(tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], tensor![1.0, 2.0, 3.0]);
        assert!(e.contains("expand one to the shape of the other"), "{e}");
        assert!(message(tensor![1.0, 2.0], tensor![1.0, 2.0, 3.0]).contains("they must be equal"));
        assert!(
            message(tensor![1, 2; i64], tensor![1, 2; i64])
                .contains("must be a floating-point type, found i64")
        );
        assert!(mse_loss(&tensor![1.0, 2.0], 1.0).is_err());
        let weighted = MSELoss::new().weight(tensor![1.0]);
        assert!(weighted.forward(&tensor![1.0, 2.0], &tensor![1.0, 2.0]).is_err());
    }

    #[test]
    fn weighted_mean_is_divided_by_the_weights() {
        let loss = MSELoss::new().weight(tensor![1.0, 3.0]);
        let loss = loss.forward(&tensor![2.0, 1.0], &tensor![0.0, 0.0]).unwrap();
        assert_eq!(loss.value().item_as::<f32>().unwrap(), (4.0 + 3.0) / 4.0);
    }

    #[test]
    fn numbers_and_integers_as_targets() {
        assert_eq!(mse_loss(Tensor::scalar(3f32), 1.0).unwrap().value(), Tensor::scalar(4f32));
        assert_eq!(
            mse_loss(&tensor![1.0, 2.0], &tensor![1, 1; i64]).unwrap().value(),
            Tensor::scalar(0.5f32)
        );
    }
}
