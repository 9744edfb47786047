//! Dropout.

use foldback_graph::{Var, draw_from};
use foldback_tensor::{DType, Generator, Here, Shape, StateCell, Tensor, or_panic, refuse};

use crate::copies::Copies;
use crate::error::{NnFacts, Result};
use crate::forward;
use crate::module::{Module, Visitor};

/// A layer that drops what is named with a [`Dropout`] of its own: the struct, its constructors and its seed.
macro_rules! dropping {
    ($(#[$doc:meta])* $layer:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $layer {
            each: Dropout,
        }

        impl $layer {
            #[doc = concat!("Drops ", $what, " with probability `p`, by this thread's generator.")]
            ///
            /// # Panics
            /// If `p` is not between 0 and 1; `try_new` returns an error instead.
            #[track_caller]
            pub fn new(p: f64) -> $layer {
                $layer { each: Dropout::new(p) }
            }

            /// `new` that returns an error instead of panicking.
            ///
            /// # Errors
            /// `Parameter` if `p` is not between 0 and 1.
            #[track_caller]
            pub fn try_new(p: f64) -> Result<$layer> {
                Ok($layer { each: Dropout::try_new(p)? })
            }

            /// With a generator of its own, so that what is dropped depends on this seed and the calls of this layer alone.
            #[must_use]
            pub fn seed(self, seed: u64) -> $layer {
                $layer { each: self.each.seed(seed) }
            }
        }
    };
}

pub(super) use dropping;

/// In training, sets elements to zero with probability `p` and multiplies the others by `1 / (1 - p)`; afterwards it
/// leaves its input alone. (Srivastava et al., "Dropout", 2014, in the inverted form of PyTorch's
/// [`Dropout`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html).)
///
/// ```
/// use foldback_nn::{Dropout, Module};
/// use foldback_tensor::Tensor;
/// let mut dropout = Dropout::new(0.5);
/// let x = Tensor::ones([100]);
/// let y = dropout.forward(&x)?.value();
/// assert!(y.to_vec::<f32>()?.iter().all(|&v| v == 0.0 || v == 2.0));
/// dropout.eval();
/// assert_eq!(dropout.forward(&x)?.value(), x);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Debug)]
pub struct Dropout {
    p: f64,
    training: bool,
    generator: Option<StateCell<Generator>>,
}

impl Dropout {
    /// Drops elements with probability `p`, by this thread's generator.
    ///
    /// # Panics
    /// If `p` is not between 0 and 1; [`Dropout::try_new`] returns an error instead.
    #[track_caller]
    pub fn new(p: f64) -> Dropout {
        or_panic(Dropout::try_new(p))
    }

    /// [`Dropout::new`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Parameter` if `p` is not between 0 and 1.
    ///
    /// ```
    /// assert!(foldback_nn::Dropout::try_new(1.5).is_err());
    /// ```
    #[track_caller]
    pub fn try_new(p: f64) -> Result<Dropout> {
        if !(0.0..=1.0).contains(&p) {
            return refuse(NnFacts::Parameter {
                op: "dropout",
                name: "p",
                value: p,
                expected: "between 0 and 1",
            })
            .here();
        }
        Ok(Dropout { p, training: true, generator: None })
    }

    /// With a generator of its own, so that what is dropped depends on this seed and the calls of this layer alone.
    ///
    /// ```
    /// use foldback_nn::Dropout;
    /// use foldback_tensor::Tensor;
    /// let x = Tensor::ones([100]);
    /// let (a, b) = (Dropout::new(0.5).seed(1), Dropout::new(0.5).seed(1));
    /// assert_eq!(a.forward(&x)?.value(), b.forward(&x)?.value());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Dropout {
        self.generator = Some(StateCell::new(Generator::new(seed)));
        self
    }

    /// The probability of being dropped.
    pub fn p(&self) -> f64 {
        self.p
    }

    /// Whether it drops anything, see [`Module::set_training`].
    pub fn is_training(&self) -> bool {
        self.training
    }

    /// Ones where something is kept, and zeros where it is dropped.
    #[track_caller]
    pub(super) fn kept(&self, shape: &Shape, dtype: DType) -> Result<Tensor> {
        if !dtype.is_float() {
            let (name, expected) = ("the input", "a floating-point type");
            return refuse(NnFacts::DType { op: "dropout", name, found: dtype, expected }).here();
        }
        let keep = 1.0 - self.p;
        match &self.generator {
            Some(cell) => draw_from(cell, |g| g.try_bernoulli_with(shape, keep, dtype)).here(),
            None => Tensor::try_bernoulli_with(shape, keep, dtype),
        }
    }
}

#[forward]
impl Dropout {
    /// The input with some elements dropped; itself after [`Module::eval`].
    ///
    /// # Errors
    /// `DType` for integers and `bool`, in training.
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        if !self.training || self.p == 0.0 {
            return Ok(x.clone());
        }
        let mut mask = self.kept(x.shape(), x.dtype())?;
        if self.p == 1.0 {
            return x.mul(0.0);
        }
        mask.mul_(1.0 / (1.0 - self.p))?;
        x.mul(&mask)
    }
}

impl Clone for Dropout {
    /// In the same mode; a generator of its own is copied in its present state.
    fn clone(&self) -> Dropout {
        let generator = self.generator.as_ref().map(|cell| StateCell::new(cell.read()));
        Dropout { p: self.p, training: self.training, generator }
    }
}

impl Module for Dropout {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.layer(self);
        if let Some(generator) = &self.generator {
            visitor.generator(generator);
        }
    }
    fn set_training(&mut self, training: bool) {
        self.training = training;
    }
    fn copy_parts(&self, _: &mut Copies) -> Dropout {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::tensor;

    use super::*;

    #[test]
    fn drops_the_share_asked_for_and_keeps_the_mean() {
        let n = 100_000;
        let x = Tensor::ones_with([n], DType::F64).requires_grad();
        for p in [0.1, 0.5, 0.9] {
            let y = Dropout::new(p).seed(5).forward(&x).unwrap();
            let values: Vec<f64> = y.value().to_vec().unwrap();
            let dropped = values.iter().filter(|&&v| v == 0.0).count() as f64 / n as f64;
            // 4 standard errors of a share
            assert!((dropped - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{dropped} for {p}");
            assert!(values.iter().all(|&v| v == 0.0 || (v - 1.0 / (1.0 - p)).abs() < 1e-12));
            // The gradient is dropped where the value was.
            x.zero_grad();
            y.sum(..).unwrap().backward().unwrap();
            assert_eq!(x.grad().unwrap(), y.value());
        }
    }

    #[test]
    fn edges_of_p() {
        let x = tensor![1.0, -2.0].requires_grad();
        assert!(Dropout::new(0.0).forward(&x).unwrap().is_same(&x));
        let y = Dropout::new(1.0).forward(&x).unwrap();
        assert_eq!(y.value(), tensor![0.0, 0.0]);
        y.sum(..).unwrap().backward().unwrap();
        assert_eq!(x.grad(), Some(tensor![0.0, 0.0]));
        for p in [-0.1, 1.1, f64::NAN] {
            assert!(Dropout::try_new(p).unwrap_err().to_string().starts_with("dropout: p = "));
        }
    }

    #[test]
    fn identity_in_use() {
        let x = tensor![1.0].requires_grad();
        let mut dropout = Dropout::new(0.5);
        dropout.eval();
        assert!(dropout.forward(&x).unwrap().is_same(&x));
        assert!(!dropout.clone().is_training() && !dropout.deep_copy().is_training());
    }

    #[test]
    fn seeds() {
        let x = Tensor::ones([64]);
        let a = Dropout::new(0.5).seed(1);
        let copy = a.clone();
        let (first, second) = (a.forward(&x).unwrap().value(), a.forward(&x).unwrap().value());
        assert_ne!(first, second);
        assert_eq!(copy.forward(&x).unwrap().value(), first);
        // From here on as the original, which has drawn twice.
        assert_eq!(copy.deep_copy().forward(&x).unwrap().value(), second);
        assert_eq!(copy.forward(&x).unwrap().value(), second);
        foldback_tensor::manual_seed(9);
        let by_thread = Dropout::new(0.5).forward(&x).unwrap().value();
        foldback_tensor::manual_seed(9);
        assert_eq!(Dropout::new(0.5).forward(&x).unwrap().value(), by_thread);
    }

    #[test]
    fn integers_are_refused() {
        assert!(Dropout::new(0.5).forward(&tensor![1, 2; i64]).is_err());
    }
}
