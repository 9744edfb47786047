//! Targets that are class numbers: checking them, and what the losses of classes share.

use foldback_graph::Var;
use foldback_tensor::{DType, Shape, Tensor, refuse};

use super::Reduction;
use crate::error::{NnFacts, Result};

/// The axis of the classes: the second of a batch, the only one of a single example.
pub(super) fn class_axis(input: &Shape) -> isize {
    isize::from(input.rank() > 1)
}

/// Class numbers that were found to fit some scores.
pub(super) struct Classes {
    axis: isize,
    /// the class of every element, 0 where it is ignored; the scores' shape without the axis of classes
    index: Tensor,
    /// where elements count; none if all do
    kept: Option<Var>,
    /// how many count
    count: usize,
    /// the weight of every element, 0 where it is ignored
    weights: Option<Tensor>,
}

impl Classes {
    /// Checks everything that can be refused.
    pub(super) fn new(
        loss: &'static str,
        input: &Var,
        target: &Tensor,
        class_weights: Option<&Tensor>,
        ignored: i64,
    ) -> Result<Classes> {
        if target.dtype() != DType::I64 {
            let (name, found) = ("class numbers", target.dtype());
            return refuse(NnFacts::DType { op: loss, name, found, expected: "i64" });
        }
        let shape = input.shape();
        let axis = class_axis(shape);
        let fits = shape.rank() > 0 && *target.shape() == without_axis(shape, axis as usize);
        if !fits {
            let (input, target) = (shape, target.shape().clone());
            return refuse(NnFacts::TargetShape {
                loss,
                input: input.clone(),
                target: target.clone(),
                probabilities: false,
            });
        }
        let classes = shape[axis as usize];
        let class_weights =
            class_weights.map(|w| check_weights(loss, w, classes, input.dtype())).transpose()?;
        let count = count_kept(loss, target, classes, ignored)?;
        let (index, kept) = if count == target.numel() {
            (target.clone(), None)
        } else {
            let kept = target.ne(ignored)?;
            (kept.where_cond(target, 0i64)?, Some(kept))
        };
        let weights = match class_weights {
            None => None,
            // No class can be looked up where there is none; then there are no elements either.
            Some(w) if index.numel() == 0 => Some(Tensor::zeros_with(index.shape(), w.dtype())),
            Some(w) => {
                let each = w.index_select(0, &index.reshape([-1])?)?.reshape(index.shape())?;
                Some(match &kept {
                    Some(kept) => kept.where_cond(&each, 0.0)?,
                    None => each,
                })
            }
        };
        Ok(Classes { axis, index, kept: kept.map(Var::from), count, weights })
    }

    /// The negative, weighted log-probability of every element's class, reduced.
    #[track_caller]
    pub(super) fn negative_log_likelihood(&self, log_p: &Var, reduction: Reduction) -> Result<Var> {
        let index = self.index.unsqueeze(self.axis)?;
        self.weighted(log_p.gather(self.axis, &index)?.squeeze(self.axis)?.neg(), reduction)
    }

    /// The cross-entropy of scores whose classes lie along the last axis, reduced.
    #[track_caller]
    pub(super) fn cross_entropy(&self, scores: &Var, reduction: Reduction) -> Result<Var> {
        self.weighted(scores.cross_entropy(&self.index)?, reduction)
    }

    /// The losses of the elements that count, times their weights, reduced.
    #[track_caller]
    fn weighted(&self, mut losses: Var, reduction: Reduction) -> Result<Var> {
        if let Some(w) = &self.weights {
            losses = losses.mul(w)?;
        }
        self.reduce(losses, reduction)
    }

    /// The losses of the elements that count, reduced; a mean is that of the weights.
    #[track_caller]
    pub(super) fn reduce(&self, losses: Var, reduction: Reduction) -> Result<Var> {
        let losses = match &self.kept {
            // Not a product with 0: an ignored element may be infinite or NaN.
            Some(kept) => kept.where_cond(&losses, 0.0)?,
            None => losses,
        };
        match (reduction, &self.weights, &self.kept) {
            (Reduction::Mean, Some(w), _) => losses.sum(..)?.div(&w.sum(..)?),
            // A sum over nothing divided by nothing, so that its derivatives are NaN to every order, as PyTorch's.
            (Reduction::Mean, None, kept) if kept.is_some() || self.count == 0 => {
                losses.sum(..)?.div(self.count as f64)
            }
            _ => reduction.apply(losses),
        }
    }
}

/// A weight per class, in the scores' type.
pub(super) fn check_weights(
    loss: &'static str,
    weights: &Tensor,
    classes: usize,
    dtype: DType,
) -> Result<Tensor> {
    if *weights.shape() == [classes] {
        return Ok(weights.to(dtype));
    }
    refuse(NnFacts::ParameterShape {
        op: loss,
        name: "a weight",
        expected: format!("[{classes}]"),
        found: weights.shape().clone(),
    })
}

/// A shape that lacks an axis.
pub(super) fn without_axis(shape: &Shape, axis: usize) -> Shape {
    let mut dims = shape.to_vec();
    dims.remove(axis);
    dims.into()
}

/// How many elements are not ignored, if all of those are classes.
fn count_kept(loss: &'static str, target: &Tensor, classes: usize, ignored: i64) -> Result<usize> {
    let own = target.contiguous();
    let mut count = 0;
    for (place, &t) in own.as_slice::<i64>().unwrap_or_default().iter().enumerate() {
        if t == ignored {
            continue;
        }
        if t < 0 || t as u64 >= classes as u64 {
            let index = unravel(place, target.shape());
            return refuse(NnFacts::TargetOutOfRange { loss, target: t, index, classes });
        }
        count += 1;
    }
    Ok(count)
}

/// The index of the element at a row-major position.
fn unravel(mut place: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i = place % size;
        place /= size;
    }
    index
}
