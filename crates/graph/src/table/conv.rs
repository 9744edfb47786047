//! Rows of convolutions: three products that are each other's derivatives.

use foldback_tensor::kernel::Convolution;
use foldback_tensor::{Conv, Here};

use super::macros::function;
use crate::error::Result;
use crate::input::{AsInput, AsOptionalInput};
use crate::var::Var;

function! {
    in rows;

    /// The output of a convolution, given input and weight.
    fn convolution(x, w, [b]; plan: Convolution) = plan.output(x, w, b);
        d x: |g, w| g.convolution_input(w, (), plan.clone());
        d w: |g, x| g.convolution_weight(x, plan.clone());
        d b: |g| g.sum(plan.bias_axes());
        check {
            "padded": [[2, 2, 4, 3] Any, [3, 2, 3, 2] Any, [3] Any]
                |x| x[0].conv2d_with(&x[1], Conv::new().bias(&x[2]).padding(1));
            "steps, dilated": [[1, 1, 6, 5] Any, [2, 1, 2, 2] Any] |x| x[0].conv2d_with(&x[1], Conv::new().stride((2, 1)).dilation((1, 2)));
            "groups": [[2, 4, 3, 3] Any, [4, 2, 2, 2] Any, [4] Any] |x| x[0].conv2d_with(&x[1], Conv::new().bias(&x[2]).groups(2));
            "depthwise": [[2, 3, 4, 4] Any, [3, 1, 3, 3] Any] |x| x[0].conv2d_with(&x[1], Conv::new().groups(3).padding(1));
            "1 x 1": [[2, 3, 2, 2] Any, [4, 3, 1, 1] Any, [4] Any] |x| x[0].conv2d_with(&x[1], Conv::new().bias(&x[2]));
            "one axis": [[2, 2, 6] Any, [3, 2, 3] Any, [3] Any] |x| x[0].conv1d_with(&x[1], Conv::new().bias(&x[2]).stride(2));
            "no batch": [[2, 4, 4] Any, [3, 2, 2, 2] Any] |x| x[0].conv2d(&x[1]);
            "no batch, one axis": [[2, 6] Any, [3, 2, 2] Any, [3] Any] |x| x[0].conv1d_with(&x[1], Conv::new().bias(&x[2]));
            "nothing": [[0, 2, 4, 4] Any, [3, 2, 2, 2] Any, [3] Any] |x| x[0].conv2d_with(&x[1], Conv::new().bias(&x[2]));
        }

    /// The input's gradient of a convolution, given the output's and the weight.
    fn convolution_input(y, w, [b]; plan: Convolution) = plan.input(y, w, b);
        d y: |g, w| g.convolution(w, (), plan.clone());
        d w: |g, y| y.convolution_weight(g, plan.clone());
        d b: |g| g.sum(plan.bias_axes());
        check {
            "padded": [[2, 3, 3, 2] Any, [3, 2, 3, 2] Any, [2] Any]
                |x| x[0].conv_transpose2d_with(&x[1], Conv::new().bias(&x[2]).padding((1, 0)));
            "steps": [[1, 2, 3, 2] Any, [2, 1, 2, 3] Any]
                |x| x[0].conv_transpose2d_with(&x[1], Conv::new().stride((2, 3)).output_padding((1, 2)));
            "groups": [[2, 4, 3, 3] Any, [4, 1, 2, 2] Any, [2] Any]
                |x| x[0].conv_transpose2d_with(&x[1], Conv::new().bias(&x[2]).groups(2).dilation(2));
            "one axis": [[2, 2, 3] Any, [2, 3, 3] Any, [3] Any] |x| x[0].conv_transpose1d_with(&x[1], Conv::new().bias(&x[2]).stride(2));
            "no batch": [[2, 3, 3] Any, [2, 3, 2, 2] Any, [3] Any] |x| x[0].conv_transpose2d_with(&x[1], Conv::new().bias(&x[2]));
            "nothing": [[0, 2, 3, 3] Any, [2, 3, 2, 2] Any] |x| x[0].conv_transpose2d(&x[1]);
        }

    /// The weight's gradient of a convolution, given the output's and the input.
    fn convolution_weight(y, x; plan: Convolution) = plan.weight(y, x);
        d y: |g, x| x.convolution(g, (), plan.clone());
        d x: |g, y| y.convolution_input(g, (), plan.clone());
        check {
            "padded": [[2, 3, 4, 3] Any, [2, 2, 4, 3] Any] |x| weight_gradient(x, [3, 2, 3, 3], Conv::new().padding(1));
            "groups, steps": [[1, 2, 2, 2] Any, [1, 4, 3, 3] Any] |x| weight_gradient(x, [2, 2, 2, 2], Conv::new().groups(2).padding(1).stride(2));
        }
}

pub(super) use rows::ALL;

/// The weight's gradient of the convolution that a weight of zeros has.
fn weight_gradient(x: &[Var], weight: [usize; 4], conv: Conv) -> Result<Var> {
    let zeros = foldback_tensor::Tensor::zeros_with(weight, x[1].dtype());
    let plan = Convolution::new("conv2d", &x[1].value_ref(), &zeros, 2, &conv)?;
    x[0].convolution_weight(&x[1], plan)
}

macro_rules! convolutions {
    ($($name:ident, $with:ident, $plan:ident, $row:ident, $axes:literal, $example:literal;)*) => {
        /// # Convolutions
        impl Var {$(
            #[doc = concat!("See [`Tensor::", stringify!($name), "`](foldback_tensor::Tensor::", stringify!($name), "). Gradients of any order are exact.")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($with), "`](foldback_tensor::Tensor::", stringify!($with), ").")]
            ///
            /// ```
            /// use foldback_graph::RequiresGrad;
            /// use foldback_tensor::{Conv, Tensor};
            #[doc = $example]
            /// # Ok::<(), foldback_graph::Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self, weight: impl AsInput) -> Result<Var> {
                let weight = weight.input().beside(self);
                let plan = Convolution::$plan(stringify!($name), &self.value_ref(), &weight.value_ref(), $axes, &Conv::new()).here()?;
                self.$row(&*weight, (), plan).here()
            }

            #[doc = concat!("[`Var::", stringify!($name), "`] with a bias, padding, steps, groups: see [`Conv`].")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($with), "`](foldback_tensor::Tensor::", stringify!($with), ").")]
            #[track_caller]
            pub fn $with(&self, weight: impl AsInput, options: Conv<impl AsOptionalInput>) -> Result<Var> {
                let (bias, conv) = options.without_bias();
                let weight = weight.input().beside(self);
                let plan = Convolution::$plan(stringify!($name), &self.value_ref(), &weight.value_ref(), $axes, &conv).here()?;
                self.$row(&*weight, bias, plan).here()
            }
        )*}
    };
}

convolutions! {
    conv1d, conv1d_with, new, convolution, 1,
    "let w = Tensor::ones([1, 1, 2]).requires_grad();\nTensor::ones([1, 1, 4]).requires_grad().conv1d(&w)?.sum(..)?.backward()?;\nassert_eq!(w.grad(), Some(Tensor::full([1, 1, 2], 3)));";
    conv2d, conv2d_with, new, convolution, 2,
    "let (w, b) = (Tensor::ones([1, 1, 2, 2]).requires_grad(), Tensor::zeros(1).requires_grad());\nlet x = Tensor::ones([1, 1, 4, 4]).requires_grad();\nx.conv2d_with(&w, Conv::new().bias(&b))?.sum(..)?.backward()?;\nassert_eq!(w.grad(), Some(Tensor::full([1, 1, 2, 2], 9)));\nassert_eq!(b.grad(), Some(Tensor::full(1, 9)));";
    conv_transpose1d, conv_transpose1d_with, transposed, convolution_input, 1,
    "let w = Tensor::ones([1, 1, 2]).requires_grad();\nTensor::ones([1, 1, 4]).requires_grad().conv_transpose1d(&w)?.sum(..)?.backward()?;\nassert_eq!(w.grad(), Some(Tensor::full([1, 1, 2], 4)));";
    conv_transpose2d, conv_transpose2d_with, transposed, convolution_input, 2,
    "let w = Tensor::ones([1, 1, 2, 2]).requires_grad();\nTensor::ones([1, 1, 3, 3]).requires_grad().conv_transpose2d(&w)?.sum(..)?.backward()?;\nassert_eq!(w.grad(), Some(Tensor::full([1, 1, 2, 2], 9)));";
}
