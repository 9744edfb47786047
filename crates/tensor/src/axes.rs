//! How callers name axes: one, several, those that a reduction folds, or a span of neighbours.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use smallvec::SmallVec;

use crate::dims::Dims;
use crate::error::{Result, TensorFacts, refuse};
use crate::shape::Shape;

/// One axis, from any integer; negative ones count from the end.
///
/// ```
/// use foldback_tensor::tensor;
/// let x = tensor![[1.0, 2.0]];
/// assert_eq!(x.transpose(0, -1)?.dims(), [2, 1]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis(isize);

impl Axis {
    /// The number as it was given. What no `isize` holds is no axis of any tensor: `isize::MAX`, which is refused as such.
    pub fn get(self) -> isize {
        self.0
    }
}

/// Several axes: a number, an array, a slice, a `Vec`, or all of them (`..`). Negative ones count from the end.
///
/// ```
/// use foldback_tensor::{DType, Tensor};
/// let x = Tensor::zeros([1, 2, 1]);
/// assert_eq!(x.squeeze([0, -1])?.dims(), [2]);
/// assert_eq!(x.squeeze(..)?.dims(), [2]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axes {
    /// every axis
    All,
    /// these axes
    List(SmallVec<[isize; 4]>),
}

impl Axes {
    /// One flag per axis of `shape`.
    ///
    /// # Errors
    /// `AxisOutOfRange`, or `DuplicateAxis` when an axis is named twice; `Rank` above 64 axes, PyTorch's limit.
    pub(crate) fn flags(&self, op: &'static str, shape: &Shape) -> Result<Dims<bool>> {
        let mut flags: Dims<bool> = Dims::from_elem(matches!(self, Axes::All), shape.rank());
        if let Axes::List(list) = self {
            if shape.rank() > 64 {
                return refuse(TensorFacts::Rank {
                    op,
                    operand: "",
                    expected: "at most 64",
                    found: shape.rank(),
                });
            }
            for (n, &a) in list.iter().enumerate() {
                let i = shape.axis(op, a)?;
                // The one axis that a 0-d tensor counts as having has no flag.
                if flags.get_mut(i).map_or(n > 0, |flag| std::mem::replace(flag, true)) {
                    return refuse(TensorFacts::DuplicateAxis { op, axis: i });
                }
            }
        }
        Ok(flags)
    }
}

/// The axes that a reduction folds, and whether they stay as axes of size 1: whatever names axes, or [`keep`] of it.
///
/// An empty list names all of them, as in PyTorch.
///
/// ```
/// use foldback_tensor::{Axes, Over, keep, tensor};
/// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
/// assert_eq!(x.sum(..)?, tensor![10.0].squeeze(0)?);
/// assert_eq!(x.sum(1)?, tensor![3.0, 7.0]);
/// assert_eq!(x.sum(keep(1))?, tensor![[3.0], [7.0]]);
/// assert_eq!(Over::from([0isize; 0]).axes(), &Axes::All);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    axes: Axes,
    keepdim: bool,
}

impl Over {
    /// The axes that are folded: all of them, if none were listed.
    pub fn axes(&self) -> &Axes {
        match &self.axes {
            Axes::List(list) if list.is_empty() => &Axes::All,
            axes => axes,
        }
    }

    /// The axes as they were listed: to `any` and `all` an empty list names none, as in PyTorch.
    pub(crate) fn listed(&self) -> &Axes {
        &self.axes
    }

    /// Whether they stay as axes of size 1.
    pub fn keepdim(&self) -> bool {
        self.keepdim
    }

    /// The same axes, kept or not.
    #[must_use]
    pub fn with_keepdim(mut self, keepdim: bool) -> Over {
        self.keepdim = keepdim;
        self
    }
}

/// Axes that a reduction folds and keeps as axes of size 1, so that its result broadcasts against what it was made of.
///
/// ```
/// use foldback_tensor::{keep, tensor};
/// let x = tensor![[1.0, 3.0], [5.0, 9.0]];
/// assert_eq!(&x - &x.mean(keep(1))?, tensor![[-1.0, 1.0], [-2.0, 2.0]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub fn keep(axes: impl Into<Over>) -> Over {
    axes.into().with_keepdim(true)
}

/// Neighbouring axes, as a range: `1..`, `0..2`, `0..=1`, `..`. Negative numbers count from the end.
///
/// ```
/// use foldback_tensor::Tensor;
/// let x = Tensor::zeros([2, 3, 4]);
/// assert_eq!(x.flatten(1..)?.dims(), [2, 12]);
/// assert_eq!(x.flatten(0..=1)?.dims(), [6, 4]);
/// assert_eq!(x.flatten(..)?.dims(), [24]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: isize,
    end: SpanEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanEnd {
    Including(isize),
    Excluding(isize),
}

impl Span {
    /// The first and the last axis.
    ///
    /// # Errors
    /// `AxisOutOfRange`; `EmptySpan` if the range holds no axis.
    pub(crate) fn resolve(self, op: &'static str, shape: &Shape) -> Result<(usize, usize)> {
        let first = shape.axis(op, self.start)?;
        let empty = || TensorFacts::EmptySpan { op, start: first };
        let last = match self.end {
            SpanEnd::Including(last) => shape.axis(op, last)?,
            // The axis behind the last one, which may be one that the tensor does not have.
            SpanEnd::Excluding(end) if end == shape.rank() as isize => shape.rank().max(1) - 1,
            SpanEnd::Excluding(end) => shape.axis(op, end)?.checked_sub(1).ok_or_else(empty)?,
        };
        if first <= last { Ok((first, last)) } else { refuse(empty()) }
    }
}

/// One axis, or all elements in a row (`..`), which is what PyTorch does where no axis is given.
///
/// ```
/// use foldback_tensor::tensor;
/// let x = tensor![[1, 2], [3, 4]];
/// assert_eq!(x.repeat_interleave(2, 1)?, tensor![[1, 1, 2, 2], [3, 3, 4, 4]]);
/// assert_eq!(x.repeat_interleave(2, ..)?, tensor![1, 1, 2, 2, 3, 3, 4, 4]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// this axis
    One(Axis),
    /// the only axis of the flattened tensor
    Row,
}

impl From<RangeFull> for Along {
    fn from(_: RangeFull) -> Along {
        Along::Row
    }
}
impl<A: Into<Axis>> From<A> for Along {
    fn from(axis: A) -> Along {
        Along::One(axis.into())
    }
}

/// What no `isize` holds is no axis of any tensor.
fn signed<T: TryInto<isize>>(axis: T) -> isize {
    axis.try_into().unwrap_or(isize::MAX)
}

impl From<RangeFull> for Axes {
    fn from(_: RangeFull) -> Axes {
        Axes::All
    }
}
impl From<&Axes> for Axes {
    fn from(a: &Axes) -> Axes {
        a.clone()
    }
}
impl From<Axis> for Axes {
    fn from(a: Axis) -> Axes {
        Axes::from(a.0)
    }
}
impl From<RangeFull> for Over {
    fn from(_: RangeFull) -> Over {
        Over::from(Axes::All)
    }
}
impl From<Axis> for Over {
    fn from(a: Axis) -> Over {
        Over::from(Axes::from(a))
    }
}
impl From<Axes> for Over {
    fn from(axes: Axes) -> Over {
        Over { axes, keepdim: false }
    }
}
impl From<&Axes> for Over {
    fn from(axes: &Axes) -> Over {
        Over::from(axes.clone())
    }
}
impl From<&Over> for Over {
    fn from(over: &Over) -> Over {
        over.clone()
    }
}
impl From<RangeFull> for Span {
    fn from(_: RangeFull) -> Span {
        Span { start: 0, end: SpanEnd::Including(-1) }
    }
}

macro_rules! from_integers {
    ($($t:ty),*) => {$(
        impl From<$t> for Axis {
            fn from(axis: $t) -> Axis {
                Axis(signed(axis))
            }
        }
        from_integers!(@list $t, [$t] [const N: usize] [$t; N], |a| &[a][..], |a| &a[..]);
        impl From<Range<$t>> for Span {
            fn from(r: Range<$t>) -> Span {
                Span { start: signed(r.start), end: SpanEnd::Excluding(signed(r.end)) }
            }
        }
        impl From<RangeInclusive<$t>> for Span {
            fn from(r: RangeInclusive<$t>) -> Span {
                Span { start: signed(*r.start()), end: SpanEnd::Including(signed(*r.end())) }
            }
        }
        impl From<RangeFrom<$t>> for Span {
            fn from(r: RangeFrom<$t>) -> Span {
                Span { start: signed(r.start), end: SpanEnd::Including(-1) }
            }
        }
        impl From<RangeTo<$t>> for Span {
            fn from(r: RangeTo<$t>) -> Span {
                Span { start: 0, end: SpanEnd::Excluding(signed(r.end)) }
            }
        }
        impl From<RangeToInclusive<$t>> for Span {
            fn from(r: RangeToInclusive<$t>) -> Span {
                Span { start: 0, end: SpanEnd::Including(signed(r.end)) }
            }
        }
    )*};
    (@list $t:ty, $($rest:tt)*) => {
        impl From<&[$t]> for Axes {
            fn from(a: &[$t]) -> Axes {
                Axes::List(a.iter().map(|&v| signed(v)).collect())
            }
        }
        from_integers!(@as_slice $t, [] $t, |a| &[a]);
        from_integers!(@as_slice $t, [const N: usize] [$t; N], |a| &a);
        from_integers!(@as_slice $t, [const N: usize] &[$t; N], |a| a);
        from_integers!(@as_slice $t, [] Vec<$t>, |a| &a);
        from_integers!(@as_slice $t, [] &Vec<$t>, |a| a);
        impl From<&[$t]> for Over {
            fn from(a: &[$t]) -> Over {
                Over::from(Axes::from(a))
            }
        }
    };
    (@as_slice $t:ty, [$($generic:tt)*] $from:ty, |$a:ident| $slice:expr) => {
        impl<$($generic)*> From<$from> for Axes {
            fn from($a: $from) -> Axes {
                let slice: &[$t] = $slice;
                Axes::from(slice)
            }
        }
        impl<$($generic)*> From<$from> for Over {
            fn from(axes: $from) -> Over {
                Over::from(Axes::from(axes))
            }
        }
    };
}
from_integers!(i32, i64, isize, usize);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    #[test]
    fn axes_from_the_end_and_duplicates() {
        let s = Shape::from([2, 3, 4]);
        assert_eq!(&Axes::from([0, -1]).flags("t", &s).unwrap()[..], &[true, false, true]);
        assert_eq!(&Axes::from(..).flags("t", &s).unwrap()[..], &[true; 3]);
        assert!(refused!(Axes::from([0, -3]).flags("t", &s), TensorFacts::DuplicateAxis { .. }));
        assert!(refused!(Axes::from(3).flags("t", &s), TensorFacts::AxisOutOfRange { .. }));
        assert!(Axes::from(-1).flags("t", &Shape::scalar()).unwrap().is_empty());
        for axes in [[0, 0], [0, -1]] {
            let flags = Axes::from(axes).flags("t", &Shape::scalar());
            assert!(refused!(flags, TensorFacts::DuplicateAxis { axis: 0, .. }));
        }
    }

    #[test]
    fn an_axis_that_no_isize_holds_is_no_axis() {
        let s = Shape::from([2, 3]);
        for axes in [Axes::from(usize::MAX), Axes::from([usize::MAX, 0]), Axes::from(vec![1 << 63, 0usize])] {
            assert!(refused!(axes.flags("t", &s), TensorFacts::AxisOutOfRange { axis: isize::MAX, .. }));
        }
        assert!(tensor![1.0].sum(usize::MAX).is_err());
        assert!(tensor![[1.0]].permute([usize::MAX, 0]).is_err());
        assert!(tensor![[1.0]].transpose(usize::MAX, 0).is_err());
    }

    /// Every way of writing the axes of a reduction.
    #[test]
    fn ways_to_write_axes() {
        let same =
            [1i32.into(), 1i64.into(), 1isize.into(), 1usize.into(), [1].into(), Over::from(&[1usize][..])];
        let more = [
            vec![1].into(),
            (&vec![1usize]).into(),
            (&[1i64]).into(),
            Axes::from(1).into(),
            Axis::from(1).into(),
        ];
        for over in same.into_iter().chain(more) {
            assert_eq!((over.axes(), over.keepdim()), (&Axes::from(1), false));
            assert!(keep(&over).keepdim() && keep(&over).axes() == over.axes());
        }
        assert_eq!(keep(..).axes(), &Axes::All);
        assert_eq!(Over::from(Vec::<usize>::new()).axes(), &Axes::All);
    }

    #[test]
    fn spans() {
        let s = Shape::from([2, 3, 4]);
        let resolved = |span: Span| span.resolve("t", &s).ok();
        assert_eq!(resolved((..).into()), Some((0, 2)));
        assert_eq!(resolved((1..).into()), Some((1, 2)));
        assert_eq!(resolved((0..2).into()), Some((0, 1)));
        assert_eq!(resolved((0..3usize).into()), Some((0, 2)));
        assert_eq!(resolved((..-1).into()), Some((0, 1)));
        assert_eq!(resolved((-2..=-1).into()), Some((1, 2)));
        assert_eq!(resolved((..=0i64).into()), Some((0, 0)));
        assert_eq!(resolved(Span { start: 1, end: SpanEnd::Including(0) }), None);
        assert_eq!(resolved((1..1).into()), None);
        assert_eq!(resolved((0..0).into()), None);
        assert_eq!(resolved((0..4).into()), None);
        assert_eq!(resolved((3..).into()), None);
        assert_eq!(Span::from(..).resolve("t", &Shape::scalar()).unwrap(), (0, 0));
        assert_eq!(Span::from(0..0).resolve("t", &Shape::scalar()).unwrap(), (0, 0));
    }
}
