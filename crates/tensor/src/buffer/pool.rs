//! The pool that gives dropped buffers back to the next operation, bounded in bytes.
//!
//! Fresh memory from the operating system costs more than the arithmetic that fills it (a page fault per 4 KiB), so
//! a loop that makes tensors of the same sizes over and over should see the same warm memory again. Small vectors are
//! kept per thread, without a lock; large ones are shared.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dtype::Element;

/// Vectors of at most this many bytes are kept per thread.
const SMALL_BYTES: usize = 1024;

/// How many vectors of one small class a thread keeps.
const SMALL_KEPT: usize = 256;

/// Bytes that all shared pools together may hold.
static LIMIT: AtomicUsize = AtomicUsize::new(256 << 20);
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Raised by `release_memory`, so that every thread empties its own small vectors when it next looks.
static EPOCH: AtomicUsize = AtomicUsize::new(0);

/// Bounds the memory that dropped tensors leave with the pool for reuse, in bytes; 0 turns the pool off.
///
/// The default is 256 MiB. What is held beyond a new, lower limit is handed back at once.
///
/// ```
/// foldback_tensor::set_pool_limit(64 << 20);
/// ```
pub fn set_pool_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
    if HELD.load(Ordering::Relaxed) > bytes || bytes == 0 {
        release_memory();
    }
}

/// Hands all memory that the pool holds back to the allocator.
///
/// ```
/// drop(foldback_tensor::Tensor::zeros([1000, 1000], foldback_tensor::DType::F32));
/// foldback_tensor::release_memory();
/// ```
pub fn release_memory() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
    bool::pool().clear();
    i64::pool().clear();
    f32::pool().clear();
    f64::pool().clear();
}

/// A thread's own small vectors, by the logarithm of their capacity.
#[derive(Debug)]
pub struct Small<T> {
    bins: [Vec<Vec<T>>; 11],
    epoch: usize,
}

impl<T> Small<T> {
    pub(crate) const fn new() -> Small<T> {
        Small { bins: [const { Vec::new() }; 11], epoch: 0 }
    }
}

/// Vectors of one element type that wait to be used again.
#[derive(Debug)]
pub struct Pool<T> {
    large: Mutex<BTreeMap<usize, Vec<Vec<T>>>>,
}

impl<T: Element> Pool<T> {
    pub(crate) const fn new() -> Pool<T> {
        Pool { large: Mutex::new(BTreeMap::new()) }
    }

    /// A vector of at least `len + padding` elements; all of them zero if `zero`.
    pub(crate) fn take(&self, len: usize, padding: usize, zero: bool) -> Vec<T> {
        // The class is that of the length, so that padding does not push powers of two into the next one.
        let (room, len) = (class_of(len) + padding, len + padding);
        if len * size_of::<T>() <= SMALL_BYTES {
            let class = len.next_power_of_two().trailing_zeros() as usize;
            let found = T::with_small(|small| small.bins[class].pop()).flatten();
            let mut values = found.unwrap_or_else(|| vec![T::default(); 1 << class]);
            if zero {
                values[..len].fill(T::default());
            }
            values.truncate(len);
            return values;
        }
        if let Some(mut values) = self.take_large(room) {
            values.truncate(len);
            if zero {
                values.fill(T::default());
            }
            values.resize(len, T::default());
            return values;
        }
        let mut values = vec![T::default(); room];
        values.truncate(len);
        values
    }

    fn take_large(&self, room: usize) -> Option<Vec<T>> {
        if HELD.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut bins = self.large.lock().expect("no panic while the pool is locked");
        let (&class, bin) = bins.range_mut(room..=room + room / 4).next()?;
        let values = bin.pop();
        if bin.is_empty() {
            bins.remove(&class);
        }
        HELD.fetch_sub(class * size_of::<T>(), Ordering::Relaxed);
        values
    }

    /// Keeps a vector for later, or frees it if the pool is full.
    pub(crate) fn put(&self, mut values: Vec<T>) {
        let room = values.capacity();
        let bytes = room * size_of::<T>();
        let limit = LIMIT.load(Ordering::Relaxed);
        if room == 0 || limit == 0 {
            return;
        }
        if bytes <= SMALL_BYTES {
            if !room.is_power_of_two() {
                return;
            }
            let class = room.trailing_zeros() as usize;
            values.resize(room, T::default());
            T::with_small(|small| {
                let epoch = EPOCH.load(Ordering::Relaxed);
                if small.epoch != epoch {
                    *small = Small::new();
                    small.epoch = epoch;
                }
                if small.bins[class].len() < SMALL_KEPT {
                    small.bins[class].push(values);
                }
            });
            return;
        }
        if bytes + HELD.load(Ordering::Relaxed) <= limit {
            HELD.fetch_add(bytes, Ordering::Relaxed);
            let mut bins = self.large.lock().expect("no panic while the pool is locked");
            bins.entry(room).or_default().push(values);
        }
    }

    fn clear(&self) {
        let bins = std::mem::take(&mut *self.large.lock().expect("no panic while the pool is locked"));
        let bytes: usize = bins.iter().map(|(room, bin)| room * bin.len() * size_of::<T>()).sum();
        HELD.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Rounds a length up by at most an eighth, so that near misses find each other's memory.
fn class_of(len: usize) -> usize {
    let step = (len.next_power_of_two() / 16).max(1);
    len.div_ceil(step) * step
}

/// The storage of [`Small`], one per thread and type; `None` while the thread is being torn down.
pub(crate) fn with_small<T, R>(
    key: &'static std::thread::LocalKey<RefCell<Small<T>>>,
    f: impl FnOnce(&mut Small<T>) -> R,
) -> Option<R> {
    key.try_with(|small| f(&mut small.borrow_mut())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_an_eighth() {
        for len in [1usize, 7, 100, 1025, 4097, 1_000_003] {
            let c = class_of(len);
            assert!(c >= len && c <= len + len / 7 + 1, "{len} -> {c}");
        }
    }

    #[test]
    fn small_vectors_come_back() {
        let pool = i64::pool();
        let v = pool.take(3, 0, true);
        let address = v.as_ptr();
        pool.put(v);
        let again = pool.take(4, 0, true);
        assert_eq!(again.as_ptr(), address);
        assert_eq!(again, [0; 4]);
    }
}
