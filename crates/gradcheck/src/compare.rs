//! Gradients against central differences of a weighted sum, and the worst disagreement. See [`Check`](crate::Check).
//!
//! Note [Kinks]
//! Where a function is smooth, the differences to either side of a point agree up to `h` times its curvature. They do not at a
//! kink or a jump, and a central difference across one is no derivative: no gradient is confirmed by it, and none refuted.
//! Shorter steps tell. Curvature parts the sides in proportion to the step, a kink at the point by as much as before, and one
//! beside it not at all, once the step no longer reaches it. So a disagreement counts if it is there at shorter steps, too, and
//! is no kink's; and where the sides are apart by much, a kink is looked for even if the gradient agrees.

use foldback_tensor::{Shape, Tensor};

use crate::error::{Argument, Order, Place, Result};
use crate::random::Random;
use crate::target::{CheckedFunction, numbers, values};

/// How to compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precision {
    pub(crate) step: f64,
    pub(crate) tolerance: f64,
    /// arguments up to this size are varied element by element
    pub(crate) elements: usize,
}

/// A function at a point.
#[derive(Clone)]
pub(crate) struct Problem<'a> {
    pub(crate) target: &'a dyn CheckedFunction,
    pub(crate) precision: Precision,
    pub(crate) arguments: Vec<(Argument, Tensor)>,
    /// the arguments' elements
    pub(crate) start: Vec<Vec<f64>>,
    /// the outputs' elements there
    pub(crate) here: Vec<f64>,
    pub(crate) shapes: Vec<Shape>,
}

/// What was found along a direction.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) argument: Argument,
    pub(crate) place: Place,
    pub(crate) direction: Vec<Vec<f64>>,
    pub(crate) analytical: f64,
    pub(crate) numerical: f64,
    pub(crate) tolerance: f64,
    /// the slopes on either side, at a kink
    pub(crate) sides: Option<(f64, f64)>,
}

/// What a comparison comes to.
#[derive(Default)]
pub(crate) struct Findings {
    /// the worst disagreement, in units of its tolerance
    pub(crate) worst: Option<(f64, Finding)>,
    /// where the function is not smooth
    pub(crate) kinks: Vec<Finding>,
}

/// A kink that parts the slopes on either side by less, of the size of what is compared, is not looked for.
const VISIBLE: f64 = 1e-4;

/// How many times shorter the shorter steps are; the shortest is longer than what is lost to rounding.
const FINE: f64 = 16.0;
const FINEST: f64 = 256.0;

/// A slope of the weighted sum along a direction.
struct Slope {
    analytical: f64,
    numerical: f64,
    /// what it is relative to
    size: f64,
    /// the part of that which is the values'
    values: f64,
    /// by how much the slopes on either side differ, output for output
    gap: f64,
}

impl Slope {
    fn error(&self) -> f64 {
        (self.analytical - self.numerical).abs()
    }

    /// Whether the function jumps by as much to either side, as a sign does at 0: the slope is the steeper, the shorter the step.
    fn jumps_since(&self, wide: &Slope) -> bool {
        let steep = self.numerical.abs();
        steep > VISIBLE * (1.0 + self.values) && steep > wide.numerical.abs() * FINEST / 8.0
    }

    /// What is left of the error where the difference is carried on to a step of nothing, from one of a step that was so many
    /// times longer: both are wrong by the square of their step (Richardson, "The approximate arithmetical solution by finite
    /// differences", 1911). It is what tells a steep function, such as a logarithm near 0, from a wrong gradient.
    fn beyond(&self, longer: &Slope, times: f64) -> f64 {
        (self.analytical - self.numerical - (self.numerical - longer.numerical) / (times * times - 1.0)).abs()
    }
}

/// The outputs to either side of a point, and how far it is to them.
pub(crate) struct Sides {
    step: f64,
    above: Vec<f64>,
    below: Vec<f64>,
    pub(crate) ahead: Vec<Vec<f64>>,
    pub(crate) behind: Vec<Vec<f64>>,
}

impl Sides {
    /// What each output changes by, per step.
    pub(crate) fn slopes(&self) -> impl Iterator<Item = f64> {
        self.above
            .iter()
            .zip(&self.below)
            .map(|(a, b)| if a == b { 0.0 } else { (a - b) / (2.0 * self.step) })
    }
}

/// Moves a point along a direction; elements larger than 1 in proportion.
pub(crate) fn moved(start: &[Vec<f64>], direction: &[Vec<f64>], step: f64) -> Vec<Vec<f64>> {
    let one = |(x, d): (&f64, &f64)| x + step * d * x.abs().max(1.0);
    start.iter().zip(direction).map(|(x, d)| x.iter().zip(d).map(one).collect()).collect()
}

impl<'a> Problem<'a> {
    pub(crate) fn new(
        target: &'a dyn CheckedFunction,
        shapes: Vec<Shape>,
        precision: Precision,
    ) -> Result<Problem<'a>> {
        let arguments = target.arguments();
        let start = arguments.iter().map(|(_, t)| numbers(t)).collect::<Result<Vec<_>>>()?;
        let here = values(target, &start, &shapes.iter().collect::<Vec<_>>())?;
        Ok(Problem { target, precision, arguments, start, here, shapes })
    }

    pub(crate) fn order(&self) -> Order {
        self.target.order()
    }

    /// A direction that goes nowhere.
    pub(crate) fn still(&self) -> Vec<Vec<f64>> {
        self.start.iter().map(|v| vec![0.0; v.len()]).collect()
    }

    pub(crate) fn sides(&self, direction: &[Vec<f64>], step: f64) -> Result<Sides> {
        let (ahead, behind) = (moved(&self.start, direction, step), moved(&self.start, direction, -step));
        let shapes: Vec<&Shape> = self.shapes.iter().collect();
        let (above, below) = (values(self.target, &ahead, &shapes)?, values(self.target, &behind, &shapes)?);
        Ok(Sides { step, above, below, ahead, behind })
    }

    /// Varies each argument along a random direction and, if it is small, in every element; then all together.
    pub(crate) fn solve(
        &self,
        weights: &[f64],
        gradients: &[Vec<f64>],
        random: &mut Random,
    ) -> Result<Findings> {
        let mut findings = Findings::default();
        let mut together = self.still();
        for (k, (argument, point)) in self.arguments.iter().enumerate() {
            let mut direction = self.still();
            direction[k].fill_with(|| random.signed(0.5, 1.0));
            together[k].fill_with(|| random.signed(0.5, 1.0));
            let len = direction[k].len();
            findings.add(self.vary(weights, gradients, direction, *argument, Place::Direction)?);
            if len > self.precision.elements {
                continue;
            }
            for e in 0..len {
                let mut direction = self.still();
                direction[k][e] = 1.0;
                let place = Place::Element(unravel(e, point.dims()));
                findings.add(self.vary(weights, gradients, direction, *argument, place)?);
            }
        }
        if self.arguments.len() > 1 {
            findings.add(self.vary(weights, gradients, together, Argument::All, Place::Direction)?);
        }
        Ok(findings)
    }

    /// Compares along a direction: the disagreement in units of the tolerance, and what was found. See Note [Kinks].
    fn vary(
        &self,
        weights: &[f64],
        gradients: &[Vec<f64>],
        direction: Vec<Vec<f64>>,
        argument: Argument,
        place: Place,
    ) -> Result<(f64, Finding)> {
        let at = |step: f64| -> Result<(Sides, Slope)> {
            let sides = self.sides(&direction, step)?;
            let slope = self.slope(&sides, weights, gradients, &direction);
            Ok((sides, slope))
        };
        let step = self.precision.step;
        let (sides, wide) = at(step)?;
        let tolerance = self.precision.tolerance * wide.size;
        // An element is divided by its scale, so that the report shows its gradient and no multiple of it.
        let scale = match &place {
            Place::Direction => 1.0,
            _ => {
                let pairs = direction.iter().zip(&self.start).flat_map(|(d, x)| d.iter().zip(x));
                pairs.map(|(d, x)| d * x.abs().max(1.0)).sum()
            }
        };
        let mut finding = Finding {
            argument,
            place,
            analytical: wide.analytical / scale,
            numerical: wide.numerical / scale,
            tolerance: tolerance / scale,
            sides: None,
            direction: Vec::new(),
        };
        let mut excess = wide.error() / tolerance;
        let agrees = excess <= 1.0 && wide.gap <= VISIBLE * wide.size;
        if !agrees && !wide.analytical.is_nan() {
            let (fine, finest) = (at(step / FINE)?.1, at(step / FINEST)?.1);
            let errors = [fine.error(), finest.error(), finest.beyond(&fine, FINEST / FINE)];
            let left = errors.into_iter().fold(f64::NAN, f64::min);
            if finest.jumps_since(&wide) && left > tolerance || is_kink(&wide, &finest, left, tolerance) {
                finding.sides = Some((
                    self.side(&sides.below, &sides, weights, -scale),
                    self.side(&sides.above, &sides, weights, scale),
                ));
            }
            // What is not finite beside the point may be so closer by: the smaller of a number and NaN is the number.
            excess = excess.min(left / tolerance);
        }
        finding.direction = direction;
        Ok((if excess.is_nan() { f64::INFINITY } else { excess }, finding))
    }

    /// The slope along a direction by gradients and by differences.
    fn slope(&self, sides: &Sides, weights: &[f64], gradients: &[Vec<f64>], direction: &[Vec<f64>]) -> Slope {
        let (mut numerical, mut values) = (0.0, 0.0);
        for ((slope, a), w) in sides.slopes().zip(&sides.above).zip(weights) {
            // What does not change contributes neither to the difference nor to its rounding.
            if slope != 0.0 {
                numerical += w * slope;
                values += (w * a).abs();
            }
        }
        let (mut analytical, mut size) = (0.0, 1.0 + values);
        let gone = sides.ahead.iter().zip(&sides.behind).zip(gradients.iter().zip(direction));
        for ((ahead, behind), (gradient, direction)) in gone {
            for (i, g) in gradient.iter().enumerate().filter(|&(i, _)| direction[i] != 0.0) {
                // The distance that was gone, not the one that was meant: x + h is rounded.
                let part = g * ((ahead[i] - behind[i]) / (2.0 * sides.step));
                analytical += part;
                size += part.abs();
            }
        }
        Slope { analytical, numerical, size, values, gap: self.gap(sides, weights) }
    }

    /// The slope of the weighted sum on one side.
    fn side(&self, values: &[f64], sides: &Sides, weights: &[f64], scale: f64) -> f64 {
        let pairs = values.iter().zip(&self.here).zip(weights);
        pairs.map(|((v, here), w)| w * (v - here)).sum::<f64>() / (sides.step * scale)
    }

    /// By how much the slopes on either side differ, output for output.
    fn gap(&self, sides: &Sides, weights: &[f64]) -> f64 {
        let outputs = sides.above.iter().zip(&sides.below).zip(self.here.iter().zip(weights));
        outputs.map(|((a, b), (here, w))| (w * ((a - here) - (here - b)) / sides.step).abs()).sum()
    }

    /// Whether there is a kink along a direction that a gradient of the size of the outputs would show.
    pub(crate) fn is_rough(&self, sides: &Sides, direction: &[Vec<f64>]) -> Result<bool> {
        let (weights, none) = (vec![1.0; self.here.len()], self.still());
        let wide = self.slope(sides, &weights, &none, direction);
        if wide.gap <= VISIBLE * wide.size && wide.numerical.abs() <= wide.size {
            return Ok(false);
        }
        let finest = self.sides(direction, sides.step / FINEST)?;
        let finest = self.slope(&finest, &weights, &none, direction);
        // There is no gradient to be wrong.
        Ok(finest.jumps_since(&wide) || is_kink(&Slope { numerical: 0.0, ..wide }, &finest, 0.0, 0.0))
    }
}

/// Whether the sides are apart by a kink or a jump: as much at the finest step as at the widest, or enough to explain the
/// error that is left there and not as curvature would.
fn is_kink(wide: &Slope, finest: &Slope, left: f64, tolerance: f64) -> bool {
    let error = wide.error();
    let matters = wide.gap > VISIBLE * wide.size || error > tolerance && wide.gap >= 1.9 * error;
    let explains = left > tolerance && finest.gap >= 1.9 * left;
    let curvature = wide.gap / FINEST;
    matters && (finest.gap > wide.gap / 4.0 || explains && (finest.gap - curvature).abs() > curvature / 4.0)
}

impl Findings {
    fn add(&mut self, (excess, finding): (f64, Finding)) {
        if finding.sides.is_some() {
            self.kinks.push(finding);
        } else if excess > 1.0 && self.worst.as_ref().is_none_or(|(worst, _)| excess > *worst) {
            self.worst = Some((excess, finding));
        }
    }

    /// What is to be reported: beside a kink, a disagreement along a direction may be the kink's.
    pub(crate) fn verdict(&self) -> Option<&Finding> {
        match (&self.worst, self.kinks.first()) {
            (Some((_, finding)), None) => Some(finding),
            (Some((_, finding)), Some(_)) if matches!(finding.place, Place::Element(_)) => Some(finding),
            (_, _) => {
                let is_element = |f: &&Finding| matches!(f.place, Place::Element(_));
                self.kinks.iter().find(is_element).or(self.kinks.first())
            }
        }
    }
}

/// The indices of an element from its number in row-major order.
pub(crate) fn unravel(mut number: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (i, &n) in index.iter_mut().zip(dims).rev() {
        *i = number % n;
        number /= n;
    }
    index
}
