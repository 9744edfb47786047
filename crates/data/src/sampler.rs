//! Samplers: which items an epoch has, in which order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// All items in random order, such that the classes are spread evenly: in every stretch of `k` items, as a batch is, those of
/// a class are `k` times its share, to within less than two on either side.
///
/// Which class is next, Tijdeman's rule says ("The chairman assignment problem", Discrete Mathematics 32, 1980), by which no
/// class is a whole item ahead or behind; the epoch begins at a random place of that order. Which item of the class it is, is random.
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
        let found: Vec<&[usize]> = order.chunk_by(|&a, &b| self.labels[a] == self.labels[b]).collect();
        // Of classes that may be next alike, the first is taken: in each epoch another.
        let mixed = generator.try_randperm(found.len()).here()?.to_vec::<usize>()?;
        let mut classes: Vec<&[usize]> = mixed.into_iter().map(|class| found[class]).collect();
        let sizes: Vec<usize> = classes.iter().map(|class| class.len()).collect();
        let next = |class: usize| classes[class].split_off_first().copied();
        let mut spread: Vec<usize> = evenly(&sizes).into_iter().filter_map(next).collect();
        let first: usize = units(1, generator)?.into_iter().map(|u| (u * len as f64) as usize).sum();
        spread.rotate_left(first.min(len.saturating_sub(1)));
        Ok(spread)
    }
}

/// Classes of these sizes one after the other: of the first `k` places each has `k` times its share, to within less than one.
///
/// With `c` classes, `x` places of one are filled at most `1 / (2c - 2)` before its share is `x`, and at the latest as much
/// before its share is `x + 1`; of those that may be next, the one is taken that must be first.
fn evenly(sizes: &[usize]) -> Vec<usize> {
    let total: usize = sizes.iter().sum();
    let parts = (2 * sizes.len() as u128).saturating_sub(2).max(1);
    // Where a share of `x` and `part` of the `parts` is reached.
    let reached = |class: usize, x: usize, part: u128, round: fn(u128, u128) -> u128| {
        round((x as u128 * parts + part) * total as u128, parts * sizes[class] as u128)
    };
    let opens = |class, x| Reverse((reached(class, x, 1, u128::div_ceil), class, x));
    let closes = |class, x| Reverse((reached(class, x, parts - 1, |a, b| a / b), class, x));
    let mut waiting: BinaryHeap<_> =
        (0..sizes.len()).filter(|&class| sizes[class] > 0).map(|class| opens(class, 0)).collect();
    let mut open = BinaryHeap::with_capacity(sizes.len());
    let mut order = Vec::with_capacity(total);
    for place in 1..=total as u128 {
        while let Some(&Reverse((from, class, x))) = waiting.peek()
            && from <= place
        {
            waiting.pop();
            open.push(closes(class, x));
        }
        let Some(Reverse((_, class, x))) = open.pop() else { break };
        order.push(class);
        if x + 1 < sizes[class] {
            waiting.push(opens(class, x + 1));
        }
    }
    order
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

    /// How far a class is ahead of its share or behind it, at most, of all places that an order has filled.
    fn farthest(order: &[usize], sizes: &[usize]) -> f64 {
        let (mut filled, mut farthest) = (vec![0.0; sizes.len()], 0.0f64);
        for (place, &class) in (1..).zip(order) {
            filled[class] += 1.0;
            for (&filled, &size) in filled.iter().zip(sizes) {
                let share = size as f64 / order.len() as f64 * f64::from(place);
                farthest = farthest.max((filled - share).abs());
            }
        }
        farthest
    }

    #[test]
    fn no_class_is_a_whole_item_ahead_or_behind() {
        let many = |big: usize, small: usize, count: usize| [vec![big], vec![small; count]].concat();
        for sizes in [
            many(150, 40, 1),
            many(100, 2, 50),
            many(500, 1, 100),
            many(3, 3, 29),
            vec![7, 11, 13, 17, 19, 23],
            vec![4, 0, 9],
            vec![5],
            vec![],
        ] {
            let order = evenly(&sizes);
            let counts = (0..sizes.len()).map(|class| order.iter().filter(|&&c| c == class).count());
            assert_eq!(counts.collect::<Vec<_>>(), sizes);
            assert!(farthest(&order, &sizes) < 1.0, "{sizes:?}");
        }
    }

    #[test]
    fn every_stretch_has_its_share_of_each_class() {
        let label = |i: usize| i64::from(i >= 150) * -2 + i64::from(i >= 190) * 6;
        let labels: Vec<i64> = (0..200).map(label).collect();
        let sampler = StratifiedSampler::new(labels.clone());
        let order = drawn(&sampler, 200, 5);
        for (class, share) in [(0, 0.75), (-2, 0.2), (4, 0.05)] {
            for (first, k) in (0..200).flat_map(|first| (1..=200 - first).map(move |k| (first, k))) {
                let n = order[first..first + k].iter().filter(|&&i| labels[i] == class).count() as f64;
                assert!((n - share * k as f64).abs() < 2.0, "{class}: {n} of {k}");
            }
        }
        let mut sorted = order.clone();
        sorted.sort();
        assert_eq!(sorted, (0..200).collect::<Vec<_>>());
        assert_ne!(order, drawn(&sampler, 200, 6));
        // A class of one item may have it anywhere.
        let rare = StratifiedSampler::new([1, 0, 0, 0]);
        let mut places: Vec<_> =
            (0..64).map(|seed| drawn(&rare, 4, seed).iter().position(|&i| i == 0)).collect();
        places.sort();
        places.dedup();
        assert_eq!(places, [Some(0), Some(1), Some(2), Some(3)]);
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
