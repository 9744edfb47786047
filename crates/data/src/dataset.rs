//! `Dataset`: items by number; those made of tensors, and those made of other datasets.

use std::sync::Arc;

use foldback_tensor::{Here, Tensor, or_panic, refuse};

use crate::collate::Collate;
use crate::error::{DataFacts, Result, check, check_index};

/// Items by number, from 0 to `len() - 1`.
///
/// A loader makes batches of them, in other threads if it is told to. What an item draws from this thread's generator
/// (`Tensor::rand` and its relatives) is then the same for any number of threads.
///
/// ```
/// use foldback_data::{DataLoader, Dataset, Result};
/// use foldback_tensor::{Tensor, tensor};
/// /// The squares.
/// struct Squares;
/// impl Dataset for Squares {
///     type Item = (Tensor, i64);
///     fn len(&self) -> usize {
///         100
///     }
///     fn get(&self, index: usize) -> Result<(Tensor, i64)> {
///         Ok((tensor![index as f32], (index * index) as i64))
///     }
/// }
/// let loader = DataLoader::new(Squares, 3);
/// let (x, y) = loader.iter().next().unwrap()?;
/// assert_eq!((x, y), (tensor![[0.0], [1.0], [2.0]], tensor![0, 1, 4; i64]));
/// # Ok::<(), foldback_data::Error>(())
/// ```
pub trait Dataset {
    /// What one item is.
    type Item;

    /// How many items there are.
    fn len(&self) -> usize;

    /// One item.
    ///
    /// # Errors
    /// Whatever stands in its way; a loader hands it on in the place of the batch.
    fn get(&self, index: usize) -> Result<Self::Item>;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// These items as a batch: each by [`Dataset::get`], put together by [`Collate`]. What can fetch many at once does so here.
    ///
    /// # Errors
    /// Those of `get`, and what cannot be put together.
    fn batch(&self, indices: &[usize]) -> Result<<Self::Item as Collate>::Batch>
    where
        Self::Item: Collate,
    {
        Collate::collate(indices.iter().map(|&index| self.get(index)).collect::<Result<_>>()?)
    }

    /// All items as a batch, in their order: what [`Normaliser::fit`](crate::Normaliser::fit) takes of the training part, or a test
    /// set that is looked at as a whole.
    ///
    /// # Errors
    /// As [`Dataset::batch`].
    ///
    /// ```
    /// use foldback_data::{Dataset, Subset, TensorDataset};
    /// use foldback_tensor::tensor;
    /// let set = TensorDataset::new([tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], tensor![7, 8, 9; i64]]);
    /// let [x, y] = Subset::new(set, [2, 0])?.all()?;
    /// assert_eq!((x, y), (tensor![[5.0, 6.0], [1.0, 2.0]], tensor![9, 7; i64]));
    /// # Ok::<(), foldback_data::Error>(())
    /// ```
    #[track_caller]
    fn all(&self) -> Result<<Self::Item as Collate>::Batch>
    where
        Self::Item: Collate,
    {
        self.batch(&(0..self.len()).collect::<Vec<_>>())
    }

    /// The same items, each changed by a function.
    ///
    /// ```
    /// use foldback_data::{Dataset, TensorDataset};
    /// use foldback_tensor::tensor;
    /// let set = TensorDataset::new([tensor![1.0, 2.0]]).map(|[x]| Ok(x * 10.0));
    /// assert_eq!(set.get(1)?, tensor![20.0].select(0, 0)?);
    /// # Ok::<(), foldback_data::Error>(())
    /// ```
    fn map<T, F: Fn(Self::Item) -> Result<T>>(self, change: F) -> Mapped<Self, F>
    where
        Self: Sized,
    {
        Mapped { set: self, change }
    }
}

/// What stands for another dataset.
macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<D: Dataset + ?Sized> Dataset for $pointer {
            type Item = D::Item;

            fn len(&self) -> usize {
                (**self).len()
            }
            fn get(&self, index: usize) -> Result<D::Item> {
                (**self).get(index)
            }
            fn batch(&self, indices: &[usize]) -> Result<<D::Item as Collate>::Batch>
            where
                D::Item: Collate,
            {
                (**self).batch(indices)
            }
        }
    )*};
}
pointers!(&D, Arc<D>, Box<D>);

impl<T: Clone> Dataset for Vec<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.len()
    }
    #[track_caller]
    fn get(&self, index: usize) -> Result<T> {
        check_index("dataset", index, self.len()).here()?;
        Ok(self[index].clone())
    }
}

/// Tensors whose first axis counts items: item `i` holds index `i` of each.
///
/// A batch is one `index_select` per tensor.
///
/// ```
/// use foldback_data::{Dataset, TensorDataset};
/// use foldback_tensor::tensor;
/// let set = TensorDataset::new([tensor![[1.0, 2.0], [3.0, 4.0]], tensor![5, 6; i64]]);
/// let [x, y] = set.get(1)?;
/// assert_eq!((x, y.item()?), (tensor![3.0, 4.0], 6.0));
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorDataset<const N: usize> {
    tensors: [Tensor; N],
}

impl<const N: usize> TensorDataset<N> {
    /// The items of these tensors.
    ///
    /// # Panics
    /// Where [`TensorDataset::try_new`] returns an error.
    #[track_caller]
    pub fn new(tensors: [Tensor; N]) -> TensorDataset<N> {
        or_panic(TensorDataset::try_new(tensors))
    }

    /// [`TensorDataset::new`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Parameter` without tensors, or if one has no axes; `Items` if they hold different numbers of items.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert!(foldback_data::TensorDataset::try_new([tensor![1.0, 2.0], tensor![1.0]]).is_err());
    /// ```
    #[track_caller]
    pub fn try_new(tensors: [Tensor; N]) -> Result<TensorDataset<N>> {
        const OP: &str = "tensor dataset";
        check(N > 0, OP, "tensors", "[]", "at least one tensor").here()?;
        let axes = "a tensor whose first axis counts items: unsqueeze(0) makes one item of it";
        for tensor in &tensors {
            check(tensor.shape().rank() > 0, OP, "a tensor of shape", tensor.shape(), axes).here()?;
        }
        let expected = tensors[0].dims()[0];
        match tensors.iter().position(|t| t.dims()[0] != expected) {
            Some(index) => {
                let found = tensors[index].dims()[0];
                refuse(DataFacts::Items { op: OP, index, found, expected }).here()
            }
            None => Ok(TensorDataset { tensors }),
        }
    }

    /// The tensors.
    pub fn tensors(&self) -> &[Tensor; N] {
        &self.tensors
    }

    fn each(&self, take: impl Fn(&Tensor) -> Result<Tensor>) -> Result<[Tensor; N]> {
        let taken = self.tensors.iter().map(take).collect::<Result<Vec<_>>>()?;
        Ok(taken.try_into().unwrap_or_else(|_| unreachable!("one part of each of the {N} tensors")))
    }
}

impl<const N: usize> Dataset for TensorDataset<N> {
    type Item = [Tensor; N];

    fn len(&self) -> usize {
        self.tensors[0].dims()[0]
    }
    #[track_caller]
    fn get(&self, index: usize) -> Result<[Tensor; N]> {
        check_index("tensor dataset", index, self.len()).here()?;
        self.each(|t| t.select(0, index)).here()
    }
    #[track_caller]
    fn batch(&self, indices: &[usize]) -> Result<<[Tensor; N] as Collate>::Batch> {
        if let Some(&index) = indices.iter().find(|&&index| index >= self.len()) {
            check_index("tensor dataset", index, self.len()).here()?;
        }
        let rows = Tensor::from_vec(indices.to_vec(), [indices.len()]).here()?;
        self.each(|t| t.index_select(0, &rows)).here()
    }
}

/// Some items of a dataset, in an order of their own; made by [`random_split`](crate::random_split), too.
///
/// ```
/// use foldback_data::{Dataset, Subset};
/// let odd = Subset::new(vec![10, 11, 12, 13], [1, 3])?;
/// assert_eq!((odd.len(), odd.get(1)?), (2, 13));
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Subset<D> {
    set: Arc<D>,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// The items of these numbers. Several subsets share a dataset that is given by reference, or as an `Arc`.
    ///
    /// # Errors
    /// `Index` if the dataset has no such item.
    #[track_caller]
    pub fn new(set: D, indices: impl Into<Vec<usize>>) -> Result<Subset<D>> {
        Subset::of(Arc::new(set), indices.into()).here()
    }

    pub(crate) fn of(set: Arc<D>, indices: Vec<usize>) -> Result<Subset<D>> {
        if let Some(&index) = indices.iter().find(|&&index| index >= set.len()) {
            check_index("subset", index, set.len())?;
        }
        Ok(Subset { set, indices })
    }

    /// The numbers its items have in the dataset.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.set
    }

    #[track_caller]
    fn place(&self, index: usize) -> Result<usize> {
        check_index("subset", index, self.indices.len()).here()?;
        Ok(self.indices[index])
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.indices.len()
    }
    #[track_caller]
    fn get(&self, index: usize) -> Result<D::Item> {
        self.set.get(self.place(index)?)
    }
    #[track_caller]
    fn batch(&self, indices: &[usize]) -> Result<<D::Item as Collate>::Batch>
    where
        D::Item: Collate,
    {
        let mut places = Vec::with_capacity(indices.len());
        for &index in indices {
            places.push(self.place(index)?);
        }
        self.set.batch(&places)
    }
}

/// Datasets one after the other, by the name of PyTorch's
/// [`ConcatDataset`](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.ConcatDataset).
///
/// ```
/// use foldback_data::{ConcatDataset, Dataset};
/// let both = ConcatDataset::new([vec![1, 2], vec![3]]);
/// assert_eq!((both.len(), both.get(2)?), (3, 3));
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConcatDataset<D> {
    sets: Vec<D>,
}

impl<D: Dataset> ConcatDataset<D> {
    /// These datasets, which are of one type: `Box<dyn Dataset<Item = T>>` is one for all.
    pub fn new(sets: impl IntoIterator<Item = D>) -> ConcatDataset<D> {
        ConcatDataset { sets: sets.into_iter().collect() }
    }
}

impl<D: Dataset> Dataset for ConcatDataset<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.sets.iter().map(Dataset::len).sum()
    }
    #[track_caller]
    fn get(&self, index: usize) -> Result<D::Item> {
        let mut rest = index;
        for set in &self.sets {
            if rest < set.len() {
                return set.get(rest);
            }
            rest -= set.len();
        }
        refuse(DataFacts::Index { op: "concatenated dataset", index, len: self.len() }).here()
    }
}

/// A dataset whose items a function changes, see [`Dataset::map`].
#[derive(Clone, Debug)]
pub struct Mapped<D, F> {
    set: D,
    change: F,
}

impl<D: Dataset, T, F: Fn(D::Item) -> Result<T>> Dataset for Mapped<D, F> {
    type Item = T;

    fn len(&self) -> usize {
        self.set.len()
    }
    #[track_caller]
    fn get(&self, index: usize) -> Result<T> {
        (self.change)(self.set.get(index)?)
    }
}

#[cfg(test)]
mod tests;
