//! Rows of pooling, interpolation and the shuffling of pixels.

use foldback_tensor::InterpolateMode::{self, Bicubic, Bilinear, Linear, NearestExact};
use foldback_tensor::kernel::{Blended, Picked};
use foldback_tensor::{AdaptiveSize, Here, Interpolate, Pair, Pool, Tensor};

use super::function_rows::function;
use crate::error::Result;
use crate::lead::Lead;
use crate::mode::is_grad_enabled;
use crate::node::Var;

function! {
    in rows;

    /// Weighted sums along both axes of images.
    fn blended(x; plan: Blended) = plan.output(x);
        d x: |g| g.blended_input(blended_behind(&plan, n));
        t: |t| t.blended(blended_behind(&plan, n));
        over leading axes (n);
        check {
            "means": [[2, 2, 4, 5] Any] |x| x[0].avg_pool2d(2);
            "padded means": [[1, 2, 5, 4] Any] |x| x[0].avg_pool2d_with(3, Pool::new().stride(2).padding(1).ceil_mode(true));
            "means, one axis": [[2, 5] Any] |x| x[0].avg_pool1d_with(3, Pool::new().stride(1).padding(1).count_include_pad(false));
            "adaptive": [[2, 5, 3] Any] |x| x[0].adaptive_avg_pool2d((3, 4));
            "adaptive, one axis": [[2, 1, 5] Any] |x| x[0].adaptive_avg_pool1d(2);
            "nearest": [[1, 2, 2, 3] Any] |x| x[0].interpolate((5, 4));
            "between": [[1, 2, 2, 3] Any] |x| x[0].interpolate_with(mode(Interpolate::scale(2), Bilinear));
            "between, corners kept": [[1, 1, 3, 3] Any] |x| x[0].interpolate_with(mode(Interpolate::size((5, 2)), Bilinear).align_corners(true));
            "nearest centre": [[1, 2, 2, 3] Any] |x| x[0].interpolate_with(mode(Interpolate::scale(1.7), NearestExact));
            "between, one axis": [[2, 1, 4] Any] |x| x[0].interpolate_with(mode(Interpolate::size(7), Linear));
            "by a curve": [[1, 2, 3, 4] Any] |x| x[0].interpolate_with(mode(Interpolate::scale(1.6), Bicubic));
            "by a curve, smaller, corners kept": [[1, 1, 5, 2] Any] |x| x[0].interpolate_with(mode(Interpolate::size((3, 5)), Bicubic).align_corners(true));
            "nothing": [[0, 2, 4, 4] Any] |x| x[0].avg_pool2d(2);
        }

    /// The transpose of the above.
    fn blended_input(y; plan: Blended) = plan.input(y);
        d y: |g| g.blended(blended_behind(&plan, n));
        t: |t| t.blended_input(blended_behind(&plan, n));
        over leading axes (n);
        check {
            "means": [[1, 2, 2, 2] Any] |x| {
                let images = Tensor::zeros_with([1, 2, 5, 5], x[0].dtype());
                x[0].blended_input(Blended::means("avg_pool2d", &images, 2, 3.into(), &Pool::new().stride(2))?)
            };
        }

    /// The largest elements of windows, and where they lie.
    fn max_pool(x; pooling: MaxPooling) { let (y, plan) = Picked::largest(pooling.op, x, pooling.axes, pooling.kernel, &pooling.pool)?; let places = plan.places(); } = Result::<_>::Ok((y, places)) => (y: g, places);
        d x: |g| g.picked_input(picked_behind(&plan, n)?);
        t: |t| t.picked(picked_behind(&plan, n)?);
        over leading axes (n);
        check {
            "windows": [[2, 2, 4, 5] Distinct] |x| x[0].max_pool2d(2);
            "overlapping, padded": [[1, 2, 5, 4] Distinct] |x| x[0].max_pool2d_with(3, Pool::new().stride(1).padding(1));
            "no batch, dilated": [[2, 5, 5] Distinct] |x| x[0].max_pool2d_with((2, 3), Pool::new().dilation((2, 1)).ceil_mode(true));
            "one axis": [[2, 3, 7] Distinct] |x| x[0].max_pool1d_with(3, Pool::new().stride(2));
            "values of both": [[2, 4, 4] Distinct] |x| Ok(x[0].max_pool2d_with_indices(2, Pool::new())?.0);
            "nothing": [[0, 2, 4, 4] Any] |x| x[0].max_pool2d(2);
        }

    /// Elements of images, at places that are known.
    fn picked(x; plan: Picked) = plan.output(x);
        d x: |g| g.picked_input(picked_behind(&plan, n)?);
        t: |t| t.picked(picked_behind(&plan, n)?);
        over leading axes (n);
        check {
            "windows": [[1, 2, 4, 4] Any] |x| x[0].picked(overlapping(&Tensor::zeros_with([1, 2, 4, 4], x[0].dtype()))?);
        }

    /// The transpose of the above.
    fn picked_input(y; plan: Picked) = plan.input(y);
        d y: |g| g.picked(picked_behind(&plan, n)?);
        t: |t| t.picked_input(picked_behind(&plan, n)?);
        over leading axes (n);
        check {
            "windows": [[1, 2, 2, 2] Any] |x| x[0].picked_input(overlapping(&Tensor::zeros_with([1, 2, 4, 4], x[0].dtype()))?);
        }

    /// Channels as pixels.
    fn shuffled(x; factor: Factor) = x.pixel_shuffle(factor.0);
        d x: |g| g.unshuffled(factor);
        t: |t| t.shuffled(factor);
        over leading axes;
        check {
            "images": [[2, 8, 2, 3] Any] |x| x[0].pixel_shuffle(2);
            "no batch": [[9, 1, 2] Any] |x| x[0].pixel_shuffle(3);
            "nothing": [[0, 4, 2, 2] Any] |x| x[0].pixel_shuffle(2);
        }

    /// Pixels as channels.
    fn unshuffled(x; factor: Factor) = x.pixel_unshuffle(factor.0);
        d x: |g| g.shuffled(factor);
        t: |t| t.unshuffled(factor);
        over leading axes;
        check {
            "images": [[2, 2, 4, 6] Any] |x| x[0].pixel_unshuffle(2);
            "two batches": [[2, 1, 1, 3, 3] Any] |x| x[0].pixel_unshuffle(3);
        }
}

pub(super) use rows::ALL;

fn blended_behind(plan: &Blended, n: Lead) -> Blended {
    n.0.map_or_else(|| plan.clone(), |count| plan.behind(count))
}

fn picked_behind(plan: &Picked, n: Lead) -> Result<Picked> {
    n.0.map_or_else(|| Ok(plan.clone()), |count| plan.behind(count))
}

/// The largest elements of windows of an image, as they are asked for.
#[derive(Clone, Copy)]
struct MaxPooling {
    op: &'static str,
    axes: usize,
    kernel: Pair,
    pool: Pool,
}

impl MaxPooling {
    fn of(op: &'static str, axes: usize, kernel: impl Into<Pair>, pool: Pool) -> MaxPooling {
        MaxPooling { op, axes, kernel: kernel.into(), pool }
    }
}

/// Where the largest elements of windows lie that overlap.
fn overlapping(images: &Tensor) -> Result<Picked> {
    Ok(Picked::largest("max_pool2d", images, 2, 3.into(), &Pool::new().stride(1))?.1)
}

/// How many times larger an image becomes.
#[derive(Clone, Copy)]
struct Factor(usize);

fn mode(options: Interpolate, mode: InterpolateMode) -> Interpolate {
    options.mode(mode)
}

macro_rules! pools {
    ($($max:ident, $max_with:ident, $indices:ident, $avg:ident, $avg_with:ident, $kernel:ty, $axes:literal, $example:literal, $gradient:literal;)*) => {
        /// # Pooling
        impl Var {$(
            #[doc = concat!("See [`Tensor::", stringify!($max), "`](foldback_tensor::Tensor::", stringify!($max), "). The gradient goes to the element that was taken.")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($max_with), "`](foldback_tensor::Tensor::", stringify!($max_with), ").")]
            ///
            /// ```
            /// use foldback_graph::RequiresGrad;
            /// use foldback_tensor::tensor;
            #[doc = $example]
            #[doc = concat!("x.", stringify!($max), "(2)?.sum(..)?.backward()?;")]
            #[doc = $gradient]
            /// # Ok::<(), foldback_graph::Error>(())
            /// ```
            #[track_caller]
            pub fn $max(&self, kernel: $kernel) -> Result<Var> {
                self.pooled(MaxPooling::of(stringify!($max), $axes, kernel, Pool::new())).here()
            }

            #[doc = concat!("[`Var::", stringify!($max), "`] with a stride, padding (which is never the largest), a dilation, `ceil_mode`: see [`Pool`].")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($max_with), "`](foldback_tensor::Tensor::", stringify!($max_with), ").")]
            #[track_caller]
            pub fn $max_with(&self, kernel: $kernel, options: Pool) -> Result<Var> {
                self.pooled(MaxPooling::of(stringify!($max), $axes, kernel, options)).here()
            }

            #[doc = concat!("[`Var::", stringify!($max_with), "`], and where the largest elements lie (which requires no gradient).")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($max_with), "`](foldback_tensor::Tensor::", stringify!($max_with), ").")]
            #[track_caller]
            pub fn $indices(&self, kernel: $kernel, options: Pool) -> Result<(Var, Var)> {
                self.max_pool(MaxPooling::of(stringify!($max), $axes, kernel, options)).here()
            }

            #[doc = concat!("See [`Tensor::", stringify!($avg), "`](foldback_tensor::Tensor::", stringify!($avg), ").")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($avg_with), "`](foldback_tensor::Tensor::", stringify!($avg_with), ").")]
            #[track_caller]
            pub fn $avg(&self, kernel: $kernel) -> Result<Var> {
                let plan = Blended::means(stringify!($avg), &self.value_ref(), $axes, kernel.into(), &Pool::new());
                self.blended(plan.here()?).here()
            }

            #[doc = concat!("[`Var::", stringify!($avg), "`] with a stride, padding by zeros that count or do not, a divisor of one's own, `ceil_mode`: see [`Pool`].")]
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($avg_with), "`](foldback_tensor::Tensor::", stringify!($avg_with), ").")]
            #[track_caller]
            pub fn $avg_with(&self, kernel: $kernel, options: Pool) -> Result<Var> {
                let plan = Blended::means(stringify!($avg), &self.value_ref(), $axes, kernel.into(), &options);
                self.blended(plan.here()?).here()
            }
        )*}
    };
}

pools! {
    max_pool1d, max_pool1d_with, max_pool1d_with_indices, avg_pool1d, avg_pool1d_with, usize, 1,
    "let x = tensor![[1.0, 0.0, 3.0, 4.0]].requires_grad();",
    "assert_eq!(x.grad(), Some(tensor![[1.0, 0.0, 0.0, 1.0]]));";
    max_pool2d, max_pool2d_with, max_pool2d_with_indices, avg_pool2d, avg_pool2d_with, impl Into<Pair>, 2,
    "let x = tensor![[[1.0, 2.0], [3.0, 4.0]]].requires_grad();",
    "assert_eq!(x.grad(), Some(tensor![[[0.0, 0.0], [0.0, 1.0]]]));";
}

/// # Images
impl Var {
    /// The largest elements of windows; where nothing is recorded, their places are not looked for.
    #[track_caller]
    fn pooled(&self, pooling: MaxPooling) -> Result<Var> {
        if self.requires_grad() && is_grad_enabled() {
            return Ok(self.max_pool(pooling)?.0);
        }
        let _span = crate::profile::forward("max_pool");
        let MaxPooling { op, axes, kernel, pool } = pooling;
        Ok(Var::constant(Picked::values(op, &self.value_ref(), axes, kernel, &pool)?))
    }

    /// See [`Tensor::adaptive_avg_pool1d`](foldback_tensor::Tensor::adaptive_avg_pool1d).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0, 6.0]].requires_grad();
    /// x.adaptive_avg_pool1d(2)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![[0.5, 1.0, 0.5]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool1d(&self, size: usize) -> Result<Var> {
        self.blended(Blended::adaptive("adaptive_avg_pool1d", &self.value_ref(), 1, size.into()).here()?)
            .here()
    }

    /// See [`Tensor::adaptive_avg_pool2d`](foldback_tensor::Tensor::adaptive_avg_pool2d).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::Tensor;
    /// let x = Tensor::ones([1, 2, 2, 2]).requires_grad();
    /// x.adaptive_avg_pool2d(1)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(Tensor::full([1, 2, 2, 2], 0.25)));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, size: impl Into<AdaptiveSize>) -> Result<Var> {
        self.blended(Blended::adaptive("adaptive_avg_pool2d", &self.value_ref(), 2, size.into()).here()?)
            .here()
    }

    /// See [`Tensor::interpolate`](foldback_tensor::Tensor::interpolate).
    ///
    /// # Errors
    /// As [`Tensor::interpolate_with`](foldback_tensor::Tensor::interpolate_with).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::Tensor;
    /// let x = Tensor::ones([1, 1, 2, 2]).requires_grad();
    /// x.interpolate(4)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(Tensor::full([1, 1, 2, 2], 4)));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[doc(alias = "upsample")]
    #[track_caller]
    pub fn interpolate(&self, size: impl Into<Pair>) -> Result<Var> {
        self.interpolate_with(Interpolate::size(size))
    }

    /// [`Var::interpolate`] by a factor, or between elements: see [`Interpolate`].
    ///
    /// # Errors
    /// As [`Tensor::interpolate_with`](foldback_tensor::Tensor::interpolate_with).
    #[track_caller]
    pub fn interpolate_with(&self, options: Interpolate) -> Result<Var> {
        self.blended(Blended::interpolation("interpolate", &self.value_ref(), &options).here()?).here()
    }

    /// Channels as pixels; see [`Tensor::pixel_shuffle`](foldback_tensor::Tensor::pixel_shuffle).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::Tensor;
    /// let x = Tensor::ones([1, 8, 3, 3]).requires_grad();
    /// assert_eq!(x.pixel_shuffle(2)?.dims(), [1, 2, 6, 6]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_shuffle(&self, upscale_factor: usize) -> Result<Var> {
        self.shuffled(Factor(upscale_factor)).here()
    }

    /// Pixels as channels; see [`Tensor::pixel_unshuffle`](foldback_tensor::Tensor::pixel_unshuffle).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::Tensor;
    /// let x = Tensor::ones([1, 2, 6, 6]).requires_grad();
    /// assert_eq!(x.pixel_unshuffle(2)?.dims(), [1, 8, 3, 3]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_unshuffle(&self, downscale_factor: usize) -> Result<Var> {
        self.unshuffled(Factor(downscale_factor)).here()
    }
}
