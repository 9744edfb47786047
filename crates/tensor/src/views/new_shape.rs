//! `NewShape`: a shape in which -1 has a meaning, as callers write it.

use crate::error::{Result, TensorFacts, refuse};
use crate::meant::Meant;
use crate::shape::{Dims, Shape};

/// A shape for elements that there already are, in which -1 stands for a size that follows from them: one in `reshape`,
/// `view` and `from_vec`, where it makes the number of elements right, and any in `expand`, where it keeps an axis.
///
/// Made from a number, an array, a slice or a `Vec` of `i32`, `i64`, `isize` or `usize`, from a tuple that mixes these,
/// from `()` and from a [`Shape`]. In an array of `usize`, which cannot hold -1, `usize::MAX` means it.
///
/// ```
/// use foldback_tensor::Tensor;
/// let (x, n) = (Tensor::zeros([2, 3, 4]), 6usize);
/// assert_eq!(x.reshape([-1, 4])?.dims(), [6, 4]);
/// assert_eq!(x.reshape((n, -1))?.dims(), [6, 4]);
/// assert_eq!(x.reshape([n, usize::MAX])?.dims(), [6, 4]);
/// assert_eq!(Tensor::zeros([3, 1]).expand((n, -1, 4))?.dims(), [6, 3, 4]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
// A negative number as its two's complement, which is no size of any tensor, so that a shape becomes this as it is.
#[derive(Clone)]
pub struct NewShape {
    sizes: Dims<usize>,
    /// whether the sizes are those of a [`Shape`], so that nobody has written them here
    is_copy: bool,
}

/// What -1 is.
const OPEN: usize = usize::MAX;

fn is_negative(size: usize) -> bool {
    size > isize::MAX as usize
}

impl NewShape {
    /// Which axes have a 1 that is written here: they are meant.
    pub(crate) fn written_ones(&self) -> Meant {
        if self.is_copy {
            Meant::NONE
        } else {
            Meant::written(self.sizes.len(), |axis| self.sizes[axis] == 1)
        }
    }

    /// The shape for so many elements: one size may be open.
    pub(crate) fn holding(self, op: &'static str, elements: usize) -> Result<Shape> {
        let mut shape = Shape(self.sizes);
        let open = shape.iter().position(|&s| s == OPEN);
        if let Some(open) = open {
            shape[open] = 1;
            let known = shape.numel();
            shape[open] = if known == 0 || !elements.is_multiple_of(known) { OPEN } else { elements / known };
        }
        if shape.iter().any(|&s| is_negative(s)) || shape.numel() != elements {
            if let Some(open) = open {
                shape[open] = OPEN;
            }
            return refuse(TensorFacts::ElementCount {
                op,
                shape: NewShape::from(shape).to_string(),
                elements,
            });
        }
        Ok(shape)
    }

    /// The shape for a tensor of another to be expanded to: an open size is that of the tensor's own axis.
    pub(crate) fn expanding(self, op: &'static str, own: &Shape) -> Result<Shape> {
        if !self.sizes.iter().any(|&s| is_negative(s)) {
            return Ok(Shape(self.sizes));
        }
        let mut shape = Shape(self.sizes.clone());
        let rank = shape.rank();
        for (i, size) in shape.iter_mut().enumerate().filter(|(_, size)| is_negative(**size)) {
            let axis = (i + own.rank()).checked_sub(rank);
            match axis {
                Some(axis) if *size == OPEN => *size = own[axis],
                _ => {
                    return refuse(TensorFacts::Parameter {
                        op,
                        name: "shape",
                        value: self.to_string(),
                        expected: "sizes, and -1 only for axes that the tensor has",
                    });
                }
            }
        }
        Ok(shape)
    }
}

impl PartialEq for NewShape {
    /// Whether the sizes are the same.
    fn eq(&self, other: &NewShape) -> bool {
        self.sizes[..] == other.sizes[..]
    }
}
impl Eq for NewShape {}

impl std::fmt::Display for NewShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.sizes.iter().map(|&s| s as isize)).finish()
    }
}
impl std::fmt::Debug for NewShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl From<()> for NewShape {
    fn from(_: ()) -> NewShape {
        NewShape { sizes: Dims::new(), is_copy: false }
    }
}
impl From<&Shape> for NewShape {
    fn from(shape: &Shape) -> NewShape {
        NewShape::from(shape.clone())
    }
}
impl From<Shape> for NewShape {
    fn from(shape: Shape) -> NewShape {
        NewShape { sizes: shape.0, is_copy: true }
    }
}

/// A number that a [`NewShape`] is written with.
pub trait NewSize: Copy {
    #[doc(hidden)]
    fn size(self) -> usize;
}

macro_rules! new_sizes {
    ($($t:ty: |$n:ident| $size:expr;)*) => {$(
        impl NewSize for $t {
            #[inline]
            fn size(self) -> usize {
                let $n = self;
                $size
            }
        }
    )*};
}
new_sizes! {
    i32: |n| n as isize as usize;
    // What no isize holds is no size of any tensor; isize::MAX is refused as such.
    i64: |n| isize::try_from(n).unwrap_or(isize::MAX) as usize;
    isize: |n| n as usize;
    usize: |n| n;
}

impl<S: NewSize> From<S> for NewShape {
    fn from(n: S) -> NewShape {
        NewShape::from([n])
    }
}
impl<S: NewSize, const N: usize> From<[S; N]> for NewShape {
    fn from(sizes: [S; N]) -> NewShape {
        NewShape::from(&sizes[..])
    }
}
impl<S: NewSize, const N: usize> From<&[S; N]> for NewShape {
    fn from(sizes: &[S; N]) -> NewShape {
        NewShape::from(&sizes[..])
    }
}
impl<S: NewSize> From<&[S]> for NewShape {
    fn from(sizes: &[S]) -> NewShape {
        NewShape { sizes: sizes.iter().map(|n| n.size()).collect(), is_copy: false }
    }
}
impl<S: NewSize> From<&Vec<S>> for NewShape {
    fn from(sizes: &Vec<S>) -> NewShape {
        NewShape::from(&sizes[..])
    }
}
impl<S: NewSize> From<Vec<S>> for NewShape {
    fn from(sizes: Vec<S>) -> NewShape {
        NewShape::from(&sizes[..])
    }
}

macro_rules! from_tuples {
    ($($($s:ident $x:ident)+;)*) => {$(
        impl<$($s: NewSize),+> From<($($s,)+)> for NewShape {
            fn from(($($x,)+): ($($s,)+)) -> NewShape {
                NewShape::from(&[$($x.size()),+])
            }
        }
    )*};
}
from_tuples! {
    A a;
    A a B b;
    A a B b C c;
    A a B b C c D d;
    A a B b C c D d E e;
    A a B b C c D d E e F f;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_one() {
        let want = NewShape::from([2, -1]);
        for other in [
            NewShape::from((2usize, -1)),
            NewShape::from((2i32, -1i64)),
            NewShape::from((2isize, usize::MAX)),
            NewShape::from([2usize, usize::MAX]),
            NewShape::from(&[2i64, -1]),
            NewShape::from(vec![2isize, -1]),
            NewShape::from(&vec![2, -1]),
            NewShape::from(Shape::from([2, usize::MAX])),
        ] {
            assert_eq!(other, want);
        }
        assert_eq!(NewShape::from(3).holding("f", 3).unwrap(), [3]);
        assert_eq!(NewShape::from(-1).holding("f", 3).unwrap(), [3]);
        assert_eq!(NewShape::from(()).holding("f", 1).unwrap(), Shape::scalar());
        assert_eq!(format!("{:?}", NewShape::from((2usize, -1, -7))), "[2, -1, -7]");
    }
}
