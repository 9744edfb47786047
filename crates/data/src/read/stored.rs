//! Numbers as files store them.

use foldback_tensor::{DType, Tensor};

use crate::error::Result;

/// The types of numbers in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stored {
    #[cfg(feature = "npy")]
    Bool,
    U8,
    I8,
    #[cfg(feature = "npy")]
    U16,
    I16,
    #[cfg(feature = "npy")]
    U32,
    I32,
    #[cfg(feature = "npy")]
    I64,
    F32,
    F64,
}

/// Numbers of a type, cast as `Tensor::to` casts.
macro_rules! cast {
    ($bytes:ident, $big:ident, $shape:ident, $dtype:ident, $from:ty) => {{
        const WIDTH: usize = size_of::<$from>();
        let (chunks, _) = $bytes.as_chunks::<WIDTH>();
        let value =
            |b: &[u8; WIDTH]| if $big { <$from>::from_be_bytes(*b) } else { <$from>::from_le_bytes(*b) };
        match $dtype {
            DType::F32 => Tensor::from_vec(chunks.iter().map(|b| value(b) as f32).collect(), $shape),
            DType::F64 => Tensor::from_vec(chunks.iter().map(|b| value(b) as f64).collect(), $shape),
            DType::I64 => Tensor::from_vec(chunks.iter().map(|b| value(b) as i64).collect(), $shape),
            DType::Bool => Tensor::from_vec(chunks.iter().map(|b| value(b) != 0 as $from).collect(), $shape),
        }
    }};
}

impl Stored {
    /// How many bytes a number has.
    pub(super) fn width(self) -> usize {
        match self {
            Stored::U8 | Stored::I8 => 1,
            #[cfg(feature = "npy")]
            Stored::Bool => 1,
            Stored::I16 => 2,
            Stored::I32 | Stored::F32 => 4,
            Stored::F64 => 8,
            #[cfg(feature = "npy")]
            Stored::U16 => 2,
            #[cfg(feature = "npy")]
            Stored::U32 => 4,
            #[cfg(feature = "npy")]
            Stored::I64 => 8,
        }
    }

    /// The type that holds all its numbers.
    pub(super) fn natural(self) -> DType {
        match self {
            #[cfg(feature = "npy")]
            Stored::Bool => DType::Bool,
            Stored::F32 => DType::F32,
            Stored::F64 => DType::F64,
            _ => DType::I64,
        }
    }

    /// The numbers as a tensor of this type and shape. The first byte of each is its most significant one if `big`.
    pub(super) fn tensor(self, bytes: &[u8], big: bool, shape: &[usize], dtype: DType) -> Result<Tensor> {
        match self {
            Stored::U8 => cast!(bytes, big, shape, dtype, u8),
            #[cfg(feature = "npy")]
            Stored::Bool => cast!(bytes, big, shape, dtype, u8),
            Stored::I8 => cast!(bytes, big, shape, dtype, i8),
            Stored::I16 => cast!(bytes, big, shape, dtype, i16),
            Stored::I32 => cast!(bytes, big, shape, dtype, i32),
            Stored::F32 => cast!(bytes, big, shape, dtype, f32),
            Stored::F64 => cast!(bytes, big, shape, dtype, f64),
            #[cfg(feature = "npy")]
            Stored::U16 => cast!(bytes, big, shape, dtype, u16),
            #[cfg(feature = "npy")]
            Stored::U32 => cast!(bytes, big, shape, dtype, u32),
            #[cfg(feature = "npy")]
            Stored::I64 => cast!(bytes, big, shape, dtype, i64),
        }
    }
}
