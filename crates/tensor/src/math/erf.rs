//! The error function: an odd polynomial near zero, one minus a small rest elsewhere; and the normal distribution.

/// erf(x) = x + x A(x^2) for |x| <= 1. Remez fit of erf(x)/x - 1, relative error under 2^-28.7.
const A32: [f32; 7] = [
    1.283_791_7e-1,
    -3.761_262_6e-1,
    1.128_357_9e-1,
    -2.685_335e-2,
    5.187_171_5e-3,
    -7.997_961_4e-4,
    7.807_35e-5,
];

/// 1 - erf(x) = B(x - 2.5) for 1 <= x <= 3.93. Remez fit, absolute error under 2^-24.8.
const B32: [f32; 13] = [
    4.069_316_2e-4,
    -2.178_080_1e-3,
    5.446_653e-3,
    -8.353_236e-3,
    8.615_315e-3,
    -6.103_248e-3,
    2.818_180_5e-3,
    -5.703_688e-4,
    -2.865_118_1e-4,
    2.788_995_6e-4,
    -6.188_550_5e-5,
    -2.104_047_4e-5,
    9.124_357e-6,
];

/// Phi(x) - 1/2 = x P(x^2) / Q(x^2) for |x| <= 5.4, where Phi is the normal distribution function. Minimax fit, relative
/// error under 2^-26.2.
const PHI_P: [f32; 6] =
    [3.989_422_6e-1, 3.302_939_6e-2, 4.628_965_6e-3, 1.606_953e-4, 6.323_727_6e-6, 2.359_104_4e-8];
const PHI_Q: [f32; 6] = [1.0, 2.494_588_8e-1, 2.818_011_1e-2, 1.838_656_4e-3, 7.117_302_4e-5, 1.219_825_8e-6];

/// The slope of the Gaussian error linear unit, less 1/2, = x P(x^2) / Q(x^2) for |x| <= 6.2. Minimax fit, absolute error under
/// 2^-27.3.
const SLOPE_P: [f32; 7] = [
    7.978_845e-1,
    -1.828_085_3e-2,
    1.370_050_4e-2,
    2.767_968_4e-4,
    3.416_103_2e-5,
    1.123_189_9e-6,
    1.871_554_3e-8,
];
const SLOPE_Q: [f32; 8] = [
    1.0,
    3.104_211e-1,
    4.564_639e-2,
    4.183_386e-3,
    2.641_366e-4,
    1.128_882_1e-5,
    3.957_925_4e-7,
    1.375_580_4e-9,
];

/// The density of the normal distribution at 0, 1 / sqrt(2 pi).
pub(crate) const NORMAL_DENSITY: f64 = 0.398_942_280_401_432_7;

/// erf(x) = x + x A(x^2) for |x| <= 1.5. Remez fit of erf(x)/x - 1, relative error under 2^-55.1.
const A64: [f64; 16] = [
    0.1283791670955126,
    -0.3761263890318399,
    0.112837916709628,
    -0.02686617064610296,
    0.005223977631904159,
    -0.0008548327282829917,
    0.00012055339787465915,
    -1.4925772892036601e-05,
    1.6463672916180252e-06,
    -1.638005856333467e-07,
    1.4900350885763277e-08,
    -1.2724309906308123e-09,
    1.0813791224744071e-10,
    -9.584054516708905e-12,
    7.695498580408242e-13,
    -3.592350221013688e-14,
];

/// 1 - erf(x) = exp(-x^2) B(1 / (1 + x)) for 1.5 <= x <= 6. Remez fit of B weighted by exp(-x^2): absolute
/// error of erf under 2^-58.6.
const B64: [f64; 12] = [
    -2.737042848225277e-06,
    0.5643129437165786,
    0.561659157386071,
    0.3133152508554357,
    -0.539564975708867,
    0.7820689565249208,
    -6.2429771020292035,
    19.10550668354707,
    -30.707564959489883,
    29.094614229688606,
    -15.643636571128761,
    3.730523640621512,
];

/// erfc(x) = exp(-x^2) C(v) / (1 + 2x) with v = (x - 3.5) / (x + 3.5), for 0.46875 <= x <= 27.5. Remez fit of C: relative
/// error under 2^-56.5. The constant term stands apart.
const C64_AT_0: f64 = 1.2423492448711544;
const C64: [f64; 21] = [
    -0.14000918013761943,
    -0.010555596332218354,
    0.09751909515325927,
    -0.1150895981601878,
    0.08798315382483824,
    -0.04882332582799952,
    0.01909933094294665,
    -0.004215019906720778,
    -0.0003022678836179172,
    0.0005643844117450864,
    -0.00012151237851301824,
    -4.278221439354953e-05,
    2.4260751902106497e-05,
    2.32828794209498e-06,
    -3.8139239670893355e-06,
    -4.4235182002183205e-08,
    5.994610037085412e-07,
    -7.912717678559959e-09,
    -9.244611227840814e-08,
    5.618368321118934e-10,
    1.0199997405809671e-08,
];

/// erf(x) = x + x A(x^2) for |x| <= 0.46875, in double precision for single. Remez fit of erf(x)/x - 1, relative error under 2^-37.4.
const A32_IN_64: [f64; 6] = [
    0.12837916708926883,
    -0.376126386999076,
    0.11283780908752772,
    -0.026864079863313586,
    0.005205534650945939,
    -0.0007791431876411736,
];

/// As [`C64`] with 2.5 in the place of 3.5, for 0.46875 <= x <= 10.1: relative error under 2^-36.5.
const C32_IN_64: [f64; 12] = [
    1.264838184358108,
    -0.1223567632885262,
    -0.09902453777019347,
    0.15762993316725277,
    -0.10296711485526479,
    0.03276060930682473,
    0.0009325820559089656,
    -0.004379574756387763,
    0.00048828000765953805,
    0.000621098596113448,
    -8.015328996471483e-05,
    -8.928671855119036e-05,
];

pub(super) mod f32 {
    use super::super::f32::{clamp, fma, poly};

    /// 1 - erf(x), in double precision with shorter polynomials, and rounded. Error under 0.51 ulp.
    #[inline(always)]
    pub(crate) fn erfc<const FMA: bool>(x: f32) -> f32 {
        use super::super::f64::{clamp, fma, poly};
        let x = x as f64;
        let near = fma::<FMA>(-x, poly::<FMA, _>(x * x, super::A32_IN_64), 1.0 - x);
        // From 10.1 on the nearest f32 is 0.
        let t = clamp(x.abs(), 0.46875, 10.1);
        let e = super::super::pow::f32::exp2_wide::<FMA>(-(t * t) * core::f64::consts::LOG2_E);
        let far = e * poly::<FMA, _>((t - 2.5) / (t + 2.5), super::C32_IN_64) / (1.0 + 2.0 * t);
        let far = if x < 0.0 { 2.0 - far } else { far };
        (if x.abs() > 0.46875 { far } else { near }) as f32
    }

    /// The normal distribution function, the integral of exp(-t^2 / 2) / sqrt(2 pi) up to x. Absolute error under
    /// 2.4e-7.
    #[inline(always)]
    pub(crate) fn normal_cdf<const FMA: bool>(x: f32) -> f32 {
        // At this bound both variants round to 1/2, so that the ends are exactly 0 and 1, as gelu(-inf) needs it.
        let t = clamp(x, -5.393, 5.393);
        let z = t * t;
        0.5 + t * poly::<FMA, _>(z, super::PHI_P) / poly::<FMA, _>(z, super::PHI_Q)
    }

    /// The slope of the Gaussian error linear unit: the normal distribution function, and x times its density. Absolute error
    /// under 3e-7; NaN at the infinities, where the density is 0.
    #[inline(always)]
    pub(crate) fn gelu_slope<const FMA: bool>(x: f32) -> f32 {
        // At this bound both variants round to 1/2, as for the distribution function.
        let t = clamp(x, -6.09, 6.09);
        let z = t * t;
        let slope = 0.5 + t * poly::<FMA, _>(z, super::SLOPE_P) / poly::<FMA, _>(z, super::SLOPE_Q);
        fma::<FMA>(x, 0.0, slope)
    }

    /// The error function. Error under 1.6 ulp.
    #[inline(always)]
    pub(crate) fn erf<const FMA: bool>(x: f32) -> f32 {
        let a = x.abs();
        // From 3.93 on the nearest f32 is 1.
        let t = if a > 3.93 { 3.93 } else { a };
        let z = t * t;
        let near = fma::<FMA>(t, poly::<FMA, _>(z, super::A32), t);
        let far = 1.0 - poly::<FMA, _>(t - 2.5, super::B32);
        // The polynomial misses 1 by less than the last place, but gelu(-inf) needs it exactly.
        let far = if a > 3.93 { 1.0 } else { far };
        (if a < 1.0 { near } else { far }).copysign(x)
    }
}

pub(super) mod f64 {
    use super::super::exp::f64::{exp, exp_of_small, exp_of_sum};
    use super::super::f64::{clamp, fma, poly};
    use super::super::pairs::{product, sum};
    use super::C64_AT_0;

    /// The normal distribution function, (1 + erf(x / sqrt(2))) / 2. Absolute error under 3e-16.
    #[inline(always)]
    pub(crate) fn normal_cdf<const FMA: bool>(x: f64) -> f64 {
        0.5 + 0.5 * erf::<FMA>(x * core::f64::consts::FRAC_1_SQRT_2)
    }

    /// The slope of the Gaussian error linear unit, as in single precision. Absolute error under 4e-16.
    #[inline(always)]
    pub(crate) fn gelu_slope<const FMA: bool>(x: f64) -> f64 {
        normal_cdf::<FMA>(x) + x * (exp::<FMA>(x * x * -0.5) * super::NORMAL_DENSITY)
    }

    /// The error function. Error under 2.2 ulp.
    #[inline(always)]
    pub(crate) fn erf<const FMA: bool>(x: f64) -> f64 {
        let a = x.abs();
        // From 6 on the nearest f64 is 1.
        let t = if a > 6.0 { 6.0 } else { a };
        let z = t * t;
        let near = fma::<FMA>(t, poly::<FMA, _>(z, super::A64), t);
        let far = fma::<FMA>(-exp_of_small::<FMA>(-z), poly::<FMA, _>(1.0 / (1.0 + t), super::B64), 1.0);
        (if a < 1.5 { near } else { far }).copysign(x)
    }

    /// 1 - erf(x), without the cancellation. Error under 1.9 ulp.
    #[inline(always)]
    pub(crate) fn erfc<const FMA: bool>(x: f64) -> f64 {
        let near = fma::<FMA>(-x, poly::<FMA, _>(x * x, super::A64), 1.0 - x);
        // From 27.3 on the nearest f64 is 0.
        let t = clamp(x.abs(), 0.46875, 27.5);
        let (square, square_low) = product::<FMA>(t, t);
        // The quotient, too, is kept in two parts.
        let v = (t - 3.5) / (t + 3.5);
        let (up, up_low) = sum(C64_AT_0, v * poly::<FMA, _>(v, super::C64));
        let (down, down_low) = if t < 0.5 { sum(1.0, 2.0 * t) } else { sum(2.0 * t, 1.0) };
        let q = up / down;
        let (back, back_low) = product::<FMA>(q, down);
        let q_low = ((up - back) - back_low + fma::<FMA>(-q, down_low, up_low)) / down;
        let e = exp_of_sum::<FMA>(-square, -square_low);
        let far = fma::<FMA>(e, q_low, e * q);
        let far = if x < 0.0 { 2.0 - far } else { far };
        if x.abs() > 0.46875 { far } else { near }
    }
}
