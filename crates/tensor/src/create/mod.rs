//! Making tensors of constants; sequences and values that the caller already has are in the submodules.

mod sequence;
mod values;

pub(crate) use sequence::Sequence;

use crate::buffer::{Handle, Storage, has_room};
use crate::dtype::{BlockMut, DType, Element, Scalar, with_block};
use crate::error::{Error, Result, or_panic};
use crate::shape::Shape;
use crate::task::{self, Does, Space, Task, To, WholeRule};
use crate::tensor::Tensor;

/// How many elements a tensor of this shape has, refusing what no memory can address.
///
/// An empty shape needs no memory, whatever the type; its axes of size 0 count as 1, so that its strides and partial
/// products are sound too.
pub(crate) fn checked_len(op: &'static str, shape: &Shape, dtype: DType) -> Result<usize> {
    let len = shape.numel();
    let each = if len == 0 { 1 } else { dtype.size() };
    match shape.iter().try_fold(each, |n: usize, &s| n.checked_mul(s.max(1))) {
        Some(all) if all <= isize::MAX as usize => Ok(len),
        _ => Err(Error::TooLarge { op, shape: shape.clone() }),
    }
}

/// Memory for all elements of a shape, of no particular value: what an operation writes its result to. See Note [Room].
pub(crate) fn room(op: &'static str, shape: &Shape, dtype: DType) -> Result<Handle> {
    room_for(op, shape, checked_len(op, shape, dtype)?, dtype)
}

/// [`room`] for a result that stores `n` elements only, because it repeats them along some axes.
#[inline]
pub(crate) fn room_for(op: &'static str, shape: &Shape, n: usize, dtype: DType) -> Result<Handle> {
    match Storage::stale(dtype, n) {
        Some(storage) => Ok(storage),
        None => Err(Error::TooLarge { op, shape: shape.clone() }),
    }
}

/// Refuses a vector of a shape's elements that there is no memory for.
pub(crate) fn expect_room(op: &'static str, shape: &Shape, dtype: DType) -> Result<()> {
    expect_room_for(op, shape, checked_len(op, shape, dtype)?, dtype)
}

/// [`expect_room`] for `n` elements only, of a result that repeats them along some axes.
pub(crate) fn expect_room_for(op: &'static str, shape: &Shape, n: usize, dtype: DType) -> Result<()> {
    let bytes = n.saturating_mul(dtype.size());
    if has_room(bytes) { Ok(()) } else { Err(Error::TooLarge { op, shape: shape.clone() }) }
}

/// One value everywhere, in the name of an operation.
fn filled(op: &'static str, shape: &Shape, value: Scalar, dtype: DType) -> Result<Tensor> {
    let space = Space::Of(shape);
    task::make(Task { op, reads: &[], space, does: Does::Fill(value), to: &mut [To::Dense(dtype)] })
}

/// # Constants
impl Tensor {
    /// Zeros (`false` for [`DType::Bool`]) of the given shape.
    ///
    /// # Panics
    /// If the shape is too large; [`Tensor::try_zeros`] returns an error instead.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// let t = Tensor::zeros([2, 3], DType::F32);
    /// assert_eq!(t.dims(), [2, 3]);
    /// assert_eq!(t.as_slice::<f32>(), Some(&[0.0; 6][..]));
    /// ```
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        or_panic(Tensor::try_zeros(shape, dtype))
    }

    /// [`Tensor::zeros`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if no memory can hold the shape.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// assert!(Tensor::try_zeros([usize::MAX, 2], DType::F32).is_err());
    /// ```
    #[track_caller]
    pub fn try_zeros(shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        filled("zeros", &shape.into(), Scalar::I64(0), dtype)
    }

    /// Ones (`true` for [`DType::Bool`]) of the given shape.
    ///
    /// # Panics
    /// If the shape is too large; [`Tensor::try_ones`] returns an error instead.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor, tensor};
    /// assert_eq!(Tensor::ones([2, 2], DType::F32), tensor![[1, 1], [1, 1]]);
    /// ```
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        or_panic(Tensor::try_ones(shape, dtype))
    }

    /// [`Tensor::ones`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if no memory can hold the shape.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// assert!(Tensor::try_ones([usize::MAX], DType::F64).is_err());
    /// ```
    #[track_caller]
    pub fn try_ones(shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        filled("ones", &shape.into(), Scalar::I64(1), dtype)
    }

    /// One value everywhere, cast to `dtype`.
    ///
    /// # Panics
    /// If the shape is too large; [`Tensor::try_full`] returns an error instead.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor, tensor};
    /// assert_eq!(Tensor::full([3], 2.5, DType::F32), tensor![2.5, 2.5, 2.5]);
    /// ```
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: impl Into<Scalar>, dtype: DType) -> Tensor {
        or_panic(Tensor::try_full(shape, value, dtype))
    }

    /// [`Tensor::full`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if no memory can hold the shape.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// assert!(Tensor::try_full([usize::MAX], 1, DType::Bool).is_err());
    /// ```
    #[track_caller]
    pub fn try_full(shape: impl Into<Shape>, value: impl Into<Scalar>, dtype: DType) -> Result<Tensor> {
        filled("full", &shape.into(), value.into(), dtype)
    }

    /// Zeros of this tensor's shape and dtype, row-major whatever its strides are.
    ///
    /// # Panics
    /// If this tensor is an expanded view too large to store.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1, 2; i64].zeros_like(), tensor![0, 0; i64]);
    /// ```
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        Tensor::zeros(self.shape(), self.dtype())
    }

    /// Ones of this tensor's shape and dtype, row-major whatever its strides are.
    ///
    /// # Panics
    /// If this tensor is an expanded view too large to store.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 4.0].ones_like(), tensor![1.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        Tensor::ones(self.shape(), self.dtype())
    }

    /// One value in this tensor's shape, cast to its dtype.
    ///
    /// # Panics
    /// If this tensor is an expanded view too large to store.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 4.0].full_like(7), tensor![7.0, 7.0]);
    /// ```
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Tensor {
        Tensor::full(self.shape(), value, self.dtype())
    }

    /// The identity matrix `[n, n]`.
    ///
    /// # Panics
    /// If the shape is too large; [`Tensor::try_eye`] returns an error instead.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor, tensor};
    /// assert_eq!(Tensor::eye(2, DType::F32), tensor![[1, 0], [0, 1]]);
    /// ```
    #[track_caller]
    pub fn eye(n: usize, dtype: DType) -> Tensor {
        or_panic(Tensor::try_eye(n, dtype))
    }

    /// [`Tensor::eye`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if no memory can hold the shape.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// assert!(Tensor::try_eye(usize::MAX, DType::F32).is_err());
    /// ```
    #[track_caller]
    pub fn try_eye(n: usize, dtype: DType) -> Result<Tensor> {
        Tensor::try_eye_rect(n, n, dtype)
    }

    /// Ones on the main diagonal of a matrix `[n, m]`, zeros elsewhere.
    ///
    /// # Panics
    /// If the shape is too large; [`Tensor::try_eye_rect`] returns an error instead.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor, tensor};
    /// assert_eq!(Tensor::eye_rect(2, 3, DType::F32), tensor![[1, 0, 0], [0, 1, 0]]);
    /// ```
    #[track_caller]
    pub fn eye_rect(n: usize, m: usize, dtype: DType) -> Tensor {
        or_panic(Tensor::try_eye_rect(n, m, dtype))
    }

    /// [`Tensor::eye_rect`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if no memory can hold the shape.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// assert!(Tensor::try_eye_rect(usize::MAX, 2, DType::F32).is_err());
    /// ```
    #[track_caller]
    pub fn try_eye_rect(n: usize, m: usize, dtype: DType) -> Result<Tensor> {
        task::whole("eye", &Diagonal(m), &[], &[n, m].into(), dtype)
    }
}

/// Ones on the main diagonal of a matrix of so many columns.
struct Diagonal(usize);

impl WholeRule for Diagonal {
    fn run(&self, _: &'static str, _: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        fn put<T: Element>(out: &mut [T], columns: usize) {
            out.fill(T::default());
            for (i, row) in out.chunks_exact_mut(columns).enumerate().take(columns) {
                row[i] = T::from_scalar(Scalar::Bool(true));
            }
        }
        if out.len() > 0 {
            with_block!(BlockMut, out, s => put(s, self.0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType::*;
    use crate::tensor;

    #[test]
    fn constants_of_every_type() {
        for dtype in DType::ALL {
            assert_eq!(Tensor::zeros([2, 2], dtype), tensor![[0, 0], [0, 0]].to_dtype(dtype));
            assert_eq!(Tensor::ones(3, dtype), tensor![1, 1, 1].to_dtype(dtype));
            assert_eq!(Tensor::full((), 3, dtype), Tensor::scalar(3.0f32).to_dtype(dtype));
            assert_eq!(Tensor::eye_rect(3, 2, dtype), tensor![[1, 0], [0, 1], [0, 0]].to_dtype(dtype));
            assert_eq!(Tensor::zeros([0, 3], dtype).dims(), [0, 3]);
        }
        assert_eq!(Tensor::full([1], 2.9, I64), tensor![2; i64]);
        assert_eq!(Tensor::eye(0, F32).dims(), [0, 0]);
        assert_eq!(Tensor::full([1], i64::MAX, I64), tensor![i64::MAX; i64]);
    }

    #[test]
    fn like_takes_shape_and_type_but_not_strides() {
        let t = tensor![[1, 2, 3], [4, 5, 6]; f64].t().unwrap();
        let z = t.zeros_like();
        assert_eq!((z.dims(), z.dtype(), z.strides()), (&[3, 2][..], F64, &[2, 1][..]));
        assert_eq!(t.ones_like().select(0, 0).unwrap(), tensor![1, 1; f64]);
        assert_eq!(tensor![1.0].expand([3]).unwrap().full_like(2), tensor![2, 2, 2]);
    }

    #[test]
    fn too_large_is_an_error_and_not_an_abort() {
        let shapes = [
            vec![usize::MAX],
            vec![1 << 32, 1 << 32],
            vec![usize::MAX, 0, 2],
            vec![1 << 46, 1 << 14],
            vec![1 << 59],
        ];
        for shape in shapes {
            assert!(
                matches!(Tensor::try_zeros(shape.clone(), F64), Err(Error::TooLarge { .. })),
                "{shape:?}"
            );
            assert!(matches!(Tensor::try_ones(shape.clone(), F64), Err(Error::TooLarge { .. })));
            assert!(matches!(Tensor::try_full(shape, 1, F64), Err(Error::TooLarge { .. })));
        }
        assert!(matches!(Tensor::try_eye(1 << 31, F64), Err(Error::TooLarge { .. })));
        assert!(matches!(Tensor::try_arange(0, i64::MAX, 1, I64), Err(Error::TooLarge { .. })));
        assert!(matches!(Tensor::try_arange(0, 1, 1e-300, F64), Err(Error::TooLarge { .. })));
        assert!(matches!(Tensor::try_linspace(0, 1, 1 << 60, F32), Err(Error::TooLarge { .. })));
    }

    #[test]
    #[should_panic(expected = "zeros: a tensor of shape [18446744073709551615] is too large")]
    fn the_other_forms_panic_with_the_same_text() {
        Tensor::zeros(usize::MAX, F32);
    }
}
