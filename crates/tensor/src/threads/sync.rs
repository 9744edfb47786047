//! What lending locks with, and how a host waits before it goes to sleep.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

/// Looks at the door before the host goes to sleep, with a pause between them: together some hundred microseconds, which
/// is what waking up again may take.
pub(super) const LOOKS: usize = 200;

pub(super) fn pause() {
    (0..50).for_each(|_| std::hint::spin_loop());
}
