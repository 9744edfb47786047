//! Rows of convolutions: three products that are each other's derivatives.

use foldback_tensor::kernel::Convolution;
use foldback_tensor::{Conv, Here, Shape};

use super::function_rows::function;
use crate::error::Result;
use crate::input::{AsInput, AsOptionalInput};
use crate::lead::Lead;
use crate::node::Var;

function! {
    in rows;

    /// The output of a convolution, given input and weight.
    fn convolution(x, w, [b]; plan: Convolution) = plan.output(x, w, b);
        d x: |g, w| input_of(g, w, &plan, n);
        t: |t, w| output_of(t, w, &plan, n);
        d w: |g, x| weight_of_many(g, x, &plan, n);
        t: |t, x| output_by_many(x, t, &plan, n);
        d b: |g| of_bias(g, &plan, n);
        t: |t| along_channels(t, &plan);
        over leading axes (n);
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
        d y: |g, w| output_of(g, w, &plan, n);
        t: |t, w| input_of(t, w, &plan, n);
        d w: |g, y| weight_by_many(y, g, &plan, n);
        t: |t, y| input_by_many(y, t, &plan, n);
        d b: |g| of_bias(g, &plan, n);
        t: |t| along_channels(t, &plan);
        over leading axes (n);
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
        d y: |g, x| output_by_many(x, g, &plan, n);
        t: |t, x| weight_of_many(t, x, &plan, n);
        d x: |g, y| input_by_many(y, g, &plan, n);
        t: |t, y| weight_by_many(y, t, &plan, n);
        over leading axes (n);
        check {
            "padded": [[2, 3, 4, 3] Any, [2, 2, 4, 3] Any] |x| weight_gradient(x, [3, 2, 3, 3], Conv::new().padding(1));
            "groups, steps": [[1, 2, 2, 2] Any, [1, 4, 3, 3] Any] |x| weight_gradient(x, [2, 2, 2, 2], Conv::new().groups(2).padding(1).stride(2));
        }
}

pub(super) use rows::ALL;

// Note [Many convolutions in one]
// What stands along a leading axis is computed by one convolution. Many inputs or outputs by one weight are more items. Where
// the other factor is the same for all, each of the many has channels of its own: of the output where the input is the same,
// and of the input where the output is. Channels are apart by groups, so the many stand behind these.

fn output_of(x: &Var, w: &Var, plan: &Convolution, n: Lead) -> Result<Var> {
    let Some(count) = n.0 else { return x.convolution(w, (), plan.clone()) };
    let all = plan.clone().of_items(count);
    x.reshape(all.shapes()[0])?.convolution(w, (), all)?.reshape(n.shape(plan.shapes()[2]))
}

fn input_of(y: &Var, w: &Var, plan: &Convolution, n: Lead) -> Result<Var> {
    let Some(count) = n.0 else { return y.convolution_input(w, (), plan.clone()) };
    let all = plan.clone().of_items(count);
    y.reshape(all.shapes()[2])?.convolution_input(w, (), all)?.reshape(n.shape(plan.shapes()[0]))
}

fn output_by_many(x: &Var, w: &Var, plan: &Convolution, n: Lead) -> Result<Var> {
    let Some(count) = n.0 else { return x.convolution(w, (), plan.clone()) };
    let w = among(w, 0, plan.groups(), n)?;
    let y = x.convolution(w, (), plan.clone().of_rows(count))?;
    in_front(&y, plan.shapes()[2], plan.channel_axis(), plan.groups(), n)
}

fn input_by_many(y: &Var, w: &Var, plan: &Convolution, n: Lead) -> Result<Var> {
    let Some(count) = n.0 else { return y.convolution_input(w, (), plan.clone()) };
    let x = y.convolution_input(among(w, 1, 1, n)?, (), plan.clone().of_channels(count))?;
    in_front(&x, plan.shapes()[0], plan.channel_axis(), plan.groups(), n)
}

fn weight_of_many(y: &Var, x: &Var, plan: &Convolution, n: Lead) -> Result<Var> {
    let Some(count) = n.0 else { return y.convolution_weight(x, plan.clone()) };
    let y = among(y, plan.channel_axis(), plan.groups(), n)?;
    in_front(&y.convolution_weight(x, plan.clone().of_rows(count))?, plan.shapes()[1], 0, plan.groups(), n)
}

fn weight_by_many(y: &Var, x: &Var, plan: &Convolution, n: Lead) -> Result<Var> {
    let Some(count) = n.0 else { return y.convolution_weight(x, plan.clone()) };
    let x = among(x, plan.channel_axis(), plan.groups(), n)?;
    in_front(&y.convolution_weight(x, plan.clone().of_channels(count))?, plan.shapes()[1], 1, 1, n)
}

fn of_bias(g: &Var, plan: &Convolution, n: Lead) -> Result<Var> {
    g.sum(n.list(&plan.bias_axes().into(), g.rank()))
}

/// A number for each channel, at every position.
fn along_channels(t: &Var, plan: &Convolution) -> Result<Var> {
    let positions = plan.shapes()[1].rank() - 2;
    (0..positions).try_fold(t.clone(), |t, _| t.unsqueeze(-1))
}

/// The leading axis as a part of another one, behind its groups.
fn among(v: &Var, axis: usize, groups: usize, n: Lead) -> Result<Var> {
    let own = &v.dims()[n.axes()..];
    let split = [&v.dims()[..=axis], &[groups, own[axis] / groups], &own[axis + 1..]].concat();
    let mut joined = own.to_vec();
    joined[axis] = own[axis].saturating_mul(v.dims()[0]);
    v.reshape(split)?.movedim(0, axis + 1)?.reshape(joined)
}

/// What is a part of an axis, behind its groups, as a leading axis in front of `own`.
fn in_front(v: &Var, own: &Shape, axis: usize, groups: usize, n: Lead) -> Result<Var> {
    let Some(count) = n.0 else { return Ok(v.clone()) };
    let split = [&own[..axis], &[groups, count, own[axis] / groups], &own[axis + 1..]].concat();
    v.reshape(split)?.movedim(axis + 1, 0)?.reshape(n.shape(own))
}

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
