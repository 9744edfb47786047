//! Sine, cosine and tangent: take off whole quarter turns exactly, then a polynomial on [-pi/4, pi/4].
//!
//! In single precision every finite angle is reduced, without a branch. An angle of 24 bits times a piece of
//! 2/pi of 29 bits is exact in double precision, and so is that product less the nearest integer. What a
//! piece must hold depends on the size of the angle: bits of 2/pi that contribute whole turns only are left
//! out, so that the products stay below 2^51.
//!
//! In double precision the same idea needs a table read per element, and is left to the standard library:
//! those loops are correct for every angle but not vectorised.

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

/// sin(r) = r + r^3 S(r^2), |r| <= pi/4. Remez fit of S: relative error of sin(r) under 2^-37.4.
const S: [f64; 4] =
    [-0.16666666640774164, 0.008333329302247575, -0.0001983931143977461, 2.718113731556222e-06];

/// cos(r) = 1 + r^2 C(r^2), |r| <= pi/4. Remez fit of C: relative error of cos(r) under 2^-33.8.
const C: [f64; 4] =
    [-0.4999999969419526, 0.041666620326809775, -0.0013886680712460054, 2.4383480360642502e-05];

pub(super) mod f32 {
    use super::super::f64::{fma, poly};
    use super::{C, FROM, PIECE0, PIECE1, PIECE2, S};

    /// Adding it rounds to an integer, whose last bits are then the sum's.
    const MAGIC: f64 = 6_755_399_441_055_744.0;

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

    /// For `a >= 0`: the nearest whole number of quarter turns (its last two bits) and the angle left, in
    /// radians.
    #[inline(always)]
    fn reduce(a: f32) -> (u64, f64) {
        let x = a as f64;
        let (n0, d0) = round(x * pick(x, PIECE0));
        let (n1, d1) = round(x * pick(x, PIECE1));
        // The rest may be as small as 2^-30, so the rounding error of this sum is kept.
        let sum = d0 + d1;
        let error = d1 - (sum - d0);
        let (n2, d) = round(sum);
        let r = (d + (error + x * pick(x, PIECE2))) * core::f64::consts::FRAC_PI_2;
        let quarters = n0.wrapping_add(n1).wrapping_add(n2);
        if x < core::f64::consts::FRAC_PI_4 { (0, x) } else { (quarters, r) }
    }

    /// sin(r) and cos(r).
    #[inline(always)]
    fn sine_and_cosine<const FMA: bool>(r: f64) -> (f64, f64) {
        let z = r * r;
        (fma::<FMA>(z * r, poly::<FMA, _>(z, S), r), fma::<FMA>(z, poly::<FMA, _>(z, C), 1.0))
    }

    /// sin(r + q pi/2), with the sign bit `sign` flipped into it; not-a-number unless `a` is finite.
    #[inline(always)]
    fn finish<const FMA: bool>(a: f32, q: u64, r: f64, sign: u32) -> f32 {
        let (sine, cosine) = sine_and_cosine::<FMA>(r);
        let y = (if q & 1 == 1 { cosine } else { sine }) as f32;
        let y = f32::from_bits(y.to_bits() ^ sign ^ (((q & 2) as u32) << 30));
        if a < f32::INFINITY { y } else { f32::NAN }
    }

    /// Sine of an angle in radians; not-a-number at infinity. Error under 0.51 ulp.
    #[inline(always)]
    pub(crate) fn sin<const FMA: bool>(x: f32) -> f32 {
        let a = x.abs();
        let (q, r) = reduce(a);
        finish::<FMA>(a, q, r, x.to_bits() & 0x8000_0000)
    }

    /// Cosine of an angle in radians; not-a-number at infinity. Error under 0.51 ulp.
    #[inline(always)]
    pub(crate) fn cos<const FMA: bool>(x: f32) -> f32 {
        let a = x.abs();
        let (q, r) = reduce(a);
        finish::<FMA>(a, q.wrapping_add(1), r, 0)
    }

    /// Tangent of an angle in radians; not-a-number at infinity. Error under 0.51 ulp.
    #[inline(always)]
    pub(crate) fn tan<const FMA: bool>(x: f32) -> f32 {
        let a = x.abs();
        let (q, r) = reduce(a);
        let (sine, cosine) = sine_and_cosine::<FMA>(r);
        let odd = q & 1 == 1;
        let y = (if odd { -cosine } else { sine } / if odd { sine } else { cosine }) as f32;
        let y = f32::from_bits(y.to_bits() ^ (x.to_bits() & 0x8000_0000));
        if a < f32::INFINITY { y } else { f32::NAN }
    }
}

pub(super) mod f64 {
    /// Sine of an angle in radians: the standard library's, not vectorised.
    #[inline(always)]
    pub(crate) fn sin<const FMA: bool>(x: f64) -> f64 {
        x.sin()
    }

    /// Cosine of an angle in radians: the standard library's, not vectorised.
    #[inline(always)]
    pub(crate) fn cos<const FMA: bool>(x: f64) -> f64 {
        x.cos()
    }

    /// Tangent of an angle in radians: the standard library's, not vectorised.
    #[inline(always)]
    pub(crate) fn tan<const FMA: bool>(x: f64) -> f64 {
        x.tan()
    }
}
