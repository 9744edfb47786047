//! How parameters start: uniform and normal, by Kaiming and by Xavier.
//!
//! ```
//! use foldback_nn::init::{Init, Nonlinearity};
//! use foldback_tensor::{DType, manual_seed};
//! manual_seed(1);
//! let weight = Init::kaiming_normal(Nonlinearity::ReLU).sample([128, 64], DType::F32)?;
//! assert_eq!(weight.dims(), [128, 64]);
//! # Ok::<(), foldback_nn::Error>(())
//! ```

use foldback_tensor::{DType, Generator, Here, Shape, Tensor, refuse};

use crate::error::{NnFacts, Result};

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

/// A distribution of initial values.
///
/// The sources are He, Zhang, Ren and Sun, "Delving deep into rectifiers", 2015 (Kaiming), and Glorot and Bengio,
/// "Understanding the difficulty of training deep feedforward neural networks", 2010 (Xavier), in the form of PyTorch's
/// [`torch.nn.init`](https://docs.pytorch.org/docs/stable/nn.init.html).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Init {
    spread: Spread,
    uniform: bool,
}

/// Where the spread of a distribution comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spread {
    /// low and high, or mean and standard deviation
    Given(f64, f64),
    Kaiming(Nonlinearity, Fan),
    Xavier(f64),
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
        Init { spread: Spread::Given(low, high), uniform: true }
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
        Init { spread: Spread::Given(mean, std), uniform: false }
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
        Init { spread: Spread::Kaiming(nonlinearity, Fan::In), uniform: true }
    }

    /// Normal with mean 0 and standard deviation `gain / sqrt(fan_in)`. [`Init::fan`] changes the fan.
    ///
    /// ```
    /// use foldback_nn::init::{Fan, Init, Nonlinearity};
    /// let init = Init::kaiming_normal(Nonlinearity::ReLU).fan(Fan::Out);
    /// assert!(init.sample([8, 3], foldback_tensor::DType::F32).is_ok());
    /// ```
    pub fn kaiming_normal(nonlinearity: Nonlinearity) -> Init {
        Init { spread: Spread::Kaiming(nonlinearity, Fan::In), uniform: false }
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
        Init { spread: Spread::Xavier(gain), uniform: true }
    }

    /// Normal with mean 0 and standard deviation `gain sqrt(2 / (fan_in + fan_out))`.
    ///
    /// ```
    /// use foldback_nn::init::{Init, Nonlinearity};
    /// let init = Init::xavier_normal(Nonlinearity::Tanh.gain());
    /// assert!(init.sample([8, 3], foldback_tensor::DType::F32).is_ok());
    /// ```
    pub fn xavier_normal(gain: f64) -> Init {
        Init { spread: Spread::Xavier(gain), uniform: false }
    }

    /// Kaiming's distribution by another fan; the others do not change.
    #[must_use]
    pub fn fan(mut self, fan: Fan) -> Init {
        if let Spread::Kaiming(_, mode) = &mut self.spread {
            *mode = fan;
        }
        self
    }

    /// A tensor of this distribution, from this thread's generator.
    ///
    /// # Errors
    /// `Fan` if the shape has fewer than 2 axes and the distribution needs fans; also if the type is not a
    /// floating-point one or the spread is negative or not finite.
    #[track_caller]
    pub fn sample(&self, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        let shape = shape.into();
        match self.distribution(&shape).here()? {
            Distribution::Uniform(low, high) => Tensor::try_uniform_with(shape, low, high, dtype),
            Distribution::Normal(mean, std) => Tensor::try_normal_with(shape, mean, std, dtype),
        }
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
        let shape = shape.into();
        match self.distribution(&shape).here()? {
            Distribution::Uniform(low, high) => generator.try_uniform_with(shape, low, high, dtype),
            Distribution::Normal(mean, std) => generator.try_normal_with(shape, mean, std, dtype),
        }
    }

    fn distribution(&self, shape: &Shape) -> Result<Distribution> {
        let std = match self.spread {
            Spread::Given(low, high) if self.uniform => return Ok(Distribution::uniform(low, high)),
            Spread::Given(mean, std) => return Ok(Distribution::Normal(mean, std)),
            Spread::Kaiming(nonlinearity, fan) => {
                let (fan_in, fan_out) = fans(shape)?;
                let n = if fan == Fan::In { fan_in } else { fan_out };
                nonlinearity.gain() / (n as f64).sqrt()
            }
            Spread::Xavier(gain) => {
                let (fan_in, fan_out) = fans(shape)?;
                gain * (2.0 / (fan_in as f64 + fan_out as f64)).sqrt()
            }
        };
        // Without elements there is no fan and nothing to draw.
        let std = if shape.numel() == 0 { 0.0 } else { std };
        let bound = 3f64.sqrt() * std;
        Ok(if self.uniform { Distribution::uniform(-bound, bound) } else { Distribution::Normal(0.0, std) })
    }
}

/// A distribution with its numbers.
enum Distribution {
    /// from, below
    Uniform(f64, f64),
    /// mean, standard deviation
    Normal(f64, f64),
}

impl Distribution {
    /// An interval without width is a single number.
    fn uniform(low: f64, high: f64) -> Distribution {
        if low == high { Distribution::Normal(low, 0.0) } else { Distribution::Uniform(low, high) }
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
mod tests {
    use super::*;

    /// Mean, variance, and largest magnitude of 120,000 values.
    fn statistics(init: Init) -> (f64, f64, f64) {
        let t = init.sample_from(&mut Generator::new(11), [400, 300], DType::F64).unwrap();
        let values: Vec<f64> = t.to_vec().unwrap();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
        (mean, variance, values.iter().fold(0.0, |m, v| m.max(v.abs())))
    }

    #[test]
    fn spread_by_fans_and_gain() {
        let (fan_in, fan_out) = (300f64, 400f64);
        let relu = Nonlinearity::ReLU;
        let slope = Nonlinearity::LeakyReLU(5f64.sqrt());
        let cases = [
            (Init::kaiming_uniform(relu), 2.0 / fan_in),
            (Init::kaiming_uniform(relu).fan(Fan::Out), 2.0 / fan_out),
            (Init::kaiming_uniform(slope), 1.0 / 3.0 / fan_in),
            (Init::kaiming_normal(relu), 2.0 / fan_in),
            (Init::kaiming_normal(Nonlinearity::Tanh).fan(Fan::Out), 25.0 / 9.0 / fan_out),
            (Init::xavier_uniform(1.0), 2.0 / (fan_in + fan_out)),
            (Init::xavier_normal(2.0), 8.0 / (fan_in + fan_out)),
            (Init::normal(0.0, 0.5), 0.25),
            (Init::uniform(-1.0, 1.0), 1.0 / 3.0),
        ];
        let n = fan_in * fan_out;
        for (init, expected) in cases {
            let (mean, variance, largest) = statistics(init);
            // 5 standard errors: of a mean, and of the variance of a normal distribution (a uniform one has less).
            assert!(mean.abs() < 5.0 * (expected / n).sqrt(), "{init:?}: mean {mean}");
            let error = (variance / expected - 1.0).abs();
            assert!(error < 5.0 * (2.0 / n).sqrt(), "{init:?}: variance {variance}, expected {expected}");
            if init.uniform {
                let bound = (3.0 * expected).sqrt();
                assert!(largest <= bound && largest > 0.999 * bound, "{init:?}: {largest} of {bound}");
            } else {
                assert!(largest > 3.9 * expected.sqrt(), "{init:?}: a normal distribution has tails");
            }
        }
    }

    #[test]
    fn gains() {
        // PyTorch's calculate_gain
        let gains = [
            (Nonlinearity::Linear, 1.0),
            (Nonlinearity::Sigmoid, 1.0),
            (Nonlinearity::Tanh, 1.666_666_666_666_666_7),
            (Nonlinearity::LeakyReLU(0.01), 1.414_142_856_997_835_4),
            (Nonlinearity::LeakyReLU(0.0), Nonlinearity::ReLU.gain()),
            (Nonlinearity::SELU, 0.75),
        ];
        for (nonlinearity, gain) in gains {
            assert!((nonlinearity.gain() - gain).abs() < 1e-15, "{nonlinearity:?}");
        }
    }

    #[test]
    fn refusals() {
        let init = Init::kaiming_uniform(Nonlinearity::Linear);
        let e = init.sample([3], DType::F32).unwrap_err().with_location(None).to_string();
        assert_eq!(
            e,
            "init: fan in and fan out need at least 2 axes, found shape [3]: give [out, in], or another initialisation"
        );
        assert!(Init::xavier_normal(1.0).sample((), DType::F32).is_err());
        assert!(init.sample([3, 3], DType::I64).is_err());
        assert!(Init::xavier_normal(-1.0).sample([3, 3], DType::F32).is_err());
        assert!(Init::uniform(1.0, -1.0).sample([3, 3], DType::F32).is_err());
        assert!(Init::normal(0.0, f64::NAN).sample([3, 3], DType::F32).is_err());
    }

    #[test]
    fn nothing_to_initialise() {
        for init in [
            Init::kaiming_uniform(Nonlinearity::ReLU),
            Init::kaiming_normal(Nonlinearity::ReLU),
            Init::xavier_uniform(1.0),
        ] {
            assert_eq!(init.sample([3, 0], DType::F32).unwrap().dims(), [3, 0]);
        }
        let constant = Init::uniform(2.0, 2.0).sample([2], DType::F32).unwrap();
        assert_eq!(constant, foldback_tensor::tensor![2.0, 2.0]);
    }
}
