//! Views that cut a tensor into pieces.

use crate::axes::Axis;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::tensor::Tensor;

/// # Pieces
impl Tensor {
    /// Pieces of `size` along an axis; the last one is smaller if `size` does not divide it.
    ///
    /// An axis of size 0 gives one empty piece.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor; `Parameter` for a size of 0 on an axis that is not empty; `TooLarge`
    /// if the list of pieces is.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let parts = tensor![0, 1, 2, 3, 4].split(2, 0)?;
    /// assert_eq!(parts, [tensor![0, 1], tensor![2, 3], tensor![4]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn split(&self, size: usize, axis: impl Into<Axis>) -> Result<Vec<Tensor>> {
        let axis = self.shape().own_axis("split", axis).here()?;
        let total = self.dims()[axis];
        if size == 0 && total > 0 {
            return refuse(positive("split", "size")).here();
        }
        let count = if total == 0 { 1 } else { total.div_ceil(size) };
        self.pieces("split", count, |i| self.part(axis, i * size, size.min(total - i * size))).here()
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
            return refuse(positive("chunk", "n")).here();
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
                value: N.to_string(),
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

fn positive(op: &'static str, name: &'static str) -> TensorFacts {
    TensorFacts::Parameter { op, name, value: "0".into(), expected: "a positive number" }
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
