//! The confusion matrix, and what is computed of it: precision, recall, F1.

use foldback_graph::Value;
use foldback_tensor::{Here, Tensor, or_panic, refuse};

use super::{Metric, class_numbers, tensor_of};
use crate::error::{Result, TrainFacts, check};

const OP: &str = "confusion matrix";

/// How numbers of single classes become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Average {
    /// The mean over the classes that occur in predictions or targets.
    Macro,
    /// Of the counts of all classes together, which makes precision, recall and F1 the accuracy.
    Micro,
    /// The mean over classes, weighted by how often each occurs in the targets.
    Weighted,
}

/// How often each class was taken for each: rows are the targets, columns the predictions. Its value as a metric is the accuracy.
///
/// Predictions are scores or class numbers, as in [`super::Accuracy`]. What would be divided by 0 is 0.
///
/// ```
/// use foldback_tensor::tensor;
/// use foldback_train::metrics::{Average, confusion_matrix};
/// let m = confusion_matrix(&tensor![0, 1, 1, 1; i64], &tensor![0, 0, 1, 1; i64], 2)?;
/// assert_eq!(m.counts(), tensor![[1, 1], [0, 2]; i64]);
/// assert_eq!(m.recall_per_class(), [0.5, 1.0]);
/// assert_eq!(m.recall(Average::Macro), 0.75);
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ConfusionMatrix {
    classes: usize,
    counts: Vec<u64>,
}

impl ConfusionMatrix {
    /// Of classes `0` to `classes - 1`, before the first batch.
    ///
    /// # Panics
    /// Where [`ConfusionMatrix::try_new`] returns an error.
    #[track_caller]
    pub fn new(classes: usize) -> ConfusionMatrix {
        or_panic(ConfusionMatrix::try_new(classes))
    }

    /// [`ConfusionMatrix::new`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Parameter` if there are no classes, or more than 10,000.
    ///
    /// ```
    /// assert!(foldback_train::metrics::ConfusionMatrix::try_new(0).is_err());
    /// ```
    #[track_caller]
    pub fn try_new(classes: usize) -> Result<ConfusionMatrix> {
        check((1..=10_000).contains(&classes), OP, "classes", classes, "1 to 10000").here()?;
        Ok(ConfusionMatrix { classes, counts: vec![0; classes * classes] })
    }

    /// The matrix, `[classes, classes]` of `i64`.
    pub fn counts(&self) -> Tensor {
        let counts = self.counts.iter().map(|&n| n as i64).collect();
        or_panic(Tensor::from_vec(counts, [self.classes, self.classes]))
    }

    /// Of what was taken for each class, the share that is of it.
    pub fn precision_per_class(&self) -> Vec<f64> {
        self.each(|hits, _, predicted| ratio(hits, predicted))
    }

    /// Of what is of each class, the share that was taken for it.
    pub fn recall_per_class(&self) -> Vec<f64> {
        self.each(|hits, actual, _| ratio(hits, actual))
    }

    /// The harmonic mean of precision and recall of each class.
    pub fn f1_per_class(&self) -> Vec<f64> {
        self.each(|hits, actual, predicted| ratio(2.0 * hits, actual + predicted))
    }

    /// Precision over the classes.
    pub fn precision(&self, average: Average) -> f64 {
        self.average(average, self.precision_per_class())
    }

    /// Recall over the classes.
    pub fn recall(&self, average: Average) -> f64 {
        self.average(average, self.recall_per_class())
    }

    /// F1 over the classes.
    pub fn f1(&self, average: Average) -> f64 {
        self.average(average, self.f1_per_class())
    }

    /// A function of the hits, the targets and the predictions of each class.
    fn each<T>(&self, f: impl Fn(f64, f64, f64) -> T) -> Vec<T> {
        let at = |row: usize, column: usize| self.counts[row * self.classes + column] as f64;
        let sum = |count: &dyn Fn(usize) -> f64| (0..self.classes).map(count).sum::<f64>();
        (0..self.classes)
            .map(|c| f(at(c, c), sum(&|other| at(c, other)), sum(&|other| at(other, c))))
            .collect()
    }

    fn average(&self, average: Average, values: Vec<f64>) -> f64 {
        let weights = match average {
            Average::Micro => return self.value(),
            Average::Macro => self.each(|_, actual, predicted| f64::from(actual + predicted > 0.0)),
            Average::Weighted => self.each(|_, actual, _| actual),
        };
        let total: f64 = weights.iter().sum();
        values.iter().zip(&weights).map(|(v, w)| v * w).sum::<f64>() / total
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

impl Metric for ConfusionMatrix {
    #[track_caller]
    fn update(&mut self, prediction: &dyn Value, target: &dyn Value) -> Result<()> {
        let (predicted, target) = class_numbers(OP, &tensor_of(prediction), &tensor_of(target)).here()?;
        let classes = self.classes;
        for (what, numbers) in [("target", &target), ("prediction", &predicted)] {
            let is_class = |&c: &i64| usize::try_from(c).is_ok_and(|c| c < classes);
            if let Some(&class) = numbers.iter().find(|c| !is_class(c)) {
                return refuse(TrainFacts::Class { op: OP, what, class, classes }).here();
            }
        }
        for (p, t) in predicted.iter().zip(&target) {
            self.counts[*t as usize * classes + *p as usize] += 1;
        }
        Ok(())
    }
    fn value(&self) -> f64 {
        let hits: f64 = self.each(|hits, _, _| hits).iter().sum();
        hits / self.counts.iter().sum::<u64>() as f64
    }
    fn reset(&mut self) {
        self.counts.fill(0);
    }
}

/// The confusion matrix of all predictions, see [`ConfusionMatrix`].
///
/// # Errors
/// `Parameter` if there are no classes; `Shapes`, `DType` or `Class` if prediction and target do not fit.
#[track_caller]
pub fn confusion_matrix(
    prediction: &dyn Value,
    target: &dyn Value,
    classes: usize,
) -> Result<ConfusionMatrix> {
    let mut matrix = ConfusionMatrix::try_new(classes).here()?;
    matrix.update(prediction, target).here()?;
    Ok(matrix)
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{refused, tensor};

    use super::*;

    fn close(found: &[f64], expected: &[f64]) {
        assert!(
            found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15),
            "{found:?}"
        );
    }

    #[test]
    fn the_numbers_are_scikit_learns() {
        let target = tensor![0, 1, 2, 2, 1, 0, 2, 4, 1, 0; i64];
        let predicted = tensor![0, 2, 2, 2, 1, 1, 2, 4, 4, 0; i64];
        let m = confusion_matrix(&predicted, &target, 5).unwrap();
        let rows =
            tensor![[2, 1, 0, 0, 0], [0, 1, 1, 0, 1], [0, 0, 3, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]; i64];
        assert_eq!(m.counts(), rows);
        close(&m.precision_per_class(), &[1.0, 0.5, 0.75, 0.0, 0.5]);
        close(&m.recall_per_class(), &[2.0 / 3.0, 1.0 / 3.0, 1.0, 0.0, 1.0]);
        close(&m.f1_per_class(), &[0.8, 0.4, 6.0 / 7.0, 0.0, 2.0 / 3.0]);
        for (average, expected) in [
            (Average::Macro, [0.6875, 0.75, 0.680952380952381]),
            (Average::Micro, [0.7, 0.7, 0.7]),
            (Average::Weighted, [0.725, 0.7, 0.6838095238095239]),
        ] {
            close(&[m.precision(average), m.recall(average), m.f1(average)], &expected);
        }
        assert_eq!(m.value(), 0.7);
    }

    #[test]
    fn batches_add_up_and_a_refused_one_does_not_count() {
        let mut m = ConfusionMatrix::new(2);
        assert!(m.value().is_nan() && m.f1(Average::Macro).is_nan());
        m.update(&tensor![[0.1, 0.2], [0.2, 0.1]], &tensor![1, 1; i64]).unwrap();
        m.update(&tensor![true], &tensor![false]).unwrap();
        assert_eq!(m.counts(), tensor![[0, 1], [1, 1]; i64]);
        let before = m.clone();
        assert!(refused!(
            m.update(&tensor![0, 2; i64], &tensor![0, 1; i64]),
            TrainFacts::Class { what: "prediction", .. }
        ));
        assert!(refused!(
            m.update(&tensor![0, 1; i64], &tensor![0, -1; i64]),
            TrainFacts::Class { what: "target", .. }
        ));
        assert_eq!(m, before);
        m.reset();
        assert_eq!(m, ConfusionMatrix::new(2));
    }
}
