//! Folds of what is a table of rows and columns, one of which is reduced: of elements that are stored, or computed piece by piece.

use smallvec::{SmallVec, smallvec};

use super::fold::{Fold, Reduce, at_once, lie_in_order};
use super::folding::{Folding, folding};
use super::order::{FirstSums, LANES, MAX_PARTS, RUN, SMALL_PLANE, segment};
use super::pieces::InPieces;
use super::plan::{Plan, PlanAxis};
use super::straight::{LEAST_ADDED, LONG_ROW};
use super::stretch::BLOCK_BYTES;
use super::wide::WideMut;
use super::{Operand, flat};
use crate::buffer::Storage;
use crate::create::room;
use crate::dtype::{Block, BlockMut, DType};
use crate::error::Result;
use crate::kernels::folds::Table;
use crate::kernels::{BlockKernel, RowOutput, RowSums, are_added};
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
    cols: usize,
    /// how far it is from row to row
    step: usize,
    /// of rows or of columns, whichever are folded
    leaf: FirstSums,
    /// how many elements of a row, or of a column, have an accumulator of their own
    segment: usize,
}

/// Elements beyond which columns are read faster in the blocks of a walk (0.93 at 5 million).
const LARGE: usize = 1 << 21;

/// Elements that a thread folds at least, and columns that it takes from all rows.
const SMALL_PIECE: usize = GRAIN / 4;
const SMALL_STRIP: usize = 256;

/// Elements that a thread folds at a time of so many: each piece costs accumulators and a lock, sums of 4,096 rows a tenth of their time.
fn piece(n: usize) -> usize {
    SMALL_PIECE.max(n / MAX_PARTS)
}

/// Results whose accumulators stay in the first-level cache.
const STRETCH: usize = 4096;

impl FoldTable {
    /// A table of up to so many elements that are computed at once, or of what lies in memory.
    pub(super) fn new(shape: &[usize], kept: &[bool], computed: Option<usize>) -> Option<FoldTable> {
        FoldTable::apart(shape, kept, computed, None)
    }

    /// The same where what lies together, the columns, does so far apart, if it does.
    pub(super) fn apart(
        shape: &[usize],
        kept: &[bool],
        computed: Option<usize>,
        step: Option<usize>,
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
        let ([layers, batch], rows, cols, by_row) = match groups[..] {
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
        let segment = match layers * batch * rows * cols {
            0 => return None,
            n if n <= at_once => n,
            n if is_computed || n > LARGE && !by_row => return None,
            _ => segment(shape, kept)?,
        };
        let leaf = if by_row { FirstSums::of_lines(innermost) } else { FirstSums::of_columns(cols) };
        // The rows of leaves that are parts of rows would have to be told apart, and the segments of several tables.
        let parts_of_rows = matches!(leaf, FirstSums::Run(leaf) if innermost % leaf != 0 && leaf < innermost);
        let is_run = step.is_none() || !matches!(leaf, FirstSums::Rows { abreast: 2.., .. });
        let fits = (!parts_of_rows || innermost == cols)
            && (batch == 1 || segment >= rows)
            && (layers == 1 || segment.is_multiple_of(cols))
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
        if !is_flat && added.is_none() {
            // With what is read and what is computed, a piece of all that is laid out fits in the first-level cache.
            let laid_out =
                operands.iter().filter(|o| !flat::lie_like(std::slice::from_ref(o), shape)).count();
            room = (2 * room / (laid_out + 2)).max(RUN);
            pieces = Some(InPieces::new(kernel, operands, shape, (1, room), (room, fold.dtype))?);
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
        if layers > 1 {
            let height = segment / cols;
            let fold = |(first, len): (usize, usize), (row, rows): (usize, usize), mut wide: WideMut<'_>| {
                for layer in first..first + len {
                    let start = (layer * self.rows + row) * step;
                    elements.lines(folding, (wide.from(0), 1), (start, step), (rows, cols), leaf);
                }
            };
            if height >= layers {
                let n = layers * rows * cols;
                let grain = if n <= GRAIN { rows } else { piece(n).div_ceil(layers * cols) };
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
        results.fold_segments(rows * of_a_row, 1, &|k| k / of_a_row, &|k, wide| {
            let (row, at) = (k / of_a_row, k % of_a_row * segment);
            elements.lines(folding, (wide, 0), (row * step + at, step), (1, segment.min(cols - at)), leaf);
        });
    }

    /// Each column, or the segments of all.
    fn columns(&self, results: Results<'_>, data: Block<'_>, leaf: usize, abreast: usize) {
        let FoldTable { batch, rows, cols, step, segment, .. } = *self;
        let folding = results.folding;
        let part = |wide: WideMut<'_>, start: usize, height: usize, (tables, width): (usize, usize)| {
            let tables = Table {
                data,
                start: start as isize,
                rows: tables * height,
                step: step as isize,
                cols: width,
            };
            folding.columns(wide, tables, height, [leaf, abreast]);
        };
        if batch > 1 {
            let grain = piece(batch * rows * cols).div_ceil(rows * cols);
            return results.fold(batch, cols, grain, &|first, len, wide| {
                part(wide, first * rows * step, rows, (len, cols));
            });
        }
        if segment >= rows {
            let grain = if rows * cols <= GRAIN { cols } else { SMALL_STRIP };
            return results.fold(cols, 1, grain, &|left, width, wide| {
                part(wide, left, rows, (1, width));
            });
        }
        results.fold_segments(rows.div_ceil(segment), cols, &|_| 0, &|k, wide| {
            part(wide, k * segment * step, segment.min(rows - k * segment), (1, cols));
        });
    }
}

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
    fn are_added(&self) -> bool {
        matches!(self, Elements::Computed { added: Some(_), .. })
    }

    /// Folds so many rows, from an element on and so far apart, each into the accumulator of its own, `step` apart, by leaves of so many elements.
    fn lines(
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
    fn tables(
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
    fn of_flat(table: &FoldTable, operands: &[Operand<'_>]) -> Option<AddedRows> {
        let steps = |o: &Operand<'_>| if o.is_one() { [0, 0] } else { [table.cols as isize, 1] };
        let steps = operands.iter().map(steps).collect();
        (table.cols >= LONG_ROW).then_some(AddedRows { len: table.cols, steps })
    }

    /// Rows that leaves and segments have whole, or that are those of the table.
    fn of(
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
        let fits = len >= LONG_ROW && (len == table.cols || of_several && are_whole);
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
