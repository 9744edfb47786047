//! The settings of pooling and of interpolation.

use crate::shape::Pair;

/// The settings of pooling: PyTorch's keywords, each with its default.
///
/// Sizes are numbers for both axes or pairs; pooling over one axis takes numbers.
///
/// ```
/// use foldback_tensor::{Pool, Tensor};
/// let x = Tensor::ones([1, 3, 8, 8]);
/// assert_eq!(x.max_pool2d_with(3, Pool::new().stride(2).padding(1))?.dims(), [1, 3, 4, 4]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    pub(super) stride: Option<Pair>,
    pub(super) padding: Pair,
    pub(super) dilation: Pair,
    pub(super) ceil_mode: bool,
    pub(super) count_include_pad: bool,
    pub(super) divisor_override: Option<i64>,
}

impl Pool {
    /// A stride as large as the window, no padding, a dilation of 1.
    pub fn new() -> Pool {
        Pool {
            stride: None,
            padding: 0.into(),
            dilation: 1.into(),
            ceil_mode: false,
            count_include_pad: true,
            divisor_override: None,
        }
    }

    /// How far the window moves from one result to the next: its own size, unless given.
    pub fn stride(mut self, stride: impl Into<Pair>) -> Pool {
        self.stride = Some(stride.into());
        self
    }

    /// So much more room on either side, at most half of the window: never taken for a maximum, zero for a mean.
    pub fn padding(mut self, padding: impl Into<Pair>) -> Pool {
        self.padding = padding.into();
        self
    }

    /// How far apart the elements of a window are. A mean has no such setting.
    pub fn dilation(mut self, dilation: impl Into<Pair>) -> Pool {
        self.dilation = dilation.into();
        self
    }

    /// Whether a last window that reaches beyond the padded input counts, if it begins inside the input or in front of it.
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Pool {
        self.ceil_mode = ceil_mode;
        self
    }

    /// Whether a mean counts the padding among its elements; true, unless given.
    pub fn count_include_pad(mut self, count_include_pad: bool) -> Pool {
        self.count_include_pad = count_include_pad;
        self
    }

    /// What the sum over a window is divided by, instead of the number of its elements.
    pub fn divisor_override(mut self, divisor: impl TryInto<i64>) -> Pool {
        self.divisor_override = Some(divisor.try_into().unwrap_or(i64::MAX));
        self
    }
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::new()
    }
}

/// How many times larger the axes of an image become: one number for both, or a pair.
///
/// ```
/// use foldback_tensor::Factors;
/// assert_eq!(Factors::from(2), Factors::from((2.0, 2.0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors(pub(super) [f64; 2]);

impl Factors {
    /// The factors of both axes.
    pub fn get(self) -> [f64; 2] {
        self.0
    }
}

macro_rules! factors {
    ($($t:ty)*) => {$(
        impl From<$t> for Factors {
            fn from(factor: $t) -> Factors {
                Factors([factor as f64; 2])
            }
        }
    )*};
}
factors!(f64 i32);

impl From<[f64; 2]> for Factors {
    fn from(factors: [f64; 2]) -> Factors {
        Factors(factors)
    }
}
impl From<(f64, f64)> for Factors {
    fn from((down, across): (f64, f64)) -> Factors {
        Factors([down, across])
    }
}

/// What new elements are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterpolateMode {
    /// the old one in front of its corner: the nearest one, but for half an element
    Nearest,
    /// the old one that its centre is in
    NearestExact,
    /// of a line: the two around it, weighted by how near they are
    Linear,
    /// of an image: the four around it, weighted by how near they are
    Bilinear,
    /// of an image: the sixteen around it, by a cubic curve through the four of each row and each column (Keys, "Cubic convolution
    /// interpolation for digital image processing", 1981, with a parameter of -0.75)
    Bicubic,
}

/// The settings of an interpolation: PyTorch's keywords.
///
/// ```
/// use foldback_tensor::{Interpolate, InterpolateMode, Tensor};
/// let x = Tensor::ones([1, 3, 4, 4]);
/// let y = x.interpolate_with(Interpolate::scale(2).mode(InterpolateMode::Bilinear))?;
/// assert_eq!(y.dims(), [1, 3, 8, 8]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Interpolate {
    pub(super) to: New,
    pub(super) mode: InterpolateMode,
    pub(super) align_corners: bool,
    pub(super) recompute_scale_factor: bool,
}

/// The new sizes, or what they are made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum New {
    Sizes(Pair),
    Factors(Factors),
}

impl Interpolate {
    fn new(to: New) -> Interpolate {
        let mode = InterpolateMode::Nearest;
        Interpolate { to, mode, align_corners: false, recompute_scale_factor: false }
    }

    /// To these sizes, by the nearest element.
    pub fn size(size: impl Into<Pair>) -> Interpolate {
        Interpolate::new(New::Sizes(size.into()))
    }

    /// So many times larger, rounded down, by the nearest element.
    pub fn scale(factor: impl Into<Factors>) -> Interpolate {
        Interpolate::new(New::Factors(factor.into()))
    }

    /// What new elements are made of.
    pub fn mode(mut self, mode: InterpolateMode) -> Interpolate {
        self.mode = mode;
        self
    }

    /// Whether the centres of the elements in the corners stay where they are, and not the corners of the image. Only for
    /// modes that weigh elements.
    pub fn align_corners(mut self, align_corners: bool) -> Interpolate {
        self.align_corners = align_corners;
        self
    }

    /// Whether elements are taken by the factor that the rounded sizes have, and not by the one given.
    pub fn recompute_scale_factor(mut self, recompute_scale_factor: bool) -> Interpolate {
        self.recompute_scale_factor = recompute_scale_factor;
        self
    }
}

/// How many parts adaptive pooling makes of both axes: a number for both, or one or `None` for each, which leaves it as it is.
///
/// ```
/// use foldback_tensor::Tensor;
/// let x = Tensor::ones([1, 3, 8, 6]);
/// assert_eq!(x.adaptive_avg_pool2d((None, 2))?.dims(), [1, 3, 8, 2]);
/// assert_eq!(x.adaptive_avg_pool2d([Some(4), None])?.dims(), [1, 3, 4, 6]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveSize(pub(super) [Option<usize>; 2]);

impl From<[Option<usize>; 2]> for AdaptiveSize {
    fn from(sizes: [Option<usize>; 2]) -> AdaptiveSize {
        AdaptiveSize(sizes)
    }
}
impl From<Pair> for AdaptiveSize {
    fn from(sizes: Pair) -> AdaptiveSize {
        AdaptiveSize(sizes.get().map(Some))
    }
}
macro_rules! from_sizes {
    ($($t:ty: $sizes:pat => $both:expr;)*) => {$(
        impl From<$t> for AdaptiveSize {
            fn from($sizes: $t) -> AdaptiveSize {
                AdaptiveSize::from($both)
            }
        }
    )*};
}
from_sizes! {
    usize: n => [Some(n), Some(n)];
    [usize; 2]: sizes => sizes.map(Some);
    (usize, usize): (h, w) => [Some(h), Some(w)];
    (Option<usize>, usize): (h, w) => [h, Some(w)];
    (usize, Option<usize>): (h, w) => [Some(h), w];
    (Option<usize>, Option<usize>): (h, w) => [h, w];
}
