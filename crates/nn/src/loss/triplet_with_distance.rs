//! The loss of triplets by a distance of one's own.

use std::fmt;
use std::sync::Arc;

use foldback_graph::{AsInput, Var};
use foldback_tensor::{Here, refuse};

use super::{Reduction, expect_same_shape};
use crate::PairwiseDistance;
use crate::error::{NnFacts, Result};

const LOSS: &str = "triplet_margin_with_distance_loss";

/// What says how far two inputs are from each other.
type Distance = Arc<dyn Fn(&Var, &Var) -> Result<Var> + Send + Sync>;

/// Whether what is alike is closer than what is not, by a distance of one's own. PyTorch's
/// [`TripletMarginWithDistanceLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginWithDistanceLoss.html);
/// [`TripletMarginLoss`](super::TripletMarginLoss) is that of norms.
///
/// A clone has the same distance. One that is learned is a clone of a model, which shares its parameters; they are not the
/// loss's, so an optimiser is given those of the model.
///
/// ```
/// use foldback_nn::Var;
/// use foldback_nn::loss::TripletMarginWithDistanceLoss;
/// use foldback_tensor::tensor;
/// let farthest = |a: &Var, b: &Var| a.sub(b)?.abs().amax(-1);
/// let loss = TripletMarginWithDistanceLoss::new().distance_function(farthest).margin(1.5);
/// let (anchor, near, far) = (tensor![[0.0, 0.0]], tensor![[1.0, 0.5]], tensor![[0.0, -2.0]]);
/// assert_eq!(loss.forward(&anchor, &near, &far)?.item()?, 0.5);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone)]
pub struct TripletMarginWithDistanceLoss {
    distance: Option<Distance>,
    margin: f64,
    swap: bool,
    reduction: Reduction,
}

impl TripletMarginWithDistanceLoss {
    /// PyTorch's defaults: [`PairwiseDistance`], a margin of 1, no swap, the mean.
    pub fn new() -> TripletMarginWithDistanceLoss {
        TripletMarginWithDistanceLoss { distance: None, margin: 1.0, swap: false, reduction: Reduction::Mean }
    }

    /// How far two inputs of one shape are from each other: a function of variables that is 0 or more. The default is
    /// [`PairwiseDistance`], the Euclidean one along the last axis.
    #[must_use]
    pub fn distance_function(
        mut self,
        distance: impl Fn(&Var, &Var) -> Result<Var> + Send + Sync + 'static,
    ) -> TripletMarginWithDistanceLoss {
        self.distance = Some(Arc::new(distance));
        self
    }

    /// By how much it must be closer, above 0. The default is 1.
    #[must_use]
    pub fn margin(mut self, margin: f64) -> TripletMarginWithDistanceLoss {
        self.margin = margin;
        self
    }

    /// Whether the distance of the other two counts if it is the smaller one (Balntas et al., "Learning local feature
    /// descriptors with triplets and shallow convolutional neural networks", 2016). The default is no.
    #[must_use]
    pub fn swap(mut self, swap: bool) -> TripletMarginWithDistanceLoss {
        self.swap = swap;
        self
    }

    /// What becomes of the losses of single elements. The default is their mean.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> TripletMarginWithDistanceLoss {
        self.reduction = reduction;
        self
    }

    /// `max(0, distance(anchor, positive) - distance(anchor, negative) + margin)`, reduced: any shape that the distance takes,
    /// `[n, d]` or `[d]` for the default, the same for all. The loss has one element for each of the distances'.
    ///
    /// # Errors
    /// `LossShapes` if the shapes of the inputs differ, or those of the distances, `Parameter` unless the margin is above 0; what
    /// the distance refuses.
    #[track_caller]
    pub fn forward(
        &self,
        anchor: impl AsInput,
        positive: impl AsInput,
        negative: impl AsInput,
    ) -> Result<Var> {
        // The line of an operation in the distance stays.
        self.of(&anchor.to_var(), &positive.to_var(), &negative.to_var()).or_here()
    }

    #[track_caller]
    fn of(&self, anchor: &Var, positive: &Var, negative: &Var) -> Result<Var> {
        expect_same_shape(LOSS, anchor, positive)?;
        expect_same_shape(LOSS, anchor, negative)?;
        let value = self.margin;
        if value.is_nan() || value <= 0.0 {
            return refuse(NnFacts::Parameter {
                op: LOSS,
                name: "margin",
                value,
                expected: "a number above zero",
            });
        }
        let (near, mut away) = (self.between(anchor, positive)?, self.between(anchor, negative)?);
        expect_same_shape(LOSS, &near, &away)?;
        if self.swap {
            let other = self.between(positive, negative)?;
            expect_same_shape(LOSS, &near, &other)?;
            away = away.minimum(&other)?;
        }
        self.reduction.apply(near.add(self.margin)?.sub(&away)?.clamp_min(0)?)
    }

    #[track_caller]
    fn between(&self, a: &Var, b: &Var) -> Result<Var> {
        match &self.distance {
            Some(distance) => distance(a, b),
            None => PairwiseDistance::new().forward(a, b),
        }
    }
}

impl Default for TripletMarginWithDistanceLoss {
    fn default() -> TripletMarginWithDistanceLoss {
        TripletMarginWithDistanceLoss::new()
    }
}

impl fmt::Debug for TripletMarginWithDistanceLoss {
    /// The settings; of a distance, whether one was given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TripletMarginWithDistanceLoss")
            .field(
                "distance_function",
                if self.distance.is_some() { &"of one's own" } else { &"PairwiseDistance" },
            )
            .field("margin", &self.margin)
            .field("swap", &self.swap)
            .field("reduction", &self.reduction)
            .finish()
    }
}

/// The mean of [`TripletMarginWithDistanceLoss`] by this distance and a margin of 1, for one call. PyTorch's
/// [`triplet_margin_with_distance_loss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.triplet_margin_with_distance_loss.html),
/// whose distance stands behind the inputs.
///
/// # Errors
/// As [`TripletMarginWithDistanceLoss::forward`].
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_nn::Var;
/// use foldback_nn::loss::triplet_margin_with_distance_loss;
/// use foldback_tensor::tensor;
/// let squared = |a: &Var, b: &Var| a.sub(b)?.square().sum(-1);
/// let anchor = tensor![[0.0]].requires_grad();
/// triplet_margin_with_distance_loss(&anchor, &tensor![[2.0]], &tensor![[-1.0]], squared)?.backward()?;
/// assert_eq!(anchor.grad(), Some(tensor![[-6.0]]));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn triplet_margin_with_distance_loss(
    anchor: impl AsInput,
    positive: impl AsInput,
    negative: impl AsInput,
    distance: impl Fn(&Var, &Var) -> Result<Var> + Send + Sync + 'static,
) -> Result<Var> {
    TripletMarginWithDistanceLoss::new().distance_function(distance).forward(anchor, positive, negative)
}

#[cfg(test)]
mod tests {
    use foldback_tensor::Tensor;

    use super::*;

    #[test]
    fn refusals() {
        let text = |loss: &TripletMarginWithDistanceLoss, shapes: [&[usize]; 3]| {
            let [a, b, c] = shapes.map(Tensor::ones);
            loss.forward(a, b, c).unwrap_err().with_location(None).to_string()
        };
        let loss = TripletMarginWithDistanceLoss::new();
        assert!(text(&loss, [&[2, 3], &[1, 3], &[2, 3]]).starts_with("triplet_margin_with_distance_loss: "));
        assert!(text(&loss, [&[2, 3], &[2, 3], &[3]]).starts_with("triplet_margin_with_distance_loss: "));
        for margin in [0.0, -1.0, f64::NAN] {
            assert!(text(&loss.clone().margin(margin), [&[2, 3]; 3]).contains("margin"));
        }
        // Distances that would be subtracted all from all.
        let uneven = loss.clone().distance_function(|a, b| {
            let y = a.sub(b)?.sum(-1)?;
            if b.value().amin(..)?.item()? > 1.0 { y.unsqueeze(1) } else { Ok(y) }
        });
        let (one, two) = (Tensor::ones([2, 3]), Tensor::full([2, 3], 2));
        assert!(uneven.forward(&one, &one, &two).is_err());
        let refused = loss.distance_function(|a, b| a.matmul(b));
        assert!(text(&refused, [&[2, 3]; 3]).contains("matmul"));
        assert!(format!("{refused:?}").contains("of one's own"));
    }
}
