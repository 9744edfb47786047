//! How many threads work: the process-wide setting, pools of one's own, and the one place that forks.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use crate::ops::{BroadcastWarning, replace_scope};

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
    static INSTALLED: Cell<usize> = const { Cell::new(0) };
}

/// Sets how many threads tensor operations of this process may use; 0 restores the default, one per core.
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

fn default_threads() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
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
    static MODES: Cell<u32> = const { Cell::new(0) };
}

/// A word of per-thread switches that belongs to the layers above, such as "do not record gradients".
///
/// While a thread waits for a parallel section of ours it may run somebody else's task, which must not see this
/// thread's switches: they are 0 inside a section and restored behind it.
pub fn thread_modes() -> u32 {
    MODES.get()
}

/// Sets the word that [`thread_modes`] reads, and returns what it was.
pub fn set_thread_modes(modes: u32) -> u32 {
    MODES.replace(modes)
}

/// Puts the switches, and the scoped broadcast warning, aside while it lives.
struct ModesAside(u32, Option<BroadcastWarning>);

impl ModesAside {
    fn new() -> ModesAside {
        ModesAside(MODES.replace(0), replace_scope(None))
    }
}

impl Drop for ModesAside {
    fn drop(&mut self) {
        MODES.set(self.0);
        replace_scope(self.1);
    }
}

/// Runs `work` on every piece of `0 .. total` cut at multiples of `grain`, in parallel where that helps.
///
/// `split` cuts the state that goes with a range at an offset inside it; `work` gets a range's start, its length and
/// its state.
pub(crate) fn split_work<S: Send>(
    total: usize,
    grain: usize,
    state: S,
    split: &(impl Fn(S, usize) -> (S, S) + Sync),
    work: &(impl Fn(usize, usize, S) + Sync),
) {
    fn go<S: Send>(
        start: usize,
        len: usize,
        grain: usize,
        state: S,
        split: &(impl Fn(S, usize) -> (S, S) + Sync),
        work: &(impl Fn(usize, usize, S) + Sync),
    ) {
        if len <= grain {
            return work(start, len, state);
        }
        let mid = len.div_ceil(grain) / 2 * grain;
        let (a, b) = split(state, mid);
        rayon::join(
            || go(start, mid, grain, a, split, work),
            || go(start + mid, len - mid, grain, b, split, work),
        );
    }
    fn serial<S>(
        total: usize,
        grain: usize,
        mut state: S,
        split: &impl Fn(S, usize) -> (S, S),
        work: &impl Fn(usize, usize, S),
    ) {
        let mut start = 0;
        while total - start > grain {
            let (now, later) = split(state, grain);
            work(start, grain, now);
            state = later;
            start += grain;
        }
        work(start, total - start, state);
    }
    if total <= grain {
        work(0, total, state)
    } else if num_threads() == 1 {
        serial(total, grain, state, split, work)
    } else if INSTALLED.get() != 0 {
        let _aside = ModesAside::new();
        go(0, total, grain, state, split, work)
    } else {
        let _aside = ModesAside::new();
        let pool = global().read().expect("no panic while the lock is held").clone();
        match pool {
            Some(pool) => pool.install(|| go(0, total, grain, state, split, work)),
            None => go(0, total, grain, state, split, work),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Mutex;

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
