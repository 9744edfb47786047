//! `unfold`: an axis as windows that may overlap.

use crate::axes::Axis;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::tensor::Tensor;

/// # Windows
impl Tensor {
    /// Windows of `size` neighbours along an axis, one every `step`: the axis counts the windows, a new last axis runs
    /// through each. A view; what does not fill a window is left out. A 0-d tensor counts as one of shape `[1]`.
    ///
    /// # Errors
    /// `AxisOutOfRange`; `Parameter` for a size beyond the axis or a step of 0.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![1, 2, 3, 4, 5];
    /// assert_eq!(x.unfold(0, 2, 1)?, tensor![[1, 2], [2, 3], [3, 4], [4, 5]]);
    /// assert_eq!(x.unfold(0, 2, 3)?, tensor![[1, 2], [4, 5]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn unfold(&self, axis: impl Into<Axis>, size: usize, step: usize) -> Result<Tensor> {
        let op = "unfold";
        let axis = self.shape().axis(op, axis).here()?;
        let total = self.dims().get(axis).copied().unwrap_or(1);
        if size > total || step == 0 {
            let (name, value, expected) = match step {
                0 => ("step", step, "a positive number"),
                _ => ("size", size, "at most the size of the axis"),
            };
            let value = format!("{value} for an axis of size {total}");
            return refuse(TensorFacts::Parameter { op, name, value, expected }).here();
        }
        let (mut shape, mut strides) = (self.shape().clone(), self.layout.strides());
        let stride = strides.get(axis).copied().unwrap_or(1);
        let count = (total - size) / step + 1;
        if let Some(own) = shape.get_mut(axis) {
            *own = count;
            // A step past the end is never taken.
            strides[axis] = if count > 1 { stride.wrapping_mul(step as isize) } else { stride };
        }
        shape.0.push(size);
        strides.push(stride);
        crate::create::checked_len(op, &shape, self.dtype()).here()?;
        Ok(self.relayout(shape, strides, self.layout.offset() as isize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    #[test]
    fn windows_of_an_inner_axis_and_of_any_layout() {
        let x = Tensor::arange(24).reshape([2, 4, 3]).unwrap();
        for t in
            [x.clone(), x.flip(1).unwrap(), x.transpose(0, 2).unwrap().contiguous().transpose(0, 2).unwrap()]
        {
            let w = t.unfold(1, 3, 1).unwrap();
            assert_eq!(w.dims(), [2, 2, 3, 3]);
            for i in 0..2 {
                let part = t.narrow(1, i, 3).unwrap().transpose(1, 2).unwrap();
                assert_eq!(w.select(1, i).unwrap(), part);
            }
        }
        assert_eq!(x.unfold(-2, 1, 2).unwrap().dims(), [2, 2, 3, 1]);
        assert_eq!(x.unfold(1, 0, 1).unwrap().dims(), [2, 5, 3, 0]);
        assert_eq!(x.unfold(1, 4, usize::MAX).unwrap().dims(), [2, 1, 3, 4]);
        assert_eq!(Tensor::scalar(1.0).unfold(0, 1, 1).unwrap(), tensor![1.0]);
        assert_eq!(Tensor::scalar(1.0).unfold(-1, 0, 1).unwrap().dims(), [0]);
        assert_eq!(tensor![].unfold(0, 0, 3).unwrap().dims(), [1, 0]);
    }

    #[test]
    fn a_write_to_windows_changes_one_place() {
        let x = tensor![1, 2, 3];
        let mut w = x.unfold(0, 2, 1).unwrap();
        w.slice_assign((0, 1), 9).unwrap();
        assert_eq!((w, x), (tensor![[1, 9], [2, 3]], tensor![1, 2, 3]));
    }

    #[test]
    fn what_is_refused() {
        let x = tensor![1.0, 2.0];
        assert!(refused!(x.unfold(0, 3, 1), TensorFacts::Parameter { name: "size", .. }));
        assert!(refused!(x.unfold(0, usize::MAX, 1), TensorFacts::Parameter { name: "size", .. }));
        assert!(refused!(x.unfold(0, 1, 0), TensorFacts::Parameter { name: "step", .. }));
        assert!(refused!(x.unfold(1, 1, 1), TensorFacts::AxisOutOfRange { .. }));
        let huge = x.narrow(0, 0, 1).unwrap().expand([1usize << 60]).unwrap();
        assert!(refused!(huge.unfold(0, 1 << 59, 1), TensorFacts::TooLarge { .. }));
    }
}
