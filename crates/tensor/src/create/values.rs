//! Tensors of values that the caller already has, and casts to another type.

use super::{checked_len, room};
use crate::buffer::Storage;
use crate::datum::Datum;
use crate::dtype::{DType, Element, Scalar};
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::shape::{Dims, Shape};
use crate::task::To;
use crate::tensor::{Layout, Tensor};
use crate::views::NewShape;

/// # From values
impl Tensor {
    /// A 0-d tensor that holds one number: `bool` for a truth value, else `f32`. `Tensor::from` keeps the number's own type.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// let t = Tensor::scalar(2.5);
    /// assert_eq!((t.rank(), t.dtype()), (0, DType::F32));
    /// assert_eq!(Tensor::from(2.5).dtype(), DType::F64);
    /// ```
    pub fn scalar(value: impl Into<Scalar>) -> Tensor {
        let storage = match value.into() {
            Scalar::Bool(v) => bool::storage(vec![v]),
            number => f32::storage(vec![number.to_f64() as f32]),
        };
        Tensor::from_storage(storage, Shape::scalar())
    }

    /// The vector's elements in row-major order, without a copy (integers other than `i64` are converted to it). One size of
    /// the shape may be -1.
    ///
    /// # Errors
    /// `ElementCount` if the shape does not hold exactly as many; `Unfit` for an integer that no `i64` holds; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// let t = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(t, tensor![[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(Tensor::from_vec(vec![1.0f32, 2.0], (2, -1))?.dims(), [2, 1]);
    /// assert!(Tensor::from_vec(vec![1.0f32], [2, 2]).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "new")]
    pub fn from_vec<T: Datum>(values: Vec<T>, shape: impl Into<NewShape>) -> Result<Tensor> {
        let shape = shape_of("from_vec", values.len(), shape.into(), T::Elem::DTYPE).here()?;
        Ok(Tensor::from_storage(T::Elem::storage(T::elements("from_vec", values).here()?), shape))
    }

    /// A copy of the elements, in row-major order. One size of the shape may be -1.
    ///
    /// # Errors
    /// As [`Tensor::from_vec`].
    ///
    /// ```
    /// use foldback_tensor::Tensor;
    /// let t = Tensor::from_slice(&[1i64, 2, 3], [3, 1])?;
    /// assert_eq!(t.dims(), [3, 1]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn from_slice<T: Datum>(values: &[T], shape: impl Into<NewShape>) -> Result<Tensor> {
        const OP: &str = "from_slice";
        let shape = shape_of(OP, values.len(), shape.into(), T::Elem::DTYPE).here()?;
        let mut storage = room(OP, &shape, T::Elem::DTYPE).here()?;
        let out = T::Elem::slice_mut(storage.block_mut()).expect("storage of the same type");
        T::copy(OP, values, out).here()?;
        Ok(Tensor::from_storage(storage, shape))
    }

    /// Elements of a vector found by strides: index `[i, j, ...]` is `values[offset + i * strides[0] + ...]`.
    ///
    /// Strides count elements and may be 0 or negative. They have no meaning on axes of size 1.
    ///
    /// # Errors
    /// `Rank` if there are not as many strides as sizes, `IndexOutOfRange` if an index of the shape would fall outside
    /// the vector (the error names that place), `Unfit` for an integer that no `i64` holds, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// let t = Tensor::from_strided(vec![1.0f32, 2.0, 3.0], [2, 3], &[0, -1], 2)?;
    /// assert_eq!(t, tensor![[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn from_strided<T: Datum>(
        values: Vec<T>,
        shape: impl Into<Shape>,
        strides: &[isize],
        offset: usize,
    ) -> Result<Tensor> {
        const OP: &str = "from_strided";
        let shape = shape.into();
        if strides.len() != shape.rank() {
            return refuse(TensorFacts::Rank {
                op: OP,
                operand: "",
                expected: "strides for exactly the shape's",
                found: strides.len(),
            })
            .here();
        }
        let n = checked_len(OP, &shape, T::Elem::DTYPE).here()?;
        let len = values.len();
        if n == 0 {
            return Ok(Tensor::from_storage(Storage::scratch(T::Elem::DTYPE, 0), shape));
        }
        let (mut low, mut high) = (offset as i128, offset as i128);
        for (&size, &stride) in shape.iter().zip(strides) {
            let reach = (size - 1) as i128 * stride as i128;
            // Saturating, because many axes may each reach as far as an i128 allows.
            if reach < 0 { low = low.saturating_add(reach) } else { high = high.saturating_add(reach) }
        }
        if low < 0 || high >= len as i128 {
            let index = if low < 0 { low } else { high };
            let index = index.clamp(i64::MIN as i128, i64::MAX as i128) as i64;
            return refuse(TensorFacts::IndexOutOfRange { op: OP, index, axis: 0, size: len }).here();
        }
        let bound = len as isize;
        let strides: Dims<isize> = shape
            .iter()
            .zip(strides)
            .map(|(&n, &s)| if n == 1 { s.clamp(-bound, bound) } else { s })
            .collect();
        let values = T::elements(OP, values).here()?;
        let whole = Tensor::from_storage(T::Elem::storage(values), Shape::from(len));
        Ok(whole.with_layout(Layout::strided(shape, strides, offset, true)))
    }

    /// The elements cast to another type: truncation towards zero, `true` as 1, everything but zero as `true`.
    ///
    /// A tensor of that type already is returned as it is. Axes that are expanded stay so.
    ///
    /// # Panics
    /// If the result is too large to store; [`Tensor::try_to`] returns an error instead.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// assert_eq!(tensor![1.5, -2.5].to(DType::I64), tensor![1, -2; i64]);
    /// ```
    #[track_caller]
    #[doc(alias = "to_dtype")]
    pub fn to(&self, dtype: DType) -> Tensor {
        or_panic(self.cast("to", dtype))
    }

    /// [`Tensor::to`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if no memory can hold the result, which takes overlapping strides.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// assert_eq!(tensor![1.5].try_to(DType::I64)?, tensor![1; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn try_to(&self, dtype: DType) -> Result<Tensor> {
        self.cast("to", dtype).here()
    }

    /// Cast to `f32`.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// assert_eq!(tensor![1.5].float().dtype(), DType::F32);
    /// ```
    #[track_caller]
    pub fn float(&self) -> Tensor {
        self.to(DType::F32)
    }

    /// Cast to `f64`.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// assert_eq!(tensor![1.5].double().dtype(), DType::F64);
    /// ```
    #[track_caller]
    pub fn double(&self) -> Tensor {
        self.to(DType::F64)
    }

    /// Cast to `i64`; fractions are cut off.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// assert_eq!(tensor![1.5].long().dtype(), DType::I64);
    /// ```
    #[track_caller]
    pub fn long(&self) -> Tensor {
        self.to(DType::I64)
    }

    /// Cast to `bool`: whether elements are not zero.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// assert_eq!(tensor![1.5].bool().dtype(), DType::Bool);
    /// ```
    #[track_caller]
    pub fn bool(&self) -> Tensor {
        self.to(DType::Bool)
    }

    /// [`Tensor::cast`] of a tensor that nobody needs as it was.
    #[inline]
    pub(crate) fn into_type(self, op: &'static str, dtype: DType) -> Result<Tensor> {
        if self.dtype() == dtype { Ok(self) } else { self.cast(op, dtype) }
    }

    /// [`Tensor::to`] in the name of another operation.
    pub(crate) fn cast(&self, op: &'static str, dtype: DType) -> Result<Tensor> {
        if self.dtype() == dtype {
            return Ok(self.clone());
        }
        // Of elements that an expanded axis repeats, one is cast.
        self.same(op, To::New(dtype), dtype)
    }
}

/// The shape of `n` elements, refused unless it holds exactly as many.
fn shape_of(op: &'static str, n: usize, shape: NewShape, dtype: DType) -> Result<Shape> {
    let shape = shape.holding(op, n)?;
    checked_len(op, &shape, dtype)?;
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType::*;
    use crate::{refused, tensor};

    #[test]
    fn values_of_a_vector_or_slice() {
        assert_eq!(Tensor::from_vec(vec![1i64, 2], [2, 1]).unwrap(), tensor![[1], [2]; i64]);
        assert_eq!(Tensor::from_vec(Vec::<f64>::new(), [0, 5]).unwrap().dims(), [0, 5]);
        assert_eq!(Tensor::from_slice(&[true], ()).unwrap(), Tensor::scalar(true));
        let n = 2usize;
        assert_eq!(Tensor::from_vec(vec![1i64, 2], (n, -1)).unwrap(), tensor![[1], [2]; i64]);
        assert_eq!(Tensor::from_slice(&[1i64, 2], [-1, 1]).unwrap(), tensor![[1], [2]; i64]);
        assert!(refused!(Tensor::from_vec(vec![1i64, 2], (3, -1)), TensorFacts::ElementCount { .. }));
        let long: Vec<f32> = (0..1000).map(|v| v as f32).collect();
        assert_eq!(Tensor::from_slice(&long, 1000).unwrap(), Tensor::from_vec(long.clone(), 1000).unwrap());
        assert!(refused!(
            Tensor::from_vec(vec![1i64, 2], [3]),
            TensorFacts::ElementCount { elements: 2, .. }
        ));
        assert!(refused!(Tensor::from_slice(&[1.0f32], [0]), TensorFacts::ElementCount { .. }));
        assert!(refused!(
            Tensor::from_vec(vec![1i64], [usize::MAX, usize::MAX]),
            TensorFacts::ElementCount { .. }
        ));
        assert!(refused!(
            Tensor::from_vec(Vec::<i64>::new(), [0, isize::MAX, 2]),
            TensorFacts::TooLarge { .. }
        ));
    }

    #[test]
    fn a_single_number_is_f32_or_bool() {
        assert_eq!((Tensor::scalar(3), Tensor::scalar(3i64)), (Tensor::from(3.0f32), Tensor::from(3.0f32)));
        assert_eq!(Tensor::scalar(0.1), Tensor::from(0.1f32));
        assert_eq!(Tensor::scalar(true), Tensor::from(true));
        assert_eq!(Tensor::scalar(u64::MAX).item().unwrap(), 2f64.powi(64));
    }

    #[test]
    fn strides_over_a_vector() {
        let v = || (0..6).map(|v| v as f32).collect::<Vec<_>>();
        let ok = |shape: &[usize], strides: &[isize], offset| {
            Tensor::from_strided(v(), shape, strides, offset).unwrap()
        };
        assert_eq!(ok(&[2, 3], &[1, 2], 0), tensor![[0, 2, 4], [1, 3, 5]]);
        assert_eq!(ok(&[3], &[-2], 5), tensor![5, 3, 1]);
        assert_eq!(ok(&[2, 2], &[0, 1], 4), tensor![[4, 5], [4, 5]]);
        assert_eq!(ok(&[3, 3], &[1, 1], 0), tensor![[0, 1, 2], [1, 2, 3], [2, 3, 4]]);
        assert_eq!(ok(&[], &[], 5), Tensor::scalar(5.0f32));
        assert_eq!(ok(&[1, 2], &[isize::MAX, 1], 0).flip(..).unwrap(), tensor![[1, 0]]);
        assert_eq!(ok(&[1, 2], &[isize::MIN, 1], 0).unsqueeze(0).unwrap().reshape(2).unwrap(), tensor![0, 1]);
        assert_eq!(ok(&[0, 2], &[isize::MIN, isize::MAX], usize::MAX).dims(), [0, 2]);
    }

    #[test]
    fn strides_that_leave_the_vector() {
        let refused = |shape: &[usize], strides: &[isize], offset| {
            Tensor::from_strided(vec![0.0f32; 6], shape, strides, offset).unwrap_err()
        };
        for (shape, strides, offset) in [
            (&[7][..], &[1][..], 0),
            (&[2], &[-1], 0),
            (&[2, 2], &[4, 2], 0),
            (&[2], &[isize::MAX], 1),
            (&[3], &[isize::MIN], 5),
            (&[], &[], 6),
            (&[], &[], usize::MAX),
        ] {
            assert!(
                matches!(
                    refused(shape, strides, offset).facts(),
                    Some(TensorFacts::IndexOutOfRange { size: 6, .. })
                ),
                "{shape:?}"
            );
        }
        assert!(matches!(refused(&[2, 3], &[1], 0).facts(), Some(TensorFacts::Rank { found: 1, .. })));
        assert!(matches!(refused(&[usize::MAX, 2], &[0, 0], 0).facts(), Some(TensorFacts::TooLarge { .. })));
    }

    #[test]
    fn casts() {
        let f = tensor![1.9, -1.9, 0.0, f32::NAN, f32::INFINITY];
        assert_eq!(f.to(Bool), tensor![true, true, false, true, true; bool]);
        assert_eq!(f.to(I64), tensor![1, -1, 0, 0, i64::MAX; i64]);
        assert!(f.to(F32).shares_buffer_with(&f));
        assert_eq!(tensor![true, false; bool].to(F64), tensor![1, 0; f64]);
        assert_eq!(tensor![i64::MAX; i64].to(F32), tensor![9.223372e18]);
        assert_eq!(tensor![[], []].to(I64).dims(), [2, 0]);
        assert_eq!(tensor![[1, 2], [3, 4]].t().to(I64), tensor![[1, 3], [2, 4]; i64]);
    }

    #[test]
    fn a_cast_keeps_expanded_axes() {
        let t = tensor![[1], [2]].expand([5, 2, 3]).unwrap().to(F64);
        assert_eq!(t.strides(), [0, 1, 0]);
        assert_eq!(t.select(0, 4).unwrap(), tensor![[1, 1, 1], [2, 2, 2]; f64]);
        assert_eq!(tensor![1].expand([1usize << 50]).unwrap().to(I64).numel(), 1 << 50);
    }
}
