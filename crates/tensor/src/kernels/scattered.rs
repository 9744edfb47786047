//! Results whose parts several tasks write.

use std::marker::PhantomData;

/// A result that several tasks write, each its own places.
pub(crate) struct Scattered<'a, T> {
    start: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for an exclusive borrow of its elements, and shared it only hands out parts through `part`, whose
// callers see to it that they are apart.
unsafe impl<T: Send> Sync for Scattered<'_, T> {}

impl<'a, T> Scattered<'a, T> {
    pub(crate) fn new(out: &'a mut [T]) -> Scattered<'a, T> {
        Scattered { start: out.as_mut_ptr(), len: out.len(), life: PhantomData }
    }

    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Where elements from `start` on are, as far as an address goes.
    pub(crate) fn place(&self, start: usize) -> *const T {
        self.start.wrapping_add(start)
    }

    /// Some neighbouring elements.
    ///
    /// # Safety
    /// No two parts that are used at the same time overlap.
    #[allow(clippy::mut_from_ref, reason = "the caller sees to it that parts are apart")]
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        assert!(start <= self.len && len <= self.len - start);
        // SAFETY: it lies inside the result, by the assertion, and nobody else uses it, as promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}
