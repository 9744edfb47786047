//! Class numbers: as rows of zeros and a one, and how often each occurs.

use super::arg::AsArg;
use super::indices::Indices;
use crate::dtype::DType;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::tensor::Tensor;

/// # Class numbers
impl Tensor {
    /// A row of `classes` zeros for each class number, with a one at its place: `[..]` of `I64` makes `[.., classes]` of
    /// `I64`. The number of classes is always written; -1 is one more than the largest number.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the numbers are `I64`, `IndexOutOfRange` for one that is negative or too large, `TooLarge`;
    /// `Parameter` for no classes, and for -1 beside no numbers.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![2, 0; i64];
    /// assert_eq!(x.one_hot(3)?, tensor![[0, 0, 1], [1, 0, 0]; i64]);
    /// assert_eq!(x.one_hot(-1)?, x.one_hot(3)?);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn one_hot(&self, classes: impl TryInto<i64>) -> Result<Tensor> {
        self.hot(classes.try_into().unwrap_or(i64::MAX)).map_err(|e| e.named("one_hot")).here()
    }

    fn hot(&self, classes: i64) -> Result<Tensor> {
        let op = "one_hot";
        self.expect_dtype(op, "class numbers", DType::I64)?;
        let classes = match usize::try_from(classes) {
            Ok(classes) if classes > 0 => classes,
            // A negative class number is refused as an index.
            Err(_) if classes == -1 && self.numel() > 0 => {
                let largest: i64 = self.amax(..)?.item_as()?;
                usize::try_from(largest).map_or(1, |n| n.saturating_add(1))
            }
            _ => {
                let expected = "at least one class, or -1 beside class numbers, of which the largest counts";
                return refuse(TensorFacts::Parameter {
                    op,
                    name: "classes",
                    value: classes.to_string(),
                    expected,
                });
            }
        };
        let mut shape = self.shape().clone();
        shape.0.push(classes);
        let (axis, zeros) = (self.rank(), Tensor::try_zeros_with(shape, DType::I64)?);
        let (index, ones) = (self.unsqueeze(-1)?, Tensor::from(1i64).expand(self.shape())?.unsqueeze(-1)?);
        zeros.scatter_add(axis, index, ones)
    }

    /// How often each number from 0 on occurs in a list: `[n]` of `I64` makes `[m]` of `I64`, where `m` is one more than
    /// the largest number, and at least `minlength`.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the numbers are `I64`, `Rank` unless they are a list, `IndexOutOfRange` for a negative one,
    /// `TooLarge` if no memory can hold the result.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1, 3, 1; i64].bincount(0)?, tensor![0, 2, 0, 1; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn bincount(&self, minlength: usize) -> Result<Tensor> {
        self.counted(minlength, None).here()
    }

    /// [`Self::bincount`] with a weight for each number, in whose place 1 stands otherwise. Weights of `F32` add up in
    /// `F32`, all others in `F64`. No gradient passes to them, as in PyTorch.
    ///
    /// # Errors
    /// As [`Self::bincount`]; `ShapeMismatch` unless there are as many weights as numbers.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let sums = tensor![1, 0, 1; i64].bincount_with(3, &tensor![0.5, 1.0, 0.25])?;
    /// assert_eq!(sums, tensor![1.0, 0.75, 0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn bincount_with(&self, minlength: usize, weights: impl AsArg) -> Result<Tensor> {
        self.counted(minlength, Some(&weights.arg().tensor(DType::F32))).here()
    }

    fn counted(&self, minlength: usize, weights: Option<&Tensor>) -> Result<Tensor> {
        let op = "bincount";
        self.expect_dtype(op, "a list of numbers", DType::I64)?;
        if self.rank() != 1 {
            return refuse(TensorFacts::Rank {
                op,
                operand: "list of numbers",
                expected: "1",
                found: self.rank(),
            });
        }
        let weights = match weights {
            None => Tensor::from(1i64).expand(self.shape())?,
            Some(w) if w.shape() != self.shape() => {
                let (expected, found) = (self.shape().clone(), w.shape().clone());
                return refuse(TensorFacts::ShapeMismatch { op, operand: "weights", expected, found });
            }
            Some(w) => w.cast(op, if w.dtype() == DType::F32 { DType::F32 } else { DType::F64 })?,
        };
        let mut size = minlength;
        if self.numel() > 0 {
            let largest: i64 = self.amax(..)?.item_as()?;
            // A negative number is refused as an index.
            size = size.max(usize::try_from(largest).map_or(1, |n| n.saturating_add(1)));
        }
        let sums = Tensor::try_zeros_with(size, weights.dtype()).map_err(|e| e.named(op))?;
        sums.scatter_add(0, Indices::from(self), weights).map_err(|e| e.named(op))
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, TensorFacts, refused, tensor};

    #[test]
    fn rows_with_a_one() {
        assert_eq!(tensor![[1], [0]; i64].one_hot(2).unwrap(), tensor![[[0, 1]], [[1, 0]]; i64]);
        assert_eq!(Tensor::from(1i64).one_hot(3).unwrap(), tensor![0, 1, 0; i64]);
        assert_eq!(Tensor::zeros_with([0, 2], DType::I64).one_hot(3).unwrap().dims(), [0, 2, 3]);
        let turned = tensor![[0, 1], [2, 0]; i64].t();
        assert_eq!(turned.one_hot(3).unwrap(), turned.contiguous().one_hot(3).unwrap());
        assert_eq!(
            tensor![2; i64].expand([4]).unwrap().one_hot(3).unwrap().sum(0).unwrap(),
            tensor![0, 0, 4; i64]
        );
        assert!(refused!(
            tensor![3; i64].one_hot(3),
            TensorFacts::IndexOutOfRange { op: "one_hot", index: 3, .. }
        ));
        assert!(refused!(
            tensor![-1; i64].one_hot(3),
            TensorFacts::IndexOutOfRange { op: "one_hot", index: -1, .. }
        ));
        assert!(refused!(tensor![1.0].one_hot(3), TensorFacts::DTypeMismatch { op: "one_hot", .. }));
        for classes in [0, -2] {
            assert!(refused!(tensor![1; i64].one_hot(classes), TensorFacts::Parameter { op: "one_hot", .. }));
        }
        let none = Tensor::zeros_with([0], DType::I64);
        assert!(refused!(none.one_hot(-1), TensorFacts::Parameter { op: "one_hot", .. }));
        assert!(refused!(tensor![-1; i64].one_hot(-1), TensorFacts::IndexOutOfRange { index: -1, .. }));
        assert!(refused!(tensor![i64::MAX; i64].one_hot(-1), TensorFacts::TooLarge { op: "one_hot", .. }));
        for classes in [1 << 60, usize::MAX] {
            assert!(refused!(tensor![1; i64].one_hot(classes), TensorFacts::TooLarge { op: "one_hot", .. }));
        }
    }

    #[test]
    fn counts_and_sums_of_weights() {
        let (x, none) = (tensor![1, 3, 1; i64], Tensor::zeros_with([0], DType::I64));
        assert_eq!(x.bincount(6).unwrap(), tensor![0, 2, 0, 1, 0, 0; i64]);
        assert_eq!(none.bincount(2).unwrap(), tensor![0, 0; i64]);
        assert_eq!(none.bincount(0).unwrap().dims(), [0]);
        let weights = tensor![0.5, 2.0, 0.25];
        assert_eq!(x.bincount_with(0, &weights).unwrap(), tensor![0.0, 0.75, 0.0, 2.0]);
        assert_eq!(x.bincount_with(0, weights.double()).unwrap().dtype(), DType::F64);
        assert_eq!(x.bincount_with(0, tensor![1, 2, 3; i64]).unwrap(), tensor![0.0, 4.0, 0.0, 2.0; f64]);
        assert_eq!(none.bincount_with(1, tensor![1.0].narrow(0, 0, 0).unwrap()).unwrap(), tensor![0.0]);
        assert!(refused!(
            tensor![1, -5; i64].bincount(0),
            TensorFacts::IndexOutOfRange { op: "bincount", index: -5, .. }
        ));
        assert!(refused!(tensor![-5; i64].bincount(0), TensorFacts::IndexOutOfRange { op: "bincount", .. }));
        assert!(refused!(tensor![1.0].bincount(0), TensorFacts::DTypeMismatch { op: "bincount", .. }));
        assert!(refused!(tensor![[1]; i64].bincount(0), TensorFacts::Rank { op: "bincount", .. }));
        assert!(refused!(
            x.bincount_with(0, tensor![1.0]),
            TensorFacts::ShapeMismatch { op: "bincount", .. }
        ));
        assert!(refused!(x.bincount(1 << 61), TensorFacts::TooLarge { op: "bincount", .. }));
        assert!(refused!(tensor![i64::MAX; i64].bincount(0), TensorFacts::TooLarge { op: "bincount", .. }));
    }
}
