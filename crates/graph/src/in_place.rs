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
}
