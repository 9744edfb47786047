//! `Epoch`: the batches of one pass.

use std::sync::Arc;

use foldback_tensor::Error;

use super::make::{EpochPlan, without_own_line};
use super::position::generator;
use super::workers::Workers;
use super::{BatchOf, DataLoader};
use crate::collate::Collate;
use crate::dataset::Dataset;
use crate::error::Result;

/// The batches of one pass over a dataset, see [`DataLoader::iter`].
pub struct Epoch<'a, D: Dataset<Item: Collate>> {
    loader: &'a DataLoader<D>,
    plan: Arc<EpochPlan<D>>,
    next: usize,
    /// why there is no order
    refused: Option<Error>,
    workers: Option<Workers<BatchOf<D>>>,
}

impl<'a, D: Dataset<Item: Collate>> Epoch<'a, D> {
    pub(super) fn start(loader: &'a DataLoader<D>) -> Epoch<'a, D> {
        let (seed, epoch, next) = loader.position.update(|p| p.begin());
        let drawn = loader.sampler.indices(loader.set.len(), &mut generator(&[seed, epoch, 0]));
        let (order, refused) = match drawn {
            Ok(order) => (order, None),
            Err(e) => (Vec::new(), Some(without_own_line(e))),
        };
        let size = loader.batch_size;
        let batches = if loader.drop_last { order.len() / size } else { order.len().div_ceil(size) };
        let plan = EpochPlan { set: loader.set.clone(), order, batch_size: size, batches, seed, epoch };
        let (plan, next) = (Arc::new(plan), next.min(batches));
        let workers = loader.threads.as_ref().filter(|_| next < batches).and_then(|threads| {
            let ahead = loader.prefetch.unwrap_or(threads.count.saturating_mul(2));
            (threads.start)(&plan, next, threads.count, ahead)
        });
        Epoch { loader, plan, next, refused, workers }
    }
}

impl<D: Dataset<Item: Collate>> Iterator for Epoch<'_, D> {
    type Item = Result<BatchOf<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(e) = self.refused.take() {
            return Some(Err(e));
        }
        if self.next == self.plan.batches {
            self.workers = None;
            self.loader.position.update(|p| p.ended(self.plan.epoch));
            return None;
        }
        let made = match &self.workers {
            Some(workers) => workers.take(),
            None => self.plan.make(self.next),
        };
        self.next += 1;
        self.loader.position.update(|p| p.handed(self.plan.epoch, self.next));
        Some(made)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.plan.batches - self.next + usize::from(self.refused.is_some());
        (left, Some(left))
    }
}

impl<D: Dataset<Item: Collate>> ExactSizeIterator for Epoch<'_, D> {}
