//! Powers: x^y = 2^(y log2 |x|), with the sign and the special cases put in afterwards.
//!
//! The product y log2 |x| reaches 150 in single precision and 1075 in double, so the logarithm needs 8 or 11
//! bits more than the result has. In single precision it is therefore computed in double precision, where
//! even the subnormals are ordinary numbers. In double precision it is computed as a sum of two numbers,
//! which is only worth while where a product's rounding error costs one instruction: without `FMA` the
//! standard library is faster and is called instead.

/// With s = f / (2 + f), ln(1 + f) = 2s + s z L(z), z = s^2. Remez fit of L on [0, 0.0295]: relative error
/// under 2^-44.9.
const L: [f64; 5] =
    [0.6666666667584624, 0.39999995604650057, 0.2857211115087114, 0.22176098865396002, 0.19585532747875115];

/// With the same s and z, ln(1 + f) = 2s + s z (2/3 + z Q(z)). Remez fit of Q: relative error under 2^-65.6.
const Q: [f64; 7] = [
    0.4000000000000227,
    0.2857142857009195,
    0.22222222521343338,
    0.1818178423796361,
    0.15386763489810557,
    0.13256669792698617,
    0.13197741502934057,
];

/// 2^r = 1 + r E(r), |r| <= 0.5. Remez fit of E: relative error of 2^r under 2^-34.3.
const E: [f64; 7] = [
    0.6931471807047632,
    0.24022651066993608,
    0.05550410365285104,
    0.009618038061156676,
    0.0013333935472418638,
    0.00015466781125961037,
    1.519610514773805e-05,
];

pub(super) mod f32 {
    use super::super::f64::{clamp, fma, poly};
    use super::super::log::f64::exponent_and_fraction;
    use core::f64::consts::LOG2_E;

    /// Adding it rounds to an integer, which then stands in the last bits.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    /// Stands for an infinite logarithm: any y that is not 0 makes it overflow, and y = 0 does not make it
    /// not-a-number.
    const HUGE: f64 = 1e300;

    /// log2(a) for `a >= 0` that came from an f32; ±`HUGE` at infinity and 0.
    #[inline(always)]
    fn log2<const FMA: bool>(a: f64) -> f64 {
        let (k, f) = exponent_and_fraction(a);
        let s = f / (2.0 + f);
        let z = s * s;
        let ln = fma::<FMA>(s * z, poly::<FMA, _>(z, super::L), 2.0 * s);
        let y = fma::<FMA>(ln, LOG2_E, k);
        let y = if a == f64::INFINITY { HUGE } else { y };
        if a == 0.0 { -HUGE } else { y }
    }

    /// 2^t in the range of f32, and far enough beyond to round to 0 or infinity.
    #[inline(always)]
    pub(in crate::math) fn exp2_wide<const FMA: bool>(t: f64) -> f64 {
        let t = clamp(t, -200.0, 200.0);
        let shifted = t + (MAGIC + 1023.0);
        let r = t - (shifted - (MAGIC + 1023.0));
        fma::<FMA>(r, poly::<FMA, _>(r, super::E), 1.0) * f64::from_bits(shifted.to_bits() << 52)
    }

    /// `x` to the power `y`.
    ///
    /// The special cases are C99's: anything to the power 0 and 1 to any power are 1, even for not-a-number;
    /// a negative finite `x` has no power that is not an integer; an odd integer power keeps the sign of `x`,
    /// zeros and infinities included. Error under 0.51 ulp.
    #[inline(always)]
    pub(crate) fn pow<const FMA: bool>(x: f32, y: f32) -> f32 {
        let (base, y) = (x as f64, y as f64);
        let size = exp2_wide::<FMA>(clamp(y, -HUGE, HUGE) * log2::<FMA>(base.abs()));

        super::f64::with_special_cases(base, y, size) as f32
    }
}

pub(super) mod f64 {
    use super::super::exp::f64::exp2_of_sum;
    use super::super::f64::{clamp, poly};
    use super::super::log::f64::exponent_and_fraction;
    use super::super::pairs::{product, sum};

    /// From here on every f64 is an integer.
    const TWO_52: f64 = 4_503_599_627_370_496.0;
    /// 2/3, and what is missing from it.
    const TWO_THIRDS: (f64, f64) = (0.6666666666666666, 3.700743415417188e-17);
    /// 1 / ln 2, and what is missing from it.
    const LOG2_E: (f64, f64) = (core::f64::consts::LOG2_E, 2.0355273740931033e-17);

    /// x^y for the `size` |x|^y: C99's rules on signs, integers, ones and not-a-number.
    #[inline(always)]
    pub(super) fn with_special_cases(x: f64, y: f64, size: f64) -> f64 {
        // Adding 2^52 rounds to an integer and puts its parity in the last bit; from 2^52 on it is there
        // already.
        let a = y.abs();
        let small = a < TWO_52;
        let whole = if small { a + TWO_52 } else { a };
        let is_integer = !small | (whole - TWO_52 == a);
        let odd = if is_integer & (a < 2.0 * TWO_52) { whole.to_bits() << 63 } else { 0 };
        let signed = f64::from_bits(size.to_bits() ^ (odd & x.to_bits()));

        let negative = x < 0.0 && x > f64::NEG_INFINITY;
        let p = if negative && !is_integer { f64::NAN } else { signed };
        let p = if x.is_nan() || y.is_nan() { f64::NAN } else { p };
        if x == 1.0 || y == 0.0 { 1.0 } else { p }
    }

    /// log2(a) for finite `a > 0`, as a sum good to about 2^-64 of it.
    #[inline(always)]
    fn log2(a: f64) -> (f64, f64) {
        let tiny = a < f64::MIN_POSITIVE;
        let (k, f) = exponent_and_fraction(if tiny { a * TWO_52 } else { a });
        let k = if tiny { k - 52.0 } else { k };

        // s = f / (2 + f) and z = s^2, each in two parts.
        let (d, d_low) = sum(2.0, f);
        let inverse = 1.0 / d;
        let s = f * inverse;
        let s_low = (-s).mul_add(d_low, (-s).mul_add(d, f)) * inverse;
        let (z, z_low) = product::<true>(s, s);
        let z_low = (2.0 * s).mul_add(s_low, z_low);

        // z (2/3 + z Q(z)), times s, plus 2s.
        let (c, c_low) = sum(TWO_THIRDS.0, z.mul_add(poly::<true, _>(z, super::Q), TWO_THIRDS.1));
        let (w, w_low) = product::<true>(z, c);
        let w_low = z.mul_add(c_low, z_low.mul_add(c, w_low));
        let (v, v_low) = product::<true>(s, w);
        let v_low = s.mul_add(w_low, s_low.mul_add(w, v_low));
        let (ln, ln_low) = sum(2.0 * s, v);
        let ln_low = ln_low + 2.0f64.mul_add(s_low, v_low);

        let (g, g_low) = product::<true>(ln, LOG2_E.0);
        let g_low = ln.mul_add(LOG2_E.1, ln_low.mul_add(LOG2_E.0, g_low));
        let (log, log_low) = sum(k, g);
        (log, log_low + g_low)
    }

    /// `x` to the power `y`, with C99's special cases. Error under 1.5 ulp.
    ///
    /// Without `FMA` this is the standard library's, and not vectorised.
    #[inline(always)]
    pub(crate) fn pow<const FMA: bool>(x: f64, y: f64) -> f64 {
        if !FMA {
            return x.powf(y);
        }
        let a = x.abs();
        let (log, log_low) = log2(a);
        // Any logarithm that is not 0 overflows or underflows long before such exponents.
        let exponent = clamp(y, -1e300, 1e300);
        let (t, t_low) = product::<true>(exponent, log);
        let size = exp2_of_sum::<true>(t, exponent.mul_add(log_low, t_low));
        let limit = if (a == 0.0) == (y < 0.0) { f64::INFINITY } else { 0.0 };
        let size = if a == 0.0 || a == f64::INFINITY { limit } else { size };
        with_special_cases(x, y, size)
    }
}
