//! Images as columns of patches, and back.

use foldback_graph::Var;
use foldback_tensor::{Here, Pair, Tensor, refuse};

use super::planes::{check, crossings, flat};
use crate::error::{NnFacts, Result};
use crate::{Module, forward};

/// The most places that images have: their numbers can be added and multiplied by a few without a check.
const LARGEST: usize = 1 << 60;
const MEMORY: &str = "a size that memory has";

/// Patches that slide over images.
#[derive(Clone, Copy, Debug)]
struct Patches {
    kernel: Pair,
    dilation: Pair,
    padding: Pair,
    stride: Pair,
}

impl Patches {
    fn new(kernel_size: Pair) -> Patches {
        Patches { kernel: kernel_size, dilation: 1.into(), padding: 0.into(), stride: 1.into() }
    }

    /// The sizes of images with their padding, whose product is a number of places; patches that fit have fewer.
    fn padded(&self, op: &'static str, sizes: [usize; 2]) -> Result<[usize; 2]> {
        let mut padded = sizes;
        for (size, padding) in padded.iter_mut().zip(self.padding.get()) {
            let sum =
                padding.checked_mul(2).and_then(|both| size.checked_add(both)).filter(|&n| n <= LARGEST);
            check(sum.is_some(), op, "padding", padding, MEMORY)?;
            *size = sum.unwrap_or(0);
        }
        let place = padded[0].checked_mul(padded[1]).filter(|&n| n <= LARGEST);
        check(place.is_some(), op, "the width of the padded images", padded[1], MEMORY)?;
        Ok(padded)
    }

    /// How many places the patches have along both axes of padded images.
    fn count(&self, op: &'static str, padded: [usize; 2]) -> Result<[usize; 2]> {
        let mut counts = padded;
        for (d, count) in counts.iter_mut().enumerate() {
            let [kernel, dilation, stride] =
                [self.kernel, self.dilation, self.stride].map(|pair| pair.get()[d]);
            for (name, value) in [("kernel_size", kernel), ("dilation", dilation), ("stride", stride)] {
                check(value > 0, op, name, value, "at least 1")?;
            }
            let reach =
                dilation.checked_mul(kernel - 1).and_then(|n| n.checked_add(1)).filter(|n| n <= count);
            check(reach.is_some(), op, "kernel_size", kernel, "a patch that fits into the padded image")?;
            *count = (*count - reach.unwrap_or(0)) / stride + 1;
        }
        Ok(counts)
    }

    /// Where the elements of patches lie in flat padded images: for each of a patch its places in all of them, one after another.
    fn places(&self, padded: [usize; 2], counts: [usize; 2]) -> Result<Tensor> {
        let along = |d: usize| {
            let steps = |count: usize, by: Pair| Tensor::try_arange(0..count as i64)?.mul(by.get()[d] as i64);
            let (within, between) =
                (steps(self.kernel.get()[d], self.dilation)?, steps(counts[d], self.stride)?);
            within.unsqueeze(1)?.add(between.unsqueeze(0)?)
        };
        crossings(&along(0)?, &along(1)?, padded[1])?.flatten(..)
    }
}

macro_rules! patches {
    ($layer:ident) => {
        impl $layer {
            /// The distance of a patch's elements. The default is 1.
            #[must_use]
            pub fn dilation(mut self, dilation: impl Into<Pair>) -> $layer {
                self.patches.dilation = dilation.into();
                self
            }

            /// How many zeros stand around the images. The default is 0.
            #[must_use]
            pub fn padding(mut self, padding: impl Into<Pair>) -> $layer {
                self.patches.padding = padding.into();
                self
            }

            /// By how much patches move. The default is 1.
            #[must_use]
            pub fn stride(mut self, stride: impl Into<Pair>) -> $layer {
                self.patches.stride = stride.into();
                self
            }
        }
    };
}

/// The patches of images as columns: `[n, c, h, w]` to `[n, c kh kw, patches]`, or both without the batch. PyTorch's
/// [`Unfold`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Unfold.html).
///
/// ```
/// use foldback_nn::Unfold;
/// use foldback_tensor::tensor;
/// let x = tensor![[[1.0, 2.0, 3.0]]];
/// assert_eq!(Unfold::new((1, 2)).forward(&x)?.value(), tensor![[1.0, 2.0], [2.0, 3.0]]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct Unfold {
    #[module(skip)]
    patches: Patches,
}

impl Unfold {
    /// Patches of this size.
    pub fn new(kernel_size: impl Into<Pair>) -> Unfold {
        Unfold { patches: Patches::new(kernel_size.into()) }
    }
}

patches!(Unfold);

#[forward]
impl Unfold {
    /// A column for each patch.
    ///
    /// # Errors
    /// `InputShape` for another number of axes and for images without elements; `Parameter` for settings outside their domain, and
    /// for a patch that does not fit into the images.
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        let op = "unfold";
        super::planes::expect_images(op, x, 2)?;
        let (batch, own) = x.dims().split_at(x.rank() - 3);
        let padded = self.patches.padded(op, [own[1], own[2]]).here()?;
        let counts = self.patches.count(op, padded).here()?;
        let [down, across] = self.patches.padding.get().map(|n| n as isize);
        let x = if [down, across] == [0, 0] { x.clone() } else { x.pad([across, across, down, down])? };
        let places = self.patches.places(padded, counts)?;
        let columns = counts[0] * counts[1];
        let rows = own[0] * (places.numel() / columns);
        flat(&x, 2)?.index_select(-1, &places)?.reshape([batch, &[rows, columns]].concat())
    }
}

/// Images of columns of patches, which add up where they overlap: `[n, c kh kw, patches]` to `[n, c, h, w]`, or both without the
/// batch. PyTorch's [`Fold`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Fold.html).
///
/// ```
/// use foldback_nn::Fold;
/// use foldback_tensor::tensor;
/// let columns = tensor![[1.0, 2.0], [2.0, 3.0]];
/// assert_eq!(Fold::new((1, 3), (1, 2)).forward(&columns)?.value(), tensor![[[1.0, 4.0, 3.0]]]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct Fold {
    #[module(skip)]
    output_size: Pair,
    #[module(skip)]
    patches: Patches,
}

impl Fold {
    /// Images of this size, of patches of that.
    pub fn new(output_size: impl Into<Pair>, kernel_size: impl Into<Pair>) -> Fold {
        Fold { output_size: output_size.into(), patches: Patches::new(kernel_size.into()) }
    }
}

patches!(Fold);

#[forward]
impl Fold {
    /// The images.
    ///
    /// # Errors
    /// `InputShape` for an input that is none of columns of such patches; `Parameter` for settings outside their domain, and for a
    /// patch that does not fit into the images.
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        let op = "fold";
        let own = self.output_size.get();
        let padded = self.patches.padded(op, own).here()?;
        let counts = self.patches.count(op, padded).here()?;
        let size = self.patches.kernel.get().iter().product::<usize>();
        let columns = counts[0] * counts[1];
        let fits = |dims: &[usize]| dims[0].is_multiple_of(size) && dims[1] == columns;
        let (Some(batch), true) = (x.rank().checked_sub(2).filter(|&batch| batch <= 1), x.rank() >= 2) else {
            return not_columns(x, size, columns).here();
        };
        let (batch, last) = x.dims().split_at(batch);
        if !fits(last) {
            return not_columns(x, size, columns).here();
        }
        let places = self.patches.places(padded, counts)?;
        let images = [batch, &[last[0] / size]].concat();
        let sum = Tensor::try_zeros_with([&images[..], &[padded[0] * padded[1]]].concat(), x.dtype())?;
        let patches = x.reshape([&images[..], &[size * columns]].concat())?;
        let sum =
            Var::from(sum).index_add(-1, &places, &patches)?.reshape([&images[..], &padded].concat())?;
        let [down, across] = self.patches.padding.get();
        sum.narrow(-2, down, own[0])?.narrow(-1, across, own[1])
    }
}

fn not_columns(x: &Var, size: usize, columns: usize) -> Result<Var> {
    let expected = format!("[n, c * {size}, {columns}] or [c * {size}, {columns}]");
    refuse(NnFacts::InputShape { op: "fold", name: "an input", expected, found: x.shape().clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        let text = |r: Result<Var>| r.unwrap_err().with_location(None).to_string();
        let x = Tensor::ones([1, 2, 3, 4]);
        for (layer, words) in [
            (Unfold::new(4), "unfold: kernel_size = 4"),
            (Unfold::new(0), "unfold: kernel_size = 0"),
            (Unfold::new(2).stride(0), "unfold: stride = 0"),
            (Unfold::new(2).dilation(0), "unfold: dilation = 0"),
            (Unfold::new(2).dilation(usize::MAX), "unfold: kernel_size = 2"),
            (Unfold::new(2).padding(usize::MAX), "unfold: padding = "),
        ] {
            assert!(text(layer.forward(&x)).starts_with(words), "{words}");
        }
        assert!(Unfold::new(2).padding(1 << 50).forward(&x).is_err());
        assert!(text(Unfold::new(2).forward(Tensor::ones([3, 4]))).contains("[n, c, h, w] or [c, h, w]"));
        let fold = Fold::new((3, 4), 2);
        for shape in [vec![4], vec![4, 5], vec![3, 6], vec![1, 1, 4, 6]] {
            let e = text(fold.forward(Tensor::ones(shape)));
            assert!(
                e.starts_with("fold: expected an input of shape [n, c * 4, 6] or [c * 4, 6], found"),
                "{e}"
            );
        }
        let big = 1 << 40;
        for layer in [Fold::new(big, 1), Fold::new(big, big), Fold::new(big, 1).stride(big)] {
            let e = text(layer.forward(Tensor::ones([1, 1])));
            assert!(e.starts_with("fold: the width of the padded images = "), "{e}");
        }
        assert!(Fold::new(usize::MAX, 2).forward(&x).is_err() && Fold::new(1, 2).forward(&x).is_err());
        assert_eq!(fold.forward(Tensor::ones([0, 8, 6])).unwrap().shape(), [0, 2, 3, 4]);
    }
}
