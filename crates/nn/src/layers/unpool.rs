//! The largest elements of windows, back where they were.

use foldback_graph::Var;
use foldback_tensor::{Here, Pair, Tensor, refuse};

use super::planes::{check, expect_images, flat};
use crate::error::{NnFacts, Result};
use crate::layer_path::in_layer;
use crate::{Module, forward};

macro_rules! unpools {
    ($($(#[$doc:meta])* $layer:ident($op:literal, $axes:literal, $size:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $layer {
            #[module(skip)]
            windows: Windows,
        }

        impl $layer {
            /// Of windows of this size, side by side.
            pub fn new(kernel_size: $size) -> $layer {
                let kernel = kernel_size.into();
                $layer { windows: Windows { kernel, stride: kernel, padding: 0.into() } }
            }

            /// By how much the windows moved. The default is their size.
            #[must_use]
            pub fn stride(mut self, stride: $size) -> $layer {
                self.windows.stride = stride.into();
                self
            }

            /// How much had been added at both ends. The default is 0.
            #[must_use]
            pub fn padding(mut self, padding: $size) -> $layer {
                self.windows.padding = padding.into();
                self
            }

            /// The images in a size that windows of this kind make the input of: several do where a stride is left over.
            ///
            /// # Errors
            /// As `forward`; `Parameter` for a size that they do not.
            #[track_caller]
            pub fn forward_with(
                &self,
                input: impl foldback_graph::Value,
                indices: impl foldback_graph::Value,
                output_size: $size,
            ) -> Result<Var> {
                let size = Some(output_size.into());
                in_layer(self, self.windows.images($op, $axes, &input.as_var(), &indices.as_var(), size))
            }
        }

        #[forward]
        impl $layer {
            /// The images, of the smallest size, zero where no element was the largest: the input's elements at `indices`, which
            /// are places in flat images as `forward_with_indices` of the pooling layer gives them. Where places repeat, the last
            /// one counts, and gets the gradient.
            ///
            /// # Errors
            /// `InputShape` for another number of axes, or if the indices have another shape; `Parameter` for settings that give no
            /// image; if an index lies outside of the image, or is no `i64`.
            #[track_caller]
            pub fn forward(&self, input: &Var, indices: &Var) -> Result<Var> {
                self.windows.images($op, $axes, input, indices, None)
            }
        }
    )*};
}

/// What windows had made the input.
#[derive(Clone, Copy, Debug)]
struct Windows {
    kernel: Pair,
    stride: Pair,
    padding: Pair,
}

impl Windows {
    #[track_caller]
    fn images(
        &self,
        op: &'static str,
        axes: usize,
        x: &Var,
        indices: &Var,
        wanted: Option<Pair>,
    ) -> Result<Var> {
        expect_images(op, x, axes)?;
        if indices.shape() != x.shape() {
            let (expected, found) = (x.shape().to_string(), indices.shape().clone());
            return refuse(NnFacts::InputShape { op, name: "indices", expected, found }).here();
        }
        let (batch, own) = x.dims().split_at(x.rank() - axes);
        let mut shape = batch.to_vec();
        for (d, &size) in own.iter().enumerate() {
            let [kernel, stride, padding] =
                [self.kernel, self.stride, self.padding].map(|p| p.get()[2 - axes + d]);
            check(stride > 0, op, "stride", stride, "at least 1").here()?;
            let wide = |n: usize| n as i128;
            let least = (wide(size) - 1) * wide(stride) + wide(kernel) - 2 * wide(padding);
            let size = match wanted.map(|pair| pair.get()[2 - axes + d]) {
                Some(given) => {
                    let fits = given > 0 && (wide(given) - least).abs() < wide(stride);
                    check(fits, op, "output_size", given, "a size that these windows make the input of")
                        .here()?;
                    given
                }
                None => {
                    let expected = "fewer, so that an image is left";
                    check(least > 0, op, "padding", padding, expected).here()?;
                    let fits = least <= isize::MAX as i128;
                    let (name, value) =
                        if kernel >= stride { ("kernel_size", kernel) } else { ("stride", stride) };
                    check(fits, op, name, value, "less, so that memory has the image").here()?;
                    least as usize
                }
            };
            shape.push(size);
        }
        let zeros = flat(&Tensor::try_zeros_with(shape.as_slice(), x.dtype())?.into(), axes)?;
        let places = flat(indices, axes)?.value();
        zeros.scatter(-1, &places, flat(x, axes)?).map_err(|e| e.named(op)).here()?.reshape(shape)
    }
}

unpools! {
    /// What [`MaxPool1d`](crate::MaxPool1d) took, back in its places: `[n, c, l]` or `[c, l]`. PyTorch's
    /// [`MaxUnpool1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool1d.html).
    ///
    /// ```
    /// use foldback_nn::{MaxPool1d, MaxUnpool1d};
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 3.0, 2.0, 0.0, 5.0]];
    /// let (y, places) = MaxPool1d::new(2).forward_with_indices(&x)?;
    /// let unpool = MaxUnpool1d::new(2);
    /// assert_eq!(unpool.forward(&y, &places)?.value(), tensor![[0.0, 3.0, 2.0, 0.0]]);
    /// assert_eq!(unpool.forward_with(&y, &places, 5)?.shape(), [1, 5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    MaxUnpool1d("max_unpool1d", 1, usize);
    /// What [`MaxPool2d`](crate::MaxPool2d) took, back in its places: `[n, c, h, w]` or `[c, h, w]`. PyTorch's
    /// [`MaxUnpool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool2d.html).
    ///
    /// ```
    /// use foldback_nn::{MaxPool2d, MaxUnpool2d};
    /// use foldback_tensor::tensor;
    /// let x = tensor![[[1.0, 2.0], [4.0, 3.0]]];
    /// let (y, places) = MaxPool2d::new(2).forward_with_indices(&x)?;
    /// assert_eq!(MaxUnpool2d::new(2).forward(&y, &places)?.value(), tensor![[[0.0, 0.0], [4.0, 0.0]]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    MaxUnpool2d("max_unpool2d", 2, impl Into<Pair>);
}

#[cfg(test)]
mod tests {
    use foldback_tensor::tensor;

    use super::*;

    #[test]
    fn refusals() {
        let (x, places) = (tensor![[1.0, 2.0]], tensor![[0, 3]; i64]);
        let text = |r: Result<Var>| r.unwrap_err().with_location(None).to_string();
        let layer = MaxUnpool1d::new(2);
        assert_eq!(
            text(layer.forward(&x, &tensor![0; i64])),
            "max_unpool1d: expected indices of shape [1, 2], found [1]"
        );
        assert!(text(layer.forward(&x, &tensor![[0, 4]; i64])).starts_with("max_unpool1d: "));
        assert!(layer.forward(&x, &tensor![[0, -1]; i64]).is_err() && layer.forward(&x, &x).is_err());
        for size in [2, 6, usize::MAX] {
            assert!(text(layer.forward_with(&x, &places, size)).contains("output_size = "), "{size}");
        }
        assert_eq!(layer.forward_with(&x, &places, 5).unwrap().shape(), [1, 5]);
        assert!(text(layer.padding(9).forward(&x, &places)).contains("padding = 9"));
        assert!(text(layer.stride(0).forward(&x, &places)).contains("stride = 0"));
        assert!(text(layer.stride(usize::MAX).forward(&x, &places)).contains("stride = 1"));
        assert!(text(MaxUnpool1d::new(1 << 62).forward(&x, &places)).contains("kernel_size = 4"));
        assert!(
            text(MaxUnpool1d::new(usize::MAX).stride(1).forward(&x, &places)).contains("kernel_size = 1")
        );
        assert!(text(layer.forward_with(&x, &places, 0)).contains("output_size = 0"));
        assert!(MaxUnpool2d::new(2).forward(&x, &places).is_err());
    }
}
