//! Every function against a better reference: f64 for f32; the standard library or stored values for f64.

use super::VecMath;

/// The distance of `y` from `want` in units in the last place of an f32; 0 where both are not-a-number.
fn error32(y: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if rounded.is_nan() || y.is_nan() {
        return if rounded.is_nan() == y.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if y == rounded {
        // A zero has a sign; f64 values that are only just not zero round to one too.
        return if y.is_sign_negative() == rounded.is_sign_negative() {
            (y as f64 - want).abs().min(0.5)
        } else {
            f64::INFINITY
        };
    }
    let exponent = (rounded.abs().to_bits() >> 23).max(1) as i32;
    (y as f64 - want).abs() / 2f64.powi(exponent - 150)
}

/// As [`error32`], for an f64 and a reference that is itself rounded.
fn error64(y: f64, want: f64) -> f64 {
    if want.is_nan() || y.is_nan() {
        return if want.is_nan() == y.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if y == want {
        return if y.is_sign_negative() == want.is_sign_negative() { 0.0 } else { f64::INFINITY };
    }
    // Neighbouring numbers of one sign have neighbouring bits, also at infinity and among the subnormals.
    (y.abs().to_bits().abs_diff(want.abs().to_bits())) as f64
}

/// All specials of f32, then every 4099th bit pattern.
fn inputs32() -> impl Iterator<Item = f32> {
    let specials = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        -f32::MIN_POSITIVE,
        1e-45,
        -1e-45,
        0.55,
        -0.75,
        20.0,
        20.000_002,
        // The last finite and the first infinite exponential, the last subnormal one and the first zero.
        88.722_83,
        88.722_84,
        -87.336_55,
        -100.0,
        -103.278_93,
        -103.972_08,
        -104.0,
    ];
    let sweep = (0..=u32::MAX).step_by(4099).map(f32::from_bits);
    // The sweep is dense in tiny and huge numbers; this one is dense where the functions bend.
    let middle = (-120_000..120_000).map(|i| i as f32 * 0.000_937_1);
    specials.into_iter().chain(sweep).chain(middle)
}

fn inputs64() -> impl Iterator<Item = f64> {
    let specials = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        -f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        709.782_712_893_384,
        709.782_712_893_384_1,
        -708.396_418_532_264_1,
        -745.0,
        -745.133_219_101_941_1,
        -745.133_219_101_941_2,
        -746.0,
    ];
    let sweep = (0..400_000u64).map(|i| f64::from_bits(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let middle = (-100_000..100_000).map(|i| i as f64 * 0.000_937_1);
    let wide = (-20_000..20_000).map(|i| i as f64 * 0.037_337_1);
    specials.into_iter().chain(sweep).chain(middle).chain(wide)
}

/// A function in both variants, its reference, and the bound its documentation gives.
type Case<T> = (&'static str, [fn(T) -> T; 2], fn(f64) -> f64, f64);

macro_rules! case {
    ($T:ident, $name:ident, $reference:expr, $bound:expr) => {
        (
            stringify!($name),
            [<$T as VecMath>::$name::<true>, <$T as VecMath>::$name::<false>],
            $reference,
            $bound,
        )
    };
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

#[test]
fn single_precision_is_within_its_bounds() {
    let cases: [Case<f32>; 10] = [
        case!(f32, exp, f64::exp, 1.1),
        case!(f32, expm1, f64::exp_m1, 1.7),
        case!(f32, ln, f64::ln, 0.9),
        case!(f32, log1p, f64::ln_1p, 1.5),
        case!(f32, sin, f64::sin, 0.51),
        case!(f32, cos, f64::cos, 0.51),
        case!(f32, tan, f64::tan, 0.51),
        case!(f32, tanh, f64::tanh, 1.9),
        case!(f32, sigmoid, sigmoid, 2.5),
        // Our own, which has a test below.
        case!(f32, erf, <f64 as VecMath>::erf::<false>, 1.6),
    ];
    for (name, variants, reference, bound) in cases {
        for x in inputs32() {
            let want = reference(x as f64);
            for f in variants {
                let error = error32(f(x), want);
                assert!(error <= bound, "{name}({x:e}) = {:e}, not {want:e}: {error} ulp", f(x));
            }
        }
    }
}

#[test]
fn double_precision_is_within_its_bounds() {
    // Whole ulps between two rounded numbers: one more than our bound, rounded up where the reference is
    // composed.
    let cases: [Case<f64>; 9] = [
        case!(f64, exp, f64::exp, 2.0),
        case!(f64, expm1, f64::exp_m1, 3.0),
        case!(f64, ln, f64::ln, 2.0),
        case!(f64, log1p, f64::ln_1p, 2.0),
        case!(f64, sin, f64::sin, 1.0),
        case!(f64, cos, f64::cos, 1.0),
        case!(f64, tan, f64::tan, 1.0),
        case!(f64, tanh, f64::tanh, 3.0),
        case!(f64, sigmoid, sigmoid, 4.0),
    ];
    for (name, variants, reference, bound) in cases {
        for x in inputs64() {
            let want = reference(x);
            for f in variants {
                let error = error64(f(x), want);
                assert!(error <= bound, "{name}({x:e}) = {:e}, not {want:e}: {error} ulp", f(x));
            }
        }
    }
}

/// x and erf(x), rounded from 200-bit arithmetic.
const ERF: [(f64, f64); 64] = [
    (1e-300, 1.1283791670955126e-300),
    (1e-20, 1.1283791670955125e-20),
    (1e-08, 1.1283791670955126e-08),
    (0.0001, 0.00011283791633342487),
    (0.01, 0.011283415555849618),
    (0.05, 0.05637197779701663),
    (0.1, 0.1124629160182849),
    (0.15, 0.1679959714273635),
    (0.2, 0.22270258921047847),
    (0.25, 0.27632639016823696),
    (0.3, 0.3286267594591274),
    (0.35, 0.3793820535623103),
    (0.4, 0.42839235504666845),
    (0.45, 0.47548171978692366),
    (0.5, 0.5204998778130465),
    (0.55, 0.563323366325109),
    (0.6, 0.6038560908479259),
    (0.65, 0.6420293273556719),
    (0.7, 0.6778011938374184),
    (0.75, 0.7111556336535151),
    (0.8, 0.7421009647076605),
    (0.85, 0.7706680576083526),
    (0.9, 0.7969082124228322),
    (0.95, 0.8208908072732779),
    (1.0, 0.8427007929497149),
    (1.05, 0.8624361060900967),
    (1.1, 0.8802050695740817),
    (1.15, 0.8961238429369149),
    (1.2, 0.9103139782296353),
    (1.25, 0.9229001282564583),
    (1.3, 0.9340079449406524),
    (1.35, 0.943762196122724),
    (1.4, 0.9522851197626488),
    (1.45, 0.9596950256374592),
    (1.49, 0.9648978648432042),
    (1.4999, 0.9660932516622953),
    (1.5, 0.9661051464753108),
    (1.5001, 0.9661170377204175),
    (1.55, 0.9716227332620125),
    (1.6, 0.976348383344644),
    (1.7, 0.9837904585907745),
    (1.8, 0.9890905016357308),
    (1.9, 0.9927904292352575),
    (2.0, 0.9953222650189527),
    (2.2, 0.9981371537020182),
    (2.4, 0.999311486103355),
    (2.6, 0.9997639655834707),
    (2.8, 0.9999249868053346),
    (3.0, 0.9999779095030014),
    (3.25, 0.9999956972205363),
    (3.5, 0.9999992569016276),
    (3.75, 0.9999998862727434),
    (4.0, 0.9999999845827421),
    (4.25, 0.9999999981494259),
    (4.5, 0.9999999998033839),
    (4.75, 0.9999999999815149),
    (5.0, 0.9999999999984626),
    (5.25, 0.9999999999998869),
    (5.5, 0.9999999999999927),
    (5.75, 0.9999999999999996),
    (5.9, 0.9999999999999999),
    (6.0, 1.0),
    (7.0, 1.0),
    (30.0, 1.0),
];

#[test]
fn erf_agrees_with_stored_values() {
    for f in [<f64 as VecMath>::erf::<true>, <f64 as VecMath>::erf::<false>] {
        for (x, want) in ERF {
            assert!(error64(f(x), want) <= 2.0, "erf({x:e}) = {:e}, not {want:e}", f(x));
            assert_eq!(f(-x), -f(x));
        }
        assert_eq!(f(f64::INFINITY), 1.0);
        assert_eq!(f(f64::NEG_INFINITY), -1.0);
        assert!(f(f64::NAN).is_nan());
        assert!(f(-0.0) == 0.0 && f(-0.0).is_sign_negative());
        // Odd, increasing and without a step where the two formulas meet.
        let mut last = -1.0;
        for i in -70_000..=70_000 {
            let y = f(i as f64 * 1e-4);
            assert!(y >= last);
            last = y;
        }
    }
}

#[test]
fn the_normal_distribution_is_within_its_bounds() {
    fn check<const FMA: bool>() {
        let (single, double) = (<f32 as VecMath>::normal_cdf::<FMA>, <f64 as VecMath>::normal_cdf::<FMA>);
        for x in inputs32().filter(|x| !x.is_nan()) {
            let want = double(x as f64);
            let error = (single(x) as f64 - want).abs();
            assert!(error <= 2.4e-7, "normal_cdf({x:e}) = {:e}, not {want:e}", single(x));
        }
        for (x, erf) in ERF {
            let x = x * std::f64::consts::SQRT_2;
            assert!((double(x) - 0.5 * (1.0 + erf)).abs() <= 3e-16);
            assert!((double(-x) - 0.5 * (1.0 - erf)).abs() <= 3e-16);
        }
        assert_eq!([single(f32::NEG_INFINITY), single(-6.0), single(0.0), single(6.0)], [0.0, 0.0, 0.5, 1.0]);
        assert_eq!([double(f64::NEG_INFINITY), double(0.0), double(f64::INFINITY)], [0.0, 0.5, 1.0]);
        assert!(single(f32::NAN).is_nan() && double(f64::NAN).is_nan());
    }
    check::<true>();
    check::<false>();
}

#[test]
fn powers_have_the_special_cases_of_c() {
    const BASES: [f64; 31] = [
        // The last odd number, the last number with a half, and their even neighbours.
        9_007_199_254_740_991.0,
        9_007_199_254_740_992.0,
        4_503_599_627_370_495.5,
        -4_503_599_627_370_497.0,
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        1.5,
        -2.5,
        1e-45,
        -1e-45,
        3.4e38,
        -3.4e38,
        16_777_215.0,
        -16_777_215.0,
        16_777_216.0,
        8_388_607.5,
        -8_388_607.5,
        1.000_000_119_209_289_6,
        -0.999_999_940_395_355_2,
        1e30,
    ];
    for x in BASES {
        for y in BASES {
            let (x32, y32) = (x as f32, y as f32);
            let want = (x32 as f64).powf(y32 as f64);
            for p in [<f32 as VecMath>::pow::<true>, <f32 as VecMath>::pow::<false>] {
                let error = error32(p(x32, y32), want);
                assert!(error <= 0.51, "pow({x32:e}, {y32:e}) = {:e}, not {want:e}", p(x32, y32));
            }
            let want = x.powf(y);
            for p in [<f64 as VecMath>::pow::<true>, <f64 as VecMath>::pow::<false>] {
                assert!(error64(p(x, y), want) <= 3.0, "pow({x:e}, {y:e}) = {:e}, not {want:e}", p(x, y));
            }
        }
    }
}

#[test]
fn powers_are_within_their_bounds() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for i in 0..300_000 {
        // Any base; an exponent that keeps the result in range, or a small integer, or anything.
        let x = f32::from_bits(random() as u32);
        let y = match i % 3 {
            0 => ((random() >> 40) as f32 / 52_428.8 - 160.0) / x.abs().log2(),
            1 => (random() % 41) as f32 - 20.0,
            _ => f32::from_bits(random() as u32),
        };
        let want = (x as f64).powf(y as f64);
        for p in [<f32 as VecMath>::pow::<true>, <f32 as VecMath>::pow::<false>] {
            let error = error32(p(x, y), want);
            assert!(error <= 0.51, "pow({x:e}, {y:e}) = {:e}, not {want:e}: {error} ulp", p(x, y));
        }

        let x = f64::from_bits(random());
        let y = match i % 4 {
            0 => ((random() >> 11) as f64 / (1u64 << 42) as f64 - 1100.0) / x.abs().log2(),
            1 => (random() % 41) as f64 - 20.0,
            2 => (random() >> 11) as f64 / (1u64 << 52) as f64 - 1.0,
            _ => f64::from_bits(random()),
        };
        for x in [x, f64::from_bits((x.to_bits() & 0x800f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000)] {
            let want = x.powf(y);
            for p in [<f64 as VecMath>::pow::<true>, <f64 as VecMath>::pow::<false>] {
                let error = error64(p(x, y), want);
                assert!(error <= 3.0, "pow({x:e}, {y:e}) = {:e}, not {want:e}: {error} ulp", p(x, y));
            }
        }
    }
}

#[test]
fn nothing_is_lost_at_the_edges() {
    fn check<const FMA: bool>() {
        type F = f32;
        let sigmoid = <F as VecMath>::sigmoid::<FMA>;
        assert_eq!(sigmoid(-100.0), 3.8e-44);
        assert_eq!(sigmoid(F::NEG_INFINITY), 0.0);
        assert_eq!(sigmoid(F::INFINITY), 1.0);
        assert_eq!(sigmoid(0.0), 0.5);
        for x in [1e-45, 1e-40, 1e-30, 1e-10] {
            for f in [
                <F as VecMath>::tanh::<FMA>,
                <F as VecMath>::expm1::<FMA>,
                <F as VecMath>::log1p::<FMA>,
                <F as VecMath>::sin::<FMA>,
                <F as VecMath>::tan::<FMA>,
            ] {
                assert_eq!(f(x), x);
                assert_eq!(f(-x), -x);
            }
        }
        // tanh rises without a step where its two formulas meet, and ends at 1.
        let mut last = -1.0;
        for i in -10_000..=10_000 {
            let y = <F as VecMath>::tanh::<FMA>(i as F * 1e-3);
            assert!(y >= last && y <= 1.0);
            last = y;
        }
        assert_eq!(last, 1.0);
    }
    check::<true>();
    check::<false>();
}
