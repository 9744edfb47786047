//! The elements of a table that is folded: stored, or computed piece by piece.

use smallvec::{SmallVec, smallvec};

use super::fold_table::FoldTable;
use super::folding::Folding;
use super::order::{FirstSums, LANES};
use super::pieces::InPieces;
use super::plan::PlanAxis;
use super::straight::LONG_ROW;
use super::wide::WideMut;
use super::{Operand, flat};
use crate::buffer::Storage;
use crate::dtype::{Block, DType};
use crate::kernels::folds::Table;
use crate::kernels::{BlockKernel, RowOutput, RowSums};

/// Rows from a place on, so far apart.
fn table(data: Block<'_>, (start, step): (usize, usize), rows: usize, cols: usize) -> Table<Block<'_>> {
    Table { data, start: start as isize, rows, step: step as isize, cols }
}

/// The elements of a table.
pub(super) enum Elements<'a> {
    Stored(Block<'a>),
    /// what a kernel gives of operands that lie like them or are one number, or of others in pieces
    Computed {
        kernel: &'a dyn BlockKernel,
        operands: &'a [Operand<'a>],
        pieces: Option<InPieces<'a>>,
        dtype: DType,
        /// the rows that the kernel adds itself
        added: Option<AddedRows>,
        /// elements that are computed at a time
        room: usize,
    },
}

impl<'a> Elements<'a> {
    pub(super) fn are_added(&self) -> bool {
        matches!(self, Elements::Computed { added: Some(_), .. })
    }

    /// Folds so many rows, from an element on and so far apart, each into the accumulator of its own, `step` apart, by leaves of so many elements.
    pub(super) fn lines(
        &self,
        folding: &dyn Folding,
        (mut wide, step): (WideMut<'_>, usize),
        (start, apart): (usize, usize),
        (rows, cols): (usize, usize),
        leaf: usize,
    ) {
        match *self {
            Elements::Computed { kernel, operands, added: Some(ref added), .. } if cols >= LONG_ROW => {
                let computed = (kernel, operands);
                if cols <= added.len {
                    return added.add(computed, (wide, step), start, (rows, cols), leaf);
                }
                // A row of several, all of which are added to one accumulator.
                for row in 0..rows {
                    let (wide, size) = (wide.from(row * step), (cols / added.len, added.len));
                    added.add(computed, (wide, 0), start + row * apart, size, leaf);
                }
            }
            _ => self.tables((start, apart), (rows, cols), leaf, &mut |row, table| {
                folding.lines(wide.from(row * step), step, table, leaf);
            }),
        }
    }

    /// Hands out so many rows, from an element on and so far apart: whole ones, with the number of the first, or whole leaves of one.
    pub(super) fn tables(
        &self,
        (start, apart): (usize, usize),
        (rows, cols): (usize, usize),
        leaf: usize,
        take: &mut dyn FnMut(usize, Table<Block<'_>>),
    ) {
        let (kernel, operands, pieces, dtype, room) = match *self {
            Elements::Stored(data) => return take(0, table(data, (start, apart), rows, cols)),
            Elements::Computed { kernel, operands, ref pieces, dtype, room, .. } => {
                (kernel, operands, pieces, dtype, room)
            }
        };
        let (height, width) = if cols <= room { (room / cols, cols) } else { (1, room / leaf * leaf) };
        let mut storage = Storage::scratch(dtype, room.min(rows * cols));
        let mut rooms = pieces.as_ref().map(InPieces::rooms).unwrap_or_default();
        for row in (0..rows).step_by(height) {
            for col in (0..cols).step_by(width) {
                let (height, width) = (height.min(rows - row), width.min(cols - col));
                let first = start + row * cols + col;
                let out = &mut [storage.block_mut().into_range(0, height * width)];
                match pieces {
                    Some(pieces) => pieces.run(kernel, first, &mut rooms, out),
                    None => flat::run(kernel, operands, first, out),
                }
                take(row, table(storage.block(), (0, width), height, width));
            }
        }
    }
}

/// Rows, or parts of the rows of a table, that a kernel adds from where its operands lie: in order along them, or a number for each. Products of
/// 10,000 to 100,000 with a column of rows of 1,000 and their sum take 0.72 to 0.81 of the time that a plan takes.
pub(super) struct AddedRows {
    len: usize,
    /// per operand, from one to the next and along each
    steps: SmallVec<[[isize; 2]; 4]>,
}

impl AddedRows {
    /// The rows of a table whose operands lie like the result, or are one number.
    pub(super) fn of_flat(table: &FoldTable, operands: &[Operand<'_>]) -> Option<AddedRows> {
        let steps = |o: &Operand<'_>| if o.is_one() { [0, 0] } else { [table.cols as isize, 1] };
        let steps = operands.iter().map(steps).collect();
        (table.cols >= LONG_ROW).then_some(AddedRows { len: table.cols, steps })
    }

    /// Rows that leaves and segments have whole, or that are those of the table.
    pub(super) fn of(
        table: &FoldTable,
        axes: &[PlanAxis],
        operands: &[Operand<'_>],
        shape: &[usize],
    ) -> Option<AddedRows> {
        let ([rows, cols], FirstSums::Run(leaf)) = (axes, table.leaf) else { return None };
        let len = cols.size;
        let is_innermost = shape.iter().rfind(|&&size| size != 1) == Some(&len);
        let are_whole = match leaf <= len {
            true => len.is_multiple_of(leaf) || is_innermost,
            false => leaf.is_multiple_of(len) && len.is_multiple_of(LANES),
        };
        let of_several = table.cols.is_multiple_of(len)
            && (table.segment >= table.cols || table.segment.is_multiple_of(len));
        // What is left of a row behind its segments must be long, too: the kernel adds nothing shorter, and nothing is laid out for others.
        let rest = table.cols % table.segment.min(table.cols);
        let fits = len >= LONG_ROW
            && (rest == 0 || rest >= LONG_ROW)
            && (len == table.cols || of_several && are_whole);
        let lies = |(o, along): (&Operand<'_>, &isize)| (0..=1).contains(along) && o.data.dtype() == o.want;
        if !fits || !operands.iter().zip(&cols.steps).all(lies) {
            return None;
        }
        let steps = rows.steps.iter().zip(&cols.steps).map(|(&step, &along)| [step, along]).collect();
        Some(AddedRows { len, steps })
    }

    /// Has the kernel add so many rows and columns of each, from an element of the result on.
    fn add<'a>(
        &self,
        (kernel, operands): (&dyn BlockKernel, &[Operand<'a>]),
        (wide, step): (WideMut<'_>, usize),
        start: usize,
        (rows, cols): (usize, usize),
        leaf: usize,
    ) {
        let (row, col) = ((start / self.len) as isize, (start % self.len) as isize);
        let lines = |(o, &[step, along]): (&Operand<'a>, &[isize; 2])| {
            let start = o.offset as isize + row * step + col * along;
            Table { data: o.data, start, rows, step, cols: if along == 0 { 1 } else { cols } }
        };
        let (operands, leaf) = (operands.iter().zip(&self.steps).map(lines).collect(), FirstSums::Run(leaf));
        let outputs = smallvec![RowOutput::added(wide, step, cols, leaf)];
        RowSums { operands, rows, cols, leaf, outputs }.add(kernel);
    }
}
