//! Adam with the largest gradient instead of the second moment.

use foldback_tensor::kernel::{FloatOps, Real, Update};

use crate::optimizer::optimizer;
use crate::seen::{Seen, mean};
use crate::step::{Before, Part, Step};

optimizer! {
    /// Adamax (Kingma and Ba, 2015), by the formulas of PyTorch's
    /// [`Adamax`](https://docs.pytorch.org/docs/stable/generated/torch.optim.Adamax.html).
    ///
    /// ```text
    /// m = m + (1 - beta1) * (g - m)
    /// u = max(beta2 * u, |g| + eps)
    /// p = p - lr / (1 - beta1^t) * m / u
    /// ```
    ///
    /// A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Adamax, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let optimizer = Adamax::new([&w], 0.1);
    /// w.square().backward()?;
    /// optimizer.step()?;
    /// assert_close!(w.value(), tensor![0.9]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    Adamax, "Adamax", Options;
    settings {
        "How much of the moment and of the largest gradient is kept in each step. The default is 0.9 and 0.999."
        betas(beta1: f64 = 0.9 in Share, beta2: f64 = 0.999 in Share);
        "What is added to the absolute gradient. The default is 1e-8."
        eps(eps: f64 = 1e-8 in NotNegative);
        "This times the parameter is added to its gradient. The default is 0."
        weight_decay(weight_decay: f64 = 0.0 in NotNegative);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps ["exp_avg", "exp_inf"] [];
    by_parameter: true;
    check: |_| Ok(());
    step: step;
}

fn step(o: Options, before: &Before) -> Step {
    let step = AdamaxStep {
        seen: Seen::new(o.maximize, o.weight_decay),
        betas: (o.beta1, o.beta2),
        eps: o.eps,
        rate: o.lr / (1.0 - o.beta1.powf(before.next_step())),
    };
    Step::new(step, [Part::Value, Part::Zeros(0), Part::Zeros(1)])
}

#[derive(Clone, Copy)]
struct AdamaxStep {
    seen: Seen,
    betas: (f64, f64),
    eps: f64,
    /// `lr / (1 - beta1^t)`
    rate: f64,
}

impl Update<3, 1> for AdamaxStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, m, u]: [R; 3], [g]: [R; 1]) -> [R; 3]
    where
        f64: FloatOps<R>,
    {
        let [p, g] = self.seen.see(p, g);
        let m = mean(m, g, self.betas.0);
        let u = (u * self.betas.1).maximum(g.abs() + self.eps);
        [p - m / u * self.rate, m, u]
    }
}
