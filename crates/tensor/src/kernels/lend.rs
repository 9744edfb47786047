//! Work that other threads may join while it lasts, and need not.
//!
//! Note [Lending]
//! A thread with a large operation works on it itself and invites others. A scope in the usual sense would then wait for
//! everyone invited, also for those that have not even woken up, which takes longer than many an operation. Here an
//! invitation ends with the work: whoever comes later finds nothing, and only those who came in time are waited for.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// What guests do.
type Work<'a> = dyn Fn() + Sync + 'a;

/// Looks at the door before the host goes to sleep, and pauses between them: together some hundred microseconds, which
/// is what waking up again may take.
const LOOKS: usize = 200;
const PAUSES: usize = 50;

struct House {
    room: Mutex<Room>,
    somebody_left: Condvar,
}

struct Room {
    /// `None` when the host has locked up
    work: Option<&'static Work<'static>>,
    guests: usize,
    /// what a guest panicked with
    panic: Option<Box<dyn Any + Send>>,
}

impl House {
    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().expect("nothing panics while the room is locked")
    }
}

/// Lets a thread take part, if it comes in time.
#[derive(Clone)]
pub(crate) struct Invitation(Arc<House>);

impl Invitation {
    /// Does the work, unless it is over.
    pub(crate) fn accept(&self) {
        let mut room = self.0.room();
        let Some(work) = room.work else { return };
        room.guests += 1;
        drop(room);
        let result = catch_unwind(AssertUnwindSafe(work));
        let mut room = self.0.room();
        room.guests -= 1;
        room.panic = room.panic.take().or(result.err());
        self.0.somebody_left.notify_one();
    }
}

/// Runs `own` here, and `work` on every thread that accepts the invitation before `own` returns; returns when all of
/// them have finished.
///
/// # Panics
/// With what `own` or one of the others panicked with.
pub(crate) fn with_guests(work: &Work<'_>, invite: impl FnOnce(Invitation), own: impl FnOnce()) {
    // SAFETY: a guest uses `work` only between two locks of the room: the first finds the work there and counts the
    // guest, the second discounts it. `Host` takes the work out of the room and waits until the count is zero, and it is
    // dropped before this function returns or unwinds, while `work` is still borrowed.
    let lent = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
    let room = Room { work: Some(lent), guests: 0, panic: None };
    let host = Host(Arc::new(House { room: Mutex::new(room), somebody_left: Condvar::new() }));
    invite(Invitation(host.0.clone()));
    own();
    let house = host.0.clone();
    drop(host);
    let panic = house.room().panic.take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// Locks up when dropped.
struct Host(Arc<House>);

impl Drop for Host {
    fn drop(&mut self) {
        let mut room = self.0.room();
        room.work = None;
        for _ in 0..LOOKS {
            if room.guests == 0 {
                return;
            }
            drop(room);
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            room = self.0.room();
        }
        while room.guests > 0 {
            room = self.0.somebody_left.wait(room).expect("nothing panics while the room is locked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn guests_in_time_are_waited_for_and_late_ones_find_nothing() {
        let (began, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (inside, came) = mpsc::channel();
        let work = || {
            began.fetch_add(1, Ordering::SeqCst);
            inside.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            finished.fetch_add(1, Ordering::SeqCst);
        };
        let mut kept = None;
        let mut threads = Vec::new();
        with_guests(
            &work,
            |invitation| {
                kept = Some(invitation.clone());
                threads.extend((0..2).map(|_| {
                    let invitation = invitation.clone();
                    std::thread::spawn(move || invitation.accept())
                }));
            },
            || (0..2).for_each(|_| came.recv().unwrap()),
        );
        assert_eq!((began.load(Ordering::SeqCst), finished.load(Ordering::SeqCst)), (2, 2));
        kept.unwrap().accept();
        assert_eq!(began.load(Ordering::SeqCst), 2);
        threads.into_iter().for_each(|t| t.join().unwrap());
    }

    #[test]
    fn panics_of_guests_and_of_the_host_come_out_here() {
        let (inside, came) = mpsc::channel();
        let guest = catch_unwind(AssertUnwindSafe(|| {
            let work = || {
                inside.send(()).unwrap();
                panic!("a guest");
            };
            let invite = |i: Invitation| drop(std::thread::spawn(move || i.accept()));
            with_guests(&work, invite, || came.recv().unwrap());
        }));
        assert_eq!(guest.unwrap_err().downcast_ref::<&str>(), Some(&"a guest"));
        let mut kept = None;
        let host = catch_unwind(AssertUnwindSafe(|| {
            with_guests(&|| unreachable!("nobody came"), |i| kept = Some(i), || panic!("the host"));
        }));
        assert_eq!(host.unwrap_err().downcast_ref::<&str>(), Some(&"the host"));
        kept.unwrap().accept();
    }
}
