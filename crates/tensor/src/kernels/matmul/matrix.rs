//! Matrices in slices, of any steps.

/// A matrix in a slice: the place of its first element and the steps along rows and columns, of any sign or zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) start: usize,
    /// from one row to the next
    pub(crate) row_step: isize,
    /// from one column to the next
    pub(crate) col_step: isize,
}

/// A row-major matrix of `cols` columns.
pub(crate) fn row_major<T>(data: &[T], cols: usize) -> Matrix<'_, T> {
    Matrix { data, start: 0, row_step: cols as isize, col_step: 1 }
}

impl<'a, T> Matrix<'a, T> {
    /// The same elements with rows and columns exchanged.
    pub(crate) fn transposed(self) -> Matrix<'a, T> {
        Matrix { row_step: self.col_step, col_step: self.row_step, ..self }
    }
}

impl<'a, T: Copy> Matrix<'a, T> {
    /// The matrix that starts `by` elements further and then at this row and column.
    pub(super) fn moved(&self, by: isize, row: usize, col: usize) -> Matrix<'a, T> {
        let start = self.start as isize + by + row as isize * self.row_step + col as isize * self.col_step;
        Matrix { start: start as usize, ..*self }
    }

    /// Panics unless all elements of a batch of these matrices lie in the slice.
    pub(super) fn check(&self, batch: impl Iterator<Item = (usize, isize)>, rows: usize, cols: usize) {
        let (mut low, mut high) = (self.start as i128, self.start as i128);
        for (size, step) in batch.chain([(rows, self.row_step), (cols, self.col_step)]) {
            let reach = (size as i128 - 1) * step as i128;
            if reach < 0 { low += reach } else { high += reach }
        }
        assert!(
            0 <= low && high < self.data.len() as i128,
            "an operand of a product reaches outside its buffer"
        );
    }

    /// The element at a row and a column.
    ///
    /// # Safety
    /// It lies in the slice.
    #[inline(always)]
    pub(super) unsafe fn at(&self, row: usize, col: usize) -> T {
        let i = self.start as isize + row as isize * self.row_step + col as isize * self.col_step;
        debug_assert!((i as usize) < self.data.len());
        // SAFETY: as promised by the caller.
        unsafe { *self.data.get_unchecked(i as usize) }
    }

    /// The first element and what follows it in memory.
    pub(super) fn rest(&self) -> &'a [T] {
        &self.data[self.start..]
    }

    /// Where the matrix begins.
    pub(super) fn pointer(&self) -> *const T {
        self.data[self.start..].as_ptr()
    }
}
