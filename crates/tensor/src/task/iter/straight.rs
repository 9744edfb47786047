//! Planes whose operands lie straight along their rows: one element after another, or the same one all along. What can be asked once is
//! not asked for every block: of a block of 2,048 elements that was more than two fifths of the instructions. W5b by `fuse!` takes 0.73
//! to 0.88 of the time.

use smallvec::SmallVec;

use super::Operand;
use super::block::{BlockPlace, Blocks, Scratch};
use super::fold::Reduce;
use super::order::{FirstSums, LANES};
use super::plan::PlanAxis;
use super::receiver::Receiver;
use super::sink::Walk;
use crate::buffer::Handle;
use crate::dtype::{Block, BlockMut};
use crate::kernels::folds::Table;
use crate::kernels::{BlockKernel, RowOutput, RowSums, are_added};

/// Rows at least this long are computed one by one, shorter ones laid out together if they only lie apart.
pub(super) const LONG_ROW: usize = 256;

/// Rows at least this long are also computed one by one where an operand is the same for all rows: several copies of it would take the
/// first-level cache from what is computed (`((x * w + b)^2).sum()` of rows takes 0.7 of the time).
const LONGER_ROW: usize = 512;

/// Elements of a plane from which on a kernel that has several outputs adds its results itself: planes of 3 rows of 333 took 1.3 times as
/// long so. And elements of a sum that is computed without a plan.
pub(in crate::task) const LEAST_ADDED: usize = 4096;

/// How an operand is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    InPlace,
    /// an element that the kernel takes for a whole row
    Number,
    LaidOut,
}

/// Where an operand, or what a sink has, is at the start of a plane, and how it goes on from row to row and along a row.
#[derive(Clone, Copy)]
struct PlaneLayout {
    at: isize,
    step: isize,
    along: isize,
}

impl PlaneLayout {
    #[inline(always)]
    fn place(&self, (row, col): (usize, usize)) -> isize {
        self.at + row as isize * self.step + col as isize * self.along
    }
}

/// How the planes of a walk are computed.
pub(super) struct Straight<'w, 'a> {
    walk: &'w Walk<'a>,
    kernel: &'w dyn BlockKernel,
    rows: Option<&'w PlanAxis>,
    cols: &'w PlanAxis,
    /// rows and columns of a block
    block: (usize, usize),
    /// how many rows the kernel is given at a time
    together: usize,
    reads: SmallVec<[ReadMode; 4]>,
    /// per operand, the first one that is the same: what is laid out of that one is there for both
    same: SmallVec<[usize; 4]>,
    /// per output, the sink whose elements the kernel writes to their place itself
    writes: SmallVec<[Option<usize>; 4]>,
    /// of the sums, if the kernel adds the results of whole leaves itself
    sums: Option<FirstSums>,
    /// per output, whether its sink takes what the kernel gives as soon as it is there, and not a block of several rows
    at_once: SmallVec<[bool; 4]>,
}

impl<'w, 'a> Straight<'w, 'a> {
    /// `None` where an operand lies across, or rows are made of several axes.
    pub(super) fn new(
        walk: &'w Walk<'a>,
        rows: &'w [PlanAxis],
        cols: &'w PlanAxis,
        block: (usize, usize),
        receivers: &[Receiver<'_>],
    ) -> Option<Straight<'w, 'a>> {
        let ((kernel, outputs), [] | [_]) = (walk.kernel?, rows) else { return None };
        let rows = rows.first();
        let along = &cols.steps[..walk.operands.len()];
        if along.iter().any(|step| !(0..=1).contains(step)) {
            return None;
        }
        let step = |k: usize| rows.map_or(0, |a| a.steps[k]);
        let is_run = |k: usize| step(k) == cols.size as isize;
        let in_order = |k: usize, op: &Operand<'_>| along[k] == 1 && op.want == op.data.dtype();
        let repeats_or_follows = |k: usize| along[k] == 0 || step(k) == 0 || is_run(k);
        let one_by_one = block.1 < cols.size
            || cols.size >= LONGER_ROW && (0..along.len()).any(|k| step(k) == 0)
            || cols.size >= LONG_ROW && !(0..along.len()).all(repeats_or_follows);
        let one_number = one_by_one && kernel.takes_a_number() && matches!(along, [0, 1] | [1, 0]);
        let read = |(k, op): (usize, &Operand<'_>)| match op.want == op.data.dtype() {
            true if in_order(k, op) && (one_by_one || is_run(k)) => ReadMode::InPlace,
            true if along[k] == 0 && one_number => ReadMode::Number,
            _ => ReadMode::LaidOut,
        };
        let reads = walk.operands.iter().enumerate().map(read).collect();
        let same = |k: usize| {
            let is_same = |&first: &usize| walk.axes.iter().all(|a| a.steps[first] == a.steps[k]);
            let operands = &walk.operands;
            (0..k).filter(|&first| operands[first].reads_as(&operands[k])).find(is_same).unwrap_or(k)
        };
        let same = (0..walk.operands.len()).map(same).collect();
        let mut writes: SmallVec<[Option<usize>; 4]> = SmallVec::from_elem(None, outputs);
        for (t, receiver) in receivers.iter().enumerate() {
            if receiver.is_written_straight() && (one_by_one || is_run(walk.nr(t))) {
                writes[walk.sinks[t].output] = Some(t);
            }
        }
        // A single output of a few rows stays in the first-level cache anyway.
        let mut at_once: SmallVec<[bool; 4]> = SmallVec::from_elem(outputs > 1, outputs);
        for (t, sink) in walk.sinks.iter().enumerate().filter(|(t, _)| walk.is_folded(*t)) {
            at_once[sink.output] &= match sink.order.leaf {
                FirstSums::Run(leaf) => leaf <= cols.size,
                FirstSums::Rows { .. } => step(walk.nr(t)) != 0,
            };
        }
        let together = if one_by_one { 1 } else { block.0 };
        let can_sum = kernel.sums() && walk.fold.reduce == Reduce::Sum && are_added(walk.fold.dtype);
        let sums = if can_sum { Straight::sums_of(walk, rows, cols, receivers) } else { None };
        Some(Straight { walk, kernel, rows, cols, block, together, reads, same, writes, sums, at_once })
    }

    /// The leaves of all outputs that are folded, where a kernel can add them from the operands as they lie, and store the others straight
    /// to their places.
    fn sums_of(
        walk: &Walk<'_>,
        rows: Option<&PlanAxis>,
        cols: &PlanAxis,
        receivers: &[Receiver<'_>],
    ) -> Option<FirstSums> {
        let leaf = (0..walk.sinks.len()).find(|&t| walk.is_folded(t)).map(|t| walk.sinks[t].order.leaf)?;
        let step = |t: usize| rows.map_or(0, |a| a.steps[walk.nr(t)]);
        let is_one = walk.sinks.len() == 1;
        let fits = |(t, receiver): (usize, &Receiver<'_>)| match walk.sinks[t].order.leaf {
            _ if !walk.is_folded(t) => receiver.is_written_straight(),
            of_sink if of_sink != leaf => false,
            FirstSums::Run(leaf) if leaf > cols.size && step(t) == 0 => {
                cols.size.is_multiple_of(LANES) && (is_one || cols.size >= LONG_ROW)
            }
            FirstSums::Run(_) => cols.size >= LONG_ROW,
            FirstSums::Rows { .. } => cols.size >= LONG_ROW && step(t) == 0 && is_one,
        };
        let is_worth_it = is_one || rows.map_or(1, |a| a.size) * cols.size >= LEAST_ADDED;
        let fits = is_worth_it
            && walk.kernel.is_some_and(|(_, outputs)| outputs == walk.sinks.len())
            && receivers.iter().enumerate().all(fits)
            && walk.operands.iter().all(|op| op.want == op.data.dtype());
        fits.then_some(leaf)
    }

    /// Has the kernel add what it computes of the plane, or store it: of how many rows.
    fn sum(
        &self,
        leaf: FirstSums,
        layouts: &[PlaneLayout],
        height: usize,
        receivers: &mut [Receiver<'_>],
    ) -> usize {
        let rows = match leaf {
            FirstSums::Run(_) => height,
            FirstSums::Rows { rows, .. } => height / rows * rows,
        };
        let cols = self.cols.size;
        let table = |(op, layout): (&Operand<'a>, &PlaneLayout)| Table {
            data: op.data,
            start: layout.at,
            rows,
            step: layout.step,
            cols: if layout.along == 0 { 1 } else { cols },
        };
        let mut outputs = SmallVec::new();
        for (t, receiver) in receivers.iter_mut().enumerate() {
            let own = layouts[self.walk.nr(t)];
            let (at, step) = (own.at as usize, own.step as usize);
            outputs.push(match receiver {
                Receiver::Folded(wide) => RowOutput::added(wide.from(at), step, cols, leaf),
                Receiver::Written(out) => RowOutput::stored(out.range(at, out.len() - at), step),
                Receiver::Streamed(_) | Receiver::AddedOnto(_) => {
                    unreachable!("what is streamed or added to something is no sum of rows")
                }
            });
        }
        let sums = RowSums {
            operands: self.walk.operands.iter().zip(layouts).map(table).collect(),
            rows,
            cols,
            leaf,
            outputs,
        };
        sums.add(self.kernel);
        rows
    }

    /// Computes the plane where everything is at these offsets, and gives each sink its own.
    pub(super) fn walk(
        &self,
        offsets: &[isize],
        scratch: &mut Scratch,
        values: &mut [Handle],
        receivers: &mut [Receiver<'_>],
    ) {
        let mut values: SmallVec<[BlockMut<'_>; 4]> = values.iter_mut().map(|v| v.block_mut()).collect();
        let height = self.rows.map_or(1, |a| a.size);
        let layout = |(k, (&at, &along)): (usize, (&isize, &isize))| PlaneLayout {
            at,
            step: self.rows.map_or(0, |a| a.steps[k]),
            along,
        };
        let layouts: SmallVec<[PlaneLayout; 8]> =
            offsets.iter().zip(&self.cols.steps[..]).enumerate().map(layout).collect();
        let summed = self.sums.map_or(0, |leaf| self.sum(leaf, &layouts, height, receivers));
        for top in (summed..height).step_by(self.block.0) {
            for left in (0..self.cols.size).step_by(self.block.1) {
                let (rows, cols) = (self.block.0.min(height - top), self.block.1.min(self.cols.size - left));
                for done in (0..rows).step_by(self.together) {
                    let some = self.together.min(rows - done);
                    let from = (top + done, left);
                    let blocks = self.blocks(scratch, &layouts, from, (some, cols));
                    let mut owners = receivers.iter_mut();
                    let mut passed = 0;
                    let mut outputs: SmallVec<[BlockMut<'_>; 4]> = SmallVec::new();
                    for (output, values) in values.iter_mut().enumerate() {
                        outputs.push(match self.writes[output] {
                            Some(t) => {
                                let Some(Receiver::Written(out)) = owners.nth(t - passed) else {
                                    unreachable!("sinks are in the order of the outputs")
                                };
                                passed = t + 1;
                                out.range(layouts[self.walk.nr(t)].place(from) as usize, some * cols)
                            }
                            None if self.at_once[output] => values.range(0, some * cols),
                            None => values.range(done * cols, some * cols),
                        });
                    }
                    self.kernel.run(&blocks, &mut outputs);
                    drop(outputs);
                    if self.at_once.contains(&true) {
                        self.deliver(true, &values, &layouts, (from, some, cols), receivers);
                    }
                }
                self.deliver(false, &values, &layouts, ((top, left), rows, cols), receivers);
            }
        }
    }

    /// Gives the sinks what the kernel has computed of some rows, from a row and column on: those that take it at once, or the others.
    #[inline]
    fn deliver(
        &self,
        at_once: bool,
        values: &[BlockMut<'_>],
        layouts: &[PlaneLayout],
        (from, rows, cols): ((usize, usize), usize, usize),
        receivers: &mut [Receiver<'_>],
    ) {
        for (t, receiver) in receivers.iter_mut().enumerate() {
            let (output, layout) = (self.walk.sinks[t].output, layouts[self.walk.nr(t)]);
            if self.writes[output].is_none() && self.at_once[output] == at_once {
                let data = values[output].as_block();
                let table = Table { data, start: 0, rows, step: cols as isize, cols };
                receiver.take(self.walk, t, (layout.place(from), layout.step), table);
            }
        }
    }

    /// The blocks of all operands, from a row and column on.
    #[inline(always)]
    fn blocks<'b>(
        &self,
        scratch: &'b mut Scratch,
        layouts: &[PlaneLayout],
        from: (usize, usize),
        (rows, cols): (usize, usize),
    ) -> Blocks<'b>
    where
        'a: 'b,
    {
        let operands = || self.walk.operands.iter().zip(&self.reads).zip(layouts).enumerate();
        for (k, ((op, read), layout)) in operands() {
            if *read == ReadMode::LaidOut && self.same[k] == k {
                // What repeats is laid out for all blocks, whatever rows the last has.
                let rows = if layout.step == 0 { self.together } else { rows };
                let row_step = if rows == 1 { 0 } else { layout.step };
                let (start, col_step) = (layout.place(from) - op.offset as isize, layout.along);
                scratch.lay_out(k, op, &BlockPlace { start, rows, row_step, cols, col_step });
            }
        }
        let mut blocks = Blocks::new();
        for (k, ((op, read), layout)) in operands() {
            let data: Block<'b> = op.data;
            blocks.push(match read {
                ReadMode::InPlace => data.range(layout.place(from) as usize, rows * cols),
                ReadMode::Number => data.range(layout.place(from) as usize, 1),
                ReadMode::LaidOut => scratch.laid_out(self.same[k], rows * cols),
            });
        }
        blocks
    }
}
