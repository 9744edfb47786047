//! Steps whose length is learnt from earlier steps.

use foldback_tensor::kernel::{FloatOps, Real, Update};

use crate::optimizer::optimizer;
use crate::seen::{Seen, mean_square};
use crate::step::{Before, Part, Step};

optimizer! {
    /// Adadelta (Zeiler, 2012), by the formulas of PyTorch's
    /// [`Adadelta`](https://docs.pytorch.org/docs/stable/generated/torch.optim.Adadelta.html), where the learning
    /// rate is 1 unless said otherwise.
    ///
    /// ```text
    /// v = rho * v + (1 - rho) * g * g
    /// d = sqrt(u + eps) / sqrt(v + eps) * g
    /// u = rho * u + (1 - rho) * d * d
    /// p = p - lr * d
    /// ```
    ///
    /// A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Adadelta, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let optimizer = Adadelta::new([&w], 1.0).rho(0.75).eps(0.0001);
    /// w.square().backward()?;
    /// optimizer.step()?;
    /// assert_close!(w.value(), tensor![0.98]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    Adadelta, "Adadelta", Options;
    settings {
        "How much of the means of squares is kept in each step. The default is 0.9."
        rho(rho: f64 = 0.9 in Unit);
        "What is added to the means of squares. The default is 1e-6."
        eps(eps: f64 = 1e-6 in NotNegative);
        "This times the parameter is added to its gradient. The default is 0."
        weight_decay(weight_decay: f64 = 0.0 in NotNegative);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps ["square_avg", "acc_delta"] [];
    by_parameter: true;
    check: |_| Ok(());
    step: step;
}

fn step(o: Options, _: &Before) -> Step {
    let step =
        AdadeltaStep { seen: Seen::new(o.maximize, o.weight_decay), rate: o.lr, rho: o.rho, eps: o.eps };
    Step::new(step, [Part::Value, Part::Zeros(0), Part::Zeros(1)])
}

#[derive(Clone, Copy)]
struct AdadeltaStep {
    seen: Seen,
    rate: f64,
    rho: f64,
    eps: f64,
}

impl Update<3, 1> for AdadeltaStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, v, u]: [R; 3], [g]: [R; 1]) -> [R; 3]
    where
        f64: FloatOps<R>,
    {
        let [p, g] = self.seen.see(p, g);
        let v = mean_square(v, g, self.rho);
        let d = (u + self.eps).sqrt() / (v + self.eps).sqrt() * g;
        [p - d * self.rate, v, mean_square(u, d, self.rho)]
    }
}
