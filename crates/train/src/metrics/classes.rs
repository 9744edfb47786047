//! Accuracy: the share of predictions that are right, or among the best.

use foldback_graph::Value;
use foldback_tensor::{DType, Here, or_panic, refuse};

use super::{Metric, class_numbers, class_vec, expect_scores, once, tensor_of};
use crate::error::{Result, TrainFacts, check};

/// The share of class numbers that are right.
///
/// Predictions are scores, `[n, classes, ..]` of floats, of which the first best counts, or class numbers; targets are class numbers,
/// `[n, ..]` of `i64` or `bool`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accuracy {
    right: u64,
    count: u64,
}

impl Accuracy {
    /// Before the first batch.
    pub fn new() -> Accuracy {
        Accuracy::default()
    }
}

impl Metric for Accuracy {
    #[track_caller]
    fn update(&mut self, prediction: &dyn Value, target: &dyn Value) -> Result<()> {
        let (predicted, target) =
            class_numbers("accuracy", &tensor_of(prediction), &tensor_of(target)).here()?;
        self.right += predicted.iter().zip(&target).filter(|(p, t)| p == t).count() as u64;
        self.count += target.len() as u64;
        Ok(())
    }
    fn value(&self) -> f64 {
        self.right as f64 / self.count as f64
    }
    fn reset(&mut self) {
        *self = Accuracy::new();
    }
}

/// The share of class numbers that are right, see [`Accuracy`].
///
/// # Errors
/// `Shapes` or `DType` if prediction and target do not fit.
///
/// ```
/// use foldback_tensor::tensor;
/// use foldback_train::metrics::accuracy;
/// assert_eq!(accuracy(&tensor![[2.0, -1.0], [0.0, 3.0]], &tensor![0, 0; i64])?, 0.5);
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[track_caller]
pub fn accuracy(prediction: &dyn Value, target: &dyn Value) -> Result<f64> {
    once(Accuracy::new(), prediction, target).here()
}

/// The share of targets whose score is among the `k` best. Of equal scores the first is better, as in [`Accuracy`]; a NaN
/// is better than all numbers.
#[derive(Clone, Copy, Debug)]
pub struct TopKAccuracy {
    k: usize,
    right: u64,
    count: u64,
}

const TOP_K: &str = "top_k_accuracy";

impl TopKAccuracy {
    /// Among the `k` best.
    ///
    /// # Panics
    /// If `k` is 0; [`TopKAccuracy::try_new`] returns an error instead.
    #[track_caller]
    pub fn new(k: usize) -> TopKAccuracy {
        or_panic(TopKAccuracy::try_new(k))
    }

    /// [`TopKAccuracy::new`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Parameter` if `k` is 0.
    ///
    /// ```
    /// assert!(foldback_train::metrics::TopKAccuracy::try_new(0).is_err());
    /// ```
    #[track_caller]
    pub fn try_new(k: usize) -> Result<TopKAccuracy> {
        check(k > 0, TOP_K, "k", k, "at least 1").here()?;
        Ok(TopKAccuracy { k, right: 0, count: 0 })
    }
}

impl Metric for TopKAccuracy {
    #[track_caller]
    fn update(&mut self, prediction: &dyn Value, target: &dyn Value) -> Result<()> {
        let (scores, target) = (tensor_of(prediction), tensor_of(target));
        expect_scores(TOP_K, &scores, &target).here()?;
        let classes = scores.dims()[1];
        let target = class_vec(TOP_K, "target", &target).here()?;
        let rows = scores.to(DType::F64).movedim(1, -1).here()?.to_vec::<f64>().here()?;
        let mut right = 0;
        for (row, &class) in rows.chunks(classes).zip(&target) {
            let Some(own) = usize::try_from(class).ok().filter(|&c| c < classes) else {
                return refuse(TrainFacts::Class { op: TOP_K, what: "target", class, classes }).here();
            };
            let better = |(i, s): (usize, &f64)| match (s.is_nan(), row[own].is_nan()) {
                (false, false) => *s > row[own] || *s == row[own] && i < own,
                (a, b) => a && (!b || i < own),
            };
            right += u64::from(row.iter().enumerate().filter(|&s| better(s)).count() < self.k);
        }
        self.right += right;
        self.count += target.len() as u64;
        Ok(())
    }
    fn value(&self) -> f64 {
        self.right as f64 / self.count as f64
    }
    fn reset(&mut self) {
        (self.right, self.count) = (0, 0);
    }
}

/// The share of targets whose score is among the `k` best, see [`TopKAccuracy`].
///
/// # Errors
/// `Parameter` if `k` is 0; `Shapes`, `DType` or `Class` if scores and target do not fit.
///
/// ```
/// use foldback_tensor::tensor;
/// use foldback_train::metrics::top_k_accuracy;
/// assert_eq!(top_k_accuracy(&tensor![[0.5, 0.3, 0.2]], &tensor![1; i64], 2)?, 1.0);
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[track_caller]
pub fn top_k_accuracy(scores: &dyn Value, target: &dyn Value, k: usize) -> Result<f64> {
    TopKAccuracy::try_new(k).and_then(|metric| once(metric, scores, target)).here()
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::{Tensor, refused, tensor};

    use super::*;

    #[test]
    fn accuracy_of_scores_and_of_classes() {
        let mut metric = Accuracy::new();
        assert!(metric.value().is_nan());
        metric.update(&tensor![[1.0, 1.0], [0.0, 3.0]].requires_grad(), &tensor![0, 0; i64]).unwrap();
        metric.update(&tensor![true, false], &tensor![true, true]).unwrap();
        assert_eq!(metric.value(), 0.5);
        let pixels = Tensor::zeros([2, 3, 4, 5]);
        metric.update(&pixels, &Tensor::zeros_with([2, 4, 5], DType::I64)).unwrap();
        assert_eq!(metric.value(), 42.0 / 44.0);
        let before = metric.value();
        assert!(refused!(
            metric.update(&tensor![[1.0]], &tensor![1.0]),
            TrainFacts::DType { what: "target", .. }
        ));
        for bad in [tensor![1.0], tensor![[1.0, 2.0], [1.0, 2.0]], tensor![1, 2; i64], Tensor::zeros([1, 0])]
        {
            let e = metric.update(&bad, &tensor![1; i64]).unwrap_err();
            assert!(matches!(e.facts(), Some(TrainFacts::Shapes { .. })), "{e}");
            assert!(e.location().is_some_and(|at| at.file() == file!()));
        }
        assert_eq!(metric.value(), before);
        metric.reset();
        assert!(metric.value().is_nan());
        assert!(accuracy(&tensor![0; i64], &tensor![[0]; i64]).is_err());
    }

    #[test]
    fn top_k() {
        // sklearn.metrics.top_k_accuracy_score 1.x
        let scores =
            tensor![[0.5, 0.2, 0.2, 0.1], [0.3, 0.4, 0.2, 0.1], [0.2, 0.4, 0.3, 0.1], [0.7, 0.05, 0.15, 0.1]];
        let target = tensor![0, 1, 2, 2; i64];
        for (k, expected) in [(1, 0.5), (2, 1.0), (9, 1.0)] {
            assert_eq!(top_k_accuracy(&scores, &target, k).unwrap(), expected, "{k}");
        }
        assert_eq!(accuracy(&scores, &target).unwrap(), 0.5);
        let ties = tensor![[1.0, 1.0, f64::NAN]; f64];
        for (class, expected) in [(2, [1.0, 1.0, 1.0]), (0, [0.0, 1.0, 1.0]), (1, [0.0, 0.0, 1.0])] {
            let of = |k| top_k_accuracy(&ties, &tensor![class; i64], k).unwrap();
            assert_eq!([of(1), of(2), of(3)], expected, "{class}");
            assert_eq!(accuracy(&ties, &tensor![class; i64]).unwrap(), expected[0]);
        }
        let mut metric = TopKAccuracy::new(1);
        assert!(refused!(
            metric.update(&scores, &tensor![0, 1, 2, 4; i64]),
            TrainFacts::Class { class: 4, .. }
        ));
        assert!(refused!(
            metric.update(&scores, &tensor![0, -1, 2, 1; i64]),
            TrainFacts::Class { class: -1, .. }
        ));
        assert!(metric.value().is_nan());
        let tall = tensor![[[1.0, 0.0], [0.0, 1.0]]];
        metric.update(&tall, &tensor![[0, 1]; i64]).unwrap();
        assert_eq!(metric.value(), 1.0);
        metric.reset();
        assert!(metric.value().is_nan());
        assert!(top_k_accuracy(&scores, &target, 0).is_err());
    }
}
