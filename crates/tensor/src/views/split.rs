//! Views that cut a tensor into pieces.

use crate::axes::Axis;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::tensor::Tensor;

/// How [`Tensor::split`] cuts an axis: into pieces of one size, or into pieces of the sizes in an array, a slice or a `Vec`.
///
/// Made from `i32`, `i64`, `isize` and `usize`. A negative size of all counts as 0, one in a list is one that no axis has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitSizes {
    /// all of this size, but perhaps the last one
    Equal(usize),
    /// these sizes
    List(Vec<usize>),
}

macro_rules! sizes {
    ($($t:ty),*) => {$(
        impl From<$t> for SplitSizes {
            fn from(size: $t) -> SplitSizes {
                SplitSizes::Equal(usize::try_from(size).unwrap_or(0))
            }
        }
        impl From<&[$t]> for SplitSizes {
            fn from(sizes: &[$t]) -> SplitSizes {
                SplitSizes::List(sizes.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect())
            }
        }
        impl<const N: usize> From<[$t; N]> for SplitSizes {
            fn from(sizes: [$t; N]) -> SplitSizes {
                SplitSizes::from(&sizes[..])
            }
        }
        impl From<Vec<$t>> for SplitSizes {
            fn from(sizes: Vec<$t>) -> SplitSizes {
                SplitSizes::from(&sizes[..])
            }
        }
    )*};
}
sizes!(i32, i64, isize, usize);

/// # Pieces
impl Tensor {
    /// Pieces of one size along an axis, the last one smaller if that does not divide it; or pieces of the sizes in a list.
    ///
    /// An axis of size 0 gives one empty piece.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor; `Parameter` for a size of 0 on an axis that is not empty, and for a list that
    /// does not add up to the axis; `TooLarge` if the list of pieces is.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![0, 1, 2, 3, 4];
    /// assert_eq!(x.split(2, 0)?, [tensor![0, 1], tensor![2, 3], tensor![4]]);
    /// assert_eq!(x.split([1, 4], 0)?, [tensor![0], tensor![1, 2, 3, 4]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "split_with_sizes")]
    pub fn split(&self, sizes: impl Into<SplitSizes>, axis: impl Into<Axis>) -> Result<Vec<Tensor>> {
        let op = "split";
        let axis = self.shape().own_axis(op, axis).here()?;
        let total = self.dims()[axis];
        let each = match sizes.into() {
            SplitSizes::Equal(size) => size,
            SplitSizes::List(sizes) => return self.listed(&sizes, axis).here(),
        };
        if each == 0 && total > 0 {
            return refuse(positive(op, "size", total)).here();
        }
        let count = if total == 0 { 1 } else { total.div_ceil(each) };
        self.pieces(op, count, |i| self.part(axis, i * each, each.min(total - i * each))).here()
    }

    fn listed(&self, sizes: &[usize], axis: usize) -> Result<Vec<Tensor>> {
        let total = self.dims()[axis];
        if sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size)) != Some(total) {
            return refuse(TensorFacts::Parameter {
                op: "split",
                name: "sizes",
                value: format!("{sizes:?} for an axis of size {total}"),
                expected: "sizes that add up to the axis",
            });
        }
        let mut start = 0;
        let piece = |&size: &usize| {
            start += size;
            self.part(axis, start - size, size)
        };
        Ok(sizes.iter().map(piece).collect())
    }

    /// At most `n` pieces of equal size along an axis, of which the last may be smaller.
    ///
    /// The size is the axis divided by `n`, rounded up, so that there may be fewer pieces, as in PyTorch; an axis of
    /// size 0 gives `n` empty ones.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor; `Parameter` for `n` = 0; `TooLarge` if the list of pieces is.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0, 1, 2, 3, 4].chunk(2, 0)?, [tensor![0, 1, 2], tensor![3, 4]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn chunk(&self, n: usize, axis: impl Into<Axis>) -> Result<Vec<Tensor>> {
        let axis = self.shape().own_axis("chunk", axis).here()?;
        let total = self.dims()[axis];
        if n == 0 {
            return refuse(positive("chunk", "n", total)).here();
        }
        let size = total.div_ceil(n);
        let count = if size == 0 { n } else { total.div_ceil(size) };
        self.pieces("chunk", count, |i| self.part(axis, i * size, size.min(total - i * size))).here()
    }

    /// Exactly `N` pieces of equal size along an axis: `let [q, k, v] = x.chunks(-1)?`.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor; `Parameter` if `N` does not divide the axis.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let [a, b] = tensor![0, 1, 2, 3].chunks(0)?;
    /// assert_eq!((a, b), (tensor![0, 1], tensor![2, 3]));
    /// assert!(tensor![0, 1, 2].chunks::<2>(0).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn chunks<const N: usize>(&self, axis: impl Into<Axis>) -> Result<[Tensor; N]> {
        let axis = self.shape().own_axis("chunks", axis).here()?;
        let total = self.dims()[axis];
        if N == 0 || !total.is_multiple_of(N) {
            return refuse(TensorFacts::Parameter {
                op: "chunks",
                name: "the number of pieces",
                value: format!("{N} for an axis of size {total}"),
                expected: "one that divides the axis; chunk has a smaller last piece",
            })
            .here();
        }
        let size = total / N;
        Ok(std::array::from_fn(|i| self.part(axis, i * size, size)))
    }

    /// Every element of an axis as a tensor without that axis.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor; `TooLarge` if the list of pieces is.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let columns = tensor![[1.0, 2.0], [3.0, 4.0]].unbind(1)?;
    /// assert_eq!(columns, [tensor![1.0, 3.0], tensor![2.0, 4.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn unbind(&self, axis: impl Into<Axis>) -> Result<Vec<Tensor>> {
        let axis = self.shape().own_axis("unbind", axis).here()?;
        self.pieces("unbind", self.dims()[axis], |i| self.picked(axis, i)).here()
    }

    /// So many views; an expanded tensor can have more than a list can hold.
    fn pieces(&self, op: &'static str, count: usize, piece: impl Fn(usize) -> Tensor) -> Result<Vec<Tensor>> {
        let mut out = Vec::new();
        if out.try_reserve_exact(count).is_err() {
            return refuse(TensorFacts::TooLarge { op, shape: self.shape().clone() });
        }
        out.extend((0..count).map(piece));
        Ok(out)
    }
}

fn positive(op: &'static str, name: &'static str, total: usize) -> TensorFacts {
    let value = format!("0 for an axis of size {total}");
    TensorFacts::Parameter { op, name, value, expected: "a positive number" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    fn sizes(parts: &[Tensor]) -> Vec<usize> {
        parts.iter().map(|p| p.dims()[p.rank() - 1]).collect()
    }

    #[test]
    fn split_sizes() {
        let t = Tensor::zeros([2, 7]);
        assert_eq!(sizes(&t.split(3, 1).unwrap()), [3, 3, 1]);
        assert_eq!(sizes(&t.split(7, -1).unwrap()), [7]);
        assert_eq!(sizes(&t.split(usize::MAX, -1).unwrap()), [7]);
        assert_eq!(sizes(&tensor![].split(0, 0).unwrap()), [0]);
        assert_eq!(sizes(&tensor![].split(3, 0).unwrap()), [0]);
        assert_eq!(sizes(&t.split([1, 0, 6], 1).unwrap()), [1, 0, 6]);
        assert_eq!(t.split([2, 5], -1).unwrap()[1], t.narrow(1, 2, 5).unwrap());
        assert!(tensor![].split(Vec::<usize>::new(), 0).unwrap().is_empty());
        for list in [vec![3, 3], vec![8, -1], vec![], vec![i64::MAX, i64::MAX, 9]] {
            assert!(refused!(t.split(list, 1), TensorFacts::Parameter { name: "sizes", .. }));
        }
        assert!(refused!(t.split(-1, 1), TensorFacts::Parameter { .. }));
        assert!(refused!(t.split(0, 1), TensorFacts::Parameter { .. }));
        assert!(refused!(t.split(1, 2), TensorFacts::AxisOutOfRange { .. }));
        assert!(refused!(Tensor::scalar(1.0).split(1, 0), TensorFacts::AxisOutOfRange { .. }));
    }

    #[test]
    fn chunk_sizes() {
        let t = Tensor::zeros([2, 7]);
        assert_eq!(sizes(&t.chunk(3, 1).unwrap()), [3, 3, 1]);
        assert_eq!(sizes(&t.chunk(4, 1).unwrap()), [2, 2, 2, 1]);
        assert_eq!(sizes(&t.chunk(6, 1).unwrap()), [2, 2, 2, 1]);
        assert_eq!(sizes(&t.chunk(usize::MAX, 1).unwrap()), [1; 7]);
        assert_eq!(sizes(&tensor![].chunk(3, 0).unwrap()), [0, 0, 0]);
        assert!(refused!(t.chunk(0, 1), TensorFacts::Parameter { .. }));
        assert!(refused!(tensor![].chunk(usize::MAX, 0), TensorFacts::TooLarge { .. }));
    }

    #[test]
    fn unbind_shares_the_buffer() {
        let t = tensor![[1.0, 2.0], [3.0, 4.0]];
        assert!(t.unbind(0).unwrap().iter().all(|r| r.shares_buffer_with(&t)));
        assert!(tensor![].unbind(0).unwrap().is_empty());
        assert!(refused!(Tensor::scalar(1.0).unbind(0), TensorFacts::AxisOutOfRange { .. }));
        let huge = Tensor::scalar(true).expand([isize::MAX as usize]).unwrap();
        assert!(refused!(huge.unbind(0), TensorFacts::TooLarge { .. }));
    }
}
