//! What becomes of the blocks of an output: folded, written, or added.

use super::order::FirstSums;
use super::sink::Walk;
use super::stream::WholeLines;
use super::wide::WideMut;
use crate::dtype::{Block, BlockMut};
use crate::kernels::doors;
use crate::kernels::folds::Table;

/// Where the blocks of a sink go.
pub(super) enum Receiver<'s> {
    Folded(WideMut<'s>),
    Written(BlockMut<'s>),
    Streamed(WholeLines<'s>),
    AddedOnto(BlockMut<'s>),
}

impl Receiver<'_> {
    /// Whether a kernel may write what lies together to its place itself.
    pub(super) fn is_written_straight(&self) -> bool {
        matches!(self, Receiver::Written(_))
    }

    /// Takes a table for sink `t`, whose first element belongs to the accumulator or element `at`, with a step per row.
    pub(super) fn take(
        &mut self,
        walk: &Walk<'_>,
        t: usize,
        (at, step): (isize, isize),
        table: Table<Block<'_>>,
    ) {
        let (at, step, cols) = (at as usize, step as usize, table.cols);
        let row = |i: usize| table.data.range((table.start + i as isize * table.step) as usize, cols);
        match self {
            // Rows that follow each other in both are one.
            Receiver::Written(_) | Receiver::Streamed(_)
                if table.rows > 1 && step == cols && table.step == cols as isize =>
            {
                let n = table.rows * cols;
                self.take(walk, t, (at as isize, n as isize), Table { rows: 1, cols: n, ..table });
            }
            Receiver::Written(out) => {
                (0..table.rows).for_each(|i| row(i).copy_to(out.range(at + i * step, cols)));
            }
            Receiver::Streamed(lines) => (0..table.rows).for_each(|i| lines.put(at + i * step, row(i))),
            Receiver::AddedOnto(out) => {
                (0..table.rows).for_each(|i| doors::add_to(out.range(at + i * step, cols), row(i)));
            }
            Receiver::Folded(wide) => match walk.sinks[t].order.leaf {
                FirstSums::Run(leaf) => walk.folding.lines(wide.from(at), step, table, leaf),
                FirstSums::Rows { rows, abreast } if step == 0 => {
                    walk.folding.columns(wide.from(at), table, table.rows, [rows, abreast]);
                }
                FirstSums::Rows { rows, abreast } => {
                    for i in 0..table.rows {
                        let row = Table { start: table.start + i as isize * table.step, rows: 1, ..table };
                        walk.folding.columns(wide.from(at + i * step), row, 1, [rows, abreast]);
                    }
                }
            },
        }
    }
}
