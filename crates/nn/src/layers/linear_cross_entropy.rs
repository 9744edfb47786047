//! The cross-entropy of scores that a linear layer gives.

use foldback_graph::Var;
use foldback_tensor::{DType, Here, Shape, refuse};

use super::making::{Drawing, Drawn, expect_float, has, making};
use crate::error::{NnFacts, Result};
use crate::loss::{CrossEntropyLoss, Reduction};
use crate::{Buffer, Linear, Module, forward};

const LOSS: &str = "linear_cross_entropy";

/// [`cross_entropy`](crate::loss::cross_entropy) of the scores that a [`Linear`] layer gives the classes: a loss with parameters. PyTorch's
/// [`LinearCrossEntropyLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.LinearCrossEntropyLoss.html).
///
/// The layer's weight starts as that of a [`Linear`]. PyTorch's `options`, by which it computes some rows of the scores at a time, are
/// not here. A clone shares the parameters, [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::{LinearCrossEntropyLoss, Module};
/// use foldback_tensor::{Tensor, tensor};
/// let loss = LinearCrossEntropyLoss::new(5, 10).label_smoothing(0.1);
/// loss.forward(&Tensor::ones([2, 5]), &tensor![3, 9; i64])?.backward()?;
/// assert_eq!(loss.linear.weight.grad().unwrap().shape(), [10, 5]);
/// // A class for each of three places.
/// let loss = LinearCrossEntropyLoss::new(5, 10).out_features(3).bias(true);
/// assert_eq!(loss.forward(&Tensor::ones([2, 5]), &Tensor::zeros([2, 3]).long())?.shape(), []);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct LinearCrossEntropyLoss {
    /// a weight per class, `[c]`, if there is one
    pub weight: Option<Buffer>,
    /// what gives the scores: a weight of shape `[c * d1 * .., in]`
    pub linear: Linear,
    in_features: usize,
    num_classes: usize,
    #[module(skip)]
    out_features: Shape,
    #[module(skip)]
    reduction: Reduction,
    ignore_index: Option<i64>,
    label_smoothing: f64,
    #[module(skip)]
    dtype: DType,
}

making! {
    LinearCrossEntropyLoss(in_features: usize, num_classes: usize) = LinearCrossEntropyLoss {
        weight: None,
        linear: Linear::blank(false),
        in_features,
        num_classes,
        out_features: Shape::from([0; 0]),
        reduction: Reduction::Mean,
        ignore_index: None,
        label_smoothing: 0.0,
        dtype: DType::F32,
    };
    shown { in_features num_classes out_features dtype }
    keep {
        /// What becomes of the losses of single elements. The default is their mean.
        reduction: Reduction;
        /// A class number whose elements do not count; it need not be a class. The default is -100. Targets that are
        /// probabilities are refused then.
        ignore_index: i64;
        /// The share of the target, between 0 and 1, that is spread evenly over all classes. The default is 0.
        label_smoothing: f64;
    }
    anew {
        /// Further axes of the scores behind that of the classes: `[d1, ..]`. The default is none.
        out_features: impl Into<Shape>, |loss| {
            loss.out_features = out_features.into();
            loss.linear.clear();
        };
        /// Whether the linear layer has a bias. The default is no. One that was not there is drawn.
        bias: bool, |loss| has(&mut loss.linear.bias, bias);
        /// A weight per class, `[c]`; a buffer, which is saved with the parameters.
        weight: impl Into<foldback_tensor::Tensor>, |loss| loss.weight = Some(Buffer::new(weight));
    }
}

impl Drawn for LinearCrossEntropyLoss {
    fn clear(&mut self) {
        self.linear.clear();
    }

    #[track_caller]
    fn draw(&mut self, drawing: &mut Drawing<'_>) -> Result<()> {
        expect_float(LOSS, self.dtype)?;
        if let Some(weight) = self.weight.as_ref().map(Buffer::value)
            && *weight.shape() != [self.num_classes]
        {
            let (expected, found) = (format!("[{}]", self.num_classes), weight.shape().clone());
            return refuse(NnFacts::ParameterShape { op: LOSS, name: "a weight", expected, found });
        }
        let scores = self.out_features.iter().fold(self.num_classes, |n, &size| n.saturating_mul(size));
        self.linear.draw(drawing, [self.in_features, scores], self.dtype)
    }
}

#[forward]
impl LinearCrossEntropyLoss {
    /// The loss of inputs `[in]` or `[n, in]`, with further axes `[d1, ..]` only `[n, in]`. The target holds class numbers (`i64`) of
    /// shape `[]`, `[n]` or `[n, d1, ..]`, or probabilities of shape `[c]`, `[n, c]` or `[n, c, d1, ..]`.
    ///
    /// # Errors
    /// `InputShape` or `Features` if the input does not fit; `Unsupported` for an `ignore_index` with probabilities; as
    /// [`CrossEntropyLoss::forward`].
    #[track_caller]
    pub fn forward(&self, input: &Var, target: &Var) -> Result<Var> {
        let ranks = if self.out_features.rank() > 0 { 2..=2 } else { 1..=2 };
        if !ranks.contains(&input.rank()) {
            let alone = if *ranks.start() == 1 { "[in_features] or " } else { "" };
            let (name, expected) = ("the input", format!("{alone}[n, in_features]"));
            let found = input.shape().clone();
            return refuse(NnFacts::InputShape { op: LOSS, name, expected, found }).here();
        }
        if self.ignore_index.is_some() && target.dtype().is_float() {
            let target = "targets that are probabilities";
            return refuse(NnFacts::Unsupported { loss: LOSS, option: "ignore_index", target }).here();
        }
        let scores = self.linear.forward(input)?;
        let scores = if self.out_features.rank() > 0 {
            scores.reshape([&[input.dims()[0], self.num_classes][..], &self.out_features].concat())?
        } else {
            scores
        };
        let mut loss =
            CrossEntropyLoss::new().label_smoothing(self.label_smoothing).reduction(self.reduction);
        if let Some(weight) = &self.weight {
            loss = loss.weight(weight.value());
        }
        if let Some(index) = self.ignore_index {
            loss = loss.ignore_index(index);
        }
        loss.forward(&scores, target)
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Tensor, tensor};

    use super::*;

    #[test]
    fn settings_that_do_not_fit_are_refused() {
        let builder = || LinearCrossEntropyLoss::builder(2, 3);
        assert!(builder().weight(tensor![1.0, 2.0]).build().is_err());
        assert!(builder().dtype(DType::I64).build().is_err());
        assert!(builder().out_features([usize::MAX, 2]).build().is_err());
        let of = |loss: LinearCrossEntropyLoss, input: &[usize], target: Tensor| {
            loss.forward(Tensor::ones(input), target).unwrap_err().to_string()
        };
        let numbers = tensor![0, 2; i64];
        let plain = || LinearCrossEntropyLoss::new(2, 3);
        assert!(of(plain(), &[2, 1, 2], numbers.clone()).contains("[in_features] or [n, in_features]"));
        assert!(of(plain().out_features(1), &[2], numbers.clone()).contains("[n, in_features]"));
        assert!(of(plain(), &[2, 3], numbers.clone()).contains("linear: "));
        assert!(of(plain().label_smoothing(2.0), &[2, 2], numbers).contains("label_smoothing"));
        assert!(of(plain().ignore_index(-1), &[2, 2], Tensor::ones([2, 3])).contains("ignore_index"));
    }

    #[test]
    fn a_setter_keeps_what_it_does_not_change() {
        let loss = LinearCrossEntropyLoss::new(2, 3);
        let with_bias = loss.clone().bias(true).weight(tensor![1.0, 2.0, 3.0]);
        assert!(with_bias.linear.weight.is_same(&loss.linear.weight));
        let names: Vec<_> = with_bias.state_dict().names().map(str::to_owned).collect();
        assert_eq!(names, ["weight", "linear.weight", "linear.bias"]);
        let wider = with_bias.out_features([4, 5]);
        assert_eq!(wider.linear.bias.as_ref().unwrap().shape(), [60]);
        let doubled = wider.dtype(DType::F64);
        assert_eq!(doubled.linear.weight.dtype(), DType::F64);
    }
}
