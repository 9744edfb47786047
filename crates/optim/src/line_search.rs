//! The search for a step that satisfies the strong Wolfe conditions, by the steps of PyTorch's `LBFGS`, which follow
//! Schmidt's minFunc.

use std::ops::ControlFlow;

use foldback_tensor::Tensor;

use crate::error::Result;

/// A loss and its gradient.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) loss: f64,
    pub(crate) gradient: Tensor,
}

/// A point on the line: how far it is, what is there, and the slope along the line.
#[derive(Clone)]
struct At {
    length: f64,
    point: Point,
    slope: f64,
}

/// The share of the slope by which the loss must fall, and the one to which the slope must.
const FALL: f64 = 1e-4;
const FLATTEN: f64 = 0.9;

/// Looks along a line for a point that is low and flat enough, first from `length`, with at most so many evaluations
/// behind the first. `along` gives what is at a length, and the slope there.
pub(crate) fn strong_wolfe(
    along: impl FnMut(f64) -> Result<(Point, f64)>,
    length: f64,
    start: Point,
    slope: f64,
    largest: f64,
    tolerance: f64,
    most: usize,
) -> Result<(f64, Point)> {
    let mut search = Search { along, start, slope, tries: 0, most };
    let At { length, point, .. } = match search.bracket(length)? {
        ControlFlow::Break(found) => found,
        ControlFlow::Continue(bracket) => search.zoom(bracket, largest, tolerance)?,
    };
    Ok((length, point))
}

/// A search along a line, and what is at its start.
struct Search<F> {
    along: F,
    start: Point,
    slope: f64,
    /// evaluations behind the first
    tries: usize,
    most: usize,
}

impl<F: FnMut(f64) -> Result<(Point, f64)>> Search<F> {
    fn evaluate(&mut self, length: f64) -> Result<At> {
        let (point, slope) = (self.along)(length)?;
        Ok(At { length, point, slope })
    }

    fn begin(&self) -> At {
        At { length: 0.0, point: self.start.clone(), slope: self.slope }
    }

    fn too_high(&self, at: &At) -> bool {
        at.point.loss > self.start.loss + FALL * at.length * self.slope
    }

    fn is_flat(&self, at: &At) -> bool {
        at.slope.abs() <= -FLATTEN * self.slope
    }

    /// Farther and farther, until there is a bracket, or a point that will do.
    fn bracket(&mut self, length: f64) -> Result<ControlFlow<At, [At; 2]>> {
        let mut before = self.begin();
        let mut new = self.evaluate(length)?;
        loop {
            if self.tries >= self.most {
                return Ok(ControlFlow::Continue([self.begin(), new]));
            }
            if self.too_high(&new) || (self.tries > 1 && new.point.loss >= before.point.loss) {
                return Ok(ControlFlow::Continue([before, new]));
            }
            if self.is_flat(&new) {
                return Ok(ControlFlow::Break(new));
            }
            if new.slope >= 0.0 {
                return Ok(ControlFlow::Continue([before, new]));
            }
            let (nearest, farthest) = (new.length + 0.01 * (new.length - before.length), new.length * 10.0);
            let next = lowest_between(&before, &new, nearest, farthest);
            before = new;
            new = self.evaluate(next)?;
            self.tries += 1;
        }
    }

    /// Narrower and narrower, until a point in the bracket will do: the lower end of it.
    fn zoom(&mut self, mut bracket: [At; 2], largest: f64, tolerance: f64) -> Result<At> {
        let mut stuck = false;
        let mut low = low_of(&bracket);
        while self.tries < self.most {
            if (bracket[1].length - bracket[0].length).abs() * largest < tolerance {
                break;
            }
            let new = self.evaluate(length_within(&bracket, &mut stuck))?;
            self.tries += 1;
            let high = 1 - low;
            if self.too_high(&new) || new.point.loss >= bracket[low].point.loss {
                bracket[high] = new;
                low = low_of(&bracket);
                continue;
            }
            let done = self.is_flat(&new);
            if !done && new.slope * (bracket[high].length - bracket[low].length) >= 0.0 {
                bracket[high] = bracket[low].clone();
            }
            bracket[low] = new;
            if done {
                break;
            }
        }
        let [a, b] = bracket;
        Ok(if low == 0 { a } else { b })
    }
}

/// Where to look inside a bracket: where the cubic is lowest, but a tenth of the bracket away from an end if that is at the
/// end, or near one for the second time; `stuck` is whether it was near one the last time.
fn length_within(bracket: &[At; 2], stuck: &mut bool) -> f64 {
    let [a, b] = [bracket[0].length, bracket[1].length];
    let (left, right) = (if b < a { b } else { a }, if b > a { b } else { a });
    let length = lowest_between(&bracket[0], &bracket[1], left, right);
    let margin = 0.1 * (right - left);
    let is_near_an_end = (right - length).min(length - left) < margin;
    let at_the_end = length >= right || length <= left;
    let moved = is_near_an_end && (*stuck || at_the_end);
    *stuck = is_near_an_end && !moved;
    if !moved {
        return length;
    }
    let is_right = (length - right).abs() < (length - left).abs();
    if is_right { right - margin } else { left + margin }
}

fn low_of(bracket: &[At; 2]) -> usize {
    if bracket[0].point.loss <= bracket[1].point.loss { 0 } else { 1 }
}

/// Where the cubic through two points with these slopes is lowest, between two bounds; their middle where it has no lowest
/// point.
fn lowest_between(a: &At, b: &At, low: f64, high: f64) -> f64 {
    let (x1, f1, g1) = (a.length, a.point.loss, a.slope);
    let (x2, f2, g2) = (b.length, b.point.loss, b.slope);
    let d1 = g1 + g2 - 3.0 * (f1 - f2) / (x1 - x2);
    let square = d1 * d1 - g1 * g2;
    if square < 0.0 || square.is_nan() {
        return (low + high) / 2.0;
    }
    let d2 = square.sqrt();
    let lowest = if x1 <= x2 {
        x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2.0 * d2))
    } else {
        x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2.0 * d2))
    };
    // Not `clamp`: a NaN stays one.
    let above = if low > lowest { low } else { lowest };
    if high < above { high } else { above }
}
