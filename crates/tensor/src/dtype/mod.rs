//! Element types: the tag `DType`, the Rust types behind it, scalars, and PyTorch's type promotion.

mod block;

use std::fmt;

pub use block::{Block, BlockMut};
pub(crate) use block::{typed_mut, with_block};

use crate::datum::Datum;
use crate::error::{Result, TensorFacts, refuse};

/// The element type of a [`Tensor`](crate::Tensor).
///
/// The order is the order of promotion: a category to the right absorbs one to the left.
///
/// ```
/// use foldback_tensor::DType;
/// assert_eq!(DType::I64.promote(DType::F32), DType::F32);
/// assert_eq!(DType::F32.promote(DType::F64), DType::F64);
/// ```
// A whole word, see Note [Whole words].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(usize)]
pub enum DType {
    /// `bool`
    Bool,
    /// `i64`
    I64,
    /// `f32`, the default of every constructor that does not say otherwise
    F32,
    /// `f64`
    F64,
}

/// The three categories of PyTorch's promotion rules, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Category {
    /// truth values
    Bool,
    /// integers
    Integer,
    /// floating-point numbers
    Float,
}

impl DType {
    /// Every element type, in ascending order of promotion.
    pub const ALL: [DType; 4] = [DType::Bool, DType::I64, DType::F32, DType::F64];

    /// The category that decides a promotion before the width does.
    pub const fn category(self) -> Category {
        match self {
            DType::Bool => Category::Bool,
            DType::I64 => Category::Integer,
            DType::F32 | DType::F64 => Category::Float,
        }
    }

    /// Whether this is a floating-point type, the only kind that can require a gradient.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool => 1,
            DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// The type that holds both: category first, then width.
    pub fn promote(self, other: DType) -> DType {
        self.max(other)
    }

    /// Itself if it is a floating-point type, else the default one: what `exp` of integers returns.
    pub fn to_float(self) -> DType {
        if self.is_float() { self } else { DType::F32 }
    }

    /// The type of a sum: booleans and integers add up in `I64`.
    pub fn to_accumulator(self) -> DType {
        if self == DType::Bool { DType::I64 } else { self }
    }

    /// The short name used in messages and in `Debug` output.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I64 => "i64",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A single number that takes part in an operation without widening tensors of its own category.
// With a tag of a whole word, an operand is copied by words.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(u64)]
pub enum Scalar {
    /// a truth value
    Bool(bool),
    /// an integer
    I64(i64),
    /// a floating-point number
    F64(f64),
}

impl Scalar {
    /// The type a scalar has when no tensor decides: `Bool`, `I64`, or the default float.
    pub const fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::I64(_) => DType::I64,
            Scalar::F64(_) => DType::F32,
        }
    }

    /// As a floating-point number; `true` is one.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(v) => v as u8 as f64,
            Scalar::I64(v) => v as f64,
            Scalar::F64(v) => v,
        }
    }

    /// As an integer, rounding towards zero.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(v) => v as i64,
            Scalar::I64(v) => v,
            Scalar::F64(v) => v as i64,
        }
    }

    /// Refuses NaN, infinities and what is beyond `i64` for a tensor of integers: they have no place there.
    #[doc(hidden)]
    pub fn expect_fits(self, op: &'static str, dtype: DType) -> Result<()> {
        // The bounds are powers of two, which are exact.
        const END: f64 = -(i64::MIN as f64);
        match self {
            Scalar::F64(v) if dtype == DType::I64 && !(-END..END).contains(&v) => {
                let (name, value) = ("value", v.to_string());
                refuse(TensorFacts::Parameter {
                    op,
                    name,
                    value,
                    expected: "a number that an i64 can be: float() holds others",
                })
            }
            _ => Ok(()),
        }
    }

    /// As a truth value: everything but zero is true.
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(v) => v,
            Scalar::I64(v) => v != 0,
            Scalar::F64(v) => v != 0.0,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(v) => v.fmt(f),
            Scalar::I64(v) => v.fmt(f),
            Scalar::F64(v) => write!(f, "{v:?}"),
        }
    }
}

macro_rules! scalar_from {
    ($($t:ty => $variant:ident),*) => {$(
        impl From<$t> for Scalar {
            fn from(v: $t) -> Scalar {
                Scalar::$variant(v.into())
            }
        }
    )*};
}
scalar_from!(bool => Bool, i8 => I64, i16 => I64, i32 => I64, i64 => I64, u8 => I64, u16 => I64, u32 => I64, f32 => F64, f64 => F64);

macro_rules! scalar_from_wide {
    ($($t:ty),*) => {$(
        /// An integer; beyond the range of `i64`, a floating-point number.
        impl From<$t> for Scalar {
            fn from(v: $t) -> Scalar {
                i64::try_from(v).map_or(Scalar::F64(v as f64), Scalar::I64)
            }
        }
    )*};
}
scalar_from_wide!(isize, u64, usize);

/// A Rust type that a tensor can hold: `bool`, `i64`, `f32` or `f64`.
pub trait Element: Datum<Elem = Self> + Default + PartialEq + PartialOrd + fmt::Debug {
    /// The tag of this type.
    const DTYPE: DType;
    /// As a scalar.
    fn to_scalar(self) -> Scalar;
    /// From a scalar, converting as a cast does.
    fn from_scalar(s: Scalar) -> Self;
    #[doc(hidden)]
    fn slice(block: Block<'_>) -> Option<&[Self]>;
    #[doc(hidden)]
    fn slice_mut(block: BlockMut<'_>) -> Option<&mut [Self]>;
    #[doc(hidden)]
    fn block(slice: &[Self]) -> Block<'_>;
    #[doc(hidden)]
    fn block_mut(slice: &mut [Self]) -> BlockMut<'_>;
    #[doc(hidden)]
    fn storage(values: Vec<Self>) -> crate::buffer::Storage;
    #[doc(hidden)]
    fn buffer(storage: crate::buffer::Storage) -> Option<crate::buffer::Buffer<Self>>;
    #[doc(hidden)]
    fn spare(values: Vec<Self>) -> crate::buffer::Spare;
    #[doc(hidden)]
    fn from_spare(spare: crate::buffer::Spare) -> Option<Vec<Self>>;
}

macro_rules! element {
    ($t:ty, $variant:ident, $to:expr, $from:ident $(as $cast:ty)?) => {
        impl Element for $t {
            const DTYPE: DType = DType::$variant;
            fn to_scalar(self) -> Scalar {
                $to(self.into())
            }
            fn from_scalar(s: Scalar) -> Self {
                s.$from() $(as $cast)?
            }
            #[inline]
            fn slice(block: Block<'_>) -> Option<&[Self]> {
                if let Block::$variant(s) = block { Some(s) } else { None }
            }
            #[inline]
            fn slice_mut(block: BlockMut<'_>) -> Option<&mut [Self]> {
                if let BlockMut::$variant(s) = block { Some(s) } else { None }
            }
            #[inline]
            fn block(slice: &[Self]) -> Block<'_> {
                Block::$variant(slice)
            }
            #[inline]
            fn block_mut(slice: &mut [Self]) -> BlockMut<'_> {
                BlockMut::$variant(slice)
            }
            fn storage(values: Vec<Self>) -> crate::buffer::Storage {
                crate::buffer::Storage::$variant(values.into())
            }
            fn buffer(storage: crate::buffer::Storage) -> Option<crate::buffer::Buffer<Self>> {
                if let crate::buffer::Storage::$variant(buffer) = storage { Some(buffer) } else { None }
            }
            fn spare(values: Vec<Self>) -> crate::buffer::Spare {
                crate::buffer::Spare::$variant(values)
            }
            fn from_spare(spare: crate::buffer::Spare) -> Option<Vec<Self>> {
                if let crate::buffer::Spare::$variant(values) = spare { Some(values) } else { None }
            }
        }
    };
}
element!(bool, Bool, Scalar::Bool, to_bool);
element!(i64, I64, Scalar::I64, to_i64);
element!(f32, F32, Scalar::F64, to_f64 as f32);
element!(f64, F64, Scalar::F64, to_f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_category_then_width() {
        use DType::*;
        for (a, b, want) in
            [(Bool, I64, I64), (I64, F32, F32), (F64, F32, F64), (Bool, Bool, Bool), (F64, Bool, F64)]
        {
            assert_eq!(a.promote(b), want);
            assert_eq!(b.promote(a), want);
        }
        assert_eq!(Bool.to_float(), F32);
        assert_eq!(F64.to_float(), F64);
        assert_eq!(Bool.to_accumulator(), I64);
    }

    #[test]
    fn scalars_convert_as_casts_do() {
        assert_eq!(i64::from_scalar(Scalar::from(2.9)), 2);
        assert!(bool::from_scalar(Scalar::from(-3)));
        assert_eq!(f32::from_scalar(Scalar::from(true)), 1.0);
        assert_eq!(Scalar::from(1.5f32), Scalar::F64(1.5));
        assert_eq!([Scalar::from(7usize), Scalar::from(7u16), Scalar::from(7isize)], [Scalar::I64(7); 3]);
        assert_eq!(Scalar::from(i64::MAX as u64), Scalar::I64(i64::MAX));
        assert_eq!(Scalar::from(1u64 << 63), Scalar::F64(9_223_372_036_854_775_808.0));
    }
}
