//! How many threads work: the process-wide setting, pools of one's own, and the one place that forks.

mod lend;
#[cfg(test)]
mod model;
mod sync;

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use crate::error::{Error, Here, Result, TensorFacts, or_panic};
use lend::{Invitation, with_guests};

/// Work of fewer elements than this stays on one thread. Splits happen at multiples of it, whatever the number of
/// threads, so that results do not depend on that number.
pub const GRAIN: usize = 32_768;

/// More threads than this are taken for a mistake.
const MOST_THREADS: usize = 4096;

/// Set by `set_num_threads`; 0 means rayon's own choice.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The threads that `set_num_threads` has started.
static POOL: RwLock<Option<Arc<rayon::ThreadPool>>> = RwLock::new(None);

thread_local! {
    /// Set while this thread is a worker of a pool that this module has made: to its number of threads.
    pub(crate) static INSTALLED: Cell<usize> = const { Cell::new(0) };
}

/// Sets how many threads tensor operations of this process may use; 0 restores the default, one per core unless the
/// environment variable `RAYON_NUM_THREADS` says otherwise.
///
/// Results have the same bits for any number.
///
/// # Panics
/// Where [`try_set_num_threads`] returns an error.
///
/// ```
/// foldback_tensor::set_num_threads(2);
/// assert_eq!(foldback_tensor::num_threads(), 2);
/// ```
#[track_caller]
pub fn set_num_threads(n: usize) {
    or_panic(try_set_num_threads(n));
}

/// [`set_num_threads`], with an error instead of a panic.
///
/// # Errors
/// [`TensorFacts::Parameter`] for more than 4096 threads, or more than the operating system grants; the setting stays as it
/// was.
///
/// ```
/// use foldback_tensor::{num_threads, try_set_num_threads};
/// let before = num_threads();
/// assert!(try_set_num_threads(100_000).is_err());
/// assert_eq!(num_threads(), before);
/// ```
#[track_caller]
pub fn try_set_num_threads(n: usize) -> Result<()> {
    let pool = if n > 1 { Some(Arc::new(build("set_num_threads", n).here()?)) } else { None };
    let mut current = POOL.write().unwrap_or_else(PoisonError::into_inner);
    let old = std::mem::replace(&mut *current, pool);
    THREADS.store(n, Ordering::SeqCst);
    drop(current);
    drop(old);
    Ok(())
}

/// How many threads a large operation called from here would use.
#[doc(alias = "get_num_threads")]
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

/// Starts `n` threads, which know how many they are.
fn build(op: &'static str, n: usize) -> Result<rayon::ThreadPool> {
    let refused =
        |expected| Error::from(TensorFacts::Parameter { op, name: "n", value: n.to_string(), expected });
    if n > MOST_THREADS {
        return Err(refused("at most 4096 threads"));
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(n)
        .start_handler(move |_| INSTALLED.set(n))
        .build()
        .map_err(|_| refused("no more threads than the operating system grants"))
}

/// Threads of one's own, for running some operations with another number than the rest of the process.
///
/// ```
/// use foldback_tensor::{DType, Tensor, ThreadPool};
/// let x = Tensor::ones([300, 300]);
/// let serial = ThreadPool::new(1).install(|| x.exp());
/// let parallel = ThreadPool::new(3).install(|| x.exp());
/// assert_eq!(serial, parallel);
/// ```
#[derive(Debug)]
pub struct ThreadPool(rayon::ThreadPool);

impl ThreadPool {
    /// A pool of `n` threads, at least one.
    ///
    /// # Panics
    /// Where [`ThreadPool::try_new`] returns an error.
    #[track_caller]
    pub fn new(n: usize) -> ThreadPool {
        or_panic(ThreadPool::try_new(n))
    }

    /// [`ThreadPool::new`], with an error instead of a panic.
    ///
    /// # Errors
    /// [`TensorFacts::Parameter`] for more than 4096 threads, or more than the operating system grants.
    ///
    /// ```
    /// use foldback_tensor::ThreadPool;
    /// let refused = ThreadPool::try_new(100_000).unwrap_err();
    /// assert!(refused.to_string().starts_with("ThreadPool: n = 100000 is not valid: expected at most 4096 threads"));
    /// ```
    #[track_caller]
    pub fn try_new(n: usize) -> Result<ThreadPool> {
        build("ThreadPool", n.max(1)).map(ThreadPool).here()
    }

    /// Runs `f` with tensor operations inside it on this pool.
    ///
    /// `f` itself runs on a thread of the pool, so what belongs to a thread (whether operations record, the default
    /// generator, [`broadcast_warning`](crate::broadcast_warning)) is not the caller's there: set it inside `f`.
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
#[inline]
pub fn thread_modes() -> u32 {
    MODES.get()
}

/// Sets the word that [`thread_modes`] reads, and returns what it was.
#[inline]
pub fn set_thread_modes(modes: u32) -> u32 {
    MODES.replace(modes)
}

/// Runs `work` on every piece of `0 .. total` cut at multiples of `grain`, in parallel where that helps.
///
/// `split` cuts the state that goes with a range at an offset inside it; `work` gets a range's start, its length and
/// its state. Both are called once per piece of some ten thousand elements, so an indirect call costs nothing, and this
/// is compiled once per kind of state instead of once per caller.
pub(crate) fn split_work<S: Send>(
    total: usize,
    grain: usize,
    state: S,
    split: &(dyn Fn(S, usize) -> (S, S) + Sync),
    work: &(dyn Fn(usize, usize, S) + Sync),
) {
    if total <= grain {
        return work(0, total, state);
    }
    let left = Mutex::new(Left { range: Range { start: 0, len: total, grain }, state: Some(state) });
    share(total.div_ceil(grain), &|end| {
        // Whoever panics while the range is locked, in `split`, takes the state along: nothing is left.
        let lock = || left.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((start, len, state)) = take(lock(), end, split) {
            work(start, len, state);
        }
    });
}

/// Calls `run`, which takes pieces from one end until none is left, here and on threads that have time for it.
///
/// Note [Forking]
/// The calling thread works itself, from the front on; threads of the pool help from the back. So it is mostly the
/// same thread, with the same cache, that meets a part of a tensor again in the next operation. Helpers that are busy,
/// or have not woken up before the work is done, are not waited for (Note [Lending]); the caller just does more.
fn share(pieces: usize, run: &(dyn Fn(End) + Sync)) {
    let helpers = (num_threads() - 1).min(pieces - 1);
    if helpers == 0 {
        return run(End::Front);
    }
    let pool =
        if INSTALLED.get() != 0 { None } else { POOL.read().unwrap_or_else(PoisonError::into_inner).clone() };
    let mut invite = |invitation: Invitation| {
        for _ in 0..helpers {
            let Some(unread) = Unread::new() else { break };
            let invitation = invitation.clone();
            let read = move || {
                drop(unread);
                invitation.accept();
            };
            match &pool {
                Some(pool) => pool.spawn(read),
                None => rayon::spawn(read),
            }
        }
    };
    with_guests(&|| run(End::Back), &mut invite, &mut || run(End::Front));
}

/// An invitation that no thread has looked at yet. Where all threads of a pool are busy for long they pile up: then there
/// is nobody to invite.
struct Unread;

static UNREAD: AtomicUsize = AtomicUsize::new(0);
const MOST_UNREAD: usize = 256;

impl Unread {
    /// Counts one more, unless there are too many.
    fn new() -> Option<Unread> {
        let one_more = |n| (n < MOST_UNREAD).then_some(n + 1);
        UNREAD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Unread)
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        UNREAD.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

/// The part of a range that nobody has taken yet, and the state that goes with it.
struct Left<S> {
    range: Range,
    /// `None` only when nothing is left
    state: Option<S>,
}

struct Range {
    start: usize,
    len: usize,
    grain: usize,
}

/// A piece: its start, its length and its state.
fn take<S>(
    mut left: MutexGuard<'_, Left<S>>,
    end: End,
    split: &dyn Fn(S, usize) -> (S, S),
) -> Option<(usize, usize, S)> {
    let state = left.state.take()?;
    let Some(cut) = left.range.cut(end) else { return Some((left.range.start, left.range.len, state)) };
    let (front, back) = split(state, cut.offset);
    let (piece, rest) = match end {
        End::Front => (front, back),
        End::Back => (back, front),
    };
    left.state = Some(rest);
    Some((cut.start, cut.len, piece))
}

/// A piece, and the offset in what was left that separates it from the rest.
struct SplitAt {
    start: usize,
    len: usize,
    offset: usize,
}

impl Range {
    /// Takes a piece away, `None` if what is left is the last one.
    fn cut(&mut self, end: End) -> Option<SplitAt> {
        let (start, len) = (self.start, self.len);
        if len <= self.grain {
            return None;
        }
        Some(match end {
            End::Front => {
                (self.start, self.len) = (start + self.grain, len - self.grain);
                SplitAt { start, len: self.grain, offset: self.grain }
            }
            End::Back => {
                self.len = (len - 1) / self.grain * self.grain;
                SplitAt { start: start + self.len, len: len - self.len, offset: self.len }
            }
        })
    }
}

#[cfg(test)]
mod tests;
