//! Negative log-likelihood.

use foldback_graph::{AsInput, Var};
use foldback_tensor::{Here, Tensor};

use super::classes::Classes;
use super::{Reduction, expect_float};
use crate::error::Result;

/// The options of [`nll_loss`]. PyTorch's
/// [`NLLLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html).
///
/// ```
/// use foldback_nn::loss::{NLLLoss, Reduction};
/// use foldback_tensor::tensor;
/// let loss = NLLLoss::new().weight(tensor![1.0, 3.0]).ignore_index(-1).reduction(Reduction::Sum);
/// let log_p = tensor![[-1.0, -2.0], [-3.0, -4.0], [-5.0, -6.0]];
/// assert_eq!(loss.forward(&log_p, &tensor![0, 1, -1; i64])?.value().item_as::<f32>()?, 1.0 + 3.0 * 4.0);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NLLLoss {
    weight: Option<Tensor>,
    ignore_index: i64,
    reduction: Reduction,
}

impl Default for NLLLoss {
    /// No weights, the mean, and -100 is ignored.
    fn default() -> NLLLoss {
        NLLLoss { weight: None, ignore_index: -100, reduction: Reduction::Mean }
    }
}

impl NLLLoss {
    /// PyTorch's defaults: no weights, the mean, and -100 is ignored.
    pub fn new() -> NLLLoss {
        NLLLoss::default()
    }

    /// A weight per class, `[c]`; a mean is then divided by the sum of the weights of the targets.
    #[must_use]
    pub fn weight(mut self, weight: impl Into<Tensor>) -> NLLLoss {
        self.weight = Some(weight.into());
        self
    }

    /// A class number whose elements do not count; it need not be a class. The default is -100.
    #[must_use]
    pub fn ignore_index(mut self, index: i64) -> NLLLoss {
        self.ignore_index = index;
        self
    }

    /// What becomes of the losses of single elements. The default is their mean.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> NLLLoss {
        self.reduction = reduction;
        self
    }

    /// The loss of log-probabilities `[c]`, `[n, c]` or `[n, c, d1, ...]` for class numbers `[]`, `[n]` or
    /// `[n, d1, ...]`.
    ///
    /// # Errors
    /// `DType` if the input is not of a floating-point type or the target not `i64`; `TargetShape`,
    /// `TargetOutOfRange`, and `ParameterShape` for the weight.
    #[track_caller]
    pub fn forward(&self, input: impl AsInput, target: impl AsInput) -> Result<Var> {
        self.of(&input.to_var(), target.to_var()).here()
    }

    #[track_caller]
    fn of(&self, input: &Var, target: Var) -> Result<Var> {
        const LOSS: &str = "nll_loss";
        expect_float(LOSS, "the input, which stands before the target,", input)?;
        let target = target.value();
        let classes = Classes::new(LOSS, input, &target, self.weight.as_ref(), self.ignore_index)?;
        classes.negative_log_likelihood(input, self.reduction)
    }
}

/// The mean of `-log_p[target]`, where `log_p` holds log-probabilities along axis 1 and the target class numbers (`i64`).
/// PyTorch's [`nll_loss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.nll_loss.html).
///
/// Elements with target -100 are ignored; if all are, the loss is NaN and its gradient zero. [`NLLLoss`] has options.
///
/// # Errors
/// As [`NLLLoss::forward`].
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_nn::loss::nll_loss;
/// use foldback_tensor::tensor;
/// let log_p = tensor![[0.0, 1.0], [1.0, 0.0]].requires_grad().log_softmax(1)?;
/// nll_loss(&log_p, &tensor![0, 1; i64])?.backward()?;
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn nll_loss(input: impl AsInput, target: impl AsInput) -> Result<Var> {
    NLLLoss::new().forward(input, target)
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::tensor;

    use super::*;

    fn message(input: Tensor, target: &Tensor) -> String {
        nll_loss(input.requires_grad(), target).unwrap_err().with_location(None).to_string()
    }

    #[test]
    fn targets_that_do_not_fit() {
        let log_p = Tensor::zeros([2, 3]);
        let e = message(log_p.clone(), &tensor![0, 1, 2; i64]);
        assert_eq!(
            e,
            "nll_loss: scores of shape [2, 3] need class numbers of shape [2], found a target of shape [3]: there is one for each row of scores"
        );
        let e = message(log_p.clone(), &tensor![[0], [1]; i64]);
        assert!(e.ends_with("there is one for each row of scores; squeeze and reshape make it so"), "{e}");
        let e = message(log_p.clone(), &tensor![[0, 0, 1], [1, 0, 0]; i64]);
        assert!(e.ends_with("argmax over the classes makes them of one-hot rows"), "{e}");
        let e = message(Tensor::zeros([2, 5, 7]), &Tensor::zeros_with([2, 5], foldback_tensor::DType::I64));
        assert!(
            e.ends_with("transpose(1, -1) the scores; or reshape them to (-1, classes) and the target to -1"),
            "{e}"
        );
        let e = message(log_p.clone(), &tensor![0, 3; i64]);
        assert_eq!(
            e,
            "nll_loss: target 3 at index [1] is out of bounds for 3 classes: give one from 0 to 2, or name it by ignore_index"
        );
        assert!(message(log_p.clone(), &tensor![-1, 0; i64]).contains("target -1 at index [0]"));
        assert!(
            message(log_p.clone(), &tensor![0.0, 1.0])
                .contains("class numbers must be i64, found f32: use to(DType::I64)")
        );
        assert!(message(log_p.clone(), &tensor![[0], [1]; i64]).contains("found a target of shape [2, 1]"));
        assert!(message(Tensor::scalar(0f32), &Tensor::from(0i64)).contains("need an axis of classes"));
        let e = NLLLoss::new().weight(tensor![1.0, 2.0]).forward(&log_p, &tensor![0, 1; i64]).unwrap_err();
        let text = e.with_location(None).to_string();
        assert_eq!(text, "nll_loss: expected a weight of shape [3], found [2]");
    }

    #[test]
    fn everything_ignored() {
        let x = Tensor::zeros([2, 3]).requires_grad();
        let loss = nll_loss(&x, &tensor![-100, -100; i64]).unwrap();
        assert!(loss.value().item_as::<f32>().unwrap().is_nan());
        loss.backward().unwrap();
        assert_eq!(x.grad(), Some(Tensor::zeros([2, 3])));
    }

    #[test]
    fn infinite_but_ignored() {
        let x = tensor![[f32::NEG_INFINITY, 0.0], [-1.0, -2.0]].requires_grad();
        let loss = NLLLoss::new().ignore_index(0).forward(&x, &tensor![0, 1; i64]).unwrap();
        assert_eq!(loss.value().item_as::<f32>().unwrap(), 2.0);
        loss.backward().unwrap();
        assert_eq!(x.grad(), Some(tensor![[0.0, 0.0], [0.0, -1.0]]));
    }
}
