//! How many threads work: the process-wide setting, pools of one's own, and the one place that forks.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use crate::kernels::{Invitation, with_guests};

/// Work of fewer elements than this stays on one thread. Splits happen at multiples of it, whatever the number of
/// threads, so that results do not depend on that number.
pub const GRAIN: usize = 32_768;

/// Set by `set_num_threads`; 0 means rayon's own choice.
static THREADS: AtomicUsize = AtomicUsize::new(0);

fn global() -> &'static RwLock<Option<Arc<rayon::ThreadPool>>> {
    static POOL: OnceLock<RwLock<Option<Arc<rayon::ThreadPool>>>> = OnceLock::new();
    POOL.get_or_init(|| RwLock::new(None))
}

thread_local! {
    /// Set while a `ThreadPool::install` of ours is on the stack, or while this thread is one of its workers.
    pub(crate) static INSTALLED: Cell<usize> = const { Cell::new(0) };
}

/// Sets how many threads tensor operations of this process may use; 0 restores the default, one per core unless the
/// environment variable `RAYON_NUM_THREADS` says otherwise.
///
/// Results have the same bits for any number.
///
/// ```
/// foldback_tensor::set_num_threads(2);
/// assert_eq!(foldback_tensor::num_threads(), 2);
/// ```
pub fn set_num_threads(n: usize) {
    let pool = if n > 1 { Some(Arc::new(build(n))) } else { None };
    *global().write().expect("no panic while the lock is held") = pool;
    THREADS.store(n, Ordering::SeqCst);
}

/// How many threads a large operation called from here would use.
pub fn num_threads() -> usize {
    match (INSTALLED.get(), THREADS.load(Ordering::Relaxed)) {
        (0, 0) => default_threads(),
        (0, n) | (n, _) => n,
    }
}

/// Rayon's own choice: what the environment says, or one per core.
fn default_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(rayon::current_num_threads)
}

fn build(n: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new()
        .num_threads(n)
        .start_handler(move |_| INSTALLED.set(n))
        .build()
        .expect("the operating system grants threads")
}

/// Threads of one's own, for running some operations with another number than the rest of the process.
///
/// ```
/// use foldback_tensor::{DType, Tensor, ThreadPool};
/// let x = Tensor::ones([300, 300], DType::F32);
/// let serial = ThreadPool::new(1).install(|| x.exp());
/// let parallel = ThreadPool::new(3).install(|| x.exp());
/// assert_eq!(serial, parallel);
/// ```
#[derive(Debug)]
pub struct ThreadPool(rayon::ThreadPool);

impl ThreadPool {
    /// A pool of `n` threads, at least one.
    pub fn new(n: usize) -> ThreadPool {
        ThreadPool(build(n.max(1)))
    }

    /// Runs `f` with tensor operations inside it on this pool.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.0.install(f)
    }
}

thread_local! {
    pub(crate) static MODES: Cell<u32> = const { Cell::new(0) };
}

/// A word of per-thread switches that belongs to the layers above, such as "do not record gradients".
///
/// A thread that waits in a parallel section of ours runs nobody else's task meanwhile, which would see this thread's
/// switches.
pub fn thread_modes() -> u32 {
    MODES.get()
}

/// Sets the word that [`thread_modes`] reads, and returns what it was.
pub fn set_thread_modes(modes: u32) -> u32 {
    MODES.replace(modes)
}

/// Runs `work` on every piece of `0 .. total` cut at multiples of `grain`, in parallel where that helps.
///
/// `split` cuts the state that goes with a range at an offset inside it; `work` gets a range's start, its length and
/// its state.
///
/// Note [Forking]
/// The calling thread works itself, from the front on; threads of the pool help from the back. So it is mostly the
/// same thread, with the same cache, that meets a part of a tensor again in the next operation. Helpers that are busy,
/// or have not woken up before the work is done, are not waited for (Note [Lending]); the caller just does more.
pub(crate) fn split_work<S: Send>(
    total: usize,
    grain: usize,
    state: S,
    split: &(impl Fn(S, usize) -> (S, S) + Sync),
    work: &(impl Fn(usize, usize, S) + Sync),
) {
    if total <= grain {
        return work(0, total, state);
    }
    let helpers = (num_threads() - 1).min(total.div_ceil(grain) - 1);
    let left = Mutex::new(Left { start: 0, len: total, grain, state: Some(state) });
    let run = |end: End| {
        let next = || left.lock().expect("cutting a range does not panic").take(end, split);
        while let Some((start, len, state)) = next() {
            work(start, len, state);
        }
    };
    if helpers == 0 {
        return run(End::Front);
    }
    let pool = if INSTALLED.get() != 0 {
        None
    } else {
        global().read().expect("no panic while the lock is held").clone()
    };
    let invite = |invitation: Invitation| {
        for _ in 0..helpers {
            if UNREAD.load(Ordering::Relaxed) >= MOST_UNREAD {
                break;
            }
            UNREAD.fetch_add(1, Ordering::Relaxed);
            let invitation = invitation.clone();
            let read = move || {
                UNREAD.fetch_sub(1, Ordering::Relaxed);
                invitation.accept();
            };
            match &pool {
                Some(pool) => pool.spawn(read),
                None => rayon::spawn(read),
            }
        }
    };
    with_guests(&|| run(End::Back), invite, || run(End::Front));
}

/// Invitations that no thread has looked at yet. Where all threads of a pool are busy for long they pile up: then there
/// is nobody to invite.
static UNREAD: AtomicUsize = AtomicUsize::new(0);
const MOST_UNREAD: usize = 256;

#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

/// The part of a range that nobody has taken yet, and the state that goes with it.
struct Left<S> {
    start: usize,
    len: usize,
    grain: usize,
    /// `None` only when nothing is left
    state: Option<S>,
}

impl<S> Left<S> {
    /// A piece: its start, its length and its state.
    fn take(&mut self, end: End, split: &impl Fn(S, usize) -> (S, S)) -> Option<(usize, usize, S)> {
        let state = self.state.take()?;
        let (start, len) = (self.start, self.len);
        if len <= self.grain {
            return Some((start, len, state));
        }
        match end {
            End::Front => {
                let (piece, rest) = split(state, self.grain);
                (self.start, self.len, self.state) = (start + self.grain, len - self.grain, Some(rest));
                Some((start, self.grain, piece))
            }
            End::Back => {
                let before = (len - 1) / self.grain * self.grain;
                let (rest, piece) = split(state, before);
                (self.len, self.state) = (before, Some(rest));
                Some((start + before, len - before, piece))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Collects the pieces and the threads that worked on them.
    fn pieces(threads: usize, total: usize) -> (Vec<(usize, usize)>, usize) {
        let seen = Mutex::new((Vec::new(), HashSet::new()));
        ThreadPool::new(threads).install(|| {
            split_work(total, 10, (), &|(), _| ((), ()), &|start, len, ()| {
                std::thread::sleep(std::time::Duration::from_millis(1));
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
                    // Other tests invite as well, and may pass the limit together by one each.
                    assert!(UNREAD.load(Ordering::Relaxed) <= MOST_UNREAD + 64);
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
}
