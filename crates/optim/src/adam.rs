//! Adam, and the step that it shares with AdamW.

use foldback_tensor::kernel::{FloatOps, Real, Update};

use crate::optimizer::optimizer;
use crate::seen::{Seen, mean, mean_square};
use crate::step::{Before, Part, Step};

/// The step of one parameter, with the factors that all its elements share.
///
/// ```text
/// m = m + (1 - beta1) * (g - m)
/// v = beta2 * v + (1 - beta2) * g * g
/// p = p - rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
/// ```
#[derive(Clone, Copy)]
pub(crate) struct AdamStep {
    seen: Seen,
    betas: (f64, f64),
    eps: f64,
    /// `rate / (1 - beta1^t)`
    rate: f64,
    /// `sqrt(1 - beta2^t)`
    correction: f64,
}

impl AdamStep {
    pub(crate) fn new(seen: Seen, lr: f64, betas: (f64, f64), eps: f64, before: &Before) -> AdamStep {
        let t = before.next_step();
        AdamStep {
            seen,
            betas,
            eps,
            rate: lr / (1.0 - betas.0.powf(t)),
            correction: (1.0 - betas.1.powf(t)).sqrt(),
        }
    }

    pub(crate) fn step(self, amsgrad: bool) -> Step {
        let [p, m, v, largest] = [Part::Value, Part::Zeros(0), Part::Zeros(1), Part::Zeros(2)];
        if amsgrad { Step::new(self, [p, m, v, largest]) } else { Step::new(self, [p, m, v]) }
    }

    /// The parameter before the step, and its moments after it.
    #[inline(always)]
    fn moments<R: Real>(&self, p: R, m: R, v: R, g: R) -> [R; 3] {
        let [p, g] = self.seen.see(p, g);
        let (b1, b2) = self.betas;
        [p, mean(m, g, b1), mean_square(v, g, b2)]
    }

    #[inline(always)]
    fn moved<R: Real>(&self, p: R, m: R, v: R) -> R {
        p - m / (v.sqrt() / self.correction + self.eps) * self.rate
    }
}

impl Update<3, 1> for AdamStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, m, v]: [R; 3], [g]: [R; 1]) -> [R; 3]
    where
        f64: FloatOps<R>,
    {
        let [p, m, v] = self.moments(p, m, v, g);
        [self.moved(p, m, v), m, v]
    }
}

/// AMSGrad: the fourth number is the largest second moment.
impl Update<4, 1> for AdamStep {
    #[inline(always)]
    fn eval<R: Real>(&self, [p, m, v, largest]: [R; 4], [g]: [R; 1]) -> [R; 4]
    where
        f64: FloatOps<R>,
    {
        let [p, m, v] = self.moments(p, m, v, g);
        let largest = largest.maximum(v);
        [self.moved(p, m, largest), m, v, largest]
    }
}

optimizer! {
    /// Adam (Kingma and Ba, 2015), by the formulas of PyTorch's
    /// [`Adam`](https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html). Weight decay is added to the
    /// gradient. A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Adam, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0, 2.0].requires_grad();
    /// let adam = Adam::new([&w], 0.1);
    /// w.square().sum(..)?.backward()?;
    /// adam.step()?;
    /// assert_close!(w.value(), tensor![0.9, 1.9]); // the first step is as long as the learning rate
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    Adam, "Adam", Options;
    settings {
        "How much of the first and of the second moment is kept in each step. The default is 0.9 and 0.999."
        betas(beta1: f64 = 0.9 in Share, beta2: f64 = 0.999 in Share);
        "What is added to the divisor. The default is 1e-8."
        eps(eps: f64 = 1e-8 in NotNegative);
        "This times the parameter is added to its gradient. The default is 0."
        weight_decay(weight_decay: f64 = 0.0 in NotNegative);
        "Whether the largest second moment so far is used (Reddi, Kale and Kumar, \"On the convergence of Adam and beyond\", 2018). The default is no."
        amsgrad(amsgrad: bool = false in Flag);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
        "Whether weight decay passes the gradient by, as in [`AdamW`](crate::AdamW). The default is no."
        decoupled_weight_decay(decoupled_weight_decay: bool = false in Flag);
    }
    keeps ["exp_avg", "exp_avg_sq"; "max_exp_avg_sq"] [];
    by_parameter: true;
    check: |_| Ok(());
    step: |o: Options, before: &Before| {
        let seen = Seen::decoupled(o.maximize, o.weight_decay, o.decoupled_weight_decay, o.lr);
        AdamStep::new(seen, o.lr, (o.beta1, o.beta2), o.eps, before).step(o.amsgrad)
    };
}

#[cfg(test)]
mod tests {
    use foldback_graph::{RequiresGrad, Var};
    use foldback_tensor::{Tensor, assert_close, tensor};

    use super::*;
    use crate::tests::panic_text;
    use crate::{AdamW, Optimizer, Result};

    /// Kingma and Ba's algorithm 1, number by number.
    #[test]
    fn by_the_paper() {
        let (alpha, b1, b2, eps) = (0.1, 0.9, 0.999, 1e-8);
        let grads = [1.0, -2.0, 0.5, 3.0, -0.25, 0.0];
        let w = tensor![1.0; f64].requires_grad();
        let adam = Adam::new([&w], alpha).betas(b1, b2).eps(eps);
        let (mut p, mut m, mut v) = (1.0, 0.0, 0.0);
        for (i, g) in grads.into_iter().enumerate() {
            let t = i as i32 + 1;
            m = b1 * m + (1.0 - b1) * g;
            v = b2 * v + (1.0 - b2) * g * g;
            p -= alpha * (m / (1.0 - f64::powi(b1, t))) / ((v / (1.0 - f64::powi(b2, t))).sqrt() + eps);
            w.set_grad(Some(tensor![g; f64])).unwrap();
            adam.step().unwrap();
            assert_close!(w.value(), tensor![p; f64], atol = 1e-13, rtol = 0.0);
        }
    }

    #[test]
    fn parameters_without_a_gradient_keep_their_state() {
        let (a, b) = (tensor![1.0].requires_grad(), tensor![1.0].requires_grad());
        let both = AdamW::new([&a, &b], 0.1);
        let alone = AdamW::new([&b], 0.1);
        a.set_grad(Some(tensor![1.0])).unwrap();
        both.step().unwrap();
        assert_eq!(b.value(), tensor![1.0]);
        // The first step of `b` is a first step, although `a` has taken one.
        b.set_grad(Some(tensor![2.0])).unwrap();
        both.step().unwrap();
        let stepped = b.value();
        b.update_in_place(|value| {
            *value = tensor![1.0];
            Ok(())
        })
        .unwrap();
        alone.step().unwrap();
        assert_eq!(b.value(), stepped);
    }

    #[test]
    fn settings_out_of_their_domain() {
        let w = tensor![1.0].requires_grad();
        let e = Adam::try_new([&w], -0.1).unwrap_err().with_location(None).to_string();
        assert!(e.starts_with("Adam: the learning rate = -0.1"));
        let panics = |set: fn(Adam) -> Adam| panic_text(|| set(Adam::new([&w], 0.1)));
        assert_eq!(
            panics(|o| o.betas(1.0, 0.9)),
            "Adam: the first beta = 1 is not valid: expected a number from 0 to less than 1"
        );
        assert!(panics(|o| o.betas(0.9, -0.1)).contains("the second beta = -0.1"));
        assert!(panics(|o| o.betas(f64::NAN, 0.5)).contains("the first beta = NaN"));
        assert!(panics(|o| o.eps(-1.0)).contains("eps = -1"));
        assert!(panics(|o| o.weight_decay(-1.0)).contains("weight_decay = -1"));
        assert!(panic_text(|| AdamW::new([&w], -1.0)).starts_with("AdamW: "));
        assert!(AdamW::try_new([] as [Var; 0], 0.1).is_err());
        assert!(Adam::try_new([&w, &w], 0.1).is_err());
        let adam = AdamW::new([w], 0.1);
        assert!(adam.set_lr(f64::NAN).is_err());
        adam.set_lr(0.2).unwrap();
        assert_eq!((adam.lr(), adam.parameters().len()), (0.2, 1));
    }

    /// AdamW decays unless told otherwise, Adam does not.
    #[test]
    fn default_decay() {
        let after = |step: &dyn Fn(&Var) -> Result<()>| {
            let w = tensor![1.0; f64].requires_grad();
            w.set_grad(Some(tensor![0.0; f64])).unwrap();
            step(&w).unwrap();
            w.value()
        };
        assert_close!(after(&|w| AdamW::new([w], 0.5).step()), tensor![0.995; f64]);
        assert_eq!(after(&|w| AdamW::new([w], 0.5).weight_decay(0.0).step()), tensor![1.0; f64]);
        assert_eq!(after(&|w| Adam::new([w], 0.5).step()), tensor![1.0; f64]);
    }

    #[test]
    fn any_shape_and_type() {
        for dtype in [foldback_tensor::DType::F32, foldback_tensor::DType::F64] {
            for shape in [vec![], vec![0, 3], vec![2, 3, 1]] {
                let w = Tensor::ones_with(shape.clone(), dtype).requires_grad();
                let adam = Adam::new([&w], 0.5).amsgrad(true);
                w.set_grad(Some(Tensor::ones_with(shape.clone(), dtype))).unwrap();
                adam.step().unwrap();
                assert_close!(w.value(), Tensor::full_with(shape, 0.5, dtype));
            }
        }
    }

    /// Nobody else holds the moments while they are written: they stay where they are.
    #[test]
    fn moments_are_written_in_place() {
        let w = Tensor::ones_with([64, 64], foldback_tensor::DType::F32).requires_grad();
        let adam = Adam::new([&w], 0.1).amsgrad(true);
        w.set_grad(Some(w.value())).unwrap();
        let addresses = || {
            let [first, second, largest, _] = adam.shared.states.read()[0].tensors.clone();
            [first, second, largest].map(|t| t.unwrap().as_slice::<f32>().unwrap().as_ptr().addr())
        };
        adam.step().unwrap();
        let before = addresses();
        adam.step().unwrap();
        assert_eq!(addresses(), before);
    }
}
