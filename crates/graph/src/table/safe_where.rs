//! A choice between branches of which the one that is not taken has no influence, whatever it computes.

use foldback_tensor::kernel::{expect_mask, expect_meant};
use foldback_tensor::{DType, Here, Tensor, broadcast_shapes};

use crate::error::Result;
use crate::input::AsInput;
use crate::mode::{LineGuard, location};
use crate::node::Var;

/// # Safe choices
impl Var {
    /// `yes` of the inputs where the condition is true, else `no` of them. All broadcast; each branch gets the inputs in their common
    /// shape, and computes with them element by element.
    ///
    /// The gradient of an element comes from its own branch alone, at every order. With
    /// [`where_cond`](Var::where_cond) it may be NaN: the branch that is not taken gets a gradient of 0, and where its
    /// derivative is infinite, 0 times infinity is NaN. Here each branch is computed for all elements, too, but with the first
    /// element that it takes in the place of those that it does not.
    ///
    /// # Errors
    /// `Broadcast`, `BroadcastRefused`; `DTypeMismatch` unless the condition is `Bool`; what the branches return.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let x = tensor![0.0, 4.0].requires_grad();
    /// let y = Var::safe_where(x.gt(0.0)?, [&x], |[x]| Ok(x.sqrt()), |[x]| Ok(x * 3.0))?;
    /// y.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![3.0, 0.25]));
    ///
    /// // The derivative of the square root at 0 is infinite, and 0 times that is NaN.
    /// x.zero_grad();
    /// x.gt(0.0)?.where_cond(&x.sqrt(), &x * 3.0)?.sum(..)?.backward()?;
    /// assert!(x.grad().unwrap().to_vec::<f32>()?[0].is_nan());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn safe_where<const N: usize>(
        condition: impl AsInput,
        inputs: [&Var; N],
        yes: impl FnOnce([&Var; N]) -> Result<Var>,
        no: impl FnOnce([&Var; N]) -> Result<Var>,
    ) -> Result<Var> {
        const OP: &str = "safe_where";
        let line = LineGuard::set(location());
        let condition = condition.input().into_var(DType::Bool);
        expect_mask(OP, &condition.value_ref(), None).here()?;
        let wide = spread(&condition, inputs).map_err(|e| e.named(OP)).here()?;
        let not = Var::constant(condition.value_ref().eq(0).here()?);
        let (if_yes, if_no) = (gated(&condition, &wide).here()?, gated(&not, &wide).here()?);
        drop(line);
        let yes = yes(std::array::from_fn(|i| &if_yes[i])).or_here()?;
        let no = no(std::array::from_fn(|i| &if_no[i])).or_here()?;
        condition.where_cond(&yes, &no).map_err(|e| e.named(OP)).here()
    }
}

/// The inputs in the shape that they and the condition have in common.
#[track_caller]
fn spread<const N: usize>(condition: &Var, inputs: [&Var; N]) -> Result<Vec<Var>> {
    for (i, v) in inputs.iter().enumerate() {
        for other in [condition].iter().chain(&inputs[..i]) {
            expect_meant("safe_where", &[&other.value_ref(), &v.value_ref()])?;
        }
    }
    let shapes = std::iter::once(condition).chain(inputs).map(|v| v.dims());
    let shape = broadcast_shapes(&shapes.collect::<Vec<_>>())?;
    inputs.into_iter().map(|v| if *v.shape() == shape { Ok(v.clone()) } else { v.expand(&shape) }).collect()
}

/// The inputs where they are taken, and elsewhere the first element that is: where a branch is right for that, it is
/// harmless for all.
#[track_caller]
fn gated(taken: &Var, inputs: &[Var]) -> Result<Vec<Var>> {
    let Some(shape) = inputs.first().map(Var::shape) else { return Ok(Vec::new()) };
    let mask = taken.value_ref().expand(shape)?;
    let first = mask.to_vec::<bool>()?.iter().position(|&is| is);
    let gate = |v: &Var| {
        let harmless = match first {
            Some(at) => element(&v.value_ref(), at)?,
            // In the domain of most functions.
            None if v.dtype().is_float() => Tensor::full_with((), 0.5, v.dtype()),
            None => Tensor::ones_with((), v.dtype()),
        };
        taken.where_cond(v, harmless).map_err(|e| e.named("safe_where"))
    };
    inputs.iter().map(gate).collect()
}

/// The element at a row-major position.
fn element(t: &Tensor, at: usize) -> Result<Tensor> {
    let (mut element, mut rest) = (t.clone(), at);
    for &size in t.dims().iter().rev() {
        element = element.select(-1, rest % size)?;
        rest /= size;
    }
    Ok(element)
}
