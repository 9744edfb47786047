//! Pooling.

use foldback_graph::{Value, Var};
use foldback_tensor::{Pair, Pool};

use crate::error::Result;
use crate::layer_path::in_layer;
use crate::{Module, forward};

macro_rules! pools {
    ($($(#[$doc:meta])* $layer:ident($call:ident, $size:ty, $stored:ty) { $($(#[$set_doc:meta])* $set:ident: $set_ty:ty;)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $layer {
            #[module(skip)]
            kernel_size: $stored,
            #[module(skip)]
            options: Pool,
        }

        impl $layer {
            /// Windows of this size, side by side.
            pub fn new(kernel_size: $size) -> $layer {
                $layer { kernel_size: kernel_size.into(), options: Pool::new() }
            }

            $(
                $(#[$set_doc])*
                #[must_use]
                pub fn $set(mut self, $set: $set_ty) -> $layer {
                    self.options = self.options.$set($set);
                    self
                }
            )*
        }

        #[forward]
        impl $layer {
            /// One number for each window and channel.
            ///
            /// # Errors
            /// `Rank` or `Window` if the input does not fit, `Parameter` for a setting outside its domain.
            #[track_caller]
            pub fn forward(&self, input: &Var) -> Result<Var> {
                input.$call(self.kernel_size, self.options)
            }
        }
    )*};
}

pools! {
    /// The largest elements of windows over the last axis, see [`Var::max_pool1d_with`]. PyTorch's
    /// [`MaxPool1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool1d.html).
    ///
    /// ```
    /// use foldback_nn::MaxPool1d;
    /// use foldback_tensor::tensor;
    /// assert_eq!(MaxPool1d::new(2).forward(&tensor![[1.0, 3.0, 2.0, 0.0]])?.value(), tensor![[3.0, 2.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    MaxPool1d(max_pool1d_with, usize, usize) {
        /// By how much windows move. The default is their size.
        stride: usize;
        /// How much is added at both ends, which is never the largest. The default is 0.
        padding: usize;
        /// The distance of a window's elements. The default is 1.
        dilation: usize;
        /// Whether a last window may reach over the end.
        ceil_mode: bool;
    }
    /// The largest elements of windows over the last two axes, see [`Var::max_pool2d_with`]. PyTorch's
    /// [`MaxPool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html).
    ///
    /// ```
    /// use foldback_nn::MaxPool2d;
    /// use foldback_tensor::Tensor;
    /// assert_eq!(MaxPool2d::new(2).forward(&Tensor::ones([5, 3, 8, 6]))?.shape(), [5, 3, 4, 3]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    MaxPool2d(max_pool2d_with, impl Into<Pair>, Pair) {
        /// By how much windows move. The default is their size.
        stride: impl Into<Pair>;
        /// How much is added at both ends, which is never the largest. The default is 0.
        padding: impl Into<Pair>;
        /// The distance of a window's elements. The default is 1.
        dilation: impl Into<Pair>;
        /// Whether a last window may reach over the end.
        ceil_mode: bool;
    }
    /// The means of windows over the last axis, see [`Var::avg_pool1d_with`]. PyTorch's
    /// [`AvgPool1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool1d.html).
    ///
    /// ```
    /// use foldback_nn::AvgPool1d;
    /// use foldback_tensor::tensor;
    /// assert_eq!(AvgPool1d::new(2).forward(&tensor![[1.0, 3.0, 2.0, 0.0]])?.value(), tensor![[2.0, 1.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    AvgPool1d(avg_pool1d_with, usize, usize) {
        /// By how much windows move. The default is their size.
        stride: usize;
        /// How many zeros are added at both ends. The default is 0.
        padding: usize;
        /// Whether a last window may reach over the end.
        ceil_mode: bool;
        /// Whether the zeros of the padding are counted. The default is yes.
        count_include_pad: bool;
    }
    /// The means of windows over the last two axes, see [`Var::avg_pool2d_with`]. PyTorch's
    /// [`AvgPool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool2d.html).
    ///
    /// ```
    /// use foldback_nn::AvgPool2d;
    /// use foldback_tensor::Tensor;
    /// assert_eq!(AvgPool2d::new((2, 3)).forward(&Tensor::ones([5, 3, 8, 6]))?.shape(), [5, 3, 4, 2]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    AvgPool2d(avg_pool2d_with, impl Into<Pair>, Pair) {
        /// By how much windows move. The default is their size.
        stride: impl Into<Pair>;
        /// How many zeros are added at both ends. The default is 0.
        padding: impl Into<Pair>;
        /// Whether a last window may reach over the end.
        ceil_mode: bool;
        /// Whether the zeros of the padding are counted. The default is yes.
        count_include_pad: bool;
        /// What a sum is divided by, instead of the number of elements.
        divisor_override: impl TryInto<i64>;
    }
}

macro_rules! places {
    ($($layer:ident($call:ident);)*) => {$(
        impl $layer {
            /// The output, and where the largest elements lie in the flat images (PyTorch's `return_indices`): what the layer that
            /// undoes this one takes.
            ///
            /// # Errors
            /// As `forward`.
            #[track_caller]
            pub fn forward_with_indices(&self, input: impl Value) -> Result<(Var, Var)> {
                in_layer(self, input.as_var().$call(self.kernel_size, self.options))
            }
        }
    )*};
}

places! {
    MaxPool1d(max_pool1d_with_indices);
    MaxPool2d(max_pool2d_with_indices);
}
