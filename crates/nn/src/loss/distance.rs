//! Losses of the distance between input and target: absolute, and squared where it is small.

use std::borrow::Cow;

use foldback_graph::{AsInput, Function, FunctionContext, Fused, Var};
use foldback_tensor::kernel::{self, FloatKernel, FloatOps, Formula, Real};
use foldback_tensor::{Here, Tensor, refuse};

use super::options::losses;
use super::{Reduction, expect_float, expect_weight, in_one_shape, weighted_mean};
use crate::error::{NnFacts, Result};

/// The options of [`l1_loss`]. PyTorch's
/// [`l1_loss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.l1_loss.html).
///
/// ```
/// use foldback_nn::loss::{L1Loss, Reduction};
/// use foldback_tensor::tensor;
/// let loss = L1Loss::new().reduction(Reduction::Sum);
/// assert_eq!(loss.forward(&tensor![1.0, 3.0], &tensor![0.0, 1.0])?.item()?, 3.0);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct L1Loss {
    weight: Option<Var>,
    reduction: Reduction,
}

impl L1Loss {
    /// No weights, the mean.
    pub fn new() -> L1Loss {
        L1Loss::default()
    }

    /// A weight per element, of the input's shape; a mean is then divided by the sum of the weights.
    #[must_use]
    pub fn weight(mut self, weight: impl Into<Var>) -> L1Loss {
        self.weight = Some(weight.into());
        self
    }

    /// What becomes of the losses of single elements. The default is their mean.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> L1Loss {
        self.reduction = reduction;
        self
    }

    /// `|input - target|`, reduced. Any shape, the same for both, or all pairs. The gradient is 0 where they are equal.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `ParameterShape` if that of the weight does; `DType` if neither input nor
    /// target is of a floating-point type, unless they are integers that are summed or not reduced.
    #[track_caller]
    pub fn forward(&self, input: impl AsInput, target: impl AsInput) -> Result<Var> {
        self.of(&input.to_var(), &target.to_var()).here()
    }

    #[track_caller]
    fn of(&self, input: &Var, target: &Var) -> Result<Var> {
        let of_integers = matches!(self.reduction, Reduction::Sum | Reduction::None);
        let [input, target] = if of_integers { in_one_shape } else { operands }("l1_loss", input, target)?;
        let losses = input.sub(&*target)?.try_abs()?;
        weighted_mean("l1_loss", losses, self.weight.as_ref(), self.reduction)
    }
}

/// The mean of `|input - target|`. PyTorch's
/// [`l1_loss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.l1_loss.html), except that shapes which
/// differ are an error, but for pairs, see [`loss`](crate::loss). [`L1Loss`] has options.
///
/// # Errors
/// As [`L1Loss::forward`].
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_nn::loss::l1_loss;
/// use foldback_tensor::tensor;
/// let x = tensor![1.0, 3.0].requires_grad();
/// l1_loss(&x, &tensor![1.0, 1.0])?.backward()?;
/// assert_eq!(x.grad(), Some(tensor![0.0, 0.5]));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn l1_loss(input: impl AsInput, target: impl AsInput) -> Result<Var> {
    L1Loss::new().forward(input, target)
}

losses! {
    /// The options of [`smooth_l1_loss`]. PyTorch's
    /// [`SmoothL1Loss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.SmoothL1Loss.html).
    ///
    /// ```
    /// use foldback_nn::loss::{Reduction, SmoothL1Loss};
    /// use foldback_tensor::tensor;
    /// let loss = SmoothL1Loss::new().beta(2.0).reduction(Reduction::None);
    /// assert_eq!(loss.forward(&tensor![1.0, 3.0], &tensor![0.0, 0.0])?.value(), tensor![0.25, 2.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    SmoothL1Loss {
        /// The distance below which the loss is a square, 0 or more. The default is 1.
        beta: f64 = 1.0;
    }
    /// `d^2 / (2 beta)` for distances `d` below `beta`, `d - beta / 2` for others, reduced. Any shape, the same for both, or all
    /// pairs, see [`loss`](crate::loss).
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `DType` if neither input nor target is of a floating-point type, `Parameter` for
    /// a beta below 0.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_nn::loss::smooth_l1_loss;
    /// use foldback_tensor::tensor;
    /// let x = tensor![0.5, 3.0].requires_grad();
    /// let loss = smooth_l1_loss(&x, &tensor![0.0, 0.0])?;
    /// assert_eq!(loss.item()?, (0.125 + 2.5) / 2.0);
    /// loss.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.25, 0.5]));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    fn smooth_l1_loss(input, target) |own| {
        let (op, name, value) = ("smooth_l1_loss", "beta", own.beta);
        let [input, target] = &operands(op, input, target)?;
        if value < 0.0 {
            return refuse(NnFacts::Parameter { op, name, value, expected: "zero or more" });
        }
        if value == 0.0 { input.sub(&**target)?.try_abs() } else { Kinked::new(op, value, 0.5 / value, 1.0).call([&**input, target]) }
    };
}

/// The options of [`huber_loss`]. PyTorch's
/// [`HuberLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.HuberLoss.html).
///
/// ```
/// use foldback_nn::loss::{HuberLoss, Reduction};
/// use foldback_tensor::tensor;
/// let loss = HuberLoss::new().delta(2.0).reduction(Reduction::None);
/// assert_eq!(loss.forward(&tensor![1.0, 3.0], &tensor![0.0, 0.0])?.value(), tensor![0.5, 4.0]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HuberLoss {
    delta: f64,
    weight: Option<Var>,
    reduction: Reduction,
}

impl Default for HuberLoss {
    /// A delta of 1, no weights, the mean.
    fn default() -> HuberLoss {
        HuberLoss { delta: 1.0, weight: None, reduction: Reduction::Mean }
    }
}

impl HuberLoss {
    /// PyTorch's defaults: a delta of 1, no weights, the mean.
    pub fn new() -> HuberLoss {
        HuberLoss::default()
    }

    /// The distance up to which the loss is a square, above 0. The default is 1.
    #[must_use]
    pub fn delta(mut self, delta: f64) -> HuberLoss {
        self.delta = delta;
        self
    }

    /// A weight per element, of the input's shape. A mean is still over elements, as in PyTorch.
    #[must_use]
    pub fn weight(mut self, weight: impl Into<Var>) -> HuberLoss {
        self.weight = Some(weight.into());
        self
    }

    /// What becomes of the losses of single elements. The default is their mean.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> HuberLoss {
        self.reduction = reduction;
        self
    }

    /// `d^2 / 2` for distances `d` up to `delta`, `delta (d - delta / 2)` for others, reduced. Any shape, the same for
    /// both, or all pairs.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `ParameterShape` if that of the weight does, `DType` if the input is not of a
    /// floating-point type, `Parameter` unless delta is above 0.
    #[track_caller]
    pub fn forward(&self, input: impl AsInput, target: impl AsInput) -> Result<Var> {
        self.of(&input.to_var(), &target.to_var()).here()
    }

    #[track_caller]
    fn of(&self, input: &Var, target: &Var) -> Result<Var> {
        let (op, name, value) = ("huber_loss", "delta", self.delta);
        expect_float(op, "the input", input)?;
        let [input, target] = &in_one_shape(op, input, target)?;
        if value.is_nan() || value <= 0.0 {
            return refuse(NnFacts::Parameter { op, name, value, expected: "a number above zero" });
        }
        let mut losses = Kinked::new(op, value, 0.5, value).call([&**input, target])?;
        if let Some(weight) = &self.weight {
            expect_weight(op, &losses, weight)?;
            losses = losses.mul(weight)?;
        }
        self.reduction.apply(losses)
    }
}

/// The mean of half the squares of small distances, which goes on as a line. PyTorch's
/// [`huber_loss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.huber_loss.html), except that shapes
/// which differ are an error, but for pairs, see [`loss`](crate::loss). [`HuberLoss`] has options.
///
/// # Errors
/// As [`HuberLoss::forward`].
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_nn::loss::huber_loss;
/// use foldback_tensor::tensor;
/// let x = tensor![0.5, 3.0].requires_grad();
/// huber_loss(&x, &tensor![0.0, 0.0])?.backward()?;
/// assert_eq!(x.grad(), Some(tensor![0.25, 0.5]));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn huber_loss(input: impl AsInput, target: impl AsInput) -> Result<Var> {
    HuberLoss::new().forward(input, target)
}

/// `scale d^2` for distances below the kink, `slope (d - half)` beyond.
#[derive(Clone, Copy)]
struct Kinked {
    name: &'static str,
    kink: f64,
    half: f64,
    scale: f64,
    slope: f64,
}

impl Kinked {
    fn new(name: &'static str, kink: f64, scale: f64, slope: f64) -> Kinked {
        Kinked { name, kink, half: kink / 2.0, scale, slope }
    }
}

impl Formula<2> for Kinked {
    #[inline(always)]
    fn eval<R: Real>(&self, [x, y]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        let d = x - y;
        let line = (d.abs() - R::lit(self.half)) * R::lit(self.slope);
        R::select(d.abs().ge(R::lit(self.kink)), line, d * d * R::lit(self.scale))
    }
}

impl Function for Kinked {
    fn name(&self) -> &'static str {
        self.name
    }

    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![kernel::evaluate(self.name, &FloatKernel(*self), inputs)?])
    }

    fn saves_inputs(&self) -> bool {
        true
    }

    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        let (g, x, y) = (ctx.grad(0), ctx.input(0), ctx.input(1));
        let of_input = Fused::new(self.name, KinkedSlope(*self)).call((&g, &x, &y)).nowhere()?;
        let of_target = ctx.needs(1).then(|| of_input.neg());
        Ok(vec![Some(of_input), of_target])
    }
}

/// `g` times the derivative of [`Kinked`]. What is neither near nor far is NaN: so is its slope, and as in PyTorch it has no
/// curvature.
#[derive(Clone, Copy)]
struct KinkedSlope(Kinked);
impl Formula<3> for KinkedSlope {
    #[inline(always)]
    fn eval<R: Real>(&self, [g, x, y]: [R; 3]) -> R
    where
        f64: FloatOps<R>,
    {
        let (d, kink, scale) = (x - y, R::lit(self.0.kink), R::lit(self.0.scale));
        let inside = R::select(d.abs().lt(kink), (d + d) * scale, d.abs());
        g * R::select(d.abs().ge(kink), d.sign() * R::lit(self.0.slope), inside)
    }
}

#[track_caller]
fn operands<'a>(loss: &'static str, input: &'a Var, target: &'a Var) -> Result<[Cow<'a, Var>; 2]> {
    if !target.dtype().is_float() {
        expect_float(loss, "the input", input)?;
    }
    in_one_shape(loss, input, target)
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::tensor;

    use super::*;

    #[test]
    fn kinks_and_what_is_no_number() {
        let edges = tensor![-1.0, 0.0, 1.0, f32::NAN, f32::INFINITY];
        for (loss, slopes) in [
            (HuberLoss::new().delta(1.0).reduction(Reduction::None), [-1.0, 0.0, 1.0, f32::NAN, 1.0]),
            (HuberLoss::new().delta(0.5).reduction(Reduction::None), [-0.5, 0.0, 0.5, f32::NAN, 0.5]),
        ] {
            let x = edges.clone().requires_grad();
            loss.forward(&x, edges.zeros_like()).unwrap().sum(..).unwrap().backward().unwrap();
            let found = x.grad().unwrap().to_vec::<f32>().unwrap();
            assert!(found.iter().zip(slopes).all(|(f, s)| *f == s || f.is_nan() && s.is_nan()), "{found:?}");
        }
        // Without a kink it is the distance.
        let plain = SmoothL1Loss::new().beta(0.0).forward(&tensor![0.0, 3.0], &tensor![0.0, 1.0]).unwrap();
        assert_eq!(plain.item().unwrap(), 1.0);
    }

    #[test]
    fn weights() {
        let (x, y, w) = (tensor![2.0, 1.0], Tensor::zeros(2), tensor![1.0, 3.0]);
        assert_eq!(L1Loss::new().weight(&w).forward(&x, &y).unwrap().item().unwrap(), 5.0 / 4.0);
        assert_eq!(HuberLoss::new().weight(&w).forward(&x, &y).unwrap().item().unwrap(), 3.0 / 2.0);
        assert!(L1Loss::new().weight(tensor![1.0]).forward(&x, &y).is_err());
        assert!(HuberLoss::new().weight(tensor![1.0]).forward(&x, &y).is_err());
    }

    #[test]
    fn distances_of_integers_are_integers() {
        let (x, y) = (tensor![-6, 3; i64], tensor![2, 1; i64]);
        let loss = |reduction| L1Loss::new().reduction(reduction).forward(&x, &y).unwrap().value();
        assert_eq!(loss(Reduction::None), tensor![8, 2; i64]);
        assert_eq!(loss(Reduction::Sum), tensor![10; i64].squeeze(0).unwrap());
        assert!(L1Loss::new().reduction(Reduction::Sum).forward(x.bool(), y.bool()).is_err());
    }

    #[test]
    fn refusals() {
        let (x, column, whole) = (tensor![1.0, 2.0], tensor![[1.0], [2.0]], tensor![1, 2; i64]);
        type Loss = fn(&Tensor, &Tensor) -> Result<Var>;
        let losses: [Loss; 3] = [|a, b| l1_loss(a, b), |a, b| smooth_l1_loss(a, b), |a, b| huber_loss(a, b)];
        for loss in losses {
            let e = loss(&x, &column).unwrap_err().to_string();
            assert!(e.contains("losses do not broadcast"), "{e}");
            let e = loss(&whole, &whole).unwrap_err().to_string();
            assert!(e.contains("must be a floating-point type, found i64"), "{e}");
            assert_eq!(loss(&x, &whole).unwrap().item().unwrap(), 0.0);
        }
        // As PyTorch's, whose result has the type of the input.
        let e = huber_loss(&whole, &x).unwrap_err().to_string();
        assert!(e.contains("must be a floating-point type, found i64"), "{e}");
        for delta in [0.0, -1.0, f64::NAN] {
            let e = HuberLoss::new().delta(delta).forward(&x, &x).unwrap_err().to_string();
            assert!(e.starts_with("huber_loss: delta = "), "{e}");
        }
        let e = SmoothL1Loss::new().beta(-1.0).forward(&x, &x).unwrap_err().to_string();
        assert!(e.starts_with("smooth_l1_loss: beta = -1"), "{e}");
    }
}
