//! Locks: what one protects is whole at any time, and nothing of a user's runs or is dropped while one is held.
//!
//! Note [Locks]
//! Gradients, hooks and functions may own values of the user's types, whose `Drop` may panic, read a gradient or
//! register a hook. So whoever takes something out of a lock drops it after the lock. A panic under a lock can then only
//! come from running out of memory, between assignments of whole values: the lock is not taken for broken.
//!
//! The one exception is [`Writer`], which guards no value.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Error, Result};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a value in, and hands out the old one, to be dropped outside.
pub(crate) fn replace<T>(mutex: &Mutex<T>, new: T) -> T {
    std::mem::replace(&mut *lock(mutex), new)
}

#[inline]
pub(crate) fn read<T>(value: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    value.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write<T>(value: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    value.write().unwrap_or_else(PoisonError::into_inner)
}

/// The right to write a leaf's value, which one thread has at a time. The value itself is not locked: who has the right
/// may run a user's function, which reads it.
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
        let own = thread();
        if self.thread.load(Ordering::Relaxed) == own {
            return Err(Error::Updating { op });
        }
        let turn = lock(&self.turn);
        self.thread.store(own, Ordering::Relaxed);
        Ok(Turn { writer: self, _turn: turn })
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
