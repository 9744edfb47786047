//! Updates: kernels whose outputs hold what they change, one of them or many in one go.

use smallvec::SmallVec;

use super::plan::Plan;
use super::walk::for_each_block;
use super::{Operand, flat, squares};
use crate::dtype::BlockMut;
use crate::kernels::BlockKernel;
use crate::tensor::Tensor;
use crate::threads::{GRAIN, num_threads, split_work};

/// The blocks of the tensors that an update changes.
type States<'a> = SmallVec<[BlockMut<'a>; 4]>;

/// An update: what is done, and to which blocks.
pub(crate) struct Job<'a> {
    does: Change<'a>,
    states: States<'a>,
}

/// A kernel and what it reads, which broadcasts to the shape of what it changes.
struct Change<'a> {
    kernel: &'a dyn BlockKernel,
    operands: SmallVec<[Operand<'a>; 1]>,
    /// `None` where the operands lie like what is changed, or are single numbers, as mostly: it is large, and a job is moved
    plan: Option<Box<Plan>>,
}

impl<'a> Job<'a> {
    /// An update of writable tensors of this shape and of one type.
    pub(crate) fn new(
        kernel: &'a dyn BlockKernel,
        state: impl IntoIterator<Item = &'a mut Tensor>,
        operands: SmallVec<[Operand<'a>; 1]>,
        shape: &[usize],
    ) -> Job<'a> {
        let plan = (!flat::lie_like(&operands, shape)).then(|| Box::new(Plan::new(shape, &operands, false)));
        let mut states = States::new();
        state.into_iter().for_each(|t| states.push(t.block_mut()));
        Job { does: Change { kernel, operands, plan }, states }
    }

    /// How many elements it changes in each tensor.
    fn len(&self) -> usize {
        self.states.first().map_or(0, BlockMut::len)
    }
}

impl Change<'_> {
    /// The axis along which squares are made.
    fn across(&self) -> Option<usize> {
        self.plan.as_ref().and_then(|plan| squares::across(&plan.axes, &self.operands))
    }

    /// Changes blocks that start at an element.
    fn run(&self, start: usize, states: &mut [BlockMut<'_>]) {
        let Change { kernel, operands, plan } = self;
        let Some(plan) = plan else { return flat::run(*kernel, operands, start, states) };
        let len = states[0].len();
        let (axes, range) = (&plan.axes, (start, len));
        for_each_block(*kernel, axes, operands, self.across(), range, &mut |at, count, inputs| {
            let mut outs: States<'_> = states.iter_mut().map(|s| s.range(at - start, count)).collect();
            kernel.run(inputs, &mut outs);
        });
    }
}

/// What one thread does of a job.
struct Piece<'j, 'a> {
    does: &'j Change<'a>,
    /// where it starts, in its job and in all that is done
    start: usize,
    at: usize,
    states: States<'a>,
}

/// All jobs start at multiples of this, so that they are cut where vectors load fastest.
const APART: usize = 16;

/// Does all jobs. Threads share the elements of all of them: many small ones are one large one.
pub(crate) fn update_all(jobs: &mut [Job<'_>]) {
    if let [Job { does, states }] = jobs {
        return update_one(does, std::mem::take(states));
    }
    let total = jobs.iter().map(|job| job.len().next_multiple_of(APART)).sum();
    if total <= GRAIN || num_threads() == 1 {
        jobs.iter_mut().filter(|job| job.len() > 0).for_each(|job| job.does.run(0, &mut job.states));
        return;
    }
    let mut pieces = Vec::with_capacity(jobs.len() + total / GRAIN);
    let mut at = 0;
    for Job { does, states } in jobs {
        let (does, mut start, mut states) = (&*does, 0, std::mem::take(states));
        while let Some(left) = states.first().map(BlockMut::len).filter(|&n| n > 0) {
            // Work is split at multiples of the grain only: no piece reaches beyond one.
            let len = left.min(GRAIN - at % GRAIN);
            let (own, rest) = if len == left { (states, States::new()) } else { split_all(states, len) };
            pieces.push(Piece { does, start, at, states: own });
            (start, at, states) = (start + len, at + len.next_multiple_of(APART), rest);
        }
    }
    split_work(total, GRAIN, &mut pieces[..], &split, &|_, _, pieces| {
        pieces.iter_mut().for_each(|piece| piece.does.run(piece.start, &mut piece.states));
    });
}

/// Parts pieces at an offset from the first of them, where another one starts.
fn split<'s, 'j, 'a>(
    pieces: &'s mut [Piece<'j, 'a>],
    offset: usize,
) -> (&'s mut [Piece<'j, 'a>], &'s mut [Piece<'j, 'a>]) {
    let cut = pieces[0].at + offset;
    pieces.split_at_mut(pieces.partition_point(|piece| piece.at < cut))
}

/// One update alone, which is cut at whole rows of squares where there are any.
fn update_one(does: &Change<'_>, states: States<'_>) {
    let n = states.first().map_or(0, BlockMut::len);
    if n == 0 {
        return;
    }
    let grain = match (&does.plan, does.across()) {
        (Some(plan), Some(along)) => squares::grain(&plan.axes, along),
        _ => GRAIN,
    };
    split_work(n, grain, states, &split_all, &|start, _, mut states| does.run(start, &mut states));
}

fn split_all<'a>(states: States<'a>, at: usize) -> (States<'a>, States<'a>) {
    states.into_iter().map(|s| s.split_at(at)).unzip()
}
