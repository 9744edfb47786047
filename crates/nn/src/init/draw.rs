//! Distributions with their numbers, and where random numbers come from.

use foldback_tensor::{DType, Generator, Shape, Tensor, refuse};

use crate::error::{NnFacts, Result};

/// Where random numbers come from.
pub(super) enum Source<'a> {
    /// this thread's generator
    Thread,
    Own(&'a mut Generator),
}

impl Source<'_> {
    pub(super) fn uniform(&mut self, shape: &Shape, low: f64, high: f64, dtype: DType) -> Result<Tensor> {
        match self {
            Source::Thread => Tensor::try_uniform_with(shape, low, high, dtype),
            Source::Own(g) => g.try_uniform_with(shape, low, high, dtype),
        }
    }

    pub(super) fn normal(&mut self, shape: &Shape, mean: f64, std: f64, dtype: DType) -> Result<Tensor> {
        match self {
            Source::Thread => Tensor::try_normal_with(shape, mean, std, dtype),
            Source::Own(g) => g.try_normal_with(shape, mean, std, dtype),
        }
    }
}

/// A distribution of single numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Distribution {
    /// from, below
    Uniform(f64, f64),
    /// mean, standard deviation
    Normal(f64, f64),
    Truncated {
        mean: f64,
        std: f64,
        low: f64,
        high: f64,
    },
    Constant(f64),
}

impl Distribution {
    pub(super) fn draw(self, source: &mut Source<'_>, shape: &Shape, dtype: DType) -> Result<Tensor> {
        match self {
            // An interval without width is a single number.
            Distribution::Uniform(low, high) if low == high => Tensor::try_full_with(shape, low, dtype),
            Distribution::Uniform(low, high) => source.uniform(shape, low, high, dtype),
            Distribution::Normal(mean, std) => source.normal(shape, mean, std, dtype),
            Distribution::Truncated { mean, std, low, high } => {
                Ok(truncated(source, shape, (mean, std), (low, high))?.to(dtype))
            }
            Distribution::Constant(value) => Tensor::try_full_with(shape, value, dtype),
        }
    }
}

/// Normal numbers between two bounds, in `f64`: what lies outside is drawn again. Where little lies inside, uniform numbers are taken as
/// often as the density says, or those of a tail. (PyTorch's
/// [`trunc_normal_`](https://docs.pytorch.org/docs/stable/nn.init.html#torch.nn.init.trunc_normal_).)
fn truncated(
    source: &mut Source<'_>,
    shape: &Shape,
    (mean, std): (f64, f64),
    (low, high): (f64, f64),
) -> Result<Tensor> {
    let expected = "finite, with the first bound below the second and a spread above 0";
    if !(low < high && std > 0.0 && [mean, std, low, high].iter().all(|v| v.is_finite())) {
        let (name, value) = if std > 0.0 { ("the upper bound", high) } else { ("std", std) };
        return refuse(NnFacts::Parameter { op: "trunc_normal", name, value, expected });
    }
    let bounds = Tensor::from_vec(vec![(low - mean) / std, (high - mean) / std], [2])?;
    let below: Vec<f64> = (bounds * 0.5f64.sqrt()).erf().to_vec()?;
    let much = (below[1] - below[0]) / 2.0 > 0.3;
    let log_density = |x: f64| -0.5 * ((x - mean) / std).powi(2);
    let most = log_density(mean.clamp(low, high));
    let mut draw = |shape: &Shape| -> Result<Vec<f64>> {
        if much {
            let values: Vec<f64> = source.normal(shape, mean, std, DType::F64)?.to_vec()?;
            return Ok(values.into_iter().filter(|v| (low..=high).contains(v)).collect());
        }
        if !(low..=high).contains(&mean) {
            return tail(source, shape, (mean, std), (low, high));
        }
        let values: Vec<f64> = source.uniform(shape, low, high, DType::F64)?.to_vec()?;
        let chances: Vec<f64> = source.uniform(shape, 0.0, 1.0, DType::F64)?.to_vec()?;
        let taken = values.into_iter().zip(chances).filter(|(v, p)| p.ln() <= log_density(*v) - most);
        Ok(taken.map(|(v, _)| v).collect())
    };
    let mut values = draw(shape)?;
    while values.len() < shape.numel() {
        values.append(&mut draw(&Shape::from(shape.numel() - values.len()))?);
    }
    Tensor::from_vec(values, shape)
}

/// Normal numbers between two bounds on one side of the mean: exponential distances from the nearer bound, taken as often as the density
/// says, which is often however far away the mean is (Robert, "Simulation of truncated normal variables", 1995).
fn tail(
    source: &mut Source<'_>,
    shape: &Shape,
    (mean, std): (f64, f64),
    (low, high): (f64, f64),
) -> Result<Vec<f64>> {
    let (near, outward) = if mean < low { (low, std) } else { (high, -std) };
    // In spreads: the nearer bound from the mean, where the density falls at this rate, and the bounds from one another.
    let (rate, width) = (((near - mean) / std).abs(), (high - low) / std);
    let share = -(-rate * width).exp_m1();
    let parts: Vec<f64> = source.uniform(shape, 0.0, 1.0, DType::F64)?.to_vec()?;
    let chances: Vec<f64> = source.uniform(shape, 0.0, 1.0, DType::F64)?.to_vec()?;
    let distances = parts.into_iter().map(|u| -(-u * share).ln_1p() / rate);
    let taken = distances.zip(chances).filter(|(d, p)| p.ln() <= -0.5 * d * d);
    Ok(taken.map(|(d, _)| (near + outward * d).clamp(low, high)).collect())
}
