//! Planning a joint walk: the targets take part in the plan like operands that nobody reads.

use smallvec::SmallVec;

use super::Operand;
use super::cut::Cut;
use super::joint::{Kind, Target, Walk};
use super::plan::Plan;
use super::reducer::{Reducer, Sum};
use super::stream::{bytes_read, worth_streaming};
use crate::create::room;
use crate::dtype::{Block, DType, Element};
use crate::error::Result;
use crate::kernels::BlockKernel;
use crate::shape::Shape;
use crate::tensor::{Layout, Tensor};

/// Elements below which an awkward layout costs less than a second walk.
const ALWAYS_JOINT: usize = 1 << 16;

/// Parts that a large joint walk must have, so that threads have something to share.
const FEWEST_PARTS: usize = 8;

/// A joint walk that has been planned.
pub(crate) struct Joint<'a> {
    kernel: &'a dyn BlockKernel,
    operands: &'a [Operand<'a>],
    plan: Plan,
    dtype: DType,
}

impl<'a> Joint<'a> {
    /// Plans a walk over `shape`, which operands and targets broadcast to; `None` where each output is better
    /// evaluated on its own.
    pub(crate) fn new(
        kernel: &'a dyn BlockKernel,
        operands: &'a [Operand<'a>],
        shape: &[usize],
        targets: &[&Shape],
        dtype: DType,
    ) -> Option<Joint<'a>> {
        if shape.contains(&0) {
            return None;
        }
        let layouts: SmallVec<[Layout; 2]> = targets.iter().map(|&t| Layout::row_major(t.clone())).collect();
        let mut all: SmallVec<[Operand<'_>; 8]> = operands.iter().copied().collect();
        all.extend(layouts.iter().map(|l| Operand {
            row_major: false,
            data: Block::Bool(&[]),
            offset: 0,
            shape: &l.shape,
            strides: &l.strides,
            want: dtype,
        }));
        let kept = |i: usize| {
            let size = |t: &Shape| (i + t.rank()).checked_sub(shape.len()).map_or(1, |i| t[i]);
            targets.iter().any(|t| size(t) != 1)
        };
        let plan = Plan::new(shape, &all, &kept, false);
        let joint = Joint { kernel, operands, plan, dtype };
        joint.is_a_gain().then_some(joint)
    }

    /// Whether the walk can be cut into parts, and its rows be read in the order of memory.
    fn is_a_gain(&self) -> bool {
        let axes = &self.plan.axes;
        let total: usize = axes.iter().map(|a| a.size).product();
        if total < ALWAYS_JOINT {
            return true;
        }
        let in_order = axes.last().is_none_or(|a| (0..self.operands.len()).all(|k| a.steps[k].abs() <= 1));
        in_order && Cut::new(axes, self.operands.len()).parts >= FEWEST_PARTS
    }

    /// Evaluates everything into new tensors, or onto the priors.
    pub(crate) fn run(
        self,
        op: &'static str,
        outs: SmallVec<[(Shape, Option<Tensor>); 2]>,
    ) -> Result<SmallVec<[Tensor; 2]>> {
        let walk = Walk {
            kernel: Some(self.kernel),
            operands: self.operands,
            axes: self.plan.axes,
            repeats: self.plan.repeats,
        };
        let total: usize = walk.axes.iter().map(|a| a.size).product();
        let full = |shape: &Shape| shape.numel() == total * walk.repeats;
        let written = outs.iter().filter(|o| full(&o.0)).count() * total * self.dtype.size();
        let streamed = worth_streaming(bytes_read(&walk.axes, self.operands), written);
        let kinds: SmallVec<[Kind; 2]> = outs
            .iter()
            .map(|(shape, prior)| match (full(shape), prior) {
                (true, Some(_)) => Kind::AddOnto,
                (true, None) => Kind::Write { streamed },
                (false, Some(_)) => Kind::FoldOnto,
                (false, None) => Kind::Fold,
            })
            .collect();
        let mut results: SmallVec<[Tensor; 2]> = outs
            .into_iter()
            .map(|(shape, prior)| match prior {
                Some(mut prior) => prior.make_writable(op).map(|()| prior),
                None => Ok(Tensor::from_storage(room(op, &shape, self.dtype)?, shape)),
            })
            .collect::<Result<_>>()?;
        match self.dtype {
            DType::F32 => run_typed::<Sum<f32>>(&walk, &mut results, &kinds),
            DType::F64 => run_typed::<Sum<f64>>(&walk, &mut results, &kinds),
            other => unreachable!("a joint evaluation was planned for {other}"),
        }
        Ok(results)
    }
}

fn run_typed<R: Reducer>(walk: &Walk<'_>, results: &mut [Tensor], kinds: &[Kind]) {
    let target = |(result, &kind): (_, &Kind)| {
        let block = Tensor::block_mut(result);
        Target { out: R::T::slice_mut(block).expect("results are of the walk's type"), kind }
    };
    walk.run::<R>(results.iter_mut().zip(kinds).map(target).collect());
}
