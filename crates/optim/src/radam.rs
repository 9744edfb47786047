//! Adam that waits until its second moment can be trusted.

use foldback_tensor::kernel::{FloatOps, Real, Update};

use crate::optimizer::optimizer;
use crate::seen::{Seen, mean, mean_square};
use crate::step::{Before, Part, Step};

optimizer! {
    /// Rectified Adam (Liu et al., "On the variance of the adaptive learning rate and beyond", 2020), by the formulas of PyTorch's
    /// [`RAdam`](https://docs.pytorch.org/docs/stable/generated/torch.optim.RAdam.html).
    ///
    /// ```text
    /// m = m + (1 - beta1) * (g - m),  v = beta2 * v + (1 - beta2) * g * g
    /// r = R - 2 * t * beta2^t / (1 - beta2^t),  R = 2 / (1 - beta2) - 1
    /// p = p - lr * m / (1 - beta1^t)                                    while r is at most 5, then
    /// p = p - lr * m / (1 - beta1^t) * sqrt(1 - beta2^t) / (sqrt(v) + eps) * s
    /// s = sqrt((r - 4) * (r - 2) * R / ((R - 4) * (R - 2) * r))
    /// ```
    ///
    /// A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{RAdam, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let optimizer = RAdam::new([&w], 0.1);
    /// w.square().backward()?;
    /// optimizer.step()?;
    /// assert_close!(w.value(), tensor![0.8]); // as far as the gradient says, at first
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    RAdam, "RAdam", Options;
    settings {
        "How much of the first and of the second moment is kept in each step. The default is 0.9 and 0.999."
        betas(beta1: f64 = 0.9 in Share, beta2: f64 = 0.999 in Share);
        "What is added to the divisor. The default is 1e-8."
        eps(eps: f64 = 1e-8 in NotNegative);
        "This times the parameter is added to its gradient. The default is 0."
        weight_decay(weight_decay: f64 = 0.0 in NotNegative);
        "Whether weight decay passes the gradient by: the parameter shrinks by rate times decay. The default is no."
        decoupled_weight_decay(decoupled_weight_decay: bool = false in Flag);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps ["exp_avg", "exp_avg_sq"] [];
    by_parameter: true;
    check: |_| Ok(());
    step: step;
}

fn step(o: Options, before: &Before) -> Step {
    let t = before.next_step();
    let power = o.beta2.powf(t);
    let longest = 2.0 / (1.0 - o.beta2) - 1.0;
    let length = longest - 2.0 * t * power / (1.0 - power);
    let rectified = || {
        let ratio = (length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length);
        ratio.sqrt() * (1.0 - power).sqrt()
    };
    let step = RAdamStep {
        seen: Seen::decoupled(o.maximize, o.weight_decay, o.decoupled_weight_decay, o.lr),
        betas: (o.beta1, o.beta2),
        eps: o.eps,
        rate: o.lr / (1.0 - o.beta1.powf(t)),
        rectified: (length > 5.0).then(rectified),
    };
    Step::new(step, [Part::Value, Part::Zeros(0), Part::Zeros(1)])
}

#[derive(Clone, Copy)]
struct RAdamStep {
    seen: Seen,
    betas: (f64, f64),
    eps: f64,
    /// `lr / (1 - beta1^t)`
    rate: f64,
    /// what the quotient by the second moment is multiplied with, once there are enough steps
    rectified: Option<f64>,
}

impl Update<3, 1> for RAdamStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, m, v]: [R; 3], [g]: [R; 1]) -> [R; 3]
    where
        f64: FloatOps<R>,
    {
        let [p, g] = self.seen.see(p, g);
        let m = mean(m, g, self.betas.0);
        let v = mean_square(v, g, self.betas.1);
        let step = match self.rectified {
            Some(factor) => m / (v.sqrt() + self.eps) * factor,
            None => m,
        };
        [p - step * self.rate, m, v]
    }
}
