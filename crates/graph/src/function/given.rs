//! What the closures of an operation return: outputs, with what is to be kept, and gradients.

use foldback_tensor::Tensor;
use smallvec::{SmallVec, smallvec};

use super::own::Given;
use crate::error::Result;
use crate::hooks::HookResult;
use crate::node::Var;

/// What the forward function of an [`Operation`](crate::Operation) returns: a tensor, an array of them, a pair of either
/// and what to keep for the backward function, or a `Result` of any of these. What is kept is of any type, and is dropped
/// when the backward function has run.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a forward function returns",
    label = "expected a tensor, an array of tensors, `(outputs, saved)`, or a `Result` of one of these"
)]
pub trait ForwardResult<const M: usize> {
    /// What the caller of the operation gets: a variable, or an array of them.
    type Vars;
    /// What the backward function gets by [`FunctionContext::saved`](crate::FunctionContext::saved).
    type Saved: Send + Sync + 'static;
    /// The outputs, and what is kept.
    ///
    /// # Errors
    /// That of the forward function.
    fn outputs(self) -> Result<([Tensor; M], Self::Saved)>;
    /// The outputs as variables, for the caller.
    fn variables(outputs: [Var; M]) -> Self::Vars;
}

impl ForwardResult<1> for Tensor {
    type Vars = Var;
    type Saved = ();
    fn outputs(self) -> Result<([Tensor; 1], ())> {
        Ok(([self], ()))
    }
    fn variables([output]: [Var; 1]) -> Var {
        output
    }
}
impl<const M: usize> ForwardResult<M> for [Tensor; M] {
    type Vars = [Var; M];
    type Saved = ();
    fn outputs(self) -> Result<([Tensor; M], ())> {
        Ok((self, ()))
    }
    fn variables(outputs: [Var; M]) -> [Var; M] {
        outputs
    }
}
impl<O: ForwardResult<M, Saved = ()>, S: Send + Sync + 'static, const M: usize> ForwardResult<M> for (O, S) {
    type Vars = O::Vars;
    type Saved = S;
    fn outputs(self) -> Result<([Tensor; M], S)> {
        Ok((self.0.outputs()?.0, self.1))
    }
    fn variables(outputs: [Var; M]) -> O::Vars {
        O::variables(outputs)
    }
}
impl<O: ForwardResult<M>, const M: usize> ForwardResult<M> for Result<O> {
    type Vars = O::Vars;
    type Saved = O::Saved;
    fn outputs(self) -> Result<([Tensor; M], O::Saved)> {
        self?.outputs()
    }
    fn variables(outputs: [Var; M]) -> O::Vars {
        O::variables(outputs)
    }
}

/// What the backward function of an [`Operation`](crate::Operation) returns for `N` inputs: a gradient (`Var`, `Tensor`, or
/// an `Option` of a variable) for one, an array or a tuple of gradients for several, `()` where there is none or all
/// are described by [`FunctionContext::fold`](crate::FunctionContext::fold), or a `Result` of any of these. In a tuple every
/// gradient may be a `Result`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a backward function of {N} inputs returns",
    label = "expected a gradient per input: a `Var` for one, `[a, b]` or `(a, None)` for two, `()` for none, or a `Result`"
)]
pub trait BackwardResult<const N: usize> {
    /// One per input, where there is one.
    ///
    /// # Errors
    /// That of the backward function.
    fn gradients(self) -> Result<SmallVec<[Option<Var>; 2]>>;
}

macro_rules! one {
    ($($t:ty),*) => {$(
        impl BackwardResult<1> for $t {
            fn gradients(self) -> Result<Given> {
                Ok(smallvec![self.replacement()?])
            }
        }
    )*};
}
one!(Var, Tensor, Option<Var>);

impl<const N: usize> BackwardResult<N> for () {
    fn gradients(self) -> Result<Given> {
        Ok((0..N).map(|_| None).collect())
    }
}
impl<const N: usize> BackwardResult<N> for [Var; N] {
    fn gradients(self) -> Result<Given> {
        Ok(self.into_iter().map(Some).collect())
    }
}
impl<const N: usize> BackwardResult<N> for [Option<Var>; N] {
    fn gradients(self) -> Result<Given> {
        Ok(self.into_iter().collect())
    }
}
impl<G: BackwardResult<N>, const N: usize> BackwardResult<N> for Result<G> {
    fn gradients(self) -> Result<Given> {
        self?.gradients()
    }
}
macro_rules! tuples {
    ($($n:literal: $($t:ident $at:tt),+;)*) => {$(
        impl<$($t: HookResult),+> BackwardResult<$n> for ($($t,)+) {
            fn gradients(self) -> Result<Given> {
                Ok(smallvec![$(self.$at.replacement()?),+])
            }
        }
    )*};
}
tuples! {
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
    7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
}
