//! Reshaping: the same elements in row-major order under another shape, without a copy where the strides allow it.

use super::new_shape::NewShape;
use crate::axes::Span;
use crate::create::checked_len;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::meant::Meant;
use crate::shape::{Dims, Shape};
use crate::tensor::Tensor;

/// # Reshaping
impl Tensor {
    /// The elements in row-major order under another shape; one size may be -1: whatever makes their number right. A tuple
    /// mixes it with sizes that are `usize`.
    ///
    /// A view where the strides allow it, else a copy.
    ///
    /// # Errors
    /// `ElementCount` if the shape does not hold exactly the elements there are, or -1 is not determined; `TooLarge` if no
    /// memory can hold a copy that is needed.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let t = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(t.reshape([4])?, tensor![1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(t.t().reshape([1, -1])?, tensor![[1.0, 3.0, 2.0, 4.0]]);
    /// assert_eq!(t.reshape((t.numel(), -1))?.dims(), [4, 1]);
    /// assert!(t.reshape([3, -1]).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<NewShape>) -> Result<Tensor> {
        let (shape, written) = self.resolved("reshape", shape.into()).here()?;
        Ok(self.reshaped("reshape", shape).here()?.with_meant(written))
    }

    /// The elements under another shape, never copied; one size may be -1.
    ///
    /// # Errors
    /// `ViewNeedsCopy` if no strides over this buffer give that shape; else as [`Tensor::reshape`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let t = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert!(t.view(-1)?.shares_buffer_with(&t));
    /// assert!(t.t().view(-1).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn view(&self, shape: impl Into<NewShape>) -> Result<Tensor> {
        let (shape, written) = self.resolved("view", shape.into()).here()?;
        match view_strides(self.dims(), &self.strides(), &shape) {
            Some(strides) => {
                Ok(self.relayout(shape, strides, self.layout.offset() as isize).with_meant(written))
            }
            None => refuse(TensorFacts::ViewNeedsCopy {
                op: "view",
                shape: self.shape().clone(),
                strides: self.strides().to_vec(),
                wanted: shape,
            })
            .here(),
        }
    }

    /// Neighbouring axes merged into one; a 0-d tensor becomes `[1]`.
    ///
    /// A view where the strides allow it, else a copy. `flatten(..)` is the whole tensor as a vector.
    ///
    /// # Errors
    /// `AxisOutOfRange`; `EmptySpan` if the range holds no axis; `TooLarge` if no memory can hold a copy that is needed.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// let t = Tensor::zeros([2, 3, 4]);
    /// assert_eq!(t.flatten(1..)?.dims(), [2, 12]);
    /// assert_eq!(t.flatten(..)?.dims(), [24]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "ravel")]
    pub fn flatten(&self, span: impl Into<Span>) -> Result<Tensor> {
        let (first, last) = span.into().resolve("flatten", self.shape()).here()?;
        if self.rank() == 0 {
            return self.reshaped("flatten", Shape::from(1)).here();
        }
        let mut dims: Dims<usize> = Dims::from_slice(&self.dims()[..first]);
        dims.push(Shape::from(&self.dims()[first..=last]).numel());
        dims.extend(self.dims()[last + 1..].iter().copied());
        self.reshaped("flatten", Shape(dims)).here()
    }

    /// The target shape, refused where it does not fit, and which of its axes are meant.
    fn resolved(&self, op: &'static str, shape: NewShape) -> Result<(Shape, Meant)> {
        let written = shape.written_ones();
        let shape = shape.holding(op, self.numel())?;
        checked_len(op, &shape, self.dtype())?;
        let meant = if shape == *self.shape() { written | self.meant() } else { written };
        Ok((shape, meant))
    }

    /// `reshape` to a shape that is known to hold as many elements.
    pub(crate) fn reshaped(&self, op: &'static str, shape: Shape) -> Result<Tensor> {
        let Some(strides) = view_strides(self.dims(), &self.strides(), &shape) else {
            let (copy, strides) = (self.laid_out(op)?, shape.row_major());
            return Ok(copy.relayout(shape, strides, copy.layout.offset() as isize));
        };
        Ok(self.relayout(shape, strides, self.layout.offset() as isize))
    }
}

/// The strides of a view of another shape with as many elements, if there are any.
///
/// The old axes are cut into chunks within which memory is evenly spaced; a new axis may not straddle two chunks.
/// Source: `computeStride` in PyTorch's `aten/src/ATen/TensorUtils.cpp`.
fn view_strides(old: &[usize], old_strides: &[isize], new: &[usize]) -> Option<Dims<isize>> {
    let target = Shape::from(new);
    if old.contains(&0) {
        return Some(if old == new { Dims::from_slice(old_strides) } else { target.row_major() });
    }
    let mut strides: Dims<isize> = Dims::from_elem(1, new.len());
    // New axes not yet placed, counted from the front.
    let mut open = new.len();
    let mut chunk = 1usize;
    let mut placed = 1usize;
    let mut base = old_strides.last().copied().unwrap_or(1);
    for d in (0..old.len()).rev() {
        chunk *= old[d];
        let even = d > 0 && (old[d - 1] == 1 || old_strides[d - 1] == base.saturating_mul(chunk as isize));
        if even {
            continue;
        }
        while open > 0 && (placed < chunk || new[open - 1] == 1) {
            open -= 1;
            strides[open] = base.saturating_mul(placed as isize);
            placed *= new[open];
        }
        if placed != chunk {
            return None;
        }
        if d > 0 {
            base = old_strides[d - 1];
            (chunk, placed) = (1, 1);
        }
    }
    Some(strides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    fn grid() -> Tensor {
        Tensor::arange(24).reshape([2, 3, 4]).unwrap()
    }

    #[test]
    fn sizes_are_taken_as_any_integer_and_from_shapes() {
        let t = grid();
        for r in [
            t.reshape([4usize, 6]),
            t.reshape(&[4i64, 6][..]),
            t.reshape(vec![4isize, 6]),
            t.reshape(vec![4usize, 6]),
            t.reshape([4i32, 6]),
            t.reshape(t.reshape([4, 6]).unwrap().shape()),
            t.reshape((4, 6)),
            t.reshape((4usize, -1)),
            t.reshape((-1i64, t.dims()[0] * t.dims()[1])),
            t.reshape([4, usize::MAX]),
        ] {
            assert_eq!(r.unwrap().dims(), [4, 6]);
        }
        assert_eq!(t.reshape(24).unwrap().dims(), [24]);
        assert_eq!(t.reshape([-1, 8]).unwrap().dims(), [3, 8]);
        assert_eq!(t.view((2usize, -1, 2i32, t.dims()[1], 1isize, 1i64)).unwrap().dims(), [2, 2, 2, 3, 1, 1]);
        assert_eq!(t.reshape((-1,)).unwrap().dims(), [24]);
        assert_eq!(tensor![7.0].reshape(()).unwrap().rank(), 0);
        assert_eq!(Tensor::scalar(7.0).reshape([1, -1, 1]).unwrap().dims(), [1, 1, 1]);
    }

    #[test]
    fn reshape_refuses_other_counts() {
        let t = grid();
        let max = isize::MAX;
        for dims in [
            vec![23isize],
            vec![-1, -1],
            vec![-2, -12],
            vec![5, -1],
            vec![0, -1],
            vec![max, max, max],
            vec![max, -1],
            vec![],
        ] {
            assert!(refused!(t.reshape(&dims[..]), TensorFacts::ElementCount { .. }), "{dims:?}");
        }
        assert!(refused!(t.reshape([usize::MAX, usize::MAX]), TensorFacts::ElementCount { .. }));
        assert!(refused!(t.reshape([usize::MAX - 1, 2]), TensorFacts::ElementCount { .. }));
        assert!(refused!(t.reshape([i64::MAX, 2]), TensorFacts::ElementCount { .. }));
        let e = t.reshape((5usize, -1)).unwrap_err().to_string();
        assert!(e.starts_with("reshape: shape [5, -1] is invalid for 24 elements"), "{e}");
        assert!(refused!(tensor![].reshape([0, -1]), TensorFacts::ElementCount { .. }));
        assert!(refused!(tensor![].reshape([0, max, max]), TensorFacts::TooLarge { .. }));
        assert_eq!(tensor![].reshape([2, -1]).unwrap().dims(), [2, 0]);
        assert_eq!(tensor![[], []].reshape([3, 0, 2]).unwrap().dims(), [3, 0, 2]);
    }

    #[test]
    fn reshape_is_a_view_exactly_where_strides_allow() {
        let t = grid();
        let shares = |v: &Tensor, dims: &[usize]| {
            let r = v.reshape(dims).unwrap();
            assert_eq!(r.to_vec::<i64>().unwrap(), v.to_vec::<i64>().unwrap());
            assert_eq!(v.view(dims).is_ok(), r.shares_buffer_with(v));
            r.shares_buffer_with(v)
        };
        assert!(shares(&t, &[6, 4]));
        assert!(shares(&t, &[2, 1, 12, 1]));
        assert!(!shares(&t.transpose(1, 2).unwrap(), &[2, 12]));
        assert!(shares(&t.transpose(0, 1).unwrap(), &[3, 2, 2, 2]));
        assert!(!shares(&t.narrow(2, 0, 2).unwrap(), &[12]));
        assert!(shares(&t.narrow(2, 0, 2).unwrap(), &[6, 2]));
        assert!(shares(&t.flip(..).unwrap(), &[24]));
        assert!(!shares(&t.flip(2).unwrap(), &[24]));
        assert!(shares(&t.select(2, 1).unwrap(), &[6]));
        assert!(shares(&t.unsqueeze(3).unwrap().expand([2, 3, 4, 5]).unwrap(), &[24, 5]));
        assert!(!shares(&t.unsqueeze(3).unwrap().expand([2, 3, 4, 5]).unwrap(), &[120]));
        assert!(shares(&tensor![1, 2; i64].narrow(0, 0, 1).unwrap().expand([2, 3]).unwrap(), &[6]));
    }

    #[test]
    fn view_refuses_a_copy_and_says_why() {
        let e = grid().transpose(0, 2).unwrap().view(-1).unwrap_err();
        assert!(matches!(e.facts(), Some(TensorFacts::ViewNeedsCopy { wanted, .. }) if *wanted == [24]));
        assert!(e.to_string().contains("use reshape"), "{e}");
    }

    #[test]
    fn flatten_merges_a_span() {
        let t = grid();
        assert_eq!(t.flatten(0..=1).unwrap().dims(), [6, 4]);
        assert_eq!(t.flatten(-2..).unwrap().dims(), [2, 12]);
        assert_eq!(t.flatten(1..=1).unwrap().dims(), [2, 3, 4]);
        assert_eq!(Tensor::scalar(1.0).flatten(..).unwrap().dims(), [1]);
        assert_eq!(tensor![[], []].flatten(..).unwrap().dims(), [0]);
        assert_eq!(t.transpose(0, 2).unwrap().flatten(..).unwrap().to_vec::<i64>().unwrap()[..3], [0, 12, 4]);
        assert!(refused!(t.flatten(2..2), TensorFacts::EmptySpan { .. }));
        assert!(refused!(t.flatten(0..=3), TensorFacts::AxisOutOfRange { .. }));
    }
}
