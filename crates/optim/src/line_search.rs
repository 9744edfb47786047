//! The search for a step that satisfies the strong Wolfe conditions, by the steps of PyTorch's `LBFGS`, which follow
//! Schmidt's minFunc.

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
    mut along: impl FnMut(f64) -> Result<(Point, f64)>,
    length: f64,
    start: Point,
    slope: f64,
    largest: f64,
    tolerance: f64,
    most: usize,
) -> Result<(f64, Point)> {
    let mut evaluate = |length: f64| -> Result<At> {
        let (point, slope) = along(length)?;
        Ok(At { length, point, slope })
    };
    let too_high = |at: &At| at.point.loss > start.loss + FALL * at.length * slope;
    let is_flat = |at: &At| at.slope.abs() <= -FLATTEN * slope;
    let mut before = At { length: 0.0, point: start.clone(), slope };
    let mut new = evaluate(length)?;
    let mut tries = 0;
    // Farther and farther, until there is a bracket.
    let mut bracket = loop {
        if tries >= most {
            break [At { length: 0.0, point: start.clone(), slope }, new];
        }
        if too_high(&new) || (tries > 1 && new.point.loss >= before.point.loss) {
            break [before, new];
        }
        if is_flat(&new) {
            return Ok((new.length, new.point));
        }
        if new.slope >= 0.0 {
            break [before, new];
        }
        let (nearest, farthest) = (new.length + 0.01 * (new.length - before.length), new.length * 10.0);
        let next = lowest_between(&before, &new, nearest, farthest);
        before = new;
        new = evaluate(next)?;
        tries += 1;
    };
    // Narrower and narrower, until a point in it will do.
    let mut stuck = false;
    let mut low = low_of(&bracket);
    while tries < most {
        let [a, b] = [bracket[0].length, bracket[1].length];
        if (b - a).abs() * largest < tolerance {
            break;
        }
        let (left, right) = (if b < a { b } else { a }, if b > a { b } else { a });
        let mut length = lowest_between(&bracket[0], &bracket[1], left, right);
        let margin = 0.1 * (right - left);
        if (right - length).min(length - left) < margin {
            let at_the_end = length >= right || length <= left;
            if stuck || at_the_end {
                let is_right = (length - right).abs() < (length - left).abs();
                length = if is_right { right - margin } else { left + margin };
                stuck = false;
            } else {
                stuck = true;
            }
        } else {
            stuck = false;
        }
        let new = evaluate(length)?;
        tries += 1;
        let high = 1 - low;
        if too_high(&new) || new.point.loss >= bracket[low].point.loss {
            bracket[high] = new;
            low = low_of(&bracket);
            continue;
        }
        let done = is_flat(&new);
        if !done && new.slope * (bracket[high].length - bracket[low].length) >= 0.0 {
            bracket[high] = bracket[low].clone();
        }
        bracket[low] = new;
        if done {
            break;
        }
    }
    let [a, b] = bracket;
    let At { length, point, .. } = if low == 0 { a } else { b };
    Ok((length, point))
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
