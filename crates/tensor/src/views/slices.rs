//! The argument of `slice`: ranges, indices, index tensors and masks as Python writes them, one per axis.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use smallvec::SmallVec;

use crate::ops::Indices;
use crate::tensor::Tensor;

/// A position on an axis; a negative one counts from the end.
///
/// Made from `i32`, `i64`, `isize` and `usize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(pub(super) isize);

impl Position {
    /// As it was given: negative if it counts from the end.
    pub fn get(self) -> isize {
        self.0
    }
}

/// Part of an axis: from `start` up to, not including, `end`, in steps.
///
/// Negative bounds count from the end, and bounds outside the axis stop at its ends, as in Python.
/// Made from Rust's ranges: `1..3`, `..2`, `2..`, `..`, `1..=2`.
///
/// ```
/// use foldback_tensor::{Slice, tensor};
/// let t = tensor![0, 1, 2, 3, 4];
/// assert_eq!(t.slice(Slice::new(1, -1, 2))?, tensor![1, 3]);
/// assert_eq!(t.slice(Slice::from(1..).step(3))?, tensor![1, 4]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub(super) start: isize,
    /// `None` is the end of the axis.
    pub(super) end: Option<isize>,
    pub(super) step: isize,
}

impl Slice {
    /// From `start` up to, not including, `end`, taking every `step`-th element.
    ///
    /// A step that is not positive is refused where the slice is used.
    ///
    /// ```
    /// use foldback_tensor::{Slice, tensor};
    /// assert_eq!(tensor![0, 1, 2, 3].slice(Slice::new(-3, 4, 2))?, tensor![1, 3]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    pub fn new(start: impl Into<Position>, end: impl Into<Position>, step: isize) -> Slice {
        Slice { start: start.into().0, end: Some(end.into().0), step }
    }

    /// The same part, taking every `step`-th element.
    ///
    /// ```
    /// use foldback_tensor::{Slice, tensor};
    /// assert_eq!(tensor![0, 1, 2, 3].slice(Slice::from(..).step(2))?, tensor![0, 2]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    pub fn step(self, step: isize) -> Slice {
        Slice { step, ..self }
    }
}

impl From<RangeFull> for Slice {
    fn from(_: RangeFull) -> Slice {
        Slice { start: 0, end: None, step: 1 }
    }
}

/// The position after an inclusive end; the one after -1 is the end of the axis.
fn after(Position(last): Position) -> Option<isize> {
    if last == -1 { None } else { Some(last.saturating_add(1)) }
}

/// What `slice` does with one axis.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceItem {
    /// keeps part of it
    Range(Slice),
    /// takes one element and drops the axis
    Index(Position),
    /// takes the elements that an index tensor (`I64`) or a mask (`Bool`) names; a mask stands for as many axes as it has
    Places(Box<Tensor>),
}

/// What `slice` does with the leading axes, one item for each; the axes after them are kept whole.
///
/// Made from one item (a range, an index, a [`Slice`], an index tensor or a mask), from a tuple of up to six, from an array
/// or a `Vec` of items of one kind, one for each axis, and by the macro [`s!`](crate::s).
#[derive(Clone, Debug, PartialEq)]
pub struct Slices(pub(super) SmallVec<[SliceItem; 4]>);

impl From<Slice> for SliceItem {
    fn from(s: Slice) -> SliceItem {
        SliceItem::Range(s)
    }
}
impl From<RangeFull> for SliceItem {
    fn from(r: RangeFull) -> SliceItem {
        SliceItem::Range(r.into())
    }
}

impl From<Indices> for SliceItem {
    fn from(places: Indices) -> SliceItem {
        SliceItem::Places(Box::new(places.0))
    }
}
impl From<&Indices> for SliceItem {
    fn from(places: &Indices) -> SliceItem {
        SliceItem::from(places.clone())
    }
}
impl From<Tensor> for SliceItem {
    fn from(places: Tensor) -> SliceItem {
        SliceItem::Places(Box::new(places))
    }
}
impl From<&Tensor> for SliceItem {
    fn from(places: &Tensor) -> SliceItem {
        SliceItem::from(places.clone())
    }
}

macro_rules! positions {
    ($($t:ty),*) => {$(
        impl From<$t> for Position {
            fn from(at: $t) -> Position {
                // A position that no isize holds lies outside every axis, and so does the largest isize.
                Position(isize::try_from(at).unwrap_or(isize::MAX))
            }
        }
        impl From<$t> for SliceItem {
            fn from(at: $t) -> SliceItem {
                SliceItem::Index(at.into())
            }
        }
        ranges! { $t;
            Range<$t>: r => Position::from(r.start), Some(Position::from(r.end).0);
            RangeFrom<$t>: r => Position::from(r.start), None;
            RangeTo<$t>: r => Position(0), Some(Position::from(r.end).0);
            RangeInclusive<$t>: r => Position::from(*r.start()), after(Position::from(*r.end()));
            RangeToInclusive<$t>: r => Position(0), after(Position::from(r.end));
        }
    )*};
}
macro_rules! ranges {
    ($t:ty; $($range:ty: $r:ident => $start:expr, $end:expr;)*) => {$(
        impl From<$range> for Slice {
            fn from($r: $range) -> Slice {
                Slice { start: $start.0, end: $end, step: 1 }
            }
        }
        impl From<$range> for SliceItem {
            fn from(r: $range) -> SliceItem {
                SliceItem::Range(r.into())
            }
        }
    )*};
}
positions!(i32, i64, isize, usize);

impl<I: Into<SliceItem>> From<I> for Slices {
    fn from(item: I) -> Slices {
        Slices(SmallVec::from_iter([item.into()]))
    }
}
impl<I: Into<SliceItem>, const N: usize> From<[I; N]> for Slices {
    fn from(items: [I; N]) -> Slices {
        Slices(items.into_iter().map(Into::into).collect())
    }
}
impl<I: Into<SliceItem>> From<Vec<I>> for Slices {
    fn from(items: Vec<I>) -> Slices {
        Slices(items.into_iter().map(Into::into).collect())
    }
}
impl From<()> for Slices {
    fn from(_: ()) -> Slices {
        Slices(SmallVec::new())
    }
}
macro_rules! tuples {
    ($(($($item:ident)*))*) => {$(
        impl<$($item: Into<SliceItem>),*> From<($($item,)*)> for Slices {
            #[allow(non_snake_case)]
            fn from(($($item,)*): ($($item,)*)) -> Slices {
                Slices(SmallVec::from_iter([$($item.into()),*]))
            }
        }
    )*};
}
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }

/// The argument of [`Tensor::slice`](crate::Tensor::slice) in ndarray's manner: ranges and indices separated by commas, and after a semicolon
/// the step of a range. Index tensors and masks stand among them, by reference or by value, and lists of indices.
///
/// ```
/// use foldback_tensor::{s, tensor};
/// let t = tensor![[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]];
/// let rows = tensor![2, 0; i64];
/// assert_eq!(t.slice(s![&rows, -1])?, tensor![11, 3]);
/// assert_eq!(t.slice(s![[2, 0], -1])?, tensor![11, 3]);
/// assert_eq!(t.slice(s![.., 1])?, tensor![1, 5, 9]);
/// assert_eq!(t.slice(s![..;2, 1..-1])?, tensor![[1, 2], [9, 10]]);
/// assert_eq!(t.slice(s![-1])?, tensor![8, 9, 10, 11]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[macro_export]
macro_rules! s {
    (@items [$($done:expr),*]) => {{
        #[allow(clippy::reversed_empty_ranges)]
        let items: [$crate::SliceItem; _] = [$($done),*];
        $crate::Slices::from(items)
    }};
    (@items [$($done:expr),*] [$($index:expr),+ $(,)?] $(, $($rest:tt)*)?) => {
        $crate::s!(@items [$($done,)* $crate::SliceItem::from($crate::tensor![$($index),+; i64])] $($($rest)*)?)
    };
    (@items [$($done:expr),*] $range:expr; $step:expr $(, $($rest:tt)*)?) => {
        $crate::s!(@items [$($done,)* $crate::SliceItem::from($crate::Slice::from($range).step($step))] $($($rest)*)?)
    };
    (@items [$($done:expr),*] $item:expr $(, $($rest:tt)*)?) => {
        $crate::s!(@items [$($done,)* $crate::SliceItem::from($item)] $($($rest)*)?)
    };
    ($($items:tt)*) => {
        $crate::s!(@items [] $($items)*)
    };
}

impl Slices {
    /// Whether index tensors or masks are among the items, which may name a place more than once.
    #[doc(hidden)]
    pub fn has_places(&self) -> bool {
        self.0.iter().any(|item| matches!(item, SliceItem::Places(_)))
    }

    /// Whether index tensors or masks stand apart, with a range between them: what they pick then comes first.
    #[doc(hidden)]
    pub fn are_apart(&self) -> bool {
        let kept = self.0.iter().filter(|item| match item {
            SliceItem::Range(_) => true,
            SliceItem::Index(_) => false,
            SliceItem::Places(t) => t.rank() > 0,
        });
        let picks: Vec<bool> = kept.map(|item| matches!(item, SliceItem::Places(_))).collect();
        let [first, last] = [picks.iter().position(|p| *p), picks.iter().rposition(|p| *p)];
        first.zip(last).is_some_and(|(first, last)| picks[first..last].contains(&false))
    }

    /// The same behind another item, for an axis in front.
    #[doc(hidden)]
    #[must_use]
    pub fn behind(&self, first: SliceItem) -> Slices {
        Slices(std::iter::once(first).chain(self.0.iter().cloned()).collect())
    }
}
