//! Adam and AdamW.

use std::sync::Arc;

use foldback_graph::Var;
use foldback_tensor::kernel::{self, FloatOps, Real, Update};
use foldback_tensor::{Here, Tensor, or_panic};

use crate::Optimizer;
use crate::error::{LR, Result, check, check_not_negative};
use crate::sgd::decayed;
use crate::shared::{Shared, Together, zeros_once};

/// What the setters set.
#[derive(Clone, Copy, Debug)]
struct Settings {
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    amsgrad: bool,
}

impl Together for Settings {}

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
    fn new(o: &Settings, decoupled: bool, t: i32) -> AdamStep {
        AdamStep {
            shrink: if decoupled { 1.0 - o.lr * o.weight_decay } else { 1.0 },
            decay: if decoupled { 0.0 } else { o.weight_decay },
            betas: o.betas,
            eps: o.eps,
            rate: o.lr / (1.0 - o.betas.0.powi(t)),
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
    ($(#[$doc:meta])* $name:ident, $text:literal, decoupled: $decoupled:literal, weight_decay: $weight_decay:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            shared: Arc<Shared<Settings, Moments>>,
        }

        impl $name {
            /// An optimiser of these parameters with a learning rate; betas 0.9 and 0.999, eps 1e-8, no AMSGrad, and
            #[doc = concat!("a weight decay of ", $weight_decay, ".")]
            ///
            /// # Panics
            #[doc = concat!("Where [`", $text, "::try_new`] returns an error.")]
            ///
            /// ```
            /// use foldback_graph::RequiresGrad;
            #[doc = concat!("use foldback_optim::", $text, ";")]
            /// let w = foldback_tensor::tensor![1.0].requires_grad();
            #[doc = concat!("let adam = ", $text, "::new([w], 1e-3).betas(0.9, 0.99).eps(1e-6).amsgrad(true);")]
            /// ```
            #[track_caller]
            pub fn new(parameters: impl IntoIterator<Item: AsRef<Var>>, lr: f64) -> $name {
                or_panic($name::try_new(parameters, lr))
            }

            #[doc = concat!("[`", $text, "::new`] that returns an error instead of panicking.")]
            ///
            /// # Errors
            /// `Parameter` if the learning rate is negative or not finite; `NoParameters`, `Duplicate`, `NotALeaf`.
            ///
            /// ```
            /// let nothing: [foldback_graph::Var; 0] = [];
            #[doc = concat!("assert!(foldback_optim::", $text, "::try_new(nothing, 1e-3).is_err());")]
            /// ```
            #[track_caller]
            pub fn try_new(parameters: impl IntoIterator<Item: AsRef<Var>>, lr: f64) -> Result<$name> {
                check_not_negative($text, LR, lr).here()?;
                let settings = Settings {
                    lr,
                    betas: (0.9, 0.999),
                    eps: 1e-8,
                    weight_decay: $weight_decay,
                    amsgrad: false,
                };
                Ok($name { shared: Shared::new($text, parameters, settings).here()? })
            }

            /// How much of the first and of the second moment is kept in each step. The default is 0.9 and 0.999.
            ///
            /// # Panics
            /// If one is not in `[0, 1)`.
            #[must_use]
            #[track_caller]
            pub fn betas(self, first: f64, second: f64) -> $name {
                or_panic(check_beta($text, "the first beta", first));
                or_panic(check_beta($text, "the second beta", second));
                self.with(|o| o.betas = (first, second))
            }

            /// What is added to the divisor. The default is 1e-8.
            ///
            /// # Panics
            /// If it is negative or not finite.
            #[must_use]
            #[track_caller]
            pub fn eps(self, eps: f64) -> $name {
                or_panic(check_not_negative($text, "eps", eps));
                self.with(|o| o.eps = eps)
            }

            #[doc = concat!("The weight decay; the default is ", $weight_decay, ".")]
            ///
            /// # Panics
            /// If it is negative or not finite.
            #[must_use]
            #[track_caller]
            pub fn weight_decay(self, weight_decay: f64) -> $name {
                or_panic(check_not_negative($text, "weight_decay", weight_decay));
                self.with(|o| o.weight_decay = weight_decay)
            }

            /// Whether the largest second moment so far is used (Reddi, Kale and Kumar, "On the convergence of Adam
            /// and beyond", 2018). The default is no.
            #[must_use]
            pub fn amsgrad(self, amsgrad: bool) -> $name {
                self.with(|o| o.amsgrad = amsgrad)
            }

            fn with(self, set: impl FnOnce(&mut Settings)) -> $name {
                self.shared.settings.update(set);
                self
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

            fn lr(&self) -> f64 {
                self.shared.settings.read().lr
            }

            #[track_caller]
            fn set_lr(&self, lr: f64) -> Result<()> {
                check_not_negative($text, LR, lr).here()?;
                self.shared.settings.update(|o| o.lr = lr);
                Ok(())
            }
        }
    };
}

adam! {
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
    Adam, "Adam", decoupled: false, weight_decay: 0.0
}

adam! {
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
    AdamW, "AdamW", decoupled: true, weight_decay: 0.01
}

/// Refuses a share that leaves nothing for what is new.
fn check_beta(optimizer: &'static str, name: &'static str, beta: f64) -> Result<()> {
    check((0.0..1.0).contains(&beta), optimizer, name, beta, "a number from 0 to less than 1")
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::{assert_close, tensor};

    use super::*;
    use crate::tests::panic_text;

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
        let adam = AdamW::new([tensor![1.5].requires_grad()], 0.125);
        let text = format!("{adam:?}");
        for part in ["AdamW", "1.5", "lr: 0.125", "steps: 0"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
