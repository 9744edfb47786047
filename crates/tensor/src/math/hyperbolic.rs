//! Squashing functions built on the exponential: tanh, sigmoid.
//!
//! In double precision the exponential is computed, and then a quotient. In single precision both are one quotient:
//! with e^(2x) = s (C + u) / (C - u), where s is a power of two and C = u coth(u) a short polynomial, nothing but the
//! last division divides, and the exponential itself is never formed.
//!
//! The formulas are chosen so that nothing overflows and no quotient is 0/0 or inf/inf, and so that the rounding errors
//! of the quotient are damped where the result is largest.

/// u coth(u) for |u| <= 0.698, in powers of u^2. Remez fit: relative error under 2^-29.8.
const COTH: [f32; 5] = [1.0, 3.333_332_5e-1, -2.222_078e-2, 2.107_210_2e-3, -1.883_386_6e-4];

/// As [`COTH`], twice that, for r = 2u and |r| <= 0.349: relative error under 2^-28.7.
const TWICE_COTH: [f32; 3] = [2.0, 1.666_662_4e-1, -2.766_61e-3];

/// tanh(x) = x + x^3 T(x^2) for |x| <= 0.553. Remez fit of T: relative error of tanh under 2^-59.4.
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

pub(super) mod f32 {
    use std::f32::consts::{LN_2, LOG2_E};

    use super::super::f32::{LN2_HI, LN2_LO, clamp, fma, poly};

    /// A number whose last place is 1: adding it rounds to an integer.
    const MAGIC: f32 = 12_582_912.0;

    /// Hyperbolic tangent. Error under 1.9 ulp.
    ///
    /// With |x| = 2m ln 2 + u and s = 2^(4m) it is c + 2 (u - c C) / (s (C + u) + (C - u)), where c is 0 for m = 0 and
    /// 1 beyond: u / C near zero, and one minus a rest that is small where the result is large.
    #[inline(always)]
    pub(crate) fn tanh<const FMA: bool>(x: f32) -> f32 {
        let a = x.abs();
        let t = if a > 10.0 { 10.0 } else { a };
        let shifted = fma::<FMA>(t, 0.5 * LOG2_E, MAGIC);
        let m = shifted - MAGIC;
        // One rounding does: ln 2 as an f32 has four bits to spare, and m is at most 7.
        let u = if FMA {
            fma::<FMA>(m, -2.0 * LN_2, t)
        } else {
            fma::<FMA>(m, -2.0 * LN2_LO, fma::<FMA>(m, -2.0 * LN2_HI, t))
        };
        let s = f32::from_bits((shifted.to_bits() << 25).wrapping_add(1.0f32.to_bits()));
        let coth = poly::<FMA, _>(u * u, super::COTH);
        let c = if m > 1.0 { 1.0 } else { m };
        let rest = fma::<FMA>(-c, coth, u);
        let y = c + (rest + rest) / fma::<FMA>(s, coth + u, coth - u);
        y.copysign(x)
    }

    /// The logistic function. Error under 2.5 ulp.
    ///
    /// With x = n ln 2 + r it is 2^n (2C + r) / ((2C - r) + 2^n (2C + r)). The power of two is kept larger by 2^64, so
    /// that it is representable for the smallest results as well.
    #[inline(always)]
    pub(crate) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
        const SCALE: f32 = 1.0 / 18_446_744_073_709_551_616.0;
        const OFFSET: f32 = MAGIC + 127.0 + 64.0;
        // The result is 1 from 17 on, and 0 below -104.
        let t = clamp(x, -104.5, 40.0);
        let shifted = fma::<FMA>(t, LOG2_E, OFFSET);
        let n = shifted - OFFSET;
        let r = fma::<FMA>(n, -LN2_LO, fma::<FMA>(n, -LN2_HI, t));
        let coth = poly::<FMA, _>(r * r, super::TWICE_COTH);
        let up = (coth + r) * f32::from_bits(shifted.to_bits() << 23);
        up / fma::<FMA>(up, SCALE, coth - r) * SCALE
    }
}

pub(super) mod f64 {
    use super::super::exp::f64::{exp, exp_of_small};
    use super::super::f64::{fma, poly};

    /// Hyperbolic tangent: an odd polynomial for |x| < 0.55, and 1 - 2 / (exp(2 |x|) + 1) beyond.
    /// Error under 1.4 ulp.
    #[inline(always)]
    pub(crate) fn tanh<const FMA: bool>(x: f64) -> f64 {
        let a = x.abs();
        let t = if a > 20.0 { 20.0 } else { a };
        let z = t * t;
        let near = fma::<FMA>(z * t, poly::<FMA, _>(z, super::T64), t);
        let far = 1.0 - 2.0 / (exp_of_small::<FMA>(2.0 * t) + 1.0);
        (if a < 0.55 { near } else { far }).copysign(x)
    }

    /// The logistic function. With e = exp(-|x|) it is 1 / (1 + e) for x >= 0 and e / (1 + e) below; where e is small
    /// that is written e - e^2 / (1 + e), which rounds the quotient in a small correction only. Error under 2 ulp.
    #[inline(always)]
    pub(crate) fn sigmoid<const FMA: bool>(x: f64) -> f64 {
        let e = exp::<FMA>(-x.abs());
        let tail = x < -0.75;
        let q = if (x < 0.0) & !tail { e } else { 1.0 } / (1.0 + e);
        if tail { fma::<FMA>(-(e * e), q, e) } else { q }
    }
}
