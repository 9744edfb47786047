//! Elementary functions as straight-line arithmetic, so that the compiler vectorises plain loops over them.
//!
//! Nothing here branches, indexes a table that could panic, or calls the C library: a choice is a select
//! between two values that are both computed. The exceptions are in double precision: `sin`, `cos` and `tan` of large
//! angles are told by a branch and read a table, and `pow` without `FMA` is the standard library's. Each function is correct for every input (not-a-number,
//! infinities, signed zeros, subnormals), and its documentation gives the largest error in units in the last
//! place (ulp).
//!
//! On a concrete `f32` or `f64` the inherent methods hide these: write `VecMath::exp::<FMA>(x)`, or be
//! generic.
//!
//! `FMA` says whether the surrounding loop is compiled with the `fma` target feature. Without it `mul_add`
//! would be a library call, so the product and the sum are rounded apart; the bounds hold for both.
//!
//! Constants that are not textbook values are minimax coefficients found by Remez exchange in 100-digit
//! arithmetic; each comment names the function that was fitted, the interval, and the error that remains
//! after rounding the coefficients.

mod arcs;
mod area;
mod erf;
mod exp;
mod hyperbolic;
mod log;
mod pairs;
mod pow;
mod roots;
mod trig;

#[cfg(test)]
mod tests;

use crate::kernels::elementary;
pub(crate) use erf::NORMAL_DENSITY;
pub(crate) use trig::NEAR;

/// The families side by side, by element type.
mod families {
    pub(super) mod f32 {
        pub(in crate::math) use crate::math::{
            arcs::f32::*, area::f32::*, erf::f32::*, exp::f32::*, hyperbolic::f32::*, log::f32::*,
            pow::f32::*, roots::f32::*, trig::f32::*,
        };
    }
    pub(super) mod f64 {
        pub(in crate::math) use crate::math::{
            arcs::f64::*, area::f64::*, erf::f64::*, exp::f64::*, hyperbolic::f64::*, log::f64::*,
            pow::f64::*, roots::f64::*, trig::f64::*,
        };
    }
}

macro_rules! vec_math {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        /// The elementary functions of an element type: those of the list, three that formulas need beside them, and three for small angles.
        ///
        /// Called from kernels' loops; see the module's notes for `FMA`. The error bounds are in the family's files.
        pub(crate) trait VecMath: Copy {
            $(
                $(#[$doc])*
                fn $name<const FMA: bool>(self) -> Self;
            )*
            /// The normal distribution function, `(1 + erf(self / sqrt(2))) / 2`.
            fn normal_cdf<const FMA: bool>(self) -> Self;
            /// The slope of the Gaussian error linear unit.
            fn gelu_slope<const FMA: bool>(self) -> Self;
            /// `self` to the power `y`, with the special cases of C99.
            fn pow<const FMA: bool>(self, y: Self) -> Self;
            /// `sin` of an angle below [`NEAR`], the same to the bit.
            fn near_sin<const FMA: bool>(self) -> Self;
            /// `cos` of an angle below [`NEAR`], the same to the bit.
            fn near_cos<const FMA: bool>(self) -> Self;
            /// `tan` of an angle below [`NEAR`], the same to the bit.
            fn near_tan<const FMA: bool>(self) -> Self;
        }
        vec_math!(@of f32: $($name)* normal_cdf gelu_slope near_sin near_cos near_tan);
        vec_math!(@of f64: $($name)* normal_cdf gelu_slope near_sin near_cos near_tan);
    };
    (@of $T:ident: $($name:ident)*) => {
        impl VecMath for $T {
            $(
                #[inline(always)]
                fn $name<const FMA: bool>(self) -> Self {
                    families::$T::$name::<FMA>(self)
                }
            )*
            #[inline(always)]
            fn pow<const FMA: bool>(self, y: Self) -> Self {
                families::$T::pow::<FMA>(self, y)
            }
        }
    };
}
elementary!(vec_math);

/// Functions of single precision that are computed in double.
macro_rules! in_double {
    ($($name:ident)*) => {
        pub(super) mod f32 {$(
            /// As in double precision, rounded. Error under 0.51 ulp.
            #[inline(always)]
            pub(crate) fn $name<const FMA: bool>(x: f32) -> f32 {
                super::f64::$name::<FMA>(x as f64) as f32
            }
        )*}
    };
}
use in_double;

/// What the families share, once per element type: the fused step, polynomials, and the split of ln 2.
macro_rules! basics {
    ($T:ident, LN2_HI: $hi:expr, LN2_LO: $lo:expr) => {
        mod $T {
            /// ln 2 in two parts. The high part has so few bits that its product with any exponent is exact.
            pub(super) const LN2_HI: $T = $hi;
            /// ln 2 - `LN2_HI`, rounded.
            pub(super) const LN2_LO: $T = $lo;

            /// `a * b + c`, fused if the loop is compiled for it.
            #[inline(always)]
            pub(super) fn fma<const FMA: bool>(a: $T, b: $T, c: $T) -> $T {
                if FMA { a.mul_add(b, c) } else { a * b + c }
            }

            /// The polynomial with coefficients `c` (constant term first) at `x`.
            #[inline(always)]
            pub(super) fn poly<const FMA: bool, const N: usize>(x: $T, c: [$T; N]) -> $T {
                let mut sum = c[N - 1];
                let mut i = N - 1;
                while i > 0 {
                    i -= 1;
                    sum = fma::<FMA>(sum, x, c[i]);
                }
                sum
            }

            /// `x` held between `low` and `high`; not-a-number passes.
            #[inline(always)]
            pub(super) fn clamp(x: $T, low: $T, high: $T) -> $T {
                let x = if x > high { high } else { x };
                if x < low { low } else { x }
            }
        }
    };
}
// ln 2 cut off after 11 bits (f32) and 33 bits (f64).
basics!(f32, LN2_HI: 0.692_871_1, LN2_LO: 2.760_868e-4);
basics!(f64, LN2_HI: 0.693_147_180_485_539_1, LN2_LO: 7.440_617_110_012_397e-11);
