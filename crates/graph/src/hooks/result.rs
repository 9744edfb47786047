//! What a hook may return.

use std::convert::Infallible;

use foldback_tensor::Tensor;

use crate::error::Result;
use crate::node::Var;

/// What a hook may return: nothing, what takes the place of what it saw, an `Option` of that, or a `Result` of any of
/// these, with whose error the pass fails.
///
/// What it may replace is `G`: one gradient for hooks on a variable, all of them (`Vec<Option<Var>>`) for those on a
/// [`GradFn`](crate::GradFn), and nothing (`Infallible`) for hooks that only look.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_tensor::{Error, tensor};
/// let x = tensor![1.0].requires_grad();
/// x.register_hook(|g| println!("{g}"))?;
/// x.register_hook(|g| g * 2.0)?;
/// x.register_hook(|g| if g.value().item_as::<f32>()? > 9.0 { Err(Error::other("it explodes")) } else { Ok(None) })?;
/// (&x * 3.0).backward()?;
/// assert_eq!(x.grad(), Some(tensor![6.0]));
/// assert_eq!((&x * 30.0).backward().unwrap_err().to_string(), "it explodes");
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what this hook may return",
    label = "a hook on a variable returns nothing or a gradient, one on a `GradFn` nothing or a `Vec<Option<Var>>`, others nothing",
    note = "an `Option` of a gradient and a `Result` of any of these will do, too"
)]
pub trait HookResult<G = Var> {
    /// What replaces what was seen, if anything does.
    ///
    /// # Errors
    /// What the hook returns, with which the pass fails.
    fn replacement(self) -> Result<Option<G>>;
}

impl<G> HookResult<G> for () {
    fn replacement(self) -> Result<Option<G>> {
        Ok(None)
    }
}
impl HookResult for Var {
    fn replacement(self) -> Result<Option<Var>> {
        Ok(Some(self))
    }
}
impl HookResult for Tensor {
    fn replacement(self) -> Result<Option<Var>> {
        Ok(Some(self.into()))
    }
}
impl HookResult for Option<Var> {
    fn replacement(self) -> Result<Option<Var>> {
        Ok(self)
    }
}
impl HookResult<Vec<Option<Var>>> for Vec<Option<Var>> {
    fn replacement(self) -> Result<Option<Vec<Option<Var>>>> {
        Ok(Some(self))
    }
}
impl HookResult<Vec<Option<Var>>> for Option<Vec<Option<Var>>> {
    fn replacement(self) -> Result<Option<Vec<Option<Var>>>> {
        Ok(self)
    }
}
impl<G, R: HookResult<G>> HookResult<G> for Result<R> {
    fn replacement(self) -> Result<Option<G>> {
        self?.replacement()
    }
}

/// The result of a hook that replaces nothing.
pub(super) fn looked(result: impl HookResult<Infallible>) -> Result<()> {
    result.replacement().map(|_| ())
}
