//! The hyperbolic sine and cosine, and the inverse hyperbolic functions.
//!
//! Single precision is computed in double, and so has hardly any error but that of its last rounding.

/// sinh(x) = x + x^3 H(x^2) for |x| <= 1. Remez fit of H: relative error of sinh under 2^-56.6.
const H: [f64; 7] = [
    0.16666666666666669,
    0.008333333333333148,
    0.00019841269841431873,
    2.755731915707183e-06,
    2.5052123136728023e-08,
    1.6057259768475052e-10,
    7.758748805258299e-13,
];

/// asinh(x) = x + x^3 G(x^2) for |x| <= 1/2. Remez fit of G: relative error of asinh under 2^-59.2.
const G: [f64; 13] = [
    -0.16666666666666663,
    0.07499999999998956,
    -0.04464285714168649,
    0.030381944378251508,
    -0.022372156878085647,
    0.01735271673237835,
    -0.013964146200063837,
    0.011544663337269941,
    -0.00970971183441836,
    0.008121203106390997,
    -0.006324428508977351,
    0.003924362911480643,
    -0.0013643097480265775,
];

pub(super) mod f64 {
    use core::f64::consts::LN_2;

    use super::super::exp::f64::half_exp;
    use super::super::f64::{LN2_HI, LN2_LO, fma, poly};
    use super::super::log::L64;
    use super::super::log::f64::{exponent_and_fraction, ln, log1p};
    use super::super::pairs::{product, root, sum};

    /// From here on 1 is nothing beside the square.
    const LARGE: f64 = 268_435_456.0;

    /// The hyperbolic sine: an odd polynomial up to 1, half a difference of exponentials beyond. Error under 1.6 ulp.
    #[inline(always)]
    pub(crate) fn sinh<const FMA: bool>(x: f64) -> f64 {
        let a = x.abs();
        let z = a * a;
        let near = fma::<FMA>(z * a, poly::<FMA, _>(z, super::H), a);
        let e = half_exp::<FMA>(a);
        (if a < 1.0 { near } else { e - 0.25 / e }).copysign(x)
    }

    /// The hyperbolic cosine, half a sum of exponentials. Error under 1.3 ulp.
    #[inline(always)]
    pub(crate) fn cosh<const FMA: bool>(x: f64) -> f64 {
        let e = half_exp::<FMA>(x.abs());
        e + 0.25 / e
    }

    /// The inverse hyperbolic sine: an odd polynomial up to 1/2, ln(x + sqrt(x^2 + 1)) beyond. Error under 1.5 ulp.
    #[inline(always)]
    pub(crate) fn asinh<const FMA: bool>(x: f64) -> f64 {
        let a = x.abs();
        let z = a * a;
        let near = fma::<FMA>(z * a, poly::<FMA, _>(z, super::G), a);

        let large = a > LARGE;
        let t = if large { 1.0 } else { a };
        let (square, square_low) = product::<FMA>(t, t);
        let (q, q_low) = if t < 1.0 { sum(1.0, square) } else { sum(square, 1.0) };
        let (s, s_low) = root::<FMA>(q, q_low + square_low);
        let (y, y_low) = sum(s, t);
        let (y, more) = if large { (a, LN_2) } else { (y, (y_low + s_low) / y) };
        (if a < 0.5 { near } else { ln::<FMA>(y) + more }).copysign(x)
    }

    /// The inverse hyperbolic cosine, ln(1 + t + sqrt(t^2 + 2t)) for x = 1 + t; not-a-number below 1. Error under 1.7 ulp.
    #[inline(always)]
    pub(crate) fn acosh<const FMA: bool>(x: f64) -> f64 {
        let large = x > LARGE;
        let t = if large { 1.0 } else { x - 1.0 };
        let (square, square_low) = product::<FMA>(t, t);
        let (q, q_low) = if t < 2.0 { sum(2.0 * t, square) } else { sum(square, 2.0 * t) };
        let (s, s_low) = root::<FMA>(q, q_low + square_low);
        let (u, u_low) = sum(s, t);
        let (u, more) = if large { (x - 1.0, LN_2) } else { (u, (u_low + s_low) / (1.0 + u)) };
        let y = log1p::<FMA>(u) + more;
        let y = if x < 1.0 { f64::NAN } else { y };
        if x == 1.0 { 0.0 } else { y }
    }

    /// The inverse hyperbolic tangent; infinite at 1 and not-a-number beyond. Error under 1.7 ulp.
    ///
    /// It is half the logarithm of (1 + x) / (1 - x) = 2^k (1 + s) / (1 - s), which is k ln 2 / 2 more than that of s.
    #[inline(always)]
    pub(crate) fn atanh<const FMA: bool>(x: f64) -> f64 {
        /// Adding it rounds to an integer, which is then where an exponent stands, with its bias.
        const MAGIC: f64 = 6_755_399_441_055_744.0 + 1023.0;
        let a = x.abs();
        let (k, _) = exponent_and_fraction((1.0 + a) / (1.0 - a));
        let power = f64::from_bits((k + MAGIC).to_bits() << 52);
        // 1 - x is exact beyond 1/2; before, these are exact but for their last rounding.
        let (up, down) = (fma::<FMA>(a, 1.0 + power, 1.0 - power), fma::<FMA>(a, 1.0 - power, 1.0 + power));
        let rest = power * (1.0 - a);
        let (up, down) = if a < 0.5 { (up, down) } else { ((1.0 + a) - rest, (1.0 + a) + rest) };
        let s = up / down;
        let z = s * s;
        let tail = fma::<FMA>(0.5 * (s * z), poly::<FMA, _>(z, L64), k * (0.5 * LN2_LO));
        let y = fma::<FMA>(k, 0.5 * LN2_HI, s + tail);
        let y = if a == 1.0 { f64::INFINITY } else { y };
        (if a > 1.0 { f64::NAN } else { y }).copysign(x)
    }
}

super::in_double!(sinh cosh asinh acosh atanh);
