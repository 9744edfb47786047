//! The inverse trigonometric functions: an odd polynomial near zero, and identities that lead there.
//!
//! Single precision is computed in double, and so has hardly any error but that of its last rounding.

/// atan(x) = x + x^3 A(x^2) for |x| <= tan(pi/8). Remez fit of A: relative error of atan under 2^-58.3.
const A: [f64; 12] = [
    -0.33333333333333326,
    0.1999999999999765,
    -0.14285714285385995,
    0.11111111088071617,
    -0.09090908141316943,
    0.07692282698550265,
    -0.0666622603541322,
    0.058770161907074014,
    -0.05218376815177392,
    0.04503468816830146,
    -0.03347325025492641,
    0.015194551912180396,
];

/// asin(x) = x + x^3 S(x^2) for |x| <= 1/2. Remez fit of S: relative error of asin under 2^-59.3.
const S: [f64; 13] = [
    0.1666666666666676,
    0.07499999999970798,
    0.04464285717461356,
    0.030381942707718566,
    0.02237221498911065,
    0.017351611992850003,
    0.013980820744058433,
    0.01139891093278139,
    0.010780258833955692,
    0.0037063888467560317,
    0.021707490675875622,
    -0.020999119431544356,
    0.03262865720167886,
];

pub(super) mod f64 {
    use core::f64::consts::{FRAC_PI_2, FRAC_PI_4};

    use super::super::f64::{fma, poly};

    /// pi/2 less the nearest number.
    const FRAC_PI_2_LOW: f64 = 6.123233995736766e-17;

    /// The arc tangent. Error under 1.5 ulp.
    ///
    /// Beyond tan(pi/8) it is pi/4 more than that of (x - 1) / (x + 1), beyond tan(3 pi/8) pi/2 more than that of -1/x.
    #[inline(always)]
    pub(crate) fn atan<const FMA: bool>(x: f64) -> f64 {
        let a = x.abs();
        let (middle, far) = (a > 0.4142135623730951, a > 2.414213562373095);
        let (up, down) = if middle { (a - 1.0, a + 1.0) } else { (a, 1.0) };
        let (up, down) = if far { (-1.0, a) } else { (up, down) };
        let (turn, turn_low) = if middle { (FRAC_PI_4, 0.5 * FRAC_PI_2_LOW) } else { (0.0, 0.0) };
        let (turn, turn_low) = if far { (FRAC_PI_2, FRAC_PI_2_LOW) } else { (turn, turn_low) };
        let t = up / down;
        let z = t * t;
        let rest = fma::<FMA>(z * t, poly::<FMA, _>(z, super::A), turn_low);
        (turn + (t + rest)).copysign(x)
    }

    /// For |x|: the number whose arc sine, or half of whose complement, the polynomial gives; and what it adds to it.
    #[inline(always)]
    fn near_zero<const FMA: bool>(a: f64) -> (f64, f64) {
        let z = if a > 0.5 { fma::<FMA>(a, -0.5, 0.5) } else { a * a };
        let s = if a > 0.5 { z.sqrt() } else { a };
        (s, s * (z * poly::<FMA, _>(z, super::S)))
    }

    /// The arc sine; not-a-number beyond 1. Error under 1.6 ulp.
    ///
    /// Beyond 1/2 it is pi/2 less twice that of sqrt((1 - x) / 2).
    #[inline(always)]
    pub(crate) fn asin<const FMA: bool>(x: f64) -> f64 {
        let a = x.abs();
        let (s, rest) = near_zero::<FMA>(a);
        let far = FRAC_PI_2 - (2.0 * s + (2.0 * rest - FRAC_PI_2_LOW));
        (if a > 0.5 { far } else { s + rest }).copysign(x)
    }

    /// The arc cosine; not-a-number beyond 1. Error under 1.3 ulp.
    #[inline(always)]
    pub(crate) fn acos<const FMA: bool>(x: f64) -> f64 {
        let a = x.abs();
        let (s, rest) = near_zero::<FMA>(a);
        let near = FRAC_PI_2 - (s.copysign(x) + (rest.copysign(x) - FRAC_PI_2_LOW));
        let left = 2.0 * (FRAC_PI_2 - (s + (rest - FRAC_PI_2_LOW)));
        let far = if x < 0.0 { left } else { 2.0 * (s + rest) };
        if a > 0.5 { far } else { near }
    }
}

super::in_double!(asin acos atan);
