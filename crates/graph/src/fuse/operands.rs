//! What a fused operation is called with: arrays and tuples of variables, tensors and numbers.

use foldback_tensor::{DType, Tensor};

use super::derived::PerOperand;
use crate::input::{AsInput, Input, VarRef};
use crate::node::Var;

/// The operands of a fused operation: an array, or a tuple where they are of different kinds.
///
/// ```
/// use foldback_graph::{RequiresGrad, fuse};
/// use foldback_tensor::tensor;
/// let f = fuse!(|x, y| x * y);
/// let (x, y) = (tensor![2.0].requires_grad(), tensor![3.0].requires_grad());
/// assert_eq!(f.call([&x, &y])?.value(), tensor![6.0]);
/// assert_eq!(f.call((&x, 0.5))?.value(), tensor![1.0]);
/// assert_eq!(f.call((&tensor![[1.0], [4.0]], &x))?.value(), tensor![[2.0], [8.0]]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
pub trait Operands<const N: usize> {
    /// The operands in order.
    fn inputs(&self) -> [Input<'_>; N];
}

impl<T: AsInput, const N: usize> Operands<N> for [T; N] {
    fn inputs(&self) -> [Input<'_>; N] {
        self.each_ref().map(AsInput::input)
    }
}

macro_rules! tuples {
    ($($n:literal: $($t:ident $at:tt),+;)*) => {$(
        impl<$($t: AsInput),+> Operands<$n> for ($($t,)+) {
            fn inputs(&self) -> [Input<'_>; $n] {
                [$(self.$at.input()),+]
            }
        }
    )*};
}
tuples! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
    7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
}

/// Whether the operands are variables of one floating-point type.
pub(super) fn are_alike(inputs: &[Input<'_>]) -> bool {
    let dtype = inputs[0].dtype();
    let is_one = |input: &Input<'_>| matches!(input, Input::Var(v) if Some(v.dtype()) == dtype);
    dtype.is_some_and(DType::is_float) && inputs.iter().all(is_one)
}

/// The operands as variables whose types promote to that of the operation. Numbers, and 0-d operands that would widen
/// the others, are of that type.
#[track_caller]
pub(super) fn variables<'a>(inputs: &[Input<'a>]) -> PerOperand<VarRef<'a>> {
    let dtype = float_type(inputs);
    let mut variables = PerOperand::new();
    for input in inputs {
        let v = match input {
            Input::Scalar(s) => VarRef::Owned(Var::constant(Tensor::full_with((), *s, dtype))),
            other => other.into_var(dtype),
        };
        variables.push(if v.dtype().promote(dtype) == dtype { v } else { VarRef::Owned(v.to(dtype)) });
    }
    variables
}

/// The floating-point type that PyTorch's rules give an operation on these: operands with axes decide, unless only those
/// without are real numbers.
fn float_type(inputs: &[Input<'_>]) -> DType {
    if let Some(dtype) = inputs[0].dtype().filter(|dtype| dtype.is_float())
        && inputs.iter().all(|input| input.dtype() == Some(dtype))
    {
        return dtype;
    }
    let of_rank = |wanted: fn(usize) -> bool| {
        let dtype = |input: &Input<'_>| input.dtype().filter(|_| wanted(input.rank()));
        inputs.iter().filter_map(dtype).fold(DType::Bool, DType::promote)
    };
    let (with_axes, without) = (of_rank(|rank| rank > 0), of_rank(|rank| rank == 0));
    if with_axes.is_float() { with_axes } else { with_axes.promote(without).to_float() }
}
