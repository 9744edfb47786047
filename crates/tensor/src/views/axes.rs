//! Views that reorder, add, drop or turn round axes.

use crate::axes::{Axes, Axis};
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::shape::{Dims, Shape, axis_index};
use crate::tensor::{Tensor, order_of};

/// # Axes
impl Tensor {
    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this tensor.
    ///
    /// `..` leaves them as they are.
    ///
    /// # Errors
    /// `Rank` if not every axis is named, `AxisOutOfRange`, `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// let t = Tensor::zeros([2, 3, 4]);
    /// assert_eq!(t.permute([2, 0, 1])?.dims(), [4, 2, 3]);
    /// assert_eq!(t.permute([-1, 0, 1])?.dims(), [4, 2, 3]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn permute(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        let order = axis_list("permute", &axes.into(), self.rank()).here()?;
        if order.len() != self.rank() {
            return refuse(TensorFacts::Rank {
                op: "permute",
                operand: "",
                expected: "each of the tensor's",
                found: order.len(),
            })
            .here();
        }
        Ok(self.reordered(&order))
    }

    /// The same elements with their axes in another order.
    pub(crate) fn reordered(&self, order: &[usize]) -> Tensor {
        let (l, own) = (&self.layout, self.layout.strides());
        let (mut shape, mut strides) = (Dims::from_elem(0, order.len()), Dims::from_elem(0, order.len()));
        for (to, &from) in order.iter().enumerate() {
            (shape[to], strides[to]) = (l.shape[from], own[from]);
        }
        self.relayout(Shape(shape), strides, l.offset() as isize)
            .with_meant(l.meant.reordered(self.rank(), order))
    }

    /// A tensor whose axes are those given of another one, in their order there.
    pub(crate) fn put_back(&self, axes: &[usize]) -> Tensor {
        let mut order: Dims<usize> = (0..axes.len()).collect();
        order.sort_by_key(|&place| axes[place]);
        self.reordered(&order)
    }

    /// The view whose elements lie one after another, and the axes that it has, if this tensor's own lie in another order.
    pub(crate) fn as_it_lies(&self) -> Option<(Tensor, Dims<usize>)> {
        let strides = self.layout.own_strides().filter(|_| !self.is_contiguous())?;
        let order = order_of(self.dims(), strides)?;
        Some((self.reordered(&order), order))
    }

    /// Two axes exchanged.
    ///
    /// # Errors
    /// `AxisOutOfRange`.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// assert_eq!(Tensor::zeros([2, 3, 4]).transpose(0, -1)?.dims(), [4, 3, 2]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "swapaxes")]
    #[doc(alias = "swapdims")]
    pub fn transpose(&self, a: impl Into<Axis>, b: impl Into<Axis>) -> Result<Tensor> {
        let (a, b) = (self.shape().axis("transpose", a).here()?, self.shape().axis("transpose", b).here()?);
        Ok(if self.rank() > 0 { self.swapped(a, b) } else { self.clone() })
    }

    fn swapped(&self, a: usize, b: usize) -> Tensor {
        let l = &self.layout;
        let (mut shape, mut strides) = (l.shape.clone(), l.strides());
        shape.swap(a, b);
        strides.swap(a, b);
        self.relayout(shape, strides, l.offset() as isize).with_meant(l.meant.swapped(self.rank(), a, b))
    }

    /// The transpose of a matrix; a vector or a number is returned as it is.
    ///
    /// # Panics
    /// For more than two axes.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].t(), tensor![[1.0, 3.0], [2.0, 4.0]]);
    /// ```
    #[track_caller]
    #[doc(alias = "T")]
    pub fn t(&self) -> Tensor {
        or_panic(self.try_t())
    }

    /// [`Self::t`], with an error where that panics.
    ///
    /// # Errors
    /// `Rank` for more than two axes.
    ///
    /// ```
    /// use foldback_tensor::Tensor;
    /// assert!(Tensor::zeros([2, 3, 4]).try_t().is_err());
    /// ```
    #[track_caller]
    pub fn try_t(&self) -> Result<Tensor> {
        match self.rank() {
            0 | 1 => Ok(self.clone()),
            2 => Ok(self.swapped(0, 1)),
            found => refuse(TensorFacts::Rank { op: "t", operand: "", expected: "at most 2", found }).here(),
        }
    }

    /// Moves axes to other positions; the others keep their order.
    ///
    /// # Errors
    /// `Rank` if there are not as many destinations as sources, `AxisOutOfRange`, `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// let t = Tensor::zeros([2, 3, 4]);
    /// assert_eq!(t.movedim(0, -1)?.dims(), [3, 4, 2]);
    /// assert_eq!(t.movedim([0, 1], [1, 2])?.dims(), [4, 2, 3]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "moveaxis")]
    pub fn movedim(&self, source: impl Into<Axes>, destination: impl Into<Axes>) -> Result<Tensor> {
        // A single number has one axis to name, as everywhere, and nothing to move.
        let rank = self.rank().max(1);
        let from = axis_list("movedim", &source.into(), rank).here()?;
        let to = axis_list("movedim", &destination.into(), rank).here()?;
        if from.len() != to.len() {
            return refuse(TensorFacts::Rank {
                op: "movedim",
                operand: "",
                expected: "as many destination as source",
                found: to.len(),
            })
            .here();
        }
        if self.rank() == 0 {
            return Ok(self.clone());
        }
        let mut order: Dims<usize> = (0..self.rank()).filter(|i| !from.contains(i)).collect();
        let mut moves: Dims<(usize, usize)> = to.iter().copied().zip(from.iter().copied()).collect();
        moves.sort_unstable();
        for &(to, from) in &moves {
            order.insert(to, from);
        }
        Ok(self.reordered(&order))
    }

    /// Drops the named axes whose size is 1 and leaves the others; `..` drops every axis of size 1.
    ///
    /// # Errors
    /// `AxisOutOfRange`, `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// let t = Tensor::zeros([1, 3, 1]);
    /// assert_eq!(t.squeeze(..)?.dims(), [3]);
    /// assert_eq!(t.squeeze(-1)?.dims(), [1, 3]);
    /// assert_eq!(t.squeeze(1)?.dims(), [1, 3, 1]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn squeeze(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        let named = axes.into().flags("squeeze", self.shape()).here()?;
        let kept: Dims<usize> =
            (0..self.rank()).filter(|&i| !named[i] || self.layout.shape[i] != 1).collect();
        Ok(self.reordered(&kept))
    }

    /// Inserts an axis of size 1 before position `axis`; -1 appends one.
    ///
    /// # Errors
    /// `AxisOutOfRange`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].unsqueeze(0)?.dims(), [1, 2]);
    /// assert_eq!(tensor![1.0, 2.0].unsqueeze(-1)?.dims(), [2, 1]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "expand_dims")]
    pub fn unsqueeze(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let at = axis_index("unsqueeze", axis.into(), self.rank() + 1, self.rank()).here()?;
        let (mut shape, mut strides) = (self.layout.shape.clone(), self.layout.strides());
        let step = shape.get(at).map_or(1, |&size| strides[at].saturating_mul(size as isize));
        shape.0.insert(at, 1);
        strides.insert(at, step);
        let meant = self.meant().inserted(self.rank() - at);
        Ok(self.relayout(shape, strides, self.layout.offset() as isize).with_meant(meant))
    }

    /// The elements in reverse order along the given axes.
    ///
    /// # Errors
    /// `AxisOutOfRange`, `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let t = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(t.flip(0)?, tensor![[3.0, 4.0], [1.0, 2.0]]);
    /// assert_eq!(t.flip(..)?, tensor![[4.0, 3.0], [2.0, 1.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "fliplr")]
    #[doc(alias = "flipud")]
    pub fn flip(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        let turned = axes.into().flags("flip", self.shape()).here()?;
        let (mut strides, mut offset) = (self.layout.strides(), self.layout.offset() as isize);
        for (i, &size) in self.layout.shape.iter().enumerate() {
            if turned[i] && size > 1 {
                offset = offset.wrapping_add((size as isize - 1).wrapping_mul(strides[i]));
                strides[i] = strides[i].wrapping_neg();
            }
        }
        Ok(self.relayout(self.shape().clone(), strides, offset).with_meant(self.meant()))
    }
}

/// The named axes in the order given, counted from the front.
pub(crate) fn axis_list(op: &'static str, axes: &Axes, rank: usize) -> Result<Dims<usize>> {
    let Axes::List(list) = axes else { return Ok((0..rank).collect()) };
    let mut out: Dims<usize> = Dims::new();
    for &a in list {
        let i = axis_index(op, a.into(), rank, rank)?;
        if out.contains(&i) {
            return refuse(TensorFacts::DuplicateAxis { op, axis: i });
        }
        out.push(i);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    fn grid() -> Tensor {
        Tensor::arange(24).reshape([2, 3, 4]).unwrap()
    }

    #[test]
    fn permute_moves_sizes_and_strides() {
        let p = grid().permute([2, 0, 1]).unwrap();
        assert_eq!((p.dims(), &p.strides()[..]), (&[4, 2, 3][..], &[1, 12, 4][..]));
        assert_eq!(p.select(0, 1).unwrap(), tensor![[1, 5, 9], [13, 17, 21]; i64]);
        assert_eq!(grid().permute(..).unwrap(), grid());
        assert_eq!(Tensor::scalar(2.0).permute([0isize; 0]).unwrap().rank(), 0);
    }

    #[test]
    fn what_is_turned_is_found_as_it_lies() {
        let x = Tensor::arange(0..24).reshape([2, 3, 4]).unwrap();
        let turned = x.permute([2, 0, 1]).unwrap();
        let (lying, order) = turned.as_it_lies().unwrap();
        assert!(lying.is_contiguous() && lying == x);
        assert_eq!(order[..], [1, 2, 0]);
        assert_eq!(lying.put_back(&order), turned);
        assert_eq!(lying.put_back(&order).strides(), turned.strides());
        // Of some axes that are left, in their order.
        assert_eq!(x.select(0, 1).unwrap().put_back(&[7, 3]), x.select(0, 1).unwrap().t());
        assert_eq!(turned.unsqueeze(1).unwrap().as_it_lies().unwrap().0.numel(), 24);
        // In order, with gaps, backwards, and repeated: there is no such view.
        let wide = Tensor::zeros([4, 6]).narrow(1, 0, 5).unwrap();
        for t in [&x, &wide, &wide.t(), &x.flip(0).unwrap(), &Tensor::ones([1]).expand([3]).unwrap()] {
            assert!(t.as_it_lies().is_none());
        }
    }

    #[test]
    fn permute_refuses() {
        assert!(refused!(grid().permute([0, 1]), TensorFacts::Rank { found: 2, .. }));
        assert!(refused!(grid().permute([0, 1, 1]), TensorFacts::DuplicateAxis { axis: 1, .. }));
        assert!(refused!(grid().permute([0, 1, -2]), TensorFacts::DuplicateAxis { .. }));
        assert!(refused!(grid().permute([0, 1, 3]), TensorFacts::AxisOutOfRange { axis: 3, .. }));
        assert!(refused!(grid().permute(isize::MIN), TensorFacts::AxisOutOfRange { .. }));
    }

    #[test]
    fn transpose_and_t() {
        assert_eq!(grid().transpose(-1, 0).unwrap().dims(), [4, 3, 2]);
        assert_eq!(grid().transpose(1, 1).unwrap(), grid());
        assert_eq!(Tensor::scalar(1.0).transpose(0, -1).unwrap().rank(), 0);
        assert!(refused!(grid().transpose(0, 3), TensorFacts::AxisOutOfRange { .. }));
        assert_eq!(tensor![[], []].t().dims(), [0, 2]);
        assert_eq!(tensor![1.0, 2.0].t(), tensor![1.0, 2.0]);
        assert!(refused!(grid().try_t(), TensorFacts::Rank { found: 3, .. }));
    }

    #[test]
    fn movedim_keeps_the_order_of_the_others() {
        let t = Tensor::zeros([2, 3, 4, 5]);
        assert_eq!(t.movedim(0, 2).unwrap().dims(), [3, 4, 2, 5]);
        assert_eq!(t.movedim(-1, 0).unwrap().dims(), [5, 2, 3, 4]);
        assert_eq!(t.movedim([3, 0], [0, 1]).unwrap().dims(), [5, 2, 3, 4]);
        assert_eq!(t.movedim([0, 1], [-1, 0]).unwrap().dims(), [3, 4, 5, 2]);
        assert_eq!(t.movedim(.., [3, 2, 1, 0]).unwrap().dims(), [5, 4, 3, 2]);
        assert!(refused!(t.movedim([0, 1], 0), TensorFacts::Rank { .. }));
        assert!(refused!(t.movedim([0, 0], [0, 1]), TensorFacts::DuplicateAxis { .. }));
        assert!(refused!(t.movedim(0, 4), TensorFacts::AxisOutOfRange { .. }));
    }

    #[test]
    fn squeeze_drops_only_size_one() {
        let t = Tensor::zeros([1, 2, 1, 3, 1]);
        assert_eq!(t.squeeze(..).unwrap().dims(), [2, 3]);
        assert_eq!(t.squeeze([0, 1, -1]).unwrap().dims(), [2, 1, 3]);
        assert_eq!(tensor![5.0].squeeze(0).unwrap().rank(), 0);
        assert_eq!(Tensor::scalar(5.0).squeeze(0).unwrap().rank(), 0);
        assert!(refused!(t.squeeze(5), TensorFacts::AxisOutOfRange { .. }));
        assert!(refused!(t.squeeze([0, -5]), TensorFacts::DuplicateAxis { .. }));
    }

    #[test]
    fn unsqueeze_everywhere() {
        let shapes = [(0, [1, 2, 3]), (1, [2, 1, 3]), (2, [2, 3, 1]), (-1, [2, 3, 1]), (-3, [1, 2, 3])];
        for (axis, want) in shapes {
            let t = Tensor::zeros([2, 3]).unsqueeze(axis).unwrap();
            assert_eq!(t.dims(), want);
            assert!(t.is_contiguous());
        }
        assert_eq!(Tensor::scalar(1.0).unsqueeze(0).unwrap().dims(), [1]);
        for axis in [3, -4, isize::MIN, isize::MAX] {
            assert!(refused!(Tensor::zeros([2, 3]).unsqueeze(axis), TensorFacts::AxisOutOfRange { .. }));
        }
    }

    #[test]
    fn flip_turns_axes_round() {
        let t = grid().flip([0, 2]).unwrap();
        assert_eq!(t.strides(), [-12, 4, -1]);
        assert_eq!(t.to_vec::<i64>().unwrap()[..8], [15, 14, 13, 12, 19, 18, 17, 16]);
        assert_eq!(t.flip([0, 2]).unwrap(), grid());
        assert_eq!(Tensor::scalar(1.0).flip(0).unwrap().item_as::<f64>().unwrap(), 1.0);
        assert_eq!(tensor![[], []].flip(..).unwrap().dims(), [2, 0]);
        assert_eq!(tensor![1.0].expand([3]).unwrap().flip(0).unwrap(), tensor![1, 1, 1]);
        assert!(refused!(t.flip([1, 1]), TensorFacts::DuplicateAxis { .. }));
    }
}
