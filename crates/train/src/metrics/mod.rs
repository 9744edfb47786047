//! Metrics: how good predictions are, batch by batch or at once.
//!
//! Each is a [`Metric`], which takes batches and has a value at any time, and a function of all predictions. Both take tensors and
//! variables, and shapes never broadcast. The numbers are scikit-learn's.
//!
//! ```
//! use foldback_tensor::tensor;
//! use foldback_train::metrics::{Accuracy, Metric, accuracy};
//! let mut metric = Accuracy::new();
//! metric.update(&tensor![[0.1, 0.9], [0.8, 0.2]], &tensor![1, 1; i64])?;  // scores [n, classes], class numbers [n]
//! metric.update(&tensor![0, 1; i64], &tensor![0, 1; i64])?;               // class numbers for both
//! assert_eq!(metric.value(), 0.75);
//! assert_eq!(accuracy(&tensor![1, 0; i64], &tensor![1, 1; i64])?, 0.5);
//! # Ok::<(), foldback_train::Error>(())
//! ```

mod auc;
mod classes;
mod confusion;
mod regression;

use foldback_graph::Value;
use foldback_tensor::{DType, Tensor, refuse};

pub use self::auc::{RocAuc, roc_auc};
pub use self::classes::{Accuracy, TopKAccuracy, accuracy, top_k_accuracy};
pub use self::confusion::{Average, ConfusionMatrix, confusion_matrix};
pub use self::regression::{
    MeanAbsoluteError, R2Score, RootMeanSquaredError, mean_absolute_error, r2_score, root_mean_squared_error,
};
use crate::error::{Result, TrainFacts};

/// Something that is measured over batches.
pub trait Metric {
    /// Takes a batch in.
    ///
    /// # Errors
    /// `Shapes`, `DType` or `Class` if prediction and target do not fit. The batch has not been taken in then.
    fn update(&mut self, prediction: &dyn Value, target: &dyn Value) -> Result<()>;

    /// The value over all batches so far; NaN before the first.
    fn value(&self) -> f64;

    /// Forgets all batches.
    fn reset(&mut self);
}

/// The value over one batch.
fn once(mut metric: impl Metric, prediction: &dyn Value, target: &dyn Value) -> Result<f64> {
    metric.update(prediction, target)?;
    Ok(metric.value())
}

/// The numbers behind a tensor or variable.
fn tensor_of(value: &dyn Value) -> Tensor {
    value.as_var().value()
}

/// The class numbers of a prediction (the best of its scores along axis 1, unless it holds class numbers) and of a target.
fn class_numbers(op: &'static str, prediction: &Tensor, target: &Tensor) -> Result<(Vec<i64>, Vec<i64>)> {
    let target_classes = class_vec(op, "target", target)?;
    let predicted = match prediction.dtype() {
        DType::F32 | DType::F64 => {
            expect_scores(op, prediction, target)?;
            prediction.argmax(1)?.to_vec()?
        }
        _ if prediction.shape() == target.shape() => class_vec(op, "prediction", prediction)?,
        _ => return shapes(op, prediction, target, "class numbers of the target's shape"),
    };
    Ok((predicted, target_classes))
}

/// Refuses scores that are not `[n, classes, ..]` for a target of `[n, ..]`.
fn expect_scores(op: &'static str, scores: &Tensor, target: &Tensor) -> Result<()> {
    let mut dims = scores.dims().to_vec();
    let fits = dims.len() >= 2 && dims.remove(1) > 0 && dims == target.dims();
    if fits {
        return Ok(());
    }
    shapes(
        op,
        scores,
        target,
        "scores [n, classes, ..] for class numbers [n, ..]; of single scores: x.gt(0.5)?",
    )
}

fn class_vec(op: &'static str, what: &'static str, classes: &Tensor) -> Result<Vec<i64>> {
    match classes.dtype() {
        DType::I64 | DType::Bool => classes.long().to_vec(),
        found => {
            refuse(TrainFacts::DType { op, what, found, expected: "i64 class numbers or bool: use long()" })
        }
    }
}

fn shapes<T>(op: &'static str, prediction: &Tensor, target: &Tensor, expected: &'static str) -> Result<T> {
    let (prediction, target) = (prediction.shape().clone(), target.shape().clone());
    refuse(TrainFacts::Shapes { op, prediction, target, expected })
}
