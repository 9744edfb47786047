//! `Dual`: a number and its slopes, so that a formula evaluated at duals is its own derivative.
//!
//! Note [Duals and the table]
//! Each operation's slope is the formula of the derivative table's row with the slope in the place of `g`, so that
//! conventions (ties share by halves, the slope of `abs` at 0 is 0, a branch that is not taken has no influence) are the
//! same ones. An elementary function has its slope from the line that the row has it from. A slope is linear in the seed; seeded with a node's incoming gradient, the slope of
//! the result *is* the gradient of the input that was seeded.
//!
//! Note [Slopes that are not there]
//! A constant has no slope, which is not the same as a slope of 0: `x * w` where `x` is infinite and only `x` moves has the
//! slope `w`, and not `w + inf * 0`. Which slopes are there depends on the formula and on the seeds, never on the
//! numbers, so in a kernel the compiler knows and no test is left in the loop.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::formula::Formula;
use super::real::{FloatOps, Num, Real};
use super::{each, elementary};
use crate::math::NORMAL_DENSITY;

/// A number and how fast it changes along `K` directions: forward-mode differentiation.
///
/// ```
/// use foldback_tensor::kernel::{Dual, FloatOps, Formula, Num, Real};
///
/// /// The slope of `x.square() + x * 3.0`, beside its value.
/// #[derive(Clone, Copy)]
/// struct Both;
/// impl Formula<1> for Both {
///     fn eval<R: Real>(&self, [x]: [R; 1]) -> R where f64: FloatOps<R> {
///         let x = Dual::<R>::seeded(x, [Some(R::lit(1.0))]);
///         let y = x.square() + x * 3.0;
///         y.value + y.slopes[0].expect("the result depends on x") * 100.0
///     }
/// }
/// use foldback_tensor::{kernel::{FloatKernel, evaluate}, tensor};
/// assert_eq!(evaluate("both", &FloatKernel(Both), &[&tensor![2.0]])?, tensor![710.0]); // 10 and 7
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dual<R, const K: usize = 1> {
    /// the number itself
    pub value: R,
    /// along each direction, the derivative; none where the number does not depend on what was seeded
    pub slopes: [Option<R>; K],
}

impl<R: Real, const K: usize> Dual<R, K> {
    /// A number that does not change.
    #[inline(always)]
    pub fn constant(value: R) -> Self {
        Dual { value, slopes: [None; K] }
    }

    /// A number with slopes given.
    #[inline(always)]
    pub fn seeded(value: R, slopes: [Option<R>; K]) -> Self {
        Dual { value, slopes }
    }

    #[inline(always)]
    fn moves(&self) -> bool {
        self.slopes.iter().any(Option::is_some)
    }

    /// A function of one number: `value`, and each slope `apply(slope, factor)`. The factor is made once, if at all.
    #[inline(always)]
    fn chain<P: Copy>(self, value: R, factor: impl FnOnce() -> P, apply: impl Fn(R, P) -> R) -> Self {
        if !self.moves() {
            return Dual { value, ..self };
        }
        let factor = factor();
        Dual { value, slopes: each(None, |k| self.slopes[k].map(|s| apply(s, factor))) }
    }

    /// The same function, of which another slope is a further term.
    #[inline(always)]
    fn join(self, o: Self) -> Self {
        Dual {
            value: self.value,
            slopes: each(None, |k| match (self.slopes[k], o.slopes[k]) {
                (Some(a), Some(b)) => Some(a + b),
                (a, None) => a,
                (None, b) => b,
            }),
        }
    }
}

/// The gradient of a formula of one number, `g * dF/dx`, by the formula itself: a formula composed of others needs no
/// derivative of its own.
///
/// ```
/// use foldback_tensor::kernel::{FloatKernel, FloatOps, Formula, Gelu, Real, evaluate, slope};
/// use foldback_tensor::tensor;
/// #[derive(Clone, Copy)]
/// struct GeluGradient;
/// impl Formula<2> for GeluGradient {
///     fn eval<R: Real>(&self, [g, x]: [R; 2]) -> R where f64: FloatOps<R> { slope(Gelu, g, x) }
/// }
/// assert_eq!(evaluate("gelu_backward", &FloatKernel(GeluGradient), &[&tensor![4.0], &tensor![0.0]])?, tensor![2.0]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[inline(always)]
pub fn slope<R: Real, F: Formula<1>>(formula: F, g: R, x: R) -> R
where
    f64: FloatOps<R>,
{
    let [slope] = formula.eval::<Dual<R>>([Dual::seeded(x, [Some(g)])]).slopes;
    slope.unwrap_or(R::lit(0.0))
}

impl<R: Real, const K: usize> Add for Dual<R, K> {
    type Output = Self;
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Dual { value: self.value + o.value, ..self }.join(o)
    }
}
impl<R: Real, const K: usize> Sub for Dual<R, K> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        let y = self.value - o.value;
        Dual { value: y, ..self }.join(o.chain(y, || (), |s, ()| -s))
    }
}
impl<R: Real, const K: usize> Mul for Dual<R, K> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        let y = self.value * o.value;
        self.chain(y, || o.value, |s, f| s * f).join(o.chain(y, || self.value, |s, f| s * f))
    }
}
impl<R: Real, const K: usize> Div for Dual<R, K> {
    type Output = Self;
    #[inline(always)]
    #[allow(clippy::suspicious_arithmetic_impl, reason = "the derivative of a quotient has a product")]
    fn div(self, o: Self) -> Self {
        let y = self.value / o.value;
        self.chain(y, || o.value, |s, f| s / f).join(o.chain(y, || y / o.value, |s, f| -s * f))
    }
}
impl<R: Real, const K: usize> Neg for Dual<R, K> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.chain(-self.value, || (), |s, ()| -s)
    }
}

macro_rules! with_number {
    ($trait:ident, $f:ident, $slope:expr) => {
        impl<R: Real, const K: usize> $trait<f64> for Dual<R, K> {
            type Output = Self;
            #[inline(always)]
            fn $f(self, c: f64) -> Self {
                self.chain($trait::$f(self.value, c), || c, $slope)
            }
        }
        impl<R: Real, const K: usize> $trait<Dual<R, K>> for f64 {
            type Output = Dual<R, K>;
            #[inline(always)]
            fn $f(self, o: Dual<R, K>) -> Dual<R, K> {
                $trait::$f(Dual::lit(self), o)
            }
        }
    };
}
with_number!(Add, add, |s, _| s);
with_number!(Sub, sub, |s, _| s);
with_number!(Mul, mul, |s, c| s * c);
with_number!(Div, div, |s, c| s / c);

macro_rules! flat {
    ($($name:ident),*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            // Zero whatever the slope was: a NaN does not get through, as in the table.
            self.chain(self.value.$name(), || (), |_, ()| R::lit(0.0))
        }
    )*};
}
impl<R: Real, const K: usize> Num for Dual<R, K> {
    type Mask = R::Mask;
    #[inline(always)]
    fn lit(v: f64) -> Self {
        Dual::constant(R::lit(v))
    }
    #[inline(always)]
    fn lt(self, o: Self) -> R::Mask {
        self.value.lt(o.value)
    }
    #[inline(always)]
    fn le(self, o: Self) -> R::Mask {
        self.value.le(o.value)
    }
    #[inline(always)]
    fn eq(self, o: Self) -> R::Mask {
        self.value.eq(o.value)
    }
    #[inline(always)]
    fn and(a: R::Mask, b: R::Mask) -> R::Mask {
        R::and(a, b)
    }
    #[inline(always)]
    fn or(a: R::Mask, b: R::Mask) -> R::Mask {
        R::or(a, b)
    }
    #[inline(always)]
    fn not(a: R::Mask) -> R::Mask {
        R::not(a)
    }
    #[inline(always)]
    fn select(mask: R::Mask, yes: Self, no: Self) -> Self {
        Dual {
            value: R::select(mask, yes.value, no.value),
            slopes: each(None, |k| match (yes.slopes[k], no.slopes[k]) {
                (None, None) => None,
                (Some(yes), None) => Some(R::select(mask, yes, R::lit(0.0))),
                (None, Some(no)) => Some(R::select(mask, R::lit(0.0), no)),
                (Some(yes), Some(no)) => Some(R::select(mask, yes, no)),
            }),
        }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.chain(self.value.abs(), || self.value.sign(), |s, f| s * f)
    }
    flat!(sign, floor, ceil, round, trunc);
    #[inline(always)]
    fn maximum(self, o: Self) -> Self {
        extreme(self, o, self.value.maximum(o.value), |a, b| a.lt(b))
    }
    #[inline(always)]
    fn minimum(self, o: Self) -> Self {
        extreme(self, o, self.value.minimum(o.value), |a, b| a.gt(b))
    }
    #[inline(always)]
    fn relu(self) -> Self {
        let flat = || self.value.le(R::lit(0.0));
        self.chain(self.value.relu(), flat, |s, flat| R::select(flat, R::lit(0.0), s))
    }
    #[inline(always)]
    fn square(self) -> Self {
        self.chain(self.value.square(), || self.value * 2.0, |s, f| s * f)
    }
}

/// The larger or smaller of two: equal ones share by halves, the one that `loses` gets nothing.
#[inline(always)]
fn extreme<R: Real, const K: usize>(
    a: Dual<R, K>,
    b: Dual<R, K>,
    y: R,
    loses: impl Fn(R, R) -> R::Mask,
) -> Dual<R, K> {
    let share =
        |s: R, (tie, lost): (R::Mask, R::Mask)| R::select(tie, s * 0.5, R::select(lost, R::lit(0.0), s));
    let (u, v) = (a.value, b.value);
    a.chain(y, || (u.eq(v), loses(u, v)), share).join(b.chain(y, || (u.eq(v), loses(v, u)), share))
}

/// Beside `f64: FloatOps<R>`, `p - 1.0` would be an operation that gives an `R`.
const fn one_less(p: f64) -> f64 {
    p - 1.0
}

macro_rules! functions {
    ($(
        $(#[$doc:meta])*
        $name:ident $name_:ident(
            $x:ident => $y:ident: |$g:ident, $read:ident| $slope:ident $op:tt $factor:expr, $domain:ident, $at:literal => $value:literal $(, $near:ident)?
        );
    )*) => {$(
        #[inline(always)]
        #[allow(unused_variables, reason = "a slope reads one of them, or both")]
        fn $name(self) -> Self {
            let value = self.value.$name();
            if !self.moves() {
                return Dual { value, ..self };
            }
            let ($x, $y) = (self.value.of_slopes(), value.of_slopes());
            let factor = $factor;
            self.chain(value, || factor, |$g, f| $slope $op f)
        }
    )*};
}

// A slope that takes a function is not made in a closure: one so large is not inlined, and has no vector instructions (the gradient of
// `gelu` took 85 ns an element of `f64`, instead of 6).
impl<R: Real, const K: usize> Real for Dual<R, K>
where
    f64: FloatOps<R>,
{
    elementary!(functions);
    #[inline(always)]
    fn normal_cdf(self) -> Self {
        let value = self.value.normal_cdf();
        if !self.moves() {
            return Dual { value, ..self };
        }
        let x = self.value.of_slopes();
        let slope = (x * x * -0.5).exp() * NORMAL_DENSITY;
        self.chain(value, || slope, |g, f| g * f)
    }
    #[inline(always)]
    fn gelu(self) -> Self {
        if !self.moves() {
            return Dual { value: self.value.gelu(), ..self };
        }
        let slope = self.value.of_slopes().gelu_slope();
        self.chain(self.value.gelu(), || slope, |g, f| g * f)
    }
    #[inline(always)]
    fn pow(self, o: Self) -> Self {
        let (y, zero) = (self.value.pow(o.value), R::lit(0.0));
        let (a, b) = (self.value.of_slopes(), o.value.of_slopes());
        let mut base = Dual { value: y, ..self };
        if self.moves() {
            let f = (b.eq(zero), b * a.pow(b - 1.0));
            base = self.chain(y, || f, |s, (flat, f)| R::select(flat, R::lit(0.0), s * f));
        }
        if !o.moves() {
            return base;
        }
        let exponent = R::select(R::and(a.eq(zero), b.ge(zero)), zero, y * a.ln());
        base.join(o.chain(y, || exponent, |s, f| s * f))
    }
    #[inline(always)]
    fn pow_number(self, exponent: f64) -> Self {
        let y = self.value.pow_number(exponent);
        if !self.moves() {
            return Dual { value: y, ..self };
        }
        if exponent == 0.0 {
            return self.chain(y, || (), |_, ()| R::lit(0.0));
        }
        let slope = exponent * self.value.of_slopes().pow_number(one_less(exponent));
        self.chain(y, || slope, |s, f| s * f)
    }
}
