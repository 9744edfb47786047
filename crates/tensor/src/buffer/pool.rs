//! The pool that gives dropped buffers back to the next operation, bounded in bytes.
//!
//! Fresh memory from the operating system costs more than the arithmetic that fills it (a page fault per 4 KiB), so
//! a loop that makes tensors of the same sizes over and over should see the same warm memory again. This pool is shared
//! by all threads and holds what is too large for the shelves of [`super::handle`].

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dtype::Element;

/// Vectors above this many bytes are tried before they are made, because an allocation that fails ends the process.
const PROBE_FROM: usize = 1 << 30;

/// Bytes that all shared pools together may hold.
static LIMIT: AtomicUsize = AtomicUsize::new(256 << 20);
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Raised by `release_memory`, so that every thread empties its own shelves when it next looks.
static EPOCH: AtomicUsize = AtomicUsize::new(0);

#[inline]
pub(super) fn epoch() -> usize {
    EPOCH.load(Ordering::Relaxed)
}

/// Whether dropped memory is kept at all.
#[inline]
pub(super) fn is_pool_on() -> bool {
    LIMIT.load(Ordering::Relaxed) != 0
}

/// Bounds the memory that dropped tensors leave with the pool for reuse, in bytes; 0 turns the pool off.
///
/// The default is 256 MiB. What is held beyond a new, lower limit is handed back at once. Besides, each thread keeps up
/// to 256 KiB per size of tensors of up to 64 KiB, unless the pool is off.
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
    super::handle::clear_shelves();
    bool::pool().clear();
    i64::pool().clear();
    f32::pool().clear();
    f64::pool().clear();
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

    /// A vector of `len + padding` elements; all of them zero if `zero`, else of no particular value. `None` if the
    /// allocator has no such room, see Note [Room].
    pub(crate) fn take(&self, len: usize, padding: usize, zero: bool) -> Option<Vec<T>> {
        // The class is that of the length, so that padding does not push powers of two into the next one.
        let room = class_of(len)?.checked_add(padding)?;
        let len = len + padding;
        if let Some(mut values) = self.take_large(room) {
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
        values.truncate(len);
        Some(values)
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
    pub(crate) fn put(&self, values: Vec<T>) {
        let room = values.capacity();
        let bytes = room * size_of::<T>();
        let limit = LIMIT.load(Ordering::Relaxed);
        // Small ones come from shelves: nobody would ever ask for them here.
        if bytes <= super::handle::SMALL_BYTES || limit == 0 {
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

/// Whether the allocator would give so many bytes: where they are many, tries.
pub(crate) fn has_room(bytes: usize) -> bool {
    bytes <= PROBE_FROM || Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// Rounds a length up by at most an eighth, so that near misses find each other's memory; `None` for what no vector holds.
fn class_of(len: usize) -> Option<usize> {
    let step = (len.checked_next_power_of_two()? / 16).max(1);
    len.div_ceil(step).checked_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_an_eighth() {
        for len in [1usize, 7, 100, 1025, 4097, 1_000_003] {
            let c = class_of(len).unwrap();
            assert!(c >= len && c <= len + len / 7 + 1, "{len} -> {c}");
        }
    }

    #[test]
    fn small_vectors_of_callers_are_freed() {
        let pool: Pool<i64> = Pool::new();
        pool.put(vec![1, 2, 3]);
        assert!(pool.large.lock().unwrap().is_empty());
        pool.put(vec![0; 100_000]);
        assert_eq!(pool.large.lock().unwrap().len(), 1);
        pool.clear();
    }

    #[test]
    fn what_no_memory_holds_is_none() {
        let pool: Pool<f64> = Pool::new();
        for len in [1 << 50, isize::MAX as usize / 8, usize::MAX] {
            assert!(pool.take(len, 8, false).is_none() && pool.take(len, 8, true).is_none(), "{len}");
        }
    }
}
