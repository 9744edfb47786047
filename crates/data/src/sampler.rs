//! Samplers: which items an epoch has, in which order.

use foldback_tensor::{DType, Generator, Here, Tensor, or_panic};

use crate::error::{Result, check, check_index};

/// Which items an epoch has, in which order: a function of the number of items and of a generator.
///
/// A loader hands in a generator of its own seed and epoch, so that each epoch has another order, and the same after a
/// run was resumed.
///
/// ```
/// use foldback_data::{DataLoader, Result, Sampler};
/// use foldback_tensor::{Generator, tensor};
/// struct Backwards;
/// impl Sampler for Backwards {
///     fn count(&self, len: usize) -> usize {
///         len
///     }
///     fn indices(&self, len: usize, _generator: &mut Generator) -> Result<Vec<usize>> {
///         Ok((0..len).rev().collect())
///     }
/// }
/// let loader = DataLoader::new(vec![1i64, 2, 3], 3).sampler(Backwards);
/// assert_eq!(loader.iter().next().unwrap()?, tensor![3, 2, 1; i64]);
/// # Ok::<(), foldback_data::Error>(())
/// ```
pub trait Sampler {
    /// How many items an epoch has, of a dataset of `len`.
    fn count(&self, len: usize) -> usize;

    /// The items of an epoch, `count(len)` of them, each below `len`.
    ///
    /// # Errors
    /// If the sampler was made for another dataset.
    fn indices(&self, len: usize, generator: &mut Generator) -> Result<Vec<usize>>;
}

/// All items in order. What a loader does unless told otherwise.
#[derive(Clone, Copy, Debug)]
pub struct SequentialSampler;

impl Sampler for SequentialSampler {
    fn count(&self, len: usize) -> usize {
        len
    }
    fn indices(&self, len: usize, _: &mut Generator) -> Result<Vec<usize>> {
        Ok((0..len).collect())
    }
}

/// All items in random order, each once. What `shuffle(true)` does.
#[derive(Clone, Copy, Debug)]
pub struct RandomSampler;

impl Sampler for RandomSampler {
    fn count(&self, len: usize) -> usize {
        len
    }
    #[track_caller]
    fn indices(&self, len: usize, generator: &mut Generator) -> Result<Vec<usize>> {
        generator.try_randperm(len).here()?.to_vec()
    }
}

/// Some items in random order, each once.
///
/// ```
/// use foldback_data::{Sampler, SubsetRandomSampler};
/// use foldback_tensor::Generator;
/// let mut some = SubsetRandomSampler::new([1, 5, 7]).indices(10, &mut Generator::new(0))?;
/// some.sort();
/// assert_eq!(some, [1, 5, 7]);
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SubsetRandomSampler {
    indices: Vec<usize>,
}

impl SubsetRandomSampler {
    /// These items.
    pub fn new(indices: impl Into<Vec<usize>>) -> SubsetRandomSampler {
        SubsetRandomSampler { indices: indices.into() }
    }
}

impl Sampler for SubsetRandomSampler {
    fn count(&self, _: usize) -> usize {
        self.indices.len()
    }
    #[track_caller]
    fn indices(&self, len: usize, generator: &mut Generator) -> Result<Vec<usize>> {
        for &index in &self.indices {
            check_index("subset random sampler", index, len).here()?;
        }
        let order = generator.try_randperm(self.indices.len()).here()?.to_vec::<usize>()?;
        Ok(order.into_iter().map(|i| self.indices[i]).collect())
    }
}

/// Items drawn with probabilities in proportion to weights, by the name of PyTorch's
/// [`WeightedRandomSampler`](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.WeightedRandomSampler).
///
/// Without replacement an item is drawn once at most: those of the smallest `-ln(u) / weight`, where `u` is uniform
/// (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006), which is the law of drawing one after the
/// other. An item of weight 0 is never drawn.
///
/// ```
/// use foldback_data::{Sampler, WeightedRandomSampler};
/// use foldback_tensor::Generator;
/// let drawn = WeightedRandomSampler::new([0.0, 1.0, 3.0], 4).indices(3, &mut Generator::new(0))?;
/// assert_eq!(drawn.len(), 4);
/// assert!(!drawn.contains(&0));
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WeightedRandomSampler {
    weights: Vec<f64>,
    count: usize,
    replacement: bool,
}

const OP: &str = "weighted random sampler";

impl WeightedRandomSampler {
    /// Draws `count` items with replacement. The weights, `[n]`, belong to the items.
    ///
    /// # Panics
    /// Where [`WeightedRandomSampler::try_new`] returns an error.
    #[track_caller]
    pub fn new(weights: impl Into<Tensor>, count: usize) -> WeightedRandomSampler {
        or_panic(WeightedRandomSampler::try_new(weights, count, true))
    }

    /// [`WeightedRandomSampler::new`] that returns an error instead of panicking, with or without replacement.
    ///
    /// # Errors
    /// `Parameter` if the weights are no row of numbers, a weight is negative or not finite, or fewer items have one above 0 than are to be drawn (with
    /// replacement: none).
    ///
    /// ```
    /// use foldback_data::WeightedRandomSampler;
    /// assert!(WeightedRandomSampler::try_new([0.0, 1.0], 2, true).is_ok());
    /// assert!(WeightedRandomSampler::try_new([0.0, 1.0], 2, false).is_err());
    /// ```
    #[track_caller]
    pub fn try_new(
        weights: impl Into<Tensor>,
        count: usize,
        replacement: bool,
    ) -> Result<WeightedRandomSampler> {
        let weights = weights.into();
        check(
            weights.rank() == 1,
            OP,
            "the shape of the weights",
            weights.shape(),
            "[n], a weight for each item",
        )
        .here()?;
        let weights: Vec<f64> = weights.double().to_vec()?;
        WeightedRandomSampler::of(weights, count, replacement).here()
    }

    fn of(weights: Vec<f64>, count: usize, replacement: bool) -> Result<WeightedRandomSampler> {
        for weight in &weights {
            let holds = *weight >= 0.0 && weight.is_finite();
            check(holds, OP, "weight", weight, "a finite number that is not negative")?;
        }
        check(weights.iter().sum::<f64>().is_finite(), OP, "the sum of weights", "inf", "a finite one")?;
        let possible = weights.iter().filter(|&&w| w > 0.0).count();
        let enough = count == 0 || if replacement { possible > 0 } else { possible >= count };
        let expected = format!("at most the {possible} items whose weight is above 0");
        check(enough, OP, "count", count, expected)?;
        Ok(WeightedRandomSampler { weights, count, replacement })
    }

    /// Whether an item can be drawn more than once. The default is true.
    ///
    /// # Panics
    /// If fewer items have a weight above 0 than are to be drawn.
    #[must_use]
    #[track_caller]
    pub fn replacement(self, replacement: bool) -> WeightedRandomSampler {
        or_panic(WeightedRandomSampler::of(self.weights, self.count, replacement).here())
    }
}

impl Sampler for WeightedRandomSampler {
    fn count(&self, _: usize) -> usize {
        self.count
    }
    #[track_caller]
    fn indices(&self, len: usize, generator: &mut Generator) -> Result<Vec<usize>> {
        check_made_for(OP, "the number of weights", self.weights.len(), len).here()?;
        if self.replacement {
            let mut sums = Vec::with_capacity(len);
            self.weights.iter().fold(0.0, |sum, w| {
                sums.push(sum + w);
                sum + w
            });
            let total = sums.last().copied().unwrap_or(0.0);
            let last = self.weights.iter().rposition(|&w| w > 0.0).unwrap_or(0);
            // A product that is rounded up to the total would lie behind the last item.
            let place = |u: f64| sums.partition_point(|&sum| sum <= u * total).min(last);
            return Ok(units(self.count, generator)?.into_iter().map(place).collect());
        }
        let mut keyed: Vec<(f64, usize)> =
            (units(len, generator)?.into_iter().zip(&self.weights).enumerate())
                .filter(|(_, (_, weight))| **weight > 0.0)
                .map(|(i, (u, weight))| (-(1.0 - u).ln() / weight, i))
                .collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(keyed.into_iter().take(self.count).map(|(_, i)| i).collect())
    }
}

/// All items in random order, such that the classes are spread evenly: of the first `k` items those of each class are `k`
/// times its share, to within one on either side.
///
/// Item `j` of a class of `n`, in random order, stands where `(j + u) / n` says, where `u` is uniform and one for the class.
///
/// ```
/// use foldback_data::{DataLoader, StratifiedSampler};
/// let labels: Vec<i64> = (0..100).map(|i| i64::from(i < 20)).collect();
/// let loader = DataLoader::new(labels.clone(), 10).sampler(StratifiedSampler::new(labels));
/// for batch in &loader {
///     assert!((1.0..=3.0).contains(&batch?.sum(..)?.item()?));
/// }
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StratifiedSampler {
    labels: Vec<i64>,
}

impl StratifiedSampler {
    /// For the items of these classes, one label for each. `labels.to_vec()?` makes them of a tensor.
    pub fn new(labels: impl Into<Vec<i64>>) -> StratifiedSampler {
        StratifiedSampler { labels: labels.into() }
    }
}

impl Sampler for StratifiedSampler {
    fn count(&self, _: usize) -> usize {
        self.labels.len()
    }
    #[track_caller]
    fn indices(&self, len: usize, generator: &mut Generator) -> Result<Vec<usize>> {
        check_made_for("stratified sampler", "the number of labels", self.labels.len(), len).here()?;
        let mut order = generator.try_randperm(len).here()?.to_vec::<usize>()?;
        order.sort_by_key(|&i| self.labels[i]);
        let classes: Vec<&[usize]> = order.chunk_by(|&a, &b| self.labels[a] == self.labels[b]).collect();
        let mut placed = Vec::with_capacity(len);
        for (class, u) in classes.iter().zip(units(classes.len(), generator)?) {
            let size = class.len() as f64;
            placed.extend(class.iter().enumerate().map(|(j, &i)| ((j as f64 + u) / size, i)));
        }
        placed.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(placed.into_iter().map(|(_, i)| i).collect())
    }
}

fn check_made_for(op: &'static str, name: &'static str, found: usize, len: usize) -> Result<()> {
    check(found == len, op, name, found, format!("{len}, one for each item of the dataset"))
}

/// Uniform numbers from 0 to below 1.
fn units(count: usize, generator: &mut Generator) -> Result<Vec<f64>> {
    generator.try_rand_with([count], DType::F64)?.to_vec()
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{refused, tensor};

    use super::*;
    use crate::DataFacts;

    fn drawn(sampler: &dyn Sampler, len: usize, seed: u64) -> Vec<usize> {
        let indices = sampler.indices(len, &mut Generator::new(seed)).unwrap();
        assert_eq!(indices.len(), sampler.count(len));
        indices
    }

    #[test]
    fn weights_are_a_tensor_of_any_type() {
        let of = |weights: Tensor| drawn(&WeightedRandomSampler::new(weights, 20), 3, 1);
        assert_eq!(of(tensor![0.0, 1.0, 3.0]), drawn(&WeightedRandomSampler::new([0.0, 1.0, 3.0], 20), 3, 1));
        assert_eq!(of(tensor![0.0, 1.0, 3.0]), of(tensor![0, 1, 3; i64]));
        let e = WeightedRandomSampler::try_new(tensor![[1.0, 2.0]], 1, true).unwrap_err();
        assert!(
            e.to_string().contains("the shape of the weights = [1, 2] is not valid: expected [n]"),
            "{e}"
        );
    }

    #[test]
    fn orders() {
        assert_eq!(drawn(&SequentialSampler, 4, 0), [0, 1, 2, 3]);
        let (a, b) = (drawn(&RandomSampler, 30, 0), drawn(&RandomSampler, 30, 1));
        assert_ne!(a, b);
        let sorted = |mut v: Vec<usize>| {
            v.sort();
            v
        };
        assert_eq!(sorted(a), drawn(&SequentialSampler, 30, 0));
        let some = SubsetRandomSampler::new((0..30).step_by(3).collect::<Vec<_>>());
        assert_ne!(drawn(&some, 30, 0), drawn(&some, 30, 1));
        let e = some.indices(27, &mut Generator::new(0)).unwrap_err();
        assert!(matches!(e.facts(), Some(DataFacts::Index { index: 27, len: 27, .. })), "{e}");
        assert_eq!(sorted(drawn(&some, 30, 1)), (0..30).step_by(3).collect::<Vec<_>>());
    }

    #[test]
    fn weights_are_probabilities() {
        let weights = [1.0, 0.0, 2.0, 5.0, 0.0];
        let drawn_often = drawn(&WeightedRandomSampler::new(weights, 40_000), 5, 3);
        for (i, w) in weights.iter().enumerate() {
            let (p, n) = (w / 8.0, drawn_often.iter().filter(|&&d| d == i).count() as f64);
            assert!((n - 40_000.0 * p).abs() <= 5.0 * (40_000.0 * p * (1.0 - p)).sqrt(), "{i}: {n}");
        }
    }

    #[test]
    fn without_replacement_is_one_after_the_other() {
        let sampler = WeightedRandomSampler::new([1.0, 0.0, 2.0, 5.0], 2).replacement(false);
        let mut count = std::collections::HashMap::new();
        for seed in 0..8000 {
            *count.entry(drawn(&sampler, 4, seed)).or_insert(0.0) += 1.0;
        }
        // p(first) p(second | first)
        for (pair, p) in
            [([0, 2], 1.0 / 8.0 * 2.0 / 7.0), ([3, 2], 5.0 / 8.0 * 2.0 / 3.0), ([2, 0], 2.0 / 8.0 / 6.0)]
        {
            let n: f64 = count[&pair.to_vec()];
            assert!((n - 8000.0 * p).abs() <= 5.0 * (8000.0 * p * (1.0 - p)).sqrt(), "{pair:?}: {n}");
        }
        assert_eq!(count.len(), 6);
    }

    #[test]
    fn every_stretch_has_its_share_of_each_class() {
        let labels: Vec<i64> = (0..200)
            .map(|i| {
                if i < 150 {
                    7
                } else if i < 190 {
                    -2
                } else {
                    4
                }
            })
            .collect();
        let order = drawn(&StratifiedSampler::new(labels.clone()), 200, 5);
        for (class, share) in [(7, 0.75), (-2, 0.2), (4, 0.05)] {
            for k in 1..=200 {
                let n = order[..k].iter().filter(|&&i| labels[i] == class).count() as f64;
                assert!((n - share * k as f64).abs() <= 2.0, "{class}: {n} of {k}");
            }
        }
        let mut sorted = order.clone();
        sorted.sort();
        assert_eq!(sorted, (0..200).collect::<Vec<_>>());
        assert_ne!(order, drawn(&StratifiedSampler::new(labels), 200, 6));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let weighted = |w: &[f64], n, again| WeightedRandomSampler::try_new(w, n, again);
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(refused!(weighted(&[1.0, bad], 1, true), DataFacts::Parameter { name: "weight", .. }));
        }
        assert!(weighted(&[f64::MAX, f64::MAX], 1, true).is_err());
        assert!(refused!(weighted(&[0.0], 1, true), DataFacts::Parameter { name: "count", .. }));
        assert!(refused!(weighted(&[], 1, true), DataFacts::Parameter { name: "count", .. }));
        assert!(weighted(&[], 0, true).is_ok());
        let of_two = weighted(&[1.0, 1.0], 1, true).unwrap();
        assert!(of_two.indices(3, &mut Generator::new(0)).is_err());
        assert!(StratifiedSampler::new([1, 2]).indices(3, &mut Generator::new(0)).is_err());
    }
}
