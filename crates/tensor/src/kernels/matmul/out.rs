//! Rectangles of a result.

use std::marker::PhantomData;

/// A rectangle of a row-major result that one task writes.
pub(super) struct Out<'a, T> {
    pub(super) start: *mut T,
    /// from one row to the next
    pub(super) stride: usize,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) life: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for an exclusive borrow of its elements, and shared it only hands out parts through `part`, whose
// callers see to it that they are apart.
unsafe impl<T: Send> Sync for Out<'_, T> {}

impl<T> Out<'_, T> {
    /// The rectangle of `rows` by `cols` from this row and column on.
    ///
    /// # Safety
    /// No two rectangles that are used at the same time overlap.
    pub(super) unsafe fn part(&self, row: usize, col: usize, rows: usize, cols: usize) -> Out<'_, T> {
        assert!(row + rows <= self.rows && col + cols <= self.cols);
        // SAFETY: the first element is inside the rectangle, by the assertion (rows and columns are not zero).
        let start = unsafe { self.start.add(row * self.stride + col) };
        Out { start, stride: self.stride, rows, cols, life: PhantomData }
    }

    /// Where the element at a row and a column is.
    pub(super) fn place(&mut self, row: usize, col: usize) -> *mut T {
        assert!(row < self.rows && col < self.cols);
        // SAFETY: it is inside the rectangle.
        unsafe { self.start.add(row * self.stride + col) }
    }

    /// One row.
    #[inline(always)]
    pub(super) fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows);
        // SAFETY: a row of the rectangle is `cols` neighbouring elements of the result, which this task alone writes.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.stride), self.cols) }
    }
}
