//! Rows of the elementary functions, a row per line of the list in `foldback-tensor` (`kernels/elementary.rs`).

use super::macros::pointwise;

macro_rules! list {
    ($(
        $(#[$doc:meta])*
        $name:ident $name_:ident(
            $x:ident => $y:ident: |$g:ident, $read:ident| $slope:ident $op:tt $factor:expr, $domain:ident, $at:literal => $value:literal $(, $near:ident)?
        );
    )*) => {
        pointwise! {
            in rows;

            $(
            $(#[$doc])*
            pub fn $name($x) -> Var = $x.$name() => $y;
                d $x: |$g, $read| $slope $op $factor $(, $near)?;
                check($domain);
            )*
        }
    };
}
foldback_tensor::__elementary!(list);

pub(super) use rows::ALL;
