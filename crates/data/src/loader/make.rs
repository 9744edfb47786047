//! How one batch is made, wherever that happens.

use std::any::Any;
use std::panic::Location;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use foldback_tensor::{Error, refuse};

use super::BatchOf;
use super::position::{InPlace, generator};
use crate::collate::Collate;
use crate::dataset::Dataset;
use crate::error::{DataFacts, Result};

/// An epoch: its items in their order, in batches of a size.
pub(super) struct EpochPlan<D> {
    pub set: Arc<D>,
    pub order: Vec<usize>,
    pub batch_size: usize,
    pub batches: usize,
    pub seed: u64,
    pub epoch: u64,
}

impl<D: Dataset<Item: Collate>> EpochPlan<D> {
    /// A batch, or why there is none. The dataset draws random numbers of a generator that belongs to the batch.
    pub(super) fn make(&self, batch: usize) -> Result<BatchOf<D>> {
        let first = batch * self.batch_size;
        let indices = &self.order[first..self.order.len().min(first.saturating_add(self.batch_size))];
        let _of_the_batch = InPlace::of(generator(&[self.seed, self.epoch, 1 + batch as u64]));
        match catch_unwind(AssertUnwindSafe(|| self.set.batch(indices))) {
            Ok(made) => made.map_err(without_own_line),
            Err(panic) => refuse(DataFacts::Panicked { batch, message: message(panic) }),
        }
    }
}

/// A line of this crate says nothing to a program, and nobody's line is here: batches are made ahead.
pub(super) fn without_own_line(error: Error) -> Error {
    let own = Path::new(file!()).parent().and_then(Path::parent);
    let is_own = |at: &Location<'_>| own.is_some_and(|own| Path::new(at.file()).starts_with(own));
    if error.location().is_some_and(is_own) { error.with_location(None) } else { error }
}

/// What a panic said. A payload of another type is not dropped, as that might panic again.
fn message(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => match panic.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(other) => {
                std::mem::forget(other);
                "no text".to_owned()
            }
        },
    }
}
