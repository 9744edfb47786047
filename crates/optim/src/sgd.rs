//! Stochastic gradient descent.

use foldback_graph::Var;
use foldback_tensor::Tensor;
use foldback_tensor::kernel::{self, FloatOps, Real, Update};

use crate::Optimizer;
use crate::error::{Error, Result, check_not_negative};
use crate::parameters::{Parameters, zeros_once};

const NAME: &str = "SGD";

/// The settings of [`SGD`]: a learning rate, and the rest by methods. A number is a learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdOptions {
    learning_rate: f64,
    momentum: f64,
    dampening: f64,
    weight_decay: f64,
    nesterov: bool,
}

impl SgdOptions {
    /// This learning rate, and no momentum, dampening or weight decay.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{SGD, SgdOptions};
    /// let w = foldback_tensor::tensor![1.0].requires_grad();
    /// let options = SgdOptions::new(0.1).momentum(0.9).nesterov(true).weight_decay(1e-4);
    /// assert!(SGD::new([w], options).is_ok());
    /// ```
    pub fn new(learning_rate: f64) -> SgdOptions {
        SgdOptions { learning_rate, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false }
    }

    /// How much of the last step is kept.
    #[must_use]
    pub fn momentum(mut self, momentum: f64) -> SgdOptions {
        self.momentum = momentum;
        self
    }

    /// How much of a gradient is kept out of the momentum, from the second step on.
    #[must_use]
    pub fn dampening(mut self, dampening: f64) -> SgdOptions {
        self.dampening = dampening;
        self
    }

    /// This times the parameter is added to its gradient.
    #[must_use]
    pub fn weight_decay(mut self, weight_decay: f64) -> SgdOptions {
        self.weight_decay = weight_decay;
        self
    }

    /// Whether steps look ahead along the momentum, which must not be 0; dampening must.
    #[must_use]
    pub fn nesterov(mut self, nesterov: bool) -> SgdOptions {
        self.nesterov = nesterov;
        self
    }

    fn check(&self) -> Result<()> {
        check_not_negative(NAME, "the learning rate", self.learning_rate)?;
        check_not_negative(NAME, "momentum", self.momentum)?;
        check_not_negative(NAME, "dampening", self.dampening)?;
        check_not_negative(NAME, "weight_decay", self.weight_decay)?;
        if self.nesterov && (self.momentum == 0.0 || self.dampening != 0.0) {
            let (momentum, dampening) = (self.momentum, self.dampening);
            return Err(Error::Nesterov { optimizer: NAME, momentum, dampening });
        }
        Ok(())
    }
}

impl From<f64> for SgdOptions {
    fn from(learning_rate: f64) -> SgdOptions {
        SgdOptions::new(learning_rate)
    }
}

/// Stochastic gradient descent with momentum, Nesterov's variant and weight decay, by the formulas of PyTorch's
/// [`SGD`](https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html):
///
/// ```text
/// g = gradient + weight_decay * p
/// b = momentum * b + (1 - dampening) * g      (b = g in the first step)
/// p = p - learning_rate * b                   (nesterov: g + momentum * b)
/// ```
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::{Optimizer, SGD};
/// use foldback_tensor::tensor;
/// let w = tensor![1.0, 2.0].requires_grad();
/// let mut sgd = SGD::new([w.clone()], 0.5)?;
/// w.sum(.., false)?.backward()?;
/// sgd.step()?;
/// assert_eq!(w.value(), tensor![0.5, 1.5]);
/// # Ok::<(), foldback_optim::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SGD {
    parameters: Parameters<Option<Tensor>>,
    options: SgdOptions,
}

impl SGD {
    /// An optimiser of these parameters, with a learning rate or [`SgdOptions`].
    ///
    /// # Errors
    /// `Parameter` if a setting is negative or not finite, `Nesterov`, `NoParameters`, `Duplicate`, `NotALeaf`.
    pub fn new(parameters: impl IntoIterator<Item = Var>, options: impl Into<SgdOptions>) -> Result<SGD> {
        let options = options.into();
        options.check()?;
        Ok(SGD { parameters: Parameters::new(NAME, parameters)?, options })
    }
}

impl Optimizer for SGD {
    fn step(&mut self) -> Result<()> {
        let o = self.options;
        self.parameters.step(|p, state, g| {
            if o.momentum == 0.0 {
                let plain = Plain { rate: o.learning_rate, decay: o.weight_decay };
                return kernel::update(NAME, plain, [p], [g]);
            }
            let kept = if state.is_some() { o.momentum } else { 0.0 };
            let taken = if state.is_some() { 1.0 - o.dampening } else { 1.0 };
            let (momentum, nesterov) = (o.momentum, o.nesterov);
            let formula =
                Momentum { rate: o.learning_rate, decay: o.weight_decay, momentum, kept, taken, nesterov };
            kernel::update(NAME, formula, [&mut *p, zeros_once(state, g)], [g])
        })
    }

    fn parameters(&self) -> &[Var] {
        self.parameters.vars()
    }

    fn learning_rate(&self) -> f64 {
        self.options.learning_rate
    }

    fn set_learning_rate(&mut self, rate: f64) -> Result<()> {
        check_not_negative(NAME, "the learning rate", rate)?;
        self.options.learning_rate = rate;
        Ok(())
    }
}

/// The step without momentum.
#[derive(Clone, Copy)]
struct Plain {
    rate: f64,
    decay: f64,
}

impl Update<1, 1> for Plain {
    #[inline(always)]
    fn eval<R: Real>(&self, [p]: [R; 1], [g]: [R; 1]) -> [R; 1]
    where
        f64: FloatOps<R>,
    {
        [p - decayed(g, p, self.decay) * self.rate]
    }
}

/// The step with momentum. `kept` and `taken` are the factors of the buffer and of the gradient.
#[derive(Clone, Copy)]
struct Momentum {
    rate: f64,
    decay: f64,
    momentum: f64,
    kept: f64,
    taken: f64,
    nesterov: bool,
}

impl Update<2, 1> for Momentum {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, b]: [R; 2], [g]: [R; 1]) -> [R; 2]
    where
        f64: FloatOps<R>,
    {
        let g = decayed(g, p, self.decay);
        let b = b * self.kept + g * self.taken;
        let step = if self.nesterov { g + b * self.momentum } else { b };
        [p - step * self.rate, b]
    }
}

/// The gradient with weight decay; without it, untouched by a parameter that is not finite.
#[inline(always)]
pub(crate) fn decayed<R: Real>(g: R, p: R, decay: f64) -> R {
    if decay == 0.0 { g } else { g + p * decay }
}
