//! Threads that make the batches of an epoch, some ahead of the program.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::make::EpochPlan;
use crate::collate::Collate;
use crate::dataset::Dataset;
use crate::error::Result;

/// The threads of an epoch. Dropping it stops and joins them, after the batches that they are making.
pub(super) struct Workers<B> {
    shared: Arc<Shared<B>>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<B> {
    queue: Mutex<Queue<B>>,
    /// a batch was made
    made: Condvar,
    /// a batch was taken, so that another may be made, or all is over
    room: Condvar,
}

/// Batches in the order of the epoch. No user's code runs while it is locked.
struct Queue<B> {
    /// the number of the first slot's batch
    taken: usize,
    /// batches that are being made, or were
    slots: VecDeque<Option<Result<B>>>,
    stopped: bool,
}

impl<B> Shared<B> {
    fn queue(&self) -> MutexGuard<'_, Queue<B>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next batch to make, as soon as there is room for it; none at the end.
    fn next(&self, batches: usize, ahead: usize) -> Option<usize> {
        let mut queue = self.queue();
        loop {
            let next = queue.taken + queue.slots.len();
            if queue.stopped || next == batches {
                return None;
            }
            if queue.slots.len() < ahead {
                queue.slots.push_back(None);
                return Some(next);
            }
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Puts a batch in its slot; after the end there is none, and it is dropped.
    fn put(&self, batch: usize, made: Result<B>) {
        let mut queue = self.queue();
        let at = batch - queue.taken;
        let refused = match queue.slots.get_mut(at) {
            Some(slot) => slot.replace(made),
            None => Some(made),
        };
        drop(queue);
        self.made.notify_all();
        drop(refused);
    }
}

impl<B: Send + 'static> Workers<B> {
    /// Starts `count` threads from batch `first` on; `ahead` batches at most are made and not taken. None if the system
    /// gives no thread.
    pub(super) fn start<D>(
        plan: &Arc<EpochPlan<D>>,
        first: usize,
        count: usize,
        ahead: usize,
    ) -> Option<Workers<B>>
    where
        D: Dataset<Item: Collate<Batch = B>> + Send + Sync + 'static,
    {
        let queue = Mutex::new(Queue { taken: first, slots: VecDeque::new(), stopped: false });
        let shared = Arc::new(Shared { queue, made: Condvar::new(), room: Condvar::new() });
        let mut workers = Workers { shared, threads: Vec::new() };
        for _ in 0..count.min(plan.batches - first) {
            let (plan, shared) = (plan.clone(), workers.shared.clone());
            let work = move || {
                while let Some(batch) = shared.next(plan.batches, ahead) {
                    shared.put(batch, plan.make(batch));
                }
            };
            match Builder::new().name("foldback-data".into()).spawn(work) {
                Ok(thread) => workers.threads.push(thread),
                Err(_) => break,
            }
        }
        (!workers.threads.is_empty()).then_some(workers)
    }
}

impl<B> Workers<B> {
    /// The next batch, which somebody waits for.
    pub(super) fn take(&self) -> Result<B> {
        let mut queue = self.shared.queue();
        loop {
            if let Some(Some(_)) = queue.slots.front() {
                let made = queue.slots.pop_front();
                queue.taken += 1;
                drop(queue);
                self.shared.room.notify_all();
                return made.flatten().unwrap_or_else(|| unreachable!("the first slot was filled"));
            }
            queue = self.shared.made.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<B> Drop for Workers<B> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.stopped = true;
        let left = std::mem::take(&mut queue.slots);
        drop(queue);
        self.shared.room.notify_all();
        drop(left);
        for thread in self.threads.drain(..) {
            // What a thread panicked with was handed out as an error, or is a batch's own trouble with being dropped.
            let _ = thread.join();
        }
    }
}
