//! Writing whole tensors and slices of them; a buffer that anyone else holds is copied first.

use ndarray::{ArrayViewMutD, Axis, IxDyn, Slice as AxisSlice};

use super::slices::Slices;
use super::taken::AxisRange;
use crate::dtype::{BlockMut, Element, with_block};
use crate::error::{Here, Result, refuse};
use crate::ops::places::IndexedView;
use crate::ops::{Arg, AsArg};
use crate::shape::{Dims, Shape};
use crate::task::{self, Does, Read, Space, Task, To, WholeRule};
use crate::tensor::Tensor;

/// # Writing
impl Tensor {
    /// Writes `value` into a slice of this tensor. The value expands to the slice's shape and is cast to this dtype; leading
    /// axes of size 1 that the slice does not have are dropped, as PyTorch's assignment does.
    ///
    /// Of several elements for a place that index tensors name more than once, the last in row-major order remains. Other
    /// tensors that share the buffer do not see it.
    ///
    /// # Errors
    /// As [`Tensor::slice`]; `Expand` if the value does not expand to the slice's shape; `Parameter` for a number that is NaN,
    /// infinite or beyond `i64` if this holds integers; `TooLarge` if this is an expanded view that no memory can hold. Nothing is
    /// written then.
    ///
    /// ```
    /// use foldback_tensor::{s, tensor};
    /// let mut t = tensor![[0, 1, 2], [3, 4, 5]];
    /// t.slice_assign(s![.., ..;2], &tensor![[9], [8]])?;
    /// assert_eq!(t, tensor![[9, 1, 9], [8, 4, 8]]);
    /// t.slice_assign(s![.., tensor![1, 1; i64]], tensor![6, 7])?;
    /// assert_eq!(t, tensor![[9, 7, 9], [8, 7, 8]]);
    /// t.slice_assign(t.gt(8)?, 0)?;
    /// assert_eq!(t, tensor![[0, 7, 0], [8, 7, 8]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "index_put")]
    #[doc(alias = "index_copy")]
    #[doc(alias = "index_fill")]
    #[doc(alias = "setitem")]
    pub fn slice_assign(&mut self, slices: impl Into<Slices>, value: impl AsArg) -> Result<&mut Tensor> {
        self.put("slice_assign", &slices.into(), value.arg(), false).here()?;
        Ok(self)
    }

    /// Adds `value` to a slice of this tensor, where every element counts: to a place that index tensors name more than once
    /// several are added, in row-major order. The value expands and is cast as in [`Tensor::slice_assign`]; integers wrap,
    /// truth values are or-ed.
    ///
    /// # Errors
    /// As `slice_assign`.
    ///
    /// ```
    /// use foldback_tensor::{s, tensor};
    /// let mut t = tensor![0.0, 0.0, 0.0];
    /// t.slice_add(tensor![2, 0, 2; i64], tensor![1.0, 10.0, 100.0])?;
    /// assert_eq!(t, tensor![10.0, 0.0, 101.0]);
    /// t.slice_add(s![1..], 5)?;
    /// assert_eq!(t, tensor![10.0, 5.0, 106.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn slice_add(&mut self, slices: impl Into<Slices>, value: impl AsArg) -> Result<&mut Tensor> {
        self.put("slice_add", &slices.into(), value.arg(), true).here()?;
        Ok(self)
    }

    /// Writes or adds a value to the places that slices name.
    fn put(&mut self, op: &'static str, slices: &Slices, value: Arg<'_>, add: bool) -> Result<()> {
        let taken = slices.resolve(op, self.shape())?;
        let shape = taken.shape(op)?;
        value.expect_fits(op, self.dtype())?;
        let value = value.tensor(self.dtype()).without_surplus_axes(op, &shape)?;
        let mut value = value.expanded(op, shape)?.cast(op, self.dtype())?;
        if value.numel() == 0 {
            return Ok(());
        }
        if !taken.picks.is_empty() {
            let whole = self.shape().row_major();
            let (view, strides) = taken.view(&whole);
            let picks = taken.picks_of_view();
            let start = taken.start(&whole) as usize;
            return IndexedView::of(op, &view, &picks)?.write(op, self, start, &strides, &value, add);
        }
        if add {
            value = self.slice(slices.clone())?.add(&value)?;
        }
        let shape = self.shape().clone();
        let (reads, space) = (&[Read::Tensor(&value, value.dtype())], Space::Of(&shape));
        let does = Does::Whole(&Assignment { shape: &shape, parts: &taken.parts });
        task::change(Task { op, reads, space, does, to: &mut [To::Change(self)] })
    }

    /// Overwrites every element with one value, a number or a tensor without axes, cast to this dtype.
    ///
    /// # Errors
    /// `Expand` if the value has axes, `Parameter` if this holds integers and the value is NaN, infinite or beyond `i64`, `TooLarge`
    /// if this is an expanded view that no memory can hold; nothing is written then.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let mut t = tensor![1.0, 2.0];
    /// t.fill_(7)?;
    /// assert_eq!(t, tensor![7.0, 7.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn fill_(&mut self, value: impl AsArg) -> Result<&mut Tensor> {
        let value = match value.arg() {
            Arg::Scalar(s) => s,
            Arg::Tensor(t) if t.rank() == 0 => t.scalar_at(t.layout.offset()),
            Arg::Tensor(t) => {
                return refuse(t.shape().expand_error("fill_", "value", &Shape::scalar())).here();
            }
        };
        value.expect_fits("fill_", self.dtype()).here()?;
        let (shape, does) = (self.shape().clone(), Does::Fill(value));
        let (space, to) = (Space::Of(&shape), &mut [To::Over(self)]);
        task::change(Task { op: "fill_", reads: &[], space, does, to }).here()?;
        Ok(self)
    }

    /// Overwrites the elements with another tensor's, which expand to this shape and are cast to this dtype.
    ///
    /// # Errors
    /// `Expand` if the other shape does not expand to this one, `Parameter` as for [`Tensor::fill_`] for a number, `TooLarge` if this is an expanded view that no memory can
    /// hold; nothing is written then.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let mut t = tensor![[0, 0], [0, 0]; i64];
    /// t.copy_(&tensor![1.5, 2.5])?;
    /// assert_eq!(t, tensor![[1, 2], [1, 2]; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_(&mut self, source: impl AsArg) -> Result<&mut Tensor> {
        source.arg().expect_fits("copy_", self.dtype()).here()?;
        let source = source.arg().tensor(self.dtype()).expanded("copy_", self.shape().clone()).here()?;
        let (reads, space) = (&[Read::Tensor(&source, self.dtype())], Space::Of(source.shape()));
        task::change(Task { op: "copy_", reads, space, does: Does::Same, to: &mut [To::Over(self)] })
            .here()?;
        Ok(self)
    }
}

impl Tensor {
    /// Drops the leading axes that `to` does not have.
    ///
    /// # Errors
    /// `Expand` unless they are of size 1.
    fn without_surplus_axes(&self, op: &'static str, to: &Shape) -> Result<Tensor> {
        let surplus = self.rank().saturating_sub(to.rank());
        if self.dims()[..surplus].iter().any(|&size| size != 1) {
            return refuse(self.shape().expand_error(op, "value", to));
        }
        if surplus == 0 {
            return Ok(self.clone());
        }
        let kept: Dims<bool> = (0..self.rank()).map(|axis| axis >= surplus).collect();
        Ok(self.clone().keep_axes(&kept))
    }
}

/// Writes a value of the slice's shape and the tensor's type into parts of a tensor.
struct Assignment<'a> {
    shape: &'a Shape,
    parts: &'a [AxisRange],
}

impl WholeRule for Assignment<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        with_block!(BlockMut, out, s => assign(s, self.shape, self.parts, reads[0]));
        Ok(())
    }
}

/// Writes a value, of the slice's shape and of type `T`, into parts of contiguous elements.
fn assign<T: Element>(all: &mut [T], dims: &[usize], parts: &[AxisRange], value: &Tensor) {
    let mut target = ArrayViewMutD::from_shape(IxDyn(dims), all).expect("a block has the size of its shape");
    for (i, p) in parts.iter().enumerate() {
        // The last element taken, and not the end of the range, bounds the slice: start + len * step may not exist.
        let end = if p.len == 0 { p.start } else { p.start + (p.len - 1) * p.step + 1 };
        let slice = AxisSlice::new(p.start as isize, Some(end as isize), p.step as isize);
        target.slice_axis_inplace(Axis(i), slice);
    }
    for (i, _) in parts.iter().enumerate().rev().filter(|(_, p)| p.dropped) {
        target = target.index_axis_move(Axis(i), 0);
    }
    target.assign(&value.as_array::<T>().expect("the value was cast to the type of the target"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, TensorFacts, refused, s, tensor};

    #[test]
    fn slice_assign_broadcasts_and_casts() {
        let mut t = Tensor::zeros_with([2, 3], DType::I64);
        t.slice_assign((.., 1..), &tensor![1.9, -2.9]).unwrap();
        assert_eq!(t, tensor![[0, 1, -2], [0, 1, -2]; i64]);
        t.slice_assign(s![-1], Tensor::from(7i64)).unwrap();
        assert_eq!(t, tensor![[0, 1, -2], [7, 7, 7]; i64]);
        t.slice_assign((0, 0), Tensor::scalar(true)).unwrap();
        assert_eq!(t.select(0, 0).unwrap(), tensor![1, 1, -2; i64]);
        t.slice_assign((), &tensor![[5], [6]]).unwrap();
        assert_eq!(t, tensor![[5, 5, 5], [6, 6, 6]; i64]);
    }

    #[test]
    fn slice_assign_with_steps() {
        let mut t = Tensor::zeros([7]);
        t.slice_assign(s![1..;3], &tensor![1, 2]).unwrap();
        assert_eq!(t, tensor![0, 1, 0, 0, 2, 0, 0]);
        t.slice_assign(s![..; isize::MAX], &tensor![9]).unwrap();
        assert_eq!(t, tensor![9, 1, 0, 0, 2, 0, 0]);
    }

    #[test]
    fn no_other_tensor_sees_a_write() {
        let mut t = tensor![1, 2, 3, 4];
        let (clone, view) = (t.clone(), t.narrow(0, 1, 2).unwrap());
        t.slice_assign(2.., t.slice(..2).unwrap()).unwrap();
        assert_eq!((t, clone), (tensor![1, 2, 1, 2], tensor![1, 2, 3, 4]));
        assert_eq!(view, tensor![2, 3]);
        let mut column = tensor![[1, 2], [3, 4]].t();
        let same = column.clone();
        column.slice_assign(s![0], &tensor![0]).unwrap();
        assert_eq!((column, same), (tensor![[0, 0], [2, 4]], tensor![[1, 3], [2, 4]]));
    }

    #[test]
    fn a_write_into_an_expanded_tensor_changes_one_place() {
        let mut t = tensor![1.0].expand([3]).unwrap();
        t.slice_assign(1, Tensor::scalar(5.0f32)).unwrap();
        assert_eq!(t, tensor![1, 5, 1]);
        let mut huge = tensor![1.0].expand([1usize << 55]).unwrap();
        assert!(refused!(huge.slice_assign(1, Tensor::scalar(5.0f32)), TensorFacts::TooLarge { .. }));
        assert!(refused!(huge.copy_(&tensor![1.0]), TensorFacts::TooLarge { .. }));
    }

    #[test]
    fn slice_assign_refuses_and_changes_nothing() {
        let mut t = tensor![[1, 2], [3, 4]];
        assert!(refused!(t.slice_assign(0, &tensor![[1], [2]]), TensorFacts::Expand { dim: 0, .. }));
        assert!(refused!(t.slice_assign(0, &tensor![[1, 2, 3]]), TensorFacts::Expand { dim: 0, .. }));
        assert!(refused!(t.slice_assign(2, &tensor![1]), TensorFacts::IndexOutOfRange { .. }));
        assert!(refused!(t.slice_assign((0, 0, 0), &tensor![1]), TensorFacts::Rank { .. }));
        assert!(refused!(t.slice_assign(s![..;0], &tensor![1]), TensorFacts::Range { .. }));
        t.slice_assign(s![2..], Tensor::scalar(0.0)).unwrap();
        assert_eq!(t, tensor![[1, 2], [3, 4]]);
    }

    #[test]
    fn leading_axes_of_size_1_of_a_value_are_dropped() {
        let mut t = tensor![1, 2, 3];
        t.slice_assign(0, &tensor![7]).unwrap();
        t.slice_assign(1.., &tensor![[[8, 9]]]).unwrap();
        assert_eq!(t, tensor![7, 8, 9]);
        t.slice_assign((), &tensor![[[5]]]).unwrap();
        assert_eq!(t, tensor![5, 5, 5]);
        let mut empty = tensor![];
        empty.slice_assign((), Tensor::zeros([1, 0])).unwrap();
    }

    #[test]
    fn fill_and_copy() {
        let mut t = tensor![[1, 2], [3, 4]];
        let view = t.t();
        t.fill_(0.5).unwrap();
        assert_eq!(t, tensor![[0.5, 0.5], [0.5, 0.5]]);
        t.fill_(1).unwrap().fill_(tensor![2].squeeze(..).unwrap()).unwrap();
        assert!(t.fill_(tensor![2]).is_err());
        assert_eq!((t.clone(), view.clone()), (tensor![[2, 2], [2, 2]], tensor![[1, 3], [2, 4]]));
        t.copy_(&view).unwrap();
        assert_eq!(t, view);
        t.copy_(&tensor![7, 8; i64]).unwrap();
        assert_eq!(t, tensor![[7, 8], [7, 8]]);
        let mut own = tensor![[1, 2], [3, 4]].t();
        own.copy_(own.clone().t()).unwrap();
        assert_eq!(own, tensor![[1, 2], [3, 4]]);
        assert!(refused!(t.copy_(&tensor![1, 2, 3]), TensorFacts::Expand { .. }));
        assert!(tensor![].fill_(1).unwrap().dims() == [0] && tensor![].copy_(&tensor![1]).is_ok());
        let mut b = tensor![true; bool];
        assert_eq!(*b.copy_(&tensor![0.0]).unwrap(), tensor![false; bool]);
    }
}
