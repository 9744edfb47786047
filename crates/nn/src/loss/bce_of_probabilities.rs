//! Binary cross-entropy of probabilities.

use foldback_graph::{AsInput, Function, FunctionContext, Fused, Var};
use foldback_tensor::kernel::{self, FloatKernel, FloatOps, Formula, Real};
use foldback_tensor::{Here, Tensor, refuse};

use super::bce::spread;
use super::{Reduction, expect_float, in_one_shape};
use crate::error::{NnFacts, Result};

const LOSS: &str = "binary_cross_entropy";

/// The least logarithm of a probability, and the least product of one and what is left to 1, as in PyTorch: losses and
/// gradients stay finite.
const LEAST_LOG: f64 = -100.0;
const LEAST_PRODUCT: f64 = 1e-12f32 as f64;

/// What PyTorch adds to the factors of that product in the second derivative.
const BESIDE_ZERO: f64 = 1e-12;

/// The options of [`binary_cross_entropy`]. PyTorch's
/// [`BCELoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCELoss.html).
///
/// ```
/// use foldback_nn::loss::{BCELoss, Reduction};
/// use foldback_tensor::tensor;
/// let loss = BCELoss::new().weight(tensor![2.0, 1.0]).reduction(Reduction::None);
/// let losses = loss.forward(&tensor![0.5, 0.0], &tensor![1.0, 1.0])?.value();
/// foldback_tensor::assert_close!(losses, tensor![2.0 * 2f32.ln(), 100.0]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BCELoss {
    weight: Option<Tensor>,
    reduction: Reduction,
}

impl BCELoss {
    /// No weights, the mean.
    pub fn new() -> BCELoss {
        BCELoss::default()
    }

    /// A factor for the loss of each element; it broadcasts to the input's shape. A mean is still over elements.
    #[must_use]
    pub fn weight(mut self, weight: impl Into<Tensor>) -> BCELoss {
        self.weight = Some(weight.into());
        self
    }

    /// What becomes of the losses of single elements. The default is their mean.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> BCELoss {
        self.reduction = reduction;
        self
    }

    /// `-y ln(x) - (1 - y) ln(1 - x)` for probabilities `x` and labels `y` between 0 and 1, weighted and reduced. Any shape,
    /// the same for both. Logarithms are at least -100.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `DType` unless both are of one floating-point type, `Parameter` for an element
    /// that is not between 0 and 1, `Expand` if the weight does not broadcast to the input's shape.
    #[track_caller]
    pub fn forward(&self, input: impl AsInput, target: impl AsInput) -> Result<Var> {
        self.of(&input.to_var(), &target.to_var()).here()
    }

    #[track_caller]
    fn of(&self, input: &Var, y: &Var) -> Result<Var> {
        expect_float(LOSS, "the input", input)?;
        if y.dtype() != input.dtype() {
            let (name, found) = ("the target", y.dtype());
            let expected = if input.dtype() == foldback_tensor::DType::F32 { "f32" } else { "f64" };
            return refuse(NnFacts::DType { op: LOSS, name, found, expected });
        }
        let [input, y] = &in_one_shape(LOSS, input, y)?;
        expect_probabilities("an element of the input", input)?;
        expect_probabilities("an element of the target", y)?;
        let weight = spread(LOSS, &self.weight, input)?;
        let mut losses = BceOfProbabilities.call([&**input, y])?;
        if let Some(w) = weight {
            losses = losses.mul(&w)?;
        }
        self.reduction.apply(losses)
    }
}

/// The first element that is none is named.
fn expect_probabilities(name: &'static str, v: &Var) -> Result<()> {
    let values = v.value();
    let outside = values.ge(0.0)?.logical_and(values.le(1.0)?)?.logical_not();
    if !outside.any(..)?.item_as::<bool>()? {
        return Ok(());
    }
    let at = outside.flatten(..)?.long().argmax(0)?.item_as::<i64>()?;
    let value = values.flatten(..)?.select(0, at as isize)?.item()?;
    let expected = "between 0 and 1: for scores use binary_cross_entropy_with_logits";
    refuse(NnFacts::Parameter { op: LOSS, name, value, expected })
}

/// The losses of single elements.
struct BceOfProbabilities;

impl Function for BceOfProbabilities {
    fn name(&self) -> &'static str {
        LOSS
    }

    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![kernel::evaluate(LOSS, &FloatKernel(ProbabilityLoss), inputs)?])
    }

    fn saves_inputs(&self) -> bool {
        true
    }

    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        let (g, x, y) = (ctx.grad(0), ctx.input(0), ctx.input(1));
        let of_input =
            ctx.needs(0).then(|| BceOfProbabilitiesBackward.call([&g, &x, &y])).transpose().nowhere()?;
        let of_target =
            ctx.needs(1).then(|| x.rsub(1.0)?.log().sub(x.log())?.mul(&g)).transpose().nowhere()?;
        Ok(vec![of_input, of_target])
    }
}

/// The gradient for the input, with PyTorch's second derivative: the product that the first is divided by is bounded there
/// by what is added to its factors.
struct BceOfProbabilitiesBackward;

impl Function for BceOfProbabilitiesBackward {
    fn name(&self) -> &'static str {
        "binary_cross_entropy_backward"
    }

    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![kernel::evaluate(LOSS, &FloatKernel(ProbabilitySlope), inputs)?])
    }

    fn saves_inputs(&self) -> bool {
        true
    }

    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        let (gg, g, x, y) = (ctx.grad(0), ctx.input(0), ctx.input(1), ctx.input(2));
        let both = gg.mul(&g).nowhere()?;
        let of_grad = || Fused::new(LOSS, SecondOf).call((&gg, &x, &y));
        let of_input = || Fused::new(LOSS, CurvatureOf).call((&both, &x, &y));
        let of_target = || Fused::new(LOSS, LabelOf).call((&both, &x));
        Ok(vec![
            ctx.needs(0).then(of_grad).transpose().nowhere()?,
            ctx.needs(1).then(of_input).transpose().nowhere()?,
            ctx.needs(2).then(of_target).transpose().nowhere()?,
        ])
    }
}

/// The loss of `x` and `y`.
#[derive(Clone, Copy)]
struct ProbabilityLoss;
impl Formula<2> for ProbabilityLoss {
    #[inline(always)]
    fn eval<R: Real>(&self, [x, y]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        let least = R::lit(LEAST_LOG);
        (y - 1.0) * (-x).log1p().maximum(least) - y * x.ln().maximum(least)
    }
}

/// `g (x - y) / (x (1 - x))`
#[derive(Clone, Copy)]
struct ProbabilitySlope;
impl Formula<3> for ProbabilitySlope {
    #[inline(always)]
    fn eval<R: Real>(&self, [g, x, y]: [R; 3]) -> R
    where
        f64: FloatOps<R>,
    {
        g * (x - y) / ((1.0 - x) * x).maximum(R::lit(LEAST_PRODUCT))
    }
}

/// What its derivative for the label is in the second derivative, where PyTorch's bound is that of `f64`: `-g / (x (1 - x))`
#[derive(Clone, Copy)]
struct LabelOf;
impl Formula<2> for LabelOf {
    #[inline(always)]
    fn eval<R: Real>(&self, [g, x]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        -g / ((1.0 - x) * x).maximum(R::lit(1e-12))
    }
}

/// The same in the second derivative.
#[derive(Clone, Copy)]
struct SecondOf;
impl Formula<3> for SecondOf {
    #[inline(always)]
    fn eval<R: Real>(&self, [g, x, y]: [R; 3]) -> R
    where
        f64: FloatOps<R>,
    {
        g * (x - y) / ((x + BESIDE_ZERO) * (1.0 - x + BESIDE_ZERO))
    }
}

/// `g (x^2 - 2 x y + y) / (x (1 - x))^2`
#[derive(Clone, Copy)]
struct CurvatureOf;
impl Formula<3> for CurvatureOf {
    #[inline(always)]
    fn eval<R: Real>(&self, [g, x, y]: [R; 3]) -> R
    where
        f64: FloatOps<R>,
    {
        let product = (x + BESIDE_ZERO) * (1.0 - x + BESIDE_ZERO);
        g * (x * x - 2.0 * x * y + y) / (product * product)
    }
}

/// The mean binary cross-entropy of probabilities, for labels between 0 and 1. PyTorch's
/// [`binary_cross_entropy`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.binary_cross_entropy.html).
/// [`BCELoss`] has options. Scores that a sigmoid would make probabilities of are better given to
/// [`binary_cross_entropy_with_logits`](super::binary_cross_entropy_with_logits), which keeps their digits.
///
/// # Errors
/// As [`BCELoss::forward`].
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_nn::loss::binary_cross_entropy;
/// use foldback_tensor::tensor;
/// let x = tensor![0.5, 0.25].requires_grad();
/// binary_cross_entropy(&x, &tensor![1.0, 1.0])?.backward()?;
/// assert_eq!(x.grad(), Some(tensor![-1.0, -2.0]));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn binary_cross_entropy(input: impl AsInput, target: impl AsInput) -> Result<Var> {
    BCELoss::new().forward(input, target)
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::tensor;

    use super::*;

    #[test]
    fn what_is_no_probability_is_named() {
        for x in [tensor![1.5, 0.5], tensor![f32::NAN, 0.5]] {
            let e = binary_cross_entropy(&x, &tensor![1.0, 0.0]).unwrap_err().to_string();
            assert!(e.starts_with("binary_cross_entropy: ") && e.contains("between 0 and 1"), "{e}");
        }
    }

    #[test]
    fn logarithms_are_bounded() {
        let x = tensor![0.0, 1.0, 0.0, 1.0; f64].requires_grad();
        let loss =
            BCELoss::new().reduction(Reduction::None).forward(&x, &tensor![1.0, 0.0, 0.0, 1.0; f64]).unwrap();
        assert_eq!(loss.value(), tensor![100.0, 100.0, 0.0, 0.0; f64]);
        loss.sum(..).unwrap().backward().unwrap();
        assert_eq!(x.grad().unwrap().float(), tensor![-1e12, 1e12, 0.0, 0.0]);
    }

    #[test]
    fn refusals() {
        let half = tensor![0.5, 0.5];
        let message = |x: &Tensor, y: &Tensor| binary_cross_entropy(x, y).unwrap_err().to_string();
        let e = message(&tensor![0.5, 1.5], &half);
        assert!(
            e.starts_with("binary_cross_entropy: an element of the input = 1.5 is not valid")
                && e.contains("with_logits"),
            "{e}"
        );
        assert!(message(&tensor![f32::NAN, 0.0], &half).contains("= NaN is not valid"));
        assert!(message(&half, &tensor![0.5, -0.5]).contains("of the target = -0.5"));
        assert!(message(&half, &tensor![[0.5, 0.5]]).contains("do not broadcast"));
        assert!(message(&half, &tensor![0, 1; i64]).contains("must be f32, found i64: use to(DType::F32)"));
        assert!(message(&half, &half.double()).contains("must be f32, found f64: use to(DType::F32)"));
        assert!(BCELoss::new().weight(tensor![1.0, 2.0, 3.0]).forward(&half, &half).is_err());
        let nothing = Tensor::zeros(0);
        assert!(binary_cross_entropy(&nothing, &nothing).unwrap().item().unwrap().is_nan());
    }
}
