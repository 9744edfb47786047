//! Work that other threads may join while it lasts, and need not.
//!
//! Note [Lending]
//! A thread with a large operation works on it itself and invites others. A scope in the usual sense would then wait for
//! everyone invited, also for those that have not even woken up, which takes longer than many an operation. Here an
//! invitation ends with the work: whoever comes later finds nothing, and only those who came in time are waited for.
//!
//! Everything that a caller brings may panic: the work, the host's own part, the invitations, and the payload of a panic
//! when it is dropped. None of it runs while the room is locked, and none of it unwinds past a host with guests.
//!
//! The locks come from the module `sync` beside this one: those of the standard library, and in `model` those of a model
//! checker.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

use super::sync::{Condvar, LOOKS, Mutex, MutexGuard, pause};

/// What guests do.
type Work<'a> = dyn Fn() + Sync + 'a;

/// What somebody panicked with.
type Payload = Box<dyn Any + Send>;

struct House {
    room: Mutex<GuestRoom>,
    somebody_left: Condvar,
}

struct GuestRoom {
    /// `None` when the host has locked up
    work: Option<&'static Work<'static>>,
    guests: usize,
    /// what the first guest that panicked did so with
    panic: Option<Payload>,
}

impl House {
    /// The room, locked. Nothing panics while it is, and if something did, the count of guests would still be right.
    fn room(&self) -> MutexGuard<'_, GuestRoom> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets nobody in any more, and returns when all guests have left: with what one of them panicked with.
    fn lock_up(&self) -> Option<Payload> {
        let mut room = self.room();
        room.work = None;
        for _ in 0..LOOKS {
            if room.guests == 0 {
                break;
            }
            drop(room);
            pause();
            room = self.room();
        }
        while room.guests > 0 {
            room = self.somebody_left.wait(room).unwrap_or_else(PoisonError::into_inner);
        }
        room.panic.take()
    }
}

/// Lets a thread take part, if it comes in time.
#[derive(Clone)]
pub(super) struct Invitation(Arc<House>);

impl Invitation {
    /// Does the work, unless it is over. Never panics.
    pub(super) fn accept(&self) {
        let mut room = self.0.room();
        let Some(work) = room.work else { return };
        room.guests += 1;
        drop(room);
        let mut payload = catch_unwind(AssertUnwindSafe(work)).err();
        let mut room = self.0.room();
        room.guests -= 1;
        if room.panic.is_none() {
            room.panic = payload.take();
        }
        self.0.somebody_left.notify_one();
        drop(room);
        payload.into_iter().for_each(discard);
    }
}

/// Runs `own` here, and `work` on every thread that accepts an invitation before `own` returns; returns when all of
/// them have finished.
///
/// # Panics
/// With what `invite` or `own` panicked with, else with what one of the others did, in every case when all of them have
/// finished.
pub(super) fn with_guests(work: &Work<'_>, invite: &mut dyn FnMut(Invitation), own: &mut dyn FnMut()) {
    // SAFETY: a guest uses `work` only between two locks of the room: the first finds the work there and counts the
    // guest, the second discounts it. `lock_up` takes the work out of the room and waits until the count is zero. It is
    // called before this function returns or unwinds, while `work` is still borrowed: all between here and there that
    // can panic is caught, and `lock_up` does nothing that can.
    let lent = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
    let room = GuestRoom { work: Some(lent), guests: 0, panic: None };
    let house = Arc::new(House { room: Mutex::new(room), somebody_left: Condvar::new() });
    let result = catch_unwind(AssertUnwindSafe(|| {
        invite(Invitation(house.clone()));
        own();
    }));
    let of_a_guest = house.lock_up();
    match (result, of_a_guest) {
        (Ok(()), None) => {}
        (Ok(()), Some(payload)) => resume_unwind(payload),
        (Err(payload), surplus) => {
            surplus.into_iter().for_each(discard);
            resume_unwind(payload)
        }
    }
}

/// Drops the payload of a panic that nobody will hear of. That may panic in turn, with a payload that may do the same:
/// this second one is leaked.
fn discard(payload: Payload) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}
