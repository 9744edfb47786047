//! Reductions over any axes, all of them folds of a kernel's blocks.

use crate::axes::{Axes, Over};
use crate::create::Sequence;
use crate::dtype::{Block, BlockMut, DType, Element};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::BlockKernel;
use crate::meant::Meant;
use crate::shape::{Dims, Shape, expect_expansion};
use crate::task::{self, Does, Read, Reduce, Space, Task, To};
use crate::tensor::Tensor;

/// Which axes a reduction keeps, and the shape its result takes.
pub(crate) struct Kept {
    op: &'static str,
    pub(crate) flags: Dims<bool>,
    pub(crate) shape: Shape,
    /// elements folded into each result
    pub(crate) count: usize,
}

impl Kept {
    pub(crate) fn new(op: &'static str, t: &Tensor, over: &Over) -> Result<Kept> {
        Kept::of(op, t, over.axes(), over.keepdim())
    }

    fn of(op: &'static str, t: &Tensor, axes: &Axes, keepdim: bool) -> Result<Kept> {
        let reduced = axes.flags(op, t.shape())?;
        let mut shape = Shape::scalar();
        let mut count = 1;
        for (&size, &r) in t.shape().iter().zip(&reduced) {
            if r {
                count *= size;
            }
            match (r, keepdim) {
                (false, _) => shape.0.push(size),
                (true, true) => shape.0.push(1),
                (true, false) => {}
            }
        }
        Ok(Kept { op, flags: reduced.iter().map(|r| !r).collect(), shape, count })
    }

    /// Refuses an empty reduction where the operation has no identity.
    pub(super) fn expect_elements(&self, op: &'static str, t: &Tensor) -> Result<()> {
        if self.count == 0 {
            refuse(TensorFacts::EmptyReduction { op, shape: t.shape().clone() })
        } else {
            Ok(())
        }
    }

    /// A result that has no axes, or none of the reduced ones, in its shape.
    pub(crate) fn shaped(&self, op: &'static str, result: Tensor) -> Result<Tensor> {
        let meant = Meant::NONE.folded(&self.flags, self.shape.rank());
        Ok(result.reshaped(op, self.shape.clone())?.with_meant(meant))
    }

    /// Folds a kernel (or the only operand) and gives the result its shape.
    pub(crate) fn fold(
        &self,
        reduce: Reduce,
        kernel: Option<&dyn BlockKernel>,
        reads: &[Read<'_>],
        shape: &Shape,
        dtype: DType,
    ) -> Result<Tensor> {
        let does = kernel.map_or(Does::Same, Does::Blocks);
        let to = &mut [To::Fold(reduce, dtype, &self.flags, &self.shape)];
        task::make(Task { op: self.op, reads, space: Space::Of(shape), does, to })
    }
}

/// Truth values as the integers 0 and 1.
struct Truth;
impl BlockKernel for Truth {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let (Block::Bool(a), BlockMut::I64(out)) = (inputs[0], &mut outputs[0]) else {
            unreachable!("truth values are planned as bool in, i64 out")
        };
        for (o, &a) in out.iter_mut().zip(a) {
            *o = a as i64;
        }
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

pub(crate) fn expect_float(op: &'static str, t: &Tensor) -> Result<()> {
    if t.dtype().is_float() { Ok(()) } else { refuse(TensorFacts::DTypeUnsupported { op, dtype: t.dtype() }) }
}

impl Tensor {
    /// The sum over `axes` (`1`, `[0, -1]`, `..` or an empty list for all); integers and `bool` add up in `i64`.
    ///
    /// The error of a long sum does not grow with its length: partial sums are kept in wider accumulators. The result
    /// has the same bits for any number of threads. The sum of nothing is 0.
    ///
    /// # Errors
    /// `AxisOutOfRange` or `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::{keep, tensor};
    /// let x = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// assert_eq!(x.sum(0)?, tensor![5.0, 7.0, 9.0]);
    /// assert_eq!(x.sum(keep(-1))?, tensor![[6.0], [15.0]]);
    /// assert_eq!(x.sum(..)?.item_as::<f32>()?, 21.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn sum(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.accumulate("sum", Reduce::Sum, &over.into()).here()
    }

    /// The product over `axes`; integers and `bool` multiply in `i64`. The product of nothing is 1.
    ///
    /// # Errors
    /// `AxisOutOfRange` or `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].prod(1)?, tensor![2.0, 12.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn prod(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.accumulate("prod", Reduce::Prod, &over.into()).here()
    }

    fn accumulate(&self, op: &'static str, reduce: Reduce, over: &Over) -> Result<Tensor> {
        let kept = Kept::new(op, self, over)?;
        let dtype = self.dtype().to_accumulator();
        kept.fold(reduce, None, &[Read::Tensor(self, dtype)], self.shape(), dtype)
    }

    /// The mean over `axes`. The mean of nothing is NaN.
    ///
    /// # Errors
    /// `AxisOutOfRange`, `DuplicateAxis`; `DTypeUnsupported` for integers and `bool`, as in PyTorch.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 6.0]].mean(..)?.item_as::<f32>()?, 3.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn mean(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.average("mean", &over.into()).here()
    }

    /// The mean, for an operation of that name.
    pub(super) fn average(&self, op: &'static str, over: &Over) -> Result<Tensor> {
        expect_float(op, self)?;
        let count = Kept::new(op, self, over)?.count;
        let sum = self.accumulate(op, Reduce::Sum, over)?;
        // Not in place: the sum may be compressed.
        sum.div(count as f64)
    }

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
        Ok(self.arg_extreme("argmax", Reduce::Max, &over.into()).here()?.1)
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
        Ok(self.arg_extreme("argmin", Reduce::Min, &over.into()).here()?.1)
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

    /// The extreme values and their first indices; two folds, the second over the indices where the value is met.
    fn arg_extreme(&self, op: &'static str, reduce: Reduce, over: &Over) -> Result<(Tensor, Tensor)> {
        let (axes, keepdim) = (over.listed(), over.keepdim());
        if self.dtype() == DType::Bool && (op == "argmax" || op == "argmin") {
            return refuse(TensorFacts::DTypeUnsupported { op, dtype: DType::Bool });
        }
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

    /// Whether any element over `axes` is true (not zero): `bool`. False for nothing. An empty list of axes reduces
    /// nothing, as in PyTorch.
    ///
    /// # Errors
    /// `AxisOutOfRange` or `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[0.0, 0.0], [0.0, 2.0]].any(1)?, tensor![false, true; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn any(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.truth("any", Reduce::Sum, &over.into()).here()
    }

    /// Whether all elements over `axes` are true (not zero): `bool`. True for nothing. An empty list of axes reduces
    /// nothing, as in PyTorch.
    ///
    /// # Errors
    /// `AxisOutOfRange` or `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 3.0], [0.0, 2.0]].all(1)?, tensor![true, false; bool]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn all(&self, over: impl Into<Over>) -> Result<Tensor> {
        self.truth("all", Reduce::Prod, &over.into()).here()
    }

    fn truth(&self, op: &'static str, reduce: Reduce, over: &Over) -> Result<Tensor> {
        self.true_ones(op, reduce, over.listed(), over.keepdim())?.cast(op, DType::Bool)
    }

    /// Truth values folded as the integers 0 and 1.
    pub(super) fn true_ones(
        &self,
        op: &'static str,
        reduce: Reduce,
        axes: &Axes,
        keepdim: bool,
    ) -> Result<Tensor> {
        let kept = Kept::of(op, self, axes, keepdim)?;
        kept.fold(reduce, Some(&Truth), &[Read::Tensor(self, DType::Bool)], self.shape(), DType::I64)
    }

    /// Sums down to `shape`, from which this tensor could have been broadcast: leading axes and axes of size 1.
    ///
    /// This is what undoes broadcasting in a backward pass. A tensor of that shape already is returned as it is.
    ///
    /// # Errors
    /// `Expand` if `shape` does not broadcast to this tensor's shape.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let g = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// assert_eq!(g.sum_to_size([3])?, tensor![5.0, 7.0, 9.0]);
    /// assert_eq!(g.sum_to_size([2, 1])?, tensor![[6.0], [15.0]]);
    /// assert_eq!(g.sum_to_size(())?.item_as::<f32>()?, 21.0);
    /// assert!(g.sum_to_size([2]).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn sum_to_size(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let target = shape.into();
        // A sum to a single number counts truth values, even a single one.
        if *self.shape() == target && (self.dtype() != DType::Bool || !target.is_empty()) {
            return Ok(self.clone());
        }
        expect_expansion("sum_to_size", "target", &target, self.shape()).here()?;
        let dtype = self.dtype().to_accumulator();
        let (reads, space) = (&[Read::Tensor(self, dtype)], Space::Of(self.shape()));
        let to = &mut [To::Sum { shape: &target, dtype, prior: &mut None }];
        task::make(Task { op: "sum_to_size", reads, space, does: Does::Same, to }).here()
    }
}
