//! Losses: how far an output is from its target.
//!
//! Each loss is a function with PyTorch's defaults, and a struct with the options:
//!
//! ```
//! use foldback_graph::RequiresGrad;
//! use foldback_nn::loss::{CrossEntropyLoss, Reduction, cross_entropy};
//! use foldback_tensor::tensor;
//! let scores = tensor![[2.0, 0.5, -1.0], [0.0, 1.0, 3.0]].requires_grad(); // [n, classes]
//! let target = tensor![0, 2; i64]; // [n]
//! cross_entropy(&scores, &target)?.backward()?;
//! let per_image = CrossEntropyLoss::new().label_smoothing(0.1).reduction(Reduction::None);
//! assert_eq!(per_image.forward(&scores, &target)?.shape(), [2]);
//! # Ok::<(), foldback_nn::Error>(())
//! ```
//!
//! Losses refuse shapes that differ. `[n, 1]` against `[n]` would broadcast to `[n, n]` and train on nonsense; here it
//! is an error that says what to do. [`mse_loss`], [`l1_loss`], [`smooth_l1_loss`], [`huber_loss`], [`kl_div`] and the two of binary
//! cross-entropy take all pairs, if both sides say so by an axis that was written:
//!
//! ```
//! use foldback_nn::loss::smooth_l1_loss;
//! use foldback_tensor::Tensor;
//! let (estimates, targets) = (Tensor::zeros([8, 5]), Tensor::ones([8, 5]));
//! let loss = smooth_l1_loss(estimates.unsqueeze(2)?, targets.unsqueeze(1)?)?; // [8, 5, 1], [8, 1, 5]
//! assert_eq!(loss.item()?, 0.5);
//! # Ok::<(), foldback_nn::Error>(())
//! ```

mod bce;
mod bce_of_probabilities;
mod classes;
mod classes_by_margin;
mod cross_entropy;
mod ctc;
mod distance;
mod kl_div;
mod likelihood;
mod margins;
mod mse;
mod nll;
mod options;
mod triplet_with_distance;

use std::borrow::Cow;

use foldback_graph::Var;

use crate::error::{NnFacts, Result};
use foldback_tensor::{broadcast_shapes, kernel, refuse};

pub use crate::layers::{AdaptiveLogSoftmaxWithLoss, LinearCrossEntropyLoss};
pub use bce::{BCEWithLogitsLoss, binary_cross_entropy_with_logits};
pub use bce_of_probabilities::{BCELoss, binary_cross_entropy};
pub use classes_by_margin::{
    MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, multi_margin_loss,
    multilabel_margin_loss, multilabel_soft_margin_loss,
};
pub use cross_entropy::{CrossEntropyLoss, cross_entropy};
pub use ctc::{CTCLoss, ctc_loss};
pub use distance::{HuberLoss, L1Loss, SmoothL1Loss, huber_loss, l1_loss, smooth_l1_loss};
pub use kl_div::{KLDivLoss, kl_div};
pub use likelihood::{GaussianNLLLoss, PoissonNLLLoss, gaussian_nll_loss, poisson_nll_loss};
pub use margins::{
    CosineEmbeddingLoss, HingeEmbeddingLoss, MarginRankingLoss, SoftMarginLoss, TripletMarginLoss,
    cosine_embedding_loss, hinge_embedding_loss, margin_ranking_loss, soft_margin_loss, triplet_margin_loss,
};
pub use mse::{MSELoss, mse_loss};
pub use nll::{NLLLoss, nll_loss};
pub use triplet_with_distance::{TripletMarginWithDistanceLoss, triplet_margin_with_distance_loss};

/// What becomes of the losses of single elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// their mean, weighted where the loss has weights; NaN if there is none
    #[default]
    Mean,
    /// their sum
    Sum,
    /// their sum divided by the size of the batch, the first axis; PyTorch has it for `kl_div`
    BatchMean,
    /// nothing: the loss has one element per target
    None,
}

impl Reduction {
    #[track_caller]
    fn apply(self, losses: Var) -> Result<Var> {
        Ok(match self {
            Reduction::Mean => losses.mean(..)?,
            Reduction::Sum => losses.sum(..)?,
            Reduction::BatchMean if losses.rank() > 0 => losses.sum(..)?.div(losses.dims()[0] as f64)?,
            Reduction::BatchMean | Reduction::None => losses,
        })
    }
}

fn expect_float(op: &'static str, name: &'static str, v: &Var) -> Result<()> {
    if v.dtype().is_float() {
        return Ok(());
    }
    refuse(NnFacts::DType { op, name, found: v.dtype(), expected: "a floating-point type" })
}

/// Refuses inputs of other shapes than the first.
fn expect_same_shape(loss: &'static str, input: &Var, target: &Var) -> Result<()> {
    if input.shape() == target.shape() {
        return Ok(());
    }
    refuse(NnFacts::LossShapes { loss, input: input.shape().clone(), target: target.shape().clone() })
}

/// Input and target in one shape: their own, or that of all pairs if both have an axis for it that was made on purpose.
#[track_caller]
fn in_one_shape<'a>(loss: &'static str, input: &'a Var, target: &'a Var) -> Result<[Cow<'a, Var>; 2]> {
    if input.shape() != target.shape() && kernel::are_pairs(&input.value(), &target.value()) {
        let shape = &broadcast_shapes(&[input.dims(), target.dims()])?;
        return Ok([Cow::Owned(input.expand(shape)?), Cow::Owned(target.expand(shape)?)]);
    }
    expect_same_shape(loss, input, target)?;
    Ok([Cow::Borrowed(input), Cow::Borrowed(target)])
}

/// Refuses a weight of another shape than the losses.
fn expect_weight(loss: &'static str, losses: &Var, weight: &Var) -> Result<()> {
    if weight.shape() == losses.shape() {
        return Ok(());
    }
    let (expected, found) = (losses.shape().to_string(), weight.shape().clone());
    refuse(NnFacts::ParameterShape { op: loss, name: "a weight", expected, found })
}

/// Losses times their weights if there are any, reduced; a mean is divided by the sum of the weights.
#[track_caller]
fn weighted_mean(loss: &'static str, losses: Var, weight: Option<&Var>, reduction: Reduction) -> Result<Var> {
    let Some(weight) = weight else { return reduction.apply(losses) };
    expect_weight(loss, &losses, weight)?;
    let losses = losses.mul(weight)?;
    match reduction {
        Reduction::Mean => losses.sum(..)?.div(&weight.sum(..)?),
        other => other.apply(losses),
    }
}
