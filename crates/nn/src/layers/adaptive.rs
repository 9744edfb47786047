//! Pooling to a size: the means or the largest elements of as many parts as there are to be results.

use foldback_graph::{Value, Var, no_grad};
use foldback_tensor::{AdaptiveSize, DType, Here, Tensor, keep};

use super::curves::expect_float;
use super::planes::{crossings, expect_images, first_of_largest, flat};
use crate::error::Result;
use crate::layer_path::in_layer;
use crate::{Module, forward};

/// A layer with the size of its output, and how it is made.
macro_rules! sized {
    ($(#[$doc:meta])* $layer:ident, $size:ty, $stored:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $layer {
            #[module(skip)]
            output_size: $stored,
        }

        impl $layer {
            /// To this size.
            pub fn new(output_size: $size) -> $layer {
                $layer { output_size: output_size.into() }
            }
        }
    };
}

macro_rules! means {
    ($($(#[$doc:meta])* $layer:ident($call:ident, $size:ty, $stored:ty);)*) => {$(
        sized!($(#[$doc])* $layer, $size, $stored);

        #[forward]
        impl $layer {
            /// An output of the layer's size.
            ///
            /// # Errors
            /// `Rank` or `Window` if the input does not fit.
            #[track_caller]
            pub fn forward(&self, input: &Var) -> Result<Var> {
                input.$call(self.output_size)
            }
        }
    )*};
}

means! {
    /// The means of as many windows over the last axis as there are to be elements, see [`Var::adaptive_avg_pool1d`]. PyTorch's
    /// [`AdaptiveAvgPool1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool1d.html).
    ///
    /// ```
    /// use foldback_nn::AdaptiveAvgPool1d;
    /// use foldback_tensor::tensor;
    /// assert_eq!(AdaptiveAvgPool1d::new(1).forward(&tensor![[1.0, 3.0, 2.0]])?.value(), tensor![[2.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    AdaptiveAvgPool1d(adaptive_avg_pool1d, usize, usize);
    /// The means of as many windows over the last two axes as there are to be elements, see [`Var::adaptive_avg_pool2d`]. PyTorch's
    /// [`AdaptiveAvgPool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html).
    ///
    /// ```
    /// use foldback_nn::AdaptiveAvgPool2d;
    /// use foldback_tensor::Tensor;
    /// let layer = AdaptiveAvgPool2d::new((None, 1));
    /// assert_eq!(layer.forward(&Tensor::ones([5, 3, 8, 6]))?.shape(), [5, 3, 8, 1]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    AdaptiveAvgPool2d(adaptive_avg_pool2d, impl Into<AdaptiveSize>, AdaptiveSize);
}

macro_rules! largest {
    ($($(#[$doc:meta])* $layer:ident($op:literal, $axes:literal, $mean:ident, $size:ty, $stored:ty);)*) => {$(
        sized!($(#[$doc])* $layer, $size, $stored);

        impl $layer {
            /// The output, and where the largest elements lie in the flat images (PyTorch's `return_indices`).
            ///
            /// # Errors
            /// As `forward`.
            #[track_caller]
            pub fn forward_with_indices(&self, input: impl Value) -> Result<(Var, Var)> {
                in_layer(self, self.largest(&input.as_var()))
            }

            #[track_caller]
            fn largest(&self, x: &Var) -> Result<(Var, Var)> {
                expect_float($op, x)?;
                expect_images($op, x, $axes)?;
                // The mean of no images has the sizes, and refuses those that no output can have.
                let mut none = x.dims().to_vec();
                none.splice(..none.len() - $axes - 1, [0]);
                let sizes = Tensor::try_zeros_with(none, DType::F32)?
                    .$mean(self.output_size)
                    .map_err(|e| e.named($op))
                    .here()?;
                let sizes = &sizes.dims()[sizes.rank() - $axes..];
                let places = no_grad(|| places(&x.value(), sizes))?;
                let shape = [&x.dims()[..x.rank() - $axes], sizes].concat();
                let values = flat(x, $axes)?.gather(-1, &places)?;
                Ok((values.reshape(shape.as_slice())?, places.reshape(shape)?.into()))
            }
        }

        #[forward]
        impl $layer {
            /// An output of the layer's size. The gradient goes to the elements that were taken, the first of equal ones.
            ///
            /// # Errors
            /// `InputShape` for another number of axes and for images without elements, `DType` for integers and `bool`, `TooLarge`.
            #[track_caller]
            pub fn forward(&self, input: &Var) -> Result<Var> {
                Ok(self.largest(input)?.0)
            }
        }
    )*};
}

largest! {
    /// The largest elements of as many windows over the last axis as there are to be elements, `[n, c, l]` or `[c, l]`. PyTorch's
    /// [`AdaptiveMaxPool1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool1d.html).
    ///
    /// ```
    /// use foldback_nn::AdaptiveMaxPool1d;
    /// use foldback_tensor::tensor;
    /// let (y, places) = AdaptiveMaxPool1d::new(2).forward_with_indices(&tensor![[1.0, 3.0, 2.0]])?;
    /// assert_eq!((y.value(), places.value()), (tensor![[3.0, 3.0]], tensor![[1, 1]; i64]));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    AdaptiveMaxPool1d("adaptive_max_pool1d", 1, adaptive_avg_pool1d, usize, usize);
    /// The largest elements of as many windows over the last two axes as there are to be elements, `[n, c, h, w]` or `[c, h, w]`.
    /// PyTorch's [`AdaptiveMaxPool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html).
    ///
    /// ```
    /// use foldback_nn::AdaptiveMaxPool2d;
    /// use foldback_tensor::Tensor;
    /// let layer = AdaptiveMaxPool2d::new((None, 1));
    /// assert_eq!(layer.forward(&Tensor::ones([5, 3, 8, 6]))?.shape(), [5, 3, 8, 1]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    AdaptiveMaxPool2d("adaptive_max_pool2d", 2, adaptive_avg_pool2d, impl Into<AdaptiveSize>, AdaptiveSize);
}

/// Where the largest elements of the parts lie in the flat images: `[.., as many as there are results]`.
fn places(x: &Tensor, sizes: &[usize]) -> Result<Tensor> {
    let (batch, own) = x.dims().split_at(x.rank() - sizes.len());
    let results: usize = sizes.iter().product();
    if x.numel() == 0 || results == 0 {
        return Tensor::try_zeros_with([batch, &[results]].concat(), DType::I64);
    }
    let columns = parts(own[own.len() - 1], sizes[sizes.len() - 1])?;
    let rows = if sizes.len() == 1 { parts(1, 1)? } else { parts(own[0], sizes[0])? };
    // [h, w, kh, kw] as [h w, kh kw]
    let elements = crossings(&rows, &columns, own[own.len() - 1])?.flatten(..=1)?.flatten(1..)?;
    let count = elements.dims()[1];
    let picked = x.flatten(-(sizes.len() as isize)..)?.index_select(-1, elements.flatten(..)?)?;
    let picked = picked.reshape([batch, &[results, count]].concat())?;
    let elements = elements.expand([batch, &[results, count]].concat())?;
    elements.gather(-1, first_of_largest(&picked)?.unsqueeze(-1)?)?.squeeze(-1)
}

/// The elements of `count` parts of an axis that are as equal as can be, `[count, largest part]`; a smaller part has its last one again.
fn parts(size: usize, count: usize) -> Result<Tensor> {
    let (size, count) = (size as i64, count as i64);
    let first = Tensor::try_arange(0..count)?.mul(size)?.div_floor(count)?;
    let last = Tensor::try_arange(1..count + 1)?.mul(size)?.sub(1)?.div_floor(count)?;
    let widest = last.sub(&first)?.amax(keep(..))?.item_as::<i64>()? + 1;
    first.unsqueeze(1)?.add(Tensor::try_arange(0..widest)?.unsqueeze(0)?)?.minimum(last.unsqueeze(1)?)
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::tensor;

    use super::*;

    #[test]
    fn parts_overlap_as_in_the_means() {
        // [0, 2), [1, 4), [3, 5)
        assert_eq!(parts(5, 3).unwrap(), tensor![[0, 1, 1], [1, 2, 3], [3, 4, 4]; i64]);
    }

    #[test]
    fn the_first_of_equals_and_the_last_nan() {
        let x = tensor![[2.0, 2.0, 1.0, f32::NAN, f32::NAN, 0.0]].requires_grad();
        let (y, places) = AdaptiveMaxPool1d::new(2).forward_with_indices(&x).unwrap();
        assert_eq!(places.value(), tensor![[0, 4]; i64]);
        y.sum(..).unwrap().backward().unwrap();
        assert_eq!(x.grad(), Some(tensor![[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]]));
    }

    #[test]
    fn refusals() {
        let text = |r: Result<Var>| r.unwrap_err().with_location(None).to_string();
        let x = Tensor::ones([2, 3]);
        assert!(text(AdaptiveMaxPool2d::new(1).forward(&x)).starts_with("adaptive_max_pool2d: "));
        assert!(
            text(AdaptiveMaxPool1d::new(1).forward(Tensor::ones(3))).starts_with("adaptive_max_pool1d: ")
        );
        assert!(text(AdaptiveMaxPool1d::new(1).forward(&tensor![[1, 2]; i64])).contains("floating-point"));
        assert!(AdaptiveMaxPool1d::new(usize::MAX).forward(&x).is_err());
        assert!(AdaptiveMaxPool1d::new(1).forward(Tensor::ones([2, 0])).is_err());
        assert!(AdaptiveMaxPool1d::new(2).forward(Tensor::ones([2, 0, 4])).is_err());
        assert!(AdaptiveMaxPool2d::new(2).forward(Tensor::ones([2, 0, 4, 4])).is_err());
        assert!(crate::Unfold::new(2).forward(Tensor::ones([2, 0, 4, 4])).is_err());
        assert_eq!(AdaptiveMaxPool1d::new(0).forward(&x).unwrap().shape(), [2, 0]);
        assert_eq!(AdaptiveMaxPool1d::new(2).forward(Tensor::ones([0, 2, 4])).unwrap().shape(), [0, 2, 2]);
    }
}
