//! The list of the elementary functions of one real number; nothing else knows them one by one but their kernels.

/// Calls a macro with the list of the elementary functions. A line is
///
/// ```text
/// /// What it is.
/// name name_(x => y: |g, y| g * factor, Domain, 0.5 => value);
/// ```
///
/// the names of the function and of its in-place form, its argument and its result, its slope, where to try it, and an
/// example. From a line come
///
/// - the method of [`Real`](crate::kernel::Real) for every kind of number: lanes, from the kernel of that name in
///   `math`; [`Dual`](crate::kernel::Dual)s, with the slope; and recorded values and names in the graph crate;
/// - the methods of [`Tensor`](crate::Tensor), and their formula;
/// - the row of the derivative table, and with it the method of `Var`.
///
/// The slope is the gradient of the row, where `g` is that of the result, and names between bars what it reads, which is
/// what a node saves. It is `g`, an operator, and a factor that is computed once where there are several slopes. `near` at the end of a line
/// gives the slope a loop for near angles, see [`Formula::NEAR`](crate::kernel::Formula).
#[doc(hidden)]
#[macro_export]
macro_rules! __elementary {
    ($callback:ident) => {
        $callback! {
            /// e to the power of each element.
            exp exp_(x => y: |g, y| g * y, Any, 0.5 => 1.648_721_3);

            /// 2 to the power of each element.
            exp2 exp2_(x => y: |g, y| g * (y * std::f64::consts::LN_2), Any, 0.5 => 1.414_213_6);

            /// `exp(x) - 1`, accurate near 0.
            expm1 expm1_(x => y: |g, y| g * (y + 1.0), Any, 1e-10 => 1e-10);

            /// The natural logarithm; -inf at 0, NaN below.
            ln ln_(x => y: |g, x| g / x, Positive, 0.5 => -0.693_147_2);

            /// The logarithm to base 2; -inf at 0, NaN below.
            log2 log2_(x => y: |g, x| g / (x * std::f64::consts::LN_2), Positive, 0.125 => -3.0);

            /// The logarithm to base 10; -inf at 0, NaN below.
            log10 log10_(x => y: |g, x| g / (x * std::f64::consts::LN_10), Positive, 0.5 => -0.301_03);

            /// `ln(1 + x)`, accurate near 0.
            log1p log1p_(x => y: |g, x| g / (x + 1.0), Positive, 1e-10 => 1e-10);

            /// The square root; NaN below 0. Its gradient at 0 is infinite.
            sqrt sqrt_(x => y: |g, y| g / (y * 2.0), Positive, 0.25 => 0.5);

            /// `1 / sqrt(x)`.
            rsqrt rsqrt_(x => y: |g, y| g * (y * y * y * -0.5), Positive, 4.0 => 0.5);

            /// `1 / x`.
            reciprocal reciprocal_(x => y: |g, y| g * -(y * y), NonZero, 4.0 => 0.25);

            /// The sine of an angle in radians.
            sin sin_(x => y: |g, x| g * x.cos(), Any, 0.5 => 0.479_425_55, near);

            /// The cosine of an angle in radians.
            cos cos_(x => y: |g, x| g * -x.sin(), Any, 0.5 => 0.877_582_55, near);

            /// The tangent of an angle in radians.
            tan tan_(x => y: |g, y| g * (y * y + 1.0), Unit, 0.5 => 0.546_302_5);

            /// The arc sine, between -pi/2 and pi/2; NaN beyond 1. Its gradient at 1 and -1 is infinite.
            asin asin_(x => y: |g, x| g * (1.0 - x * x).rsqrt(), Unit, 0.5 => 0.523_598_8);

            /// The arc cosine, between 0 and pi; NaN beyond 1. Its gradient at 1 and -1 is infinite.
            acos acos_(x => y: |g, x| g * -(1.0 - x * x).rsqrt(), Unit, 0.5 => 1.047_197_6);

            /// The arc tangent, between -pi/2 and pi/2.
            atan atan_(x => y: |g, x| g / (x * x + 1.0), Any, 0.5 => 0.463_647_6);

            /// The hyperbolic sine.
            sinh sinh_(x => y: |g, x| g * x.cosh(), Any, 0.5 => 0.521_095_3);

            /// The hyperbolic cosine.
            cosh cosh_(x => y: |g, x| g * x.sinh(), Any, 0.5 => 1.127_626);

            /// The hyperbolic tangent.
            tanh tanh_(x => y: |g, y| g * (1.0 - y * y), Any, 0.5 => 0.462_117_16);

            /// The inverse hyperbolic sine.
            asinh asinh_(x => y: |g, x| g * (x * x + 1.0).rsqrt(), Any, 0.5 => 0.481_211_8);

            /// The inverse hyperbolic cosine; NaN below 1. Its gradient at 1 is infinite.
            acosh acosh_(x => y: |g, x| g * (x * x - 1.0).rsqrt(), AboveOne, 1.5 => 0.962_423_6);

            /// The inverse hyperbolic tangent; infinite at 1 and -1, NaN beyond.
            atanh atanh_(x => y: |g, x| g / (1.0 - x * x), Unit, 0.5 => 0.549_306_1);

            /// The logistic function `1 / (1 + exp(-x))`.
            sigmoid sigmoid_(x => y: |g, y| g * ((1.0 - y) * y), Any, 0.5 => 0.622_459_35);

            /// The error function.
            erf erf_(x => y: |g, x| g * ((-(x * x)).exp() * std::f64::consts::FRAC_2_SQRT_PI), Any, 0.5 => 0.520_499_9);

            /// `1 - erf(x)`, accurate where that is small.
            erfc erfc_(x => y: |g, x| g * ((-(x * x)).exp() * -std::f64::consts::FRAC_2_SQRT_PI), Any, 0.5 => 0.479_500_1);
        }
    };
}

pub(crate) use __elementary as elementary;
