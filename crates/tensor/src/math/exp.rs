//! Exponential functions: take off a multiple of ln 2, a polynomial for the rest, put the power of two back.
//!
//! With n the integer nearest to x / ln 2 and r = x - n ln 2 we have exp(x) = 2^n exp(r) and |r| <= 0.35,
//! where exp(r) - 1 = r + r^2 P(r). n comes from adding a number so large that the sum has no bits left for a
//! fraction: then n stands in the sum's last bits, and the constant also carries an offset that turns those
//! bits into an exponent field.

/// Coefficients of P, constant term first. Remez fit of (exp(r) - 1 - r) / r^2 on |r| <= 0.35, weighted by r:
/// relative error of exp(r) - 1 under 2^-26.0.
const P32: [f32; 5] = [5.0e-1, 1.666_653_5e-1, 4.166_661e-2, 8.367_659e-3, 1.391_930_5e-3];

/// As [`P32`], for double precision: relative error of exp(r) - 1 under 2^-55.1.
const P64: [f64; 10] = [
    0.5000000000000007,
    0.1666666666666689,
    0.04166666666655576,
    0.008333333333141131,
    0.0013888888938873398,
    0.00019841270360175552,
    2.4801496213948107e-05,
    2.755675587758205e-06,
    2.7629696128496e-07,
    2.5281408071736267e-08,
];

macro_rules! exponentials {
    ($T:ident, $Bits:ident, P: $p:ident, mantissa: $mantissa:expr, bias: $bias:expr, magic: $magic:expr,
     exp: $exp_low:expr, $exp_high:expr; expm1: $expm1_low:expr) => {
        pub(super) mod $T {
            use super::super::$T::{LN2_HI, LN2_LO, clamp, fma, poly};

            /// A number whose last place is 1: adding it rounds to an integer.
            const MAGIC: $T = $magic;
            const BIAS: $T = $bias;

            /// n with its offset in the low bits, n, and r rounded once.
            #[inline(always)]
            fn split<const FMA: bool>(x: $T, offset: $T) -> ($Bits, $T, $T) {
                let magic = MAGIC + offset;
                let shifted = fma::<FMA>(x, core::f64::consts::LOG2_E as $T, magic);
                let n = shifted - magic;
                (shifted.to_bits(), n, fma::<FMA>(n, -LN2_LO, fma::<FMA>(n, -LN2_HI, x)))
            }

            /// n with its offset in the low bits, n, and exp(r) - 1 with hardly any error from rounding r.
            /// For the exponential of `x + x_low`.
            #[inline(always)]
            fn reduce<const FMA: bool>(x: $T, x_low: $T, offset: $T) -> ($Bits, $T, $T) {
                let magic = MAGIC + offset;
                let shifted = fma::<FMA>(x, core::f64::consts::LOG2_E as $T, magic);
                let n = shifted - magic;
                // r = high - low; the difference is rounded for the polynomial only, so that its error stays
                // small.
                let high = fma::<FMA>(n, -LN2_HI, x);
                let low = n * LN2_LO - x_low;
                let r = high - low;
                let p = high + fma::<FMA>(r * r, poly::<FMA, _>(r, super::$p), -low);
                (shifted.to_bits(), n, p)
            }

            /// e to the power `x`.
            ///
            /// Overflows to infinity and underflows through the subnormals to 0. Error under 1.1 ulp.
            #[inline(always)]
            pub(crate) fn exp<const FMA: bool>(x: $T) -> $T {
                let (bits, _, r) = split::<FMA>(clamp(x, $exp_low, $exp_high), 2.0 * BIAS);
                raise::<FMA>(bits, fma::<FMA>(r * r, poly::<FMA, _>(r, super::$p), r))
            }

            /// (1 + p) 2^n, for the bits of n plus an offset of twice the bias. 2^n need not be representable
            /// when the result is, so it is applied as two halves.
            #[inline(always)]
            fn raise<const FMA: bool>(bits: $Bits, p: $T) -> $T {
                // The bits of `MAGIC` end in so many zeros that shifting what stands above the exponent drops it.
                let half = bits >> 1;
                // What rounds to 0 is 0 from here on: a product that underflows takes many times as long, and a row that
                // is masked with -inf is full of them.
                let vanishes = bits < MAGIC.to_bits() + ($bias as $Bits - $mantissa);
                let first = $T::from_bits(if vanishes { 0 } else { half << $mantissa });
                let second = $T::from_bits(bits.wrapping_sub(half) << $mantissa);
                fma::<FMA>(p, first, first) * second
            }

            /// 2 to the power `high + low`, where `|low|` is at most about a unit in the last place of
            /// `high`.
            #[inline(always)]
            pub(crate) fn exp2_of_sum<const FMA: bool>(high: $T, low: $T) -> $T {
                let magic = MAGIC + 2.0 * BIAS;
                let t = clamp(high, -1.2 * BIAS, 1.2 * BIAS);
                let shifted = t + magic;
                let low = if t == high { low } else { 0.0 };
                let r = (t - (shifted - magic) + low) * core::f64::consts::LN_2 as $T;
                raise::<FMA>(shifted.to_bits(), fma::<FMA>(r * r, poly::<FMA, _>(r, super::$p), r))
            }

            /// 2 to the power `x`. Error under 1.1 ulp.
            #[inline(always)]
            pub(crate) fn exp2<const FMA: bool>(x: $T) -> $T {
                exp2_of_sum::<FMA>(x, 0.0)
            }

            /// Half of e to the power `x >= 0`, which overflows later than the whole. Error under 0.9 ulp.
            #[allow(dead_code, reason = "the functions of f32 are computed in f64")]
            #[inline(always)]
            pub(crate) fn half_exp<const FMA: bool>(x: $T) -> $T {
                let (bits, _, p) = reduce::<FMA>(clamp(x, 0.0, $exp_high + 1.0), 0.0, 2.0 * BIAS - 1.0);
                raise::<FMA>(bits, p)
            }

            /// e to the power `high + low`, for a small `low`. Error under 0.9 ulp.
            #[allow(dead_code, reason = "the functions of f32 are computed in f64")]
            #[inline(always)]
            pub(crate) fn exp_of_sum<const FMA: bool>(high: $T, low: $T) -> $T {
                let (bits, _, p) = reduce::<FMA>(clamp(high, $exp_low, $exp_high), low, 2.0 * BIAS);
                raise::<FMA>(bits, p)
            }

            /// e to the power `x`, minus 1. Error under 1.7 ulp.
            #[inline(always)]
            pub(crate) fn expm1<const FMA: bool>(x: $T) -> $T {
                let (bits, n, p) = reduce::<FMA>(clamp(x, $expm1_low, $exp_high), 0.0, BIAS);
                // 2^n overflows for the largest n only; there half of it is used.
                let top = n > BIAS;
                let s = $T::from_bits(bits.wrapping_sub(if top { 1 } else { 0 }) << $mantissa);
                let y = fma::<FMA>(p, s, s - 1.0);
                (if top { y + y } else { y }).copysign(x)
            }

            /// `exp` for `|x| <= 80`, where 2^n is representable.
            #[allow(dead_code, reason = "the functions of f32 divide polynomials instead")]
            #[inline(always)]
            pub(crate) fn exp_of_small<const FMA: bool>(x: $T) -> $T {
                let (bits, _, p) = reduce::<FMA>(x, 0.0, BIAS);
                let s = $T::from_bits(bits << $mantissa);
                fma::<FMA>(p, s, s)
            }
        }
    };
}
exponentials!(f32, u32, P: P32, mantissa: 23, bias: 127.0, magic: 12_582_912.0,
    exp: -104.5, 89.0; expm1: -18.0);
exponentials!(f64, u64, P: P64, mantissa: 52, bias: 1023.0, magic: 6_755_399_441_055_744.0,
    exp: -746.0, 710.0; expm1: -38.0);
