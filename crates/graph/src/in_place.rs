//! In-place forms that no operator has: the handle is rebound to the result, whose shape and type are the old ones.

use foldback_tensor::{Here, Scalar};

use crate::error::Result;
use crate::input::AsInput;
use crate::var::Var;

macro_rules! in_place {
    ($($(#[$doc:meta])* $name:ident = $plain:ident($($arg:ident: $kind:ident),+);)*) => {
        impl Var {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// `LeafInPlace` for a leaf that requires a gradient, outside [`no_grad`](crate::no_grad); also if the
            /// result would have another shape or a higher category of type. Nothing is changed then.
            #[track_caller]
            pub fn $name(&mut self, $($arg: in_place!(@type $kind)),+) -> Result<()> {
                let leaf = self.own_leaf();
                let _turn = self.turn_to_rebind(stringify!($name), leaf.as_deref()).here()?;
                let new = self.$plain($($arg),+).map_err(|e| e.named(stringify!($name))).here()?;
                self.rebind(stringify!($name), new).here()
            }
        )*}
    };
    (@type input) => { impl AsInput };
    (@type number) => { impl Into<Scalar> };
    (@type float) => { impl Into<f64> };
    (@type places) => { impl Into<i32> };
}

in_place! {
    /// [`Var::add_with`] in place.
    ///
    /// ```
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// let mut x = Var::from(tensor![1.0, 2.0]);
    /// x.add_with_(&tensor![10.0], 0.5)?;
    /// assert_eq!(x.value(), tensor![6.0, 7.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    add_with_ = add_with(other: input, alpha: number);
    /// [`Var::sub_with`] in place.
    sub_with_ = sub_with(other: input, alpha: number);
    /// [`Var::div_floor`] in place.
    div_floor_ = div_floor(other: input);
    /// [`Var::div_trunc`] in place.
    div_trunc_ = div_trunc(other: input);
    /// [`Var::pow`] in place.
    pow_ = pow(exponent: input);
    /// [`Var::clamp`] in place.
    clamp_ = clamp(lo: input, hi: input);
    /// [`Var::clamp_min`] in place.
    clamp_min_ = clamp_min(lo: input);
    /// [`Var::clamp_max`] in place.
    clamp_max_ = clamp_max(hi: input);
    /// [`Var::fmax`] in place.
    fmax_ = fmax(other: input);
    /// [`Var::fmin`] in place.
    fmin_ = fmin(other: input);
    /// [`Var::atan2`] in place.
    atan2_ = atan2(other: input);
    /// [`Var::hypot`] in place.
    hypot_ = hypot(other: input);
    /// [`Var::copysign`] in place.
    copysign_ = copysign(other: input);
    /// [`Var::logaddexp`] in place.
    logaddexp_ = logaddexp(other: input);
    /// [`Var::xlogy`] in place.
    xlogy_ = xlogy(other: input);
    /// [`Var::remainder`] in place.
    remainder_ = remainder(other: input);
    /// [`Var::fmod`] in place.
    fmod_ = fmod(other: input);
    /// [`Var::bitwise_and`] in place.
    bitwise_and_ = bitwise_and(other: input);
    /// [`Var::bitwise_or`] in place.
    bitwise_or_ = bitwise_or(other: input);
    /// [`Var::bitwise_xor`] in place.
    bitwise_xor_ = bitwise_xor(other: input);
    /// [`Var::lerp`] in place.
    lerp_ = lerp(end: input, weight: input);
    /// [`Var::addcmul`] in place.
    addcmul_ = addcmul(a: input, b: input);
    /// [`Var::addcmul_with`] in place.
    addcmul_with_ = addcmul_with(a: input, b: input, value: number);
    /// [`Var::addcdiv`] in place.
    addcdiv_ = addcdiv(a: input, b: input);
    /// [`Var::addcdiv_with`] in place.
    addcdiv_with_ = addcdiv_with(a: input, b: input, value: number);
    /// [`Var::elu_with`] in place.
    elu_with_ = elu_with(alpha: float);
    /// [`Var::celu_with`] in place.
    celu_with_ = celu_with(alpha: float);
    /// [`Var::leaky_relu_with`] in place.
    leaky_relu_with_ = leaky_relu_with(slope: float);
    /// [`Var::hardtanh_with`] in place.
    hardtanh_with_ = hardtanh_with(lo: float, hi: float);
    /// [`Var::round_with`] in place.
    round_with_ = round_with(decimals: places);
    /// [`Var::nan_to_num_with`] in place.
    nan_to_num_with_ = nan_to_num_with(nan: float, posinf: float, neginf: float);
}
