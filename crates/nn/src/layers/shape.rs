//! Layers that move elements: flattening, pixels, channels, enlarging.

use foldback_graph::Var;
use foldback_tensor::{Amounts, Factors, Here, Interpolate, InterpolateMode, Pair, Span, refuse};

use crate::error::{NnFacts, Result};
use crate::{Module, forward};

/// Its input. PyTorch's [`Identity`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Identity.html).
///
/// ```
/// use foldback_nn::Identity;
/// use foldback_tensor::tensor;
/// assert_eq!(Identity.forward(&tensor![1.0])?.value(), tensor![1.0]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Module)]
pub struct Identity;

#[forward]
impl Identity {
    /// The input.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        Ok(x.clone())
    }
}

/// One axis of several: `[n, ..]` to `[n, all the others]`, see [`Var::flatten`]. PyTorch's
/// [`Flatten`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Flatten.html).
///
/// ```
/// use foldback_nn::Flatten;
/// use foldback_tensor::Tensor;
/// let x = Tensor::ones([2, 3, 4]);
/// assert_eq!(Flatten::new().forward(&x)?.shape(), [2, 12]);
/// assert_eq!(Flatten::over(0..=1).forward(&x)?.shape(), [6, 4]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Flatten {
    #[module(skip)]
    span: Span,
}

impl Flatten {
    /// All axes but the first.
    pub fn new() -> Flatten {
        Flatten::over(1..)
    }

    /// These axes: PyTorch's `start_dim` and `end_dim` as a range.
    pub fn over(span: impl Into<Span>) -> Flatten {
        Flatten { span: span.into() }
    }
}

impl Default for Flatten {
    fn default() -> Flatten {
        Flatten::new()
    }
}

#[forward]
impl Flatten {
    /// The input with one axis of several.
    ///
    /// # Errors
    /// If it does not have these axes.
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        x.flatten(self.span)
    }
}

/// Several axes of one. PyTorch's [`Unflatten`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Unflatten.html).
///
/// ```
/// use foldback_nn::Unflatten;
/// use foldback_tensor::Tensor;
/// assert_eq!(Unflatten::new(1, [3, -1]).forward(&Tensor::ones([2, 12]))?.shape(), [2, 3, 4]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Unflatten {
    axis: isize,
    #[module(skip)]
    sizes: Amounts,
}

impl Unflatten {
    /// These sizes instead of that of an axis, which is their product; one may be -1.
    pub fn new(axis: isize, sizes: impl Into<Amounts>) -> Unflatten {
        Unflatten { axis, sizes: sizes.into() }
    }
}

#[forward]
impl Unflatten {
    /// The input with several axes of one.
    ///
    /// # Errors
    /// `InputShape` if it does not have this axis, or the sizes do not multiply to its size.
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        let sizes = self.sizes.as_slice();
        let at = if self.axis < 0 { self.axis + x.rank() as isize } else { self.axis };
        let axis = usize::try_from(at).ok().filter(|&axis| axis < x.rank());
        let Some((axis, sizes)) = axis.and_then(|axis| Some((axis, parts(sizes, x.dims()[axis])?))) else {
            let expected = format!("whose axis {} is the product of {sizes:?}", self.axis);
            return refuse(NnFacts::InputShape {
                op: "unflatten",
                name: "an input",
                expected,
                found: x.shape().clone(),
            })
            .here();
        };
        x.reshape([&x.dims()[..axis], &sizes, &x.dims()[axis + 1..]].concat())
    }
}

/// The sizes, with the one that is written as -1, if they multiply to this number.
fn parts(sizes: &[i64], size: usize) -> Option<Vec<usize>> {
    let known = sizes.iter().filter(|&&n| n != -1).map(|&n| usize::try_from(n).ok());
    let known = known.collect::<Option<Vec<usize>>>()?.into_iter().try_fold(1usize, usize::checked_mul)?;
    let free = sizes.iter().filter(|&&n| n == -1).count();
    let rest = if free == 1 { size.checked_div(known)? } else { 1 };
    let fits = free <= 1 && !sizes.is_empty() && known.checked_mul(rest) == Some(size);
    fits.then(|| sizes.iter().map(|&n| usize::try_from(n).unwrap_or(rest)).collect())
}

/// Enlarges lines or images: `[n, c, l]` or `[n, c, h, w]`, see [`Var::interpolate_with`]. PyTorch's
/// [`Upsample`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Upsample.html).
///
/// ```
/// use foldback_nn::Upsample;
/// use foldback_tensor::Tensor;
/// assert_eq!(Upsample::scale(2).forward(&Tensor::ones([1, 3, 4, 4]))?.shape(), [1, 3, 8, 8]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct Upsample {
    #[module(skip)]
    options: Interpolate,
}

impl Upsample {
    /// To this size.
    pub fn size(size: impl Into<Pair>) -> Upsample {
        Upsample { options: Interpolate::size(size) }
    }

    /// By this factor.
    pub fn scale(factor: impl Into<Factors>) -> Upsample {
        Upsample { options: Interpolate::scale(factor) }
    }

    /// What stands between the elements. The default is the nearest one.
    #[must_use]
    pub fn mode(mut self, mode: InterpolateMode) -> Upsample {
        self.options = self.options.mode(mode);
        self
    }

    /// Whether the corners of input and output are the centres of their elements, for modes that weigh elements.
    #[must_use]
    pub fn align_corners(mut self, align_corners: bool) -> Upsample {
        self.options = self.options.align_corners(align_corners);
        self
    }

    /// Whether a factor is taken anew from the size that it gives. The default is no.
    #[must_use]
    pub fn recompute_scale_factor(mut self, recompute_scale_factor: bool) -> Upsample {
        self.options = self.options.recompute_scale_factor(recompute_scale_factor);
        self
    }
}

#[forward]
impl Upsample {
    /// The enlarged input.
    ///
    /// # Errors
    /// As [`Var::interpolate_with`].
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        x.interpolate_with(self.options)
    }
}

macro_rules! factors {
    ($($(#[$doc:meta])* $layer:ident($call:ident, $factor:ident);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $layer {
            $factor: usize,
        }

        impl $layer {
            /// By this factor in both directions.
            pub fn new($factor: usize) -> $layer {
                $layer { $factor }
            }
        }

        #[forward]
        impl $layer {
            /// The moved pixels.
            ///
            /// # Errors
            /// If the factor does not divide the sizes.
            #[track_caller]
            pub fn forward(&self, x: &Var) -> Result<Var> {
                x.$call(self.$factor)
            }
        }
    )*};
}

factors! {
    /// Pixels of channels: `[.., c r r, h, w]` to `[.., c, h r, w r]`, see [`Var::pixel_shuffle`]. PyTorch's
    /// [`PixelShuffle`](https://docs.pytorch.org/docs/stable/generated/torch.nn.PixelShuffle.html).
    ///
    /// ```
    /// use foldback_nn::PixelShuffle;
    /// use foldback_tensor::Tensor;
    /// assert_eq!(PixelShuffle::new(2).forward(&Tensor::ones([1, 8, 3, 3]))?.shape(), [1, 2, 6, 6]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    PixelShuffle(pixel_shuffle, upscale_factor);
    /// Channels of pixels: `[.., c, h r, w r]` to `[.., c r r, h, w]`, see [`Var::pixel_unshuffle`]. PyTorch's
    /// [`PixelUnshuffle`](https://docs.pytorch.org/docs/stable/generated/torch.nn.PixelUnshuffle.html).
    ///
    /// ```
    /// use foldback_nn::PixelUnshuffle;
    /// use foldback_tensor::Tensor;
    /// assert_eq!(PixelUnshuffle::new(2).forward(&Tensor::ones([1, 2, 6, 6]))?.shape(), [1, 8, 3, 3]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    PixelUnshuffle(pixel_unshuffle, downscale_factor);
}

/// Channels in another order: of `g` groups the first ones, then the second ones, and so on. `[n, c, ..]`. PyTorch's
/// [`ChannelShuffle`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ChannelShuffle.html).
///
/// ```
/// use foldback_nn::ChannelShuffle;
/// use foldback_tensor::tensor;
/// let x = tensor![[[1.0], [2.0], [3.0], [4.0]]];
/// assert_eq!(ChannelShuffle::new(2).forward(&x)?.value(), tensor![[[1.0], [3.0], [2.0], [4.0]]]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct ChannelShuffle {
    groups: usize,
}

impl ChannelShuffle {
    /// So many groups, which divide the channels.
    pub fn new(groups: usize) -> ChannelShuffle {
        ChannelShuffle { groups }
    }
}

#[forward]
impl ChannelShuffle {
    /// The input with its channels in another order.
    ///
    /// # Errors
    /// `InputShape` for fewer than three axes, or if the groups do not divide the channels.
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        let groups = self.groups;
        if x.rank() < 3 || groups == 0 || !x.dims()[1].is_multiple_of(groups) {
            let expected = format!("[n, c, ..] with channels that {groups} groups divide");
            let (op, name, found) = ("channel_shuffle", "an input", x.shape().clone());
            return refuse(NnFacts::InputShape { op, name, expected, found }).here();
        }
        let (batch, own) = x.dims().split_at(1);
        let split = [batch, &[groups, own[0] / groups], &own[1..]].concat();
        x.reshape(split)?.transpose(1, 2)?.reshape(x.shape())
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::Tensor;

    use super::*;

    #[test]
    fn unflatten_refuses_what_does_not_multiply() {
        let x = Tensor::ones([2, 6]);
        for sizes in
            [vec![4, -1], vec![-1, -1], vec![0, -1], vec![2, 2], vec![-2, -3], vec![], vec![i64::MAX, 2]]
        {
            assert!(Unflatten::new(1, sizes.clone()).forward(&x).is_err(), "{sizes:?}");
        }
        let e = Unflatten::new(-3, [2]).forward(&x).unwrap_err().with_location(None).to_string();
        assert_eq!(
            e,
            "unflatten: expected an input of shape whose axis -3 is the product of [2], found [2, 6]"
        );
        assert_eq!(Unflatten::new(-1, [2, -1]).forward(&x).unwrap().shape(), [2, 2, 3]);
        assert_eq!(Unflatten::new(0, [-1]).forward(Tensor::ones([0, 3])).unwrap().shape(), [0, 3]);
    }

    #[test]
    fn channels_that_are_not_divided() {
        for (groups, shape) in [(0, vec![1, 4, 2]), (3, vec![1, 4, 2]), (2, vec![1, 4])] {
            let e = ChannelShuffle::new(groups).forward(Tensor::ones(shape)).unwrap_err().with_location(None);
            assert!(
                e.to_string().starts_with("channel_shuffle: expected an input of shape [n, c, ..] with"),
                "{e}"
            );
        }
    }
}
