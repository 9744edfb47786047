//! Steps that look only at signs.

use foldback_tensor::kernel::{FloatOps, Real, Update};

use crate::optimizer::optimizer;
use crate::seen::{Seen, mixed};
use crate::step::{Before, Part, Step};

optimizer! {
    /// Lion (Chen et al., "Symbolic discovery of optimization algorithms", 2023), by the paper's formulas. The sign of 0 is 0.
    ///
    /// ```text
    /// c = beta1 * m + (1 - beta1) * g
    /// p = p - lr * (sign(c) + weight_decay * p)
    /// m = beta2 * m + (1 - beta2) * g
    /// ```
    ///
    /// A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Lion, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let optimizer = Lion::new([&w], 0.125);
    /// w.square().backward()?;
    /// optimizer.step()?;
    /// assert_close!(w.value(), tensor![0.875]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    Lion, "Lion", Options;
    settings {
        "How much of the moment stands in the step, and how much of it is kept. The default is 0.9 and 0.99."
        betas(beta1: f64 = 0.9 in Share, beta2: f64 = 0.99 in Share);
        "This times the learning rate is what a parameter loses of itself in each step. The default is 0."
        weight_decay(weight_decay: f64 = 0.0 in NotNegative);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps ["exp_avg"] [];
    by_parameter: true;
    check: |_| Ok(());
    step: step;
}

fn step(o: Options, _: &Before) -> Step {
    let step = LionStep {
        seen: Seen::decoupled(o.maximize, o.weight_decay, true, o.lr),
        rate: o.lr,
        betas: (o.beta1, o.beta2),
    };
    Step::new(step, [Part::Value, Part::Zeros(0)])
}

#[derive(Clone, Copy)]
struct LionStep {
    seen: Seen,
    rate: f64,
    betas: (f64, f64),
}

impl Update<2, 1> for LionStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, m]: [R; 2], [g]: [R; 1]) -> [R; 2]
    where
        f64: FloatOps<R>,
    {
        let [p, g] = self.seen.see(p, g);
        let c = mixed(m, g, self.betas.0);
        [p - c.sign() * self.rate, mixed(m, g, self.betas.1)]
    }
}
