//! Every function against a better reference: f64 for f32; the standard library or stored values for f64.

use super::{NEAR, NORMAL_DENSITY, VecMath};
use stored::{ACOSH, ANGLES, ASINH, ATANH, ERF, ERFC};

mod stored;

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
    let cases: [Case<f32>; 22] = [
        case!(f32, exp, f64::exp, 1.1),
        case!(f32, expm1, f64::exp_m1, 1.7),
        case!(f32, ln, f64::ln, 0.9),
        case!(f32, log1p, f64::ln_1p, 1.5),
        case!(f32, sin, f64::sin, 0.51),
        case!(f32, cos, f64::cos, 0.51),
        case!(f32, tan, f64::tan, 0.51),
        case!(f32, tanh, f64::tanh, 1.9),
        case!(f32, sigmoid, sigmoid, 2.5),
        case!(f32, exp2, f64::exp2, 1.1),
        case!(f32, log2, f64::log2, 1.7),
        case!(f32, log10, f64::log10, 1.8),
        case!(f32, asin, f64::asin, 0.51),
        case!(f32, acos, f64::acos, 0.51),
        case!(f32, atan, f64::atan, 0.51),
        case!(f32, sinh, f64::sinh, 0.51),
        case!(f32, cosh, f64::cosh, 0.51),
        // Our own, which have tests below.
        case!(f32, asinh, <f64 as VecMath>::asinh::<false>, 0.51),
        case!(f32, acosh, <f64 as VecMath>::acosh::<false>, 0.51),
        case!(f32, atanh, <f64 as VecMath>::atanh::<false>, 0.51),
        case!(f32, erf, <f64 as VecMath>::erf::<false>, 1.6),
        case!(f32, erfc, <f64 as VecMath>::erfc::<false>, 0.51),
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
    let cases: [Case<f64>; 17] = [
        case!(f64, exp, f64::exp, 2.0),
        case!(f64, expm1, f64::exp_m1, 3.0),
        case!(f64, ln, f64::ln, 2.0),
        case!(f64, log1p, f64::ln_1p, 2.0),
        case!(f64, sin, f64::sin, 1.0),
        case!(f64, cos, f64::cos, 1.0),
        case!(f64, tan, f64::tan, 1.0),
        case!(f64, tanh, f64::tanh, 3.0),
        case!(f64, sigmoid, sigmoid, 4.0),
        case!(f64, exp2, f64::exp2, 2.0),
        case!(f64, log2, f64::log2, 3.0),
        case!(f64, log10, f64::log10, 3.0),
        case!(f64, asin, f64::asin, 3.0),
        case!(f64, acos, f64::acos, 3.0),
        case!(f64, atan, f64::atan, 3.0),
        case!(f64, sinh, f64::sinh, 3.0),
        case!(f64, cosh, f64::cosh, 3.0),
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

#[test]
fn sines_agree_with_stored_values() {
    fn check<const FMA: bool>() {
        let [sin, cos, tan]: [fn(f64) -> f64; 3] =
            [<f64 as VecMath>::sin::<FMA>, <f64 as VecMath>::cos::<FMA>, <f64 as VecMath>::tan::<FMA>];
        for (x, want) in ANGLES {
            for (f, want) in [sin, cos, tan].into_iter().zip(want) {
                assert!(error64(f(x), want) <= 1.0, "{:e}, not {want:e}, at {x:e}", f(x));
            }
            assert!(sin(-x) == -sin(x) && cos(-x) == cos(x) && tan(-x) == -tan(x), "the signs at {x:e}");
        }
        for x in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert!([sin, cos, tan].iter().all(|f| f(x).is_nan()), "{x}");
        }
    }
    check::<true>();
    check::<false>();
}

#[test]
fn near_angles_have_the_same_bits_alone() {
    fn check<const FMA: bool>() {
        macro_rules! same {
            ($T:ident, $inputs:expr) => {
                let below = $T::from_bits((NEAR as $T).to_bits() - 1);
                for x in $inputs.chain([below, -below]).filter(|x| x.abs() < NEAR as $T) {
                    for (y, near) in [
                        (VecMath::sin::<FMA>(x), VecMath::near_sin::<FMA>(x)),
                        (VecMath::cos::<FMA>(x), VecMath::near_cos::<FMA>(x)),
                        (VecMath::tan::<FMA>(x), VecMath::near_tan::<FMA>(x)),
                    ] {
                        assert_eq!(y.to_bits(), near.to_bits(), "at {x:e}");
                    }
                }
            };
        }
        same!(f32, inputs32());
        same!(f64, inputs64());
    }
    check::<true>();
    check::<false>();
}

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
fn functions_that_the_standard_library_composes_agree_with_stored_values() {
    fn check<const FMA: bool>() {
        type Stored<'a> = (&'a str, fn(f64) -> f64, &'a [(f64, f64)], bool);
        let cases: [Stored<'_>; 4] = [
            ("asinh", <f64 as VecMath>::asinh::<FMA>, &ASINH, true),
            ("acosh", <f64 as VecMath>::acosh::<FMA>, &ACOSH, false),
            ("atanh", <f64 as VecMath>::atanh::<FMA>, &ATANH, true),
            ("erfc", <f64 as VecMath>::erfc::<FMA>, &ERFC, false),
        ];
        for (name, f, stored, odd) in cases {
            for &(x, want) in stored {
                assert!(error64(f(x), want) <= 2.0, "{name}({x:e}) = {:e}, not {want:e}", f(x));
                assert!(!odd || f(-x) == -f(x), "{name} is odd");
            }
            assert!(f(f64::NAN).is_nan());
        }
        let [asinh, acosh, atanh, erfc] = cases.map(|c| c.1);
        let (inf, least) = (f64::INFINITY, f64::NEG_INFINITY);
        assert_eq!(
            [asinh(inf), asinh(least), acosh(inf), atanh(1.0), atanh(-1.0)],
            [inf, least, inf, inf, least]
        );
        assert_eq!([acosh(1.0), erfc(inf), erfc(least), erfc(28.0)], [0.0, 0.0, 2.0, 0.0]);
        assert!(
            [acosh(0.999), acosh(-3.0), acosh(least), atanh(1.001), atanh(inf)].iter().all(|y| y.is_nan())
        );
        assert!([asinh(-0.0), atanh(-0.0)].iter().all(|y| *y == 0.0 && y.is_sign_negative()));
    }
    check::<true>();
    check::<false>();
}

#[test]
fn logarithms_of_powers_are_whole() {
    fn check<const FMA: bool>() {
        for k in -1074..1024 {
            let x = 2f64.powi(k.max(-1022)) * 2f64.powi(k - k.max(-1022));
            assert_eq!(<f64 as VecMath>::log2::<FMA>(x), k as f64);
            assert_eq!(<f64 as VecMath>::exp2::<FMA>(k as f64), x);
        }
        for k in 0..23 {
            assert_eq!(<f64 as VecMath>::log10::<FMA>(10f64.powi(k)), k as f64);
        }
        for k in 0..11 {
            assert_eq!(<f32 as VecMath>::log10::<FMA>(10f32.powi(k)), k as f32);
        }
    }
    check::<true>();
    check::<false>();
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
fn the_slope_of_gelu_is_within_its_bounds() {
    fn check<const FMA: bool>() {
        let (single, double) = (<f32 as VecMath>::gelu_slope::<FMA>, <f64 as VecMath>::gelu_slope::<FMA>);
        for x in inputs32().filter(|x| x.is_finite()) {
            let want = double(x as f64);
            let error = (single(x) as f64 - want).abs();
            assert!(error <= 3e-7, "gelu_slope({x:e}) = {:e}, not {want:e}", single(x));
        }
        for (x, erf) in ERF {
            let x = x * std::f64::consts::SQRT_2;
            let density = x * (-0.5 * x * x).exp() * NORMAL_DENSITY;
            assert!((double(x) - (0.5 * (1.0 + erf) + density)).abs() <= 4e-16);
            assert!((double(-x) - (0.5 * (1.0 - erf) - density)).abs() <= 4e-16);
        }
        assert_eq!([single(-90.0), single(-6.5), single(0.0), single(6.5)], [0.0, 0.0, 0.5, 1.0]);
        assert_eq!([double(-90.0), double(0.0), double(90.0)], [0.0, 0.5, 1.0]);
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(single(x).is_nan() && double(x as f64).is_nan());
        }
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
