//! Sine, cosine and tangent: take off whole turns, then a polynomial in what is left.
//!
//! Turns are quarters of a circle; for sines and cosines of single precision halves, where one polynomial is enough.
//!
//! # Near angles
//!
//! Below [`NEAR`] the number of turns has at most 20 bits, so that its products with parts of pi/2 of 33 bits are
//! exact, and what is left of the angle is a few subtractions (Cody and Waite, 1980). `near_sin`, `near_cos` and `near_tan` are for
//! these angles alone, and straight-line arithmetic. `sin`, `cos` and `tan` are for every angle, and come to the same
//! bits for a near one.
//!
//! # Far angles
//!
//! In single precision they are reduced without a branch, too. An angle of 24 bits times a piece of 2/pi of 29 bits is
//! exact in double precision, and so is that product less the nearest integer. What a piece must hold depends
//! on the size of the angle: bits of 2/pi that contribute whole circles only are left out, so that the products stay
//! below 2^51.
//!
//! In double precision the same idea needs a table read per element, and products of integers (Payne and Hanek, 1983). There the
//! far angles are taken one by one, and the loop around is not vectorised.

use std::f64::consts::FRAC_2_PI;

use super::f64::{fma, poly};

/// Angles that are smaller are near, on both sides of zero: 2^20.
pub(crate) const NEAR: f64 = 1_048_576.0;

/// Adding it rounds to an integer, whose last bits are then the sum's.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// pi/2 cut into three parts of 33 bits and what remains, rounded to 53.
const PARTS: [f64; 4] = [
    1.570_796_326_734_125_6,
    6.077_100_506_303_966e-11,
    2.022_266_248_711_166_5e-21,
    8.478_427_660_368_9e-32,
];

const SIGN: u64 = 1 << 63;

pub(super) mod f32 {
    use std::f64::consts::FRAC_PI_2;

    use super::*;

    /// From which angle on the next entry of the tables below holds: 2^51, 2^77, 2^103.
    const FROM: [f64; 3] =
        [2_251_799_813_685_248.0, 151_115_727_451_828_646_838_272.0, 1.014_120_480_182_583_5e31];

    /// Pieces of 2/pi: 29 bits for each range of angles (below 2^51, then as in [`FROM`]), starting at the first
    /// bit whose product with the last place of an angle can be less than 4.
    const PIECE0: [f64; 4] =
        [0.636619770899415, 1.0781392056902206e-08, 7.166494882838848e-17, 2.765304035419047e-24];
    /// The 29 bits after [`PIECE0`].
    const PIECE1: [f64; 4] =
        [1.4681663246252086e-09, 1.6153797855624593e-17, 2.8376220161182397e-25, 4.018688561039878e-33];
    /// What remains, rounded to 53 bits.
    const PIECE2: [f64; 4] =
        [2.276010073078396e-18, 2.52682603558315e-26, 1.668286766860824e-34, 4.420676015940119e-42];

    /// sin(r) = r + r^3 H(r^2), |r| <= pi/2. Remez fit of H: relative error of sin(r) under 2^-35.2.
    const H: [f64; 5] = [
        -0.16666666626152069,
        0.008333331108658365,
        -0.00019840868213434322,
        2.7525384479222276e-06,
        -2.3888908669016874e-08,
    ];

    /// sin(r) = r + r^3 S(r^2), |r| <= pi/4. Remez fit of S: relative error of sin(r) under 2^-37.4.
    const S: [f64; 4] =
        [-0.16666666640774164, 0.008333329302247575, -0.0001983931143977461, 2.718113731556222e-06];

    /// cos(r) = 1 + r^2 C(r^2), |r| <= pi/4. Remez fit of C: relative error of cos(r) under 2^-33.8.
    const C: [f64; 4] =
        [-0.4999999969419526, 0.041666620326809775, -0.0013886680712460054, 2.4383480360642502e-05];

    /// The entry of a table of pieces that holds for an angle `a`.
    #[inline(always)]
    fn pick(a: f64, pieces: [f64; 4]) -> f64 {
        let low = if a < FROM[0] { pieces[0] } else { pieces[1] };
        let high = if a < FROM[2] { pieces[2] } else { pieces[3] };
        if a < FROM[1] { low } else { high }
    }

    /// `x` as the nearest integer (in the last bits) and the rest.
    #[inline(always)]
    fn round(x: f64) -> (u64, f64) {
        let shifted = x + MAGIC;
        (shifted.to_bits(), x - (shifted - MAGIC))
    }

    /// `x` and a part `ahead` of a turn as whole turns (in the last bits) and the angle left, in radians. A turn is `quarters`
    /// quarters of a circle.
    #[inline(always)]
    fn reduce<const FMA: bool, const ALL_NEAR: bool>(x: f64, quarters: f64, ahead: f64) -> (u64, f64) {
        let turns = if ahead == 0.0 {
            fma::<FMA>(x, FRAC_2_PI / quarters, MAGIC)
        } else {
            fma::<FMA>(x, FRAC_2_PI / quarters, ahead) + MAGIC
        };
        let n = turns - MAGIC - ahead;
        let r = fma::<FMA>(n, -quarters * PARTS[0], x);
        let r = fma::<FMA>(n, -quarters * (PARTS[1] + PARTS[2]), r);
        if ALL_NEAR {
            return (turns.to_bits(), r);
        }
        let a = x.abs();
        let y = a / quarters;
        let (n0, d0) = round(y * pick(a, PIECE0));
        let (n1, d1) = round(y * pick(a, PIECE1));
        let d0 = d0 + ahead;
        // The rest may be as small as 2^-30, so the rounding error of this sum is kept.
        let sum = d0 + d1;
        let error = d1 - (sum - d0);
        let (n2, d) = round(sum);
        let far = (d + (error + y * pick(a, PIECE2))) * (quarters * FRAC_PI_2);
        if a < NEAR {
            (turns.to_bits(), r)
        } else {
            let far = f64::from_bits(far.to_bits() ^ (x.to_bits() & SIGN));
            (n0.wrapping_add(n1).wrapping_add(n2), far)
        }
    }

    /// Sine of `x` and a part `ahead` of a half turn, which is 0 unless `x >= 0`.
    #[inline(always)]
    fn sine<const FMA: bool, const ALL_NEAR: bool>(x: f64, ahead: f64) -> f32 {
        let (n, r) = reduce::<FMA, ALL_NEAR>(x, 2.0, ahead);
        let z = r * r;
        // A product, and no sum with r, which would lose the sign of a zero.
        let y = r * fma::<FMA>(z, poly::<FMA, _>(z, H), 1.0);
        f64::from_bits(y.to_bits() ^ (n << 63)) as f32
    }

    #[inline(always)]
    fn tangent<const FMA: bool, const ALL_NEAR: bool>(x: f64) -> f32 {
        let (n, r) = reduce::<FMA, ALL_NEAR>(x, 1.0, 0.0);
        let z = r * r;
        let sine = r * fma::<FMA>(z, poly::<FMA, _>(z, S), 1.0);
        let cosine = fma::<FMA>(z, poly::<FMA, _>(z, C), 1.0);
        let odd = n & 1 == 1;
        (if odd { -cosine } else { sine } / if odd { sine } else { cosine }) as f32
    }

    macro_rules! functions {
        ($($(#[$doc:meta])* $name:ident $near:ident = |$x:ident| $f:ident($($arg:expr),*);)*) => {$(
            $(#[$doc])*
            #[inline(always)]
            pub(crate) fn $name<const FMA: bool>($x: f32) -> f32 {
                $f::<FMA, false>($($arg),*)
            }

            #[doc = concat!("[`", stringify!($name), "`] of a near angle, the same to the bit.")]
            #[inline(always)]
            pub(crate) fn $near<const FMA: bool>($x: f32) -> f32 {
                $f::<FMA, true>($($arg),*)
            }
        )*};
    }
    functions! {
        /// Sine of an angle in radians; not-a-number at infinity. Error under 0.51 ulp.
        sin near_sin = |x| sine(x as f64, 0.0);
        /// Cosine of an angle in radians; not-a-number at infinity. Error under 0.51 ulp.
        cos near_cos = |x| sine(x.abs() as f64, 0.5);
        /// Tangent of an angle in radians; not-a-number at infinity. Error under 0.51 ulp.
        tan near_tan = |x| tangent(x as f64);
    }
}

pub(super) mod f64 {
    // A branch on the turns of one angle after the other is hardly ever foreseen.
    use std::f64::consts::FRAC_PI_2;
    use std::hint::select_unpredictable as select;

    use super::super::pairs::{product, sum};
    use super::*;

    /// sin(r) = r + r^3 S(r^2), |r| <= pi/4. Remez fit of S: relative error of sin(r) under 2^-56.3.
    const S: [f64; 6] = [
        -0.1666666666666663,
        0.008333333333322118,
        -0.0001984126982958944,
        2.7557313621335e-06,
        -2.5050747753257767e-08,
        1.5896229535795522e-10,
    ];

    /// cos(r) = 1 - r^2/2 + r^4 C(r^2), |r| <= pi/4. Remez fit of C: relative error of cos(r) under 2^-59.6.
    const C: [f64; 6] = [
        0.041666666666666595,
        -0.0013888888888873056,
        2.4801587288851524e-05,
        -2.7557314179238655e-07,
        2.087570083341789e-09,
        -1.1358536053371945e-11,
    ];

    /// 2/pi behind a word of zeros, 64 bits a word.
    const TWO_OVER_PI: [u64; 20] = [
        0,
        0xa2f9_836e_4e44_1529,
        0xfc27_57d1_f534_ddc0,
        0xdb62_9599_3c43_9041,
        0xfe51_63ab_debb_c561,
        0xb724_6e3a_424d_d2e0,
        0x0649_2eea_09d1_921c,
        0xfe1d_eb1c_b129_a73e,
        0xe882_35f5_2ebb_4484,
        0xe99c_7026_b45f_7e41,
        0x3991_d639_8353_39f4,
        0x9c84_5f8b_bdf9_283b,
        0x1ff8_97ff_de05_980f,
        0xef2f_118b_5a0a_6d1f,
        0x6d36_7ecf_27cb_09b7,
        0x4f46_3f66_9e5f_ea2d,
        0x7527_bac7_ebe5_f17b,
        0x3d07_39f7_8a52_92ea,
        0x6bfb_5fb1_1f8d_5d08,
        0x5603_3046_fc7b_6bab,
    ];

    /// pi/2 less its `f64`.
    const FRAC_PI_2_LOW: f64 = 6.123_233_995_736_766e-17;

    /// An angle as quarter turns (in the last bits) and what is left in radians, a number and what is to be added to it.
    type Reduced = (u64, f64, f64);

    /// A near `a >= 0`.
    #[inline(always)]
    fn near<const FMA: bool>(a: f64) -> Reduced {
        let turns = fma::<FMA>(a, FRAC_2_PI, MAGIC);
        let n = turns - MAGIC;
        let first = fma::<FMA>(n, -PARTS[0], a);
        // What the next two sums lose is kept: next to a whole number of turns little is left of an angle but that.
        let second = fma::<FMA>(n, -PARTS[1], first);
        let lost = fma::<FMA>(n, -PARTS[1], first - second);
        let r = fma::<FMA>(n, -PARTS[2], second);
        let lost = lost + fma::<FMA>(n, -PARTS[2], second - r);
        (turns.to_bits(), r, fma::<FMA>(n, -PARTS[3], lost))
    }

    /// Any other `a > 0`: its 53 bits times 192 bits of 2/pi, from the first on that contributes less than a whole circle.
    fn far(a: f64) -> Reduced {
        if !a.is_finite() {
            return (0, f64::NAN, f64::NAN);
        }
        let mantissa = (a.to_bits() & ((1 << 52) - 1)) | (1 << 52);
        // Of the last bit: from -32 to 971. Two bits are left for the number of turns.
        let exponent = (a.to_bits() >> 52) as usize - 1043;
        let (at, shift) = ((exponent + 30) / 64, (exponent + 30) % 64);
        let word = |k| (TWO_OVER_PI[at + k] << shift) | (TWO_OVER_PI[at + k + 1] >> 1 >> (63 - shift));
        let times = |word: u64, carry: u128| mantissa as u128 * word as u128 + carry;
        let low = times(word(2), 0);
        let middle = times(word(1), low >> 64);
        let high = times(word(0), middle >> 64) as u64;
        // What is behind the turns, as an integer with the sign of what is left of the nearest number of them.
        let left = ((high as u128) << 66 | (middle as u64 as u128) << 2 | (low as u64 >> 62) as u128) as i128;
        let turns = (high >> 62) + u64::from(left < 0);
        let unit = 1.0 / (1u128 << 127) as f64 / 2.0;
        let (r, low) = (left as f64 * unit, (left - left as f64 as i128) as f64 * unit);
        let (product, lost) = product::<false>(r, FRAC_PI_2);
        let (r, low) = sum(product, lost + (r * FRAC_PI_2_LOW + low * FRAC_PI_2));
        (turns, r, low)
    }

    /// Turns, and sine and cosine of the angle left, each as a number and what is to be added to it.
    #[inline(always)]
    fn parts<const FMA: bool>((turns, r, low): Reduced) -> (u64, [f64; 2], [f64; 2]) {
        let z = r * r;
        let w = fma::<FMA>(z, -0.5, 1.0);
        let sine = [r, fma::<FMA>(z * r, poly::<FMA, _>(z, S), w * low)];
        let rest = fma::<FMA>(z * z, poly::<FMA, _>(z, C), -r * low);
        (turns, sine, [w, fma::<FMA>(z, -0.5, 1.0 - w) + rest])
    }

    /// The first 26 bits of a number: a product of two such is exact.
    #[inline(always)]
    fn first_half(x: f64) -> f64 {
        f64::from_bits(x.to_bits() & (u64::MAX << 27))
    }

    /// The sine of `x`, whose absolute value has been reduced.
    #[inline(always)]
    fn sine<const FMA: bool>(x: f64, reduced: Reduced) -> f64 {
        let (q, sine, cosine) = parts::<FMA>(reduced);
        let y = select(q & 1 == 1, cosine[0] + cosine[1], sine[0] + sine[1]);
        f64::from_bits(y.to_bits() ^ (((q << 62) ^ x.to_bits()) & SIGN))
    }

    /// The cosine of `x`, whose absolute value has been reduced.
    #[inline(always)]
    fn cosine<const FMA: bool>(_: f64, reduced: Reduced) -> f64 {
        let (q, sine, cosine) = parts::<FMA>(reduced);
        let y = select(q & 1 == 1, sine[0] + sine[1], cosine[0] + cosine[1]);
        f64::from_bits(y.to_bits() ^ ((q.wrapping_add(1) << 62) & SIGN))
    }

    /// The tangent of `x`, whose absolute value has been reduced.
    #[inline(always)]
    fn tangent<const FMA: bool>(x: f64, reduced: Reduced) -> f64 {
        let (q, sine, cosine) = parts::<FMA>(reduced);
        let [s, c] = [sine, cosine].map(|[y, low]| [y + low, (y - (y + low)) + low]);
        let odd = q & 1 == 1;
        let [a, a_low] = [select(odd, -c[0], s[0]), select(odd, -c[1], s[1])];
        let [b, b_low] = [select(odd, s[0], c[0]), select(odd, s[1], c[1])];
        // The first half of the quotient's bits, and what it leaves of the numerator over the denominator.
        let (y, first) = (first_half(a / b), first_half(b));
        let rest = (a - y * first) + (a_low - y * ((b - first) + b_low));
        let y = y + rest / b;
        f64::from_bits(y.to_bits() ^ (x.to_bits() & SIGN))
    }

    macro_rules! functions {
        ($($(#[$doc:meta])* $name:ident $near:ident $far:ident = $of:ident;)*) => {$(
            $(#[$doc])*
            #[inline(always)]
            pub(crate) fn $name<const FMA: bool>(x: f64) -> f64 {
                if x.abs() < NEAR { $near::<FMA>(x) } else { $far(x) }
            }

            #[doc = concat!("[`", stringify!($name), "`] of a near angle, the same to the bit.")]
            #[inline(always)]
            pub(crate) fn $near<const FMA: bool>(x: f64) -> f64 {
                $of::<FMA>(x, near::<FMA>(x.abs()))
            }

            /// Compiled once, for all levels.
            #[cold]
            #[inline(never)]
            fn $far(x: f64) -> f64 {
                $of::<false>(x, far(x.abs()))
            }
        )*};
    }
    functions! {
        /// Sine of an angle in radians; not-a-number at infinity. Error under 0.8 ulp.
        sin near_sin far_sin = sine;
        /// Cosine of an angle in radians; not-a-number at infinity. Error under 0.8 ulp.
        cos near_cos far_cos = cosine;
        /// Tangent of an angle in radians; not-a-number at infinity. Error under 1 ulp.
        tan near_tan far_tan = tangent;
    }
}
