//! Squashing functions built on the exponential: tanh, sigmoid.
//!
//! Their formulas are chosen so that nothing overflows and no quotient is 0/0 or inf/inf, and so that the
//! rounding errors of the exponential and of the quotient are damped where the result is largest.

/// tanh(x) = x + x^3 T(x^2) for |x| <= 0.553. Remez fit of T: relative error of tanh under 2^-29.2.
const T32: [f32; 5] = [-3.333_331_6e-1, 1.333_254_4e-1, -5.384_765_2e-2, 2.105_125_6e-2, -6.243_746e-3];

/// As [`T32`], for double precision: relative error of tanh under 2^-59.4.
const T64: [f64; 11] = [
    -0.3333333333333329,
    0.13333333333325623,
    -0.05396825396316884,
    0.021869488368556386,
    -0.008863232312102787,
    0.003592089048766012,
    -0.0014555232714064683,
    0.0005883624324041013,
    -0.00023316899576646507,
    8.300645373087588e-05,
    -1.9300109126267425e-05,
];

macro_rules! squashing {
    ($T:ident, $Near:ident, tanh is 1 from $one:expr) => {
        pub(super) mod $T {
            use super::super::exp::$T::{exp, exp_of_small};
            use super::super::$T::{fma, poly};

            /// Hyperbolic tangent: an odd polynomial for |x| < 0.55, and 1 - 2 / (exp(2 |x|) + 1) beyond.
            /// Error under 1.6 ulp (f32), 1.4 ulp (f64).
            #[inline(always)]
            pub(crate) fn tanh<const FMA: bool>(x: $T) -> $T {
                let a = x.abs();
                let t = if a > $one { $one } else { a };
                let z = t * t;
                let near = fma::<FMA>(z * t, poly::<FMA, _>(z, super::$Near), t);
                let far = 1.0 - 2.0 / (exp_of_small::<FMA>(2.0 * t) + 1.0);
                (if a < 0.55 { near } else { far }).copysign(x)
            }

            /// The logistic function. With e = exp(-|x|) it is 1 / (1 + e) for x >= 0 and e / (1 + e) below;
            /// where e is small that is written e - e^2 / (1 + e), which rounds the quotient in a small
            /// correction only. Error under 2 ulp.
            #[inline(always)]
            pub(crate) fn sigmoid<const FMA: bool>(x: $T) -> $T {
                let e = exp::<FMA>(-x.abs());
                let tail = x < -0.75;
                let q = if (x < 0.0) & !tail { e } else { 1.0 } / (1.0 + e);
                if tail { fma::<FMA>(-(e * e), q, e) } else { q }
            }
        }
    };
}
squashing!(f32, T32, tanh is 1 from 10.0);
squashing!(f64, T64, tanh is 1 from 20.0);
