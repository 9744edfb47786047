//! The results of a walk while they are being computed: fresh memory, or the memory of what they are added to.

use smallvec::SmallVec;

use super::over::Addition;
use super::sink::Goal;
use super::walk::change;
use super::{Fold, Operand};
use crate::create::{checked_len, room_for};
use crate::error::Result;
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
        let shape = prior.shape().clone();
        change(&Addition, &mut prior, &[Operand::new(&sum, sum.dtype())], &shape);
        prior
    }
}
