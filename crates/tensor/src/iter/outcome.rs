//! The results of a walk while they are being computed: fresh memory, or the memory of what they are added to.

use smallvec::SmallVec;

use super::sink::Goal;
use super::{Fold, Operand};
use crate::create::{checked_len, room_for};
use crate::dtype::{Block, BlockMut};
use crate::error::Result;
use crate::kernels::{BlockKernel, doors};
use crate::shape::Shape;
use crate::tensor::{Layout, Tensor};

/// A result while it is being computed.
pub(super) struct Outcome {
    /// the prior, or fresh memory without a shape
    pub(super) tensor: Tensor,
    /// whether it is the prior
    pub(super) onto: bool,
    layout: Layout,
    /// a prior that the result is added to later, since it does not move where no operand does
    later: Option<Tensor>,
}

impl Outcome {
    /// For a goal in this shape, some axes of which no operand moves along; the result has `n` elements of its own.
    pub(super) fn new(fold: Fold, goal: Goal, n: usize, shape: &[usize], still: &[bool]) -> Result<Outcome> {
        let kept = || (0..shape.len()).filter(|&i| goal.kept[i]);
        let own = Shape(kept().map(|i| shape[i]).collect());
        let still: SmallVec<[bool; 4]> = kept().map(|i| still[i]).collect();
        let mut prior = goal.prior;
        if let Some(prior) = &mut prior {
            prior.make_writable(fold.op)?;
        }
        let (onto, later) = if still.contains(&true) { (None, prior) } else { (prior, None) };
        let is_prior = onto.is_some();
        let tensor = match onto {
            Some(prior) => prior,
            None => {
                checked_len(fold.op, &own, fold.dtype)?;
                Tensor::from_storage(room_for(fold.op, &own, n, fold.dtype)?, [n].into())
            }
        };
        let layout = Layout::with_still_axes(own, &still);
        Ok(Outcome { tensor, onto: is_prior, layout, later })
    }

    pub(super) fn complete(self) -> Tensor {
        if self.onto {
            return self.tensor;
        }
        let sum = Tensor { storage: self.tensor.storage, layout: self.layout };
        let Some(mut prior) = self.later else { return sum };
        add_to(&mut prior, &sum);
        prior
    }
}

/// Adds a tensor to a writable one of its shape and type, `F32` or `F64`.
pub(crate) fn add_to(sum: &mut Tensor, g: &Tensor) {
    super::update(&Addition, &mut [sum], &[Operand::new(g, g.dtype())]);
}

/// Adds its operand to what it changes.
struct Addition;

impl BlockKernel for Addition {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let n = outputs[0].len();
        doors::add_to(outputs[0].range(0, n), inputs[0]);
    }
}
