//! Folds of what is a table of rows and columns, one of which is reduced: of elements that are stored, or computed piece by piece.

use smallvec::SmallVec;

use super::elements::{AddedRows, Elements};
use super::fold::{Fold, Reduce, at_once, lie_in_order};
use super::folding::{Folding, folding};
use super::order::{FirstSums, MAX_PARTS, RUN, SMALL_PLANE, segment};
use super::pieces::InPieces;
use super::plan::Plan;
use super::reducer::FEW_ROWS;
use super::straight::LEAST_ADDED;
use super::stretch::BLOCK_BYTES;
use super::wide::WideMut;
use super::{Operand, flat};
use crate::create::room;
use crate::dtype::{Block, BlockMut};
use crate::error::Result;
use crate::kernels::folds::Table;
use crate::kernels::{BlockKernel, are_added};
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::threads::{GRAIN, split_work};

/// A shape whose axes are kept or reduced in a few groups, seen as a table of rows and columns, one of which is reduced: no plan, no
/// cells. If nothing is, a column. W9 takes 0.76 of the time, W10 0.94; of 100,000 elements a sum takes 0.6, sums of rows 0.7 to 0.8, of columns
/// 0.6 to 1, of a middle axis or of what is transposed 0.6.
pub(super) struct FoldTable {
    /// tables that follow each other, whose rows are folded onto those of the others
    layers: usize,
    /// tables that follow each other, in which columns are folded
    batch: usize,
    rows: usize,
    pub(super) cols: usize,
    /// how far it is from row to row
    step: usize,
    /// of rows or of columns, whichever are folded
    pub(super) leaf: FirstSums,
    /// how many elements of a row, or of a column, have an accumulator of their own
    pub(super) segment: usize,
}

/// Elements beyond which columns of more than few rows are read faster in the blocks of a walk (0.93 at 5 million).
const LARGE: usize = 1 << 21;

/// Elements that a thread folds at least, and columns that it takes from all rows.
const SMALL_PIECE: usize = GRAIN / 4;
const SMALL_STRIP: usize = 256;

/// Elements that a thread folds at a time of so many: each piece costs accumulators and a lock, sums of 4,096 rows a tenth of their time.
fn piece(n: usize) -> usize {
    SMALL_PIECE.max(n / MAX_PARTS)
}

/// Results whose accumulators stay in the first-level cache.
const STRETCH: usize = 1024;

impl FoldTable {
    /// A table of up to so many elements that are computed at once, or of what lies in memory.
    pub(super) fn new(shape: &[usize], kept: &[bool], computed: Option<usize>) -> Option<FoldTable> {
        FoldTable::of(shape, kept, computed, None, None)
    }

    /// The same of what lies in memory, where what lies together, the columns, does so far apart, if it does. The leaves and segments of
    /// columns may be those of another order.
    pub(super) fn apart(
        shape: &[usize],
        kept: &[bool],
        step: Option<usize>,
        told: Option<(FirstSums, usize)>,
    ) -> Option<FoldTable> {
        FoldTable::of(shape, kept, None, step, told)
    }

    fn of(
        shape: &[usize],
        kept: &[bool],
        computed: Option<usize>,
        step: Option<usize>,
        told: Option<(FirstSums, usize)>,
    ) -> Option<FoldTable> {
        let (is_computed, at_once) = (computed.is_some(), computed.unwrap_or(GRAIN));
        let (mut groups, mut innermost) = (SmallVec::<[(bool, usize); 4]>::new(), 1);
        for (&size, &kept) in shape.iter().zip(kept).filter(|s| *s.0 != 1) {
            innermost = size;
            match groups.last_mut() {
                Some(last) if last.0 == kept => last.1 *= size,
                _ => groups.push((kept, size)),
            }
        }
        let ([mut layers, batch], rows, mut cols, by_row) = match groups[..] {
            [(true, rows)] => ([1, 1], rows, 1, true),
            [(true, rows), (false, cols)] => ([1, 1], rows, cols, true),
            [(false, cols)] => ([1, 1], 1, cols, true),
            [(false, rows), (true, cols)] => ([1, 1], rows, cols, false),
            [(true, batch), (false, rows), (true, cols)] => ([1, batch], rows, cols, false),
            // Of smaller planes the rows may be those of another axis.
            [(false, layers), (true, rows), (false, cols)] if rows * cols >= SMALL_PLANE => {
                ([layers, 1], rows, cols, true)
            }
            _ => return None,
        };
        if let Some((leaf, segment)) = told {
            let step = step.unwrap_or(cols);
            return (!by_row).then_some(FoldTable { layers, batch, rows, cols, step, leaf, segment });
        }
        let segment = match layers * batch * rows * cols {
            0 => return None,
            n if n <= at_once => n,
            n if is_computed || n > LARGE && !by_row && rows > FEW_ROWS => return None,
            n if matches!(groups[..], [(true, _)]) => n,
            _ => match segment(shape, kept)? {
                (segment, None) => segment,
                // All of it is one row of several, each of which segments divide.
                (segment, Some(divided)) if groups.len() == 1 => {
                    (layers, cols) = (cols / divided, divided);
                    segment
                }
                _ => return None,
            },
        };
        let leaf = if by_row { FirstSums::of_lines(innermost) } else { FirstSums::of_columns(cols) };
        // The rows of leaves that are parts of rows would have to be told apart, and the segments of several tables.
        let parts_of_rows = matches!(leaf, FirstSums::Run(leaf) if innermost % leaf != 0 && leaf < innermost);
        let is_run = step.is_none() || !matches!(leaf, FirstSums::Rows { abreast: 2.., .. });
        let fits = (!parts_of_rows || innermost == cols)
            && (batch == 1 || segment >= rows)
            && (layers == 1 || segment.is_multiple_of(cols) || groups.len() == 1)
            && is_run;
        fits.then_some(FoldTable { layers, batch, rows, cols, step: step.unwrap_or(cols), leaf, segment })
    }

    /// A table of rows whose elements are computed, and these.
    pub(super) fn computed<'a>(
        fold: Fold,
        kernel: &'a dyn BlockKernel,
        operands: &'a [Operand<'a>],
        shape: &[usize],
        kept: &[bool],
    ) -> Option<(FoldTable, Elements<'a>)> {
        let n = shape.iter().fold(1usize, |n, &size| n.saturating_mul(size));
        let is_flat = flat::applies(operands, shape);
        if !kept.contains(&false) || !is_flat && !lie_in_order(operands, shape) {
            return None;
        }
        // A few layers are better computed together than each by itself: the gradient of a factor along the middle axis of [30, 4, 250] took 1.5
        // times as long.
        let fits = |t: &FoldTable| matches!(t.leaf, FirstSums::Run(_)) && (t.layers == 1 || n > GRAIN);
        let table = FoldTable::new(shape, kept, None).filter(fits)?;
        let adds = kernel.sums() && fold.reduce == Reduce::Sum && are_added(fold.dtype);
        let adds = adds && n >= LEAST_ADDED;
        let (mut room, mut pieces) = (BLOCK_BYTES / fold.dtype.size(), None);
        let mut added = if adds && is_flat { AddedRows::of_flat(&table, operands) } else { None };
        if !is_flat {
            let axes = Plan::new(shape, operands, false).axes;
            added = if adds { AddedRows::of(&table, &axes, operands, shape) } else { None };
            // A plan has the kernel add rows that are told apart along several axes.
            if axes.len() > 2 && n > at_once(kernel, operands, shape, fold.dtype) {
                return None;
            }
        }
        // A number that is repeated once, and not for each of some pieces.
        let repeats = n >= 4 * room && !kernel.takes_a_number();
        if added.is_none() && (!is_flat || repeats && operands.iter().any(Operand::is_one)) {
            // With what is read and what is computed, a piece of all that is laid out fits in the first-level cache.
            let laid_out =
                operands.iter().filter(|o| !flat::lie_like(std::slice::from_ref(o), shape)).count();
            room = (2 * room / (laid_out + 2)).max(RUN);
            pieces = Some(InPieces::new(operands, shape, (1, room), room)?);
        }
        Some((table, Elements::Computed { kernel, operands, pieces, dtype: fold.dtype, added, room }))
    }

    /// From its first element to its last.
    pub(super) fn len(&self) -> usize {
        (self.layers * self.batch * self.rows - 1) * self.step + self.cols
    }

    /// The results, onto `prior`, which is writable, if there is one.
    pub(super) fn fold(
        &self,
        Fold { op, reduce, dtype }: Fold,
        elements: Elements<'_>,
        result: Shape,
        prior: Option<Tensor>,
    ) -> Result<Tensor> {
        let onto = prior.is_some();
        let mut folded = match prior {
            Some(prior) => prior,
            None => Tensor::from_storage(room(op, &result, dtype)?, result),
        };
        let results = Results { folding: folding(reduce, dtype), out: folded.block_mut(), onto };
        match (self.leaf, &elements) {
            (FirstSums::Run(leaf), elements) => self.lines(results, elements, leaf),
            (FirstSums::Rows { rows, abreast }, &Elements::Stored(data)) => {
                self.columns(results, data, rows, abreast);
            }
            _ => unreachable!("columns are computed before they are folded"),
        }
        Ok(folded)
    }

    /// Each row, or the segments of each.
    fn lines(&self, results: Results<'_>, elements: &Elements<'_>, leaf: usize) {
        let FoldTable { layers, rows, cols, step, segment, .. } = *self;
        let folding = results.folding;
        if layers > 1 && segment >= cols {
            let height = segment / cols;
            let fold = |(first, len): (usize, usize), (row, rows): (usize, usize), mut wide: WideMut<'_>| {
                for layer in first..first + len {
                    let start = (layer * self.rows + row) * step;
                    elements.lines(folding, (wide.from(0), 1), (start, step), (rows, cols), leaf);
                }
            };
            if height >= layers {
                let n = layers * rows * cols;
                // Rows of a layer that are more than a call.
                let some = piece(n).div_ceil(layers * cols).max(RUN.div_ceil(cols));
                let grain = if n <= GRAIN { rows } else { some };
                return results.fold(rows, 1, grain, &|row, len, wide| fold((0, layers), (row, len), wide));
            }
            return results.fold_segments(layers.div_ceil(height), rows, &|_| 0, &|k, wide| {
                fold((k * height, height.min(layers - k * height)), (0, rows), wide);
            });
        }
        if segment >= cols {
            let grain = if rows * cols <= GRAIN { rows } else { piece(rows * cols).div_ceil(cols) };
            if cols <= leaf && !elements.are_added() {
                let Results { out, onto, .. } = results;
                return split_work(rows, grain, out, &|out, at| out.split_at(at), &|first, len, mut out| {
                    elements.tables((first * step, step), (len, cols), leaf, &mut |row, table| {
                        folding.rows(out.range(row, table.rows), table, onto);
                    });
                });
            }
            return results.fold(rows, 1, grain, &|first, len, wide| {
                elements.lines(folding, (wide, 1), (first * step, step), (len, cols), leaf);
            });
        }
        let of_a_row = cols.div_ceil(segment);
        results.fold_segments(layers * rows * of_a_row, 1, &|k| k / of_a_row % rows, &|k, wide| {
            let (row, at) = (k / of_a_row, k % of_a_row * segment);
            elements.lines(folding, (wide, 0), (row * step + at, step), (1, segment.min(cols - at)), leaf);
        });
    }

    /// Each column, or the segments of all.
    fn columns(&self, results: Results<'_>, data: Block<'_>, leaf: usize, abreast: usize) {
        let FoldTable { batch, rows, cols, step, segment, .. } = *self;
        let folding = results.folding;
        let tables = |start: usize, rows: usize, cols: usize| Table {
            data,
            start: start as isize,
            rows,
            step: step as isize,
            cols,
        };
        if segment >= rows {
            let strip = if rows * cols <= GRAIN { cols } else { SMALL_STRIP.max(piece(rows * cols) / rows) };
            let (count, unit, grain) = match batch {
                1 => (cols, 1, strip),
                _ => (batch, cols, piece(batch * rows * cols).div_ceil(rows * cols)),
            };
            let some = |first: usize, len: usize| match batch {
                1 => tables(first, rows, len),
                _ => tables(first * rows * step, len * rows, cols),
            };
            if abreast == 1
                && let Some(write) = folding.of_columns(rows)
            {
                let Results { out, onto, .. } = results;
                return split_work(
                    count,
                    grain,
                    out,
                    &|out, at| out.split_at(at * unit),
                    &|first, len, out| {
                        write(out, some(first, len), rows, onto);
                    },
                );
            }
            return results.fold(count, unit, grain, &|first, len, wide| {
                folding.columns(wide, some(first, len), rows, [leaf, abreast]);
            });
        }
        if batch > 1 {
            let grain = piece(batch * rows * cols).div_ceil(rows * cols);
            return results.fold(batch, cols, grain, &|first, len, mut wide| {
                for table in 0..len {
                    for row in (0..rows).step_by(segment) {
                        let (start, height) = ((first + table) * rows + row, segment.min(rows - row));
                        let mut each = folding.start(cols);
                        folding.columns(
                            each.all(),
                            tables(start * step, height, cols),
                            height,
                            [leaf, abreast],
                        );
                        folding.merge(wide.from(table * cols), &each, 0, cols);
                    }
                }
            });
        }
        results.fold_segments(rows.div_ceil(segment), cols, &|_| 0, &|k, wide| {
            let height = segment.min(rows - k * segment);
            folding.columns(wide, tables(k * segment * step, height, cols), height, [leaf, abreast]);
        });
    }
}

/// Where the results of a table go.
struct Results<'a> {
    folding: &'static dyn Folding,
    out: BlockMut<'a>,
    /// whether they are folded onto what is there
    onto: bool,
}

impl Results<'_> {
    /// Results without segments, in units of neighbours, a stretch of them at a time: `fold` gets the first unit, how many, and
    /// the accumulators.
    fn fold(
        self,
        count: usize,
        unit: usize,
        grain: usize,
        fold: &(dyn Fn(usize, usize, WideMut<'_>) + Sync),
    ) {
        let Results { folding, out, onto } = self;
        let stretch = (STRETCH / unit).max(1);
        split_work(count, grain, out, &|out, at| out.split_at(at * unit), &|first, len, mut out| {
            for at in (0..len).step_by(stretch) {
                let n = stretch.min(len - at);
                let mut wide = folding.start(n * unit);
                fold(first + at, n, wide.all());
                folding.finish(&wide, 1, out.range(at * unit, n * unit), onto);
            }
        });
    }

    /// Results of segments of `width` accumulators, which are merged in their order, each from the place on that it goes to.
    fn fold_segments(
        mut self,
        segments: usize,
        width: usize,
        place: &dyn Fn(usize) -> usize,
        fold: &(dyn Fn(usize, WideMut<'_>) + Sync),
    ) {
        let folding = self.folding;
        let (mut each, mut wide) = (folding.start(segments * width), folding.start(self.out.len()));
        split_work(
            segments,
            1,
            each.all(),
            &|each, at| each.split_at(at * width),
            &|first, len, mut each| {
                (0..len).for_each(|k| fold(first + k, each.from(k * width)));
            },
        );
        (0..segments).for_each(|k| folding.merge(wide.all().from(place(k)), &each, k * width, width));
        folding.finish(&wide, 1, self.out.range(0, self.out.len()), self.onto);
    }
}
