//! Gradient descent with an average of what it passes.

use foldback_tensor::kernel::{FloatOps, Real, Update};

use crate::optimizer::optimizer;
use crate::seen::Seen;
use crate::step::{Before, Part, Step};

optimizer! {
    /// Averaged stochastic gradient descent (Polyak and Juditsky, 1992), by the formulas of PyTorch's
    /// [`ASGD`](https://docs.pytorch.org/docs/stable/generated/torch.optim.ASGD.html). The average stands in
    /// the state, as `state.0.ax`.
    ///
    /// ```text
    /// p = (1 - lambd * e) * p - e * g               (e starts as lr)
    /// a = a + (p - a) * u                           (u starts as 1)
    /// e = lr / (1 + lambd * lr * t)^alpha,  u = 1 / max(1, t - t0)
    /// ```
    ///
    /// A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{ASGD, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let optimizer = ASGD::new([&w], 0.125).lambd(0.0);
    /// w.square().backward()?;
    /// optimizer.step()?;
    /// assert_close!(w.value(), tensor![0.75]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    ASGD, "ASGD", Options;
    settings {
        "The decay term. The default is 1e-4."
        lambd(lambd: f64 = 1e-4 in NotNegative);
        "The power by which the rate falls. The default is 0.75."
        alpha(alpha: f64 = 0.75 in NotNegative);
        "The step after which what is passed is averaged. The default is 1e6."
        t0(t0: f64 = 1e6 in Any);
        "This times the parameter is added to its gradient. The default is 0."
        weight_decay(weight_decay: f64 = 0.0 in NotNegative);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps ["ax"] ["eta" = 0.0, "mu" = 1.0];
    by_parameter: true;
    check: |_| Ok(());
    step: step;
}

fn step(o: Options, before: &Before) -> Step {
    // PyTorch keeps these two numbers in f32, whatever the parameter's type.
    let short = |v: f64| f64::from(v as f32);
    let t = before.next_step();
    let eta = if before.steps == 0 { short(o.lr) } else { before.numbers[0] };
    let step = ASGDStep {
        seen: Seen::new(o.maximize, o.weight_decay),
        rate: eta,
        shrink: 1.0 - o.lambd * eta,
        taken: before.numbers[1],
    };
    let eta = short(o.lr / (1.0 + o.lambd * o.lr * t).powf(o.alpha));
    let mu = short(1.0 / (t - o.t0).max(1.0));
    Step::new(step, [Part::Value, Part::Zeros(0)]).keeping([eta, mu, 0.0, 0.0])
}

#[derive(Clone, Copy)]
struct ASGDStep {
    seen: Seen,
    rate: f64,
    shrink: f64,
    /// how much of the parameter goes into the average
    taken: f64,
}

impl Update<2, 1> for ASGDStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, a]: [R; 2], [g]: [R; 1]) -> [R; 2]
    where
        f64: FloatOps<R>,
    {
        let [p, g] = self.seen.see(p, g);
        let p = p * self.shrink - g * self.rate;
        [p, if self.taken == 1.0 { p } else { a + (p - a) * self.taken }]
    }
}
