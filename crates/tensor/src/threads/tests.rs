//! Threads: how work is cut, who is invited, what is refused, and lending with the locks of the standard library.

use super::*;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

/// Collects the pieces and the threads that worked on them.
fn pieces(threads: usize, total: usize) -> (Vec<(usize, usize)>, usize) {
    let seen = Mutex::new((Vec::new(), HashSet::new()));
    ThreadPool::new(threads).install(|| {
        split_work(total, 10, (), &|(), _| ((), ()), &|start, len, ()| {
            std::thread::sleep(Duration::from_millis(1));
            let mut seen = seen.lock().unwrap();
            seen.0.push((start, len));
            seen.1.insert(std::thread::current().id());
        });
    });
    let (mut pieces, ids) = seen.into_inner().unwrap();
    pieces.sort();
    (pieces, ids.len())
}

/// A thread that works on and on beside a busy one does not fill the memory with invitations.
#[test]
fn invitations_to_busy_threads_do_not_pile_up() {
    let pool = ThreadPool::new(2);
    let (busy, free) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    let count = AtomicUsize::new(0);
    pool.install(|| {
        rayon::join(
            || {
                busy.wait();
                for _ in 0..2000 {
                    split_work(100, 10, (), &|(), _| ((), ()), &|_, len, ()| {
                        count.fetch_add(len, Ordering::Relaxed);
                    });
                }
                assert!(UNREAD.load(Ordering::Relaxed) <= MOST_UNREAD);
                free.wait();
            },
            || {
                busy.wait();
                free.wait();
            },
        );
    });
    assert_eq!(count.into_inner(), 200_000);
}

#[test]
fn pieces_do_not_depend_on_threads() {
    let (one, workers) = pieces(1, 1234);
    assert_eq!(workers, 1);
    assert_eq!(one.iter().map(|p| p.1).sum::<usize>(), 1234);
    for n in [2, 3, 8] {
        let (many, workers) = pieces(n, 1234);
        assert_eq!(many, one);
        assert!(workers > 1, "{n} threads: {workers} worked");
    }
}

#[test]
fn too_many_threads_are_refused_before_one_is_started() {
    let refusal = |r: Result<()>| r.unwrap_err().with_location(None).to_string();
    let text = |op| format!("{op}: n = 100000 is not valid: expected at most 4096 threads");
    assert_eq!(refusal(ThreadPool::try_new(100_000).map(drop)), text("ThreadPool"));
    let before = num_threads();
    assert_eq!(refusal(try_set_num_threads(100_000)), text("set_num_threads"));
    assert!(try_set_num_threads(usize::MAX).is_err() && ThreadPool::try_new(usize::MAX).is_err());
    assert_eq!(num_threads(), before);
    let panicked = catch_unwind(|| ThreadPool::new(100_000)).unwrap_err();
    assert_eq!(panicked.downcast_ref::<String>(), Some(&text("ThreadPool")));
    let panicked = catch_unwind(|| set_num_threads(100_000)).unwrap_err();
    assert_eq!(panicked.downcast_ref::<String>(), Some(&text("set_num_threads")));
    assert_eq!(ThreadPool::try_new(0).unwrap().install(num_threads), 1);
}

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
        &mut |invitation| {
            kept = Some(invitation.clone());
            threads.extend((0..2).map(|_| {
                let invitation = invitation.clone();
                std::thread::spawn(move || invitation.accept())
            }));
        },
        &mut || (0..2).for_each(|_| came.recv().unwrap()),
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
        let mut invite = |i: Invitation| drop(std::thread::spawn(move || i.accept()));
        with_guests(&work, &mut invite, &mut || came.recv().unwrap());
    }));
    assert_eq!(guest.unwrap_err().downcast_ref::<&str>(), Some(&"a guest"));
    let mut kept = None;
    let host = catch_unwind(AssertUnwindSafe(|| {
        with_guests(&|| unreachable!("nobody came"), &mut |i| kept = Some(i), &mut || panic!("the host"));
    }));
    assert_eq!(host.unwrap_err().downcast_ref::<&str>(), Some(&"the host"));
    kept.unwrap().accept();
}
