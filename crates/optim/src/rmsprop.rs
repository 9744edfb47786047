//! Steps divided by a running mean of squared gradients.

use foldback_tensor::kernel::{FloatOps, Real, Update};

use crate::optimizer::optimizer;
use crate::seen::{Seen, mean, mean_square};
use crate::step::{Before, Part, Step};

optimizer! {
    /// RMSprop (Tieleman and Hinton, lecture 6.5, 2012), by the formulas of PyTorch's
    /// [`RMSprop`](https://docs.pytorch.org/docs/stable/generated/torch.optim.RMSprop.html).
    ///
    /// ```text
    /// v = alpha * v + (1 - alpha) * g * g
    /// d = sqrt(v) + eps                             (centered: sqrt(v - a * a) + eps, a = a + (1 - alpha) * (g - a))
    /// p = p - lr * g / d                            (momentum: b = momentum * b + g / d, p = p - lr * b)
    /// ```
    ///
    /// A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{RMSprop, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let optimizer = RMSprop::new([&w], 0.1).alpha(0.75);
    /// w.square().backward()?;
    /// optimizer.step()?;
    /// assert_close!(w.value(), tensor![0.8]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    RMSprop, "RMSprop", Options;
    settings {
        "How much of the mean of squares is kept in each step. The default is 0.99."
        alpha(alpha: f64 = 0.99 in NotNegative);
        "What is added to the divisor. The default is 1e-8."
        eps(eps: f64 = 1e-8 in NotNegative);
        "This times the parameter is added to its gradient. The default is 0."
        weight_decay(weight_decay: f64 = 0.0 in NotNegative);
        "How much of the last step is kept. The default is 0."
        momentum(momentum: f64 = 0.0 in NotNegative);
        "Whether the divisor is the deviation from the mean gradient. The default is no."
        centered(centered: bool = false in Flag);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps ["square_avg"; "momentum_buffer", "grad_avg"] [];
    by_parameter: true;
    check: |_| Ok(());
    step: step;
}

fn step(o: Options, _: &Before) -> Step {
    let step = RMSpropStep {
        seen: Seen::new(o.maximize, o.weight_decay),
        rate: o.lr,
        alpha: o.alpha,
        eps: o.eps,
        momentum: o.momentum,
    };
    let [v, b, a] = [Part::Zeros(0), Part::Zeros(1), Part::Zeros(2)];
    match (o.centered, o.momentum > 0.0) {
        (false, false) => Step::new(step, [Part::Value, v]),
        (false, true) => Step::new(step, [Part::Value, v, b]),
        (true, false) => Step::new(Centered(step), [Part::Value, v, a]),
        (true, true) => Step::new(Centered(step), [Part::Value, v, b, a]),
    }
}

#[derive(Clone, Copy)]
struct RMSpropStep {
    seen: Seen,
    rate: f64,
    alpha: f64,
    eps: f64,
    momentum: f64,
}

/// The step that divides by the deviation.
#[derive(Clone, Copy)]
struct Centered(RMSpropStep);

impl RMSpropStep {
    /// The parameter before the step, its mean of squares after it, and the gradient.
    #[inline(always)]
    fn square<R: Real>(&self, p: R, v: R, g: R) -> [R; 3] {
        let [p, g] = self.seen.see(p, g);
        [p, mean_square(v, g, self.alpha), g]
    }

    #[inline(always)]
    fn kept<R: Real>(&self, b: R, step: R) -> R {
        b * self.momentum + step
    }
}

impl Update<2, 1> for RMSpropStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, v]: [R; 2], [g]: [R; 1]) -> [R; 2]
    where
        f64: FloatOps<R>,
    {
        let [p, v, g] = self.square(p, v, g);
        [p - g / (v.sqrt() + self.eps) * self.rate, v]
    }
}

impl Update<3, 1> for RMSpropStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, v, b]: [R; 3], [g]: [R; 1]) -> [R; 3]
    where
        f64: FloatOps<R>,
    {
        let [p, v, g] = self.square(p, v, g);
        let b = self.kept(b, g / (v.sqrt() + self.eps));
        [p - b * self.rate, v, b]
    }
}

impl Centered {
    /// The mean gradient after the step, and the divisor.
    #[inline(always)]
    fn divisor<R: Real>(&self, v: R, a: R, g: R) -> [R; 2] {
        let a = mean(a, g, self.0.alpha);
        [a, (v - a * a).sqrt() + self.0.eps]
    }
}

impl Update<3, 1> for Centered {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, v, a]: [R; 3], [g]: [R; 1]) -> [R; 3]
    where
        f64: FloatOps<R>,
    {
        let [p, v, g] = self.0.square(p, v, g);
        let [a, divisor] = self.divisor(v, a, g);
        [p - g / divisor * self.0.rate, v, a]
    }
}

impl Update<4, 1> for Centered {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, v, b, a]: [R; 4], [g]: [R; 1]) -> [R; 4]
    where
        f64: FloatOps<R>,
    {
        let [p, v, g] = self.0.square(p, v, g);
        let [a, divisor] = self.divisor(v, a, g);
        let b = self.0.kept(b, g / divisor);
        [p - b * self.0.rate, v, b, a]
    }
}
