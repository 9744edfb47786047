//! Steps that shrink with the sum of squared gradients.

use foldback_tensor::kernel::{FloatOps, Real, Update};

use crate::optimizer::optimizer;
use crate::seen::Seen;
use crate::step::{Before, Part, Step};

optimizer! {
    /// Adagrad (Duchi, Hazan and Singer, 2011), by the formulas of PyTorch's
    /// [`Adagrad`](https://docs.pytorch.org/docs/stable/generated/torch.optim.Adagrad.html).
    ///
    /// ```text
    /// s = s + g * g                                 (s starts as initial_accumulator_value)
    /// p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)
    /// ```
    ///
    /// A group's own starting value counts for its parameters; PyTorch takes that of the optimizer for all of them.
    ///
    /// A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Adagrad, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let optimizer = Adagrad::new([&w], 0.1);
    /// w.square().backward()?;
    /// optimizer.step()?;
    /// assert_close!(w.value(), tensor![0.9]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    Adagrad, "Adagrad", Options;
    settings {
        "How fast the learning rate falls from step to step. The default is 0."
        lr_decay(lr_decay: f64 = 0.0 in NotNegative);
        "This times the parameter is added to its gradient. The default is 0."
        weight_decay(weight_decay: f64 = 0.0 in NotNegative);
        "What the sums of squares start with, those of a group with its own number, which PyTorch ignores. The default is 0."
        initial_accumulator_value(initial_accumulator_value: f64 = 0.0 in NotNegative);
        "What is added to the divisor. The default is 1e-10."
        eps(eps: f64 = 1e-10 in NotNegative);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps ["sum"] [];
    by_parameter: true;
    check: |_| Ok(());
    step: step;
}

fn step(o: Options, before: &Before) -> Step {
    let step = AdagradStep {
        seen: Seen::new(o.maximize, o.weight_decay),
        eps: o.eps,
        rate: o.lr / (1.0 + before.steps as f64 * o.lr_decay),
    };
    Step::new(step, [Part::Value, Part::Full(0, o.initial_accumulator_value)])
}

#[derive(Clone, Copy)]
struct AdagradStep {
    seen: Seen,
    eps: f64,
    rate: f64,
}

impl Update<2, 1> for AdagradStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, s]: [R; 2], [g]: [R; 1]) -> [R; 2]
    where
        f64: FloatOps<R>,
    {
        let [p, g] = self.seen.see(p, g);
        let s = s + g * g;
        [p - g / (s.sqrt() + self.eps) * self.rate, s]
    }
}
