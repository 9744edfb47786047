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
/// what a node saves. It is `g`, an operator, and a factor that is computed once where there are several slopes.
#[doc(hidden)]
#[macro_export]
macro_rules! __elementary {
    ($callback:ident) => {
        $callback! {
            /// e to the power of each element.
            exp exp_(x => y: |g, y| g * y, Any, 0.5 => 1.648_721_3);

            /// `exp(x) - 1`, accurate near 0.
            expm1 expm1_(x => y: |g, y| g * (y + 1.0), Any, 1e-10 => 1e-10);

            /// The natural logarithm; -inf at 0, NaN below.
            ln ln_(x => y: |g, x| g / x, Positive, 0.5 => -0.693_147_2);

            /// `ln(1 + x)`, accurate near 0.
            log1p log1p_(x => y: |g, x| g / (x + 1.0), Positive, 1e-10 => 1e-10);

            /// The square root; NaN below 0. Its gradient at 0 is infinite.
            sqrt sqrt_(x => y: |g, y| g / (y * 2.0), Positive, 0.25 => 0.5);

            /// `1 / sqrt(x)`.
            rsqrt rsqrt_(x => y: |g, y| g * (y * y * y * -0.5), Positive, 4.0 => 0.5);

            /// `1 / x`.
            reciprocal reciprocal_(x => y: |g, y| g * -(y * y), NonZero, 4.0 => 0.25);

            /// The sine of an angle in radians.
            sin sin_(x => y: |g, x| g * x.cos(), Any, 0.5 => 0.479_425_55);

            /// The cosine of an angle in radians.
            cos cos_(x => y: |g, x| g * -x.sin(), Any, 0.5 => 0.877_582_55);

            /// The tangent of an angle in radians.
            tan tan_(x => y: |g, y| g * (y * y + 1.0), Unit, 0.5 => 0.546_302_5);

            /// The hyperbolic tangent.
            tanh tanh_(x => y: |g, y| g * (1.0 - y * y), Any, 0.5 => 0.462_117_16);

            /// The logistic function `1 / (1 + exp(-x))`.
            sigmoid sigmoid_(x => y: |g, y| g * ((1.0 - y) * y), Any, 0.5 => 0.622_459_35);

            /// The error function.
            erf erf_(x => y: |g, x| g * ((-(x * x)).exp() * std::f64::consts::FRAC_2_SQRT_PI), Any, 0.5 => 0.520_499_9);
        }
    };
}

pub(crate) use __elementary as elementary;
