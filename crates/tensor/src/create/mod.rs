//! Making tensors of constants; sequences and values that the caller already has are in the submodules.

mod sequence;
mod values;

pub use sequence::Interval;
pub(crate) use sequence::Sequence;

use crate::buffer::{Handle, Storage, has_room};
use crate::dtype::{BlockMut, DType, Element, Scalar, with_block};
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::shape::{Pair, Shape};
use crate::task::{self, Does, Space, Task, To, WholeRule};
use crate::tensor::Tensor;

/// How many elements a tensor of this shape has, refusing what no memory can address.
///
/// An empty shape needs no memory, whatever the type; its axes of size 0 count as 1, so that its strides and partial
/// products are sound too.
pub(crate) fn checked_len(op: &'static str, shape: &Shape, dtype: DType) -> Result<usize> {
    let (mut len, mut fits, mut empty) = (1usize, true, false);
    for &size in shape.iter() {
        let (product, over) = len.overflowing_mul(size.max(1));
        (len, fits, empty) = (product, fits && !over, empty || size == 0);
    }
    let each = if empty { 1 } else { dtype.size() };
    match len.checked_mul(each) {
        Some(all) if fits && all <= isize::MAX as usize => Ok(if empty { 0 } else { len }),
        _ => refuse(TensorFacts::TooLarge { op, shape: shape.clone() }),
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
        None => refuse(TensorFacts::TooLarge { op, shape: shape.clone() }),
    }
}

/// Refuses a vector of a shape's elements that there is no memory for.
pub(crate) fn expect_room(op: &'static str, shape: &Shape, dtype: DType) -> Result<()> {
    expect_room_for(op, shape, checked_len(op, shape, dtype)?, dtype)
}

/// [`expect_room`] for `n` elements only, of a result that repeats them along some axes.
pub(crate) fn expect_room_for(op: &'static str, shape: &Shape, n: usize, dtype: DType) -> Result<()> {
    let bytes = n.saturating_mul(dtype.size());
    if has_room(bytes) { Ok(()) } else { refuse(TensorFacts::TooLarge { op, shape: shape.clone() }) }
}

/// One value everywhere, in the name of an operation.
fn filled(op: &'static str, shape: &Shape, value: Scalar, dtype: DType) -> Result<Tensor> {
    value.expect_fits(op, dtype)?;
    let space = Space::Of(shape);
    task::make(Task { op, reads: &[], space, does: Does::Fill(value), to: &mut [To::Dense(dtype)] })
}

/// Defines the four forms of a constructor: in the default type and in a given one, panicking and not.
macro_rules! constants {
    ($(
        $(#[$doc:meta])*
        $name:ident, $with:ident, $try_name:ident, $try_with:ident($($arg:ident: $ty:ty),*) in $default:expr;
        make |$dtype:ident| $make:expr;
        example $args:literal gives $want:literal;
    )*) => {
        /// # Constants
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = concat!("If no memory can hold the shape; [`Tensor::", stringify!($try_name), "`] returns an error instead.")]
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{Tensor, tensor};\nassert_eq!(Tensor::", stringify!($name), "(", $args,
                "), ", $want, ");\n```"
            )]
            #[track_caller]
            pub fn $name($($arg: impl Into<$ty>),*) -> Tensor {
                or_panic(Tensor::$try_name($($arg),*))
            }

            #[doc = concat!("[`Tensor::", stringify!($name), "`] of a given element type.")]
            ///
            /// # Panics
            #[doc = concat!("If no memory can hold the shape; [`Tensor::", stringify!($try_with), "`] returns an error instead.")]
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{DType, Tensor};\nlet t = Tensor::", stringify!($with), "(", $args,
                ", DType::F64);\nassert_eq!(t.dtype(), DType::F64);\n```"
            )]
            #[track_caller]
            pub fn $with($($arg: impl Into<$ty>,)* dtype: DType) -> Tensor {
                or_panic(Tensor::$try_with($($arg,)* dtype))
            }

            #[doc = concat!("[`Tensor::", stringify!($name), "`] without a panic.")]
            ///
            /// # Errors
            /// `TooLarge` if no memory can hold the shape.
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{Tensor, tensor};\nassert_eq!(Tensor::", stringify!($try_name), "(", $args,
                ")?, ", $want, ");\n# Ok::<(), foldback_tensor::Error>(())\n```"
            )]
            #[track_caller]
            pub fn $try_name($($arg: impl Into<$ty>),*) -> Result<Tensor> {
                $(let $arg: $ty = $arg.into();)*
                let $dtype = $default;
                $make.here()
            }

            #[doc = concat!("[`Tensor::", stringify!($with), "`] without a panic.")]
            ///
            /// # Errors
            /// `TooLarge` if no memory can hold the shape.
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{DType, Tensor};\nlet t = Tensor::", stringify!($try_with), "(", $args,
                ", DType::I64)?;\nassert_eq!(t.dtype(), DType::I64);\n# Ok::<(), foldback_tensor::Error>(())\n```"
            )]
            #[track_caller]
            pub fn $try_with($($arg: impl Into<$ty>,)* dtype: DType) -> Result<Tensor> {
                $(let $arg: $ty = $arg.into();)*
                let $dtype = dtype;
                $make.here()
            }
        )*}
    };
}

constants! {
    /// Zeros (`false` in a `bool` tensor) of the given shape, `f32`.
    zeros, zeros_with, try_zeros, try_zeros_with(shape: Shape) in DType::F32;
    make |dtype| filled("zeros", &shape, Scalar::I64(0), dtype);
    example "[2, 1]" gives "tensor![[0.0], [0.0]]";

    /// Ones (`true` in a `bool` tensor) of the given shape, `f32`.
    ones, ones_with, try_ones, try_ones_with(shape: Shape) in DType::F32;
    make |dtype| filled("ones", &shape, Scalar::I64(1), dtype);
    example "3" gives "tensor![1.0, 1.0, 1.0]";

    /// One value everywhere: `bool` for a truth value, else `f32`. NaN, infinities and what is beyond `i64` are refused for
    /// integers.
    full, full_with, try_full, try_full_with(shape: Shape, value: Scalar) in match value {
        Scalar::Bool(_) => DType::Bool,
        _ => DType::F32,
    };
    make |dtype| filled("full", &shape, value, dtype);
    example "(1, 2), 2.5" gives "tensor![[2.5, 2.5]]";

    /// Ones on the main diagonal of a matrix, zeros elsewhere, `f32`: `3` makes `[3, 3]`, `(2, 3)` makes `[2, 3]`.
    eye, eye_with, try_eye, try_eye_with(sizes: Pair) in DType::F32;
    make |dtype| identity(sizes, dtype);
    example "(2, 3)" gives "tensor![[1, 0, 0], [0, 1, 0]]";
}

/// # Constants like another tensor
impl Tensor {
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
        Tensor::zeros_with(self.shape(), self.dtype())
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
        Tensor::ones_with(self.shape(), self.dtype())
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
        Tensor::full_with(self.shape(), value, self.dtype())
    }

    /// Numbers drawn evenly from 0 to 1, in this tensor's shape and dtype: [`Tensor::rand`].
    ///
    /// # Panics
    /// If this tensor holds no real numbers, or is an expanded view too large to store.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let r = tensor![3.0, 4.0; f64].rand_like();
    /// assert!(r.dims() == [2] && r.to_vec::<f64>()?.iter().all(|v| (0.0..1.0).contains(v)));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn rand_like(&self) -> Tensor {
        Tensor::rand_with(self.shape(), self.dtype())
    }

    /// Numbers drawn from the standard normal distribution, in this tensor's shape and dtype: [`Tensor::randn`].
    ///
    /// # Panics
    /// If this tensor holds no real numbers, or is an expanded view too large to store.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, manual_seed, tensor};
    /// manual_seed(1);
    /// let r = tensor![3.0, 4.0].randn_like();
    /// manual_seed(1);
    /// assert_eq!(r, Tensor::randn(2));
    /// ```
    #[track_caller]
    pub fn randn_like(&self) -> Tensor {
        Tensor::randn_with(self.shape(), self.dtype())
    }
}

fn identity(sizes: Pair, dtype: DType) -> Result<Tensor> {
    let [n, m] = sizes.get();
    task::whole("eye", &Diagonal(m), &[], &[n, m].into(), dtype)
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
    use crate::{refused, tensor};

    #[test]
    fn constants_of_every_type() {
        for dtype in DType::ALL {
            assert_eq!(Tensor::zeros_with([2, 2], dtype), tensor![[0, 0], [0, 0]].to(dtype));
            assert_eq!(Tensor::ones_with(3, dtype), tensor![1, 1, 1].to(dtype));
            assert_eq!(Tensor::full_with((), 3, dtype), Tensor::scalar(3.0f32).to(dtype));
            assert_eq!(Tensor::eye_with((3, 2), dtype), tensor![[1, 0], [0, 1], [0, 0]].to(dtype));
            assert_eq!(Tensor::zeros_with([0, 3], dtype).dims(), [0, 3]);
        }
        assert_eq!(Tensor::full_with([1], 2.9, I64), tensor![2; i64]);
        assert_eq!(Tensor::eye(0).dims(), [0, 0]);
        assert_eq!(Tensor::full_with([1], i64::MAX, I64), tensor![i64::MAX; i64]);
    }

    #[test]
    fn like_takes_shape_and_type_but_not_strides() {
        let t = tensor![[1, 2, 3], [4, 5, 6]; f64].t();
        let z = t.zeros_like();
        assert_eq!((z.dims(), z.dtype(), &z.strides()[..]), (&[3, 2][..], F64, &[2, 1][..]));
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
                refused!(Tensor::try_zeros_with(shape.clone(), F64), TensorFacts::TooLarge { .. }),
                "{shape:?}"
            );
            assert!(refused!(Tensor::try_ones_with(shape.clone(), F64), TensorFacts::TooLarge { .. }));
            assert!(refused!(Tensor::try_full_with(shape, 1, F64), TensorFacts::TooLarge { .. }));
        }
        assert!(refused!(Tensor::try_eye_with(1 << 31, F64), TensorFacts::TooLarge { .. }));
        assert!(refused!(Tensor::try_arange_with(0..i64::MAX, 1, I64), TensorFacts::TooLarge { .. }));
        assert!(refused!(Tensor::try_arange_with(0..1, 1e-300, F64), TensorFacts::TooLarge { .. }));
        assert!(refused!(Tensor::try_linspace(0, 1, 1 << 60), TensorFacts::TooLarge { .. }));
    }

    #[test]
    #[should_panic(expected = "zeros: a tensor of shape [18446744073709551615] is too large")]
    fn the_other_forms_panic_with_the_same_text() {
        Tensor::zeros(usize::MAX);
    }
}
