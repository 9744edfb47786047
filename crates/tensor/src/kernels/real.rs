//! `Num` and `Real`: what a formula may ask of the numbers it works on.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::elementary;
use crate::math::NORMAL_DENSITY;

/// Numbers with the arithmetic that integers have too. Integers wrap.
pub trait Num:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// The result of a comparison: `bool` for plain numbers.
    type Mask: Copy;
    /// A constant.
    fn lit(v: f64) -> Self;
    /// `self < o`
    fn lt(self, o: Self) -> Self::Mask;
    /// `self <= o`
    fn le(self, o: Self) -> Self::Mask;
    /// `self == o`
    fn eq(self, o: Self) -> Self::Mask;
    /// Whether both hold.
    fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Whether one holds.
    fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Whether it does not hold.
    fn not(a: Self::Mask) -> Self::Mask;
    /// `yes` where the mask holds, else `no`; the branch that is not taken has no influence, not even a NaN.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// `|self|`
    fn abs(self) -> Self;
    /// -1, 0 or 1; 0 for NaN, as in PyTorch.
    fn sign(self) -> Self;
    /// The largest whole number not above it.
    fn floor(self) -> Self;
    /// The smallest whole number not below it.
    fn ceil(self) -> Self;
    /// The nearest whole number, the even one of two.
    fn round(self) -> Self;
    /// The whole number next to it towards zero.
    fn trunc(self) -> Self;
    /// The larger one, `self` where they are equal; NaN if either is.
    fn maximum(self, o: Self) -> Self;
    /// The smaller one, `self` where they are equal; NaN if either is.
    fn minimum(self, o: Self) -> Self;

    /// `self > o`
    #[inline(always)]
    fn gt(self, o: Self) -> Self::Mask {
        o.lt(self)
    }
    /// `self >= o`
    #[inline(always)]
    fn ge(self, o: Self) -> Self::Mask {
        o.le(self)
    }
    /// `self != o`
    #[inline(always)]
    fn ne(self, o: Self) -> Self::Mask {
        Self::not(self.eq(o))
    }
    /// `max(self, 0)`; NaN and -0.0 stay. Its gradient is 0 at 0.
    #[inline(always)]
    fn relu(self) -> Self {
        Self::select(self.lt(Self::lit(0.0)), Self::lit(0.0), self)
    }
    /// `self * self`
    #[inline(always)]
    fn square(self) -> Self {
        self * self
    }
}

macro_rules! declare {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {$(
        $(#[$doc])*
        fn $name(self) -> Self;
    )*};
}

/// Real numbers: what a gradient formula may use.
///
/// Implemented by lanes of a block kernel (`f32`, `f64`) and, in the graph crate, by recorded values, so that one
/// formula is both a fused kernel and the graph of the gradient.
pub trait Real:
    Num
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
{
    elementary!(declare);
    /// `self` to the power `o`
    fn pow(self, o: Self) -> Self;

    /// the normal distribution function, `(1 + erf(self / sqrt(2))) / 2`
    #[inline(always)]
    fn normal_cdf(self) -> Self {
        ((self * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5
    }
    /// The Gaussian error linear unit (Hendrycks and Gimpel, 2016): `self` times the normal distribution function.
    #[inline(always)]
    fn gelu(self) -> Self {
        self * self.normal_cdf()
    }
    /// The slope of [`gelu`](Self::gelu): the normal distribution function, and `self` times its density.
    #[inline(always)]
    fn gelu_slope(self) -> Self {
        self.normal_cdf() + self * (self * self * -0.5).exp() * NORMAL_DENSITY
    }
    /// `ln(1 + exp(self))`, and `self` itself above 20.
    #[inline(always)]
    fn softplus(self) -> Self {
        Self::select(self.gt(Self::lit(20.0)), self, self.exp().log1p())
    }
    /// `self` to the power of a plain number. Half powers are roots, which keep the sign of a zero, as PyTorch's do.
    #[inline(always)]
    fn pow_number(self, exponent: f64) -> Self {
        if exponent == 0.5 {
            self.sqrt()
        } else if exponent == -0.5 {
            self.rsqrt()
        } else {
            self.pow(Self::lit(exponent))
        }
    }
    /// The same number, where slopes are made of it and not the value.
    #[doc(hidden)]
    #[inline(always)]
    fn of_slopes(self) -> Self {
        self
    }
    /// Whether it is NaN.
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        self.ne(self)
    }
}

/// What a formula may ask of the literals in it: `1.0 - x` works like `x - 1.0`.
pub trait FloatOps<R>:
    Add<R, Output = R> + Sub<R, Output = R> + Mul<R, Output = R> + Div<R, Output = R>
{
}
impl<R, T: Add<R, Output = R> + Sub<R, Output = R> + Mul<R, Output = R> + Div<R, Output = R>> FloatOps<R>
    for T
{
}
