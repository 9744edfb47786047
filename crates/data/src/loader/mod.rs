//! `DataLoader`: batches of a dataset, epoch after epoch, made ahead by other threads if wanted.

mod epoch;
mod make;
mod position;
mod workers;

use std::sync::Arc;

use foldback_tensor::{Here, StateCell, StateDict, or_panic};

use crate::collate::Collate;
use crate::dataset::Dataset;
use crate::error::{Result, check};
use crate::sampler::{RandomSampler, Sampler, SequentialSampler};
pub use epoch::Epoch;
use make::EpochPlan;
use position::Position;
use workers::Workers;

/// What a batch of a dataset is.
pub type BatchOf<D> = <<D as Dataset>::Item as Collate>::Batch;

/// Starts the threads of an epoch; made where it is known that the dataset can be shared with threads.
type Start<D> = fn(&Arc<EpochPlan<D>>, usize, usize, usize) -> Option<Workers<BatchOf<D>>>;

/// Batches of a dataset. `for batch in &loader` is an epoch.
///
/// Each epoch has another order, and all of them follow from the seed: the same batches for any number of workers, and
/// after a run was resumed. What the dataset draws from this thread's generator (`Tensor::rand` and its relatives) follows from the seed and
/// the batch, too, and leaves the generator as it was.
///
/// An error or a panic of the dataset arrives in the place of its batch, and the batches after it can still be had.
///
/// ```
/// use foldback_data::{DataLoader, TensorDataset};
/// use foldback_tensor::Tensor;
/// let set = TensorDataset::new([Tensor::randn([100, 3]), Tensor::arange(100)]);
/// let loader = DataLoader::new(set, 32).shuffle(true).seed(0).workers(2);
/// assert_eq!(loader.len(), 4);
/// for batch in &loader {
///     let [x, y] = batch?;
///     assert_eq!(x.dims()[0], y.dims()[0]);
/// }
/// # Ok::<(), foldback_data::Error>(())
/// ```
pub struct DataLoader<D: Dataset<Item: Collate>> {
    set: Arc<D>,
    batch_size: usize,
    sampler: Box<dyn Sampler + Send + Sync>,
    drop_last: bool,
    threads: Option<Threads<D>>,
    prefetch: Option<usize>,
    position: StateCell<Position>,
}

struct Threads<D: Dataset<Item: Collate>> {
    count: usize,
    start: Start<D>,
}

const OP: &str = "data loader";

impl<D: Dataset<Item: Collate>> DataLoader<D> {
    /// Batches of `batch_size` items in order; the last one may have fewer.
    ///
    /// # Panics
    /// If `batch_size` is 0; [`DataLoader::try_new`] returns an error instead.
    #[track_caller]
    pub fn new(set: D, batch_size: usize) -> DataLoader<D> {
        or_panic(DataLoader::try_new(set, batch_size))
    }

    /// [`DataLoader::new`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Parameter` if `batch_size` is 0.
    ///
    /// ```
    /// assert!(foldback_data::DataLoader::try_new(vec![1.0], 0).is_err());
    /// ```
    #[track_caller]
    pub fn try_new(set: D, batch_size: usize) -> Result<DataLoader<D>> {
        check(batch_size > 0, OP, "batch_size", batch_size, "at least 1").here()?;
        Ok(DataLoader {
            set: Arc::new(set),
            batch_size,
            sampler: Box::new(SequentialSampler),
            drop_last: false,
            threads: None,
            prefetch: None,
            position: StateCell::new(Position::default()),
        })
    }

    /// Whether each epoch has a random order of its own: `sampler(RandomSampler)` or `sampler(SequentialSampler)`.
    #[must_use]
    pub fn shuffle(self, shuffle: bool) -> DataLoader<D> {
        if shuffle { self.sampler(RandomSampler) } else { self.sampler(SequentialSampler) }
    }

    /// Which items an epoch has, in which order. The last of `sampler` and `shuffle` holds.
    #[must_use]
    pub fn sampler(mut self, sampler: impl Sampler + Send + Sync + 'static) -> DataLoader<D> {
        self.sampler = Box::new(sampler);
        self
    }

    /// Whether a last batch of fewer items is left out. The default is false.
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> DataLoader<D> {
        self.drop_last = drop_last;
        self
    }

    /// What all orders follow from. Without one, the first epoch draws it from this thread's generator.
    #[must_use]
    pub fn seed(self, seed: u64) -> DataLoader<D> {
        self.position.replace(Position::new(seed));
        self
    }

    /// How many threads make batches while the program uses others. The default is none: a batch is made when it is asked
    /// for. They start with an epoch and end with it, also if it is left early. Where the system refuses threads, there are
    /// fewer.
    #[must_use]
    pub fn workers(mut self, count: usize) -> DataLoader<D>
    where
        D: Send + Sync + 'static,
        BatchOf<D>: Send + 'static,
    {
        self.threads = (count > 0).then_some(Threads { count, start: Workers::start });
        self
    }

    /// How many batches at most are made ahead, by all workers together. The default is two for each.
    ///
    /// # Panics
    /// If it is 0: without workers, nothing is made ahead.
    #[must_use]
    #[track_caller]
    pub fn prefetch(mut self, batches: usize) -> DataLoader<D> {
        or_panic(check(batches > 0, OP, "prefetch", batches, "at least 1; workers(0) makes nothing ahead"));
        self.prefetch = Some(batches);
        self
    }

    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.set
    }

    /// How many items a batch has.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// How many batches an epoch has.
    #[allow(clippy::len_without_is_empty)] // A loader is no collection: one may ask for its number of batches.
    pub fn len(&self) -> usize {
        let items = self.sampler.count(self.set.len());
        if self.drop_last { items / self.batch_size } else { items.div_ceil(self.batch_size) }
    }

    /// The next epoch, or what is left of one after [`DataLoader::load_state_dict`].
    ///
    /// An epoch that is left early counts; the next one has another order.
    pub fn iter(&self) -> Epoch<'_, D> {
        Epoch::start(self)
    }

    /// Where it stands: `seed`, `epoch`, and `batch`, the number of batches of this epoch that were handed out, with
    /// `batch_size` and `items`, to which the number belongs; each an `i64` of no axes.
    ///
    /// ```
    /// use foldback_data::DataLoader;
    /// let make = || DataLoader::new((0..10).collect::<Vec<i64>>(), 3).shuffle(true);
    /// let loader = make().seed(5);
    /// let mut epoch = loader.iter();
    /// epoch.next();
    /// let state = loader.state_dict();
    ///
    /// let resumed = make();
    /// resumed.load_state_dict(&state)?;
    /// assert_eq!(resumed.iter().next().unwrap()?, epoch.next().unwrap()?);
    /// # Ok::<(), foldback_data::Error>(())
    /// ```
    pub fn state_dict(&self) -> StateDict {
        self.position.update(|p| {
            p.settle();
            p.save(self.batch_size, self.set.len())
        })
    }

    /// Goes on where another loader stood: the next epoch begins with the batch after the last one that was handed out.
    ///
    /// # Errors
    /// `State` if an entry is absent, or no `i64` of no axes; or if batches of this epoch were handed out already, and of
    /// another size or of another number of items. Nothing has been changed then.
    #[track_caller]
    pub fn load_state_dict(&self, state: &StateDict) -> Result<()> {
        let position = Position::load(state, self.batch_size, self.set.len()).here()?;
        self.position.replace(position);
        Ok(())
    }
}

impl<'a, D: Dataset<Item: Collate>> IntoIterator for &'a DataLoader<D> {
    type Item = Result<BatchOf<D>>;
    type IntoIter = Epoch<'a, D>;

    fn into_iter(self) -> Epoch<'a, D> {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
