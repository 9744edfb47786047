//! Gradients against central differences of a weighted sum, and the worst disagreement. See [`Check`](crate::Check).

use foldback_tensor::{Tensor, refuse};

use crate::error::{Argument, GradcheckFacts, Order, Place, Result};
use crate::random::Random;

/// A function's elements, from the elements of each argument.
pub(crate) type Values<'a> = &'a dyn Fn(&[Vec<f64>]) -> Result<Vec<f64>>;

/// What is compared with what.
pub(crate) struct Problem<'a> {
    pub(crate) order: Order,
    /// what the function is varied by: which argument, its value, what is said to be its gradient
    pub(crate) arguments: Vec<(Argument, Vec<f64>, Tensor)>,
    /// the function's elements at other values of the arguments
    pub(crate) values: Values<'a>,
    /// the weight of each element in the sum
    pub(crate) weights: Vec<f64>,
}

/// How to compare.
#[derive(Clone, Copy)]
pub(crate) struct Precision {
    pub(crate) step: f64,
    pub(crate) tolerance: f64,
    /// arguments up to this size are varied element by element
    pub(crate) elements: usize,
}

/// The worst disagreement so far, in units of its tolerance.
struct Worst {
    excess: f64,
    found: Option<GradcheckFacts>,
}

impl Problem<'_> {
    /// Varies each argument along a random direction and, if it is small, in every element; then all together.
    pub(crate) fn solve(&self, precision: Precision, random: &mut Random) -> Result<()> {
        let mut worst = Worst { excess: 1.0, found: None };
        let start: Vec<Vec<f64>> = self.arguments.iter().map(|a| a.1.clone()).collect();
        let still: Vec<Vec<f64>> = start.iter().map(|v| vec![0.0; v.len()]).collect();
        let mut together = still.clone();
        for (k, (argument, _, gradient)) in self.arguments.iter().enumerate() {
            let len = start[k].len();
            let mut direction = still.clone();
            direction[k].fill_with(|| random.signed(0.5, 1.0));
            together[k].fill_with(|| random.signed(0.5, 1.0));
            self.vary(&start, &direction, precision, *argument, Place::Direction, &mut worst)?;
            if len > precision.elements {
                continue;
            }
            for e in 0..len {
                direction[k].fill(0.0);
                direction[k][e] = 1.0;
                let place = Place::Element(unravel(e, gradient.dims()));
                self.vary(&start, &direction, precision, *argument, place, &mut worst)?;
            }
        }
        if self.arguments.len() > 1 {
            self.vary(&start, &together, precision, Argument::All, Place::Direction, &mut worst)?;
        }
        worst.found.map_or(Ok(()), refuse)
    }

    fn vary(
        &self,
        start: &[Vec<f64>],
        direction: &[Vec<f64>],
        precision: Precision,
        argument: Argument,
        place: Place,
        worst: &mut Worst,
    ) -> Result<()> {
        let step = precision.step;
        let moved = |sign: f64| -> Vec<Vec<f64>> {
            let one = |(x, d): (&f64, &f64)| x + sign * step * d * x.abs().max(1.0);
            start.iter().zip(direction).map(|(x, d)| x.iter().zip(d).map(one).collect()).collect()
        };
        let (ahead, behind) = (moved(1.0), moved(-1.0));
        let (above, below) = ((self.values)(&ahead)?, (self.values)(&behind)?);
        let (mut numerical, mut magnitude) = (0.0, 0.0);
        for ((a, b), w) in above.iter().zip(&below).zip(&self.weights) {
            // What does not change contributes neither to the difference nor to its rounding.
            if a != b {
                numerical += w * (a - b) / (2.0 * step);
                magnitude += (w * a).abs();
            }
        }
        let mut analytical = 0.0;
        for (k, (_, _, gradient)) in self.arguments.iter().enumerate() {
            if direction[k].iter().all(|&d| d == 0.0) {
                continue;
            }
            let gradient = gradient.to_vec::<f64>()?;
            for (i, g) in gradient.into_iter().enumerate().filter(|&(i, _)| direction[k][i] != 0.0) {
                // The distance that was gone, not the one that was meant: x + h is rounded.
                let part = g * ((ahead[k][i] - behind[k][i]) / (2.0 * step));
                analytical += part;
                magnitude += part.abs();
            }
        }
        let tolerance = precision.tolerance * (1.0 + magnitude);
        let excess = (analytical - numerical).abs() / tolerance;
        // An element is divided by its scale, so that the report shows its gradient and no multiple of it.
        if excess.is_nan() || excess > worst.excess {
            let scale = match &place {
                Place::Direction => 1.0,
                _ => direction
                    .iter()
                    .zip(start)
                    .flat_map(|(d, x)| d.iter().zip(x))
                    .map(|(d, x)| d * x.abs().max(1.0))
                    .sum(),
            };
            worst.excess = if excess.is_nan() { f64::INFINITY } else { excess };
            worst.found = Some(GradcheckFacts::Gradient {
                order: self.order,
                argument,
                place,
                analytical: analytical / scale,
                numerical: numerical / scale,
                tolerance: tolerance / scale,
            });
        }
        Ok(())
    }
}

/// The indices of an element from its number in row-major order.
fn unravel(mut number: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (i, &n) in index.iter_mut().zip(dims).rev() {
        *i = number % n;
        number /= n;
    }
    index
}
