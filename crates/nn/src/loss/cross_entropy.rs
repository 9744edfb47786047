//! Cross-entropy.

use foldback_graph::{AsInput, Var};
use foldback_tensor::{DType, Here, Tensor, refuse};

use super::classes::{Classes, check_weights, class_axis, without_axis};
use super::{Reduction, expect_float};
use crate::error::{NnFacts, Result};

const LOSS: &str = "cross_entropy";
const IGNORED: i64 = -100;

/// The options of [`cross_entropy`]. PyTorch's
/// [`CrossEntropyLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html).
///
/// ```
/// use foldback_nn::loss::{CrossEntropyLoss, Reduction};
/// use foldback_tensor::tensor;
/// let loss = CrossEntropyLoss::new()
///     .weight(tensor![1.0, 2.0, 0.5])
///     .label_smoothing(0.1)
///     .reduction(Reduction::Sum);
/// let scores = tensor![[2.0, 0.5, -1.0], [0.0, 1.0, 3.0]];
/// assert_eq!(loss.forward(&scores, &tensor![0, 2; i64])?.shape(), []);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CrossEntropyLoss {
    weight: Option<Tensor>,
    ignore_index: Option<i64>,
    label_smoothing: f64,
    reduction: Reduction,
}

impl CrossEntropyLoss {
    /// PyTorch's defaults: no weights, no smoothing, the mean, and class number -100 is ignored.
    pub fn new() -> CrossEntropyLoss {
        CrossEntropyLoss::default()
    }

    /// A weight per class, `[c]`. A mean over class numbers is then divided by the sum of the weights of the targets.
    #[must_use]
    pub fn weight(mut self, weight: impl Into<Tensor>) -> CrossEntropyLoss {
        self.weight = Some(weight.into());
        self
    }

    /// A class number whose elements do not count; it need not be a class. The default is -100.
    #[must_use]
    pub fn ignore_index(mut self, index: i64) -> CrossEntropyLoss {
        self.ignore_index = Some(index);
        self
    }

    /// The share of the target, between 0 and 1, that is spread evenly over all classes (Szegedy et al., "Rethinking the
    /// Inception architecture", 2016).
    #[must_use]
    pub fn label_smoothing(mut self, share: f64) -> CrossEntropyLoss {
        self.label_smoothing = share;
        self
    }

    /// What becomes of the losses of single elements. The default is their mean.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> CrossEntropyLoss {
        self.reduction = reduction;
        self
    }

    /// The loss of scores `[c]`, `[n, c]` or `[n, c, d1, ...]`. The target holds class numbers (`i64`) of shape `[]`,
    /// `[n]` or `[n, d1, ...]`, or probabilities of the scores' shape.
    ///
    /// # Errors
    /// `DType` if the scores are not of a floating-point type or the target is `bool`; `TargetShape`,
    /// `TargetOutOfRange`; `ParameterShape` for the weight, `Parameter` for the smoothing; `Unsupported` for an
    /// `ignore_index` from 0 on with probabilities.
    #[track_caller]
    pub fn forward(&self, input: impl AsInput, target: impl AsInput) -> Result<Var> {
        self.of(&input.to_var(), target.to_var()).here()
    }

    #[track_caller]
    fn of(&self, input: &Var, target: Var) -> Result<Var> {
        expect_float(LOSS, "the input, which stands before the target,", input)?;
        let value = self.label_smoothing;
        if !(0.0..=1.0).contains(&value) {
            let expected = "between 0 and 1";
            return refuse(NnFacts::Parameter { op: LOSS, name: "label_smoothing", value, expected });
        }
        match target.dtype() {
            DType::I64 => self.of_numbers(input, &target.value()),
            DType::Bool => {
                let expected = "i64 (class numbers) or a floating-point type (probabilities)";
                refuse(NnFacts::DType { op: LOSS, name: "the target", found: DType::Bool, expected })
            }
            _ => self.of_probabilities(input, &target),
        }
    }

    #[track_caller]
    fn of_numbers(&self, input: &Var, target: &Tensor) -> Result<Var> {
        let ignored = self.ignore_index.unwrap_or(IGNORED);
        let classes = Classes::new(LOSS, input, target, self.weight.as_ref(), ignored)?;
        let axis = class_axis(input.shape());
        if self.label_smoothing == 0.0 && axis as usize + 1 == input.shape().rank() {
            return classes.cross_entropy(input, self.reduction);
        }
        let log_p = input.log_softmax(axis)?;
        let likelihood = classes.negative_log_likelihood(&log_p, self.reduction)?;
        if self.label_smoothing == 0.0 {
            return Ok(likelihood);
        }
        let all = self.weighted(&log_p, axis)?.sum(axis)?.neg();
        let all = classes.reduce(all, self.reduction)?;
        let share = self.label_smoothing / input.shape()[axis as usize] as f64;
        likelihood.mul(1.0 - self.label_smoothing)?.add(&all.mul(share)?)
    }

    #[track_caller]
    fn of_probabilities(&self, input: &Var, target: &Var) -> Result<Var> {
        let shape = input.shape();
        if shape.rank() > 0 && *target.shape() == without_axis(shape, class_axis(shape) as usize) {
            // Class numbers that were read as floats.
            let (name, found) = ("class numbers", target.dtype());
            return refuse(NnFacts::DType { op: LOSS, name, found, expected: "i64" });
        }
        if shape.rank() == 0 || shape != target.shape() {
            let target = target.shape();
            return refuse(NnFacts::TargetShape {
                loss: LOSS,
                input: shape.clone(),
                target: target.clone(),
                probabilities: true,
            });
        }
        // As in PyTorch, a negative one, which its default is, has nothing to say here.
        if self.ignore_index.is_some_and(|index| index >= 0) {
            let target = "targets that are probabilities";
            return refuse(NnFacts::Unsupported { loss: LOSS, option: "ignore_index", target });
        }
        let axis = class_axis(shape);
        let classes = shape[axis as usize];
        if let Some(w) = &self.weight {
            check_weights(LOSS, w, classes, input.dtype())?;
        }
        let target = if self.label_smoothing > 0.0 {
            let share = self.label_smoothing / classes as f64;
            target.mul(1.0 - self.label_smoothing)?.add(share)?
        } else {
            target.clone()
        };
        let log_p = input.log_softmax(axis)?;
        let losses = self.weighted(&log_p.mul(&target)?, axis)?.sum(axis)?.neg();
        // Unlike that over class numbers, this mean ignores the weights.
        self.reduction.apply(losses)
    }

    /// Times the weights of the classes, if there are any.
    #[track_caller]
    fn weighted(&self, x: &Var, axis: isize) -> Result<Var> {
        let Some(weight) = &self.weight else { return Ok(x.clone()) };
        let shape = x.shape();
        let mut dims = vec![1; shape.rank()];
        dims[axis as usize] = shape[axis as usize];
        x.mul(&weight.to(x.dtype()).reshape(dims)?)
    }
}

/// The mean of `-log softmax(scores)[target]`, with the classes along axis 1. PyTorch's
/// [`cross_entropy`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html).
///
/// Scores `[n, c]` go with class numbers `[n]` (`i64`), or with probabilities `[n, c]`. Elements with target -100 are
/// ignored; if all are, the loss is NaN and its gradient zero. [`CrossEntropyLoss`] has options.
///
/// # Errors
/// As [`CrossEntropyLoss::forward`].
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_nn::loss::cross_entropy;
/// use foldback_tensor::{assert_close, tensor};
/// let scores = tensor![[0.0, 0.0]].requires_grad();
/// let loss = cross_entropy(&scores, &tensor![1; i64])?;
/// assert!((loss.value().item_as::<f32>()? - 2f32.ln()).abs() < 1e-6);
/// loss.backward()?;
/// assert_close!(scores.grad().unwrap(), tensor![[0.5, -0.5]]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn cross_entropy(input: impl AsInput, target: impl AsInput) -> Result<Var> {
    CrossEntropyLoss::new().forward(input, target)
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::{assert_close, tensor};

    use super::*;

    #[test]
    fn gradient_is_softmax_minus_target() {
        let x = tensor![[1.0, 2.0, 3.0], [0.0, -1.0, 0.5]; f64].requires_grad();
        cross_entropy(&x, &tensor![2, 0; i64]).unwrap().backward().unwrap();
        let one_hot = tensor![[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]; f64];
        let expected = (x.value().softmax(1).unwrap() - &one_hot) / 2.0;
        assert_close!(x.grad().unwrap(), &expected);
        // One-hot probabilities are the same targets.
        x.zero_grad();
        cross_entropy(&x, &one_hot).unwrap().backward().unwrap();
        assert_close!(x.grad().unwrap(), &expected);
    }

    #[test]
    fn refusals() {
        let x: Var = Tensor::zeros([2, 3]).into();
        let message = |loss: CrossEntropyLoss, target: &Tensor| {
            loss.forward(&x, target).unwrap_err().with_location(None).to_string()
        };
        let plain = CrossEntropyLoss::new;
        assert_eq!(
            message(plain(), &tensor![[0.5, 0.5], [1.0, 0.0]]),
            "cross_entropy: scores of shape [2, 3] need class probabilities of shape [2, 3], found a target of shape [2, 2]: class numbers are i64 (tensor![1, 2; i64], or long())"
        );
        assert!(message(plain(), &tensor![[0, 1, 2], [0, 1, 2]; i64]).contains("class numbers of shape [2]"));
        assert!(
            message(plain(), &tensor![0, 7; i64]).contains("target 7 at index [1] is out of bounds for 3")
        );
        assert!(
            message(plain(), &tensor![true, false; bool])
                .contains("(probabilities), found bool: use to(DType::I64)")
        );
        for share in [-0.1, 1.5, f64::NAN] {
            let e = message(plain().label_smoothing(share), &tensor![0, 1; i64]);
            assert!(e.contains("label_smoothing"), "{e}");
        }
        let probabilities = Tensor::zeros([2, 3]);
        let e = message(plain().ignore_index(1), &probabilities);
        assert_eq!(
            e,
            "cross_entropy: ignore_index is not supported for targets that are probabilities: leave it out"
        );
        let default = plain().ignore_index(-100).forward(Tensor::zeros([2, 3]), &probabilities);
        assert_eq!(default.unwrap().item().unwrap(), 0.0);
        assert!(message(plain().weight(tensor![1.0]), &probabilities).contains("a weight of shape [3]"));
        assert!(message(plain().weight(tensor![1.0]), &tensor![0, 1; i64]).contains("a weight of shape [3]"));
        assert_eq!(
            message(plain(), &tensor![0.0, 1.0]),
            "cross_entropy: class numbers must be i64, found f32: use to(DType::I64)"
        );
        assert!(cross_entropy(&tensor![[1, 2]; i64], &tensor![0; i64]).is_err());
        assert!(cross_entropy(Tensor::scalar(1f32), Tensor::scalar(1f32)).is_err());
    }

    #[test]
    fn class_weights_are_cast_to_the_scores() {
        let x: Var = tensor![[1.0, 2.0]].into();
        let loss = CrossEntropyLoss::new().weight(tensor![1.0, 2.0; f64]).forward(&x, &tensor![0; i64]);
        assert_eq!(loss.unwrap().dtype(), DType::F32);
    }
}
