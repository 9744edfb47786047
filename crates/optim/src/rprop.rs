//! Steps that grow while a gradient keeps its sign.

use foldback_tensor::kernel::{FloatOps, Real, Update};

use crate::optimizer::optimizer;
use crate::seen::Seen;
use crate::step::{Before, Part, Step};

optimizer! {
    /// Resilient propagation (Riedmiller and Braun, 1993), by the formulas of PyTorch's
    /// [`Rprop`](https://docs.pytorch.org/docs/stable/generated/torch.optim.Rprop.html), for full batches: each
    /// number has a step of its own, which starts as the learning rate.
    ///
    /// ```text
    /// s = clamp(s * f, step_size_min, step_size_max)   (f: etaplus where g has the sign of the last one, etaminus where it
    ///                                                   has the other, where g counts as 0; else 1)
    /// p = p - sign(g) * s
    /// ```
    ///
    /// A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Rprop, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let optimizer = Rprop::new([&w], 0.125);
    /// w.square().backward()?;
    /// optimizer.step()?;
    /// assert_close!(w.value(), tensor![0.875]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    Rprop, "Rprop", Options;
    settings {
        "How steps shrink where the sign changes and grow where it does not. The default is 0.5 and 1.2."
        etas(etaminus: f64 = 0.5 in Shrinking, etaplus: f64 = 1.2 in Growing);
        "The shortest and the longest step. The default is 1e-6 and 50."
        step_sizes(step_size_min: f64 = 1e-6 in NotNegative, step_size_max: f64 = 50.0 in NotNegative);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps ["prev", "step_size"] [];
    by_parameter: true;
    check: |_| Ok(());
    step: step;
}

fn step(o: Options, _: &Before) -> Step {
    let step = RpropStep {
        seen: Seen::new(o.maximize, 0.0),
        etas: (o.etaminus, o.etaplus),
        limits: (o.step_size_min, o.step_size_max),
    };
    Step::new(step, [Part::Value, Part::Zeros(0), Part::Full(1, o.lr)])
}

#[derive(Clone, Copy)]
struct RpropStep {
    seen: Seen,
    etas: (f64, f64),
    limits: (f64, f64),
}

impl Update<3, 1> for RpropStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, before, size]: [R; 3], [g]: [R; 1]) -> [R; 3]
    where
        f64: FloatOps<R>,
    {
        let [p, g] = self.seen.see(p, g);
        let zero = R::lit(0.0);
        let (same, turned) = ((g * before).gt(zero), (g * before).lt(zero));
        let grown = R::select(same, size * self.etas.1, size);
        let size = R::select(turned, size * self.etas.0, grown);
        let size = size.maximum(R::lit(self.limits.0)).minimum(R::lit(self.limits.1));
        let g = R::select(turned, zero, g);
        [p - g.sign() * size, g, size]
    }
}
