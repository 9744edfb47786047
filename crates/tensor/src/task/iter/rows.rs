//! The walk over long rows, one block of one row at a time: the plan's common case, with little to do per block: W1
//! takes 0.87 of the time.

use smallvec::SmallVec;

use super::Operand;
use super::block::{BLOCK, BlockPlace, Blocks, lay_out};
use super::counter::{Counter, Step};
use super::plan::Axis;
use super::stream::BlockWriter;
use crate::buffer::{Handle, Storage};
use crate::dtype::BlockMut;

/// Whether rows are so long that a block never holds two of them.
pub(crate) fn are_long(axes: &[Axis]) -> bool {
    axes.last().is_some_and(|inner| inner.size * 2 > BLOCK)
}

/// How a row of one operand reaches the kernel.
enum Source {
    /// where it lies
    InPlace,
    /// laid out in a block that holds so many elements from this offset on
    LaidOut { storage: Handle, start: isize, held: usize },
}

impl Source {
    fn new(op: &Operand<'_>, step: isize) -> Source {
        if step == 1 && op.data.dtype() == op.want {
            return Source::InPlace;
        }
        Source::LaidOut { storage: Storage::scratch(op.want, BLOCK), start: 0, held: 0 }
    }

    /// Sees to it that `n` elements from `start` on are at hand.
    #[inline]
    fn prepare(&mut self, op: &Operand<'_>, start: isize, step: isize, n: usize) {
        if let Source::LaidOut { storage, start: old, held } = self
            && (*old != start || *held < n)
        {
            let place = BlockPlace { start, rows: 1, row_step: 0, cols: n, col_step: step };
            lay_out(op, &place, storage.block_mut().range(0, n));
            (*old, *held) = (start, n);
        }
    }
}

/// Writes the elements `start ..` of the space of `axes`, as many as `out` has.
pub(crate) fn write_rows(
    axes: &[Axis],
    operands: &[Operand<'_>],
    start: usize,
    writer: &mut BlockWriter<'_>,
    mut out: BlockMut<'_>,
) {
    let Some((inner, outer)) = axes.split_last() else { return };
    let end = start + out.len();
    let (first, last) = (start / inner.size, end.div_ceil(inner.size));
    let mut rows = Counter::new(outer, operands.len(), first, last);
    let mut sources: SmallVec<[Source; 4]> =
        operands.iter().zip(&inner.steps).map(|(op, &step)| Source::new(op, step)).collect();
    let mut done = 0;
    for row in first..last {
        let (from, to) = (start.max(row * inner.size), end.min((row + 1) * inner.size));
        let mut col = from - row * inner.size;
        let stop = to - row * inner.size;
        while col < stop {
            let n = BLOCK.min(stop - col);
            let at = |k: usize| rows.offsets[k] + col as isize * inner.steps[k];
            for (k, (op, source)) in operands.iter().zip(&mut sources).enumerate() {
                source.prepare(op, at(k), inner.steps[k], n);
            }
            let mut blocks = Blocks::new();
            for (k, (op, source)) in operands.iter().zip(&sources).enumerate() {
                blocks.push(match source {
                    Source::InPlace => op.data.range((op.offset as isize + at(k)) as usize, n),
                    Source::LaidOut { storage, .. } => storage.block().range(0, n),
                });
            }
            writer.write(&blocks, out.range(done, n));
            done += n;
            col += n;
        }
        rows.advance(Step { rows: 1, cols: 1 });
    }
}
