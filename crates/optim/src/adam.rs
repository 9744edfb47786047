//! Adam and AdamW.

use std::sync::Arc;

use foldback_graph::Var;
use foldback_tensor::kernel::{self, FloatOps, Real, Update};
use foldback_tensor::{Here, Tensor};

use crate::Optimizer;
use crate::error::{Result, check, check_not_negative};
use crate::sgd::decayed;
use crate::shared::{Shared, zeros_once};

/// The settings of [`Adam`] and [`AdamW`]: a learning rate, and the rest by methods. A number is a learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamOptions {
    learning_rate: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: Option<f64>,
    amsgrad: bool,
}

impl AdamOptions {
    /// This learning rate; betas 0.9 and 0.999, eps 1e-8, no AMSGrad, and the optimiser's own weight decay: 0 for
    /// [`Adam`], 0.01 for [`AdamW`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Adam, AdamOptions};
    /// let w = foldback_tensor::tensor![1.0].requires_grad();
    /// let options = AdamOptions::new(1e-3).betas(0.9, 0.99).eps(1e-6).amsgrad(true);
    /// assert!(Adam::new([w], options).is_ok());
    /// ```
    pub fn new(learning_rate: f64) -> AdamOptions {
        AdamOptions { learning_rate, betas: (0.9, 0.999), eps: 1e-8, weight_decay: None, amsgrad: false }
    }

    /// How much of the first and of the second moment is kept in each step.
    #[must_use]
    pub fn betas(mut self, first: f64, second: f64) -> AdamOptions {
        self.betas = (first, second);
        self
    }

    /// What is added to the divisor.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> AdamOptions {
        self.eps = eps;
        self
    }

    /// This times the parameter is added to its gradient ([`Adam`]), or subtracted from the parameter after
    /// multiplication with the learning rate ([`AdamW`]).
    #[must_use]
    pub fn weight_decay(mut self, weight_decay: f64) -> AdamOptions {
        self.weight_decay = Some(weight_decay);
        self
    }

    /// Whether the largest second moment so far is used (Reddi, Kale and Kumar, "On the convergence of Adam and
    /// beyond", 2018).
    #[must_use]
    pub fn amsgrad(mut self, amsgrad: bool) -> AdamOptions {
        self.amsgrad = amsgrad;
        self
    }

    fn check(&self, optimizer: &'static str) -> Result<()> {
        check_not_negative(optimizer, "the learning rate", self.learning_rate)?;
        check_not_negative(optimizer, "eps", self.eps)?;
        let below_one = |b: f64| (0.0..1.0).contains(&b);
        let domain = "a number from 0 to less than 1";
        check(below_one(self.betas.0), optimizer, "the first beta", self.betas.0, domain)?;
        check(below_one(self.betas.1), optimizer, "the second beta", self.betas.1, domain)?;
        check_not_negative(optimizer, "weight_decay", self.weight_decay.unwrap_or(0.0))
    }
}

impl From<f64> for AdamOptions {
    fn from(learning_rate: f64) -> AdamOptions {
        AdamOptions::new(learning_rate)
    }
}

/// What is kept for a parameter.
#[derive(Clone, Debug, Default)]
struct Moments {
    steps: i32,
    first: Option<Tensor>,
    second: Option<Tensor>,
    largest: Option<Tensor>,
}

/// The step of one parameter, with the factors that all its elements share.
///
/// ```text
/// m = m + (1 - beta1) * (g - m)
/// v = beta2 * v + (1 - beta2) * g * g
/// p = p - rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
/// ```
#[derive(Clone, Copy)]
struct AdamStep {
    /// what the parameter is multiplied with first: 1 minus AdamW's decay
    shrink: f64,
    /// Adam's decay
    decay: f64,
    betas: (f64, f64),
    eps: f64,
    /// `rate / (1 - beta1^t)`
    rate: f64,
    /// `sqrt(1 - beta2^t)`
    correction: f64,
}

impl AdamStep {
    fn new(o: &AdamOptions, decoupled: bool, t: i32) -> AdamStep {
        let decay = o.weight_decay.unwrap_or(if decoupled { AdamW::WEIGHT_DECAY } else { 0.0 });
        AdamStep {
            shrink: if decoupled { 1.0 - o.learning_rate * decay } else { 1.0 },
            decay: if decoupled { 0.0 } else { decay },
            betas: o.betas,
            eps: o.eps,
            rate: o.learning_rate / (1.0 - o.betas.0.powi(t)),
            correction: (1.0 - o.betas.1.powi(t)).sqrt(),
        }
    }

    /// The parameter before the step, and its moments after it.
    #[inline(always)]
    fn moments<R: Real>(&self, p: R, m: R, v: R, g: R) -> [R; 3] {
        let p = p * self.shrink;
        let g = decayed(g, p, self.decay);
        let (b1, b2) = self.betas;
        [p, m + (g - m) * (1.0 - b1), v * b2 + g * g * (1.0 - b2)]
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

/// One optimiser under two names, which differ in what becomes of the weight decay.
macro_rules! adam {
    ($(#[$doc:meta])* $name:ident, $text:literal, decoupled: $decoupled:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            shared: Arc<Shared<AdamOptions, Moments>>,
        }

        impl $name {
            /// An optimiser of these parameters, with a learning rate or [`AdamOptions`].
            ///
            /// # Errors
            /// `Parameter` if a beta is not in `[0, 1)`, or another setting is negative or not finite; `NoParameters`,
            /// `Duplicate`, `NotALeaf`.
            #[track_caller]
            pub fn new(
                parameters: impl IntoIterator<Item = Var>,
                options: impl Into<AdamOptions>,
            ) -> Result<$name> {
                let options = options.into();
                options.check($text).here()?;
                Ok($name { shared: Shared::new($text, parameters, options).here()? })
            }
        }

        impl Optimizer for $name {
            #[track_caller]
            fn step(&self) -> Result<()> {
                // Parameters have mostly seen as many steps as one another, and then share the powers of the betas.
                let mut last: Option<(i32, AdamStep)> = None;
                self.shared.step(|o, p, state, g| {
                    let t = state.steps.saturating_add(1);
                    let step = match last {
                        Some((same, step)) if same == t => step,
                        _ => AdamStep::new(o, $decoupled, t),
                    };
                    last = Some((t, step));
                    let (m, v) = (zeros_once(&mut state.first, g), zeros_once(&mut state.second, g));
                    if o.amsgrad {
                        let largest = zeros_once(&mut state.largest, g);
                        kernel::update($text, step, [p, m, v, largest], [g])?;
                    } else {
                        kernel::update($text, step, [p, m, v], [g])?;
                    }
                    state.steps = t;
                    Ok(())
                })
                .here()
            }

            fn parameters(&self) -> &[Var] {
                self.shared.vars()
            }

            fn learning_rate(&self) -> f64 {
                self.shared.options.read().learning_rate
            }

            #[track_caller]
            fn set_learning_rate(&self, rate: f64) -> Result<()> {
                check_not_negative($text, "the learning rate", rate).here()?;
                self.shared.options.update(|o| o.learning_rate = rate);
                Ok(())
            }
        }
    };
}

adam! {
    /// Adam (Kingma and Ba, 2015), by the formulas of PyTorch's
    /// [`Adam`](https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html). Weight decay is added to the
    /// gradient. A clone is a handle on the same optimiser.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Adam, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0, 2.0].requires_grad();
    /// let adam = Adam::new([w.clone()], 0.1)?;
    /// w.square().sum(..)?.backward()?;
    /// adam.step()?;
    /// assert_close!(w.value(), tensor![0.9, 1.9]); // the first step is as long as the learning rate
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    Adam, "Adam", decoupled: false
}

adam! {
    /// Adam with decoupled weight decay (Loshchilov and Hutter, 2019), by the formulas of PyTorch's
    /// [`AdamW`](https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html): the parameter first shrinks by
    /// learning rate times weight decay, which is 0.01 unless given. A clone is a handle on the same optimiser.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{AdamOptions, AdamW, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![1.0].requires_grad();
    /// let adam = AdamW::new([w.clone()], AdamOptions::new(0.1).weight_decay(0.5))?;
    /// w.square().backward()?;
    /// adam.step()?;
    /// assert_close!(w.value(), tensor![0.95 - 0.1]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    AdamW, "AdamW", decoupled: true
}

impl AdamW {
    const WEIGHT_DECAY: f64 = 0.01;
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::{assert_close, tensor};

    use super::*;

    /// Kingma and Ba's algorithm 1, number by number.
    #[test]
    fn by_the_paper() {
        let (alpha, b1, b2, eps) = (0.1, 0.9, 0.999, 1e-8);
        let grads = [1.0, -2.0, 0.5, 3.0, -0.25, 0.0];
        let w = tensor![1.0; f64].requires_grad();
        let adam = Adam::new([w.clone()], AdamOptions::new(alpha).betas(b1, b2).eps(eps)).unwrap();
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
        let both = AdamW::new([a.clone(), b.clone()], 0.1).unwrap();
        let alone = AdamW::new([b.clone()], 0.1).unwrap();
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
        let make = |o: AdamOptions| Adam::new([w.clone()], o).unwrap_err().with_location(None).to_string();
        assert!(make(AdamOptions::new(-0.1)).starts_with("Adam: the learning rate = -0.1"));
        let e = make(AdamOptions::new(0.1).betas(1.0, 0.9));
        assert_eq!(e, "Adam: the first beta = 1 is not valid: expected a number from 0 to less than 1");
        assert!(make(AdamOptions::new(0.1).betas(0.9, -0.1)).contains("the second beta = -0.1"));
        assert!(make(AdamOptions::new(0.1).betas(f64::NAN, 0.5)).contains("the first beta = NaN"));
        assert!(make(AdamOptions::new(0.1).eps(-1.0)).contains("eps = -1"));
        assert!(make(AdamOptions::new(0.1).weight_decay(-1.0)).contains("weight_decay = -1"));
        assert!(
            AdamW::new([w.clone()], -1.0).unwrap_err().with_location(None).to_string().starts_with("AdamW: ")
        );
        assert!(AdamW::new([], 0.1).is_err());
        assert!(Adam::new([w.clone(), w.clone()], 0.1).is_err());
        let adam = AdamW::new([w], 0.1).unwrap();
        assert!(adam.set_learning_rate(f64::NAN).is_err());
        adam.set_learning_rate(0.2).unwrap();
        assert_eq!((adam.learning_rate(), adam.parameters().len()), (0.2, 1));
    }

    #[test]
    fn any_shape_and_type() {
        for dtype in [foldback_tensor::DType::F32, foldback_tensor::DType::F64] {
            for shape in [vec![], vec![0, 3], vec![2, 3, 1]] {
                let w = Tensor::ones_with(shape.clone(), dtype).requires_grad();
                let adam = Adam::new([w.clone()], AdamOptions::new(0.5).amsgrad(true)).unwrap();
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
        let adam = Adam::new([w.clone()], AdamOptions::new(0.1).amsgrad(true)).unwrap();
        w.set_grad(Some(w.value())).unwrap();
        let addresses = || {
            let Moments { first, second, largest, .. } = adam.shared.states[0].read();
            [first, second, largest].map(|t| t.unwrap().as_slice::<f32>().unwrap().as_ptr().addr())
        };
        adam.step().unwrap();
        let before = addresses();
        adam.step().unwrap();
        assert_eq!(addresses(), before);
    }

    #[test]
    fn what_is_printed() {
        let adam = AdamW::new([tensor![1.5].requires_grad()], 0.125).unwrap();
        let text = format!("{adam:?}");
        for part in ["AdamW", "1.5", "learning_rate: 0.125", "steps: 0"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
