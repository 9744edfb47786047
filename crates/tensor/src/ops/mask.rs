//! Elements where a mask is true: filled, selected, and their places.

use std::borrow::Cow;

use crate::dtype::{BlockMut, DType};
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::shape::{Shape, broadcast_two};
use crate::task::{self, WholeRule, expect_expands};
use crate::tensor::Tensor;

use super::arg::{Arg, AsArg};
use super::index::{own, reads};
use super::warning::expect_meant;

/// # Masks
impl Tensor {
    /// This tensor with `value` where `mask` is true. The two broadcast; the element type stays, `value` is cast to it.
    ///
    /// Chosen, not multiplied: what stood there, NaN too, is gone.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the mask is `Bool`, `Parameter` for a value with axes or one that integers have no place for (NaN,
    /// infinities, beyond `i64`), `Broadcast`, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(x.masked_fill(&tensor![true, false], -1)?, tensor![[-1.0, 2.0], [-1.0, 4.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill(&self, mask: impl AsArg, value: impl AsArg) -> Result<Tensor> {
        let (mask, value) = (mask_of(mask.arg()), value.arg());
        value.expect_fits("masked_fill", self.dtype()).here()?;
        let value = value.tensor(self.dtype());
        expect_mask("masked_fill", &mask, Some((&value, self.dtype()))).here()?;
        let value = value.cast("masked_fill", self.dtype()).here()?;
        mask.where_cond(value, self).map_err(|e| e.named("masked_fill")).here()
    }

    /// [`Tensor::masked_fill`] in place: the mask broadcasts to this tensor.
    ///
    /// # Errors
    /// As there; `Overlap` for an expanded view. Nothing is changed then.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let mut x = tensor![1.0, f32::NAN];
    /// x.masked_fill_(x.ne(&x)?, 0)?;
    /// assert_eq!(x, tensor![1.0, 0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill_(&mut self, mask: impl AsArg, value: impl AsArg) -> Result<&mut Tensor> {
        const OP: &str = "masked_fill_";
        let mask = mask_of(mask.arg());
        expect_expands(OP, mask.dims(), self.dims()).here()?;
        if self.overlaps_itself() {
            let (shape, strides) = (self.shape().clone(), self.strides().to_vec());
            return refuse(TensorFacts::Overlap { op: OP, shape, strides }).here();
        }
        *self = self.masked_fill(&*mask, value).map_err(|e| e.named(OP)).here()?;
        Ok(self)
    }

    /// The elements where `mask` is true, in row-major order of the shape that the two broadcast to: a vector.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the mask is `Bool`, `Broadcast`, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, -2.0], [-3.0, 4.0]];
    /// assert_eq!(x.masked_select(x.gt(0)?)?, tensor![1.0, 4.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "boolean_mask")]
    pub fn masked_select(&self, mask: impl AsArg) -> Result<Tensor> {
        const OP: &str = "masked_select";
        let (shape, places) = selected(self, &mask_of(mask.arg())).here()?;
        let all = self.expanded(OP, shape).and_then(|t| t.reshape(-1));
        all.and_then(|t| t.index_select(0, places)).map_err(|e| e.named(OP)).here()
    }

    /// The places of the elements that are not zero (or true), in row-major order: `I64`, a row of coordinates for each.
    ///
    /// NaN is not zero. A 0-d tensor has no coordinates: `[1, 0]` or `[0, 0]`.
    ///
    /// # Panics
    /// If this is an expanded view too large to look through.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[0.0, 7.0], [8.0, 0.0]];
    /// assert_eq!(x.nonzero(), tensor![[0, 1], [1, 0]; i64]);
    /// ```
    #[track_caller]
    #[doc(alias = "argwhere")]
    pub fn nonzero(&self) -> Tensor {
        or_panic(self.try_nonzero())
    }

    /// [`Self::nonzero`], with an error where that panics.
    ///
    /// # Errors
    /// `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::Tensor;
    /// assert!(Tensor::scalar(1.0).expand([1usize << 60])?.try_nonzero().is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn try_nonzero(&self) -> Result<Tensor> {
        coordinates("nonzero", self).here()
    }
}

/// A mask as a tensor; a number keeps its type, of which only `Bool` is one of masks.
fn mask_of(mask: Arg<'_>) -> Cow<'_, Tensor> {
    match mask {
        Arg::Scalar(s) => mask.tensor(s.dtype()),
        Arg::Tensor(_) => mask.tensor(DType::Bool),
    }
}

/// Refuses what is no mask, and a value for it that has axes or is none of the element type.
#[doc(hidden)]
pub fn expect_mask(op: &'static str, mask: &Tensor, value: Option<(&Tensor, DType)>) -> Result<()> {
    mask.expect_dtype(op, "a mask", DType::Bool)?;
    match value {
        Some((v, _)) if v.rank() > 0 => refuse(TensorFacts::Parameter {
            op,
            name: "value",
            value: format!("a tensor of shape {}", v.shape()),
            expected: "a number or a 0-d tensor: where_cond takes other shapes",
        }),
        Some((v, dtype)) => v.scalar_at(v.layout.offset()).expect_fits(op, dtype),
        None => Ok(()),
    }
}

/// What [`Tensor::masked_select`] takes of a tensor: the shape that it expands to, and the places there.
#[doc(hidden)]
#[track_caller]
pub fn selected(from: &Tensor, mask: &Tensor) -> Result<(Shape, Tensor)> {
    let op = "masked_select";
    expect_mask(op, mask, None)?;
    let common = broadcast_two(op, from.dims(), mask.dims())?;
    expect_meant(op, &[from, mask])?;
    let places = true_places(op, &mask.expanded(op, common.clone())?)?;
    Ok((common, places))
}

/// The row-major positions where a mask is true.
pub(super) fn true_places(op: &'static str, mask: &Tensor) -> Result<Tensor> {
    let mask = mask.laid_out(op)?;
    let count = mask.reshaped(op, Shape::from(mask.numel()))?.sum(..)?.item_as::<i64>()?;
    task::whole(op, &TruePlaces, &reads(&[&mask]), &Shape::from(count as usize), DType::I64)
}

/// [`Tensor::nonzero`] in the name of another operation.
pub(crate) fn coordinates(op: &'static str, t: &Tensor) -> Result<Tensor> {
    let mask = if t.dtype() == DType::Bool { t.clone() } else { t.ne(0)? };
    let places = true_places(op, &mask)?;
    let shape = Shape::from([places.numel(), t.rank()]);
    task::whole(op, &Coordinates(t.shape()), &reads(&[&places]), &shape, DType::I64)
}

/// The positions of a row-major mask's true elements.
struct TruePlaces;

impl WholeRule for TruePlaces {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let BlockMut::I64(out) = out else { unreachable!("places are i64") };
        let places = own::<bool>(reads[0]).iter().enumerate().filter(|&(_, &is)| is);
        out.iter_mut().zip(places).for_each(|(o, (i, _))| *o = i as i64);
        Ok(())
    }
}

/// Row-major positions as coordinates in a shape.
struct Coordinates<'a>(&'a Shape);

impl WholeRule for Coordinates<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let BlockMut::I64(out) = out else { unreachable!("places are i64") };
        if self.0.rank() == 0 {
            return Ok(());
        }
        for (row, &place) in out.chunks_exact_mut(self.0.rank()).zip(own::<i64>(reads[0])) {
            let mut rest = place;
            for (o, &size) in row.iter_mut().zip(self.0.iter()).rev() {
                *o = rest % size as i64;
                rest /= size as i64;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, s, tensor};

    #[test]
    fn filling_keeps_the_type_and_broadcasts_both_ways() {
        let (x, m) = (tensor![1, 2, 3; i64], tensor![true, false, true]);
        assert_eq!(x.masked_fill(&m, 1.9).unwrap(), tensor![1, 2, 1; i64]);
        assert_eq!(x.masked_fill(&m, Tensor::from(7.5)).unwrap(), tensor![7, 2, 7; i64]);
        assert_eq!(m.masked_fill(&m, 0).unwrap(), tensor![false, false, false]);
        let both = tensor![[true], [false]];
        assert_eq!(x.masked_fill(&both, 0).unwrap(), tensor![[0, 0, 0], [1, 2, 3]; i64]);
        assert_eq!(x.masked_fill(true, 5).unwrap(), tensor![5, 5, 5; i64]);
        let nan = tensor![f32::NAN, 1.0];
        assert_eq!(
            nan.masked_fill(tensor![true, false], f32::INFINITY).unwrap(),
            tensor![f32::INFINITY, 1.0]
        );
        let mut y = x.clone();
        y.masked_fill_(&m, -1).unwrap().masked_fill_(false, 9).unwrap();
        assert_eq!((y, x), (tensor![-1, 2, -1; i64], tensor![1, 2, 3; i64]));
    }

    #[test]
    fn selecting_from_any_layout() {
        let x = Tensor::arange(6).reshape([2, 3]).unwrap();
        let m = tensor![[true, false, true], [false, false, true]];
        assert_eq!(x.masked_select(&m).unwrap(), tensor![0, 2, 5; i64]);
        assert_eq!(x.t().masked_select(m.t()).unwrap(), tensor![0, 2, 5; i64]);
        assert_eq!(x.t().contiguous().t().masked_select(&m).unwrap(), tensor![0, 2, 5; i64]);
        assert_eq!(x.flip(1).unwrap().masked_select(&m).unwrap(), tensor![2, 0, 3; i64]);
        assert_eq!(x.slice(s![.., ..;2]).unwrap().masked_select(true).unwrap(), tensor![0, 2, 3, 5; i64]);
        assert_eq!(tensor![1, 2].masked_select(tensor![[true], [false]]).unwrap(), tensor![1, 2]);
        assert_eq!(Tensor::scalar(3.0).masked_select(true).unwrap(), tensor![3.0]);
        assert_eq!(x.masked_select(false).unwrap().dims(), [0]);
        assert_eq!(Tensor::zeros([0, 3]).masked_select(true).unwrap().dims(), [0]);
    }

    #[test]
    fn places() {
        assert_eq!(tensor![f32::NAN, -0.0, 2.0].nonzero(), tensor![[0], [2]; i64]);
        assert_eq!(Tensor::scalar(2.0).nonzero().dims(), [1, 0]);
        assert_eq!(Tensor::scalar(0.0).nonzero().dims(), [0, 0]);
        assert_eq!(Tensor::zeros([2, 0]).nonzero().dims(), [0, 2]);
        let x = tensor![[[0, 1], [1, 0]], [[0, 0], [0, 1]]; i64];
        assert_eq!(x.nonzero(), tensor![[0, 0, 1], [0, 1, 0], [1, 1, 1]; i64]);
        assert_eq!(
            x.transpose(1, 2).unwrap().contiguous().transpose(1, 2).unwrap().nonzero(),
            tensor![[0, 0, 1], [0, 1, 0], [1, 1, 1]; i64]
        );
    }

    #[test]
    fn what_is_refused() {
        let mut x = tensor![1.0, 2.0];
        assert!(refused!(
            x.masked_fill(tensor![1, 0; i64], 0),
            TensorFacts::DTypeMismatch { operand: "a mask", .. }
        ));
        assert!(refused!(
            x.masked_fill(true, tensor![1.0]),
            TensorFacts::Parameter { op: "masked_fill", .. }
        ));
        assert!(refused!(
            x.masked_fill(tensor![true, true, false], 0),
            TensorFacts::Broadcast { op: "masked_fill", .. }
        ));
        let wide = tensor![[true], [true]];
        assert!(refused!(x.masked_fill_(wide, 0), TensorFacts::Expand { op: "masked_fill_", .. }));
        let mut view = x.expand([3, 2]).unwrap();
        assert!(refused!(view.masked_fill_(true, 0), TensorFacts::Overlap { op: "masked_fill_", .. }));
        assert!(refused!(x.masked_select(&x), TensorFacts::DTypeMismatch { op: "masked_select", .. }));
        assert!(refused!(x.masked_select(tensor![true, true, false]), TensorFacts::Broadcast { .. }));
        let huge = x.select(0, 0).unwrap().expand([1usize << 60]).unwrap();
        assert!(refused!(huge.masked_select(true), TensorFacts::TooLarge { op: "masked_select", .. }));
    }
}
