//! Stochastic gradient descent.

use std::sync::Arc;

use foldback_graph::Var;
use foldback_tensor::kernel::{self, FloatOps, Real, Update};
use foldback_tensor::{Here, Tensor, refuse};

use crate::Optimizer;
use crate::error::{OptimFacts, Result, check_not_negative};
use crate::shared::{Shared, zeros_once};

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
            return refuse(OptimFacts::Nesterov { optimizer: NAME, momentum, dampening });
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
/// A clone is a handle on the same optimiser.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::{Optimizer, SGD};
/// use foldback_tensor::tensor;
/// let w = tensor![1.0, 2.0].requires_grad();
/// let sgd = SGD::new([w.clone()], 0.5)?;
/// w.sum(..)?.backward()?;
/// sgd.step()?;
/// assert_eq!(w.value(), tensor![0.5, 1.5]);
/// # Ok::<(), foldback_optim::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SGD {
    shared: Arc<Shared<SgdOptions, Option<Tensor>>>,
}

impl SGD {
    /// An optimiser of these parameters, with a learning rate or [`SgdOptions`].
    ///
    /// # Errors
    /// `Parameter` if a setting is negative or not finite, `Nesterov`, `NoParameters`, `Duplicate`, `NotALeaf`.
    #[track_caller]
    pub fn new(parameters: impl IntoIterator<Item = Var>, options: impl Into<SgdOptions>) -> Result<SGD> {
        let options = options.into();
        options.check().here()?;
        Ok(SGD { shared: Shared::new(NAME, parameters, options).here()? })
    }
}

impl Optimizer for SGD {
    #[track_caller]
    fn step(&self) -> Result<()> {
        self.shared
            .step(|o, p, state, g| {
                if o.momentum == 0.0 {
                    let plain = Plain { rate: o.learning_rate, decay: o.weight_decay };
                    return kernel::update(NAME, plain, [p], [g]);
                }
                let kept = if state.is_some() { o.momentum } else { 0.0 };
                let taken = if state.is_some() { 1.0 - o.dampening } else { 1.0 };
                let (momentum, nesterov) = (o.momentum, o.nesterov);
                let formula = Momentum {
                    rate: o.learning_rate,
                    decay: o.weight_decay,
                    momentum,
                    kept,
                    taken,
                    nesterov,
                };
                kernel::update(NAME, formula, [&mut *p, zeros_once(state, g)], [g])
            })
            .here()
    }

    fn parameters(&self) -> &[Var] {
        self.shared.vars()
    }

    fn learning_rate(&self) -> f64 {
        self.shared.options.read().learning_rate
    }

    #[track_caller]
    fn set_learning_rate(&self, rate: f64) -> Result<()> {
        check_not_negative(NAME, "the learning rate", rate).here()?;
        self.shared.options.update(|o| o.learning_rate = rate);
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

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::{assert_close, tensor};

    use super::*;

    /// Values after each of five steps with the gradient 1, from 0.
    fn five_steps(options: SgdOptions) -> Vec<f64> {
        let w = tensor![0.0; f64].requires_grad();
        let sgd = SGD::new([w.clone()], options).unwrap();
        w.set_grad(Some(tensor![1.0; f64])).unwrap();
        let step = || {
            sgd.step().unwrap();
            w.value().item::<f64>().unwrap()
        };
        (0..5).map(|_| step()).collect()
    }

    #[test]
    fn by_hand() {
        let close = |options, expected: [f64; 5]| {
            let values = Tensor::from(five_steps(options));
            assert_close!(values, Tensor::from(expected.to_vec()), atol = 1e-14, rtol = 0.0);
        };
        close(SgdOptions::new(1.0), [-1.0, -2.0, -3.0, -4.0, -5.0]);
        // The buffer is 1, 1.5, 1.75, 1.875, 1.9375.
        close(SgdOptions::new(1.0).momentum(0.5), [-1.0, -2.5, -4.25, -6.125, -8.0625]);
        // 1, then half of the buffer and half of the gradient: always 1.
        close(SgdOptions::new(1.0).momentum(0.5).dampening(0.5), [-1.0, -2.0, -3.0, -4.0, -5.0]);
        // The gradient and half of the buffer: 1.5, 1.75, 1.875, ...
        let nesterov = SgdOptions::new(1.0).momentum(0.5).nesterov(true);
        close(nesterov, [-1.5, -3.25, -5.125, -7.0625, -9.03125]);
        // p = p - (1 + p / 2) = p / 2 - 1
        close(SgdOptions::new(1.0).weight_decay(0.5), [-1.0, -1.5, -1.75, -1.875, -1.9375]);
    }

    #[test]
    fn parameters_without_a_gradient_stay() {
        let (a, b) = (tensor![1.0].requires_grad(), tensor![1.0].requires_grad());
        let sgd = SGD::new([a.clone(), b.clone()], SgdOptions::new(0.5).weight_decay(1.0)).unwrap();
        a.set_grad(Some(tensor![0.0])).unwrap();
        sgd.step().unwrap();
        assert_eq!((a.value(), b.value()), (tensor![0.5], tensor![1.0]));
        sgd.zero_grad();
        assert!(a.grad().is_none());
        assert_eq!(sgd.parameters().len(), 2);
    }

    #[test]
    fn settings_out_of_their_domain() {
        let w = tensor![1.0].requires_grad();
        let make = |o: SgdOptions| SGD::new([w.clone()], o).unwrap_err().with_location(None).to_string();
        assert!(make(SgdOptions::new(-0.1)).contains("the learning rate = -0.1"));
        assert!(make(SgdOptions::new(f64::NAN)).contains("the learning rate = NaN"));
        assert!(make(SgdOptions::new(0.1).momentum(-1.0)).contains("momentum = -1"));
        assert!(make(SgdOptions::new(0.1).weight_decay(-1.0)).contains("weight_decay = -1"));
        assert!(make(SgdOptions::new(0.1).dampening(f64::INFINITY)).contains("dampening = inf"));
        assert!(make(SgdOptions::new(0.1).nesterov(true)).contains("nesterov needs momentum above 0"));
        let damped = SgdOptions::new(0.1).momentum(0.5).dampening(0.5).nesterov(true);
        assert!(make(damped).contains("found 0.5 and 0.5"));
        let sgd = SGD::new([w], 0.1).unwrap();
        assert!(sgd.set_learning_rate(-1.0).is_err());
        assert_eq!(sgd.learning_rate(), 0.1);
    }

    #[test]
    fn parameters_that_cannot_be_optimised() {
        let w = tensor![1.0].requires_grad();
        let message = |vars: Vec<Var>| SGD::new(vars, 0.1).unwrap_err().with_location(None).to_string();
        assert_eq!(message(vec![]), "SGD: the list of parameters is empty");
        let twice = message(vec![w.clone(), tensor![1.0].requires_grad(), w.clone()]);
        assert_eq!(twice, "SGD: parameters 0 and 2 are the same variable");
        assert_eq!(
            message(vec![w.clone(), &w * 2.0]),
            "SGD: parameter 1 is the result of an operation, not a leaf; give the leaf that it was made of, or detach() and requires_grad() it first"
        );
    }

    #[test]
    fn without_decay_infinities_do_not_spread() {
        let w = tensor![f32::INFINITY, 1.0].requires_grad();
        let sgd = SGD::new([w.clone()], 1.0).unwrap();
        w.set_grad(Some(tensor![1.0, 1.0])).unwrap();
        sgd.step().unwrap();
        assert_eq!(w.value(), tensor![f32::INFINITY, 0.0]);
    }
}
