//! What pooling and interpolation decide before they compute: which elements meet in each result, and what does not fit.

use crate::create::{expect_room, expect_room_for};
use crate::dtype::DType;
use crate::error::{Result, TensorFacts, refuse};
use crate::kernels::planes::{Blend, WeightedSum, Windows};
use crate::shape::{Pair, Shape};
use crate::tensor::Tensor;

use super::options::{Factors, Interpolate, InterpolateMode, New, Pool};

/// The shapes of images and of what becomes of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Images {
    pub(super) op: &'static str,
    pub(super) input: Shape,
    pub(super) output: Shape,
}

impl Images {
    /// Of a tensor with an axis for channels, perhaps one for the batch, and `sizes.len()` more that get these sizes.
    pub(super) fn new(op: &'static str, x: &Tensor, sizes: &[usize], dtype: DType) -> Result<Images> {
        let input = x.shape().clone();
        let mut output = input.clone();
        let first = output.rank() - sizes.len();
        output[first..].copy_from_slice(sizes);
        // What is planned for each place along an axis takes as much as some elements.
        let planned = sizes.iter().fold(0usize, |n, &size| n.saturating_add(size)).saturating_mul(16);
        expect_room(op, &output, dtype)?;
        expect_room_for(op, &output, planned, dtype)?;
        Ok(Images { op, input, output })
    }

    /// `count` times as many, along an axis in front.
    pub(super) fn behind(&self, count: usize) -> Images {
        let [input, output] = [&self.input, &self.output].map(|s| [&[count], s.dims()].concat().into());
        Images { op: self.op, input, output }
    }
}

/// Refuses a tensor that is no batch of images, nor one without a batch; or one of no elements in any image.
pub(super) fn expect_images(op: &'static str, x: &Tensor, axes: usize, channels: bool) -> Result<()> {
    if x.rank() != axes + 1 && x.rank() != axes + 2 {
        let expected = ["2 (without a batch) or 3", "3 (without a batch) or 4"][axes - 1];
        return refuse(TensorFacts::Rank { op, operand: "", expected, found: x.rank() });
    }
    let first = if channels { x.rank() - axes - 1 } else { x.rank() - axes };
    if x.dims()[first..].contains(&0) {
        let why = "has no elements in an image: only a batch may be empty".into();
        return refuse(TensorFacts::Window { op, input: x.shape().clone(), why });
    }
    Ok(())
}

/// More padding than this is refused, so that places in it are numbers.
const LARGEST: usize = 1 << 60;

/// A window along one axis.
#[derive(Clone, Copy)]
pub(super) struct Slide {
    input: usize,
    output: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
}

/// The windows along both axes; where there is one axis only, the first is of size 1.
pub(super) fn slides(
    op: &'static str,
    x: &Tensor,
    axes: usize,
    kernel: Pair,
    pool: &Pool,
) -> Result<[Slide; 2]> {
    let stride = pool.stride.unwrap_or(kernel);
    let given = [
        ("kernel", kernel, 1..=usize::MAX),
        ("stride", stride, 1..=usize::MAX),
        ("padding", pool.padding, 0..=LARGEST),
        ("dilation", pool.dilation, 1..=usize::MAX),
    ];
    for (name, pair, sizes) in given {
        let value = || format!("{:?}", pair.get());
        let [a, b] = pair.get();
        if a.min(b) < *sizes.start() {
            return refuse(TensorFacts::Parameter { op, name, value: value(), expected: "at least 1" });
        }
        if a.max(b) > *sizes.end() {
            let expected = "a size that memory has";
            return refuse(TensorFacts::Parameter { op, name, value: value(), expected });
        }
        if axes == 1 && a != b {
            let expected = "one number, as there is one axis";
            return refuse(TensorFacts::Parameter { op, name, value: value(), expected });
        }
    }
    let each = |d: usize| {
        let input = x.dims()[x.rank() - axes + d];
        let [kernel, stride, padding, dilation] =
            [kernel, stride, pool.padding, pool.dilation].map(|pair| pair.get()[d]);
        let reach = dilation as u128 * (kernel as u128 - 1) + 1;
        if 2 * padding as u128 > kernel as u128 {
            let (value, expected) = (padding.to_string(), "at most half of the kernel size");
            return refuse(TensorFacts::Parameter { op, name: "padding", value, expected });
        }
        let padded = input as u128 + 2 * padding as u128;
        let more = if pool.ceil_mode { stride as u128 - 1 } else { 0 };
        if reach > padded + more {
            let why = format!(
                "has size {padded} on an axis with its padding, and the window reaches over {reach}: give more padding or a smaller window"
            );
            return refuse(TensorFacts::Window { op, input: x.shape().clone(), why });
        }
        let mut output = ((padded + more - reach) / stride as u128) as usize + 1;
        // The last window begins inside the input or in front of it.
        if pool.ceil_mode && (output as u128 - 1) * stride as u128 >= input as u128 + padding as u128 {
            output -= 1;
        }
        Ok(Slide { input, output, kernel, stride, padding, dilation })
    };
    let one = Slide { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };
    Ok(if axes == 1 { [one, each(0)?] } else { [each(0)?, each(1)?] })
}

/// The sizes of the results along the axes that there are.
pub(super) fn sizes_of(slides: &[Slide; 2], axes: usize) -> Vec<usize> {
    slides[2 - axes..].iter().map(|s| s.output).collect()
}

impl Slide {
    /// Where each window begins and ends, of what lies in the padding only as far as it is padded. All fits: windows begin
    /// inside the padded input.
    fn each(&self) -> impl Iterator<Item = (isize, isize)> {
        let padding = self.padding as isize;
        (0..self.output).map(move |i| {
            let start = (i * self.stride) as isize - padding;
            let reach =
                self.dilation.saturating_mul(self.kernel - 1).min(isize::MAX as usize / 4) as isize + 1;
            (start, (start + reach).min(self.input as isize + padding))
        })
    }

    /// The elements of each window.
    pub(super) fn windows(&self, op: &'static str, x: &Tensor) -> Result<Windows> {
        let (step, mut each) = (self.dilation, Vec::with_capacity(self.output));
        for (start, end) in self.each() {
            let outside = start.min(0).unsigned_abs();
            let start = start.max(0) as usize + (outside.div_ceil(step) * step - outside);
            let end = end.min(self.input as isize) as usize;
            if start >= end {
                let why = "has a window with nothing but padding: give less dilation or less padding".into();
                return refuse(TensorFacts::Window { op, input: x.shape().clone(), why });
            }
            each.push((start, (end - start).div_ceil(step)));
        }
        Ok(Windows { size: self.input, step, each })
    }

    /// The mean over each window, or its sum divided by a number.
    pub(super) fn mean(&self, pool: &Pool, divisor: Option<i64>) -> Blend {
        let each = self.each().map(|(start, end)| {
            let (from, to) = (start.max(0) as usize, end.min(self.input as isize).max(0) as usize);
            let count = to.saturating_sub(from);
            let counted = if pool.count_include_pad { (end - start) as usize } else { count.max(1) };
            sum_of(from, count, divisor.map_or(counted as f64, |n| n as f64))
        });
        Blend { size: self.input, each: each.collect() }
    }
}

fn sum_of(from: usize, count: usize, divisor: f64) -> WeightedSum {
    WeightedSum { from: from as isize, count, weights: [1.0; 4], divisor }
}

/// Means over parts of an axis that are as equal as can be.
pub(super) fn adaptive(input: usize, output: usize) -> Blend {
    let at = |i: usize, up: usize| ((i as u128 * input as u128 + up as u128) / output as u128) as usize;
    let each = (0..output).map(|i| {
        let (from, to) = (at(i, 0), at(i + 1, output - 1));
        sum_of(from, to - from, (to - from) as f64)
    });
    Blend { size: input, each: each.collect() }
}

/// The elements that an axis of an interpolated image is made of, computed in the precision of its type, as PyTorch does.
///
/// Source: `compute_indices_weights` and `area_pixel_compute_source_index` in PyTorch's `aten/src/ATen/native/UpSample.h`.
fn interpolated(
    input: usize,
    output: usize,
    factor: Option<f64>,
    options: &Interpolate,
    dtype: DType,
) -> Blend {
    let rounded = |v: f64| if dtype == DType::F32 { v as f32 as f64 } else { v };
    let ratio = match factor {
        _ if options.align_corners && output > 1 => (input - 1) as f64 / (output - 1) as f64,
        _ if options.align_corners => 0.0,
        Some(factor) => 1.0 / factor,
        None => input as f64 / output as f64,
    };
    let scale = rounded(ratio);
    let single = |v: f64| v as f32 as f64;
    let nearest = |place: f64| sum_of((place as usize).min(input - 1), 1, 1.0);
    // Where the centre of a new element lies among the old ones, which may be in front of the first.
    let centre = |i: usize| match options.align_corners {
        true => rounded(scale * i as f64),
        false => rounded(rounded(scale * rounded(i as f64 + 0.5)) - 0.5),
    };
    // The element in front of a place and how far behind it the place is; numbers become places in single precision.
    let around = |place: f64| {
        let from = single(place).floor().min((input - 1) as f64);
        (from as isize, rounded(place - from).clamp(0.0, 1.0))
    };
    let each = (0..output).map(|i| match options.mode {
        InterpolateMode::Nearest => nearest(single(rounded(scale * i as f64))),
        InterpolateMode::NearestExact => nearest(single(single(ratio) * (i as f64 + 0.5))),
        // An axis that keeps its size is copied, whatever the factor.
        InterpolateMode::Linear | InterpolateMode::Bilinear if output == input => sum_of(i, 1, 1.0),
        InterpolateMode::Linear | InterpolateMode::Bilinear => {
            let (from, later) = around(centre(i).max(0.0));
            let weights = [rounded(1.0 - later), later, 0.0, 0.0];
            WeightedSum { from, count: 2, weights, divisor: 1.0 }
        }
        InterpolateMode::Bicubic => {
            let (from, later) = around(centre(i));
            WeightedSum { from: from - 1, count: 4, weights: cubic(later), divisor: 1.0 }
        }
    });
    Blend { size: input, each: each.collect() }
}

/// The weights of the two elements on either side of a place so far behind the second one.
///
/// Source: Keys, "Cubic convolution interpolation for digital image processing" (1981), with PyTorch's parameter of -0.75.
fn cubic(later: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |d: f64| ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0;
    let far = |d: f64| ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A;
    let before = 1.0 - later;
    [far(later + 1.0), near(later), near(before), far(before + 1.0)]
}

/// The blends of both axes of an interpolation.
pub(super) fn interpolation(
    op: &'static str,
    x: &Tensor,
    options: &Interpolate,
) -> Result<(Images, [Blend; 2])> {
    let axes = x.rank().saturating_sub(2);
    if !(1..=2).contains(&axes) {
        return refuse(TensorFacts::Rank { op, operand: "", expected: "3 or 4", found: x.rank() });
    }
    expect_images(op, x, axes, true)?;
    use InterpolateMode::{Bicubic, Bilinear, Linear, Nearest, NearestExact};
    let expected = match (axes, options.mode) {
        (1, Bilinear | Bicubic) => Some("Nearest, NearestExact or Linear, as there is one axis"),
        (2, Linear) => Some("Nearest, NearestExact, Bilinear or Bicubic, as there are two axes"),
        _ => None,
    };
    if let Some(expected) = expected {
        return refuse(TensorFacts::Parameter {
            op,
            name: "mode",
            value: format!("{:?}", options.mode),
            expected,
        });
    }
    if options.align_corners && matches!(options.mode, Nearest | NearestExact) {
        let (value, expected) = ("true".into(), "false, or a mode that weighs elements, such as Bilinear");
        return refuse(TensorFacts::Parameter { op, name: "align_corners", value, expected });
    }
    let own = [if axes == 1 { 1 } else { x.dims()[2] }, x.dims()[x.rank() - 1]];
    let kept = |factor: f64| (!options.recompute_scale_factor).then_some(factor);
    let mut sizes = [0, 1].map(|d| match options.to {
        New::Sizes(pair) => (pair.get()[d], None),
        New::Factors(Factors(f)) => ((own[d] as f64 * f[d]).floor() as usize, kept(f[d])),
    });
    if axes == 1 {
        let pair = match options.to {
            New::Sizes(pair) => pair.get().map(|n| n as f64),
            New::Factors(Factors(f)) => f,
        };
        if pair[0] != pair[1] {
            let (value, expected) = (format!("{pair:?}"), "one number, as there is one axis");
            return refuse(TensorFacts::Parameter { op, name: "size", value, expected });
        }
        sizes[0] = (1, None);
    }
    let new = sizes.map(|(n, _)| n);
    if new.contains(&0) {
        let (value, expected) = (format!("{new:?}"), "sizes of 1 and more");
        return refuse(TensorFacts::Parameter { op, name: "size", value, expected });
    }
    let images = Images::new(op, x, &new[2 - axes..], x.dtype())?;
    // Of an image, neighbours along an axis that keeps or doubles its size are those of the sizes, whatever the factor; along a line
    // they are not. Source: `nearest_idx` in PyTorch's `aten/src/ATen/native/UpSample.h`, which its gradients go by, and its results of
    // 128 rows and columns together at most.
    let by_size =
        |d: usize| options.mode == Nearest && axes == 2 && [1, 2].map(|n| n * own[d]).contains(&new[d]);
    let factor = |d: usize| if by_size(d) { None } else { sizes[d].1 };
    let each = |d: usize| interpolated(own[d], new[d], factor(d), options, x.dtype());
    Ok((images, [each(0), each(1)]))
}
