//! Reductions over any axes, all of them folds of a kernel's blocks: which axes are kept, sums, products, means, truth.

use crate::axes::{Axes, Over};
use crate::dtype::{Block, BlockMut, DType};
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

    pub(super) fn of(op: &'static str, t: &Tensor, axes: &Axes, keepdim: bool) -> Result<Kept> {
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
