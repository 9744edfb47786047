//! Adam with Nesterov's momentum.

use foldback_tensor::kernel::{FloatOps, Real, Update};

use crate::optimizer::optimizer;
use crate::seen::{Seen, mean, mean_square};
use crate::step::{Before, Part, Step};

optimizer! {
    /// Adam with Nesterov's momentum (Dozat, "Incorporating Nesterov momentum into Adam", 2016), by the formulas of PyTorch's
    /// [`NAdam`](https://docs.pytorch.org/docs/stable/generated/torch.optim.NAdam.html).
    ///
    /// ```text
    /// mu(t) = beta1 * (1 - 0.96^(t * momentum_decay) / 2),  product = mu(1) * .. * mu(t)
    /// m = m + (1 - beta1) * (g - m)
    /// v = beta2 * v + (1 - beta2) * g * g
    /// d = sqrt(v / (1 - beta2^t)) + eps
    /// p = p - lr * ((1 - mu(t)) / (1 - product) * g + mu(t + 1) / (1 - product * mu(t + 1)) * m) / d
    /// ```
    ///
    /// A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{NAdam, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let optimizer = NAdam::new([&w], 0.1);
    /// w.square().backward()?;
    /// optimizer.step()?;
    /// assert_close!(w.value(), tensor![0.894_354_9]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    NAdam, "NAdam", Options;
    settings {
        "How much of the first and of the second moment is kept in each step. The default is 0.9 and 0.999."
        betas(beta1: f64 = 0.9 in Share, beta2: f64 = 0.999 in Share);
        "What is added to the divisor. The default is 1e-8."
        eps(eps: f64 = 1e-8 in NotNegative);
        "This times the parameter is added to its gradient. The default is 0."
        weight_decay(weight_decay: f64 = 0.0 in NotNegative);
        "How fast the momentum rises to the first beta. The default is 4e-3."
        momentum_decay(momentum_decay: f64 = 4e-3 in NotNegative);
        "Whether weight decay passes the gradient by: the parameter shrinks by rate times decay. The default is no."
        decoupled_weight_decay(decoupled_weight_decay: bool = false in Flag);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps ["exp_avg", "exp_avg_sq"] ["mu_product" = 1.0];
    by_parameter: true;
    check: |_| Ok(());
    step: step;
}

fn step(o: Options, before: &Before) -> Step {
    let t = before.next_step();
    let mu = |t: f64| o.beta1 * (1.0 - 0.5 * 0.96f64.powf(t * o.momentum_decay));
    // PyTorch keeps this product in f32, whatever the parameter's type.
    let product = f64::from(before.numbers[0] as f32 * mu(t) as f32);
    let step = NAdamStep {
        seen: Seen::decoupled(o.maximize, o.weight_decay, o.decoupled_weight_decay, o.lr),
        betas: (o.beta1, o.beta2),
        eps: o.eps,
        correction: 1.0 - o.beta2.powf(t),
        of_gradient: o.lr * (1.0 - mu(t)) / (1.0 - product),
        of_moment: o.lr * mu(t + 1.0) / (1.0 - product * mu(t + 1.0)),
    };
    Step::new(step, [Part::Value, Part::Zeros(0), Part::Zeros(1)]).keeping([product, 0.0, 0.0, 0.0])
}

#[derive(Clone, Copy)]
struct NAdamStep {
    seen: Seen,
    betas: (f64, f64),
    eps: f64,
    /// `1 - beta2^t`
    correction: f64,
    /// the rates of the gradient and of the first moment
    of_gradient: f64,
    of_moment: f64,
}

impl Update<3, 1> for NAdamStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, m, v]: [R; 3], [g]: [R; 1]) -> [R; 3]
    where
        f64: FloatOps<R>,
    {
        let [p, g] = self.seen.see(p, g);
        let m = mean(m, g, self.betas.0);
        let v = mean_square(v, g, self.betas.1);
        let divisor = (v / self.correction).sqrt() + self.eps;
        [p - g / divisor * self.of_gradient - m / divisor * self.of_moment, m, v]
    }
}
