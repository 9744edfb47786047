//! The gated linear unit.

use crate::axes::Axis;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::{FloatKernel, FloatOps, Formula, Real};
use crate::ops::formulas::real;
use crate::ops::reduce::expect_float;
use crate::shape::Shape;
use crate::task::{self, Read};
use crate::tensor::Tensor;

real! {
    pub(crate) formulas;
    Gated(a, b) = a * b.sigmoid();
}

impl Tensor {
    /// The first half along an axis times the sigmoid of the second. (Dauphin and others, "Language Modeling with Gated
    /// Convolutional Networks", 2016.)
    ///
    /// # Errors
    /// `DTypeUnsupported` unless this is `F32` or `F64`; `AxisOutOfRange`; `Rank` for a single number; `Parameter` for an axis of
    /// odd size.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[2.0, 3.0, 0.0, 0.0]].glu(-1)?, tensor![[1.0, 1.5]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn glu(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        self.gated(axis.into()).here()
    }

    fn gated(&self, axis: Axis) -> Result<Tensor> {
        let op = "glu";
        expect_float(op, self)?;
        if self.rank() == 0 {
            return refuse(TensorFacts::Rank { op, operand: "", expected: "at least 1", found: 0 });
        }
        let axis = self.shape().axis(op, axis)?;
        let size = self.dims()[axis];
        if !size.is_multiple_of(2) {
            let (name, value) = ("the size of the axis", size.to_string());
            return refuse(TensorFacts::Parameter {
                op,
                name,
                value,
                expected: "an even number: two halves",
            });
        }
        let half = |k: usize| self.narrow(axis as isize, (k * (size / 2)) as isize, size / 2);
        let (a, b) = (half(0)?, half(1)?);
        let (shape, dtype): (&Shape, _) = (a.shape(), self.dtype());
        task::map(op, &FloatKernel(Gated), &[Read::Tensor(&a, dtype), Read::Tensor(&b, dtype)], shape, dtype)
    }
}
