//! Binary cross-entropy from scores.

use foldback_graph::{AsInput, Function, FunctionContext, Fused, Var};
use foldback_tensor::kernel::{self, FloatKernel, FloatOps, Formula, Real};
use foldback_tensor::{DType, Here, Tensor};

use super::{Reduction, expect_float, in_one_shape};
use crate::error::Result;

const LOSS: &str = "binary_cross_entropy_with_logits";

/// Above this, `ln(1 + exp(x))` is `x` in `f64` as in `f32`: the difference is `exp(-x)`, less than half a unit in the
/// last place.
const SOFTPLUS_IS_IDENTITY: f64 = 40.0;

/// The options of [`binary_cross_entropy_with_logits`]. PyTorch's
/// [`BCEWithLogitsLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html).
///
/// ```
/// use foldback_nn::loss::{BCEWithLogitsLoss, Reduction};
/// use foldback_tensor::tensor;
/// let loss = BCEWithLogitsLoss::new().pos_weight(tensor![3.0]).reduction(Reduction::None);
/// let losses = loss.forward(&tensor![0.0, 0.0], &tensor![1.0, 0.0])?.value();
/// foldback_tensor::assert_close!(losses, tensor![3.0 * 2f32.ln(), 2f32.ln()]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BCEWithLogitsLoss {
    weight: Option<Tensor>,
    pos_weight: Option<Tensor>,
    reduction: Reduction,
}

impl BCEWithLogitsLoss {
    /// No weights, the mean.
    pub fn new() -> BCEWithLogitsLoss {
        BCEWithLogitsLoss::default()
    }

    /// A factor for the loss of each element; it broadcasts to the input's shape. A mean is still over elements.
    #[must_use]
    pub fn weight(mut self, weight: impl Into<Tensor>) -> BCEWithLogitsLoss {
        self.weight = Some(weight.into());
        self
    }

    /// A factor for the part of the loss that belongs to a true label; it broadcasts to the input's shape.
    #[must_use]
    pub fn pos_weight(mut self, weight: impl Into<Tensor>) -> BCEWithLogitsLoss {
        self.pos_weight = Some(weight.into());
        self
    }

    /// What becomes of the losses of single elements. The default is their mean.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> BCEWithLogitsLoss {
        self.reduction = reduction;
        self
    }

    /// `(1 - y) x + (1 + (pos_weight - 1) y) softplus(-x)` for scores `x` and labels `y` between 0 and 1, weighted and
    /// reduced. Any shape, the same for both, or all pairs.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `DType` if one of the types is not a floating-point one, `Expand` if a weight
    /// does not broadcast to the input's shape.
    #[track_caller]
    pub fn forward(&self, input: impl AsInput, target: impl AsInput) -> Result<Var> {
        self.of(&input.to_var(), target.to_var()).here()
    }

    #[track_caller]
    fn of(&self, input: &Var, y: Var) -> Result<Var> {
        expect_float(LOSS, "the input", input)?;
        expect_float(LOSS, "the target", &y)?;
        let [input, y] = &in_one_shape(LOSS, input, &y)?;
        let [weight, pos_weight] = [&self.weight, &self.pos_weight].map(|w| spread(LOSS, w, input));
        let mut losses = BceOfScores { pos_weight: pos_weight? }.call([&**input, y])?;
        if let Some(w) = weight? {
            losses = losses.mul(&w)?;
        }
        self.reduction.apply(losses)
    }
}

/// The losses of single elements, as an operation of its own: each gradient is one product with the incoming one, as in
/// PyTorch. The sum of two, of which one cancels the other where numbers are finite, is NaN where they are not.
struct BceOfScores {
    pos_weight: Option<Tensor>,
}

impl BceOfScores {
    /// The factor of true labels as an operand of formulas, and whether they read it: without it they must not, as
    /// `0 y` is not 0 everywhere.
    fn factor(&self) -> (Tensor, bool) {
        match &self.pos_weight {
            Some(w) => (w.clone(), true),
            None => (Tensor::ones_with((), DType::Bool), false),
        }
    }
}

impl Function for BceOfScores {
    fn name(&self) -> &'static str {
        LOSS
    }

    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let (p, weighted) = self.factor();
        Ok(vec![kernel::evaluate(LOSS, &FloatKernel(ScoreLoss { weighted }), &[inputs[0], inputs[1], &p])?])
    }

    fn saves_inputs(&self) -> bool {
        true
    }

    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        let (g, x, y) = (ctx.grad(0), ctx.input(0), ctx.input(1));
        let (p, weighted) = self.factor();
        let of_input = || Fused::new(LOSS, ScoreSlope { weighted }).call((&g, &x, &y, &p));
        let of_target = || match &self.pos_weight {
            None => x.neg().mul(&g),
            Some(w) => softplus(&x.neg())?.mul(w)?.sub(&softplus(&x)?)?.mul(&g),
        };
        let of_input = ctx.needs(0).then(of_input).transpose().nowhere()?;
        Ok(vec![of_input, ctx.needs(1).then(of_target).transpose().nowhere()?])
    }
}

/// `-ln(sigmoid(-x))`
#[track_caller]
fn softplus(x: &Var) -> Result<Var> {
    x.softplus_with(1.0, SOFTPLUS_IS_IDENTITY)
}

/// `(1 - y) x + (1 + (p - 1) y) softplus(-x)` of `x`, `y` and `p`.
#[derive(Clone, Copy)]
struct ScoreLoss {
    weighted: bool,
}
impl Formula<3> for ScoreLoss {
    #[inline(always)]
    fn eval<R: Real>(&self, [x, y, p]: [R; 3]) -> R
    where
        f64: FloatOps<R>,
    {
        // softplus(-x) is -ln(sigmoid(x)), without overflow.
        let softplus = R::select((-x).gt(R::lit(SOFTPLUS_IS_IDENTITY)), -x, (-x).exp().log1p());
        let positive = if self.weighted { ((p - 1.0) * y + 1.0) * softplus } else { softplus };
        (1.0 - y) * x + positive
    }
}

/// `(sigmoid(x) - y) g`, or `((1 + (p - 1) y) sigmoid(x) - p y) g`, of `g`, `x`, `y` and `p`.
#[derive(Clone, Copy)]
struct ScoreSlope {
    weighted: bool,
}
impl Formula<4> for ScoreSlope {
    #[inline(always)]
    fn eval<R: Real>(&self, [g, x, y, p]: [R; 4]) -> R
    where
        f64: FloatOps<R>,
    {
        // By the sigmoid of what is negative, which keeps its digits: `sigmoid(x) = 1 - sigmoid(-x)`.
        let positive = x.gt(R::lit(0.0));
        let small = R::select(positive, -x, x).sigmoid();
        let (py, either) = if self.weighted { (p * y, p * y + 1.0 - y) } else { (y, R::lit(1.0)) };
        R::select(positive, (1.0 - y) - either * small, either * small - py) * g
    }
}

/// A weight seen in the input's shape, in the input's type.
#[track_caller]
pub(super) fn spread(loss: &'static str, weight: &Option<Tensor>, input: &Var) -> Result<Option<Tensor>> {
    let Some(w) = weight else { return Ok(None) };
    kernel::expect_meant(loss, &[&input.value(), w])?;
    let spread = w.to(input.dtype()).expand(input.shape()).map_err(|e| e.named(loss))?;
    Ok(Some(spread))
}

/// The mean binary cross-entropy of scores `x` (before the sigmoid) for labels between 0 and 1. PyTorch's
/// [`binary_cross_entropy_with_logits`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.binary_cross_entropy_with_logits.html).
/// [`BCEWithLogitsLoss`] has options.
///
/// # Errors
/// As [`BCEWithLogitsLoss::forward`].
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_nn::loss::binary_cross_entropy_with_logits;
/// use foldback_tensor::{assert_close, tensor};
/// let x = tensor![0.0, 800.0].requires_grad();
/// binary_cross_entropy_with_logits(&x, &tensor![1.0, 0.0])?.backward()?;
/// assert_close!(x.grad().unwrap(), tensor![-0.25, 0.5]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn binary_cross_entropy_with_logits(input: impl AsInput, target: impl AsInput) -> Result<Var> {
    BCEWithLogitsLoss::new().forward(input, target)
}

#[cfg(test)]
mod tests {
    use foldback_tensor::tensor;

    use super::*;

    #[test]
    fn value_by_the_definition() {
        let (x, y) = (tensor![-3.0, 0.0, 0.5, 4.0; f64], tensor![0.0, 1.0, 0.25, 1.0; f64]);
        let p = x.sigmoid();
        let expected = -(&y * p.ln() + y.rsub(1.0).unwrap() * p.rsub(1.0).unwrap().ln());
        let loss = BCEWithLogitsLoss::new().reduction(Reduction::None).forward(&x, &y).unwrap();
        foldback_tensor::assert_close!(loss.value(), expected, atol = 1e-12, rtol = 1e-12);
    }

    #[test]
    fn refusals() {
        let x: Var = Tensor::zeros([3, 1]).into();
        let e = binary_cross_entropy_with_logits(&x, &tensor![1.0, 0.0, 1.0])
            .unwrap_err()
            .with_location(None)
            .to_string();
        assert!(e.contains("[3, 1] and the target [3]") && e.contains("squeeze the input"), "{e}");
        let labels = tensor![[1], [0], [1]; i64];
        assert!(
            binary_cross_entropy_with_logits(&x, &labels)
                .unwrap_err()
                .to_string()
                .contains("the target must be a floating-point type, found i64: use to(DType::F32)")
        );
        assert!(binary_cross_entropy_with_logits(&tensor![1; i64], &tensor![1.0]).is_err());
        let y = Tensor::zeros([3, 1]);
        // A weight may be spread over the input, but must not enlarge it.
        assert!(BCEWithLogitsLoss::new().weight(tensor![1.0, 2.0]).forward(&x, &y).is_err());
        assert!(BCEWithLogitsLoss::new().pos_weight(tensor![1.0, 2.0, 3.0]).forward(&x, &y).is_err());
        assert!(BCEWithLogitsLoss::new().weight(tensor![2.0]).forward(&x, &y).is_ok());
    }
}
