//! Repeating and rolling along axes, and the grids of vectors.

use std::borrow::Cow;

use crate::axes::{Along, Axes, Axis};
use crate::dtype::DType;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::shape::{Dims, Shape};
use crate::tensor::Tensor;
use crate::views::Amounts;

use super::arg::{AsArg, List, tensors_of};
use super::indices::Indices;

/// # Repeating
impl Tensor {
    /// The whole tensor so many times along each axis; further counts in front are new axes.
    ///
    /// # Errors
    /// `Rank` for fewer counts than axes, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![1, 2];
    /// assert_eq!(x.repeat(2)?, tensor![1, 2, 1, 2]);
    /// assert_eq!(x.repeat([2, 1])?, tensor![[1, 2], [1, 2]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat(&self, counts: impl Into<Shape>) -> Result<Tensor> {
        self.repeated("repeat", counts.into()).here()
    }

    /// [`Tensor::repeat`] with counts of the last axes only, where there are fewer than axes.
    ///
    /// # Errors
    /// `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].tile(2)?, tensor![[1, 2, 1, 2], [3, 4, 3, 4]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, counts: impl Into<Shape>) -> Result<Tensor> {
        self.repeated("tile", tiling(self.rank(), counts.into())).here()
    }

    fn repeated(&self, op: &'static str, counts: Shape) -> Result<Tensor> {
        let Repetition { single, wide, shape } = repetition(op, self.shape(), &counts)?;
        self.reshaped(op, single)?.expanded(op, wide)?.reshaped(op, shape)
    }

    /// Every element of an axis repeated, one number of times for all or a number for each: `[a, b]` to `[a, a, b, b]`. Along
    /// `..` it is every element of the tensor, and the result is a row.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor; `Parameter` for a negative number; `DTypeMismatch` for numbers that are not
    /// `I64`, `Rank` for a tensor of them with several axes, `ShapeMismatch` if there are not as many as elements; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.repeat_interleave(2, 1)?, tensor![[1, 1, 2, 2], [3, 3, 4, 4]]);
    /// assert_eq!(x.repeat_interleave(tensor![0, 2; i64], 0)?, tensor![[3, 4], [3, 4]]);
    /// assert_eq!(x.repeat_interleave(tensor![0, 2, 0, 1; i64], ..)?, tensor![2, 2, 4]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat_interleave(&self, repeats: impl Into<Repeats>, along: impl Into<Along>) -> Result<Tensor> {
        let repeats = repeats.into();
        let Along::One(axis) = along.into() else {
            let row = self.flatten(..).and_then(|row| row.repeat_interleave(repeats, 0));
            return row.map_err(|e| e.named(REPEAT_EACH)).here();
        };
        let source = repeats.source(self.shape(), axis).here()?;
        self.index_select(axis, source).map_err(|e| e.named(REPEAT_EACH)).here()
    }

    /// The elements moved along axes by so many places; what leaves at one end comes in at the other.
    ///
    /// As many shifts as axes; an axis named twice moves twice. An empty list of axes, with one shift, takes all elements as
    /// one row.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor; `Parameter` for another number of shifts; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1, 2, 3], [4, 5, 6]];
    /// assert_eq!(x.roll(1, 1)?, tensor![[3, 1, 2], [6, 4, 5]]);
    /// assert_eq!(x.roll([-1, 1], [1, 0])?, tensor![[5, 6, 4], [2, 3, 1]]);
    /// assert_eq!(x.roll(1, [] as [i32; 0])?, tensor![[6, 1, 2], [3, 4, 5]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: impl Into<Amounts>, axes: impl Into<Axes>) -> Result<Tensor> {
        self.rolled(shifts.into().as_slice(), &axes.into()).here()
    }

    fn rolled(&self, shifts: &[i64], axes: &Axes) -> Result<Tensor> {
        let op = "roll";
        let axes: Dims<usize> = match axes {
            Axes::All => (0..self.rank()).collect(),
            Axes::List(list) if list.is_empty() && shifts.len() == 1 => {
                let row = self.reshaped(op, Shape::from(self.numel()))?;
                return row.rolled(shifts, &Axes::from(0))?.reshaped(op, self.shape().clone());
            }
            Axes::List(list) => list.iter().map(|&a| self.shape().own_axis(op, a)).collect::<Result<_>>()?,
        };
        if shifts.len() != axes.len() || shifts.is_empty() || shifts.contains(&i64::MIN) {
            // The gradient goes back by as many places, which i64::MIN does not.
            let (value, expected) =
                (format!("{shifts:?} along {axes:?}"), "one for each axis, above i64::MIN");
            return refuse(TensorFacts::Parameter { op, name: "shifts", value, expected });
        }
        let mut out = self.clone();
        for (&shift, &axis) in shifts.iter().zip(&axes) {
            let size = self.dims()[axis];
            let shift = if size == 0 { 0 } else { shift.rem_euclid(size as i64) as usize };
            if shift > 0 {
                let (tail, head) = (out.part(axis, size - shift, shift), out.part(axis, 0, size - shift));
                out = Tensor::cat([tail, head], axis).map_err(|e| e.named(op))?;
            }
        }
        Ok(out)
    }

    /// The grids of some vectors: tensors of the shape of all their sizes, each of which varies along its own axis only;
    /// views. A 0-d tensor counts as a vector of one.
    ///
    /// # Errors
    /// `NoTensors` for an empty list, `Rank` for one of several axes, `DTypeMismatch` unless all have one type, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// let grids = Tensor::meshgrid([tensor![1, 2], tensor![3, 4, 5]])?;
    /// assert_eq!(grids[0], tensor![[1, 1, 1], [2, 2, 2]]);
    /// assert_eq!(grids[1], tensor![[3, 4, 5], [3, 4, 5]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn meshgrid(tensors: impl IntoIterator<Item: AsArg>) -> Result<Vec<Tensor>> {
        let list: List<_> = tensors.into_iter().collect();
        grids_of("meshgrid", &tensors_of(&list), false).here()
    }

    /// [`Tensor::meshgrid`] with the first two axes exchanged, as for pictures: the first vector runs along the columns.
    ///
    /// # Errors
    /// As `meshgrid`.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// let grids = Tensor::meshgrid_xy([tensor![1, 2], tensor![3, 4, 5]])?;
    /// assert_eq!(grids[0], tensor![[1, 2], [1, 2], [1, 2]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn meshgrid_xy(tensors: impl IntoIterator<Item: AsArg>) -> Result<Vec<Tensor>> {
        let list: List<_> = tensors.into_iter().collect();
        grids_of("meshgrid_xy", &tensors_of(&list), true).here()
    }
}

fn grids_of(op: &'static str, tensors: &[Cow<'_, Tensor>], xy: bool) -> Result<Vec<Tensor>> {
    let list: Vec<&Tensor> = tensors.iter().map(|t| &**t).collect();
    let (singles, shape) = grids(op, &list, xy)?;
    let each = list.iter().zip(singles);
    each.map(|(t, single)| t.reshaped(op, single)?.expanded(op, shape.clone())).collect()
}

/// For each vector the shape that puts it on its own axis, and the shape of the grids.
#[doc(hidden)]
pub fn grids(op: &'static str, vectors: &[&Tensor], xy: bool) -> Result<(Vec<Shape>, Shape)> {
    let Some(first) = vectors.first() else { return refuse(TensorFacts::NoTensors { op }) };
    for v in vectors {
        v.expect_dtype(op, "every vector", first.dtype())?;
        if v.rank() > 1 {
            return refuse(TensorFacts::Rank {
                op,
                operand: "vector",
                expected: "at most 1",
                found: v.rank(),
            });
        }
    }
    let mut axes: Dims<usize> = (0..vectors.len()).collect();
    if xy && axes.len() > 1 {
        axes.swap(0, 1);
    }
    let mut shape = Shape(Dims::from_elem(1, vectors.len()));
    axes.iter().zip(vectors).for_each(|(&axis, v)| shape[axis] = v.numel());
    let single = |&axis: &usize| {
        let mut own = Shape(Dims::from_elem(1, shape.rank()));
        own[axis] = shape[axis];
        own
    };
    Ok((axes.iter().map(single).collect(), shape))
}

/// The shapes that [`Tensor::repeat`] goes through.
#[doc(hidden)]
pub struct Repetition {
    /// an axis of size 1 in front of each
    pub single: Shape,
    /// expanded to the counts
    pub wide: Shape,
    /// each with the one in front of it as one
    pub shape: Shape,
}

/// See [`Repetition`].
#[doc(hidden)]
pub fn repetition(op: &'static str, own: &Shape, counts: &Shape) -> Result<Repetition> {
    let Some(new) = counts.rank().checked_sub(own.rank()) else {
        let expected = "a count for each axis and perhaps more, so as many as the tensor has";
        return refuse(TensorFacts::Rank { op, operand: "", expected, found: counts.rank() });
    };
    let size = |i: usize| if i < new { 1 } else { own[i - new] };
    let pairs = |first: &dyn Fn(usize) -> usize| {
        Shape((0..counts.rank()).flat_map(|i| [first(i), size(i)]).collect())
    };
    let (single, wide) = (pairs(&|_| 1), pairs(&|i| counts[i]));
    let shape = Shape((0..counts.rank()).map(|i| counts[i].saturating_mul(size(i))).collect());
    crate::create::checked_len(op, &shape, DType::Bool)?;
    Ok(Repetition { single, wide, shape })
}

/// The counts of [`Tensor::tile`] as `repeat` takes them.
#[doc(hidden)]
pub fn tiling(rank: usize, counts: Shape) -> Shape {
    let missing = rank.saturating_sub(counts.rank());
    Shape(std::iter::repeat_n(1, missing).chain(counts.iter().copied()).collect())
}

const REPEAT_EACH: &str = "repeat_interleave";

/// How often [`Tensor::repeat_interleave`] repeats: one number for all elements of an axis, or a tensor with one for each.
///
/// ```
/// use foldback_tensor::tensor;
/// let x = tensor![1, 2];
/// assert_eq!(x.repeat_interleave(2, 0)?, x.repeat_interleave(tensor![2, 2; i64], 0)?);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Repeats(Counts);

#[derive(Clone, Debug)]
enum Counts {
    All(i64),
    Each(Tensor),
}

impl<T: Into<Indices>> From<T> for Repeats {
    fn from(numbers: T) -> Repeats {
        Repeats(Counts::Each(numbers.into().0))
    }
}
macro_rules! from_integers {
    ($($t:ty),*) => {$(
        impl From<$t> for Repeats {
            fn from(n: $t) -> Repeats {
                Repeats(Counts::All(i64::try_from(n).unwrap_or(i64::MAX)))
            }
        }
    )*};
}
from_integers!(i32, i64, isize, usize);

impl Repeats {
    /// The element of an axis that each element of the repeated one is.
    #[doc(hidden)]
    pub fn source(&self, shape: &Shape, axis: Axis) -> Result<Tensor> {
        let op = REPEAT_EACH;
        let size = shape[shape.own_axis(op, axis)?];
        let counts = match &self.0 {
            Counts::All(n) => vec![*n],
            Counts::Each(t) => {
                t.expect_dtype(op, "a tensor of repeats", DType::I64)?;
                if t.rank() > 1 {
                    return refuse(TensorFacts::Rank {
                        op,
                        operand: "tensor of repeats",
                        expected: "at most 1",
                        found: t.rank(),
                    });
                }
                if t.numel() != size && t.numel() != 1 {
                    let (expected, found) = (Shape::from(size), t.shape().clone());
                    return refuse(TensorFacts::ShapeMismatch { op, operand: "repeats", expected, found });
                }
                t.to_vec::<i64>()?
            }
        };
        if let Some(negative) = counts.iter().find(|&&n| n < 0) {
            let (value, expected) = (negative.to_string(), "no negative number");
            return refuse(TensorFacts::Parameter { op, name: "repeats", value, expected });
        }
        let count = |i: usize| counts.get(i).or(counts.first()).map_or(0, |&n| n as usize);
        let total = match &counts[..] {
            [all] => size.saturating_mul(*all as usize),
            each => each.iter().fold(0usize, |sum, &n| sum.saturating_add(n as usize)),
        };
        crate::create::checked_len(op, &Shape::from(total), DType::I64)?;
        let repeated = if total == 0 { 0 } else { size };
        let each = (0..repeated).flat_map(|i| std::iter::repeat_n(i as i64, count(i)));
        let mut places = Vec::new();
        if places.try_reserve_exact(total).is_err() {
            return refuse(TensorFacts::TooLarge { op, shape: Shape::from(total) });
        }
        places.extend(each);
        Tensor::from_vec(places, total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    #[test]
    fn an_axis_too_long_to_count_is_refused_at_once() {
        let long = Tensor::ones(1).expand([1usize << 60]).unwrap();
        assert!(refused!(
            long.repeat_interleave(2, 0),
            TensorFacts::TooLarge { op: "repeat_interleave", .. }
        ));
        assert_eq!(long.repeat_interleave(0, 0).unwrap().dims(), [0]);
        assert_eq!(long.repeat_interleave(tensor![0; i64], 0).unwrap().dims(), [0]);
    }

    #[test]
    fn repeat_and_tile() {
        let x = tensor![[1, 2], [3, 4]; i64];
        assert_eq!(
            x.repeat([2, 2]).unwrap(),
            tensor![[1, 2, 1, 2], [3, 4, 3, 4], [1, 2, 1, 2], [3, 4, 3, 4]; i64]
        );
        assert_eq!(x.repeat([3, 1, 1]).unwrap().dims(), [3, 2, 2]);
        assert_eq!(x.t().repeat([1, 2]).unwrap(), tensor![[1, 3, 1, 3], [2, 4, 2, 4]; i64]);
        assert_eq!(x.repeat([0, 2]).unwrap().dims(), [0, 4]);
        assert_eq!(Tensor::scalar(1.0).repeat(2).unwrap(), tensor![1.0, 1.0]);
        assert_eq!(Tensor::scalar(1.0).repeat(()).unwrap().rank(), 0);
        assert_eq!(x.tile([2, 1, 1]).unwrap(), x.repeat([2, 1, 1]).unwrap());
        assert_eq!(x.tile(()).unwrap(), x);
        assert!(refused!(x.repeat(2), TensorFacts::Rank { op: "repeat", found: 1, .. }));
        for counts in [[1 << 62, 1 << 62], [usize::MAX, 1], [1 << 62, 0]] {
            let e = x.repeat(counts);
            assert!(
                counts.contains(&0) || refused!(e, TensorFacts::TooLarge { op: "repeat", .. }),
                "{counts:?}"
            );
        }
        assert!(refused!(x.tile(1usize << 62), TensorFacts::TooLarge { op: "tile", .. }));
    }

    #[test]
    fn repeat_each() {
        let x = tensor![[1, 2], [3, 4]; i64];
        assert_eq!(x.repeat_interleave(0, 0).unwrap().dims(), [0, 2]);
        assert_eq!(x.repeat_interleave(tensor![1, 2; i64], -1).unwrap(), tensor![[1, 2, 2], [3, 4, 4]; i64]);
        assert_eq!(x.repeat_interleave(Tensor::from(2i64), 0).unwrap(), x.repeat_interleave(2, 0).unwrap());
        let none = Tensor::zeros([0, 2]);
        assert_eq!(none.repeat_interleave(3, 0).unwrap().dims(), [0, 2]);
        assert_eq!(none.repeat_interleave(Tensor::zeros_with(0, DType::I64), 0).unwrap().dims(), [0, 2]);
        for x in [&x, &none] {
            assert!(refused!(x.repeat_interleave(-1, 0), TensorFacts::Parameter { name: "repeats", .. }));
            assert!(refused!(x.repeat_interleave(-1, ..), TensorFacts::Parameter { name: "repeats", .. }));
        }
        assert!(refused!(x.repeat_interleave(tensor![1, -1; i64], 0), TensorFacts::Parameter { .. }));
        assert!(refused!(x.repeat_interleave(tensor![1, 1, 1; i64], 0), TensorFacts::ShapeMismatch { .. }));
        assert!(refused!(x.repeat_interleave(tensor![[1, 1]; i64], 0), TensorFacts::Rank { .. }));
        assert!(refused!(x.repeat_interleave(tensor![1.0, 1.0], 0), TensorFacts::DTypeMismatch { .. }));
        assert!(refused!(
            x.repeat_interleave(1, 2),
            TensorFacts::AxisOutOfRange { op: "repeat_interleave", .. }
        ));
        assert!(refused!(Tensor::scalar(1.0).repeat_interleave(1, 0), TensorFacts::AxisOutOfRange { .. }));
        for n in [i64::MAX, 1 << 60] {
            assert!(refused!(x.repeat_interleave(n, 0), TensorFacts::TooLarge { .. }));
        }
    }

    #[test]
    fn rolling() {
        let x = Tensor::arange(6).reshape([2, 3]).unwrap();
        assert_eq!(x.roll([1, 1], [1, 1]).unwrap(), x.roll(2, -1).unwrap());
        assert_eq!(x.roll([1, -1], ..).unwrap(), tensor![[4, 5, 3], [1, 2, 0]; i64]);
        assert_eq!(x.roll(-(1i64 << 62), 1).unwrap(), x.roll(-1, 1).unwrap());
        assert!(refused!(x.roll(i64::MIN, 1), TensorFacts::Parameter { .. }));
        assert_eq!(x.t().roll(1, 0).unwrap(), x.roll(1, 1).unwrap().t());
        assert_eq!(x.roll(3, 1).unwrap(), x);
        assert_eq!(Tensor::zeros([0, 2]).roll(1, 0).unwrap().dims(), [0, 2]);
        let none = [] as [i32; 0];
        assert_eq!(Tensor::scalar(2.0).roll(1, none).unwrap(), Tensor::scalar(2.0));
        assert!(refused!(x.roll([1, 2], 1), TensorFacts::Parameter { name: "shifts", .. }));
        assert!(refused!(x.roll([1, 2], none), TensorFacts::Parameter { .. }));
        assert!(refused!(x.roll(none, none), TensorFacts::Parameter { .. }));
        assert!(refused!(x.roll(1, 2), TensorFacts::AxisOutOfRange { op: "roll", .. }));
        assert!(refused!(Tensor::scalar(2.0).roll(1, 0), TensorFacts::AxisOutOfRange { .. }));
    }

    #[test]
    fn grids_of_vectors() {
        let (a, b, c) = (tensor![1, 2, 3], Tensor::scalar(4.0), tensor![5, 6]);
        let ij = Tensor::meshgrid([&a, &b, &c]).unwrap();
        let xy = Tensor::meshgrid_xy([&a, &b, &c]).unwrap();
        for (g, t) in ij.iter().zip(&xy) {
            assert_eq!(g.dims(), [3, 1, 2]);
            assert_eq!(g.transpose(0, 1).unwrap(), *t);
        }
        assert_eq!(ij[2].slice((1, 0)).unwrap(), c);
        assert!(ij[0].shares_buffer_with(&a));
        assert_eq!(Tensor::meshgrid_xy([&a]).unwrap(), std::slice::from_ref(&a));
        assert_eq!(Tensor::meshgrid([&tensor![], &a]).unwrap()[1].dims(), [0, 3]);
        assert!(refused!(Tensor::meshgrid([] as [Tensor; 0]), TensorFacts::NoTensors { op: "meshgrid" }));
        assert!(refused!(Tensor::meshgrid([&a, &c.long()]), TensorFacts::DTypeMismatch { .. }));
        assert!(refused!(Tensor::meshgrid_xy([tensor![[1.0]]]), TensorFacts::Rank { op: "meshgrid_xy", .. }));
        let huge = Tensor::scalar(1.0).expand([1usize << 40]).unwrap();
        assert!(refused!(Tensor::meshgrid([&huge, &huge]), TensorFacts::TooLarge { .. }));
    }
}
