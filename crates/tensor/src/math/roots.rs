//! Roots and quotients, which are instructions of the processor.

macro_rules! roots {
    ($T:ident) => {
        pub(super) mod $T {
            /// The square root, correctly rounded.
            #[inline(always)]
            pub(crate) fn sqrt<const FMA: bool>(x: $T) -> $T {
                x.sqrt()
            }

            /// `1 / sqrt(x)`. Error under 1.3 ulp.
            #[inline(always)]
            pub(crate) fn rsqrt<const FMA: bool>(x: $T) -> $T {
                1.0 / x.sqrt()
            }

            /// `1 / x`, correctly rounded.
            #[inline(always)]
            pub(crate) fn reciprocal<const FMA: bool>(x: $T) -> $T {
                1.0 / x
            }
        }
    };
}
roots!(f32);
roots!(f64);
