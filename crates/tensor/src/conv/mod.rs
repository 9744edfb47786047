//! Convolutions and their transposes, over one axis and two.

mod options;
mod plan;
mod rule;
#[cfg(test)]
mod tests;

pub use options::{Conv, Padding};
pub use plan::Convolution;

use crate::error::{Here, Result};
use crate::ops::{AsArg, AsOptionalArg};
use crate::tensor::Tensor;

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident, $with:ident, $transposed:literal, $axes:literal, $shapes:literal, $example:literal;)*) => {
        /// # Convolutions
        impl Tensor {$(
            $(#[$doc])*
            ///
            #[doc = $shapes]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($with), "`].")]
            ///
            /// ```
            /// use foldback_tensor::Tensor;
            #[doc = $example]
            /// # Ok::<(), foldback_tensor::Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self, weight: impl AsArg) -> Result<Tensor> {
                convolved(stringify!($name), self, &weight.arg().tensor(self.dtype()), None, &Conv::new(), $axes, $transposed).here()
            }

            #[doc = concat!("[`Tensor::", stringify!($name), "`] with a bias, padding, steps, groups: see [`Conv`].")]
            ///
            /// # Errors
            /// `Rank`, `MixedDTypes` unless all have one type, `DTypeUnsupported` for `Bool`, `Window` if the channels
            /// or groups do not fit or the kernel is larger than the padded input, `Parameter` for a setting outside its
            /// domain, `ShapeMismatch` for a bias of another size, `TooLarge`.
            #[track_caller]
            pub fn $with(&self, weight: impl AsArg, options: Conv<impl AsOptionalArg>) -> Result<Tensor> {
                let (bias, conv) = options.without_bias();
                let weight = weight.arg().tensor(self.dtype());
                convolved(stringify!($name), self, &weight, bias.optional_arg(), &conv, $axes, $transposed).here()
            }
        )*}
    };
}

convolutions! {
    /// The convolution over the last axis, as neural networks mean it: `out[o, i] = sum of self[c, i + t] * weight[o, c, t]` over
    /// channels and taps. PyTorch's `torch.nn.functional.conv1d`.
    conv1d, conv1d_with, false, 1,
    "An input `[n, in, l]` or `[in, l]` and a weight `[out, in / groups, k]` of the same type, no `Bool`, give `[n, out, l']` or `[out, l']` with `l' = (l + 2 padding - dilation (k - 1) - 1) / stride + 1`.",
    "let y = Tensor::ones([1, 2, 5]).conv1d(Tensor::ones([3, 2, 2]))?;\nassert_eq!(y, Tensor::full([1, 3, 4], 4));";
    /// The convolution over the last two axes, as neural networks mean it: `out[o, i, j] = sum of self[c, i + s, j + t] *
    /// weight[o, c, s, t]` over channels and taps. PyTorch's `torch.nn.functional.conv2d`.
    conv2d, conv2d_with, false, 2,
    "An input `[n, in, h, w]` or `[in, h, w]` and a weight `[out, in / groups, kh, kw]` of the same type, no `Bool`, give `[n, out, h', w']` or `[out, h', w']`, each size as in [`Tensor::conv1d`].",
    "let y = Tensor::ones([1, 2, 5, 5]).conv2d(Tensor::ones([3, 2, 2, 2]))?;\nassert_eq!(y, Tensor::full([1, 3, 4, 4], 8));";
    /// The transpose of a convolution over the last axis, which is the gradient of its input: each element is spread over
    /// the taps of the kernel. PyTorch's `torch.nn.functional.conv_transpose1d`.
    conv_transpose1d, conv_transpose1d_with, true, 1,
    "An input `[n, in, l]` or `[in, l]` and a weight `[in, out / groups, k]` of the same type, no `Bool`, give `[n, out, l']` or `[out, l']` with `l' = (l - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1`.",
    "let y = Tensor::ones([1, 2, 3]).conv_transpose1d(Tensor::ones([2, 1, 2]))?;\nassert_eq!(y.to_vec::<f32>()?, [2.0, 4.0, 4.0, 2.0]);";
    /// The transpose of a convolution over the last two axes, which is the gradient of its input: each element is spread over
    /// the taps of the kernel. PyTorch's `torch.nn.functional.conv_transpose2d`.
    conv_transpose2d, conv_transpose2d_with, true, 2,
    "An input `[n, in, h, w]` or `[in, h, w]` and a weight `[in, out / groups, kh, kw]` of the same type, no `Bool`, give `[n, out, h', w']` or `[out, h', w']`, each size as in [`Tensor::conv_transpose1d`].",
    "let y = Tensor::ones([1, 1, 2, 2]).conv_transpose2d(Tensor::ones([1, 1, 1, 2]))?;\nassert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 1.0, 2.0, 1.0]);";
}

fn convolved(
    op: &'static str,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    conv: &Conv,
    axes: usize,
    transposed: bool,
) -> Result<Tensor> {
    if transposed {
        Convolution::transposed(op, x, w, axes, conv)?.input(x, w, bias)
    } else {
        Convolution::new(op, x, w, axes, conv)?.output(x, w, bias)
    }
}
