//! Convolutions, and their transposes.

use foldback_graph::Var;
use foldback_tensor::{Conv, DType, Here, Pad, Padding, Pair, refuse};

use super::making::{Drawing, Drawn, blank, bound, clear, has, making};
use crate::error::{NnFacts, Result};
use crate::init::{Init, Nonlinearity, fans};
use crate::{Module, forward};

/// Refuses groups that do not divide the channels.
fn expect_groups(op: &'static str, groups: usize, channels: [usize; 2]) -> Result<()> {
    if groups > 0 && channels.iter().all(|c| c % groups == 0) {
        return Ok(());
    }
    let sizes = vec![("in_channels", channels[0]), ("out_channels", channels[1])];
    refuse(NnFacts::NoDivisor { op, name: "groups", value: groups, sizes })
}

/// Weight and bias of PyTorch's convolutions: both uniform, within one over the root of what goes into an output.
#[track_caller]
fn draw(
    drawing: &mut Drawing<'_>,
    weight: &mut Var,
    bias: Option<&mut Var>,
    shape: &[usize],
    out: usize,
    dtype: DType,
) -> Result<()> {
    let (fan, _) = fans(&shape.into())?;
    drawing.fill(weight, shape, Init::kaiming_uniform(Nonlinearity::LeakyReLU(5f64.sqrt())), dtype)?;
    drawing.fill(bias, &[out], bound(fan), dtype)
}

macro_rules! convolution {
    ($(#[$doc:meta])* $layer:ident($op:literal, $call:ident, $size:ty, $stored:ty, |$kernel:ident| $sizes:expr);) => {
        $(#[$doc])*
        #[derive(Clone, Module)]
        pub struct $layer {
            /// `[out, in / groups, ..]`, the last axes the kernel's
            pub weight: Var,
            /// `[out]`, if there is one
            pub bias: Option<Var>,
            in_channels: usize,
            out_channels: usize,
            #[module(skip)]
            kernel_size: $stored,
            #[module(skip)]
            stride: $stored,
            #[module(skip)]
            padding: Padding,
            #[module(skip)]
            dilation: $stored,
            groups: usize,
            #[module(skip)]
            padding_mode: Pad,
            #[module(skip)]
            dtype: DType,
        }

        making! {
            $layer(in_channels: usize, out_channels: usize, kernel_size: $size) = $layer {
                weight: blank(),
                bias: Some(blank()),
                in_channels,
                out_channels,
                kernel_size: kernel_size.into(),
                stride: 1usize.into(),
                padding: 0usize.into(),
                dilation: 1usize.into(),
                groups: 1,
                padding_mode: Pad::Constant(0.into()),
                dtype: DType::F32,
            };
            shown { in_channels out_channels kernel_size groups dtype }
            keep {
                /// By how much the kernel moves. The default is 1.
                stride: $size;
                /// What is added around the input: numbers, [`Padding::Same`] or [`Padding::Valid`]. The default is nothing.
                padding: impl Into<Padding>;
                /// The distance of the kernel's taps. The default is 1.
                dilation: $size;
                /// What padding is made of. The default is zeros.
                padding_mode: impl Into<Pad>;
            }
            anew {
                /// The number of groups of channels that are apart from each other. The default is 1. Parameters are drawn anew.
                groups: usize, |layer| {
                    layer.groups = groups;
                    layer.clear();
                };
                /// Whether there is a bias. The default is yes. One that was not there is drawn.
                bias: bool, |layer| has(&mut layer.bias, bias);
            }
        }

        impl Drawn for $layer {
            fn clear(&mut self) {
                self.weight = blank();
                clear([&mut self.bias]);
            }

            #[track_caller]
            fn draw(&mut self, drawing: &mut Drawing<'_>) -> Result<()> {
                expect_groups($op, self.groups, [self.in_channels, self.out_channels])?;
                let $kernel = self.kernel_size;
                let shape = [&[self.out_channels, self.in_channels / self.groups][..], &$sizes].concat();
                draw(drawing, &mut self.weight, self.bias.as_mut(), &shape, self.out_channels, self.dtype)
            }
        }

        #[forward]
        impl $layer {
            /// The convolution of the input.
            ///
            /// # Errors
            /// `Rank`, `Window` or `MixedDTypes` if the input does not fit, `Parameter` for a setting outside its domain.
            #[track_caller]
            pub fn forward(&self, input: &Var) -> Result<Var> {
                let options = Conv::new().bias(&self.bias).stride(self.stride).dilation(self.dilation);
                let options = options.groups(self.groups).padding(self.padding);
                if self.padding_mode == Pad::Constant(0.into()) {
                    return input.$call(&self.weight, options);
                }
                let [kernel, dilation] = [self.kernel_size, self.dilation].map(|$kernel| $sizes.to_vec());
                let one: $stored = 1usize.into();
                if self.padding == Padding::Same && self.stride != one {
                    let (name, expected) = ("padding", "numbers, or a stride of 1");
                    return refuse(NnFacts::Parameter { op: $op, name, value: f64::NAN, expected }).here();
                }
                let padded = input.pad_with(widths(self.padding, &kernel, &dilation), self.padding_mode)?;
                padded.$call(&self.weight, options.padding(0usize))
            }
        }
    };
}

/// What is added to both ends of each of a kernel's axes, the last one first.
fn widths(padding: Padding, kernel: &[usize], dilation: &[usize]) -> Vec<usize> {
    let ends = |axis: usize| match padding {
        Padding::By(pair) => [pair.get()[axis]; 2],
        Padding::Valid => [0; 2],
        Padding::Same => {
            let all = dilation[axis].saturating_mul(kernel[axis].saturating_sub(1));
            [all / 2, all - all / 2]
        }
    };
    (0..kernel.len()).rev().flat_map(ends).collect()
}

convolution! {
    /// Convolution over the last axis: `[n, in, l]` or `[in, l]` to `[n, out, l']` or `[out, l']`, see [`Var::conv1d_with`]. PyTorch's
    /// [`Conv1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv1d.html).
    ///
    /// Weight and bias start uniform between `-1/sqrt(k)` and `1/sqrt(k)`, `k` the numbers that go into an output.
    /// A clone shares the weights, [`deep_copy`](Module::deep_copy) does not.
    ///
    /// ```
    /// use foldback_nn::Conv1d;
    /// use foldback_tensor::Tensor;
    /// let layer = Conv1d::new(2, 4, 3).padding(1).stride(2);
    /// assert_eq!(layer.forward(&Tensor::zeros([5, 2, 8]))?.shape(), [5, 4, 4]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Conv1d("conv1d", conv1d_with, usize, usize, |k| [k]);
}

convolution! {
    /// Convolution over the last two axes: `[n, in, h, w]` or `[in, h, w]` to `[n, out, h', w']` or `[out, h', w']`, see
    /// [`Var::conv2d_with`]. PyTorch's [`Conv2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html).
    ///
    /// Weight and bias start uniform between `-1/sqrt(k)` and `1/sqrt(k)`, `k` the numbers that go into an output.
    /// A clone shares the weights, [`deep_copy`](Module::deep_copy) does not.
    ///
    /// ```
    /// use foldback_nn::Conv2d;
    /// use foldback_tensor::{Pad, Padding, Tensor};
    /// let layer = Conv2d::new(1, 8, (3, 5)).padding(Padding::Same).padding_mode(Pad::Reflect).bias(false);
    /// assert_eq!(layer.weight.shape(), [8, 1, 3, 5]);
    /// assert_eq!(layer.forward(&Tensor::zeros([4, 1, 6, 6]))?.shape(), [4, 8, 6, 6]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Conv2d("conv2d", conv2d_with, impl Into<Pair>, Pair, |k| k.get());
}

macro_rules! transposed {
    ($(#[$doc:meta])* $layer:ident($op:literal, $call:ident, $size:ty, $stored:ty, |$kernel:ident| $sizes:expr);) => {
        $(#[$doc])*
        #[derive(Clone, Module)]
        pub struct $layer {
            /// `[in, out / groups, ..]`, the last axes the kernel's
            pub weight: Var,
            /// `[out]`, if there is one
            pub bias: Option<Var>,
            in_channels: usize,
            out_channels: usize,
            #[module(skip)]
            kernel_size: $stored,
            #[module(skip)]
            stride: $stored,
            #[module(skip)]
            padding: $stored,
            #[module(skip)]
            output_padding: $stored,
            #[module(skip)]
            dilation: $stored,
            groups: usize,
            #[module(skip)]
            dtype: DType,
        }

        making! {
            $layer(in_channels: usize, out_channels: usize, kernel_size: $size) = $layer {
                weight: blank(),
                bias: Some(blank()),
                in_channels,
                out_channels,
                kernel_size: kernel_size.into(),
                stride: 1usize.into(),
                padding: 0usize.into(),
                output_padding: 0usize.into(),
                dilation: 1usize.into(),
                groups: 1,
                dtype: DType::F32,
            };
            shown { in_channels out_channels kernel_size groups dtype }
            keep {
                /// By how much the kernel moves over the output. The default is 1.
                stride: $size;
                /// By how much less comes out at each end. The default is 0.
                padding: $size;
                /// By how much more comes out at the last ends, less than the stride or the dilation. The default is 0.
                output_padding: $size;
                /// The distance of the kernel's taps. The default is 1.
                dilation: $size;
            }
            anew {
                /// The number of groups of channels that are apart from each other. The default is 1. Parameters are drawn anew.
                groups: usize, |layer| {
                    layer.groups = groups;
                    layer.clear();
                };
                /// Whether there is a bias. The default is yes. One that was not there is drawn.
                bias: bool, |layer| has(&mut layer.bias, bias);
            }
        }

        impl Drawn for $layer {
            fn clear(&mut self) {
                self.weight = blank();
                clear([&mut self.bias]);
            }

            #[track_caller]
            fn draw(&mut self, drawing: &mut Drawing<'_>) -> Result<()> {
                expect_groups($op, self.groups, [self.in_channels, self.out_channels])?;
                let $kernel = self.kernel_size;
                let shape = [&[self.in_channels, self.out_channels / self.groups][..], &$sizes].concat();
                draw(drawing, &mut self.weight, self.bias.as_mut(), &shape, self.out_channels, self.dtype)
            }
        }

        #[forward]
        impl $layer {
            /// The transposed convolution of the input.
            ///
            /// # Errors
            /// `Rank`, `Window` or `MixedDTypes` if the input does not fit, `Parameter` for a setting outside its domain.
            #[track_caller]
            pub fn forward(&self, input: &Var) -> Result<Var> {
                let options = Conv::new().bias(&self.bias).stride(self.stride).padding(self.padding);
                let options = options.output_padding(self.output_padding).dilation(self.dilation);
                input.$call(&self.weight, options.groups(self.groups))
            }
        }
    };
}

transposed! {
    /// Transposed convolution over the last axis: `[n, in, l]` or `[in, l]` to `[n, out, l']` or `[out, l']`, see
    /// [`Var::conv_transpose1d_with`]. PyTorch's
    /// [`ConvTranspose1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose1d.html).
    ///
    /// Weight and bias start uniform between `-1/sqrt(k)` and `1/sqrt(k)`, `k` the size of the weight behind its first axis.
    /// A clone shares the weights, [`deep_copy`](Module::deep_copy) does not.
    ///
    /// ```
    /// use foldback_nn::ConvTranspose1d;
    /// use foldback_tensor::Tensor;
    /// let layer = ConvTranspose1d::new(4, 2, 3).stride(2);
    /// assert_eq!(layer.forward(&Tensor::zeros([5, 4, 8]))?.shape(), [5, 2, 17]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ConvTranspose1d("conv_transpose1d", conv_transpose1d_with, usize, usize, |k| [k]);
}

transposed! {
    /// Transposed convolution over the last two axes: `[n, in, h, w]` or `[in, h, w]` to `[n, out, h', w']` or `[out, h', w']`, see
    /// [`Var::conv_transpose2d_with`]. PyTorch's
    /// [`ConvTranspose2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html).
    ///
    /// Weight and bias start uniform between `-1/sqrt(k)` and `1/sqrt(k)`, `k` the size of the weight behind its first axis.
    /// A clone shares the weights, [`deep_copy`](Module::deep_copy) does not.
    ///
    /// ```
    /// use foldback_nn::ConvTranspose2d;
    /// use foldback_tensor::Tensor;
    /// let layer = ConvTranspose2d::new(8, 1, 3).stride(2).padding(1).output_padding(1);
    /// assert_eq!(layer.forward(&Tensor::zeros([4, 8, 3, 3]))?.shape(), [4, 1, 6, 6]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ConvTranspose2d("conv_transpose2d", conv_transpose2d_with, impl Into<Pair>, Pair, |k| k.get());
}
