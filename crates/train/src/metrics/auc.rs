//! The area under the curve of true against false positives.

use foldback_graph::Value;
use foldback_tensor::{DType, Here, refuse};

use super::{Metric, class_vec, once, shapes, tensor_of};
use crate::error::{Result, TrainFacts, check};

const OP: &str = "roc_auc";

/// The area under the receiver operating characteristic: the probability that an item of class 1 has a higher score than one of
/// class 0, where equal scores count half.
///
/// Scores are floats, targets `bool` or `i64` of 0 and 1, both of one shape. All scores are kept, as the value is that of
/// all of them together. It is NaN while there is one class alone.
#[derive(Clone, Debug, Default)]
pub struct RocAuc {
    items: Vec<(f64, bool)>,
}

impl RocAuc {
    /// Before the first batch.
    pub fn new() -> RocAuc {
        RocAuc::default()
    }
}

impl Metric for RocAuc {
    #[track_caller]
    fn update(&mut self, scores: &dyn Value, target: &dyn Value) -> Result<()> {
        let (scores, target) = (tensor_of(scores), tensor_of(target));
        if scores.shape() != target.shape() {
            return shapes(OP, &scores, &target, "a score for each target, in equal shapes").here();
        }
        if !matches!(scores.dtype(), DType::F32 | DType::F64) {
            let found = scores.dtype();
            return refuse(TrainFacts::DType {
                op: OP,
                what: "prediction",
                found,
                expected: "f32 or f64 scores",
            })
            .here();
        }
        let classes = class_vec(OP, "target", &target).here()?;
        if let Some(&class) = classes.iter().find(|c| !(0..=1).contains(*c)) {
            return refuse(TrainFacts::Class { op: OP, what: "target", class, classes: 2 }).here();
        }
        let scores: Vec<f64> = scores.to(DType::F64).to_vec().here()?;
        check(scores.iter().all(|s| !s.is_nan()), OP, "a score", f64::NAN, "numbers, which can be compared")
            .here()?;
        self.items.extend(scores.into_iter().zip(classes.into_iter().map(|c| c == 1)));
        Ok(())
    }

    fn value(&self) -> f64 {
        let mut items = self.items.clone();
        items.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Zeros of both signs are equal, and neighbours in this order.
        let (mut below, mut pairs) = (0.0, 0.0);
        for equal in items.chunk_by(|a, b| a.0 == b.0) {
            let positive = equal.iter().filter(|i| i.1).count() as f64;
            let negative = equal.len() as f64 - positive;
            pairs += positive * (below + 0.5 * negative);
            below += negative;
        }
        pairs / (below * (items.len() as f64 - below))
    }

    fn reset(&mut self) {
        self.items.clear();
    }
}

/// The area under the receiver operating characteristic, see [`RocAuc`].
///
/// # Errors
/// `Shapes`, `DType` or `Class` if scores and target do not fit; `Parameter` if a score is NaN.
///
/// ```
/// use foldback_tensor::tensor;
/// use foldback_train::metrics::roc_auc;
/// assert_eq!(roc_auc(&tensor![0.1, 0.4, 0.35, 0.8], &tensor![0, 0, 1, 1; i64])?, 0.75);
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[track_caller]
pub fn roc_auc(scores: &dyn Value, target: &dyn Value) -> Result<f64> {
    once(RocAuc::new(), scores, target).here()
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{refused, tensor};

    use super::*;

    #[test]
    fn the_number_is_scikit_learns() {
        let target = tensor![0, 1, 1, 0, 1, 0, 1, 1; i64];
        let scores = tensor![0.1, 0.4, 0.35, 0.8, 0.8, 0.4, 0.9, 0.4; f64];
        assert!((roc_auc(&scores, &target).unwrap() - 0.6333333333333334).abs() < 1e-15);
        let mut metric = RocAuc::new();
        for at in [0, 4] {
            metric.update(&scores.narrow(0, at, 4).unwrap(), &target.narrow(0, at, 4).unwrap()).unwrap();
        }
        assert!((metric.value() - 0.6333333333333334).abs() < 1e-15);
        metric.reset();
        assert!(metric.value().is_nan());
        assert_eq!(roc_auc(&tensor![0.0, -0.0], &tensor![true, false]).unwrap(), 0.5);
        assert!(roc_auc(&tensor![0.0], &tensor![1; i64]).unwrap().is_nan());
    }

    #[test]
    fn what_has_no_order_is_refused() {
        assert!(refused!(roc_auc(&tensor![f32::NAN], &tensor![1; i64]), TrainFacts::Parameter { .. }));
        assert!(refused!(roc_auc(&tensor![0.5], &tensor![2; i64]), TrainFacts::Class { class: 2, .. }));
        assert!(refused!(roc_auc(&tensor![0.5, 0.1], &tensor![1; i64]), TrainFacts::Shapes { .. }));
        assert!(refused!(roc_auc(&tensor![1; i64], &tensor![1; i64]), TrainFacts::DType { .. }));
        assert!(refused!(roc_auc(&tensor![0.5], &tensor![1.0]), TrainFacts::DType { what: "target", .. }));
    }
}
