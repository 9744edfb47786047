//! The settings of a convolution.

use crate::shape::Pair;

/// Zeros around the input of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// so many on either side of both axes
    By(Pair),
    /// as many as keep the sizes; where their number is odd, one more behind than in front
    Same,
    /// none
    Valid,
}

impl<P: Into<Pair>> From<P> for Padding {
    fn from(pair: P) -> Padding {
        Padding::By(pair.into())
    }
}

/// The settings of a convolution: PyTorch's keywords, each with its default.
///
/// Sizes are numbers for both axes or pairs; a convolution over one axis takes numbers. The bias is whatever operand may
/// stand beside the input: a tensor, or beside a variable a variable.
///
/// ```
/// use foldback_tensor::{Conv, Padding, Tensor};
/// let (x, w, b) = (Tensor::ones([1, 2, 8, 8]), Tensor::ones([4, 2, 3, 3]), Tensor::zeros(4));
/// let y = x.conv2d_with(&w, Conv::new().bias(&b).padding(1).stride((2, 1)))?;
/// assert_eq!(y.dims(), [1, 4, 4, 8]);
/// let y = x.conv2d_with(&w, Conv::new().padding(Padding::Same))?;
/// assert_eq!(y.dims(), [1, 4, 8, 8]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Conv<B = ()> {
    bias: B,
    pub(super) stride: Pair,
    pub(super) padding: Padding,
    pub(super) dilation: Pair,
    pub(super) groups: usize,
    pub(super) output_padding: Pair,
}

impl Conv {
    /// No bias, a stride and a dilation of 1, one group, no padding.
    pub fn new() -> Conv {
        let (one, none) = (Pair::from(1), Pair::from(0));
        Conv { bias: (), stride: one, padding: none.into(), dilation: one, groups: 1, output_padding: none }
    }
}

impl Default for Conv {
    fn default() -> Conv {
        Conv::new()
    }
}

impl<B> Conv<B> {
    /// What is added to each output channel: as many numbers.
    pub fn bias<T>(self, bias: T) -> Conv<T> {
        self.with(bias).1
    }

    /// How far the kernel moves from one result to the next.
    pub fn stride(mut self, stride: impl Into<Pair>) -> Self {
        self.stride = stride.into();
        self
    }

    /// Zeros around the input: numbers, [`Padding::Same`] or [`Padding::Valid`]. Of a transposed convolution, how much less
    /// of the output there is on each side: numbers only.
    pub fn padding(mut self, padding: impl Into<Padding>) -> Self {
        self.padding = padding.into();
        self
    }

    /// How far apart the elements are that neighbouring taps of the kernel meet.
    pub fn dilation(mut self, dilation: impl Into<Pair>) -> Self {
        self.dilation = dilation.into();
        self
    }

    /// Groups of channels, each convolved on its own; they divide the channels of input and output.
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// How much more there is of a transposed convolution's output behind: less than the stride or the dilation.
    pub fn output_padding(mut self, output_padding: impl Into<Pair>) -> Self {
        self.output_padding = output_padding.into();
        self
    }

    /// The bias, and the settings with another one.
    fn with<T>(self, other: T) -> (B, Conv<T>) {
        let Conv { bias, stride, padding, dilation, groups, output_padding } = self;
        (bias, Conv { bias: other, stride, padding, dilation, groups, output_padding })
    }

    /// The bias, and the settings without it.
    #[doc(hidden)]
    pub fn without_bias(self) -> (B, Conv) {
        self.with(())
    }
}
