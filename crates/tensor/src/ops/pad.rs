//! Padding: constants around a tensor, or its own elements mirrored, repeated or taken from the other end.

use smallvec::SmallVec;

use crate::create::{Sequence, checked_len};
use crate::dtype::{DType, Scalar};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::shape::Shape;
use crate::task;
use crate::tensor::Tensor;
use crate::views::{Amounts, Slice, SliceItem, Slices};

/// What [`Tensor::pad_with`] puts around a tensor.
///
/// ```
/// use foldback_tensor::{Pad, tensor};
/// let x = tensor![[1, 2, 3]];
/// assert_eq!(x.pad_with([2, 1], Pad::Constant(7.into()))?, tensor![[7, 7, 1, 2, 3, 7]]);
/// assert_eq!(x.pad_with([2, 1], Pad::Reflect)?, tensor![[3, 2, 1, 2, 3, 2]]);
/// assert_eq!(x.pad_with([2, 1], Pad::Replicate)?, tensor![[1, 1, 1, 2, 3, 3]]);
/// assert_eq!(x.pad_with([2, 1], Pad::Circular)?, tensor![[2, 3, 1, 2, 3, 1]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pad {
    /// one number, cast to the tensor's type; also made of the number itself
    Constant(Scalar),
    /// the elements mirrored at the ends, which are not repeated: fewer are added than there are
    Reflect,
    /// the elements at the ends, repeated
    Replicate,
    /// the elements of the other end: no more are added than there are
    Circular,
}

impl<N: Into<Scalar>> From<N> for Pad {
    fn from(number: N) -> Pad {
        Pad::Constant(number.into())
    }
}

/// # Padding
impl Tensor {
    /// Zeros added to the ends of the last axes: `[left, right]` of the last one, then of the one before it, and so on. A
    /// negative number takes elements away.
    ///
    /// # Errors
    /// `Parameter` for an odd list, one of more axes than there are, or more taken away than there is; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.pad([1, 0])?, tensor![[0, 1, 2], [0, 3, 4]]);
    /// assert_eq!(x.pad([-1, 0, 0, 1])?, tensor![[2], [4], [0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn pad(&self, widths: impl Into<Amounts>) -> Result<Tensor> {
        self.padded("pad", &widths.into(), Pad::Constant(Scalar::I64(0))).here()
    }

    /// [`Tensor::pad`] with something else than zeros; see [`Pad`].
    ///
    /// `Reflect`, `Replicate` and `Circular` pad the last one, two or three axes of a tensor that has one or two axes more,
    /// as in PyTorch: batch and channels.
    ///
    /// # Errors
    /// As `pad`; `Rank` for another number of axes, `Parameter` for more than the mode can add, an axis without elements or
    /// none left, `DTypeUnsupported` for `Bool` that is mirrored or repeated.
    ///
    /// ```
    /// use foldback_tensor::{Pad, tensor};
    /// let x = tensor![[1.0, 2.0, 3.0]];
    /// assert_eq!(x.pad_with([1, 1], Pad::Reflect)?, tensor![[2.0, 1.0, 2.0, 3.0, 2.0]]);
    /// assert_eq!(x.pad_with([1, 0], 0.5)?, tensor![[0.5, 1.0, 2.0, 3.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn pad_with(&self, widths: impl Into<Amounts>, mode: impl Into<Pad>) -> Result<Tensor> {
        self.padded("pad_with", &widths.into(), mode.into()).here()
    }

    fn padded(&self, op: &'static str, widths: &Amounts, mode: Pad) -> Result<Tensor> {
        if let Pad::Constant(value) = mode {
            return self.surrounded(op, &ends(op, self.shape(), widths)?, value);
        }
        let mut out = self.clone();
        for (axis, source) in padding_sources(op, self.shape(), self.dtype(), widths, mode)? {
            out = out.index_select(axis, source).map_err(|e| e.named(op))?;
        }
        Ok(out)
    }

    /// A number around what is left of the tensor.
    fn surrounded(&self, op: &'static str, ends: &[AxisPadding], value: Scalar) -> Result<Tensor> {
        let mut shape = self.shape().clone();
        let rest = self.rank() - ends.len();
        let (mut from, mut to) = (vec![SliceItem::from(..); rest], vec![SliceItem::from(..); rest]);
        for (size, end) in shape[rest..].iter_mut().zip(ends) {
            let whole = end.size(*size).filter(|_| end.kept(*size));
            let Some(whole) = whole else { return refuse(end.refusal(op, *size)) };
            let kept = |end: i64| end.min(0).unsigned_abs() as usize;
            from.push(SliceItem::from(kept(end.left)..*size - kept(end.right)));
            let start = end.left.max(0) as usize;
            to.push(SliceItem::from(Slice::new(start, whole - end.right.max(0) as usize, 1)));
            *size = whole;
        }
        checked_len(op, &shape, self.dtype())?;
        let mut out = Tensor::try_full_with(&shape, value, self.dtype()).map_err(|e| e.named(op))?;
        out.slice_assign(Slices::from(to), self.slice(Slices::from(from))?).map_err(|e| e.named(op))?;
        Ok(out)
    }
}

/// How much is added to the ends of an axis.
#[derive(Clone, Copy)]
struct AxisPadding {
    left: i64,
    right: i64,
}

impl AxisPadding {
    /// The size of the padded axis, unless it is negative or beyond all tensors.
    fn size(self, size: usize) -> Option<usize> {
        let whole = i128::from(self.left) + i128::from(self.right) + size as i128;
        // What no memory holds is refused as such.
        usize::try_from(whole.min(isize::MAX as i128)).ok()
    }

    /// Whether no more is taken away than there is.
    fn kept(self, size: usize) -> bool {
        let taken = self.left.min(0).unsigned_abs() as u128 + self.right.min(0).unsigned_abs() as u128;
        taken <= size as u128
    }

    #[cold]
    fn refusal(self, op: &'static str, size: usize) -> TensorFacts {
        let value = format!("[{}, {}] for an axis of size {size}", self.left, self.right);
        let expected = "no more taken away from an axis than it has";
        TensorFacts::Parameter { op, name: "widths", value, expected }
    }
}

/// What is added to the ends of the last axes, which are in their own order.
fn ends(op: &'static str, shape: &Shape, widths: &Amounts) -> Result<Vec<AxisPadding>> {
    let list = widths.as_slice();
    if !list.len().is_multiple_of(2) || list.len() / 2 > shape.rank() {
        return refuse(TensorFacts::Parameter {
            op,
            name: "widths",
            value: format!("{widths:?} for the shape {shape}"),
            expected: "two numbers for each of the last axes, the last axis first",
        });
    }
    Ok(list.rchunks_exact(2).map(|pair| AxisPadding { left: pair[0], right: pair[1] }).collect())
}

/// For each axis that a mode pads, the place in the tensor of every element of the padded one.
#[doc(hidden)]
pub fn padding_sources(
    op: &'static str,
    shape: &Shape,
    dtype: DType,
    widths: &Amounts,
    mode: Pad,
) -> Result<SmallVec<[(usize, Tensor); 3]>> {
    let ends = ends(op, shape, widths)?;
    let first = shape.rank() - ends.len();
    if !(1..=3).contains(&ends.len()) || !(1..=2).contains(&first) {
        return refuse(TensorFacts::Parameter {
            op,
            name: "widths",
            value: format!("{widths:?} for the shape {shape}"),
            expected: "two numbers for each padded axis, one to three, behind one or two that are not padded (batch and channels): unsqueeze(0) adds one",
        });
    }
    let circular = mode == Pad::Circular;
    if dtype == DType::Bool && !circular {
        return refuse(TensorFacts::DTypeUnsupported { op, dtype });
    }
    if !circular && shape[first - 1..].contains(&0) {
        let expected = "elements on every axis but that of the batch";
        return refuse(TensorFacts::Parameter { op, name: "shape", value: shape.to_string(), expected });
    }
    let source = |(end, axis): (&AxisPadding, usize)| Ok((axis, mode.source(op, *end, shape[axis])?));
    ends.iter().zip(first..).map(source).collect()
}

impl Pad {
    /// The place in an axis of every element of the padded one.
    fn source(self, op: &'static str, end: AxisPadding, size: usize) -> Result<Tensor> {
        let (circular, replicate) = (self == Pad::Circular, self == Pad::Replicate);
        // What is added in the place of all that was there is the element at the end.
        let fits = |&whole: &usize| (replicate || end.kept(size)) && (circular || whole > 0);
        let whole = end.size(size).filter(fits);
        let Some(whole) = whole else { return refuse(end.refusal(op, size)) };
        let added = end.left.max(end.right).max(0).unsigned_abs();
        let most = match self {
            Pad::Reflect => size as u64 - 1,
            Pad::Circular => size as u64,
            _ => u64::MAX,
        };
        if added > most {
            let expected = match self {
                Pad::Reflect => "less than the size of the axis",
                _ => "at most the size of the axis",
            };
            let value = format!("[{}, {}] for an axis of size {size}", end.left, end.right);
            return refuse(TensorFacts::Parameter { op, name: "widths", value, expected });
        }
        let (left, last) = (end.left, size as i64 - 1);
        // What is left of the axis goes round; the others see all of it.
        let start = left.saturating_neg().max(0);
        let rest = (last + 1 - start).saturating_add(end.right.min(0));
        let place = |i: usize| match self {
            Pad::Reflect => last - (last - (i as i64 - left).abs()).abs(),
            Pad::Circular => start + (i as i64 - left.max(0)).rem_euclid(rest.max(1)),
            _ => (i as i64).saturating_sub(left).clamp(0, last),
        };
        let places = Sequence { float: |_| 0.0, integer: place };
        task::whole(op, &places, &[], &Shape::from(whole), DType::I64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    const NUMBER: Pad = Pad::Constant(Scalar::I64(7));

    #[test]
    fn constants_around_and_taken_away() {
        let x = tensor![[1, 2, 3], [4, 5, 6]; i64];
        assert_eq!(x.pad_with([1, -1], NUMBER).unwrap(), tensor![[7, 1, 2], [7, 4, 5]; i64]);
        assert_eq!(x.pad([0, 0, -1, 1]).unwrap(), tensor![[4, 5, 6], [0, 0, 0]; i64]);
        assert_eq!(x.pad([-1, -2]).unwrap().dims(), [2, 0]);
        assert_eq!(x.pad([] as [i32; 0]).unwrap(), x);
        assert_eq!(x.t().pad([1, 0]).unwrap(), x.pad([0, 0, 1, 0]).unwrap().t());
        assert_eq!(tensor![1, 2; i64].pad_with([1, 0], 1.5).unwrap(), tensor![1, 1, 2; i64]);
        assert_eq!(tensor![true].pad([1, 1]).unwrap(), tensor![false, true, false]);
        assert_eq!(tensor![].pad_with([1, 2], NUMBER).unwrap(), tensor![7, 7, 7]);
        assert_eq!(Tensor::zeros([0, 2]).pad([1, 0]).unwrap().dims(), [0, 3]);
    }

    #[test]
    fn the_other_modes() {
        let x = tensor![[0, 1, 2], [3, 4, 5]; i64];
        let of = |widths: [i64; 2], mode| x.pad_with(widths, mode).unwrap().select(0, 0).unwrap();
        assert_eq!(of([2, 2], Pad::Reflect), tensor![2, 1, 0, 1, 2, 1, 0; i64]);
        assert_eq!(of([-1, 2], Pad::Reflect), tensor![1, 2, 1, 0; i64]);
        assert_eq!(of([4, 1], Pad::Replicate), tensor![0, 0, 0, 0, 0, 1, 2, 2; i64]);
        assert_eq!(of([-2, 1], Pad::Replicate), tensor![2, 2; i64]);
        // More is taken away than there is, as PyTorch does.
        assert_eq!(of([-3, 4], Pad::Replicate), tensor![2, 2, 2, 2; i64]);
        assert_eq!(of([4, -5], Pad::Replicate), tensor![0, 0; i64]);
        assert_eq!(of([i64::MIN, i64::MAX], Pad::Replicate), tensor![2, 2; i64]);
        assert_eq!(of([i64::MAX, i64::MIN], Pad::Replicate), tensor![0, 0; i64]);
        assert_eq!(of([3, 1], Pad::Circular), tensor![0, 1, 2, 0, 1, 2, 0; i64]);
        assert_eq!(of([-1, 2], Pad::Circular), tensor![1, 2, 1, 2; i64]);
        assert_eq!(of([-1, -2], Pad::Circular).dims(), [0]);
        let both = x.unsqueeze(0).unwrap().pad_with([1, 0, 0, 1], Pad::Reflect).unwrap();
        assert_eq!(both, tensor![[[1, 0, 1, 2], [4, 3, 4, 5], [1, 0, 1, 2]]; i64]);
        assert_eq!(Tensor::zeros([0, 2, 3]).pad_with([1, 1], Pad::Replicate).unwrap().dims(), [0, 2, 5]);
    }

    #[test]
    fn what_is_refused() {
        let x = tensor![[0.0, 1.0, 2.0]];
        let odd = |e: Result<Tensor>| refused!(e, TensorFacts::Parameter { name: "widths", .. });
        assert!(odd(x.pad(1)) && odd(x.pad([1, 1, 1])) && odd(x.pad([0; 6])) && odd(x.pad([-2, -2])));
        assert!(odd(x.pad([-4, 2])) && odd(x.pad([i64::MIN, i64::MAX])));
        assert!(refused!(x.pad([i64::MAX, i64::MAX]), TensorFacts::TooLarge { op: "pad", .. }));
        for mode in [Pad::Reflect, Pad::Replicate, Pad::Circular] {
            assert!(odd(x.pad_with([] as [i32; 0], mode)) && odd(x.pad_with([1, 1, 1, 1], mode)));
            assert!(odd(tensor![1.0, 2.0].pad_with([1, 1], mode)) && odd(x.pad_with([-4, 1], mode)));
            assert!(odd(Tensor::zeros([1, 1, 1, 3]).pad_with([1, 1], mode)));
            assert!(Tensor::zeros([2, 0]).pad_with([1, 1], mode).is_err());
        }
        for mode in [Pad::Reflect, Pad::Circular] {
            assert!(odd(x.pad_with([-4, 2], mode)) && x.pad_with([i64::MAX, i64::MIN], mode).is_err());
        }
        assert!(odd(x.pad_with([3, 0], Pad::Reflect)) && odd(x.pad_with([0, 4], Pad::Circular)));
        assert!(odd(x.pad_with([-1, -2], Pad::Replicate)));
        let huge = x.pad_with([1i64 << 60, 0], Pad::Replicate);
        assert!(refused!(huge, TensorFacts::TooLarge { op: "pad_with", .. }));
        let truth = tensor![[true, false]].pad_with([1, 1], Pad::Reflect);
        assert!(refused!(truth, TensorFacts::DTypeUnsupported { .. }));
    }
}
