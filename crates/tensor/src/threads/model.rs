//! Lending under a model checker: `lend.rs` itself, compiled once more with the checker's locks, at every point of which
//! it decides who goes on.

#[path = "lend.rs"]
#[allow(clippy::duplicate_mod, reason = "the same code with other locks")]
mod lend;

mod sync {
    pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(super) const LOOKS: usize = 1;
    pub(super) fn pause() {
        shuttle::thread::yield_now();
    }
}

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use lend::{Invitation, with_guests};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

/// How something that a caller brings ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Ending {
    Returns,
    Panics,
    /// with a payload whose drop panics, with such a payload again
    PanicsTwice,
}

const ENDS: [Ending; 3] = [Ending::Returns, Ending::Panics, Ending::PanicsTwice];

/// Whose panic it is. The counter is of those that wait to be dropped.
struct Payload {
    of: &'static str,
    explosive: bool,
    alive: Arc<AtomicUsize>,
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, SeqCst);
        if self.explosive {
            // The one that is never dropped, and so not counted.
            self.alive.fetch_add(1, SeqCst);
            resume_unwind(Box::new(Payload { of: "a drop", explosive: true, alive: self.alive.clone() }));
        }
    }
}

impl Ending {
    fn happen(self, of: &'static str, alive: &Arc<AtomicUsize>) {
        if self != Ending::Returns {
            alive.fetch_add(1, SeqCst);
            let explosive = self == Ending::PanicsTwice;
            // Quietly: without the hook that prints.
            resume_unwind(Box::new(Payload { of, explosive, alive: alive.clone() }));
        }
    }
}

/// What is watched. The atomics of the standard library are not the checker's, so looking is no step of its own.
#[derive(Default)]
struct Watch {
    over: AtomicBool,
    entered_late: AtomicBool,
    inside: AtomicUsize,
    panicked: AtomicUsize,
    payloads: Arc<AtomicUsize>,
}

impl Watch {
    /// What a guest does.
    fn work(&self, end: Ending) {
        self.inside.fetch_add(1, SeqCst);
        self.entered_late.fetch_or(self.over.load(SeqCst), SeqCst);
        thread::yield_now();
        self.entered_late.fetch_or(self.over.load(SeqCst), SeqCst);
        self.inside.fetch_sub(1, SeqCst);
        self.panicked.fetch_add((end != Ending::Returns) as usize, SeqCst);
        end.happen("a guest", &self.payloads);
    }
}

/// A host lends work to guests that end as told; inviting them ends as told after so many.
fn lend(guests: Vec<Ending>, (invited, inviting): (usize, Ending), host: Ending) {
    let watch = Arc::new(Watch::default());
    let (mut threads, next) = (Vec::new(), AtomicUsize::new(0));
    let work = || watch.work(guests[next.fetch_add(1, SeqCst)]);
    let mut kept = None;
    let mut invite = |invitation: Invitation| {
        kept = Some(invitation.clone());
        for _ in 0..invited {
            let invitation = invitation.clone();
            threads.push(thread::spawn(move || {
                let escaped = catch_unwind(AssertUnwindSafe(|| invitation.accept()));
                assert!(escaped.map_err(std::mem::forget).is_ok(), "accepting panicked");
            }));
        }
        inviting.happen("the invitations", &watch.payloads);
    };
    let mut own = || {
        thread::yield_now();
        host.happen("the host", &watch.payloads);
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| with_guests(&work, &mut invite, &mut own)));

    assert_eq!(watch.inside.load(SeqCst), 0, "the host has gone while a guest was inside");
    watch.over.store(true, SeqCst);
    kept.expect("somebody was invited").accept();
    threads.into_iter().for_each(|t| t.join().expect("accepting does not panic"));
    assert!(!watch.entered_late.load(SeqCst), "a guest was inside after the host had gone");
    let panicked = watch.panicked.load(SeqCst);
    let who = outcome.err().map(|payload| {
        let payload = payload.downcast::<Payload>().expect("nothing else panics");
        let of = payload.of;
        watch.payloads.fetch_sub(1, SeqCst);
        std::mem::forget(payload);
        of
    });
    let want = match (inviting, host) {
        (Ending::Returns, Ending::Returns) => (panicked > 0).then_some("a guest"),
        (Ending::Returns, _) => Some("the host"),
        _ => Some("the invitations"),
    };
    assert_eq!(who, want);
    // Of explosive payloads the second one is left over; nobody drops it.
    let most = guests.iter().filter(|&&end| end == Ending::PanicsTwice).count();
    assert!(watch.payloads.load(SeqCst) <= most, "a payload was forgotten");
}

/// Every interleaving of a host and a guest, for everything that may panic.
#[test]
fn one_guest_in_every_order() {
    let (fine, panics) = (Ending::Returns, Ending::PanicsTwice);
    for guest in ENDS {
        for (inviting, host) in [(fine, fine), (fine, panics), (panics, fine)] {
            shuttle::check_dfs(move || lend(vec![guest], (1, inviting), host), None);
        }
    }
}

/// Up to three guests in random orders.
#[test]
fn several_guests_in_many_orders() {
    let run = || {
        let any = || ENDS[thread_rng().gen_range(0..3)];
        let (guests, inviting, host) = (vec![any(), any(), any()], any(), any());
        // Mostly let them in: a host that panics early has no guests.
        let inviting = if thread_rng().gen_bool(0.7) { Ending::Returns } else { inviting };
        lend(guests, (thread_rng().gen_range(0..4), inviting), host);
    };
    shuttle::check_random(run, 10_000);
}
