//! The rules of broadcasting and expanding, and the picture of two shapes that do not fit.

use std::fmt;

use super::{Dims, Shape};
use crate::error::{Here, Result, TensorFacts, refuse};

/// The shape that tensors of these shapes broadcast to.
///
/// Shapes are aligned at the right; sizes must be equal or 1; a missing axis counts as 1.
///
/// # Errors
/// `Broadcast` with both shapes and the first axis, from the right, where they disagree.
///
/// ```
/// use foldback_tensor::broadcast_shapes;
/// let s = broadcast_shapes(&[&[5, 1, 4, 1], &[3, 1, 1]]).unwrap();
/// assert_eq!(s, [5, 3, 4, 1]);
/// ```
#[track_caller]
pub fn broadcast_shapes(shapes: &[&[usize]]) -> Result<Shape> {
    let mut out = Shape::scalar();
    for s in shapes {
        out = broadcast_two("broadcast_shapes", &out, s).here()?;
    }
    Ok(out)
}

/// Whether tensors of these two shapes broadcast together.
///
/// ```
/// use foldback_tensor::can_broadcast;
/// assert!(can_broadcast(&[3, 1], &[4]));
/// assert!(!can_broadcast(&[3], &[4]));
/// ```
pub fn can_broadcast(a: &[usize], b: &[usize]) -> bool {
    broadcast_two("can_broadcast", a, b).is_ok()
}

/// [`broadcast_shapes`] for two shapes, naming the operation that asked.
pub(crate) fn broadcast_two(op: &'static str, a: &[usize], b: &[usize]) -> Result<Shape> {
    if a == b {
        return Ok(Shape::from(a));
    }
    let rank = a.len().max(b.len());
    let mut out: Dims<usize> = Dims::from_elem(1, rank);
    for k in 1..=rank {
        let sa = if k <= a.len() { a[a.len() - k] } else { 1 };
        let sb = if k <= b.len() { b[b.len() - k] } else { 1 };
        if sa != sb && sa != 1 && sb != 1 {
            return refuse(TensorFacts::Broadcast {
                op,
                a: Shape::from(a),
                b: Shape::from(b),
                dim: rank - k,
            });
        }
        out[rank - k] = if sa == 1 { sb } else { sa };
    }
    Ok(Shape(out))
}

/// Whether a tensor of shape `from` can be expanded to exactly `to`.
pub(crate) fn expands_to(from: &[usize], to: &[usize]) -> bool {
    from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(|(&f, &t)| f == t || f == 1)
}

/// Refuses a shape that does not expand to `to`, naming the last axis, counted in the longer shape, on which they disagree.
pub(crate) fn expect_expansion(
    op: &'static str,
    operand: &'static str,
    from: &Shape,
    to: &Shape,
) -> Result<()> {
    if expands_to(from, to) {
        return Ok(());
    }
    refuse(from.expand_error(op, operand, to))
}

/// Shapes one above the other, aligned at the right, with a caret under the axis that disagrees.
pub(crate) struct AlignedShapes<'a> {
    pub(crate) a: &'a [usize],
    pub(crate) b: &'a [usize],
    pub(crate) dim: usize,
}

impl fmt::Display for AlignedShapes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = self.a.len().max(self.b.len());
        let cell = |s: &[usize], i: usize| {
            let missing = rank - s.len();
            if i < missing { String::new() } else { s[i - missing].to_string() }
        };
        let cells: Vec<(String, String)> = (0..rank).map(|i| (cell(self.a, i), cell(self.b, i))).collect();
        let line = |pick: &dyn Fn(&(String, String)) -> String, own: usize| {
            let mut text = String::from("[");
            for (i, c) in cells.iter().enumerate() {
                let width = c.0.len().max(c.1.len());
                let comma = if i + 1 == rank {
                    ""
                } else if i < rank - own {
                    "  "
                } else {
                    ", "
                };
                text += &format!("{:>width$}{comma}", pick(c));
            }
            text + "]"
        };
        writeln!(f, "    {}", line(&|c| c.0.clone(), self.a.len()))?;
        writeln!(f, "    {}", line(&|c| c.1.clone(), self.b.len()))?;
        let before: usize = cells[..self.dim].iter().map(|c| c.0.len().max(c.1.len()) + 2).sum();
        let width = cells[self.dim].0.len().max(cells[self.dim].1.len());
        let (a, b) = &cells[self.dim];
        write!(
            f,
            "    {:>pad$} size {a} against {b} at non-singleton dimension {}",
            "^",
            self.dim,
            pad = 1 + before + width
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_shapes_in_a_message() {
        let e = broadcast_two("add", &[5, 2, 4, 1], &[3, 1, 1]).unwrap_err().to_string();
        assert!(e.starts_with(
            "add: cannot broadcast [5, 2, 4, 1] with [3, 1, 1]\n    [5, 2, 4, 1]\n    [   3, 1, 1]\n        ^ size 2 against 3 at non-singleton dimension 1"
        ), "{e}");
    }

    #[test]
    fn zero_sizes_broadcast_with_one_only() {
        assert_eq!(broadcast_two("t", &[0], &[1]).unwrap(), [0]);
        assert!(broadcast_two("t", &[0], &[2, 2]).is_err());
        assert_eq!(broadcast_two("t", &[4, 0], &[4, 1]).unwrap(), [4, 0]);
    }

    #[test]
    fn the_last_axis_that_does_not_expand_is_named() {
        let dim = |from: &[usize], to: &[usize]| {
            let e = expect_expansion("t", "", &from.into(), &to.into()).err()?;
            let Some(TensorFacts::Expand { dim, .. }) = e.facts() else { panic!("{e:#?}") };
            Some(*dim)
        };
        assert_eq!(dim(&[2, 4], &[3, 4]), Some(0));
        assert_eq!(dim(&[2, 4], &[3, 5]), Some(1));
        assert_eq!(dim(&[2, 3], &[3]), Some(0));
        assert_eq!(dim(&[3], &[2, 4, 5]), Some(2));
        assert_eq!(dim(&[1, 1], &[1]), Some(0));
        assert_eq!(dim(&[3, 1], &[2, 3, 4]), None);
    }

    #[test]
    fn expanding() {
        assert!(expands_to(&[3, 1], &[2, 3, 4]));
        assert!(!expands_to(&[2, 3], &[3]));
        assert!(expands_to(&[1], &[0]));
    }
}
