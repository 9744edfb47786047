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
//! is an error that says what to do.

mod bce;
mod classes;
mod cross_entropy;
mod mse;
mod nll;

use foldback_graph::Var;

use crate::error::{NnFacts, Result};
use foldback_tensor::refuse;

pub use bce::{BCEWithLogitsLoss, binary_cross_entropy_with_logits};
pub use cross_entropy::{CrossEntropyLoss, cross_entropy};
pub use mse::{MSELoss, mse_loss};
pub use nll::{NLLLoss, nll_loss};

/// What becomes of the losses of single elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// their mean, weighted where the loss has weights; NaN if there is none
    #[default]
    Mean,
    /// their sum
    Sum,
    /// nothing: the loss has one element per target
    None,
}

impl Reduction {
    #[track_caller]
    fn apply(self, losses: Var) -> Result<Var> {
        Ok(match self {
            Reduction::Mean => losses.mean(..)?,
            Reduction::Sum => losses.sum(..)?,
            Reduction::None => losses,
        })
    }
}

fn expect_float(op: &'static str, name: &'static str, v: &Var) -> Result<()> {
    if v.dtype().is_float() {
        return Ok(());
    }
    refuse(NnFacts::DType { op, name, found: v.dtype(), expected: "a floating-point type" })
}

fn expect_same_shape(loss: &'static str, input: &Var, target: &Var) -> Result<()> {
    if input.shape() == target.shape() {
        return Ok(());
    }
    refuse(NnFacts::LossShapes { loss, input: input.shape().clone(), target: target.shape().clone() })
}
