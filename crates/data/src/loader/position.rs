//! Where a loader stands: its seed, the epoch, and how much of it was handed out.

use foldback_tensor::{DType, Generator, StateDict, Tensor, get_rng_state, refuse, set_rng_state};

use crate::error::{DataFacts, Result};

/// The position. `batch` counts the batches of `epoch` that were handed out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    seed: Option<u64>,
    /// the next epoch to begin
    next: u64,
    /// the epoch that runs, or was left early, with the batches that it handed out
    running: Option<(u64, usize)>,
    /// whether the next epoch is what is left of `running`
    resumes: bool,
}

impl Position {
    pub(super) fn new(seed: u64) -> Position {
        Position { seed: Some(seed), ..Position::default() }
    }

    /// The seed; if there is none yet, it is drawn from this thread's generator.
    pub(super) fn settle(&mut self) -> u64 {
        *self.seed.get_or_insert_with(|| {
            let drawn = Tensor::randint(i64::MIN..i64::MAX, ()).item_as::<i64>();
            drawn.unwrap_or_default() as u64
        })
    }

    /// Begins an epoch: its seed, its number, and the batch that it begins with.
    pub(super) fn begin(&mut self) -> (u64, u64, usize) {
        let seed = self.settle();
        let (epoch, batch) = match self.running {
            Some(left) if self.resumes => left,
            _ => (self.next, 0),
        };
        (self.next, self.running, self.resumes) = (epoch.wrapping_add(1), Some((epoch, batch)), false);
        (seed, epoch, batch)
    }

    /// The running epoch has handed out so many batches; an older one does not count any more.
    pub(super) fn handed(&mut self, epoch: u64, batch: usize) {
        if self.is_running(epoch) {
            self.running = Some((epoch, batch));
        }
    }

    /// The epoch has ended.
    pub(super) fn ended(&mut self, epoch: u64) {
        if self.is_running(epoch) {
            self.running = None;
        }
    }

    fn is_running(&self, epoch: u64) -> bool {
        !self.resumes && self.running.is_some_and(|(own, _)| own == epoch)
    }

    pub(super) fn save(&self, batch_size: usize, items: usize) -> StateDict {
        let (epoch, batch) = self.running.unwrap_or((self.next, 0));
        let numbers = [self.seed.unwrap_or(0), epoch, batch as u64, batch_size as u64, items as u64];
        let entry = |number: u64| Tensor::from(number as i64);
        ENTRIES.into_iter().zip(numbers.map(entry)).collect()
    }

    pub(super) fn load(state: &StateDict, batch_size: usize, items: usize) -> Result<Position> {
        let mut numbers = [0; ENTRIES.len()];
        for (number, entry) in numbers.iter_mut().zip(ENTRIES) {
            *number = read(state, entry)?;
        }
        let [seed, epoch, batch, other_size, other_items] = numbers;
        let batch = usize::try_from(batch).or_else(|_| wrong("batch", batch, "0 or more".into()))?;
        if batch > 0 {
            let own = |entry, found: i64, own: usize| {
                if usize::try_from(found) == Ok(own) {
                    return Ok(());
                }
                wrong(entry, found, format!("{own} as in this loader: the epoch was begun with another"))
            };
            own("batch_size", other_size, batch_size)?;
            own("items", other_items, items)?;
        }
        let epoch = epoch as u64;
        Ok(Position { seed: Some(seed as u64), next: epoch, running: Some((epoch, batch)), resumes: true })
    }
}

const ENTRIES: [&str; 5] = ["seed", "epoch", "batch", "batch_size", "items"];

fn read(state: &StateDict, entry: &'static str) -> Result<i64> {
    match state.get(entry) {
        None => wrong(entry, "absent", "the state_dict() of a loader".into()),
        Some(t) if t.dtype() == DType::I64 && t.shape().rank() == 0 => t.item_as(),
        Some(t) => wrong(entry, format_args!("{} {}", t.dtype(), t.shape()), "i64 []".into()),
    }
}

fn wrong<T>(entry: &'static str, found: impl ToString, expected: String) -> Result<T> {
    refuse(DataFacts::State { op: super::OP, entry, found: found.to_string(), expected })
}

/// The generator of a part of a run. Parts are numbered by any numbers; `splitmix64` of Steele, Lea and Flood ("Fast
/// splittable pseudorandom number generators", 2014) makes one seed of each list of them.
pub(super) fn generator(numbers: &[u64]) -> Generator {
    Generator::new(numbers.iter().fold(0, |seed, &number| {
        let z = (seed ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }))
}

/// Another generator in the place of this thread's, which is put back at the end.
pub(super) struct InPlace(Generator);

impl InPlace {
    pub(super) fn of(generator: Generator) -> InPlace {
        InPlace(set_rng_state(generator))
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        set_rng_state(std::mem::replace(&mut self.0, get_rng_state()));
    }
}
