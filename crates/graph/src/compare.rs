//! Comparisons, logic and bits: they give variables without history.

use foldback_tensor::Here;

use crate::error::Result;
use crate::input::{AsInput, Input};
use crate::node::Var;

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl Var {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// If the shapes do not broadcast, or the types have no such operation.
            #[track_caller]
            pub fn $name(&self, other: impl AsInput) -> Result<Var> {
                let own = self.value_ref();
                Ok(Var::constant(match other.input() {
                    Input::Var(v) => own.$name(&*v.value_ref()).here()?,
                    Input::Tensor(t) => own.$name(t).here()?,
                    Input::Scalar(s) => own.$name(s).here()?,
                }))
            }
        )*}
    };
}

compare! {
    /// Whether elements are equal: a `bool` variable, which requires no gradient.
    eq;
    /// Whether elements differ: a `bool` variable, which requires no gradient.
    ne;
    /// `self < other`: a `bool` variable, which requires no gradient.
    lt;
    /// `self <= other`: a `bool` variable, which requires no gradient.
    le;
    /// `self > other`: a `bool` variable, which requires no gradient.
    gt;
    /// `self >= other`: a `bool` variable, which requires no gradient.
    ge;
    /// Whether both are true: a `bool` variable, which requires no gradient.
    logical_and;
    /// Whether at least one is true: a `bool` variable, which requires no gradient.
    logical_or;
    /// Whether exactly one is true: a `bool` variable, which requires no gradient.
    logical_xor;
    /// The bits that both integers have, or whether both truth values are true: a variable that requires no gradient.
    bitwise_and;
    /// The bits that either integer has, or whether either truth value is true: a variable that requires no gradient.
    bitwise_or;
    /// The bits in which two integers differ, or whether two truth values do: a variable that requires no gradient.
    bitwise_xor;
}
