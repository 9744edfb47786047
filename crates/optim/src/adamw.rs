//! Adam with decoupled weight decay.

use crate::adam::AdamStep;
use crate::optimizer::optimizer;
use crate::seen::Seen;
use crate::step::Before;

optimizer! {
    /// Adam with decoupled weight decay (Loshchilov and Hutter, 2019), by the formulas of PyTorch's
    /// [`AdamW`](https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html): the parameter first shrinks by
    /// learning rate times weight decay. A clone is a handle on the same optimiser, and what a setter sets holds for all
    /// of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{AdamW, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let adam = AdamW::new([&w], 0.1).weight_decay(0.5);
    /// w.square().backward()?;
    /// adam.step()?;
    /// assert_close!(w.value(), tensor![0.95 - 0.1]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    AdamW, "AdamW", Options;
    settings {
        "How much of the first and of the second moment is kept in each step. The default is 0.9 and 0.999."
        betas(beta1: f64 = 0.9 in Share, beta2: f64 = 0.999 in Share);
        "What is added to the divisor. The default is 1e-8."
        eps(eps: f64 = 1e-8 in NotNegative);
        "This times the learning rate is what a parameter loses of itself in each step. The default is 0.01."
        weight_decay(weight_decay: f64 = 0.01 in NotNegative);
        "Whether the largest second moment so far is used (Reddi, Kale and Kumar, \"On the convergence of Adam and beyond\", 2018). The default is no."
        amsgrad(amsgrad: bool = false in Flag);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps ["exp_avg", "exp_avg_sq"; "max_exp_avg_sq"] [];
    by_parameter: true;
    check: |_| Ok(());
    step: |o: Options, before: &Before| {
        let seen = Seen::decoupled(o.maximize, o.weight_decay, true, o.lr);
        AdamStep::new(seen, o.lr, (o.beta1, o.beta2), o.eps, before).step(o.amsgrad)
    };
}
