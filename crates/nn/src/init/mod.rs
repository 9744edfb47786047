//! How parameters start: uniform and normal, by Kaiming and by Xavier, as numbers and as matrices.
//!
//! ```
//! use foldback_nn::init::{Init, Nonlinearity};
//! use foldback_tensor::{DType, manual_seed};
//! manual_seed(1);
//! let weight = Init::kaiming_normal(Nonlinearity::ReLU).sample([128, 64], DType::F32)?;
//! assert_eq!(weight.dims(), [128, 64]);
//! # Ok::<(), foldback_nn::Error>(())
//! ```

mod draw;
mod matrices;

use foldback_tensor::{DType, Generator, Here, Shape, Tensor, refuse};

use crate::error::{NnFacts, Result};
use draw::{Distribution, Source};
use matrices::{eye, orthogonal};

/// The function that follows a layer, for the choice of a gain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlinearity {
    /// none, or a function that is close to the identity
    Linear,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// the hyperbolic tangent
    Tanh,
    /// `max(x, 0)`
    ReLU,
    /// `x` above 0 and this slope times `x` below
    LeakyReLU(f64),
    /// the scaled exponential linear unit
    SELU,
}

impl Nonlinearity {
    /// The factor for the standard deviation that keeps the variance from layer to layer, from PyTorch's
    /// [`calculate_gain`](https://docs.pytorch.org/docs/stable/nn.init.html#torch.nn.init.calculate_gain).
    ///
    /// ```
    /// use foldback_nn::init::Nonlinearity;
    /// assert_eq!(Nonlinearity::ReLU.gain(), 2f64.sqrt());
    /// ```
    pub fn gain(self) -> f64 {
        match self {
            Nonlinearity::Linear | Nonlinearity::Sigmoid => 1.0,
            Nonlinearity::Tanh => 5.0 / 3.0,
            Nonlinearity::ReLU => 2f64.sqrt(),
            Nonlinearity::LeakyReLU(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Nonlinearity::SELU => 0.75,
        }
    }
}

/// Which variance Kaiming's initialisation keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// that of values on the way forward
    In,
    /// that of gradients on the way back
    Out,
}

/// A law of initial values: a distribution, or numbers.
///
/// The sources are He, Zhang, Ren and Sun, "Delving deep into rectifiers", 2015 (Kaiming), Glorot and Bengio,
/// "Understanding the difficulty of training deep feedforward neural networks", 2010 (Xavier), and Saxe, McClelland and Ganguli,
/// "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks", 2014 (orthogonal), in the form of PyTorch's
/// [`torch.nn.init`](https://docs.pytorch.org/docs/stable/nn.init.html).
///
/// A parameter that is there is drawn anew by a tensor of the law:
///
/// ```
/// use foldback_nn::{Init, Linear};
/// let mut layer = Linear::new(4, 4);
/// layer.weight.set_value(Init::orthogonal(1.0).sample([4, 4], layer.weight.dtype())?)?;
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Init(Law);

/// What is known before there is a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    /// one that needs no shape
    Plain(Distribution),
    Kaiming {
        nonlinearity: Nonlinearity,
        fan: Fan,
        uniform: bool,
    },
    Xavier {
        gain: f64,
        uniform: bool,
    },
    Eye,
    Orthogonal(f64),
}

impl Init {
    /// Uniform in `[low, high)`.
    ///
    /// ```
    /// use foldback_nn::Init;
    /// let t = Init::uniform(1.0, 2.0).sample([3], foldback_tensor::DType::F32)?;
    /// assert!(t.to_vec::<f32>()?.iter().all(|v| (1.0..2.0).contains(v)));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    pub fn uniform(low: f64, high: f64) -> Init {
        Init(Law::Plain(Distribution::Uniform(low, high)))
    }

    /// Normal, with this mean and standard deviation.
    ///
    /// ```
    /// use foldback_nn::Init;
    /// let t = Init::normal(5.0, 0.0).sample([2], foldback_tensor::DType::F32)?;
    /// assert_eq!(t, foldback_tensor::tensor![5.0, 5.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    pub fn normal(mean: f64, std: f64) -> Init {
        Init(Law::Plain(Distribution::Normal(mean, std)))
    }

    /// Uniform between `-b` and `b`, where `b = gain sqrt(3 / fan_in)`. [`Init::fan`] changes the fan.
    ///
    /// ```
    /// use foldback_nn::init::{Init, Nonlinearity};
    /// let t = Init::kaiming_uniform(Nonlinearity::Linear).sample([8, 3], foldback_tensor::DType::F32)?;
    /// assert!(t.to_vec::<f32>()?.iter().all(|v| v.abs() <= 1.0));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    pub fn kaiming_uniform(nonlinearity: Nonlinearity) -> Init {
        Init(Law::Kaiming { nonlinearity, fan: Fan::In, uniform: true })
    }

    /// Normal with mean 0 and standard deviation `gain / sqrt(fan_in)`. [`Init::fan`] changes the fan.
    ///
    /// ```
    /// use foldback_nn::init::{Fan, Init, Nonlinearity};
    /// let init = Init::kaiming_normal(Nonlinearity::ReLU).fan(Fan::Out);
    /// assert!(init.sample([8, 3], foldback_tensor::DType::F32).is_ok());
    /// ```
    pub fn kaiming_normal(nonlinearity: Nonlinearity) -> Init {
        Init(Law::Kaiming { nonlinearity, fan: Fan::In, uniform: false })
    }

    /// Uniform between `-b` and `b`, where `b = gain sqrt(6 / (fan_in + fan_out))`.
    ///
    /// ```
    /// use foldback_nn::Init;
    /// let t = Init::xavier_uniform(1.0).sample([3, 3], foldback_tensor::DType::F32)?;
    /// assert!(t.to_vec::<f32>()?.iter().all(|v| v.abs() <= 1.0));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    pub fn xavier_uniform(gain: f64) -> Init {
        Init(Law::Xavier { gain, uniform: true })
    }

    /// Normal with mean 0 and standard deviation `gain sqrt(2 / (fan_in + fan_out))`.
    ///
    /// ```
    /// use foldback_nn::init::{Init, Nonlinearity};
    /// let init = Init::xavier_normal(Nonlinearity::Tanh.gain());
    /// assert!(init.sample([8, 3], foldback_tensor::DType::F32).is_ok());
    /// ```
    pub fn xavier_normal(gain: f64) -> Init {
        Init(Law::Xavier { gain, uniform: false })
    }

    /// Kaiming's distribution by another fan; the others do not change.
    #[must_use]
    pub fn fan(mut self, fan: Fan) -> Init {
        if let Law::Kaiming { fan: own, .. } = &mut self.0 {
            *own = fan;
        }
        self
    }

    /// Normal, with this mean and standard deviation, of which only what lies in `[low, high]` is taken. PyTorch's defaults
    /// are a mean of 0, a standard deviation of 1, and `[-2, 2]`.
    ///
    /// ```
    /// use foldback_nn::Init;
    /// let t = Init::trunc_normal(0.0, 1.0, -0.5, 0.5).sample([9], foldback_tensor::DType::F32)?;
    /// assert!(t.to_vec::<f32>()?.iter().all(|v| v.abs() <= 0.5));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    pub fn trunc_normal(mean: f64, std: f64, low: f64, high: f64) -> Init {
        Init(Law::Plain(Distribution::Truncated { mean, std, low, high }))
    }

    /// The same number everywhere.
    ///
    /// ```
    /// use foldback_nn::Init;
    /// let t = Init::constant(0.5).sample([2], foldback_tensor::DType::F32)?;
    /// assert_eq!(t, foldback_tensor::tensor![0.5, 0.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[doc(alias = "zeros_")]
    #[doc(alias = "ones_")]
    pub fn constant(value: f64) -> Init {
        Init(Law::Plain(Distribution::Constant(value)))
    }

    /// The identity: ones on the diagonal of a matrix, also of one that is not square.
    ///
    /// ```
    /// use foldback_nn::Init;
    /// let t = Init::eye().sample([2, 3], foldback_tensor::DType::F32)?;
    /// assert_eq!(t, foldback_tensor::tensor![[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    pub fn eye() -> Init {
        Init(Law::Eye)
    }

    /// A random matrix whose rows, or columns where these are fewer, have length `gain` and stand upright on each other; all
    /// such matrices are equally likely. Axes behind the first are one.
    ///
    /// ```
    /// use foldback_nn::Init;
    /// use foldback_tensor::{DType, Tensor};
    /// let w = Init::orthogonal(2.0).sample([3, 2, 2], DType::F64)?.reshape([3, 4])?;
    /// let length = w.matmul(&w.t())?.sub(Tensor::eye(3).double() * 4.0)?.abs().max(..)?;
    /// assert!(length.item()? < 1e-12);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    pub fn orthogonal(gain: f64) -> Init {
        Init(Law::Orthogonal(gain))
    }

    /// A tensor of this law, from this thread's generator.
    ///
    /// # Errors
    /// `Fan` if the shape has fewer than 2 axes and the law needs fans; `MatrixShape` if it is of matrices and the shape is of
    /// none; also if the type is not a floating-point one, or the numbers of the law make no sense, as a negative spread.
    #[track_caller]
    pub fn sample(&self, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        self.draw(&mut Source::Thread, &shape.into(), dtype).here()
    }

    /// [`Init::sample`] from a generator of one's own.
    ///
    /// # Errors
    /// As [`Init::sample`].
    ///
    /// ```
    /// use foldback_nn::Init;
    /// use foldback_tensor::{DType, Generator};
    /// let sample = |seed| Init::normal(0.0, 1.0).sample_from(&mut Generator::new(seed), [4], DType::F64);
    /// assert_eq!(sample(1)?, sample(1)?);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    pub fn sample_from(
        &self,
        generator: &mut Generator,
        shape: impl Into<Shape>,
        dtype: DType,
    ) -> Result<Tensor> {
        self.draw(&mut Source::Own(generator), &shape.into(), dtype).here()
    }

    fn draw(&self, source: &mut Source<'_>, shape: &Shape, dtype: DType) -> Result<Tensor> {
        if !dtype.is_float() {
            let expected = "a floating-point type";
            return refuse(NnFacts::DType { op: "init", name: "the type", found: dtype, expected });
        }
        let (std, uniform) = match self.0 {
            Law::Plain(distribution) => return distribution.draw(source, shape, dtype),
            Law::Eye => return eye(shape, dtype),
            Law::Orthogonal(gain) => return orthogonal(source, shape, gain, dtype),
            Law::Kaiming { nonlinearity, fan, uniform } => {
                let (fan_in, fan_out) = fans(shape)?;
                let n = if fan == Fan::In { fan_in } else { fan_out };
                (nonlinearity.gain() / (n as f64).sqrt(), uniform)
            }
            Law::Xavier { gain, uniform } => {
                let (fan_in, fan_out) = fans(shape)?;
                (gain * (2.0 / (fan_in as f64 + fan_out as f64)).sqrt(), uniform)
            }
        };
        // Without elements there is no fan and nothing to draw.
        let std = if shape.numel() == 0 { 0.0 } else { std };
        let bound = 3f64.sqrt() * std;
        let distribution =
            if uniform { Distribution::Uniform(-bound, bound) } else { Distribution::Normal(0.0, std) };
        distribution.draw(source, shape, dtype)
    }
}

/// How many numbers an output is made of, and how many outputs an input goes into: `(fan_in, fan_out)`.
///
/// For a weight `[out, in, k1, k2, ...]` that is `(in k1 k2 ..., out k1 k2 ...)`.
///
/// # Errors
/// `Fan` if there are fewer than 2 axes.
///
/// ```
/// use foldback_nn::init::fans;
/// assert_eq!(fans(&[128, 64].into())?, (64, 128));
/// assert_eq!(fans(&[16, 3, 5, 5].into())?, (75, 400));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn fans(shape: &Shape) -> Result<(usize, usize)> {
    match shape.dims() {
        [out, inputs, field @ ..] => {
            let field = field.iter().fold(1usize, |n, &s| n.saturating_mul(s));
            Ok((inputs.saturating_mul(field), out.saturating_mul(field)))
        }
        _ => refuse(NnFacts::Fan { shape: shape.clone() }).here(),
    }
}

#[cfg(test)]
mod tests;
