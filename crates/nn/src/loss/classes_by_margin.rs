//! Losses of classes by margins, with one class or several for each example.

use foldback_graph::Var;
use foldback_tensor::{DType, Tensor, refuse};

use super::bce::spread;
use super::classes::{check_weights, class_axis};
use super::options::losses;
use super::{expect_float, expect_same_shape};
use crate::error::{NnFacts, Result};

losses! {
    /// Whether the score of the right class is above all others. PyTorch's
    /// [`MultiMarginLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiMarginLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::MultiMarginLoss;
    /// use foldback_tensor::tensor;
    /// let loss = MultiMarginLoss::new().p(2.0);
    /// assert_eq!(loss.forward(&tensor![[1.0, 0.5]], &tensor![0; i64])?.item()?, 0.125);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    MultiMarginLoss {
        /// The power of what is missing, 1 or 2. The default is 1.
        p: f64 = 1.0;
        /// By how much it must be above. The default is 1.
        margin: f64 = 1.0;
        /// A weight per class, `[c]`, for the losses of that class. The default is none.
        weight: Option<Tensor> = None;
    }
    /// The sum of `max(0, margin - input[target] + input[i])^p` over all other classes `i`, divided by the number of classes, reduced:
    /// scores `[n, c]` and class numbers `[n]`, or `[c]` and `[]`.
    ///
    /// # Errors
    /// `DType` if the input is not of a floating-point type or the target not `i64`; `TargetShape`, `TargetOutOfRange`;
    /// `ParameterShape` for the weight, `Parameter` for another power.
    fn multi_margin_loss(input, target) |own| {
        let (loss, classes) = ("multi_margin_loss", class_count("multi_margin_loss", input)?);
        let target = target.value();
        expect_numbers(loss, &target)?;
        let single = input.rank() == 1;
        if *target.shape() != input.dims()[..input.rank() - 1] {
            let (input, target) = (input.shape().clone(), target.shape().clone());
            return refuse(NnFacts::TargetShape { loss, input, target, probabilities: false });
        }
        expect_classes(loss, &target, 0, classes)?;
        if own.p != 1.0 && own.p != 2.0 {
            let (name, value) = ("p", own.p);
            return refuse(NnFacts::Parameter { op: loss, name, value, expected: "1 or 2" });
        }
        let at = target.unsqueeze(-1)?;
        let axis = class_axis(input.shape());
        let missing = input.sub(&input.gather(axis, &at)?)?.add(own.margin)?.try_relu()?;
        let missing = if own.p == 2.0 { missing.square() } else { missing };
        let own_class = if single { target.one_hot(classes)? } else { at.one_hot(classes)?.squeeze(1)? };
        let losses = missing.masked_fill(own_class.ne(0)?, 0.0)?.sum(axis)?.div(classes as f64)?;
        match &own.weight {
            None => Ok(losses),
            Some(w) => {
                let w = check_weights(loss, w, classes, input.dtype())?;
                losses.mul(&w.index_select(0, &target.reshape([-1])?)?.reshape(target.shape())?)
            }
        }
    };
    /// Whether the scores of all right classes are above all others. PyTorch's
    /// [`MultiLabelMarginLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiLabelMarginLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::MultiLabelMarginLoss;
    /// use foldback_tensor::{Tensor, assert_close, tensor};
    /// let (x, y) = (tensor![[0.1, 0.2, 0.4, 0.8]], tensor![[3, 0, -1, 1]; i64]); // classes 3 and 0
    /// assert_close!(MultiLabelMarginLoss::new().forward(&x, &y)?.value(), Tensor::scalar(0.85f32));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    MultiLabelMarginLoss {}
    /// The sum of `max(0, 1 - input[j] + input[i])` over all right classes `j` and all others `i`, divided by the number of classes,
    /// reduced: scores `[n, c]` or `[c]`, and class numbers of the same shape, which end at the first -1 of a row.
    ///
    /// # Errors
    /// `DType` if the input is not of a floating-point type or the target not `i64`; `LossShapes`; `TargetOutOfRange`.
    fn multilabel_margin_loss(input, target) |_own| {
        let (loss, classes) = ("multilabel_margin_loss", class_count("multilabel_margin_loss", input)?);
        expect_same_shape(loss, input, target)?;
        let target = target.value();
        expect_numbers(loss, &target)?;
        expect_classes(loss, &target, -1, classes)?;
        // Where the list of a row has not ended.
        let listed = target.lt(0)?.to(DType::I64).cumsum(-1)?.eq(0)?;
        let at = listed.where_cond(&target, 0i64)?;
        let right = Tensor::zeros_with(target.shape(), DType::I64).scatter_add(-1, &at, listed.to(DType::I64))?;
        let missing = input.unsqueeze(-2)?.sub(&input.gather(-1, &at)?.unsqueeze(-1)?)?.add(1)?.try_relu()?;
        let counts = listed.unsqueeze(-1)?.logical_and(right.eq(0)?.unsqueeze(-2)?)?;
        missing.masked_fill(counts.logical_not(), 0.0)?.sum([-1, -2])?.div(classes as f64)
    };
    /// The binary cross-entropy of each class from scores, the mean over classes. PyTorch's
    /// [`MultiLabelSoftMarginLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiLabelSoftMarginLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::{MultiLabelSoftMarginLoss, Reduction};
    /// use foldback_tensor::{assert_close, tensor};
    /// let loss = MultiLabelSoftMarginLoss::new().reduction(Reduction::None);
    /// assert_close!(loss.forward(&tensor![[0.0, 0.0]], &tensor![[1.0, 0.0]])?.value(), tensor![2f32.ln()]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    MultiLabelSoftMarginLoss {
        /// A factor for the loss of each class; it broadcasts to the input's shape. The default is none.
        weight: Option<Tensor> = None;
    }
    /// The mean over the last axis of `-target ln(sigmoid(input)) - (1 - target) ln(sigmoid(-input))`, weighted and reduced: `[.., c]`, the
    /// same for both.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `DType` if the input is not of a floating-point type, `Expand` if the weight does not
    /// broadcast to the input's shape.
    fn multilabel_soft_margin_loss(input, target) |own| {
        let loss = "multilabel_soft_margin_loss";
        expect_float(loss, "the input", input)?;
        expect_same_shape(loss, input, target)?;
        let positive = target.mul(&input.try_logsigmoid()?)?;
        let negative = target.rsub(1)?.mul(&input.neg().try_logsigmoid()?)?;
        let losses = positive.add(&negative)?.try_neg()?;
        let losses = if let Some(w) = spread(loss, &own.weight, input)? { losses.mul(&w)? } else { losses };
        losses.mean(-1)
    };
}

/// The size of the last axis of scores.
fn class_count(loss: &'static str, input: &Var) -> Result<usize> {
    expect_float(loss, "the input", input)?;
    match input.dims() {
        [classes] | [_, classes] if *classes > 0 => Ok(*classes),
        _ => {
            let (name, expected) = ("scores", "[n, c] or [c]".into());
            refuse(NnFacts::InputShape { op: loss, name, expected, found: input.shape().clone() })
        }
    }
}

fn expect_numbers(loss: &'static str, target: &Tensor) -> Result<()> {
    if target.dtype() == DType::I64 {
        return Ok(());
    }
    refuse(NnFacts::DType { op: loss, name: "class numbers", found: target.dtype(), expected: "i64" })
}

/// Refuses numbers that no class has; the lowest one allowed is given.
fn expect_classes(loss: &'static str, target: &Tensor, lowest: i64, classes: usize) -> Result<()> {
    let numbers: Vec<i64> = target.to_vec()?;
    let Some(at) = numbers.iter().position(|&n| n < lowest || n >= classes as i64) else { return Ok(()) };
    let mut index = Vec::new();
    let mut rest = at;
    for &size in target.dims().iter().rev() {
        index.insert(0, rest % size);
        rest /= size;
    }
    refuse(NnFacts::TargetOutOfRange { loss, target: numbers[at], index, classes })
}
