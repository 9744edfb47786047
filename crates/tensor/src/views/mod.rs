//! Views: other shapes and strides over the same buffer. No element is copied unless `reshape` has to.

mod amounts;
mod axes;
mod diagonal;
mod new_shape;
mod reshape;
mod slice;
mod slices;
mod split;
mod taken;
mod windows;
mod write;

pub use amounts::Amounts;
pub use diagonal::{embedding_shape, on_diagonal};
pub use new_shape::{NewShape, NewSize};
pub use slices::{Position, Slice, SliceItem, Slices};
pub use split::SplitSizes;

use std::borrow::Cow;

use crate::create::checked_len;
use crate::error::{Here, Result};
use crate::meant::Meant;
use crate::ops::{AsArg, List, tensors_of};
use crate::shape::{Dims, Shape, broadcast_two, expect_expansion};
use crate::tensor::{Layout, Tensor};

impl Tensor {
    /// Another layout over this buffer. An empty one starts at 0, so that its offset is always inside the buffer.
    pub(crate) fn relayout(&self, shape: Shape, strides: Dims<isize>, offset: isize) -> Tensor {
        let offset = if shape.contains(&0) { 0 } else { offset as usize };
        self.with_layout(Layout::strided(shape, strides, offset, self.layout.is_expanded()))
    }
}

/// # Expanding
impl Tensor {
    /// This tensor seen in a larger shape: axes of size 1 (and missing leading ones) repeat, with stride 0. An axis whose
    /// size is given as -1 stays as it is.
    ///
    /// # Errors
    /// `Expand` if an axis of another size than 1 would change, or axes would be lost; `Parameter` for a -1 on an axis that
    /// the tensor does not have; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let t = tensor![[1.0], [2.0]].expand([2, 3])?;
    /// assert_eq!(t, tensor![[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]);
    /// assert_eq!(t.strides(), [1, 0]);
    /// assert_eq!(t.expand((4, -1, -1))?.dims(), [4, 2, 3]);
    /// assert!(t.expand([3, 4]).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn expand(&self, shape: impl Into<NewShape>) -> Result<Tensor> {
        self.expanded("expand", shape.into().expanding("expand", self.shape()).here()?).here()
    }

    /// [`Tensor::expand`] to a shape that is known, without -1.
    ///
    /// # Errors
    /// As `expand`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7.0].broadcast_to([2])?, tensor![7.0, 7.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        self.expanded("broadcast_to", shape.into()).here()
    }

    /// Expands to the shape of another tensor.
    ///
    /// # Errors
    /// As [`Tensor::expand`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].expand_as(&tensor![[0.0, 0.0]])?, tensor![[1.0, 1.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn expand_as(&self, other: impl AsArg) -> Result<Tensor> {
        self.expanded("expand_as", other.arg().tensor(self.dtype()).shape().clone()).here()
    }

    pub(crate) fn expanded(&self, op: &'static str, to: Shape) -> Result<Tensor> {
        let from = self.shape();
        if *from == to {
            return Ok(self.clone());
        }
        expect_expansion(op, "", from, &to)?;
        checked_len(op, &to, self.dtype())?;
        let (missing, own) = (to.rank() - from.rank(), self.strides());
        let strides = (0..to.rank())
            .map(|i| if i < missing || from[i - missing] != to[i] { 0 } else { own[i - missing] })
            .collect();
        let offset = if to.contains(&0) { 0 } else { self.layout.offset() };
        let mut view = self.with_layout(Layout::strided(to, strides, offset, true));
        let written = Meant::written(view.rank(), |i| i < missing);
        view.layout.meant = (self.meant() | written).within(view.shape());
        Ok(view)
    }
}

/// Every tensor expanded to the shape that all of them broadcast to.
///
/// # Errors
/// `Broadcast` if there is no such shape; `TooLarge`.
///
/// ```
/// use foldback_tensor::{broadcast_tensors, tensor};
/// let both = broadcast_tensors([tensor![[1.0], [2.0]], tensor![3.0, 4.0]])?;
/// assert_eq!(both[0], tensor![[1.0, 1.0], [2.0, 2.0]]);
/// assert_eq!(both[1], tensor![[3.0, 4.0], [3.0, 4.0]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[track_caller]
pub fn broadcast_tensors(tensors: impl IntoIterator<Item: AsArg>) -> Result<Vec<Tensor>> {
    broadcast_all(&tensors_of(&tensors.into_iter().collect::<List<_>>())).here()
}

fn broadcast_all(tensors: &[Cow<'_, Tensor>]) -> Result<Vec<Tensor>> {
    const OP: &str = "broadcast_tensors";
    let mut shape = Shape::scalar();
    for t in tensors {
        shape = broadcast_two(OP, &shape, t.dims())?;
    }
    tensors.iter().map(|t| t.expanded(OP, shape.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TensorFacts, refused, tensor};

    #[test]
    fn expand_repeats_with_stride_zero() {
        let t = tensor![[1.0], [2.0]];
        let e = t.expand([4, 2, 3]).unwrap();
        assert_eq!(e.strides(), [0, 1, 0]);
        assert_eq!(e.to_vec::<f32>().unwrap()[..6], [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
        assert!(e.shares_buffer_with(&t));
        assert_eq!(Tensor::scalar(3.0f32).expand([2, 2]).unwrap(), tensor![[3, 3], [3, 3]]);
        assert_eq!(t.expand((4usize, -1, 3)).unwrap(), e);
        assert_eq!(t.expand([-1, 3]).unwrap().dims(), [2, 3]);
        assert_eq!(t.expand([usize::MAX, usize::MAX]).unwrap().dims(), [2, 1]);
    }

    #[test]
    fn expand_to_and_from_empty() {
        assert_eq!(tensor![1.0].expand([0]).unwrap().dims(), [0]);
        assert_eq!(tensor![1.0].expand([3, 0]).unwrap().to_vec::<f32>().unwrap(), []);
        assert_eq!(tensor![[], []].expand([5, 2, 0]).unwrap().dims(), [5, 2, 0]);
        assert!(tensor![].expand([1]).is_err());
    }

    #[test]
    fn expand_refuses_other_sizes() {
        let e = Tensor::zeros([3, 1, 7]).expand([1, 3, 1]).unwrap_err();
        assert!(
            e.to_string().contains(
                "The expanded size of the tensor (1) must match the existing size (7) at non-singleton dimension 2"
            ),
            "{e}"
        );
        let e = tensor![1.0].expand(()).unwrap_err();
        assert!(matches!(e.facts(), Some(TensorFacts::Expand { dim: 0, .. })));
        assert!(
            e.to_string()
                .starts_with("expand: [1] has more axes than [], to which it should expand: squeeze ")
        );
        let huge = isize::MAX as usize;
        assert!(refused!(tensor![1.0].expand([huge, 2]), TensorFacts::TooLarge { .. }));
        assert!(refused!(tensor![1.0].expand([0, huge, 2]), TensorFacts::TooLarge { .. }));
        assert!(refused!(tensor![1.0].broadcast_to([usize::MAX, 2]), TensorFacts::TooLarge { .. }));
        assert!(refused!(tensor![1.0].expand([-1, 2]), TensorFacts::Parameter { .. }));
        assert!(refused!(tensor![1.0].expand([2, -2]), TensorFacts::Parameter { .. }));
        assert!(refused!(tensor![[1.0]].expand(-1), TensorFacts::Expand { .. }));
        let e = tensor![1.0].expand((-1, 2)).unwrap_err().to_string();
        let want =
            "expand: shape = [-1, 2] is not valid: expected sizes, and -1 only for axes that the tensor has";
        assert!(e.starts_with(want), "{e}");
    }

    #[test]
    fn broadcast_tensors_of_none_one_and_several() {
        assert!(broadcast_tensors([] as [Tensor; 0]).unwrap().is_empty());
        assert_eq!(broadcast_tensors(&[&tensor![1.0]]).unwrap(), [tensor![1.0]]);
        let [a, b, c] = [[2, 1, 1], [1, 3, 1], [1, 1, 4]].map(|s| Tensor::zeros(s));
        assert!(broadcast_tensors(&[&a, &b, &c]).unwrap().iter().all(|t| t.dims() == [2, 3, 4]));
        assert!(refused!(
            broadcast_tensors(&[&tensor![1, 2], &tensor![1, 2, 3]]),
            TensorFacts::Broadcast { .. }
        ));
    }
}
