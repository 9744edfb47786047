//! Stochastic gradient descent.

use foldback_tensor::kernel::{FloatOps, Real, Update};
use foldback_tensor::refuse;

use crate::error::{OptimFacts, Result};
use crate::optimizer::optimizer;
use crate::seen::Seen;
use crate::step::{Before, Part, Step};

optimizer! {
    /// Stochastic gradient descent with momentum, Nesterov's variant and weight decay, by the formulas of PyTorch's
    /// [`SGD`](https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html):
    ///
    /// ```text
    /// g = gradient + weight_decay * p
    /// b = momentum * b + (1 - dampening) * g      (b = g in the first step)
    /// p = p - lr * b                              (nesterov: g + momentum * b)
    /// ```
    ///
    /// A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Optimizer, SGD};
    /// use foldback_tensor::tensor;
    /// let w = tensor![1.0, 2.0].requires_grad();
    /// let sgd = SGD::new([&w], 0.5);
    /// w.sum(..)?.backward()?;
    /// sgd.step()?;
    /// assert_eq!(w.value(), tensor![0.5, 1.5]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    SGD, "SGD", Options;
    settings {
        "How much of the last step is kept. The default is 0."
        momentum(momentum: f64 = 0.0 in NotNegative);
        "How much of a gradient is kept out of the momentum, from the second step on. The default is 0."
        dampening(dampening: f64 = 0.0 in NotNegative);
        "This times the parameter is added to its gradient. The default is 0."
        weight_decay(weight_decay: f64 = 0.0 in NotNegative);
        "Whether steps look ahead along the momentum, which must not be 0 then; dampening must. The setters may come in any order: a step refuses what does not go together."
        nesterov(nesterov: bool = false in Flag);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps [; "momentum_buffer"] [];
    by_parameter: true;
    check: check;
    step: step;
}

fn check(Options { momentum, dampening, nesterov, .. }: Options) -> Result<()> {
    if nesterov && (momentum == 0.0 || dampening != 0.0) {
        return refuse(OptimFacts::Nesterov { optimizer: "SGD", momentum, dampening });
    }
    Ok(())
}

fn step(o: Options, before: &Before) -> Step {
    let seen = Seen::new(o.maximize, o.weight_decay);
    if o.momentum == 0.0 {
        return Step::new(Plain { rate: o.lr, seen }, [Part::Value]);
    }
    let (kept, taken) = if before.has[0] { (o.momentum, 1.0 - o.dampening) } else { (0.0, 1.0) };
    let formula = Momentum { rate: o.lr, seen, momentum: o.momentum, kept, taken, nesterov: o.nesterov };
    Step::new(formula, [Part::Value, Part::Zeros(0)])
}

/// The step without momentum.
#[derive(Clone, Copy)]
struct Plain {
    rate: f64,
    seen: Seen,
}

impl Update<1, 1> for Plain {
    #[inline(always)]
    fn eval<R: Real>(&self, [p]: [R; 1], [g]: [R; 1]) -> [R; 1]
    where
        f64: FloatOps<R>,
    {
        let [p, g] = self.seen.see(p, g);
        [p - g * self.rate]
    }
}

/// The step with momentum. `kept` and `taken` are the factors of the buffer and of the gradient.
#[derive(Clone, Copy)]
struct Momentum {
    rate: f64,
    seen: Seen,
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
        let [p, g] = self.seen.see(p, g);
        let b = b * self.kept + g * self.taken;
        let step = if self.nesterov { g + b * self.momentum } else { b };
        [p - step * self.rate, b]
    }
}

#[cfg(test)]
mod tests {
    use foldback_graph::{RequiresGrad, Var};
    use foldback_tensor::{Tensor, assert_close, tensor};

    use super::*;
    use crate::Optimizer;
    use crate::tests::panic_text;

    /// Values after each of five steps with the gradient 1, from 0.
    fn five_steps(set: fn(SGD) -> SGD) -> Vec<f64> {
        let w = tensor![0.0; f64].requires_grad();
        let sgd = set(SGD::new([&w], 1.0));
        w.set_grad(Some(tensor![1.0; f64])).unwrap();
        let step = || {
            sgd.step().unwrap();
            w.value().item_as::<f64>().unwrap()
        };
        (0..5).map(|_| step()).collect()
    }

    #[test]
    fn by_hand() {
        let close = |set, expected: [f64; 5]| {
            let values = Tensor::from(five_steps(set));
            assert_close!(values, Tensor::from(expected.to_vec()), atol = 1e-14, rtol = 0.0);
        };
        close(|sgd| sgd, [-1.0, -2.0, -3.0, -4.0, -5.0]);
        // The buffer is 1, 1.5, 1.75, 1.875, 1.9375.
        close(|sgd| sgd.momentum(0.5), [-1.0, -2.5, -4.25, -6.125, -8.0625]);
        // 1, then half of the buffer and half of the gradient: always 1.
        close(|sgd| sgd.momentum(0.5).dampening(0.5), [-1.0, -2.0, -3.0, -4.0, -5.0]);
        // The gradient and half of the buffer: 1.5, 1.75, 1.875, ...
        close(|sgd| sgd.nesterov(true).momentum(0.5), [-1.5, -3.25, -5.125, -7.0625, -9.03125]);
        // p = p - (1 + p / 2) = p / 2 - 1
        close(|sgd| sgd.weight_decay(0.5), [-1.0, -1.5, -1.75, -1.875, -1.9375]);
    }

    #[test]
    fn parameters_without_a_gradient_stay() {
        let (a, b) = (tensor![1.0].requires_grad(), tensor![1.0].requires_grad());
        let sgd = SGD::new([&a, &b], 0.5).weight_decay(1.0);
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
        let refused = |lr| SGD::try_new([&w], lr).unwrap_err().with_location(None).to_string();
        assert!(refused(-0.1).contains("the learning rate = -0.1"));
        assert!(refused(f64::NAN).contains("the learning rate = NaN"));
        let panics = |set: fn(SGD) -> SGD| panic_text(|| set(SGD::new([&w], 0.1)));
        assert!(
            panics(|o| o.momentum(-1.0)).starts_with("SGD: momentum = -1 is not valid: expected a finite")
        );
        assert!(panics(|o| o.weight_decay(-1.0)).contains("weight_decay = -1"));
        assert!(panics(|o| o.dampening(f64::INFINITY)).contains("dampening = inf"));
        assert!(panic_text(|| SGD::new([&w], -1.0)).contains("the learning rate = -1"));
        let sgd = SGD::new([w], 0.1);
        assert!(sgd.set_lr(-1.0).is_err());
        assert_eq!(sgd.lr(), 0.1);
    }

    /// What does not go together is refused by the step, which changes nothing; a later setter mends it.
    #[test]
    fn nesterov_is_judged_by_the_step() {
        let w = tensor![1.0].requires_grad();
        w.set_grad(Some(tensor![1.0])).unwrap();
        let step = |sgd: &SGD| sgd.step().unwrap_err().with_location(None).to_string();
        let sgd = SGD::new([&w], 0.1).nesterov(true);
        assert_eq!(step(&sgd), "SGD: nesterov needs momentum above 0 and dampening 0, found 0 and 0");
        let sgd = sgd.momentum(0.5).dampening(0.5);
        assert!(step(&sgd).contains("found 0.5 and 0.5"));
        assert_eq!(w.value(), tensor![1.0]);
        sgd.dampening(0.0).step().unwrap();
        assert_ne!(w.value(), tensor![1.0]);
    }

    #[test]
    fn parameters_that_cannot_be_optimised() {
        let w = tensor![1.0].requires_grad();
        let message = |vars: Vec<Var>| SGD::try_new(vars, 0.1).unwrap_err().with_location(None).to_string();
        assert_eq!(
            message(vec![]),
            "SGD: the list of parameters is empty: give those of a model, model.parameters(), or of a pattern that matches some of model.named_parameters()"
        );
        let twice = message(vec![w.clone(), tensor![1.0].requires_grad(), w.clone()]);
        assert_eq!(twice, "SGD: parameters 0 and 2 are the same variable: give it once");
        assert_eq!(
            message(vec![w.clone(), &w * 2.0]),
            "SGD: parameter 1 is the result of an operation, not a leaf; give the leaf that it was made of, or detach() and requires_grad() it first"
        );
    }

    #[test]
    fn without_decay_infinities_do_not_spread() {
        let w = tensor![f32::INFINITY, 1.0].requires_grad();
        let sgd = SGD::new([&w], 1.0);
        w.set_grad(Some(tensor![1.0, 1.0])).unwrap();
        sgd.step().unwrap();
        assert_eq!(w.value(), tensor![f32::INFINITY, 0.0]);
    }
}
