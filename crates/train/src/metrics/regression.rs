//! Metrics of numbers: R², mean absolute error, root of the mean squared error.

use foldback_graph::Value;
use foldback_tensor::{DType, Here, Tensor, refuse};

use super::{Metric, once, shapes, tensor_of};
use crate::error::{Result, TrainFacts};

/// Prediction and target in `f64`, of one shape.
fn numbers(op: &'static str, prediction: &dyn Value, target: &dyn Value) -> Result<[Tensor; 2]> {
    let (p, t) = (tensor_of(prediction), tensor_of(target));
    if p.shape() != t.shape() {
        return shapes(op, &p, &t, "equal shapes: squeeze, unsqueeze or reshape one like the other");
    }
    for (what, x) in [("prediction", &p), ("target", &t)] {
        if x.dtype() == DType::Bool {
            return refuse(TrainFacts::DType {
                op,
                what,
                found: DType::Bool,
                expected: "numbers: use float()",
            });
        }
    }
    Ok([p.to(DType::F64), t.to(DType::F64)])
}

macro_rules! means {
    ($(
        $(#[$doc:meta])*
        $metric:ident, $function:ident, $example:literal, |$error:ident| $sum:expr, |$mean:ident| $value:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// Prediction and target have one shape, whatever it is; all elements count alike.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $metric {
            sum: f64,
            count: usize,
        }

        impl $metric {
            /// Before the first batch.
            pub fn new() -> $metric {
                $metric::default()
            }
        }

        impl Metric for $metric {
            #[track_caller]
            fn update(&mut self, prediction: &dyn Value, target: &dyn Value) -> Result<()> {
                let [p, t] = numbers(stringify!($function), prediction, target).here()?;
                let $error = p.sub(&t).here()?;
                self.sum += $sum.sum(..).and_then(|s| s.item()).here()?;
                self.count += t.numel();
                Ok(())
            }
            fn value(&self) -> f64 {
                let $mean = self.sum / self.count as f64;
                $value
            }
            fn reset(&mut self) {
                *self = $metric::new();
            }
        }

        $(#[$doc])*
        ///
        /// # Errors
        /// `Shapes` or `DType` if prediction and target do not fit.
        ///
        /// ```
        /// use foldback_tensor::tensor;
        #[doc = concat!("use foldback_train::metrics::", stringify!($function), ";")]
        #[doc = concat!("assert_eq!(", stringify!($function), "(&tensor![1.0, 2.0], &tensor![4.0, -2.0])?, ", $example, ");")]
        /// # Ok::<(), foldback_train::Error>(())
        /// ```
        #[track_caller]
        pub fn $function(prediction: &dyn Value, target: &dyn Value) -> Result<f64> {
            once($metric::new(), prediction, target).here()
        }
    )*};
}
means! {
    /// The mean of the absolute errors.
    MeanAbsoluteError, mean_absolute_error, "3.5", |error| error.abs(), |mean| mean;
    /// The root of the mean of the squared errors.
    RootMeanSquaredError, root_mean_squared_error, "12.5f64.sqrt()", |error| error.square(), |mean| mean.sqrt();
}

/// The share of the target's variance that a prediction explains: `1 - sum (t - p)² / sum (t - mean t)²`.
///
/// Of `[n, outputs]` it is the mean over outputs. Where the targets are all equal it is 1 if the predictions are, too, and
/// 0 otherwise. Of a single row it is NaN, as one has no variance, and so it is where a number is NaN. (scikit-learn's `r2_score`.)
#[derive(Clone, Debug, Default)]
pub struct R2Score {
    count: f64,
    /// of each output: the mean of the targets, the sum of their squared distances from it, that of the squared errors
    outputs: Vec<[f64; 3]>,
}

impl R2Score {
    /// Before the first batch.
    pub fn new() -> R2Score {
        R2Score::default()
    }
}

impl Metric for R2Score {
    /// Batches are joined by Chan's formula ("Algorithms for computing the sample variance", 1983), which keeps the digits
    /// of targets far from 0.
    #[track_caller]
    fn update(&mut self, prediction: &dyn Value, target: &dyn Value) -> Result<()> {
        let [p, t] = numbers("r2_score", prediction, target).here()?;
        let outputs = match *t.dims() {
            [_] => 1,
            [_, outputs] if self.outputs.is_empty() || self.outputs.len() == outputs => outputs,
            _ => 0,
        };
        if outputs == 0 || !self.outputs.is_empty() && self.outputs.len() != outputs {
            return shapes("r2_score", &p, &t, "[n] or [n, outputs], with as many outputs in each batch")
                .here();
        }
        let (p, t) = (p.to_vec::<f64>().here()?, t.to_vec::<f64>().here()?);
        let count = (t.len() / outputs) as f64;
        if count == 0.0 {
            return Ok(());
        }
        self.outputs.resize(outputs, [0.0; 3]);
        let total = self.count + count;
        for (i, [mean, spread, errors]) in self.outputs.iter_mut().enumerate() {
            let of = |v: &'_ [f64]| v.iter().skip(i).step_by(outputs).copied().collect::<Vec<_>>();
            let (p, t) = (of(&p), of(&t));
            let own = t.iter().sum::<f64>() / count;
            let apart = own - *mean;
            *spread +=
                t.iter().map(|t| (t - own).powi(2)).sum::<f64>() + apart * apart * self.count * count / total;
            *mean += apart * count / total;
            *errors += p.iter().zip(&t).map(|(p, t)| (p - t).powi(2)).sum::<f64>();
        }
        self.count = total;
        Ok(())
    }

    fn value(&self) -> f64 {
        if self.count < 2.0 {
            return f64::NAN;
        }
        let one = |&[_, spread, errors]: &[f64; 3]| match spread == 0.0 && !errors.is_nan() {
            true => f64::from(errors == 0.0),
            false => 1.0 - errors / spread,
        };
        self.outputs.iter().map(one).sum::<f64>() / self.outputs.len() as f64
    }

    fn reset(&mut self) {
        *self = R2Score::new();
    }
}

/// The share of the target's variance that a prediction explains, see [`R2Score`].
///
/// # Errors
/// `Shapes` or `DType` if prediction and target do not fit.
///
/// ```
/// use foldback_tensor::tensor;
/// use foldback_train::metrics::r2_score;
/// assert_eq!(r2_score(&tensor![0.0, 2.0, 2.0], &tensor![0.0, 2.0, 4.0])?, 0.5);
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[track_caller]
pub fn r2_score(prediction: &dyn Value, target: &dyn Value) -> Result<f64> {
    once(R2Score::new(), prediction, target).here()
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{refused, tensor};

    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-14, "{found}, expected {expected}");
    }

    #[test]
    fn the_numbers_are_scikit_learns() {
        let t = tensor![[3.0, -0.5], [2.0, 7.0], [7.0, 2.0], [-1.0, 4.0]; f64];
        let p = tensor![[2.5, 0.0], [0.0, 8.0], [8.0, 2.0], [-1.0, 5.0]; f64];
        let first = |x: &Tensor| x.select(1, 0).unwrap();
        near(r2_score(&first(&p), &first(&t)).unwrap(), 0.8396946564885497);
        near(r2_score(&p, &t).unwrap(), 0.8825802474989333);
        near(mean_absolute_error(&p, &t).unwrap(), 0.75);
        near(root_mean_squared_error(&first(&p), &first(&t)).unwrap(), 1.14564392373896);
        near(root_mean_squared_error(&p, &t).unwrap(), 0.9682458365518543);
        // The same batch by batch, far from 0.
        let far = (&t + 1e6, &p + 1e6);
        let mut metric = R2Score::new();
        for (at, n) in [(0, 1), (1, 0), (1, 3)] {
            metric.update(&far.1.narrow(0, at, n).unwrap(), &far.0.narrow(0, at, n).unwrap()).unwrap();
        }
        assert!((metric.value() - 0.8825802474989333).abs() < 1e-9);
        metric.reset();
        assert!(metric.value().is_nan() && RootMeanSquaredError::new().value().is_nan());
    }

    #[test]
    fn targets_without_variance() {
        assert_eq!(r2_score(&tensor![2.0, 2.0], &tensor![2.0, 2.0]).unwrap(), 1.0);
        assert_eq!(r2_score(&tensor![2.0, 3.0], &tensor![2.0, 2.0]).unwrap(), 0.0);
        // What is not a number is not hidden by them, and one row has no variance to explain.
        assert!(r2_score(&tensor![2.0, f32::NAN], &tensor![2.0, 2.0]).unwrap().is_nan());
        let mut metric = R2Score::new();
        metric.update(&tensor![2.0], &tensor![2.0]).unwrap();
        assert!(metric.value().is_nan());
        metric.update(&tensor![2.0], &tensor![2.0]).unwrap();
        assert_eq!(metric.value(), 1.0);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(refused!(mean_absolute_error(&tensor![[1.0]], &tensor![1.0]), TrainFacts::Shapes { .. }));
        assert!(refused!(root_mean_squared_error(&tensor![true], &tensor![1.0]), TrainFacts::DType { .. }));
        for bad in [Tensor::zeros([2, 2, 2]), Tensor::zeros([2, 0]), Tensor::zeros(())] {
            assert!(refused!(r2_score(&bad, &bad), TrainFacts::Shapes { .. }));
        }
        let mut metric = R2Score::new();
        metric.update(&tensor![[1.0, 2.0]], &tensor![[1.0, 2.0]]).unwrap();
        let e = metric.update(&tensor![1.0], &tensor![1.0]).unwrap_err();
        assert!(e.location().is_some_and(|at| at.file() == file!()), "{e}");
        metric.update(&tensor![[1, 2]; i64], &tensor![[1.0, 2.0]; f64]).unwrap();
    }
}
