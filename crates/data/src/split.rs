//! Splits: a dataset in parts, at random, by PyTorch's rule of lengths.

use std::sync::Arc;

use foldback_tensor::{Generator, Here, Tensor};

use crate::dataset::{Dataset, Subset};
use crate::error::{Result, check};

const OP: &str = "random_split";

/// A part's size: a fraction of the whole, or a number of items.
pub trait Length: Copy + std::fmt::Debug {
    /// How many items each part has of `len`.
    ///
    /// # Errors
    /// `Parameter` if the parts do not make up the whole.
    fn counts(lengths: &[Self], len: usize) -> Result<Vec<usize>>;
}

impl Length for usize {
    fn counts(lengths: &[usize], len: usize) -> Result<Vec<usize>> {
        let total = lengths.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
        let expected = || format!("counts that sum to the {len} items, or fractions that sum to 1");
        check(total == Some(len), OP, "lengths", format!("{lengths:?}"), expected())?;
        Ok(lengths.to_vec())
    }
}

impl Length for f64 {
    /// The whole part of each share; what is left over goes one each to the first parts.
    fn counts(lengths: &[f64], len: usize) -> Result<Vec<usize>> {
        let total: f64 = lengths.iter().sum();
        let holds = lengths.iter().all(|f| (0.0..=1.0).contains(f)) && (total - 1.0).abs() <= 1e-9;
        let expected = "fractions between 0 and 1 that sum to 1, or counts (integers)";
        check(holds, OP, "lengths", format!("{lengths:?}"), expected)?;
        let mut counts: Vec<usize> = lengths.iter().map(|f| (f * len as f64).floor() as usize).collect();
        let left = len.saturating_sub(counts.iter().sum());
        (0..left).for_each(|i| counts[i % lengths.len()] += 1);
        Ok(counts)
    }
}

/// Splits a dataset at random into parts of these lengths, by this thread's generator.
///
/// Lengths are fractions that sum to 1, or counts that sum to the number of items. Of a fraction each part gets the whole
/// number of items below it; what is left over goes one each to the first parts. (PyTorch's
/// [`random_split`](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split).)
///
/// # Errors
/// `Parameter` if the lengths do not make up the whole.
///
/// ```
/// use foldback_data::{Dataset, TensorDataset, random_split};
/// use foldback_tensor::Tensor;
/// let set = TensorDataset::new([Tensor::arange(11)]);
/// let [train, test] = random_split(set, [0.8, 0.2])?;
/// assert_eq!((train.len(), test.len()), (9, 2));
/// let [train, _test] = random_split(train, [5, 4])?;
/// assert_eq!(train.len(), 5);
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[track_caller]
pub fn random_split<D: Dataset, L: Length, const N: usize>(
    set: D,
    lengths: [L; N],
) -> Result<[Subset<D>; N]> {
    split(Arc::new(set), lengths, Tensor::try_randperm).here()
}

/// [`random_split`] by a seed: the same parts for the same seed and number of items.
///
/// # Errors
/// `Parameter` if the lengths do not make up the whole.
///
/// ```
/// use foldback_data::random_split_with;
/// let parts = || random_split_with((0..10).collect::<Vec<i64>>(), [0.5, 0.5], 7);
/// assert_eq!(parts()?[1].indices(), parts()?[1].indices());
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[track_caller]
pub fn random_split_with<D: Dataset, L: Length, const N: usize>(
    set: D,
    lengths: [L; N],
    seed: u64,
) -> Result<[Subset<D>; N]> {
    split(Arc::new(set), lengths, |n| Generator::new(seed).try_randperm(n)).here()
}

fn split<D: Dataset, L: Length, const N: usize>(
    set: Arc<D>,
    lengths: [L; N],
    randperm: impl FnOnce(usize) -> Result<Tensor>,
) -> Result<[Subset<D>; N]> {
    let counts = L::counts(&lengths, set.len())?;
    let order = randperm(set.len())?.to_vec::<usize>()?;
    let (mut rest, mut parts) = (order.as_slice(), Vec::with_capacity(N));
    for count in counts {
        let (part, others) = rest.split_at(count.min(rest.len()));
        parts.push(Subset::of(set.clone(), part.to_vec())?);
        rest = others;
    }
    Ok(parts.try_into().unwrap_or_else(|_| unreachable!("one part for each of the {N} lengths")))
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{manual_seed, refused};

    use super::*;
    use crate::DataFacts;

    #[test]
    fn lengths_are_pytorchs() {
        // random_split(range(n), fractions) of PyTorch 2.15
        for (n, fractions, expected) in [
            (10, vec![0.3, 0.3, 0.4], vec![3, 3, 4]),
            (11, vec![0.3, 0.3, 0.4], vec![4, 3, 4]),
            (103, vec![0.25, 0.25, 0.25, 0.25], vec![26, 26, 26, 25]),
            (1, vec![0.5, 0.5], vec![1, 0]),
            (0, vec![1.0], vec![0]),
            (17, vec![0.7, 0.2, 0.1], vec![12, 4, 1]),
        ] {
            assert_eq!(f64::counts(&fractions, n).unwrap(), expected, "{n} {fractions:?}");
        }
    }

    #[test]
    fn the_parts_are_the_whole_and_follow_the_seed() {
        let set: Vec<usize> = (0..50).collect();
        let [a, b] = random_split_with(set.clone(), [0.7, 0.3], 1).unwrap();
        let mut all: Vec<usize> = a.indices().iter().chain(b.indices()).copied().collect();
        assert_ne!(all, set);
        all.sort();
        assert_eq!(all, set);
        let [other, _] = random_split_with(set.clone(), [0.7, 0.3], 2).unwrap();
        assert_ne!(a.indices(), other.indices());
        manual_seed(3);
        let [first, _] = random_split(set.clone(), [25, 25]).unwrap();
        manual_seed(3);
        let [again, _] = random_split(set, [25, 25]).unwrap();
        assert_eq!(first.indices(), again.indices());
    }

    #[test]
    fn lengths_that_do_not_make_up_the_whole_are_refused() {
        let set = || (0..10).collect::<Vec<i64>>();
        assert!(refused!(random_split(set(), [5, 4]), DataFacts::Parameter { .. }));
        assert!(refused!(random_split(set(), [usize::MAX, 11]), DataFacts::Parameter { .. }));
        for bad in [[0.5, 0.4], [1.5, -0.5], [f64::NAN, 1.0]] {
            assert!(refused!(random_split(set(), bad), DataFacts::Parameter { .. }), "{bad:?}");
        }
        let none: [f64; 0] = [];
        assert!(random_split(set(), none).is_err());
    }
}
