//! Pooling, interpolation and the shuffling of pixels: what is done to images plane by plane.

mod options;
mod plan;
mod rule;
mod shuffle;
#[cfg(test)]
mod tests;

pub use options::{AdaptiveSize, Factors, Interpolate, InterpolateMode, Pool};
pub use rule::{Blended, Picked};

use crate::dtype::DType;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::planes::Windows;
use crate::ops::reduce::expect_float;
use crate::shape::Pair;
use crate::tensor::Tensor;
use plan::{Images, adaptive, expect_images, interpolation, sizes_of, slides};
use rule::Largest;

/// The windows of max pooling, and what becomes of the images.
fn windows_of(
    op: &'static str,
    x: &Tensor,
    axes: usize,
    kernel: Pair,
    pool: &Pool,
) -> Result<(Images, [Windows; 2])> {
    if x.dtype() == DType::Bool {
        return refuse(TensorFacts::DTypeUnsupported { op, dtype: DType::Bool });
    }
    expect_images(op, x, axes, true)?;
    let slides = slides(op, x, axes, kernel, pool)?;
    let images = Images::new(op, x, &sizes_of(&slides, axes), DType::I64)?;
    Ok((images, [slides[0].windows(op, x)?, slides[1].windows(op, x)?]))
}

#[doc(hidden)]
impl Picked {
    /// The largest elements of the windows of these images, and where they lie.
    ///
    /// # Errors
    /// As [`Tensor::max_pool2d_with`].
    pub fn largest(
        op: &'static str,
        x: &Tensor,
        axes: usize,
        kernel: Pair,
        pool: &Pool,
    ) -> Result<(Tensor, Picked)> {
        let (images, windows) = windows_of(op, x, axes, kernel, pool)?;
        Picked::of(images, windows, axes, x)
    }

    /// The largest elements of the windows of these images.
    ///
    /// # Errors
    /// As [`Tensor::max_pool2d_with`].
    pub fn values(op: &'static str, x: &Tensor, axes: usize, kernel: Pair, pool: &Pool) -> Result<Tensor> {
        let (images, windows) = windows_of(op, x, axes, kernel, pool)?;
        images.whole(&Largest(&windows), &[x], &images.input, &images.output)
    }
}

#[doc(hidden)]
impl Blended {
    /// The means over windows of these images.
    ///
    /// # Errors
    /// As [`Tensor::avg_pool2d_with`].
    pub fn means(op: &'static str, x: &Tensor, axes: usize, kernel: Pair, pool: &Pool) -> Result<Blended> {
        if x.dtype() == DType::Bool {
            return refuse(TensorFacts::DTypeUnsupported { op, dtype: DType::Bool });
        }
        if pool.dilation != Pair::from(1) {
            let (value, expected) = (format!("{:?}", pool.dilation.get()), "1: a mean has no dilation");
            return refuse(TensorFacts::Parameter { op, name: "dilation", value, expected });
        }
        if pool.divisor_override == Some(0) {
            let (name, value) = ("divisor_override", "0".into());
            return refuse(TensorFacts::Parameter { op, name, value, expected: "another number" });
        }
        expect_images(op, x, axes, true)?;
        let slides = slides(op, x, axes, kernel, pool)?;
        let images = Images::new(op, x, &sizes_of(&slides, axes), x.dtype())?;
        let rest = pool.divisor_override.map(|_| 1);
        let blends = [slides[0].mean(pool, pool.divisor_override), slides[1].mean(pool, rest)];
        Ok(Blended::new(images, blends))
    }

    /// The means over as many parts of each image as there are to be results.
    ///
    /// # Errors
    /// As [`Tensor::adaptive_avg_pool2d`].
    pub fn adaptive(op: &'static str, x: &Tensor, axes: usize, sizes: AdaptiveSize) -> Result<Blended> {
        expect_float(op, x)?;
        expect_images(op, x, axes, false)?;
        let own = &x.dims()[x.rank() - axes..];
        let sizes: Vec<usize> =
            sizes.0[2 - axes..].iter().zip(own).map(|(new, &own)| new.unwrap_or(own)).collect();
        let images = Images::new(op, x, &sizes, x.dtype())?;
        let across = adaptive(own[axes - 1], sizes[axes - 1]);
        let down = if axes == 1 { adaptive(1, 1) } else { adaptive(own[0], sizes[0]) };
        Ok(Blended::new(images, [down, across]))
    }

    /// An interpolation of these images.
    ///
    /// # Errors
    /// As [`Tensor::interpolate_with`].
    pub fn interpolation(op: &'static str, x: &Tensor, options: &Interpolate) -> Result<Blended> {
        expect_float(op, x)?;
        let (images, blends) = interpolation(op, x, options)?;
        Ok(Blended::new(images, blends))
    }
}

macro_rules! pools {
    ($($max:ident, $max_with:ident, $indices:ident, $avg:ident, $avg_with:ident, $kernel:ty, $axes:literal, $shape:literal, $example:literal, $place:literal;)*) => {
        /// # Pooling
        impl Tensor {$(
            /// The largest element of each window, which moves by its own size.
            #[doc = concat!("An input ", $shape, " gives the same with smaller sizes, of the same type, `F32`, `F64` or `I64`. NaN is the largest.")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($max_with), "`].")]
            ///
            /// ```
            /// use foldback_tensor::{Pool, Tensor, tensor};
            #[doc = $example]
            #[doc = concat!("assert_eq!(x.", stringify!($max), "(2)?.to_vec::<f32>()?, [4.0]);")]
            #[doc = concat!("assert_eq!(x.", stringify!($avg), "(2)?.to_vec::<f32>()?, [2.5]);")]
            #[doc = concat!("assert_eq!(x.", stringify!($indices), "(2, Pool::new())?.1.to_vec::<i64>()?, [", $place, "]);")]
            /// # Ok::<(), foldback_tensor::Error>(())
            /// ```
            #[track_caller]
            pub fn $max(&self, kernel: $kernel) -> Result<Tensor> {
                Picked::values(stringify!($max), self, $axes, kernel.into(), &Pool::new()).here()
            }

            #[doc = concat!("[`Tensor::", stringify!($max), "`] with a stride, padding (which is never the largest), a dilation, `ceil_mode`: see [`Pool`].")]
            ///
            /// # Errors
            /// `Rank`, `DTypeUnsupported`, `Window` for an image without elements, a window larger than its padded image or
            /// one that holds nothing but padding, `Parameter` for a setting outside its domain, `TooLarge`.
            #[track_caller]
            pub fn $max_with(&self, kernel: $kernel, options: Pool) -> Result<Tensor> {
                Picked::values(stringify!($max), self, $axes, kernel.into(), &options).here()
            }

            #[doc = concat!("[`Tensor::", stringify!($max_with), "`], and where the largest elements lie (`I64`): their places in the flat image, of the first among equals and the last NaN.")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($max_with), "`].")]
            #[track_caller]
            pub fn $indices(&self, kernel: $kernel, options: Pool) -> Result<(Tensor, Tensor)> {
                let (y, picked) = Picked::largest(stringify!($max), self, $axes, kernel.into(), &options).here()?;
                Ok((y, picked.places()))
            }

            /// The mean over each window, which moves by its own size.
            #[doc = concat!("An input ", $shape, " gives the same with smaller sizes, of the same type, `F32`, `F64` or `I64` (rounded toward zero). See [`Tensor::", stringify!($max), "`] for an example.")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($avg_with), "`].")]
            #[track_caller]
            pub fn $avg(&self, kernel: $kernel) -> Result<Tensor> {
                Blended::means(stringify!($avg), self, $axes, kernel.into(), &Pool::new()).and_then(|p| p.output(self)).here()
            }

            #[doc = concat!("[`Tensor::", stringify!($avg), "`] with a stride, padding by zeros that count or do not, a divisor of one's own, `ceil_mode`: see [`Pool`].")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($max_with), "`].")]
            #[track_caller]
            pub fn $avg_with(&self, kernel: $kernel, options: Pool) -> Result<Tensor> {
                Blended::means(stringify!($avg), self, $axes, kernel.into(), &options).and_then(|p| p.output(self)).here()
            }
        )*}
    };
}

pools! {
    max_pool1d, max_pool1d_with, max_pool1d_with_indices, avg_pool1d, avg_pool1d_with, usize, 1,
    "`[n, c, l]` or `[c, l]`", "let x = tensor![[[1.0, 4.0]]];", 1;
    max_pool2d, max_pool2d_with, max_pool2d_with_indices, avg_pool2d, avg_pool2d_with, impl Into<Pair>, 2,
    "`[n, c, h, w]` or `[c, h, w]`", "let x = tensor![[[1.0, 2.0], [3.0, 4.0]]];", 3;
}

/// # Images
impl Tensor {
    /// The means over `size` parts of the last axis that are as equal as can be: of an input `[n, c, l]` or `[c, l]`, `F32` or `F64`.
    ///
    /// # Errors
    /// `Rank`, `DTypeUnsupported`, `Window` for an axis without elements, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0, 6.0]].adaptive_avg_pool1d(2)?, tensor![[1.5, 4.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool1d(&self, size: usize) -> Result<Tensor> {
        Blended::adaptive("adaptive_avg_pool1d", self, 1, size.into()).and_then(|p| p.output(self)).here()
    }

    /// The means over a grid of this size, of parts of the last two axes that are as equal as can be: of an input
    /// `[n, c, h, w]` or `[c, h, w]`, `F32` or `F64`. A size may be `None`, for as many as there are.
    ///
    /// # Errors
    /// `Rank`, `DTypeUnsupported`, `Window` for an axis without elements, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::Tensor;
    /// let x = Tensor::ones([1, 3, 7, 5]);
    /// assert_eq!(x.adaptive_avg_pool2d(1)?, Tensor::ones([1, 3, 1, 1]));
    /// assert_eq!(x.adaptive_avg_pool2d((2, None))?, Tensor::ones([1, 3, 2, 5]));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, size: impl Into<AdaptiveSize>) -> Result<Tensor> {
        Blended::adaptive("adaptive_avg_pool2d", self, 2, size.into()).and_then(|p| p.output(self)).here()
    }

    /// Images `[n, c, h, w]`, or lines `[n, c, l]`, with other sizes, of the nearest elements. PyTorch's
    /// `torch.nn.functional.interpolate`.
    ///
    /// # Errors
    /// As [`Tensor::interpolate_with`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[[[1.0, 2.0]]]];
    /// assert_eq!(x.interpolate((1, 4))?, tensor![[[[1.0, 1.0, 2.0, 2.0]]]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[doc(alias = "upsample")]
    #[track_caller]
    pub fn interpolate(&self, size: impl Into<Pair>) -> Result<Tensor> {
        self.interpolate_with(Interpolate::size(size))
    }

    /// [`Tensor::interpolate`] by a factor, or between elements: see [`Interpolate`]. Of `F32` or `F64`.
    ///
    /// # Errors
    /// `Rank`, `DTypeUnsupported`, `Window` for an image without elements, `Parameter` for a size of 0, for a mode that lines or images
    /// do not have and for corners that are aligned where no elements are weighted, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{Interpolate, InterpolateMode, tensor};
    /// let line = tensor![[[0.0, 1.0, 4.0]]];
    /// let between = Interpolate::size(5).mode(InterpolateMode::Linear).align_corners(true);
    /// assert_eq!(line.interpolate_with(between)?, tensor![[[0.0, 0.5, 1.0, 2.5, 4.0]]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn interpolate_with(&self, options: Interpolate) -> Result<Tensor> {
        Blended::interpolation("interpolate", self, &options).and_then(|p| p.output(self)).here()
    }
}
