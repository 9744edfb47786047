//! The pool that gives dropped buffers back to the next operation, bounded in bytes.
//!
//! Fresh memory from the operating system costs more than the arithmetic that fills it (a page fault per 4 KiB), so
//! a loop that makes tensors of the same sizes over and over should see the same warm memory again. This pool is shared
//! by all threads and element types and holds what is too large for the shelves of [`super::handle`]. When it is full,
//! what has waited longest is freed, so that sizes that nobody asks for any more make room for those that are in use.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::handle::SMALL_BYTES;
use crate::dtype::{DType, Element};

/// Vectors above this many bytes are tried before they are made, because an allocation that fails ends the process.
const PROBE_FROM: usize = 1 << 30;

static POOL: BufferPool = BufferPool::new(256 << 20);

/// Raised by `release_memory`, so that every thread empties its own shelves when it next looks.
static EPOCH: AtomicUsize = AtomicUsize::new(0);

#[inline]
pub(super) fn epoch() -> usize {
    EPOCH.load(Ordering::Relaxed)
}

/// Whether dropped memory is kept at all.
#[inline]
pub(super) fn is_pool_on() -> bool {
    POOL.on.load(Ordering::Relaxed)
}

/// What else is emptied by `release_memory`: the thread's shelf of whoever builds on this crate.
static OTHER_SHELF: OnceLock<fn()> = OnceLock::new();

/// How often memory has been released, for the shelf of another crate that `clear` empties for a thread; none while nothing is
/// to be kept.
#[doc(hidden)]
#[inline]
pub fn shelf_epoch(clear: fn()) -> Option<usize> {
    if !is_pool_on() {
        return None;
    }
    OTHER_SHELF.get_or_init(|| clear);
    Some(epoch())
}

/// Bounds the memory that dropped tensors leave with the pool for reuse, in bytes; 0 turns the pool off.
///
/// The default is 256 MiB. A pool that is full frees what has waited longest. What is held beyond a new, lower limit is
/// handed back at once. Besides, each thread keeps up to 256 KiB per size of tensors of up to 64 KiB, and up to 8 MiB for
/// the operations that it records next, unless the pool is off.
///
/// ```
/// foldback_tensor::set_pool_limit(64 << 20);
/// ```
pub fn set_pool_limit(bytes: usize) {
    POOL.set_limit(bytes);
    if bytes == 0 {
        release_memory();
    }
}

/// Hands all memory that the pool holds back to the allocator, and what this thread keeps besides, see [`set_pool_limit`]. Other threads do so when
/// they next have something to keep.
///
/// ```
/// drop(foldback_tensor::Tensor::zeros_with([1000, 1000], foldback_tensor::DType::F32));
/// foldback_tensor::release_memory();
/// ```
pub fn release_memory() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
    super::handle::clear_shelves();
    if let Some(clear) = OTHER_SHELF.get() {
        clear();
    }
    POOL.clear();
}

/// A vector of `len + padding` elements; all of them zero if `zero`, else of no particular value. `None` if the
/// allocator has no such room, see Note [Room].
pub(super) fn take<T: Element>(len: usize, padding: usize, zero: bool) -> Option<Vec<T>> {
    // The class is that of the length, so that padding does not push powers of two into the next one.
    let room = class_of(len)?.checked_add(padding)?;
    let len = len + padding;
    if let Some(mut values) = POOL.take(room) {
        values.truncate(len);
        if zero {
            values.fill(T::default());
        }
        values.resize(len, T::default());
        return Some(values);
    }
    if !has_room(room.checked_mul(size_of::<T>())?) {
        return None;
    }
    let mut values = vec![T::default(); room];
    super::huge::ask(&values);
    values.truncate(len);
    Some(values)
}

/// Keeps a vector for later, if it is worth it.
pub(super) fn put<T: Element>(values: Vec<T>) {
    POOL.put(values);
}

/// A vector that waits to be used again.
#[derive(Debug)]
pub enum Spare {
    /// of truth values
    Bool(Vec<bool>),
    /// of integers
    I64(Vec<i64>),
    /// of single precision
    F32(Vec<f32>),
    /// of double precision
    F64(Vec<f64>),
}

struct BufferPool {
    held: Mutex<HeldBuffer>,
    /// whether the limit is above zero, for those who ask without the lock
    on: AtomicBool,
}

/// What the pool holds. Memory is freed when it has been unlocked again: that takes longer than all else here.
struct HeldBuffer {
    /// by element type and capacity; in a bin, what came last is at the back, and none is empty
    bins: BTreeMap<(DType, usize), VecDeque<Waiting>>,
    bytes: usize,
    limit: usize,
    /// counts what has come
    clock: u64,
}

struct Waiting {
    since: u64,
    spare: Spare,
}

impl BufferPool {
    const fn new(limit: usize) -> BufferPool {
        let held = HeldBuffer { bins: BTreeMap::new(), bytes: 0, limit, clock: 0 };
        BufferPool { held: Mutex::new(held), on: AtomicBool::new(limit != 0) }
    }

    fn lock(&self) -> MutexGuard<'_, HeldBuffer> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A vector with a capacity of `room` elements, or a little more.
    fn take<T: Element>(&self, room: usize) -> Option<Vec<T>> {
        T::from_spare(self.find((T::DTYPE, room))?)
    }

    fn find(&self, (dtype, room): (DType, usize)) -> Option<Spare> {
        let mut held = self.lock();
        let fitting = (dtype, room)..=(dtype, room.saturating_add(room / 4));
        let (&class, bin) = held.bins.range_mut(fitting).next()?;
        let newest = bin.pop_back()?;
        if bin.is_empty() {
            held.bins.remove(&class);
        }
        held.bytes -= bytes_of(class);
        Some(newest.spare)
    }

    /// Keeps a vector for later, instead of those that have waited longest if the pool is full.
    fn put<T: Element>(&self, values: Vec<T>) {
        self.keep((T::DTYPE, values.capacity()), T::spare(values));
    }

    fn keep(&self, class: (DType, usize), spare: Spare) {
        let bytes = bytes_of(class);
        // Small ones come from shelves: nobody would ever ask for them here.
        if bytes <= SMALL_BYTES {
            return;
        }
        let mut held = self.lock();
        if bytes > held.limit {
            drop(held);
            return;
        }
        let most = held.limit - bytes;
        let evicted = held.shrink(most);
        held.bytes += bytes;
        held.clock += 1;
        let waiting = Waiting { since: held.clock, spare };
        held.bins.entry(class).or_default().push_back(waiting);
        drop(held);
        drop(evicted);
    }

    fn set_limit(&self, bytes: usize) {
        let mut held = self.lock();
        held.limit = bytes;
        self.on.store(bytes != 0, Ordering::Relaxed);
        let evicted = held.shrink(bytes);
        drop(held);
        drop(evicted);
    }

    fn clear(&self) {
        let mut held = self.lock();
        held.bytes = 0;
        let bins = std::mem::take(&mut held.bins);
        drop(held);
        drop(bins);
    }
}

/// Whether the allocator would give so many bytes: where they are many, tries.
pub(crate) fn has_room(bytes: usize) -> bool {
    bytes <= PROBE_FROM || Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

impl HeldBuffer {
    /// Takes out what has waited longest, until at most so many bytes are held.
    fn shrink(&mut self, most: usize) -> Vec<Waiting> {
        let mut evicted = Vec::new();
        while self.bytes > most {
            let since = |bin: &VecDeque<Waiting>| bin.front().map(|w| w.since);
            let Some((&class, bin)) = self.bins.iter_mut().min_by_key(|(_, bin)| since(bin)) else { break };
            evicted.extend(bin.pop_front());
            if bin.is_empty() {
                self.bins.remove(&class);
            }
            self.bytes -= bytes_of(class);
        }
        evicted
    }
}

fn bytes_of((dtype, room): (DType, usize)) -> usize {
    room * dtype.size()
}

/// Rounds a length up by at most an eighth, so that near misses find each other's memory; `None` for what no vector holds.
pub(super) fn class_of(len: usize) -> Option<usize> {
    let step = (len.checked_next_power_of_two()? / 16).max(1);
    len.div_ceil(step).checked_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    impl BufferPool {
        /// What it holds, counted again.
        fn count(&self) -> usize {
            let held = self.lock();
            let count = held.bins.iter().map(|(&class, bin)| bytes_of(class) * bin.len()).sum();
            assert_eq!(held.bytes, count);
            assert!(held.bytes <= held.limit && held.bins.values().all(|bin| !bin.is_empty()));
            count
        }
    }

    #[test]
    fn classes_waste_at_most_an_eighth() {
        for len in [1usize, 7, 100, 1025, 4097, 1_000_003] {
            let c = class_of(len).unwrap();
            assert!(c >= len && c <= len + len / 7 + 1, "{len} -> {c}");
        }
    }

    #[test]
    fn only_what_is_worth_it_is_kept() {
        let pool = BufferPool::new(MIB);
        pool.put(vec![1i64, 2, 3]);
        pool.put(vec![0.0f64; MIB / 8 + 1]);
        assert_eq!(pool.count(), 0);
        pool.put(vec![0.0f64; MIB / 8]);
        assert_eq!(pool.count(), MIB);
        pool.clear();
        assert_eq!(pool.count(), 0);
    }

    #[test]
    fn vectors_come_back_for_their_type_and_size() {
        let pool = BufferPool::new(64 * MIB);
        pool.put(vec![1i64; MIB]);
        assert!(pool.take::<f64>(MIB).is_none());
        assert!(pool.take::<i64>(MIB + 1).is_none());
        assert!(pool.take::<i64>(MIB / 2).is_none());
        assert_eq!(pool.take::<i64>(MIB - 5), Some(vec![1; MIB]));
        assert_eq!(pool.count(), 0);
        // The one that came last is the warmest.
        (0..3).for_each(|i| pool.put(vec![i; MIB]));
        let first = |v: Option<Vec<i64>>| v.unwrap()[0];
        assert_eq!([first(pool.take(MIB)), first(pool.take(MIB)), first(pool.take(MIB))], [2, 1, 0]);
    }

    /// The pool is full of sizes that nobody asks for again; then a loop begins that needs another one.
    #[test]
    fn sizes_out_of_use_make_room_for_those_in_use() {
        let pool = BufferPool::new(16 * MIB);
        for i in 0..30 {
            match i % 3 {
                0 => pool.put(vec![0i64; (MIB + i * 8192) / 8]),
                1 => pool.put(vec![0f64; (MIB + i * 8192) / 8]),
                _ => pool.put(vec![true; MIB + i * 8192]),
            }
        }
        assert!(pool.count() > 14 * MIB);
        let mut reused = 0;
        for _ in 0..10 {
            let both: Vec<Option<Vec<f32>>> = vec![pool.take(MIB / 2), pool.take(MIB / 2)];
            reused += both.iter().flatten().count();
            both.into_iter().for_each(|v| pool.put(v.unwrap_or_else(|| vec![0.0; MIB / 2])));
            pool.count();
        }
        assert_eq!(reused, 18);
    }

    #[test]
    fn a_lower_limit_frees_what_has_waited_longest() {
        let pool = BufferPool::new(8 * MIB);
        pool.put(vec![0i64; MIB / 8]);
        pool.put(vec![true; MIB]);
        pool.put(vec![0f32; MIB / 4]);
        pool.set_limit(2 * MIB);
        assert_eq!(pool.count(), 2 * MIB);
        assert!(pool.take::<i64>(MIB / 8).is_none());
        pool.set_limit(MIB);
        assert!(pool.take::<bool>(MIB).is_none() && pool.take::<f32>(MIB / 4).is_some());
        pool.set_limit(0);
        pool.put(vec![true; MIB]);
        assert_eq!(pool.count(), 0);
    }

    #[test]
    fn many_threads_stay_within_the_limit() {
        let pool = BufferPool::new(MIB);
        std::thread::scope(|scope| {
            for t in 0..8 {
                let pool = &pool;
                scope.spawn(move || {
                    for i in 0..500 {
                        let room = 100_000 + (t + i) % 7 * 30_000;
                        pool.put(pool.take(room).unwrap_or_else(|| vec![true; room]));
                        pool.put(vec![0i64; room / 8]);
                        pool.count();
                    }
                });
            }
        });
        assert!(pool.count() > MIB / 2);
    }

    #[test]
    fn what_no_memory_holds_is_none() {
        for len in [1 << 50, isize::MAX as usize / 8, usize::MAX] {
            assert!(take::<f64>(len, 8, false).is_none() && take::<f64>(len, 8, true).is_none(), "{len}");
        }
    }
}
