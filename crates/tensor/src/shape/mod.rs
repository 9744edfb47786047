//! Shapes: sizes per dimension, how callers write them, and the rules of broadcasting.

mod broadcast;
mod strides;

use std::fmt;
use std::ops::{Deref, DerefMut};

pub(crate) use broadcast::{AlignedShapes, broadcast_two, expands_to, expect_expansion};
pub use broadcast::{broadcast_shapes, can_broadcast};
pub use strides::Strides;

use crate::axes::Axis;
pub(crate) use crate::dims::Dims;
use crate::error::{Here, Result, TensorFacts, refuse};

/// The sizes of a tensor, outermost axis first.
///
/// Functions take `impl Into<Shape>`: a number, an array, a tuple, a slice, a `Vec` or another shape.
///
/// ```
/// use foldback_tensor::Shape;
/// let s = Shape::from([2, 3]);
/// assert_eq!(s.numel(), 6);
/// assert_eq!(s.rank(), 2);
/// assert_eq!(s.to_string(), "[2, 3]");
/// assert_eq!(s, Shape::from((2, 3)));
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Shape(pub(crate) Dims<usize>);

impl Shape {
    /// The shape of a single number, `[]`.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// How many axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// How many elements: the product of the sizes, 1 for `[]`.
    ///
    /// A product that overflows saturates; no tensor of such a shape can exist.
    #[inline]
    pub fn numel(&self) -> usize {
        self.0.iter().fold(1, |product, &size| product.saturating_mul(size))
    }

    /// The sizes as a slice.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The sizes as an array, for a pattern: `let [n, d] = shape.sizes()?`.
    ///
    /// # Errors
    /// `Sizes` if there are not as many axes as the pattern has names.
    ///
    /// ```
    /// use foldback_tensor::Tensor;
    /// let x = Tensor::zeros([2, 3]);
    /// let [n, d] = x.shape().sizes()?;
    /// assert_eq!((n, d), (2, 3));
    /// let e = x.shape().sizes::<3>().unwrap_err();
    /// assert!(e.to_string().starts_with("sizes: expected 3 axes, found 2: the shape is [2, 3] (at "));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn sizes<const N: usize>(&self) -> Result<[usize; N]> {
        match self.dims().try_into() {
            Ok(sizes) => Ok(sizes),
            Err(_) => refuse(TensorFacts::Sizes { op: "sizes", expected: N, shape: self.clone() }).here(),
        }
    }

    /// Row-major strides of this shape, in elements.
    #[inline]
    pub(crate) fn row_major(&self) -> Dims<isize> {
        if let [_] = self.0[..] {
            return Dims::from_elem(1, 1);
        }
        let mut strides: Dims<isize> = Dims::from_elem(0, self.rank());
        let mut step = 1isize;
        for (stride, &size) in strides.iter_mut().zip(self.0.iter()).rev() {
            *stride = step;
            step = step.saturating_mul(size.max(1) as isize);
        }
        strides
    }

    /// The facts of an operation in which this shape should expand to `to` and does not: it names the last axis, counted in
    /// the longer shape, on which the two disagree, and the operand that has this shape, if that is not the tensor itself.
    ///
    /// ```
    /// use foldback_tensor::{Shape, TensorFacts};
    /// let facts = Shape::from([2, 4]).expand_error("sum_to_size", "", &Shape::from([3, 4]));
    /// assert!(matches!(facts, TensorFacts::Expand { dim: 0, .. }));
    /// ```
    pub fn expand_error(&self, op: &'static str, operand: &'static str, to: &Shape) -> TensorFacts {
        let rank = self.rank().max(to.rank());
        let size = |s: &Shape, d: usize| (d + s.rank()).checked_sub(rank).map(|i| s[i]);
        let clash = |d: &usize| match (size(self, *d), size(to, *d)) {
            (Some(from), Some(to)) => from != to && from != 1,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let dim = (0..rank).rev().find(clash).unwrap_or(0);
        TensorFacts::Expand { op, operand, from: self.clone(), to: to.clone(), dim }
    }

    /// The index of an axis that may count from the end.
    ///
    /// # Errors
    /// `AxisOutOfRange` if there is no such axis. A 0-d shape accepts 0 and -1, as PyTorch does.
    #[inline]
    pub(crate) fn axis(&self, op: &'static str, axis: impl Into<Axis>) -> Result<usize> {
        axis_index(op, axis.into(), self.rank().max(1), self.rank())
    }

    /// The index of an axis that may count from the end, where a 0-d shape has none.
    ///
    /// # Errors
    /// `AxisOutOfRange` if there is no such axis.
    #[inline]
    pub(crate) fn own_axis(&self, op: &'static str, axis: impl Into<Axis>) -> Result<usize> {
        axis_index(op, axis.into(), self.rank(), self.rank())
    }
}

/// Resolves `axis` against `limit` positions; `rank` is what the message speaks of.
pub(crate) fn axis_index(op: &'static str, axis: Axis, limit: usize, rank: usize) -> Result<usize> {
    let (n, axis) = (limit as isize, axis.get());
    if (-n..n).contains(&axis) {
        Ok((if axis < 0 { axis + n } else { axis }) as usize)
    } else {
        refuse(TensorFacts::AxisOutOfRange { op, axis, limit, rank })
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl DerefMut for Shape {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.0
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0[..], f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0[..], f)
    }
}

impl From<()> for Shape {
    fn from(_: ()) -> Shape {
        Shape::scalar()
    }
}
impl From<usize> for Shape {
    fn from(n: usize) -> Shape {
        Shape(Dims::from_slice(&[n]))
    }
}
impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        Shape(Dims::from_slice(&dims))
    }
}
impl<const N: usize> From<&[usize; N]> for Shape {
    fn from(dims: &[usize; N]) -> Shape {
        Shape(Dims::from_slice(dims))
    }
}
impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape(Dims::from_slice(dims))
    }
}
impl From<&Vec<usize>> for Shape {
    fn from(dims: &Vec<usize>) -> Shape {
        Shape::from(&dims[..])
    }
}
impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Shape {
        Shape(Dims::from_vec(dims))
    }
}
impl From<&Shape> for Shape {
    fn from(s: &Shape) -> Shape {
        s.clone()
    }
}
macro_rules! from_tuples {
    ($($n:literal: $($x:ident)+;)*) => {$(
        impl From<from_tuples!(@type $($x)+)> for Shape {
            fn from(($($x,)+): from_tuples!(@type $($x)+)) -> Shape {
                Shape::from([$($x),+])
            }
        }
    )*};
    (@type $($x:ident)+) => { ($(from_tuples!(@size $x),)+) };
    (@size $x:ident) => { usize };
}
from_tuples! {
    1: a;
    2: a b;
    3: a b c;
    4: a b c d;
    5: a b c d e;
    6: a b c d e f;
}

impl PartialEq<[usize]> for Shape {
    fn eq(&self, other: &[usize]) -> bool {
        self.0[..] == *other
    }
}
// `shape()` is a reference.
impl<const N: usize> PartialEq<[usize; N]> for &Shape {
    fn eq(&self, other: &[usize; N]) -> bool {
        **self == *other
    }
}
impl PartialEq<Shape> for &Shape {
    fn eq(&self, other: &Shape) -> bool {
        **self == *other
    }
}
impl<const N: usize> PartialEq<[usize; N]> for Shape {
    fn eq(&self, other: &[usize; N]) -> bool {
        self.0[..] == other[..]
    }
}

/// Two sizes: `3` is `[3, 3]`; or `[3, 5]`, `(3, 5)`.
///
/// ```
/// use foldback_tensor::Pair;
/// assert_eq!(Pair::from(3).get(), [3, 3]);
/// assert_eq!(Pair::from((3, 5)), Pair::from([3, 5]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair([usize; 2]);

impl Pair {
    /// Both.
    pub fn get(self) -> [usize; 2] {
        self.0
    }
}

impl From<usize> for Pair {
    fn from(n: usize) -> Pair {
        Pair([n, n])
    }
}
impl From<[usize; 2]> for Pair {
    fn from(sizes: [usize; 2]) -> Pair {
        Pair(sizes)
    }
}
impl From<(usize, usize)> for Pair {
    fn from((first, second): (usize, usize)) -> Pair {
        Pair([first, second])
    }
}
