//! Rectangles of a result.

use std::marker::PhantomData;

use crate::dtype::Element;

/// What the sums of a product are added to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Onto<'a, T> {
    /// nothing: they are written
    Nothing,
    /// what the result holds
    Result,
    /// this row, each row of the result: a bias
    Row(&'a [T]),
}

impl<'a, T> Onto<'a, T> {
    /// What columns from this one on are added to.
    pub(super) fn at_column(self, col: usize) -> Onto<'a, T> {
        match self {
            Onto::Row(row) => Onto::Row(&row[col..]),
            other => other,
        }
    }
}

/// A rectangle of a row-major result that one task writes.
pub(crate) struct Out<'a, T> {
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

impl<'a, T> Out<'a, T> {
    /// A whole result.
    pub(super) fn of(out: &'a mut [T], rows: usize, cols: usize) -> Out<'a, T> {
        assert!(rows * cols <= out.len());
        Out { start: out.as_mut_ptr(), stride: cols, rows, cols, life: PhantomData }
    }

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

    /// All rows, which follow each other without a gap.
    pub(super) fn run(&mut self) -> &mut [T] {
        assert!(self.stride == self.cols);
        // SAFETY: the rectangle is a run of the result, which this task alone writes.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.rows * self.cols) }
    }

    /// One row.
    #[inline(always)]
    pub(super) fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows);
        // SAFETY: a row of the rectangle is `cols` neighbouring elements of the result, which this task alone writes.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.stride), self.cols) }
    }
}

impl<T: Element> Out<'_, T> {
    /// Puts the row that sums are added to in all rows, for those who add to what is there.
    pub(super) fn begin<'a>(&mut self, onto: Onto<'a, T>) -> Onto<'a, T> {
        let Onto::Row(row) = onto else { return onto };
        for i in 0..self.rows {
            let cols = self.cols;
            self.row(i).copy_from_slice(&row[..cols]);
        }
        Onto::Result
    }

    /// What sums of nothing, added to this, are.
    pub(super) fn hold(&mut self, onto: Onto<'_, T>) {
        if self.begin(onto) == Onto::Nothing {
            for i in 0..self.rows {
                self.row(i).fill(T::default());
            }
        }
    }
}
