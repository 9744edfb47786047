//! What a fused operation is called with: arrays and tuples of variables, tensors and numbers.

use foldback_tensor::{DType, Tensor};

use super::derived::PerOperand;
use crate::record::Input;
use crate::var::Var;

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
pub trait Operands<'a, const N: usize> {
    /// The operands in order.
    fn inputs(self) -> [Input<'a>; N];
}

impl<'a, T: Into<Input<'a>>, const N: usize> Operands<'a, N> for [T; N] {
    fn inputs(self) -> [Input<'a>; N] {
        self.map(Into::into)
    }
}

macro_rules! tuples {
    ($($n:literal: $($t:ident $at:tt),+;)*) => {$(
        impl<'a, $($t: Into<Input<'a>>),+> Operands<'a, $n> for ($($t,)+) {
            fn inputs(self) -> [Input<'a>; $n] {
                [$(self.$at.into()),+]
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

/// The operands as variables. A number has no say in the type: it takes that of the others.
pub(super) fn variables(inputs: &[Input<'_>]) -> PerOperand<Var> {
    let dtype = |input: &Input<'_>| match input {
        Input::Var(v) => Some(v.dtype()),
        Input::Tensor(t) => Some(t.dtype()),
        Input::Scalar(_) => None,
    };
    let common = inputs.iter().filter_map(dtype).fold(DType::Bool, DType::promote).to_float();
    let variable = |input: &Input<'_>| match *input {
        Input::Var(v) => v.clone(),
        Input::Tensor(t) => Var::constant(t.clone()),
        Input::Scalar(s) => Var::constant(Tensor::full((), s, common)),
    };
    inputs.iter().map(variable).collect()
}
