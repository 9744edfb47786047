//! The largest elements of windows whose steps are drawn at random.

use foldback_graph::{Value, Var, no_grad};
use foldback_tensor::{DType, Factors, Here, Pair, Tensor, refuse};

use super::curves::expect_float;
use super::planes::{check, expect_images, first_of_largest, flat};
use crate::error::{NnFacts, Result};
use crate::layer_path::in_layer;
use crate::{Buffer, Module, forward};

const OP: &str = "fractional_max_pool2d";

/// The largest elements of windows that overlap and are further apart here and there, at random, so that any size of output can be
/// reached: `[n, c, h, w]` or `[c, h, w]` (Graham, "Fractional max-pooling", 2014). PyTorch's
/// [`FractionalMaxPool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.FractionalMaxPool2d.html).
///
/// Along an axis of `size` elements, the window of result `i` of `n` begins at `floor((i + u) a) - floor(u a)` with
/// `a = (size - kernel) / (n - 1)`, the last one at `size - kernel`; `u` is drawn for each image, channel and axis by this thread's
/// generator, whether in training or not, unless it is given.
///
/// ```
/// use foldback_nn::FractionalMaxPool2d;
/// use foldback_tensor::Tensor;
/// let x = Tensor::ones([5, 3, 9, 8]);
/// assert_eq!(FractionalMaxPool2d::size(2, (6, 5)).forward(&x)?.shape(), [5, 3, 6, 5]);
/// assert_eq!(FractionalMaxPool2d::ratio(2, 0.7).forward(&x)?.shape(), [5, 3, 6, 5]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct FractionalMaxPool2d {
    /// `[n, c, 2]`, across and down, if they are given; by PyTorch's name in saved states
    _random_samples: Option<Buffer>,
    #[module(skip)]
    kernel_size: Pair,
    #[module(skip)]
    output: Output,
}

/// The size of the output, or what part it is of the input's.
#[derive(Clone, Copy, Debug)]
enum Output {
    Size(Pair),
    Ratio(Factors),
}

impl FractionalMaxPool2d {
    fn of(kernel_size: Pair, output: Output) -> FractionalMaxPool2d {
        FractionalMaxPool2d { _random_samples: None, kernel_size, output }
    }

    /// Windows of the first size, as many as the second one says.
    pub fn size(kernel_size: impl Into<Pair>, output_size: impl Into<Pair>) -> FractionalMaxPool2d {
        FractionalMaxPool2d::of(kernel_size.into(), Output::Size(output_size.into()))
    }

    /// Windows of this size, as many as the input has elements times the ratio, rounded down: a number between 0 and 1 for both axes, or
    /// one for each.
    pub fn ratio(kernel_size: impl Into<Pair>, output_ratio: impl Into<Factors>) -> FractionalMaxPool2d {
        FractionalMaxPool2d::of(kernel_size.into(), Output::Ratio(output_ratio.into()))
    }

    /// These numbers between 0 and 1 in place of random ones, `[n, c, 2]` for `n` images or fewer, of the input's type: of each image
    /// and channel that across and that down. PyTorch's `_random_samples`, a buffer of that name.
    #[must_use]
    pub fn random_samples(mut self, samples: impl Into<Tensor>) -> FractionalMaxPool2d {
        self._random_samples = Some(Buffer::new(samples));
        self
    }

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
        expect_float(OP, x)?;
        expect_images(OP, x, 2)?;
        let (batch, own) = x.dims().split_at(x.rank() - 2);
        let sizes = self.sizes(own).here()?;
        let samples = self.samples(batch, x.dtype()).here()?;
        let places = no_grad(|| self.places(&x.value(), &samples, sizes)).here()?;
        let shape = [batch, &sizes].concat();
        let values = flat(x, 2)?.gather(-1, &places)?;
        Ok((values.reshape(shape.as_slice())?, places.reshape(shape)?.into()))
    }

    /// The sizes of the output, if there are windows for them.
    fn sizes(&self, own: &[usize]) -> Result<[usize; 2]> {
        let sizes = match self.output {
            Output::Size(sizes) => sizes.get(),
            Output::Ratio(ratios) => {
                let ratios = ratios.get();
                for value in ratios {
                    if !(value > 0.0 && value < 1.0) {
                        let (name, expected) = ("output_ratio", "between 0 and 1");
                        return refuse(NnFacts::Parameter { op: OP, name, value, expected });
                    }
                }
                [0, 1].map(|d| (own[d] as f64 * ratios[d]) as usize)
            }
        };
        for ((kernel, output), &input) in self.kernel_size.get().into_iter().zip(sizes).zip(own) {
            let fits = (1..=input).contains(&kernel);
            check(fits, OP, "kernel_size", kernel, "from 1 to the size of the image")?;
            let fits = output <= input - kernel + 1;
            let expected = "at most as many as there are places for the window in the image";
            check(fits, OP, "output_size", output, expected)?;
        }
        Ok(sizes)
    }

    /// The random numbers of all images and channels, `[n, c, 2]`.
    #[track_caller]
    fn samples(&self, batch: &[usize], dtype: DType) -> Result<Tensor> {
        let shape = if let &[n, c] = batch { [n, c, 2] } else { [1, batch[0], 2] };
        let Some(samples) = self._random_samples.as_ref().map(Buffer::value) else {
            return Tensor::try_rand_with(shape, dtype);
        };
        let [images, rest @ ..] = shape;
        if !matches!(samples.dims(), [given, own @ ..] if *given >= images && *own == rest) {
            let (expected, found) = (format!("{shape:?} or more images"), samples.shape().clone());
            return refuse(NnFacts::InputShape { op: OP, name: "random samples", expected, found });
        }
        if samples.dtype() != dtype {
            let (name, found) = ("the random samples", samples.dtype());
            let expected = if dtype == DType::F32 { "f32, as the input" } else { "f64, as the input" };
            return refuse(NnFacts::DType { op: OP, name, found, expected });
        }
        let within = samples.ge(0)?.logical_and(samples.le(1)?)?.all(..)?.item_as::<bool>()?;
        if !within {
            let value = if samples.isnan().any(..)?.item_as::<bool>()? {
                f64::NAN
            } else {
                let (least, most) = (samples.amin(..)?.item()?, samples.amax(..)?.item()?);
                if least < 0.0 { least } else { most }
            };
            let (name, expected) = ("a random sample", "between 0 and 1");
            return refuse(NnFacts::Parameter { op: OP, name, value, expected });
        }
        samples.narrow(0, 0, images)
    }

    /// Where the largest elements of the windows lie in the flat images: `[.., as many as there are results]`.
    #[track_caller]
    fn places(&self, x: &Tensor, samples: &Tensor, sizes: [usize; 2]) -> Result<Tensor> {
        let (batch, own) = x.dims().split_at(x.rank() - 2);
        let results = sizes[0] * sizes[1];
        let flat_batch = [batch, &[results]].concat();
        if x.numel() == 0 || results == 0 {
            return Tensor::try_zeros_with(flat_batch, DType::I64);
        }
        let kernel = self.kernel_size.get();
        // The first of the largest of a window is that of its rows' first ones: along the rows for all rows of the image, and then down the
        // columns, which takes a window's width and height in memory, and not its elements.
        let columns = starts(&samples.narrow(-1, 0, 1)?, own[1], sizes[1], kernel[1])?;
        let (values, columns) = first_in_windows(x, &columns, kernel[1])?;
        let rows = starts(&samples.narrow(-1, 1, 1)?, own[0], sizes[0], kernel[0])?;
        let (_, rows) = first_in_windows(&values.transpose(-2, -1)?, &rows, kernel[0])?;
        let rows = rows.transpose(-2, -1)?;
        rows.mul(own[1] as i64)?.add(columns.gather(-2, &rows)?)?.reshape(flat_batch)
    }
}

/// The largest elements of windows along the last axis of `[.., lines, size]`, and where they lie: the first ones. `starts` are
/// `[n, c, windows]`, the same for all lines of an image; results are `[.., lines, windows]`.
#[track_caller]
fn first_in_windows(x: &Tensor, starts: &Tensor, size: usize) -> Result<(Tensor, Tensor)> {
    let (batch, lines, windows) = (&x.dims()[..x.rank() - 2], x.dims()[x.rank() - 2], starts.dims()[2]);
    let elements = starts.unsqueeze(-1)?.add(Tensor::try_arange(0..size as i64)?)?;
    let elements = elements.reshape([batch, &[1, windows * size]].concat())?;
    let elements = elements.expand([batch, &[lines, windows * size]].concat())?;
    let apart = [batch, &[lines, windows, size]].concat();
    let picked = x.gather(-1, &elements)?.reshape(apart.as_slice())?;
    let first = first_of_largest(&picked)?.unsqueeze(-1)?;
    let places = elements.reshape(apart)?.gather(-1, &first)?;
    Ok((picked.gather(-1, first)?.squeeze(-1)?, places.squeeze(-1)?))
}

/// Where the windows along an axis begin, for each random number: `[n, c, 1]` to `[n, c, output]`. PyTorch's `generate_intervals`
/// (`aten/src/ATen/native/FractionalMaxPooling.h`), in the numbers' type.
#[track_caller]
fn starts(samples: &Tensor, input: usize, output: usize, kernel: usize) -> Result<Tensor> {
    let last = (input - kernel) as i64;
    let end = samples.mul(0)?.long().add(last)?;
    if output == 1 {
        return Ok(end);
    }
    let apart = last as f64 / (output - 1) as f64;
    let numbers = Tensor::try_arange(0..output as i64 - 1)?.to(samples.dtype());
    let each = samples.add(numbers)?.mul(apart)?.long().sub(samples.mul(apart)?.long())?;
    Tensor::cat([&each, &end], -1)
}

#[forward]
impl FractionalMaxPool2d {
    /// One number for each window and channel. The gradient goes to the elements that were taken, the first of equal ones.
    ///
    /// # Errors
    /// `InputShape` for another number of axes, for images without elements and for samples of another shape; `Parameter` for a
    /// window, a size or a ratio that does not fit the image, and for a sample that is not between 0 and 1; `DType` for integers,
    /// `bool`, and samples of another type.
    #[track_caller]
    pub fn forward(&self, input: &Var) -> Result<Var> {
        Ok(self.largest(input)?.0)
    }
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::{manual_seed, tensor};

    use super::*;

    #[test]
    fn windows_are_drawn_by_the_threads_generator() {
        let x = Tensor::randn([2, 3, 11, 13]);
        let layer = FractionalMaxPool2d::size((2, 3), (5, 7));
        let drawn = |seed| {
            manual_seed(seed);
            layer.forward_with_indices(&x).unwrap()
        };
        let ((a, places), (b, _), (other, _)) = (drawn(1), drawn(1), drawn(2));
        assert_eq!(a.value(), b.value());
        assert_ne!(a.value(), other.value());
        assert_eq!(
            x.flatten(2..).unwrap().gather(2, places.value().flatten(2..).unwrap()).unwrap(),
            a.value().flatten(2..).unwrap()
        );
    }

    #[test]
    fn overlapping_windows_add_their_gradients() {
        let x = tensor![[[1.0, 5.0, 2.0], [0.0, 3.0, 4.0]]].requires_grad();
        let layer = FractionalMaxPool2d::size((1, 2), (2, 2)).random_samples(tensor![[[0.5, 0.5]]]);
        let (y, places) = layer.forward_with_indices(&x).unwrap();
        assert_eq!(
            (y.value(), places.value()),
            (tensor![[[5.0, 5.0], [3.0, 4.0]]], tensor![[[1, 1], [4, 5]]; i64])
        );
        y.sum(..).unwrap().backward().unwrap();
        assert_eq!(x.grad(), Some(tensor![[[0.0, 2.0, 0.0], [0.0, 1.0, 1.0]]]));
    }

    /// By the axes one after the other, the element is that of a walk over each window: the first of equal ones, or the last NaN.
    #[test]
    fn windows_take_what_a_walk_over_them_takes() {
        manual_seed(3);
        let (c, h, w, kernel, sizes) = (3, 9, 8, [3, 4], [5, 3]);
        let x = Tensor::randint(0..4, [1, c, h, w]).to(DType::F64);
        let x = x.eq(3.0).unwrap().where_cond(f64::NAN, &x).unwrap();
        let samples = Tensor::rand_with([1, c, 2], DType::F64);
        let layer = FractionalMaxPool2d::size((kernel[0], kernel[1]), (sizes[0], sizes[1]));
        let (_, places) = layer.random_samples(samples.clone()).forward_with_indices(&x).unwrap();
        let (places, x) = (places.value().to_vec::<i64>().unwrap(), x.to_vec::<f64>().unwrap());
        let u = samples.to_vec::<f64>().unwrap();
        let start = |i: usize, u: f64, size: usize, kernel: usize, windows: usize| {
            let apart = (size - kernel) as f64 / (windows - 1) as f64;
            if i + 1 == windows {
                size - kernel
            } else {
                ((i as f64 + u) * apart) as usize - (u * apart) as usize
            }
        };
        let mut expected = Vec::new();
        for channel in 0..c {
            for (i, j) in (0..sizes[0]).flat_map(|i| (0..sizes[1]).map(move |j| (i, j))) {
                let top = start(i, u[2 * channel + 1], h, kernel[0], sizes[0]);
                let left = start(j, u[2 * channel], w, kernel[1], sizes[1]);
                let window =
                    (top..top + kernel[0]).flat_map(|r| (left..left + kernel[1]).map(move |k| r * w + k));
                let value = |place: usize| x[channel * h * w + place];
                let best = window.reduce(|best, place| {
                    if value(place) > value(best) || value(place).is_nan() { place } else { best }
                });
                expected.push(best.unwrap() as i64);
            }
        }
        assert_eq!(places, expected);
    }

    #[test]
    fn refusals() {
        let x = Tensor::ones([1, 2, 4, 4]);
        let text =
            |layer: FractionalMaxPool2d| layer.forward(&x).unwrap_err().with_location(None).to_string();
        let plain = || FractionalMaxPool2d::size(2, 3);
        assert!(text(FractionalMaxPool2d::size(2, 4)).contains("output_size = 4"));
        assert!(text(FractionalMaxPool2d::size(5, 1)).contains("kernel_size = 5"));
        assert!(text(FractionalMaxPool2d::size(0, 1)).contains("kernel_size = 0"));
        assert!(text(FractionalMaxPool2d::size(usize::MAX, usize::MAX)).contains("kernel_size = "));
        for ratio in [0.0, 1.0, -0.5, f64::NAN] {
            assert!(text(FractionalMaxPool2d::ratio(2, ratio)).contains("output_ratio = "));
        }
        assert_eq!(FractionalMaxPool2d::ratio(2, 0.1).forward(&x).unwrap().shape(), [1, 2, 0, 0]);
        assert!(text(plain().random_samples(Tensor::zeros([1, 2, 3]))).contains("[1, 2, 2]"));
        assert!(
            text(plain().random_samples(Tensor::zeros_with([1, 2, 2], DType::F64))).contains("as the input")
        );
        for sample in [-0.1f32, 1.5, f32::NAN] {
            assert!(
                text(plain().random_samples(Tensor::full([1, 2, 2], sample))).contains("a random sample = ")
            );
        }
        assert!(plain().forward(Tensor::ones([4, 4])).is_err());
        assert!(plain().forward(Tensor::ones([2, 4, 4]).long()).is_err());
        assert_eq!(plain().forward(Tensor::ones([0, 2, 4, 4])).unwrap().shape(), [0, 2, 3, 3]);
    }
}
