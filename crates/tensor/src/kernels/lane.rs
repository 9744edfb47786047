//! The numbers of a kernel's loop: lanes of `f32` and `f64`, and wrapping integers.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::elementary;
use super::near::Angle;
use super::real::{Num, Real};
use crate::dtype::Element;
use crate::math::VecMath;

/// The primitive floating-point types, as kernels see them.
#[allow(private_bounds, reason = "the vector functions are the crate's own")]
pub trait Float:
    Element
    + VecMath
    + Angle
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    fn of(v: f64) -> Self;
    fn abs_(self) -> Self;
    fn is_nan_(self) -> bool;
    fn floor_(self) -> Self;
    fn ceil_(self) -> Self;
    fn round_(self) -> Self;
    fn trunc_(self) -> Self;
    fn fused<const FMA: bool>(self, factor: Self, term: Self) -> Self;
}
macro_rules! float {
    ($t:ty: $($whole:ident = $of:ident),*) => {
        impl Float for $t {
            $(
                #[inline(always)]
                fn $whole(self) -> $t {
                    self.$of()
                }
            )*
            #[inline(always)]
            fn of(v: f64) -> $t {
                v as $t
            }
            #[inline(always)]
            fn abs_(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn is_nan_(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn fused<const FMA: bool>(self, factor: $t, term: $t) -> $t {
                if FMA { self.mul_add(factor, term) } else { self * factor + term }
            }
        }
    };
}
float!(f32: floor_ = floor, ceil_ = ceil, round_ = round_ties_even, trunc_ = trunc);
float!(f64: floor_ = floor, ceil_ = ceil, round_ = round_ties_even, trunc_ = trunc);

/// Folds all lanes by a tree: the upper half into the lower one until one is left.
#[inline(always)]
pub(super) fn fold_lanes<T: Copy, const N: usize>(mut lanes: [T; N], combine: impl Fn(T, T) -> T) -> T {
    let mut width = N / 2;
    while width > 0 {
        for k in 0..width {
            lanes[k] = combine(lanes[k], lanes[k + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// One lane of a floating-point block. `FMA` says whether fused multiply-add is an instruction here.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Lane<T, const FMA: bool>(pub T);

macro_rules! lane_op {
    ($trait:ident, $f:ident, $op:tt) => {
        impl<T: Float, const FMA: bool> $trait for Lane<T, FMA> {
            type Output = Self;
            #[inline(always)]
            fn $f(self, o: Self) -> Self {
                Lane(self.0 $op o.0)
            }
        }
        impl<T: Float, const FMA: bool> $trait<f64> for Lane<T, FMA> {
            type Output = Self;
            #[inline(always)]
            fn $f(self, o: f64) -> Self {
                Lane(self.0 $op T::of(o))
            }
        }
        impl<T: Float, const FMA: bool> $trait<Lane<T, FMA>> for f64 {
            type Output = Lane<T, FMA>;
            #[inline(always)]
            fn $f(self, o: Lane<T, FMA>) -> Lane<T, FMA> {
                Lane(T::of(self) $op o.0)
            }
        }
    };
}
lane_op!(Add, add, +);
lane_op!(Sub, sub, -);
lane_op!(Mul, mul, *);
lane_op!(Div, div, /);

impl<T: Float, const FMA: bool> Neg for Lane<T, FMA> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Lane(-self.0)
    }
}

/// The comparisons and the mask algebra of plain numbers, on the wrapped value.
macro_rules! plain_masks {
    () => {
        type Mask = bool;
        #[inline(always)]
        fn lt(self, o: Self) -> bool {
            self.0 < o.0
        }
        #[inline(always)]
        fn le(self, o: Self) -> bool {
            self.0 <= o.0
        }
        #[inline(always)]
        fn eq(self, o: Self) -> bool {
            self.0 == o.0
        }
        #[inline(always)]
        fn and(a: bool, b: bool) -> bool {
            a & b
        }
        #[inline(always)]
        fn or(a: bool, b: bool) -> bool {
            a | b
        }
        #[inline(always)]
        fn not(a: bool) -> bool {
            !a
        }
        #[inline(always)]
        fn select(mask: bool, yes: Self, no: Self) -> Self {
            if mask { yes } else { no }
        }
    };
}

macro_rules! lane_whole {
    ($($name:ident = $of:ident),*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            Lane(self.0.$of())
        }
    )*};
}
impl<T: Float, const FMA: bool> Num for Lane<T, FMA> {
    plain_masks!();
    lane_whole!(floor = floor_, ceil = ceil_, round = round_, trunc = trunc_);
    #[inline(always)]
    fn lit(v: f64) -> Self {
        Lane(T::of(v))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Lane(self.0.abs_())
    }
    #[inline(always)]
    fn sign(self) -> Self {
        let above = if self.0 > T::of(0.0) { T::of(1.0) } else { T::of(0.0) };
        Lane(if self.0 < T::of(0.0) { T::of(-1.0) } else { above })
    }
    #[inline(always)]
    fn maximum(self, o: Self) -> Self {
        let larger = if o.0 > self.0 { o.0 } else { self.0 };
        Lane(if o.0.is_nan_() { o.0 } else { larger })
    }
    #[inline(always)]
    fn minimum(self, o: Self) -> Self {
        let smaller = if o.0 < self.0 { o.0 } else { self.0 };
        Lane(if o.0.is_nan_() { o.0 } else { smaller })
    }
}

macro_rules! lane_math {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        lane_math!($($name)*);
    };
    ($($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            Lane(VecMath::$name::<FMA>(self.0))
        }
    )*};
}
impl<T: Float, const FMA: bool> Real for Lane<T, FMA> {
    elementary!(lane_math);
    lane_math!(normal_cdf gelu_slope);
    #[inline(always)]
    fn pow(self, o: Self) -> Self {
        Lane(VecMath::pow::<FMA>(self.0, o.0))
    }
}

/// An integer with wrapping arithmetic, as PyTorch's.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Words(pub(crate) i64);

macro_rules! word_op {
    ($trait:ident, $f:ident, $w:ident) => {
        impl $trait for Words {
            type Output = Words;
            #[inline(always)]
            fn $f(self, o: Words) -> Words {
                Words(self.0.$w(o.0))
            }
        }
    };
}
word_op!(Add, add, wrapping_add);
word_op!(Sub, sub, wrapping_sub);
word_op!(Mul, mul, wrapping_mul);
impl Neg for Words {
    type Output = Words;
    #[inline(always)]
    fn neg(self) -> Words {
        Words(self.0.wrapping_neg())
    }
}
macro_rules! words_whole {
    ($($name:ident),*) => {$(
        #[inline(always)]
        fn $name(self) -> Words {
            self
        }
    )*};
}
impl Num for Words {
    plain_masks!();
    words_whole!(floor, ceil, round, trunc);
    #[inline(always)]
    fn lit(v: f64) -> Words {
        Words(v as i64)
    }
    #[inline(always)]
    fn abs(self) -> Words {
        Words(self.0.wrapping_abs())
    }
    #[inline(always)]
    fn sign(self) -> Words {
        Words(self.0.signum())
    }
    #[inline(always)]
    fn maximum(self, o: Words) -> Words {
        Words(self.0.max(o.0))
    }
    #[inline(always)]
    fn minimum(self, o: Words) -> Words {
        Words(self.0.min(o.0))
    }
}
