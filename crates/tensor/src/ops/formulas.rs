//! The forward formulas of pointwise operations, each written once over `Real` or `Num`.

use crate::dtype::{Block, BlockMut};
use crate::kernels::{BlockKernel, Compare, FloatOps, Formula, Num, NumFormula, Real, elementary, typed};

/// Names formulas over real numbers: unit structs that are their kernels.
macro_rules! real {
    ($vis:vis formulas; $($(#[$doc:meta])* $name:ident($($x:ident),*) $([near if $near:expr])? = $body:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name;
        impl Formula<{ [$(stringify!($x)),*].len() }> for $name {
            $(const NEAR: bool = $near;)?
            #[inline(always)]
            fn eval<R: Real>(&self, [$($x),*]: [R; { [$(stringify!($x)),*].len() }]) -> R
            where
                f64: FloatOps<R>,
            {
                $body
            }
        }
    )*};
}

pub(crate) use real;

/// Names a formula that integers have too.
macro_rules! num {
    ($(#[$doc:meta])* $name:ident($a:ident | number, $b:ident | number) = $body:expr; $($others:tt)*) => {
        num!(@of { const TAKES_A_NUMBER: bool = true; } $(#[$doc])* $name($a, $b) = $body);
        num!($($others)*);
    };
    ($(#[$doc:meta])* $name:ident($($x:ident),*) = $body:expr; $($others:tt)*) => {
        num!(@of {} $(#[$doc])* $name($($x),*) = $body);
        num!($($others)*);
    };
    () => {};
    (@of { $($items:item)* } $(#[$doc:meta])* $name:ident($($x:ident),*) = $body:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;
        impl NumFormula<{ [$(stringify!($x)),*].len() }> for $name {
            $($items)*
            #[inline(always)]
            fn eval<R: Num>(&self, [$($x),*]: [R; { [$(stringify!($x)),*].len() }]) -> R {
                $body
            }
        }
    };
}

macro_rules! compare {
    ($($name:ident = $f:ident;)*) => {$(
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;
        impl Compare for $name {
            #[inline(always)]
            fn eval<R: Num>(&self, a: R, b: R) -> R::Mask {
                a.$f(b)
            }
        }
    )*};
}

real! {
    pub(crate) formulas;
    Pow(a, b) = a.pow(b);
    /// PyTorch computes these powers by other means, which shows at infinities and zeros.
    PowSquare(a, _b) = a * a;
    PowSqrt(a, _b) = a.sqrt();
    PowRsqrt(a, _b) = a.rsqrt();
    PowReciprocal(a, _b) = a.reciprocal();
    SquaredDifference(a, b) = (a - b) * (a - b);
    /// The tanh approximation of [`Gelu`], from the same paper.
    /// `(1 + tanh(u)) / 2`, written as the sigmoid of `2 u`, which keeps its digits where it is small.
    GeluTanh(a) = a * ((a + a * a * a * 0.044715) * GELU_SCALE_TWICE).sigmoid();
    Silu(a) = a * a.sigmoid();
    Frac(a) = a - a.trunc();
    HardSigmoid(a) = (a + 3.0).maximum(R::lit(0.0)).minimum(R::lit(6.0)) / 6.0;
    HardSwish(a) = a * (a + 3.0).maximum(R::lit(0.0)).minimum(R::lit(6.0)) / 6.0;
    Mish(a) = a * a.softplus().tanh();
    LogSigmoid(a) = a.minimum(R::lit(0.0)) - (-a.abs()).exp().log1p();
    /// The angle of the point (x, y), from the quotient: a turn is added left of the vertical axis, where a zero counts by its
    /// sign. The quotient says nothing where both are infinite, and where y is zero.
    Atan2(y, x) = {
        let (zero, infinity) = (R::lit(0.0), R::lit(f64::INFINITY));
        let below = |v: R| R::or(v.lt(zero), R::and(v.eq(zero), v.reciprocal().lt(zero)));
        let diagonal = R::and(y.abs().eq(infinity), x.abs().eq(infinity));
        let angle = (R::select(diagonal, y.sign(), y) / R::select(diagonal, x.sign(), x)).atan();
        let angle = R::select(R::and(y.eq(zero), x.eq(x)), y, angle);
        let turn = R::select(below(y), R::lit(-std::f64::consts::PI), R::lit(std::f64::consts::PI));
        R::select(below(x), angle + turn, angle)
    };
    /// The root of the sum of squares, or, where that overflows or loses digits, the larger times a root between 1 and 2. Infinite
    /// if either is, whatever the other is.
    Hypot(a, b) = {
        let (a, b) = (a.abs(), b.abs());
        let infinity = R::lit(f64::INFINITY);
        let sum = a * a + b * b;
        let (larger, smaller) = (a.maximum(b), a.minimum(b));
        let ratio = R::select(smaller.eq(R::lit(0.0)), smaller, smaller / larger);
        let far = larger * (ratio * ratio + 1.0).sqrt();
        let root = R::select(R::and(sum.gt(R::lit(1e-30)), sum.lt(infinity)), sum.sqrt(), far);
        R::select(R::or(a.eq(infinity), b.eq(infinity)), infinity, root)
    };
    LogAddExp(a, b) = R::select(a.eq(b), a + std::f64::consts::LN_2, a.maximum(b) + (-(a - b).abs()).exp().log1p());
    XLogY(a, b) = R::select(R::and(a.eq(R::lit(0.0)), b.eq(b)), R::lit(0.0), a * b.ln());
    /// From whichever end is nearer, so that both are met exactly.
    Lerp(a, b, w) = R::select(w.abs().lt(R::lit(0.5)), a + w * (b - a), b - (b - a) * (1.0 - w));
}

/// `a / b`
#[derive(Clone, Copy, Debug)]
pub(crate) struct Div;
impl Formula<2> for Div {
    const TAKES_A_NUMBER: bool = true;

    #[inline(always)]
    fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        a / b
    }
}

real! {
    pub formulas;
    /// The Gaussian error linear unit (Hendrycks and Gimpel, 2016): x times the normal distribution function.
    Gelu(a) = a.gelu();
    /// x divided by 1 + |x|.
    Softsign(a) = a / (a.abs() + 1.0);
    /// The rectifier with a slope below zero that is learnt (He, Zhang, Ren and Sun, 2015).
    PRelu(a, w) = R::select(a.gt(R::lit(0.0)), a, a * w);
}

/// The formula of each elementary function, under its own name.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        real! { pub(crate) formulas; $(
            #[allow(non_camel_case_types, reason = "the list has one name for all")]
            $(#[$doc])*
            $name(a) [near if matches!(stringify!($name).as_bytes(), b"sin" | b"cos" | b"tan")] = a.$name();
        )*}
    };
}
elementary!(functions);

/// The slope of `selu` above zero, and its product with alpha.
pub const SELU: (f64, f64) = (1.050_700_987_355_480_5, 1.758_099_340_847_376_6);

/// 2 sqrt(2 / pi)
const GELU_SCALE_TWICE: f64 = 1.595_769_121_605_730_8;

/// Names formulas over real numbers that have settings.
macro_rules! with_settings {
    ($($(#[$doc:meta])* $name:ident { $($p:ident),+ }($($x:ident),*) = $body:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name {
            $(pub(crate) $p: f64),+
        }
        impl Formula<{ [$(stringify!($x)),*].len() }> for $name {
            #[inline(always)]
            fn eval<R: Real>(&self, [$($x),*]: [R; { [$(stringify!($x)),*].len() }]) -> R
            where
                f64: FloatOps<R>,
            {
                let $name { $($p),+ } = *self;
                $body
            }
        }
    )*};
}

with_settings! {
    /// `ln(1 + exp(beta x)) / beta`, and `x` itself where `beta x` exceeds the threshold.
    Softplus { beta, threshold }(a) = {
        let scaled = a * beta;
        R::select(scaled.gt(R::lit(threshold)), a, scaled.exp().log1p() / beta)
    };
    /// `above x`, and below zero `below (exp(inner x) - 1)`.
    Elu { above, below, inner }(a) =
        R::select(a.lt(R::lit(0.0)), (a * inner).expm1() * below, a * above);
    LeakyRelu { slope }(a) = R::select(a.gt(R::lit(0.0)), a, a * slope);
    /// To places behind the point, `unit` of which make 1.
    RoundToPlaces { unit }(a) = (a * unit).round() / unit;
    RoundToUnits { unit }(a) = (a / unit).round() * unit;
    NanToNum { nan, posinf, neginf }(a) = {
        let ends = R::select(a.eq(R::lit(f64::NEG_INFINITY)), R::lit(neginf), a);
        let ends = R::select(a.eq(R::lit(f64::INFINITY)), R::lit(posinf), ends);
        R::select(a.is_nan(), R::lit(nan), ends)
    };
    AddCMul { value }(a, b, c) = a + b * value * c;
    AddCDiv { value }(a, b, c) = a + b * value / c;
}

num! {
    Add(a | number, b | number) = a + b;
    Sub(a | number, b | number) = a - b;
    Mul(a | number, b | number) = a * b;
    Maximum(a | number, b | number) = a.maximum(b);
    Minimum(a | number, b | number) = a.minimum(b);
    Neg(a) = -a;
    Abs(a) = a.abs();
    Sign(a) = a.sign();
    Square(a) = a * a;
    /// NaN passes through.
    Relu(a) = a.relu();
    Clamp(a, lo, hi) = a.maximum(lo).minimum(hi);
    /// NaN loses; the first of equal ones.
    Fmax(a, b) = R::select(R::or(b.le(a), b.ne(b)), a, b);
    Fmin(a, b) = R::select(R::or(a.le(b), b.ne(b)), a, b);
    Floor(a) = a.floor();
    Ceil(a) = a.ceil();
    Round(a) = a.round();
    Trunc(a) = a.trunc();
}

/// Between two numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HardTanh {
    pub(crate) lo: f64,
    pub(crate) hi: f64,
}
impl NumFormula<1> for HardTanh {
    #[inline(always)]
    fn eval<R: Num>(&self, [a]: [R; 1]) -> R {
        a.maximum(R::lit(self.lo)).minimum(R::lit(self.hi))
    }
}

/// `a + value b c` of integers, wrapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddMultipleOfProduct(pub(crate) i64);
impl BlockKernel for AddMultipleOfProduct {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let BlockMut::I64(out) = &mut outputs[0] else { unreachable!("multiples are planned as i64") };
        let [a, b, c]: [&[i64]; 3] = typed(inputs);
        for (((o, &a), &b), &c) in out.iter_mut().zip(a).zip(b).zip(c) {
            *o = a.wrapping_add(self.0.wrapping_mul(b).wrapping_mul(c));
        }
    }
}

/// `a + alpha b`, in floating point
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddScaled(pub(crate) f64);
impl NumFormula<2> for AddScaled {
    const TAKES_A_NUMBER: bool = true;

    #[inline(always)]
    fn eval<R: Num>(&self, [a, b]: [R; 2]) -> R {
        a + b * R::lit(self.0)
    }
}

/// `a + alpha b` of integers, wrapping: not every `alpha` is an `f64`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddMultiple(pub(crate) i64);
impl BlockKernel for AddMultiple {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let BlockMut::I64(out) = &mut outputs[0] else { unreachable!("multiples are planned as i64") };
        let [a, b]: [&[i64]; 2] = typed(inputs);
        for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *o = a.wrapping_add(b.wrapping_mul(self.0));
        }
    }
}

compare! {
    Eq = eq;
    Ne = ne;
    Lt = lt;
    Le = le;
    Gt = gt;
    Ge = ge;
}
