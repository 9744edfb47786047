//! One walk that reads every operand once and folds each output of a kernel to a target of its own.
//!
//! The axes of a walk hold the steps of the operands, and behind them those of the targets' accumulators: 0 where a
//! target is folded. A part of the walk takes the two innermost axes as *planes* of rows and columns, computes them
//! block by block and folds each block while it is in the first-level cache.

use smallvec::SmallVec;

use super::Operand;
use super::block::{Place, Scratch, is_in_place};
use super::counter::{Counter, Step};
use super::cut::Cut;
use super::plan::{Axis, Steps};
use super::reducer::Reducer;
use crate::buffer::{Handle, Storage};
use crate::dtype::{BlockMut, Element};
use crate::kernels::folds::{self, Table};
use crate::kernels::{BlockKernel, Stream, doors};
use crate::threads::split_work;

/// Bytes that the block of an output takes: half of a first-level cache, or four rows of a thousand `f32`.
const BLOCK_BYTES: usize = 16 << 10;

/// Rows at least this long go to the kernel one by one where they lie, shorter ones laid out together.
const LONG_ROW: usize = 256;

/// What is walked: a kernel's operands, or the elements of the only one.
pub(crate) struct Walk<'a> {
    pub(crate) kernel: Option<&'a dyn BlockKernel>,
    pub(crate) operands: &'a [Operand<'a>],
    pub(crate) axes: SmallVec<[Axis; 4]>,
    /// how often each element counts
    pub(crate) repeats: usize,
}

/// Where one output goes.
pub(crate) struct Target<'o, T> {
    /// row-major over the axes that move it
    pub(crate) out: &'o mut [T],
    pub(crate) kind: Kind,
}

/// What is done with the elements of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// folded, in place of what was there
    Fold,
    /// folded onto what is there
    FoldOnto,
    /// written as they are; past the caches if so
    Write { streamed: bool },
    /// added to what is there
    AddOnto,
}

/// One part's share of a target.
enum Share<'s, R: Reducer> {
    /// accumulators that are merged with those of other parts
    Merged(&'s mut [R::Acc]),
    /// results that no other part has, and the accumulators for them
    Owned { out: &'s mut [R::T], onto: bool, wide: Vec<R::Acc> },
    /// elements
    Written { out: &'s mut [R::T], streamed: bool },
    /// elements that the output's are added to
    AddedOnto(&'s mut [R::T]),
}

impl<R: Reducer> Share<'_, R> {
    /// The elements that a kernel may write straight to, if the block is `whole` there.
    fn place_of_its_own(&mut self, whole: bool) -> Option<&mut [R::T]> {
        match self {
            Share::Written { out, streamed: false } if whole => Some(out),
            _ => None,
        }
    }
}

/// The shares of several parts, from number `first` on.
struct Shares<'s, R: Reducer> {
    first: usize,
    list: SmallVec<[Share<'s, R>; 2]>,
}

impl<'a> Walk<'a> {
    /// Walks everything and completes every target.
    pub(crate) fn run<R: Reducer>(&self, mut targets: SmallVec<[Target<'_, R::T>; 2]>) {
        let first = self.operands.len();
        let cut = Cut::new(&self.axes, first);
        let apart = |t: usize, target: &Target<'_, R::T>| {
            matches!(target.kind, Kind::Fold | Kind::FoldOnto) && !cut.owns(&self.axes, first + t)
        };
        let mut slabs: SmallVec<[Vec<R::Acc>; 2]> = SmallVec::new();
        for (t, target) in targets.iter().enumerate() {
            let room = if apart(t, target) { cut.parts * cut.most(&self.axes, first + t) } else { 0 };
            slabs.push(vec![R::START; room]);
        }
        let list = targets.iter_mut().zip(&mut slabs).map(|(target, slab)| match target.kind {
            Kind::Write { streamed } => Share::Written { out: &mut *target.out, streamed },
            Kind::AddOnto => Share::AddedOnto(&mut *target.out),
            kind if slab.is_empty() => {
                Share::Owned { out: &mut *target.out, onto: kind == Kind::FoldOnto, wide: Vec::new() }
            }
            _ => Share::Merged(slab),
        });
        let shares = Shares { first: 0, list: list.collect() };
        split_work(
            cut.parts,
            1,
            shares,
            &|shares: Shares<'_, R>, at| self.split(&cut, shares, at),
            &|number, _, shares| self.part(&cut, number, shares),
        );
        for (t, (target, slab)) in targets.iter_mut().zip(&slabs).enumerate() {
            if !slab.is_empty() {
                self.merge::<R>(&cut, first + t, slab, target);
            }
        }
    }

    /// Divides the shares before the part `at` from the others.
    fn split<'s, R: Reducer>(
        &self,
        cut: &Cut,
        shares: Shares<'s, R>,
        at: usize,
    ) -> (Shares<'s, R>, Shares<'s, R>) {
        let middle = shares.first + at;
        let mut sides: (SmallVec<[_; 2]>, SmallVec<[_; 2]>) = Default::default();
        for (t, share) in shares.list.into_iter().enumerate() {
            let k = self.operands.len() + t;
            let until = || cut.region(&self.axes, k, middle).0 - cut.region(&self.axes, k, shares.first).0;
            let (a, b) = match share {
                Share::Merged(wide) => {
                    let (a, b) = wide.split_at_mut(at * cut.most(&self.axes, k));
                    (Share::Merged(a), Share::Merged(b))
                }
                Share::Owned { out, onto, .. } => {
                    let (a, b) = out.split_at_mut(until());
                    let owned = |out| Share::Owned { out, onto, wide: Vec::new() };
                    (owned(a), owned(b))
                }
                Share::Written { out, streamed } => {
                    let (a, b) = out.split_at_mut(until());
                    (Share::Written { out: a, streamed }, Share::Written { out: b, streamed })
                }
                Share::AddedOnto(out) => {
                    let (a, b) = out.split_at_mut(until());
                    (Share::AddedOnto(a), Share::AddedOnto(b))
                }
            };
            sides.0.push(a);
            sides.1.push(b);
        }
        (Shares { first: shares.first, list: sides.0 }, Shares { first: middle, list: sides.1 })
    }

    /// Merges the accumulators of all parts in their order, and finishes the target.
    fn merge<R: Reducer>(&self, cut: &Cut, k: usize, slab: &[R::Acc], target: &mut Target<'_, R::T>) {
        let mut wide = vec![R::START; target.out.len()];
        for (number, part) in slab.chunks_exact(cut.most(&self.axes, k)).enumerate() {
            let (start, len) = cut.region(&self.axes, k, number);
            folds::merge_wide::<R>(&mut wide[start..start + len], &part[..len]);
        }
        self.finish::<R>(&wide, target.out, target.kind == Kind::FoldOnto);
    }

    fn finish<R: Reducer>(&self, wide: &[R::Acc], out: &mut [R::T], onto: bool) {
        for (&acc, out) in wide.iter().zip(out) {
            let v = R::finish(if self.repeats == 1 { acc } else { R::repeat(acc, self.repeats) });
            *out = if onto { R::combine(*out, v) } else { v };
        }
    }

    /// Walks one part.
    fn part<R: Reducer>(&self, cut: &Cut, number: usize, mut shares: Shares<'_, R>) {
        let ranges = cut.part(&self.axes, number);
        let mut start: Steps = self.operands.iter().map(|op| op.offset as isize).collect();
        for (axis, &(from, _)) in self.axes.iter().zip(&ranges) {
            for (s, step) in start.iter_mut().zip(&axis.steps) {
                *s += from as isize * step;
            }
        }
        for (t, share) in shares.list.iter_mut().enumerate() {
            if let Share::Owned { wide, .. } = share {
                wide.resize(cut.region(&self.axes, self.operands.len() + t, number).1, R::START);
            }
        }
        let axes: SmallVec<[Axis; 4]> =
            self.axes.iter().zip(&ranges).map(|(a, r)| Axis { size: r.1, ..a.clone() }).collect();
        let still =
            || Axis { size: 1, steps: Steps::from_elem(0, start.len() + shares.list.len()), kept: false };
        let cols = axes.last().cloned().unwrap_or_else(still);
        let rows = axes.len().checked_sub(2).map_or_else(still, |i| axes[i].clone());
        let outer = &axes[..axes.len().saturating_sub(2)];
        let count: usize = outer.iter().map(|a| a.size).product();
        let mut counter = Counter::new(outer, start.len() + shares.list.len(), 0, count);
        let streamed = shares.list.iter().any(|s| matches!(s, Share::Written { streamed: true, .. }));
        let mut planes = Planes::<R>::new(self, rows, cols, shares.list.len());
        planes.stream = streamed.then(Stream::new);
        for _ in 0..count {
            for ((to, from), moved) in planes.offsets.iter_mut().zip(&start).zip(&counter.offsets) {
                *to = from + moved;
            }
            planes.offsets[start.len()..].copy_from_slice(&counter.offsets[start.len()..]);
            planes.fold(&mut shares.list);
            counter.advance(Step { rows: 1, cols: 1 });
        }
        for share in shares.list {
            if let Share::Owned { out, onto, wide } = share {
                self.finish::<R>(&wide, out, onto);
            }
        }
    }
}

/// Computes and folds planes of one size.
struct Planes<'w, 'a, R: Reducer> {
    walk: &'w Walk<'a>,
    rows: Axis,
    cols: Axis,
    /// rows and columns of a block
    block: (usize, usize),
    /// where the operands and the targets' accumulators are
    offsets: Steps,
    places: SmallVec<[Place; 4]>,
    scratch: Scratch,
    values: SmallVec<[Handle; 2]>,
    /// the way of results past the caches, if one goes there
    stream: Option<Stream>,
    reducer: std::marker::PhantomData<R>,
}

impl<'w, 'a, R: Reducer> Planes<'w, 'a, R> {
    fn new(walk: &'w Walk<'a>, rows: Axis, cols: Axis, targets: usize) -> Self {
        let n = walk.operands.len();
        // A single result and its operands should fit in the first-level cache together.
        let share = if targets == 1 && walk.kernel.is_some() { 2 } else { 1 };
        let room = BLOCK_BYTES / share / R::T::DTYPE.size();
        // Whole rows are read in the order of memory; of longer ones, columns are folded several rows at a time.
        let columns = (n..n + targets).any(|k| cols.steps[k] != 0 && rows.steps[k] == 0);
        let most = if columns && rows.size > 1 { room / 4 } else { room };
        let wide = if cols.size <= room { cols.size } else { most };
        let block = ((room / wide).min(rows.size), wide);
        let values = if walk.kernel.is_some() { targets } else { 0 };
        Planes {
            walk,
            block,
            offsets: Steps::from_elem(0, n + targets),
            places: SmallVec::new(),
            scratch: Scratch::with_room(n, block.0 * block.1),
            values: (0..values).map(|_| Storage::scratch(R::T::DTYPE, block.0 * block.1)).collect(),
            rows,
            cols,
            stream: None,
            reducer: std::marker::PhantomData,
        }
    }

    /// The plane at the offsets.
    fn fold(&mut self, shares: &mut [Share<'_, R>]) {
        let (rows, cols) = (self.rows.size, self.cols.size);
        if self.walk.kernel.is_none() && (self.cols.steps[0] == 1 || cols == 1) {
            let op = &self.walk.operands[0];
            if let (Some(data), true) = (R::T::slice(op.data), op.want == op.data.dtype()) {
                let table = Table { data, start: self.offsets[0], rows, step: self.rows.steps[0], cols };
                return self.deliver(&mut shares[0], 0, (0, 0), table);
            }
        }
        for row in (0..rows).step_by(self.block.0) {
            for col in (0..cols).step_by(self.block.1) {
                let size = (self.block.0.min(rows - row), self.block.1.min(cols - col));
                self.fold_block(shares, (row, col), size);
            }
        }
    }

    /// Computes a block of the plane and gives each target its own.
    fn fold_block(&mut self, shares: &mut [Share<'_, R>], at: (usize, usize), size: (usize, usize)) {
        let operands = self.walk.operands;
        self.find(at, size);
        let Some(kernel) = self.walk.kernel else {
            let blocks = self.scratch.blocks(operands, &self.places);
            let data = R::T::slice(blocks[0]).expect("the plan gives the fold its own type");
            // The block borrows the scratch; what delivers it needs the rest only.
            let steps = [&self.rows, &self.cols].map(|a| a.steps[1] as usize);
            let to = self.offsets[1] as usize + at.0 * steps[0] + at.1 * steps[1];
            return deliver(&mut shares[0], to, steps, block_table(data, size), &self.stream);
        };
        // A broadcast row is laid out once for all blocks, but rows that only lie apart are better read there.
        let by_row = size.1 >= LONG_ROW
            && operands.iter().zip(&self.places).any(|(op, place)| {
                place.row_step != 0
                    && !is_in_place(op, place)
                    && is_in_place(op, &Place { rows: 1, row_step: 0, ..*place })
            });
        let (calls, rows) = if by_row { (size.0, 1) } else { (1, size.0) };
        let n = rows * size.1;
        for call in 0..calls {
            if by_row {
                self.find((at.0 + call, at.1), (1, size.1));
            }
            let targets: SmallVec<[usize; 2]> =
                (0..shares.len()).map(|t| self.target(t, (at.0 + call, at.1))).collect();
            let blocks = self.scratch.blocks(operands, &self.places);
            let mut outputs: SmallVec<[BlockMut<'_>; 2]> = SmallVec::new();
            for (t, (share, values)) in shares.iter_mut().zip(&mut self.values).enumerate() {
                let whole = rows == 1 || self.rows.steps[operands.len() + t] == size.1 as isize;
                outputs.push(match share.place_of_its_own(whole) {
                    Some(out) => R::T::block_mut(&mut out[targets[t]..targets[t] + n]),
                    None => values.block_mut().into_range(call * n, n),
                });
            }
            kernel.run(&blocks, &mut outputs);
        }
        for (t, share) in shares.iter_mut().enumerate() {
            let whole = rows == 1 || self.rows.steps[operands.len() + t] == size.1 as isize;
            if share.place_of_its_own(whole).is_none() {
                let data = R::T::slice(self.values[t].block()).expect("outputs are of the fold's type");
                self.deliver(share, t, at, block_table(data, size));
            }
        }
    }

    /// Where the operands have the block at this place.
    fn find(&mut self, at: (usize, usize), (rows, cols): (usize, usize)) {
        self.places.clear();
        for (k, op) in self.walk.operands.iter().enumerate() {
            let (row_step, col_step) = (self.rows.steps[k], self.cols.steps[k]);
            let moved = at.0 as isize * row_step + at.1 as isize * col_step;
            let start = self.offsets[k] - op.offset as isize + moved;
            let row_step = if rows > 1 { row_step } else { 0 };
            self.places.push(Place { start, rows, row_step, cols, col_step });
        }
    }

    /// Where a target has the first element of the block at this place.
    fn target(&self, t: usize, at: (usize, usize)) -> usize {
        let k = self.walk.operands.len() + t;
        let steps = [&self.rows, &self.cols].map(|a| a.steps[k] as usize);
        self.offsets[k] as usize + at.0 * steps[0] + at.1 * steps[1]
    }

    /// Folds a block at this place of the plane into a target, or writes it.
    fn deliver(&self, share: &mut Share<'_, R>, t: usize, at: (usize, usize), table: Table<'_, R::T>) {
        let k = self.walk.operands.len() + t;
        let steps = [&self.rows, &self.cols].map(|a| a.steps[k] as usize);
        deliver(share, self.target(t, at), steps, table, &self.stream);
    }
}

/// A block whose rows follow each other.
fn block_table<T>(data: &[T], (rows, cols): (usize, usize)) -> Table<'_, T> {
    Table { data, start: 0, rows, step: cols as isize, cols }
}

/// Folds or writes a table whose first element belongs to the accumulator `at` of a target with these steps.
fn deliver<R: Reducer>(
    share: &mut Share<'_, R>,
    at: usize,
    steps: [usize; 2],
    table: Table<'_, R::T>,
    stream: &Option<Stream>,
) {
    let [row_step, col_step] = steps;
    let wide: &mut [R::Acc] = match share {
        Share::Merged(wide) => wide,
        Share::Owned { wide, .. } => wide,
        Share::Written { out, streamed } => {
            for i in 0..table.rows {
                let to = &mut out[at + i * row_step..][..table.cols];
                match stream {
                    Some(stream) if *streamed => stream.copy(R::T::block(table.row(i)), R::T::block_mut(to)),
                    _ => to.copy_from_slice(table.row(i)),
                }
            }
            return;
        }
        Share::AddedOnto(out) => {
            for i in 0..table.rows {
                let to = &mut out[at + i * row_step..][..table.cols];
                doors::add_to(R::T::block_mut(to), R::T::block(table.row(i)));
            }
            return;
        }
    };
    if col_step == 0 {
        folds::fold_lines::<R>(&mut wide[at..], row_step, table);
    } else if row_step == 0 || table.rows == 1 {
        folds::fold_columns::<R>(&mut wide[at..at + table.cols], table);
    } else {
        for i in 0..table.rows {
            let row = Table { start: table.start + i as isize * table.step, rows: 1, ..table };
            folds::fold_columns::<R>(&mut wide[at + i * row_step..][..table.cols], row);
        }
    }
}
