//! `NamedAxes`: an assertion that axes of one name have one size.

use std::panic::Location;

use smallvec::SmallVec;

use crate::error::{Here, Result, TensorFacts, refuse};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// What the axes of shapes are called: an axis of a name that has been seen must have the size that it had then.
///
/// For the first lines of a function that takes several tensors, and for tests. Names are compared, nothing is copied or computed,
/// and nothing stays with the tensors.
///
/// ```
/// use foldback_tensor::{NamedAxes, Tensor};
/// let (x, weight, bias) = (Tensor::zeros([8, 3]), Tensor::zeros([5, 3]), Tensor::zeros([1, 5]));
/// let mut axes = NamedAxes::new();
/// let [batch, _] = axes.expect(&x, ["batch", "feature"])?;
/// axes.expect(&weight, ["out", "feature"])?;
/// assert_eq!(batch, 8);
///
/// let e = axes.expect(&bias, ["out"]).unwrap_err().to_string();
/// assert!(e.starts_with("expect: expected the axis [out], found the shape [1, 5]"), "{e}");
/// let e = axes.expect(&bias, ["batch", "out"]).unwrap_err().to_string();
/// assert!(e.starts_with("expect: axis 0 of [1, 5], batch, has size 1, but size 8 in [8, 3] (at "), "{e}");
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NamedAxes {
    seen: SmallVec<[Seen; 4]>,
}

/// A name, and where it was first met.
#[derive(Clone, Debug)]
struct Seen {
    name: &'static str,
    size: usize,
    shape: Shape,
    at: &'static Location<'static>,
}

impl NamedAxes {
    /// No names.
    pub fn new() -> NamedAxes {
        NamedAxes::default()
    }

    /// The sizes of a tensor, a variable or a shape whose axes have these names, one for each. A name that is met for the
    /// first time gets the size that the axis has; `"_"` is no name.
    ///
    /// # Errors
    /// `NamedRank` if there are not as many axes as names, `NamedSize` if an axis has another size than one of that name had
    /// before. No name has been added then.
    ///
    /// ```
    /// use foldback_tensor::{NamedAxes, Shape, Tensor};
    /// let mut axes = NamedAxes::new();
    /// axes.expect(&Tensor::zeros([4, 4, 7]), ["node", "node", "_"])?;
    /// assert!(axes.expect(&Shape::from([4, 5]), ["node", "node"]).is_err());
    /// assert!(axes.expect(&Shape::from([4, 5]), ["node", "_"]).is_ok());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn expect<const N: usize>(
        &mut self,
        shape: impl AsRef<Shape>,
        names: [&'static str; N],
    ) -> Result<[usize; N]> {
        const OP: &str = "expect";
        let (shape, known) = (shape.as_ref(), self.seen.len());
        let Ok(sizes) = <[usize; N]>::try_from(shape.dims()) else {
            let facts = TensorFacts::NamedRank { op: OP, names: names.join(", "), shape: shape.clone() };
            return refuse(facts).here();
        };
        for (axis, (&name, size)) in
            names.iter().zip(sizes).enumerate().filter(|(_, (name, _))| **name != "_")
        {
            match self.seen.iter().find(|seen| seen.name == name) {
                None => self.seen.push(Seen { name, size, shape: shape.clone(), at: Location::caller() }),
                Some(seen) if seen.size == size => {}
                Some(seen) => {
                    let (seen_in, seen_at, expected) = (seen.shape.clone(), seen.at, seen.size);
                    self.seen.truncate(known);
                    let shape = shape.clone();
                    return refuse(TensorFacts::NamedSize {
                        op: OP,
                        name,
                        axis,
                        shape,
                        expected,
                        seen_in,
                        seen_at,
                    })
                    .here();
                }
            }
        }
        Ok(sizes)
    }
}

impl AsRef<Shape> for Shape {
    fn as_ref(&self) -> &Shape {
        self
    }
}
impl AsRef<Shape> for Tensor {
    fn as_ref(&self) -> &Shape {
        self.shape()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused;

    #[test]
    fn a_name_has_one_size() {
        let mut axes = NamedAxes::new();
        assert_eq!(axes.expect(Tensor::zeros([2, 3]), ["a", "b"]).unwrap(), [2, 3]);
        assert_eq!(axes.expect(Tensor::zeros([3, 5, 2]), ["b", "c", "a"]).unwrap(), [3, 5, 2]);
        assert_eq!(axes.expect(Tensor::zeros(()), []).unwrap(), [0usize; 0]);
        assert_eq!(axes.expect(Tensor::zeros([9, 9]), ["_", "_"]).unwrap(), [9, 9]);
        let e = axes.expect(Tensor::zeros([3, 4]), ["b", "c"]);
        assert!(refused!(
            e,
            TensorFacts::NamedSize { name: "c", axis: 1, expected: 5, seen_at, .. } if seen_at.file() == file!()
        ));
        assert_eq!(e.unwrap_err().location().map(|at| at.file()), Some(file!()));
        assert!(refused!(axes.expect(Tensor::zeros([3]), ["b", "c"]), TensorFacts::NamedRank { .. }));
    }

    #[test]
    fn a_refused_shape_leaves_no_names() {
        let mut axes = NamedAxes::new();
        assert!(axes.expect(Tensor::zeros([2, 3, 4]), ["a", "b", "a"]).is_err());
        assert!(axes.expect(Tensor::zeros([7, 8]), ["a", "b"]).is_ok());
    }
}
