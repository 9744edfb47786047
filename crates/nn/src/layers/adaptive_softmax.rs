//! The likelihoods of many classes, of which the rare ones have less of everything.

use foldback_graph::{Var, no_grad};
use foldback_tensor::{DType, Here, Tensor, refuse};

use super::making::{Drawing, Drawn, expect_float, has, making};
use crate::error::{NnFacts, Result};
use crate::layer_path::call_of;
use crate::{Linear, Module, forward};

const OP: &str = "adaptive_log_softmax_with_loss";

/// The log-likelihoods of classes that are sorted by how frequent they are (Grave et al., "Efficient softmax approximation for
/// GPUs", 2017): the first ones have scores of their own in the `head`, beside one for each cluster of the others; those in a
/// cluster are told apart by two products in the `tail`, through fewer features the rarer they are. PyTorch's
/// [`AdaptiveLogSoftmaxWithLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveLogSoftmaxWithLoss.html).
///
/// The weights start as those of [`Linear`]. A clone shares them, [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::AdaptiveLogSoftmaxWithLoss;
/// use foldback_tensor::{Tensor, assert_close, tensor};
/// // Classes 0 to 9 in the head, 10 to 99 in a cluster, 100 to 999 in another one.
/// let layer = AdaptiveLogSoftmaxWithLoss::new(64, 1000, [10, 100]);
/// let (x, target) = (Tensor::randn([3, 64]), tensor![5, 50, 500; i64]);
/// let (likelihoods, loss) = layer.forward(&x, &target)?;
/// assert_eq!((likelihoods.shape().dims(), loss.shape().dims()), (&[3][..], &[][..]));
/// loss.backward()?;
/// let all = layer.log_prob(&x)?;
/// assert_eq!(all.shape(), [3, 1000]);
/// assert_close!(all.gather(1, target.unsqueeze(1)?)?.squeeze(1)?.value(), likelihoods.value(), atol = 1e-4);
/// assert_eq!(layer.predict(&x)?.value(), all.value().argmax(1)?);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct AdaptiveLogSoftmaxWithLoss {
    /// the scores of the first classes and of the clusters
    pub head: Linear,
    /// for each cluster what its features are, and the scores of its classes
    tail: Vec<[Linear; 2]>,
    in_features: usize,
    n_classes: usize,
    cutoffs: Vec<usize>,
    div_value: f64,
    #[module(skip)]
    dtype: DType,
}

making! {
    AdaptiveLogSoftmaxWithLoss(in_features: usize, n_classes: usize, cutoffs: impl Into<Vec<usize>>) = {
        let cutoffs: Vec<usize> = cutoffs.into();
        AdaptiveLogSoftmaxWithLoss {
            head: Linear::blank(false),
            tail: cutoffs.iter().map(|_| [Linear::blank(false), Linear::blank(false)]).collect(),
            in_features,
            n_classes,
            cutoffs,
            div_value: 4.0,
            dtype: DType::F32,
        }
    };
    shown { in_features n_classes cutoffs div_value dtype }
    keep {}
    anew {
        /// By how much each cluster has fewer features than the one before, the first than the input: above 0. The default is 4.
        div_value: f64, |layer| {
            layer.div_value = div_value;
            layer.tail.iter_mut().flatten().for_each(Linear::clear);
        };
        /// Whether the head has a bias. The default is no. One that was not there is drawn.
        head_bias: bool, |layer| has(&mut layer.head.bias, head_bias);
    }
}

impl Drawn for AdaptiveLogSoftmaxWithLoss {
    fn clear(&mut self) {
        self.head.clear();
        self.tail.iter_mut().flatten().for_each(Linear::clear);
    }

    #[track_caller]
    fn draw(&mut self, drawing: &mut Drawing<'_>) -> Result<()> {
        expect_float(OP, self.dtype)?;
        let bounds: Vec<usize> = [0].iter().chain(&self.cutoffs).chain([&self.n_classes]).copied().collect();
        if self.cutoffs.is_empty() || !bounds.is_sorted_by(|a, b| a < b) {
            let most = self.n_classes.saturating_sub(1);
            let expected = format!(
                "at least one, each larger than the one before, from 1 to {most}, the number of classes - 1"
            );
            let found = self.cutoffs.clone();
            return refuse(NnFacts::Sizes { op: OP, name: "cutoffs", found, expected });
        }
        if self.div_value.is_nan() || self.div_value <= 0.0 {
            let (value, expected) = (self.div_value, "a number above zero");
            return refuse(NnFacts::Parameter { op: OP, name: "div_value", value, expected });
        }
        self.head.draw(drawing, [self.in_features, self.cutoffs[0] + self.tail.len()], self.dtype)?;
        for (i, [features, scores]) in self.tail.iter_mut().enumerate() {
            let width = fewer(self.in_features, self.div_value.powi(i as i32 + 1));
            features.draw(drawing, [self.in_features, width], self.dtype)?;
            scores.draw(drawing, [width, bounds[i + 2] - bounds[i + 1]], self.dtype)?;
        }
        Ok(())
    }
}

/// The whole part of the exact quotient, where a rounded one may be the next number.
fn fewer(features: usize, divisor: f64) -> usize {
    let features = features as f64;
    ((features - features % divisor) / divisor).round() as usize
}

#[forward]
impl AdaptiveLogSoftmaxWithLoss {
    /// The log-likelihood of each target, `[n]` or `[]`, and the mean of their negatives: of inputs `[n, in]` with class numbers `[n]`
    /// (`i64`), or `[in]` with `[]`.
    ///
    /// # Errors
    /// `InputShape` or `Features` if a shape does not fit, `DType` for other targets than `i64`, `TargetOutOfRange`.
    #[track_caller]
    pub fn forward(&self, input: &Var, target: &Var) -> Result<(Var, Var)> {
        let target = self.checked(input, &target.value()).here()?;
        let alone = input.rank() == 1;
        let x = if alone { &input.unsqueeze(0)? } else { input };
        let first = self.cutoffs[0] as i64;
        // Where each target's likelihood stands in the head's, and for each cluster the rows that are in it with their classes there.
        let mut places = target.clone();
        let mut clusters = vec![(Vec::new(), Vec::new()); self.tail.len()];
        for (row, place) in places.iter_mut().enumerate().filter(|(_, class)| **class >= first) {
            let cluster = self.cutoffs.partition_point(|&cutoff| cutoff as i64 <= *place) - 1;
            let (rows, classes) = &mut clusters[cluster];
            rows.push(row as i64);
            classes.push(*place - self.cutoffs[cluster] as i64);
            *place = first + cluster as i64;
        }
        let of_head = self.head.forward(x)?.log_softmax(1)?;
        let mut output = of_head.gather(1, column(places)?)?.squeeze(1)?;
        for (i, (rows, classes)) in clusters.into_iter().enumerate().filter(|(_, (rows, _))| !rows.is_empty())
        {
            let count = rows.len();
            let rows = Tensor::from_vec(rows, [count])?;
            let own = self.cluster(i, &x.index_select(0, &rows)?)?.gather(1, column(classes)?)?.squeeze(1)?;
            output = output.index_add(0, &rows, &own)?;
        }
        let loss = output.mean(..)?.neg();
        Ok((if alone { output.squeeze(0)? } else { output }, loss))
    }

    /// The log-likelihood of every class, `[n, classes]`: of inputs `[n, in]`.
    ///
    /// # Errors
    /// `InputShape` or `Features` if the shape does not fit.
    #[track_caller]
    pub fn log_prob(&self, input: &Var) -> Result<Var> {
        call_of!(self, self.of_all(input))
    }

    /// The most likely class of each input, `[n]` (`i64`), which has no gradient: of inputs `[n, in]`. The clusters are computed only for
    /// the inputs whose largest score in the head is a cluster's.
    ///
    /// # Errors
    /// As `log_prob`.
    #[track_caller]
    pub fn predict(&self, input: &Var) -> Result<Var> {
        call_of!(self, no_grad(|| self.most_likely(input)).here())
    }
}

impl AdaptiveLogSoftmaxWithLoss {
    #[track_caller]
    fn of_all(&self, x: &Var) -> Result<Var> {
        expect_rows(x).here()?;
        let of_head = self.head.forward(x)?.log_softmax(1)?;
        let first = self.cutoffs[0];
        let mut parts = vec![of_head.narrow(1, 0, first)?];
        for i in 0..self.tail.len() {
            parts.push(self.cluster(i, x)?.add(of_head.narrow(1, first + i, 1)?)?);
        }
        Var::cat(&parts, 1)
    }

    #[track_caller]
    fn most_likely(&self, x: &Var) -> Result<Var> {
        expect_rows(x).here()?;
        let mut classes = self.head.forward(x)?.value().argmax(1)?.to_vec::<i64>()?;
        let rare = |(row, class): (usize, &i64)| (*class >= self.cutoffs[0] as i64).then_some(row as i64);
        let rows: Vec<i64> = classes.iter().enumerate().filter_map(rare).collect();
        if !rows.is_empty() {
            let picked = x.index_select(0, Tensor::from_vec(rows.clone(), [rows.len()])?)?;
            let own = self.of_all(&picked)?.value().argmax(1)?.to_vec::<i64>()?;
            rows.iter().zip(own).for_each(|(&row, class)| classes[row as usize] = class);
        }
        let count = classes.len();
        Ok(Tensor::from_vec(classes, [count])?.into())
    }

    /// The log-likelihoods of a cluster's classes among each other, `[n, classes of the cluster]`.
    #[track_caller]
    fn cluster(&self, number: usize, x: &Var) -> Result<Var> {
        let [features, scores] = &self.tail[number];
        scores.forward(features.forward(x)?)?.log_softmax(1)
    }

    /// The class numbers, if they fit the input.
    fn checked(&self, input: &Var, target: &Tensor) -> Result<Vec<i64>> {
        if target.dtype() != DType::I64 {
            let (name, found) = ("class numbers", target.dtype());
            return refuse(NnFacts::DType { op: OP, name, found, expected: "i64" });
        }
        if !(1..=2).contains(&input.rank()) {
            let (expected, found) = ("[n, in_features] or [in_features]".into(), input.shape().clone());
            return refuse(NnFacts::InputShape { op: OP, name: "an input", expected, found });
        }
        if target.dims() != &input.dims()[..input.rank() - 1] {
            let expected = format!("{:?}, a class for each input", &input.dims()[..input.rank() - 1]);
            let found = target.shape().clone();
            return refuse(NnFacts::InputShape { op: OP, name: "a target", expected, found });
        }
        let numbers = target.to_vec::<i64>()?;
        let outside = |&(_, &class): &(usize, &i64)| class < 0 || class as u64 >= self.n_classes as u64;
        match numbers.iter().enumerate().find(outside) {
            None => Ok(numbers),
            Some((place, &target)) => {
                let index = if input.rank() == 1 { Vec::new() } else { vec![place] };
                refuse(NnFacts::TargetOutOfRange { loss: OP, target, index, classes: self.n_classes })
            }
        }
    }
}

/// Numbers one below the other.
fn column(numbers: Vec<i64>) -> Result<Tensor> {
    let count = numbers.len();
    Tensor::from_vec(numbers, [count, 1])
}

/// Refuses an input that is no batch.
fn expect_rows(x: &Var) -> Result<()> {
    if x.rank() == 2 {
        return Ok(());
    }
    let (expected, found) = ("[n, in_features]".into(), x.shape().clone());
    refuse(NnFacts::InputShape { op: OP, name: "an input", expected, found })
}

#[cfg(test)]
mod tests {
    use foldback_tensor::tensor;

    use super::*;

    #[test]
    fn settings_that_do_not_fit_are_refused() {
        for cutoffs in [vec![], vec![0, 2], vec![2, 2], vec![3, 1], vec![2, 8], vec![usize::MAX]] {
            let e = AdaptiveLogSoftmaxWithLoss::try_new(4, 8, cutoffs.clone()).unwrap_err();
            // The list as a whole: of one number of it nobody knows which was meant.
            assert!(e.to_string().contains(&format!("cutoffs = {cutoffs:?} is not valid")), "{e}");
            assert!(e.to_string().contains("from 1 to 7, the number of classes - 1"), "{e}");
        }
        let builder = || AdaptiveLogSoftmaxWithLoss::builder(4, 8, [3]);
        for div_value in [0.0, -2.0, f64::NAN] {
            assert!(builder().div_value(div_value).build().is_err());
        }
        assert!(builder().dtype(DType::I64).build().is_err());
        assert!(AdaptiveLogSoftmaxWithLoss::try_new(usize::MAX, 8, [3]).is_err());
    }

    #[test]
    fn calls_that_do_not_fit_are_refused() {
        let layer = AdaptiveLogSoftmaxWithLoss::new(4, 8, [3]);
        let text = |input: &[usize], target: Tensor| {
            layer.forward(Tensor::ones(input), target).unwrap_err().with_location(None).to_string()
        };
        assert!(text(&[2, 4], tensor![1, 8; i64]).contains("target 8 at index [1]"));
        assert!(text(&[4], tensor![-1; i64].squeeze(0).unwrap()).contains("target -1 at index []"));
        assert!(text(&[2, 4], tensor![1; i64]).contains("a class for each input"));
        assert!(text(&[2, 4], tensor![1.0, 2.0]).contains("class numbers must be i64"));
        assert!(text(&[2, 2, 4], tensor![[1, 2]; i64]).contains("[n, in_features] or [in_features]"));
        assert!(text(&[2, 5], tensor![1, 2; i64]).contains("linear: "));
        assert!(layer.log_prob(Tensor::ones(4)).is_err() && layer.predict(Tensor::ones(4)).is_err());
    }

    #[test]
    fn a_setter_keeps_what_it_does_not_change() {
        let layer = AdaptiveLogSoftmaxWithLoss::new(16, 40, [4, 10]);
        let widths = |layer: &AdaptiveLogSoftmaxWithLoss| -> Vec<usize> {
            layer.tail.iter().map(|[features, _]| features.out_features()).collect()
        };
        assert_eq!(widths(&layer), [4, 1]);
        let other = layer.clone().head_bias(true).div_value(2.0);
        assert!(other.head.weight.is_same(&layer.head.weight));
        assert_eq!((widths(&other), widths(&layer)), (vec![8, 4], vec![4, 1]));
        let names: Vec<_> = other.named_parameters().into_iter().map(|(name, _)| name).collect();
        let tail = ["tail.0.0.weight", "tail.0.1.weight", "tail.1.0.weight", "tail.1.1.weight"];
        assert_eq!(names, [&["head.weight", "head.bias"][..], &tail].concat());
        // 0.3 / 0.1 is 3 after rounding; the exact quotient is below.
        assert_eq!((fewer(3, 0.1), fewer(7, 2.0)), (29, 3));
    }
}
