//! State that outlives a step: a value in a cell that is shared, and changed, by all who hold a reference to it.
//!
//! Note [Locks]
//! What stands in a cell may own values of a user's types (a gradient with its graph, hooks), whose `Drop` may panic, or
//! read or change the cell. So nothing of a user's runs or is dropped while a cell is locked: whoever takes something out
//! of it hands it out, to be dropped afterwards. A panic under the lock can then only come from running out of memory,
//! between assignments of whole values: the lock is not taken for broken.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that outlives a step: a parameter, a gradient, an optimiser's moments and settings, a generator.
///
/// It is read and changed through a shared reference, by one thread at a time; a panic does not spoil it. What is read is
/// a clone, which for tensors and variables is a handle; a tensor written while somebody else holds such a handle is
/// copied first.
///
/// ```
/// use foldback_tensor::{StateCell, tensor};
/// let mean = StateCell::new(tensor![0.0, 4.0]);
/// mean.update(|m| m.mul_(0.5).map(|_| ()))?;
/// assert_eq!(mean.read(), tensor![0.0, 2.0]);
/// assert_eq!(mean.replace(tensor![1.0, 1.0]), tensor![0.0, 2.0]);
/// assert_eq!(mean.into_inner(), tensor![1.0, 1.0]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Default)]
pub struct StateCell<T>(Mutex<T>);

impl<T> StateCell<T> {
    /// A cell with this value in it.
    pub const fn new(value: T) -> StateCell<T> {
        StateCell(Mutex::new(value))
    }

    /// A clone of the value, made under the lock.
    #[inline]
    pub fn read(&self) -> T
    where
        T: Clone,
    {
        self.lock().clone()
    }

    /// Puts a value in and hands out the old one, which is thus dropped outside the lock.
    #[inline]
    pub fn replace(&self, new: T) -> T {
        std::mem::replace(&mut *self.lock(), new)
    }

    /// Changes the value by a function, and returns what that returns. If it panics, the value stays as it has left it.
    ///
    /// The cell is locked meanwhile: a function that uses the same cell would wait for itself, and one that drops what
    /// belongs to others runs their code under the lock; it returns such things instead.
    ///
    /// ```
    /// use foldback_tensor::StateCell;
    /// let list = StateCell::new(vec![1, 2]);
    /// let last = list.update(|l| l.pop());
    /// assert_eq!((last, list.read()), (Some(2), vec![1]));
    /// ```
    #[inline]
    pub fn update<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.lock())
    }

    /// The value, locked: for a step that changes the values of several cells as one, see Note [Locks].
    #[doc(hidden)]
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, of a cell that nobody else has.
    ///
    /// ```
    /// let mut cell = foldback_tensor::StateCell::new(1);
    /// *cell.get_mut() += 1;
    /// assert_eq!(cell.read(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, taken out for good.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone + fmt::Debug> fmt::Debug for StateCell<T> {
    /// The value as it was when asked for: printing runs unlocked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateCell").field(&self.read()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;
    use crate::Tensor;

    #[test]
    fn no_update_is_lost() {
        let cell = StateCell::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..10_000).for_each(|_| cell.update(|n| *n += 1)));
            }
        });
        assert_eq!(cell.into_inner(), 40_000);
    }

    #[test]
    fn a_panic_does_not_spoil_it() {
        let mut cell = StateCell::new(1);
        let panicking = |n: &mut i32| {
            *n = 2;
            panic!("no");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| cell.update(panicking))).is_err());
        assert_eq!((cell.read(), cell.replace(3), *cell.get_mut()), (2, 2, 3));
        assert!(catch_unwind(AssertUnwindSafe(|| cell.update(panicking))).is_err());
        assert_eq!(cell.into_inner(), 2);
    }

    /// Reads the cell that it stood in when it is dropped: under the lock that would never end.
    struct Curious(Arc<StateCell<Option<Curious>>>, Arc<StateCell<u32>>);
    impl Drop for Curious {
        fn drop(&mut self) {
            let is_there = self.0.update(|place| place.is_some());
            self.1.update(|seen| *seen += u32::from(is_there));
        }
    }

    #[test]
    fn what_is_replaced_is_dropped_outside() {
        let (place, seen) = (Arc::new(StateCell::new(None)), Arc::new(StateCell::new(0)));
        let curious = || Some(Curious(place.clone(), seen.clone()));
        drop(place.replace(curious()));
        drop(place.replace(curious()));
        assert_eq!(seen.read(), 1);
        drop(place.replace(None));
    }

    #[test]
    fn a_tensor_is_changed_where_it_lies() {
        let cell = StateCell::new(Tensor::ones([64, 64]));
        let address = || cell.read().as_slice::<f32>().unwrap().as_ptr().addr();
        let (before, kept) = (address(), cell.read());
        drop(kept);
        cell.update(|t| t.add_(1.0).map(|_| ())).unwrap();
        assert_eq!(address(), before);
        let kept = cell.read();
        cell.update(|t| t.add_(1.0).map(|_| ())).unwrap();
        assert_ne!(address(), before);
        assert_eq!((kept, cell.read()), (Tensor::full([64, 64], 2.0), Tensor::full([64, 64], 3.0)));
    }

    /// Looks at the cell that it stands in when it is printed.
    #[derive(Clone)]
    struct Printing(Arc<StateCell<Option<Printing>>>);
    impl fmt::Debug for Printing {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}", self.0.update(|place| place.is_some()))
        }
    }

    #[test]
    fn printing_runs_unlocked() {
        let cell = Arc::new(StateCell::new(None));
        cell.update(|place| *place = Some(Printing(cell.clone())));
        assert_eq!(format!("{cell:?}"), "StateCell(Some(true))");
        drop(cell.replace(None));
    }
}
