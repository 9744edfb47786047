//! The turn of those who write a leaf: one thread at a time, also while it runs a user's function.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use foldback_tensor::refuse;

use crate::error::{GraphFacts, Result};

/// The right to write a leaf's value, which one thread has at a time. The value's own cell is not locked by it: who has
/// the right may run a user's function, which reads the value.
#[derive(Default)]
pub(crate) struct Writer {
    turn: Mutex<()>,
    /// the thread whose turn it is; 0 if none
    thread: AtomicUsize,
}

/// The right to write, given back when dropped.
pub(crate) struct Turn<'a> {
    writer: &'a Writer,
    _turn: MutexGuard<'a, ()>,
}

impl Writer {
    /// Waits for the right to write.
    ///
    /// A function that is updating the leaf and writes to it by another way would wait for itself: an error.
    pub(crate) fn turn(&self, op: &'static str) -> Result<Turn<'_>> {
        let own = self.expect_other(op)?;
        Ok(self.taken(own, self.turn.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The right to write, if nobody has it: for those who have others already, see Note [Several turns].
    pub(crate) fn try_turn(&self, op: &'static str) -> Result<Option<Turn<'_>>> {
        let own = self.expect_other(op)?;
        Ok(match self.turn.try_lock() {
            Ok(turn) => Some(self.taken(own, turn)),
            Err(TryLockError::Poisoned(turn)) => Some(self.taken(own, turn.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        })
    }

    fn taken<'a>(&'a self, own: usize, turn: MutexGuard<'a, ()>) -> Turn<'a> {
        self.thread.store(own, Ordering::Relaxed);
        Turn { writer: self, _turn: turn }
    }

    /// Refuses a thread whose turn it is already; hands out its number.
    pub(crate) fn expect_other(&self, op: &'static str) -> Result<usize> {
        let own = thread();
        if self.thread.load(Ordering::Relaxed) == own { refuse(GraphFacts::Updating { op }) } else { Ok(own) }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.writer.thread.store(0, Ordering::Relaxed);
    }
}

/// A number that no other living thread has: the address of something of this one's.
fn thread() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}
