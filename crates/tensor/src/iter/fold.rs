//! The fold: a walk whose blocks are folded into accumulators, so that nothing unreduced is ever stored.
//!
//! Note [The tree of a sum]
//! A result is folded in three layers. Within a block, a run of up to 1,024 elements goes through 64 lanes and a tree
//! over the lanes; where the innermost axis is kept, up to 16 rows are added element by element (short rows several
//! abreast). What comes out is added to a *wide* accumulator (f64 for f32; a pair of f64 with the error of each addition
//! for f64), so that the error does not grow with the length. Large reductions are cut into parts at places that depend on the plan alone,
//! and the parts' wide accumulators are merged in order. Threads only decide who computes a part.

use smallvec::SmallVec;

use super::Operand;
use super::block::{BLOCK, Place, Scratch, result_scratch};
use super::counter::Counter;
use super::plan::{Axis, Plan};
use super::reducer::{Max, Min, Prod, Reducer, Sum};
use crate::buffer::{Handle, Storage};
use crate::dtype::{BlockMut, DType, Element};
use crate::kernels::{BlockKernel, doors};
use crate::shape::Shape;
use crate::tensor::{Layout, Tensor};
use crate::threads::{GRAIN, split_work};

/// The foldings there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduce {
    Sum,
    Prod,
    Max,
    Min,
}

/// Rows that are added element by element before they go to the wide accumulators.
const SPILL: usize = 16;

/// Elements that rows shorter than this are added side by side to make up.
const ABREAST: usize = 64;

/// Parts that one reduction is cut into at most.
const MAX_PARTS: usize = 64;

/// Reduced positions that a part has at least: its wide accumulators then take a sixteenth of what they fold at most.
const MIN_DEPTH: usize = 32;

/// Folds a kernel's results over the axes of `shape` that are not `kept`. Without a kernel, the only operand itself.
///
/// The result has the kept axes, row-major; with stride 0 where no operand moves. Operands and kernel are of `dtype`.
pub(crate) fn fold(
    reduce: Reduce,
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    shape: &[usize],
    kept: &[bool],
    dtype: DType,
) -> Tensor {
    fold_with_prior(reduce, kernel, operands, shape, kept, dtype, None)
}

/// The same, added to `prior`, a tensor of the result's shape (without the reduced axes) whose memory is used again
/// if nobody else holds it. Only for sums.
pub(crate) fn fold_with_prior(
    reduce: Reduce,
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    shape: &[usize],
    kept: &[bool],
    dtype: DType,
    prior: Option<Tensor>,
) -> Tensor {
    let result: Shape = shape.iter().zip(kept).filter(|k| *k.1).map(|k| *k.0).collect::<Vec<_>>().into();
    let plan = Plan::new(shape, operands, &|i| kept[i], prior.is_none());
    let empty = shape.contains(&0);
    let job = Job::new(kernel, operands, plan.axes, plan.repeats, empty);
    if let Some(mut prior) = prior {
        debug_assert_eq!(prior.shape(), &result);
        job.dispatch(reduce, prior.block_mut(), true);
        return prior;
    }
    let n = if empty { result.numel() } else { job.results() };
    let mut storage = Storage::stale(dtype, n);
    job.dispatch(reduce, storage.block_mut(), false);
    if empty {
        return Tensor::from_storage(storage, result);
    }
    let still: SmallVec<[bool; 4]> = plan.still.iter().zip(kept).filter(|s| *s.1).map(|s| *s.0).collect();
    Tensor { storage, layout: Layout::with_still_axes(result, &still) }
}

/// A fold with its axes sorted into kept ones and reduced ones.
struct Job<'a> {
    kernel: Option<&'a dyn BlockKernel>,
    operands: &'a [Operand<'a>],
    kept: SmallVec<[Axis; 4]>,
    reduced: SmallVec<[Axis; 4]>,
    repeats: usize,
    /// whether blocks run along a kept axis (and rows along a reduced one) or the other way round
    inner_kept: bool,
    empty: bool,
}

impl<'a> Job<'a> {
    fn new(
        kernel: Option<&'a dyn BlockKernel>,
        operands: &'a [Operand<'a>],
        axes: SmallVec<[Axis; 4]>,
        repeats: usize,
        empty: bool,
    ) -> Job<'a> {
        let (kept, mut reduced): (SmallVec<[Axis; 4]>, SmallVec<[Axis; 4]>) =
            axes.into_iter().partition(|a| a.kept);
        // The order of reduced axes is free: the one with the smallest steps goes innermost.
        reduced.sort_by_key(|a| std::cmp::Reverse(reach(a)));
        let inner_kept = match (kept.last(), reduced.last()) {
            (Some(k), Some(r)) => reach(k) < reach(r) && k.size >= 2 || r.size < 4 && k.size >= r.size,
            (Some(_), None) => true,
            _ => false,
        };
        Job { kernel, operands, kept, reduced, repeats, inner_kept, empty }
    }

    fn results(&self) -> usize {
        self.kept.iter().map(|a| a.size).product()
    }

    fn dispatch(&self, reduce: Reduce, out: BlockMut<'_>, add: bool) {
        match (reduce, out) {
            (Reduce::Sum, BlockMut::F32(o)) => self.run::<Sum<f32>>(o, add),
            (Reduce::Sum, BlockMut::F64(o)) => self.run::<Sum<f64>>(o, add),
            (Reduce::Sum, BlockMut::I64(o)) => self.run::<Sum<i64>>(o, add),
            (Reduce::Prod, BlockMut::F32(o)) => self.run::<Prod<f32>>(o, add),
            (Reduce::Prod, BlockMut::F64(o)) => self.run::<Prod<f64>>(o, add),
            (Reduce::Prod, BlockMut::I64(o)) => self.run::<Prod<i64>>(o, add),
            (Reduce::Max, BlockMut::F32(o)) => self.run::<Max<f32>>(o, add),
            (Reduce::Max, BlockMut::F64(o)) => self.run::<Max<f64>>(o, add),
            (Reduce::Max, BlockMut::I64(o)) => self.run::<Max<i64>>(o, add),
            (Reduce::Min, BlockMut::F32(o)) => self.run::<Min<f32>>(o, add),
            (Reduce::Min, BlockMut::F64(o)) => self.run::<Min<f64>>(o, add),
            (Reduce::Min, BlockMut::I64(o)) => self.run::<Min<i64>>(o, add),
            (_, BlockMut::Bool(_)) => unreachable!("booleans are folded as integers"),
        }
    }

    /// Cuts the work, folds the pieces and writes (or adds) the results.
    fn run<R: Reducer>(&self, out: &mut [R::T], add: bool) {
        let finish = |acc: R::Acc, out: &mut R::T| {
            let v = R::finish(if self.repeats == 1 { acc } else { R::repeat(acc, self.repeats) });
            *out = if add { R::combine(*out, v) } else { v };
        };
        if self.empty {
            out.iter_mut().for_each(|o| finish(R::START, o));
            return;
        }
        let n = out.len();
        let depth: usize = self.reduced.iter().map(|a| a.size).product();
        // Where rows are added element by element, a narrow strip of columns would waste every cache line it touches.
        let strip = if self.inner_kept { self.kept.last().map_or(1, |a| a.size.min(BLOCK)) } else { 1 };
        let per_task = tile_multiple(GRAIN.div_ceil(depth).max(strip));
        let most = (depth / MIN_DEPTH).clamp(1, MAX_PARTS);
        let parts = if n.div_ceil(per_task) < 16 { (n * depth / GRAIN).clamp(1, most) } else { 1 };
        if parts == 1 {
            split_work(n, per_task, out, &|o: &mut [R::T], at| o.split_at_mut(at), &|start, len, out| {
                self.tiles::<R>(start, len, 0, depth, &mut |at, acc| {
                    for (a, o) in acc.iter().zip(&mut out[at..]) {
                        finish(*a, o);
                    }
                });
            });
            return;
        }
        let mut wide = vec![R::START; parts * n];
        let chunk = depth.div_ceil(parts);
        split_work(
            parts * n,
            n,
            &mut wide[..],
            &|w: &mut [R::Acc], at| w.split_at_mut(at),
            &|start, _, wide| {
                let part = start / n;
                let (from, to) = ((part * chunk).min(depth), ((part + 1) * chunk).min(depth));
                self.tiles::<R>(0, n, from, to, &mut |at, acc| wide[at..at + acc.len()].copy_from_slice(acc));
            },
        );
        for (i, o) in out.iter_mut().enumerate() {
            let mut acc = wide[i];
            for part in 1..parts {
                acc = R::merge(acc, wide[part * n + i]);
            }
            finish(acc, o);
        }
    }

    /// Folds the results `start .. start + len` over the reduced positions `from .. to`, tile by tile.
    fn tiles<R: Reducer>(
        &self,
        start: usize,
        len: usize,
        from: usize,
        to: usize,
        done: &mut dyn FnMut(usize, &[R::Acc]),
    ) {
        let mut work = Tile::<R>::new(self);
        let mut kept = Counter::new(&self.kept, self.operands.len(), start, start + len);
        while let Some(step) = kept.step(work.width, 0) {
            let acc = work.fold(&kept.offsets, step.cols, from, to);
            done(kept.at - start, acc);
            kept.advance(step);
        }
    }
}

/// How far an operand at most moves along an axis.
fn reach(a: &Axis) -> usize {
    a.steps.iter().map(|s| s.unsigned_abs()).max().unwrap_or(0)
}

/// Results per task, in whole tiles where there are many.
fn tile_multiple(n: usize) -> usize {
    if n > BLOCK { n.div_ceil(BLOCK) * BLOCK } else { n }
}

/// The memory in which one tile of results is folded.
struct Tile<'a, R: Reducer> {
    job: &'a Job<'a>,
    /// results per tile
    width: usize,
    wide: Vec<R::Acc>,
    partial: Vec<R::T>,
    scratch: Scratch,
    values: Option<Handle>,
}

impl<'a, R: Reducer> Tile<'a, R> {
    fn new(job: &'a Job<'a>) -> Tile<'a, R> {
        let kept = job.kept.last().map_or(1, |a| a.size);
        let run = job.reduced.last().map_or(1, |a| a.size);
        let width = if job.inner_kept { kept.min(BLOCK) } else { kept.min((BLOCK / run.min(BLOCK)).max(1)) };
        let room =
            if job.inner_kept { (width * run).min(BLOCK) } else { (width * run.min(BLOCK)).min(BLOCK) };
        Tile {
            job,
            width,
            wide: vec![R::START; width],
            partial: vec![R::IDENTITY; if job.inner_kept { width.max(ABREAST) } else { 0 }],
            scratch: Scratch::new(job.operands.len(), room),
            values: job.kernel.map(|_| result_scratch(R::T::DTYPE, room)),
        }
    }

    /// Folds `count` neighbouring results whose operands start at `base`.
    fn fold(&mut self, base: &[isize], count: usize, from: usize, to: usize) -> &[R::Acc] {
        let job = self.job;
        self.wide[..count].fill(R::START);
        let kept_step = |k: usize| job.kept.last().map_or(0, |a| a.steps[k]);
        let run_step = |k: usize| job.reduced.last().map_or(0, |a| a.steps[k]);
        let max_run = (BLOCK / count).max(1);
        let abreast = (ABREAST / count).max(1);
        let mut held = 0;
        let mut reduced = Counter::new(&job.reduced, job.operands.len(), from, to);
        let mut places: SmallVec<[Place; 4]> = SmallVec::new();
        while let Some(step) = reduced.step(max_run, 0) {
            places.clear();
            for (k, (base, moved)) in base.iter().zip(&reduced.offsets).enumerate() {
                let start = base + moved;
                places.push(if job.inner_kept {
                    place(start, step.cols, run_step(k), count, kept_step(k))
                } else {
                    place(start, count, kept_step(k), step.cols, run_step(k))
                });
            }
            let blocks = self.scratch.blocks(job.operands, &places);
            let n = count * step.cols;
            let values = match (&mut self.values, job.kernel) {
                (Some(storage), Some(kernel)) => {
                    kernel.run(&blocks, &mut [storage.block_mut().range(0, n)]);
                    R::T::slice(storage.block().range(0, n))
                }
                _ => R::T::slice(blocks[0]),
            };
            let values = values.expect("the plan gives the fold its own type");
            if !job.inner_kept {
                for (acc, run) in self.wide.iter_mut().zip(values.chunks_exact(step.cols)) {
                    *acc = R::merge(*acc, R::lift(doors::fold_run::<R>(run)));
                }
            } else {
                // Short rows are added several at a time, so that the loop has something to work on.
                for rows in values.chunks(count * abreast) {
                    doors::fold_rows::<R>(&mut self.partial[..rows.len()], rows);
                    held += 1;
                    if held == SPILL {
                        spill::<R>(&mut self.wide[..count], &mut self.partial[..count * abreast]);
                        held = 0;
                    }
                }
            }
            reduced.advance(step);
        }
        if held > 0 {
            spill::<R>(&mut self.wide[..count], &mut self.partial[..count * abreast]);
        }
        &self.wide[..count]
    }
}

/// Moves the partial results of rows that were added side by side into the wide accumulators.
fn spill<R: Reducer>(wide: &mut [R::Acc], partial: &mut [R::T]) {
    for partial in partial.chunks_exact_mut(wide.len()) {
        doors::spill::<R>(wide, partial);
    }
}

/// A block of rows and columns; one row has no step, so that a repeating row is recognised.
fn place(start: isize, rows: usize, row_step: isize, cols: usize, col_step: isize) -> Place {
    Place { start, rows, row_step: if rows > 1 { row_step } else { 0 }, cols, col_step }
}
