//! The forward formulas of pointwise operations, each written once over `Real` or `Num`.

use crate::dtype::{Block, BlockMut};
use crate::kernels::{BlockKernel, Compare, FloatOps, Formula, Num, NumFormula, Real, elementary, typed};

/// Names formulas over real numbers: unit structs that are their kernels.
macro_rules! real {
    ($vis:vis formulas; $($(#[$doc:meta])* $name:ident($($x:ident),*) = $body:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name;
        impl Formula<{ [$(stringify!($x)),*].len() }> for $name {
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
    ($($(#[$doc:meta])* $name:ident($($x:ident),*) = $body:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;
        impl NumFormula<{ [$(stringify!($x)),*].len() }> for $name {
            #[inline(always)]
            fn eval<R: Num>(&self, [$($x),*]: [R; { [$(stringify!($x)),*].len() }]) -> R {
                $body
            }
        }
    )*};
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
    Div(a, b) = a / b;
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
}

real! {
    pub formulas;
    /// The Gaussian error linear unit (Hendrycks and Gimpel, 2016): x times the normal distribution function.
    Gelu(a) = a * a.normal_cdf();
}

/// The formula of each elementary function, under its own name.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        real! { pub(crate) formulas; $(
            #[allow(non_camel_case_types, reason = "the list has one name for all")]
            $(#[$doc])*
            $name(a) = a.$name();
        )*}
    };
}
elementary!(functions);

/// 2 sqrt(2 / pi)
const GELU_SCALE_TWICE: f64 = 1.595_769_121_605_730_8;

/// `ln(1 + exp(beta x)) / beta`, and `x` itself where `beta x` exceeds the threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softplus {
    pub(crate) beta: f64,
    pub(crate) threshold: f64,
}
impl Formula<1> for Softplus {
    #[inline(always)]
    fn eval<R: Real>(&self, [a]: [R; 1]) -> R
    where
        f64: FloatOps<R>,
    {
        let scaled = a * self.beta;
        R::select(scaled.gt(R::lit(self.threshold)), a, scaled.exp().log1p() / self.beta)
    }
}

num! {
    Add(a, b) = a + b;
    Sub(a, b) = a - b;
    Mul(a, b) = a * b;
    Maximum(a, b) = a.maximum(b);
    Minimum(a, b) = a.minimum(b);
    Neg(a) = -a;
    Abs(a) = a.abs();
    Sign(a) = a.sign();
    Square(a) = a * a;
    /// NaN passes through.
    Relu(a) = R::select(a.le(R::lit(0.0)), R::lit(0.0), a);
    Clamp(a, lo, hi) = a.maximum(lo).minimum(hi);
}

/// `a + alpha b`, in floating point
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddScaled(pub(crate) f64);
impl NumFormula<2> for AddScaled {
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
