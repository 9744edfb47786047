//! Part of a tensor: `slice`, `narrow`, `select`; views, unless index tensors pick.

use super::slices::{Position, Slices};
use super::taken::index_on;
use crate::axes::Axis;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::ops::places::IndexedView;
use crate::tensor::Tensor;

/// # Slicing
impl Tensor {
    /// Part of the tensor: one item per leading axis, a range (with a step), an index, which drops the axis, an index tensor
    /// (`I64`), or a mask (`Bool`), which stands for as many axes as it has.
    ///
    /// Negative positions and indices count from the end, ranges stop at the ends of the axis, as in Python. Index tensors and
    /// masks broadcast together, a mask as the list of its true places. Their axes stand in the place of the axes that they
    /// pick from if these are neighbours, else in front, as in PyTorch. Without them the result is a view.
    ///
    /// # Errors
    /// `Rank` if there are more items than axes, `IndexOutOfRange`, `Range` for a step that is not positive; for index tensors
    /// `DTypeMismatch`, `Broadcast`, `MaskShape` for a mask of other sizes than its axes, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{s, tensor};
    /// let t = tensor![[0, 1, 2], [3, 4, 5]];
    /// assert_eq!(t.slice(1)?, tensor![3, 4, 5]);
    /// assert_eq!(t.slice((.., -1))?, tensor![2, 5]);
    /// assert_eq!(t.slice((0..1, 1..))?, tensor![[1, 2]]);
    /// assert_eq!(t.slice(s![.., ..;2])?, tensor![[0, 2], [3, 5]]);
    /// assert!(t.slice((.., 3)).is_err());
    ///
    /// let (rows, columns) = (tensor![1, 1, 0; i64], tensor![0, -1, 2; i64]);
    /// assert_eq!(t.slice(s![&rows, &columns])?, tensor![3, 5, 2]);
    /// assert_eq!(t.slice(s![.., &columns])?, tensor![[0, 2, 2], [3, 5, 5]]);
    /// assert_eq!(t.slice(t.gt(2)?)?, tensor![3, 4, 5]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "i")]
    #[doc(alias = "index")]
    #[doc(alias = "getitem")]
    pub fn slice(&self, slices: impl Into<Slices>) -> Result<Tensor> {
        self.taken("slice", &slices.into()).here()
    }

    fn taken(&self, op: &'static str, slices: &Slices) -> Result<Tensor> {
        let taken = slices.resolve(op, self.shape())?;
        let own = self.strides();
        let (shape, strides) = taken.view(&own);
        let offset = (self.layout.offset() as isize).wrapping_add(taken.start(&own));
        let view = self.relayout(shape, strides, offset).with_meant(taken.meant(self.meant()));
        if taken.picks.is_empty() {
            return Ok(view);
        }
        IndexedView::of(op, view.dims(), &taken.picks_of_view())?.read(op, &view)
    }

    /// `len` elements of one axis from `start` on, which may count from the end.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor; `Range` if the part is not inside the axis.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let t = tensor![[0, 1, 2], [3, 4, 5]];
    /// assert_eq!(t.narrow(1, 1, 2)?, tensor![[1, 2], [4, 5]]);
    /// assert_eq!(t.narrow(-1, -1, 1)?, tensor![[2], [5]]);
    /// assert!(t.narrow(1, 1, 3).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn narrow(&self, axis: impl Into<Axis>, start: impl Into<Position>, len: usize) -> Result<Tensor> {
        let axis = self.shape().own_axis("narrow", axis).here()?;
        let size = self.dims()[axis];
        let Position(given) = start.into();
        let first = if given < 0 { given.saturating_add(size as isize) } else { given };
        match usize::try_from(first) {
            Ok(first) if first <= size && len <= size - first => Ok(self.part(axis, first, len)),
            _ => {
                let end = given.saturating_add(isize::try_from(len).unwrap_or(isize::MAX));
                refuse(TensorFacts::Range { op: "narrow", start: given, end, step: 1, axis, size }).here()
            }
        }
    }

    /// `narrow` on an axis counted from the front, where the part is known to be inside it.
    pub(crate) fn part(&self, axis: usize, start: usize, len: usize) -> Tensor {
        let (mut shape, strides) = (self.shape().clone(), self.layout.strides());
        let step = if len > 0 { (start as isize).wrapping_mul(strides[axis]) } else { 0 };
        shape[axis] = len;
        let offset = (self.layout.offset() as isize).wrapping_add(step);
        self.relayout(shape, strides, offset).with_meant(self.meant())
    }

    /// One element of an axis, which is dropped.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor; `IndexOutOfRange`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let t = tensor![[0, 1, 2], [3, 4, 5]];
    /// assert_eq!(t.select(1, -1)?, tensor![2, 5]);
    /// assert_eq!(t.select(0, 0)?, tensor![0, 1, 2]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, axis: impl Into<Axis>, index: impl Into<Position>) -> Result<Tensor> {
        let axis = self.shape().own_axis("select", axis).here()?;
        let at = index_on("select", index.into(), axis, self.dims()[axis]).here()?;
        Ok(self.picked(axis, at))
    }

    /// `select` on an axis counted from the front, at an index that it has.
    pub(super) fn picked(&self, axis: usize, at: usize) -> Tensor {
        let (mut shape, mut strides) = (self.shape().clone(), self.layout.strides());
        shape.0.remove(axis);
        let step = (at as isize).wrapping_mul(strides.remove(axis));
        let offset = (self.layout.offset() as isize).wrapping_add(step);
        let meant = self.meant().removed(self.rank() - 1 - axis);
        self.relayout(shape, strides, offset).with_meant(meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Slice, refused, s, tensor};

    fn grid() -> Tensor {
        Tensor::arange(24).reshape([2, 3, 4]).unwrap()
    }

    #[test]
    fn narrow_inside_and_at_the_ends() {
        let t = grid();
        assert_eq!(t.narrow(2, 3, 1).unwrap().to_vec::<i64>().unwrap(), [3, 7, 11, 15, 19, 23]);
        assert_eq!(
            t.narrow(-2, -2, 2).unwrap().slice(0).unwrap(),
            tensor![[4, 5, 6, 7], [8, 9, 10, 11]; i64]
        );
        assert_eq!(t.narrow(1, 3, 0).unwrap().dims(), [2, 0, 4]);
        let n = 2usize;
        assert_eq!(t.narrow(0, n - 1, 1).unwrap().dims(), [1, 3, 4]);
        assert_eq!(
            t.flip(..).unwrap().narrow(2, 0, 1).unwrap().to_vec::<i64>().unwrap(),
            [23, 19, 15, 11, 7, 3]
        );
    }

    #[test]
    fn a_list_of_indices_in_the_macro_is_an_index_tensor() {
        let (t, last) = (grid(), 3i64);
        let rows = tensor![2, 0; i64];
        assert_eq!(t.slice(s![0, [2, 0]]).unwrap(), t.slice(s![0, &rows]).unwrap());
        assert_eq!(t.slice(s![.., [-1, 0,], [last, 1]]).unwrap(), tensor![[11, 1], [23, 13]; i64]);
        // An expression that begins with one is an expression, and a list by itself has an index for each axis.
        assert_eq!(t.slice(s![[0, 1].len() - 1, ..;2]).unwrap(), t.slice(s![1, ..;2]).unwrap());
        assert_eq!(t.slice([1, 2]).unwrap(), t.slice(s![1, 2]).unwrap());
        assert!(refused!(t.slice(s![[2]]), TensorFacts::IndexOutOfRange { index: 2, size: 2, .. }));
    }

    #[test]
    fn narrow_refuses_what_is_outside() {
        let t = grid();
        for (start, len) in
            [(0isize, 5usize), (4, 1), (5, 0), (-5, 1), (-1, 2), (isize::MAX, usize::MAX), (isize::MIN, 0)]
        {
            assert!(refused!(t.narrow(2, start, len), TensorFacts::Range { .. }), "{start} {len}");
        }
        assert!(refused!(t.narrow(3, 0, 1), TensorFacts::AxisOutOfRange { .. }));
        assert!(refused!(Tensor::scalar(1.0).narrow(0, 0, 1), TensorFacts::AxisOutOfRange { .. }));
        assert!(refused!(t.narrow(0, usize::MAX, 1), TensorFacts::Range { .. }));
    }

    #[test]
    fn select_drops_the_axis() {
        let t = grid();
        assert_eq!(t.select(0, 1).unwrap().dims(), [3, 4]);
        assert_eq!(t.select(-1, -1).unwrap(), tensor![[3, 7, 11], [15, 19, 23]; i64]);
        assert!(refused!(t.select(1, 3), TensorFacts::IndexOutOfRange { index: 3, axis: 1, size: 3, .. }));
        assert!(refused!(t.select(1, -4), TensorFacts::IndexOutOfRange { .. }));
        assert!(refused!(t.select(1, usize::MAX), TensorFacts::IndexOutOfRange { .. }));
        assert!(refused!(tensor![[], []].select(1, 0), TensorFacts::IndexOutOfRange { .. }));
        assert_eq!(tensor![[], []].select(0, 1).unwrap().dims(), [0]);
    }

    #[test]
    fn slice_takes_what_python_takes() {
        let t = Tensor::arange(10);
        let got = |s: Slice| t.slice(s).unwrap().to_vec::<i64>().unwrap();
        assert_eq!(got((2..5).into()), [2, 3, 4]);
        assert_eq!(got((..=2).into()), [0, 1, 2]);
        assert_eq!(t.slice(s![7..=-1]).unwrap(), tensor![7, 8, 9; i64]);
        assert_eq!(t.slice(s![7..-1]).unwrap(), tensor![7, 8; i64]);
        assert_eq!(got((-3..).into()), [7, 8, 9]);
        assert_eq!(got((8..100).into()), [8, 9]);
        assert_eq!(got((-100..2).into()), [0, 1]);
        assert_eq!(got(Slice::new(5, 2, 1)), []);
        assert_eq!(got(Slice::new(1, -1, 3)), [1, 4, 7]);
        assert_eq!(got(Slice::from(..).step(isize::MAX)), [0]);
        assert_eq!(got(Slice::new(isize::MIN, isize::MAX, 4)), [0, 4, 8]);
        assert_eq!(got((0..=usize::MAX).into()).len(), 10);
    }

    #[test]
    fn slice_over_several_axes() {
        let t = grid();
        assert_eq!(t.slice((1, 1..3, ..2)).unwrap(), tensor![[16, 17], [20, 21]; i64]);
        assert_eq!(t.slice(s![.., -1, ..;2]).unwrap(), tensor![[8, 10], [20, 22]; i64]);
        assert_eq!(t.slice(s![1, 2, 3]).unwrap().item_as::<i64>().unwrap(), 23);
        assert_eq!(t.slice([0..1, 0..2]).unwrap().dims(), [1, 2, 4]);
        assert_eq!(t.slice(vec![0, 1]).unwrap(), tensor![4, 5, 6, 7; i64]);
        assert_eq!(t.slice(()).unwrap(), t);
        assert_eq!(t.slice(s![]).unwrap(), t);
        assert_eq!(t.slice(s![0..1; 1, 1,]).unwrap().dims(), [1, 4]);
        assert_eq!(t.slice((.., 3..)).unwrap().dims(), [2, 0, 4]);
        assert_eq!(t.slice((.., 3.., 1)).unwrap().dims(), [2, 0]);
    }

    #[test]
    fn slice_of_a_slice() {
        let t = grid().flip(2).unwrap().transpose(0, 2).unwrap();
        let s = t.slice((Slice::from(..).step(2), 1..)).unwrap();
        assert_eq!(s.dims(), [2, 2, 2]);
        assert_eq!(s.to_vec::<i64>().unwrap(), [7, 19, 11, 23, 5, 17, 9, 21]);
        let e = tensor![1.0].expand([5]).unwrap().slice(1..3).unwrap();
        assert_eq!((e.dims(), &e.strides()[..]), (&[2][..], &[0][..]));
    }

    #[test]
    fn slice_refuses() {
        let t = grid();
        assert!(refused!(t.slice(Slice::new(0, 1, 0)), TensorFacts::Range { step: 0, .. }));
        assert!(refused!(t.slice(Slice::from(..).step(-1)), TensorFacts::Range { step: -1, .. }));
        assert!(refused!(t.slice((0, 0, 0, 0)), TensorFacts::Rank { .. }));
        assert!(refused!(t.slice((.., 3)), TensorFacts::IndexOutOfRange { .. }));
        assert!(refused!(Tensor::scalar(1.0).slice(..), TensorFacts::Rank { .. }));
    }
}
