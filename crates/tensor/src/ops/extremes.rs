//! The largest and smallest elements over any axes, and where they are.

use super::reduce::Kept;
use crate::axes::{Axes, Over};
use crate::create::Sequence;
use crate::dtype::{Block, BlockMut, DType, Element};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::BlockKernel;
use crate::shape::{Dims, Shape};
use crate::task::{self, Read, Reduce};
use crate::tensor::Tensor;

impl Tensor {
    /// The largest element over `axes`; NaN if there is one.
    ///
    /// # Errors
    /// `AxisOutOfRange`, `DuplicateAxis`; `EmptyReduction` if a reduced axis has size 0.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 5.0], [3.0, 4.0]].amax(1)?, tensor![5.0, 4.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn amax(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.extreme("amax", Reduce::Max, &over.into()).here()
    }

    /// The smallest element over `axes`; NaN if there is one.
    ///
    /// # Errors
    /// `AxisOutOfRange`, `DuplicateAxis`; `EmptyReduction` if a reduced axis has size 0.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 5.0], [3.0, 4.0]].amin(1)?, tensor![1.0, 3.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn amin(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.extreme("amin", Reduce::Min, &over.into()).here()
    }

    fn extreme(&self, op: &'static str, reduce: Reduce, over: &Over) -> Result<Tensor> {
        let kept = Kept::new(op, self, over)?;
        kept.expect_elements(op, self)?;
        let dtype = self.dtype().to_accumulator();
        kept.fold(reduce, None, &[Read::Tensor(self, dtype)], self.shape(), dtype)?.cast(op, self.dtype())
    }

    /// The index of the largest element along one axis, or in row-major order of all (`..`); the first among equals.
    /// NaN counts as largest.
    ///
    /// # Errors
    /// `AxisOutOfRange`; `Rank` for several axes; `EmptyReduction` if there is nothing to choose from;
    /// `DTypeUnsupported` for `bool`; `TooLarge` if no memory can hold the result, or with `..` what overlapping strides stand
    /// for. An axis that is expanded is looked at once.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 5.0], [7.0, 7.0]];
    /// assert_eq!(x.argmax(1)?, tensor![1, 0; i64]);
    /// assert_eq!(x.argmax(..)?.item_as::<i64>()?, 2);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn argmax(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.arg_index("argmax", Reduce::Max, &over.into()).here()
    }

    /// The index of the smallest element, as [`Self::argmax`].
    ///
    /// # Errors
    /// As [`Self::argmax`].
    ///
    /// ```
    /// use foldback_tensor::{keep, tensor};
    /// assert_eq!(tensor![[1.0, 5.0], [7.0, 7.0]].argmin(keep(0))?, tensor![[0, 0]; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn argmin(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.arg_index("argmin", Reduce::Min, &over.into()).here()
    }

    /// The largest element over `over`, as [`Self::amax`]; a [`Self::max_with_indices`] for one axis says where it is.
    ///
    /// # Errors
    /// As [`Self::amax`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 5.0], [7.0, 7.0]];
    /// assert_eq!(x.max(..)?.item_as::<f32>()?, 7.0);
    /// assert_eq!(x.max(1)?, tensor![5.0, 7.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn max(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.extreme("max", Reduce::Max, &over.into()).here()
    }

    /// The largest elements along an axis or of all (`..`), and their indices: PyTorch's `max(dim)`.
    ///
    /// # Errors
    /// As [`Self::argmax`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (values, indices) = tensor![[1.0, 5.0], [7.0, 7.0]].max_with_indices(1)?;
    /// assert_eq!(values, tensor![5.0, 7.0]);
    /// assert_eq!(indices, tensor![1, 0; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn max_with_indices(&self, over: impl Into<Over>) -> Result<(Tensor, Tensor)> {
        const OP: &str = "max";
        let (values, indices) = self.arg_extreme(OP, Reduce::Max, &over.into()).here()?;
        Ok((values.cast(OP, self.dtype()).here()?, indices))
    }

    /// The smallest element over `over`, as [`Self::amin`]; a [`Self::min_with_indices`] for one axis says where it is.
    ///
    /// # Errors
    /// As [`Self::amin`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 5.0], [7.0, 7.0]];
    /// assert_eq!(x.min(..)?.item_as::<f32>()?, 1.0);
    /// assert_eq!(x.min(1)?, tensor![1.0, 7.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn min(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.extreme("min", Reduce::Min, &over.into()).here()
    }

    /// The smallest elements along an axis or of all (`..`), and their indices: PyTorch's `min(dim)`.
    ///
    /// # Errors
    /// As [`Self::argmax`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (values, _) = tensor![[1.0, 5.0], [7.0, 7.0]].min_with_indices(0)?;
    /// assert_eq!(values, tensor![1.0, 5.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn min_with_indices(&self, over: impl Into<Over>) -> Result<(Tensor, Tensor)> {
        const OP: &str = "min";
        let (values, indices) = self.arg_extreme(OP, Reduce::Min, &over.into()).here()?;
        Ok((values.cast(OP, self.dtype()).here()?, indices))
    }

    /// The extreme value of all elements and its first index in row-major order.
    fn arg_extreme_of_all(
        &self,
        op: &'static str,
        reduce: Reduce,
        keepdim: bool,
    ) -> Result<(Tensor, Tensor)> {
        let kept = Kept::of(op, self, &Axes::All, keepdim)?;
        let once = self.once_along(&Dims::from_elem(true, self.rank()));
        let flat = once.reshaped(op, [once.numel()].into())?;
        let (value, mut index) = flat.arg_extreme(op, reduce, &Over::from(0))?;
        if once.shape() != self.shape() {
            let mut at = index.item_as::<i64>()?;
            let mut whole = 0;
            let steps = self.shape().row_major();
            for (&size, &step) in once.dims().iter().zip(&steps).rev() {
                whole += at % size as i64 * step as i64;
                at /= size as i64;
            }
            index = Tensor::from(whole);
        }
        Ok((kept.shaped(op, value)?, kept.shaped(op, index)?))
    }

    /// The first indices of the extreme values; of truth values there are none, as in PyTorch.
    fn arg_index(&self, op: &'static str, reduce: Reduce, over: &Over) -> Result<Tensor> {
        if self.dtype() == DType::Bool {
            return refuse(TensorFacts::DTypeUnsupported { op, dtype: DType::Bool });
        }
        Ok(self.arg_extreme(op, reduce, over)?.1)
    }

    /// The extreme values and their first indices; two folds, the second over the indices where the value is met.
    fn arg_extreme(&self, op: &'static str, reduce: Reduce, over: &Over) -> Result<(Tensor, Tensor)> {
        let (axes, keepdim) = (over.listed(), over.keepdim());
        let flags = axes.flags(op, self.shape())?;
        if let Axes::List(list) = axes
            && list.len() != 1
        {
            return refuse(TensorFacts::Rank { op, operand: "", expected: "one or all", found: list.len() });
        }
        if matches!(axes, Axes::All) && self.rank() != 1 {
            return self.arg_extreme_of_all(op, reduce, keepdim);
        }
        let once = self.once_along(&flags);
        if once.shape() != self.shape() {
            return once.arg_extreme(op, reduce, over);
        }
        let dtype = self.dtype().to_accumulator();
        let kept = Kept::new(op, self, over)?;
        kept.expect_elements(op, self)?;
        let with_axis = Kept::of(op, self, axes, true)?;
        let values = with_axis.fold(reduce, None, &[Read::Tensor(self, dtype)], self.shape(), dtype)?;
        let axis = flags.iter().position(|&r| r);
        let mut index_shape = Shape(Dims::from_elem(1, self.rank()));
        if let Some(axis) = axis {
            index_shape[axis] = self.dims()[axis];
        }
        let index = task::whole(
            op,
            &Sequence { float: |_| 0.0, integer: |i| i as i64 },
            &[],
            &index_shape,
            DType::I64,
        )?;
        let operands =
            [Read::Tensor(self, dtype), Read::Tensor(&values, dtype), Read::Tensor(&index, DType::I64)];
        let indices = kept.fold(Reduce::Min, Some(&IndexWhere), &operands, self.shape(), DType::I64)?;
        let kept_axes: Dims<bool> = with_axis.shape.iter().zip(&flags).map(|(_, &r)| keepdim || !r).collect();
        Ok((values.keep_axes(&kept_axes), indices))
    }
}

/// The index where an element is the extreme one (or NaN), else one beyond all.
struct IndexWhere;
impl IndexWhere {
    fn pick<T: Element>(inputs: &[Block<'_>], index: &[i64], out: &mut [i64]) {
        let slice = |k: usize| T::slice(inputs[k]).expect("values and extremes are of one type");
        for (((o, &v), &m), &i) in out.iter_mut().zip(slice(0)).zip(slice(1)).zip(index) {
            *o = if v == m || v.partial_cmp(&v).is_none() { i } else { i64::MAX };
        }
    }
}
impl BlockKernel for IndexWhere {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let (Block::I64(index), BlockMut::I64(out)) = (inputs[2], &mut outputs[0]) else {
            unreachable!("indices are planned as i64")
        };
        match inputs[0].dtype() {
            DType::F32 => Self::pick::<f32>(inputs, index, out),
            DType::F64 => Self::pick::<f64>(inputs, index, out),
            _ => Self::pick::<i64>(inputs, index, out),
        }
    }
}
