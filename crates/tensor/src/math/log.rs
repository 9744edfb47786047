//! The natural logarithm and `log1p`: split off the power of two, then a polynomial around 1.
//!
//! x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), so ln(x) = k ln 2 + ln(1 + f). `log1p` finds k
//! from the rounded sum 1 + x, but f from x itself, so that no bit of a small x is lost.

/// ln(1 + f) = f - f^2/2 + f^3 L(f). Remez fit of L on [sqrt(1/2) - 1, sqrt(2) - 1]: relative error of ln(1 +
/// f) under 2^-29.2.
const L32: [f32; 9] = [
    3.3333313e-01,
    -2.5000167e-01,
    2.0002224e-01,
    -1.6659367e-01,
    1.4209552e-01,
    -1.2549663e-01,
    1.2109125e-01,
    -1.0917472e-01,
    5.3398136e-02,
];

/// With s = f / (2 + f), ln(1 + f) = 2 atanh(s) = 2s + s z L(z), z = s^2. Remez fit of L on [0, 0.0295]:
/// relative error of atanh(s) under 2^-59.4.
pub(super) const L64: [f64; 7] = [
    0.6666666666666735,
    0.39999999999409364,
    0.2857142874368316,
    0.22222198429347298,
    0.18183572335258721,
    0.15313832675686695,
    0.14798253582324464,
];

macro_rules! logarithms {
    ($T:ident, $Bits:ident, mantissa: $mantissa:expr, bias: $bias:expr, sqrt_half: $sqrt_half:expr, scale: $scale:expr,
     to_float: $to_float:expr, series: $series:ident, log10_2: $log10_2:expr) => {
        pub(super) mod $T {
            use super::super::$T::{LN2_HI, LN2_LO, fma, poly};

            /// log10(2) in two parts, as ln 2.
            const LOG10_2: ($T, $T) = $log10_2;

            const MANTISSA_MASK: $Bits = (1 << $mantissa) - 1;

            /// For a positive, normal `u`: k plus the exponent bias, and 2^-k u, between sqrt(1/2) and
            /// sqrt(2).
            #[inline(always)]
            fn split(u: $T) -> ($Bits, $T) {
                let w = u.to_bits().wrapping_add((($bias as $Bits) << $mantissa) - $sqrt_half);
                (w >> $mantissa, $T::from_bits((w & MANTISSA_MASK) + $sqrt_half))
            }

            /// For a positive, normal `u` = 2^k (1 + f): k and f.
            #[inline(always)]
            pub(crate) fn exponent_and_fraction(u: $T) -> ($T, $T) {
                let (k, m) = split(u);
                ($to_float(k) - $bias, m - 1.0)
            }

            /// k ln 2 + ln(1 + f).
            #[inline(always)]
            fn combine<const FMA: bool>(k: $T, f: $T) -> $T {
                $series!(FMA, k, f)
            }

            /// A logarithm of x = 2^k (1 + f), made of k and f; -inf at 0 and not-a-number below.
            #[inline(always)]
            fn logarithm(x: $T, made: impl Fn($T, $T) -> $T) -> $T {
                let tiny = x < $T::MIN_POSITIVE;
                let (k, f) = exponent_and_fraction(if tiny { x * $scale } else { x });
                let y = made(k - if tiny { $mantissa as $T } else { 0.0 }, f);
                // In bits: positive and finite. In floats the compiler would turn the tests below into slower
                // ones.
                let regular = x.to_bits().wrapping_sub(1) < $T::INFINITY.to_bits() - 1;
                let special = if x < 0.0 { $T::NAN } else { x };
                let special = if x == 0.0 { -$T::INFINITY } else { special };
                if regular { y } else { special }
            }

            /// Natural logarithm. Error under 0.9 ulp.
            #[inline(always)]
            pub(crate) fn ln<const FMA: bool>(x: $T) -> $T {
                logarithm(x, |k, f| combine::<FMA>(k, f))
            }

            /// The logarithm to base 2. Error under 1.7 ulp; exact for powers of 2.
            #[inline(always)]
            pub(crate) fn log2<const FMA: bool>(x: $T) -> $T {
                const LOG2_E: $T = core::f64::consts::LOG2_E as $T;
                logarithm(x, |k, f| fma::<FMA>(combine::<FMA>(0.0, f), LOG2_E, k))
            }

            /// The logarithm to base 10. Error under 1.8 ulp.
            #[inline(always)]
            pub(crate) fn log10<const FMA: bool>(x: $T) -> $T {
                const LOG10_E: $T = core::f64::consts::LOG10_E as $T;
                logarithm(x, |k, f| {
                    let rest = fma::<FMA>(k, LOG10_2.1, combine::<FMA>(0.0, f) * LOG10_E);
                    fma::<FMA>(k, LOG10_2.0, rest)
                })
            }

            /// ln(1 + x); -inf at -1 and not-a-number below. Error under 1.5 ulp.
            #[inline(always)]
            pub(crate) fn log1p<const FMA: bool>(x: $T) -> $T {
                let (k, _) = split(1.0 + x);
                // 2^-k in two factors, because it is subnormal for the largest x.
                let s = $T::from_bits((2 * $bias as $Bits + 2).wrapping_sub(k) << $mantissa) * 0.25;
                let y = combine::<FMA>($to_float(k) - $bias, fma::<FMA>(x, s, s - 1.0)).copysign(x);
                let y = if x < $T::INFINITY { y } else { x };
                let y = if x < -1.0 { $T::NAN } else { y };
                if x == -1.0 { -$T::INFINITY } else { y }
            }
        }
    };
}

macro_rules! series32 {
    ($FMA:ident, $k:ident, $f:ident) => {{
        let f2 = $f * $f;
        let tail = fma::<$FMA>(f2 * $f, poly::<$FMA, _>($f, super::L32), $k * LN2_LO);
        let tail = fma::<$FMA>(-0.5, f2, tail);
        fma::<$FMA>($k, LN2_HI, $f + tail)
    }};
}

macro_rules! series64 {
    ($FMA:ident, $k:ident, $f:ident) => {{
        // 2s = f - f^2/2 + s f^2/2, which keeps f itself unrounded.
        let s = $f / (2.0 + $f);
        let z = s * s;
        let h = 0.5 * $f * $f;
        let tail = fma::<$FMA>(s, fma::<$FMA>(z, poly::<$FMA, _>(z, super::L64), h), $k * LN2_LO);
        fma::<$FMA>($k, LN2_HI, $f - (h - tail))
    }};
}

/// An integer below 2^52 as a float, through the bits of 2^52 + k: there is no vector instruction for it
/// before AVX-512.
#[inline(always)]
fn u64_to_f64(k: u64) -> ::core::primitive::f64 {
    ::core::primitive::f64::from_bits(k | 0x4330_0000_0000_0000) - 4_503_599_627_370_496.0
}

/// An integer below 2^23 as a float.
#[inline(always)]
fn u32_to_f32(k: u32) -> ::core::primitive::f32 {
    k as i32 as ::core::primitive::f32
}

logarithms!(f32, u32, mantissa: 23, bias: 127.0, sqrt_half: 0x3f35_04f3, scale: 8_388_608.0,
    to_float: super::u32_to_f32, series: series32, log10_2: (0.301_025_4, 4.605_039e-6));
logarithms!(f64, u64, mantissa: 52, bias: 1023.0, sqrt_half: 0x3fe6_a09e_667f_3bcd, scale: 4_503_599_627_370_496.0,
    to_float: super::u64_to_f64, series: series64, log10_2: (0.301_029_995_607_677_85, 5.630_334_806_675_098e-11));
