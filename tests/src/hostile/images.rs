//! Convolutions, pooling and interpolation, of tensors and of variables, whose gradients must exist where there is a result.

use foldback_graph::Var;
use foldback_tensor::{Conv, DType, Factors, Interpolate, InterpolateMode, Padding, Pair, Pool, Tensor};

use super::variables::backward;
use super::{Choices, Target};

macro_rules! targets {
    ($($name:literal => |$x:ident, $c:ident| $body:expr;)*) => {
        &[$(Target { name: $name, call: |$c: &mut Choices<'_>| {
            let images = images($c);
            let leaf = Var::leaf(images.clone()).unwrap_or_else(|_| Var::constant(images));
            let $x = &leaf;
            backward(&leaf, $body)
        }}),*]
    };
}

pub(super) const TARGETS: &[Target] = targets! {
    "conv1d" => |x, c| x.conv1d_with(images(c), conv(c));
    "conv2d" => |x, c| x.conv2d_with(images(c), conv(c));
    "conv2d" => |x, c| x.conv2d_with(images(c), conv(c).bias(c.tensor()));
    "conv2d" => |x, c| x.conv2d(images(c));
    "conv_transpose1d" => |x, c| x.conv_transpose1d_with(images(c), conv(c));
    "conv_transpose2d" => |x, c| x.conv_transpose2d_with(images(c), conv(c));
    "max_pool1d" => |x, c| x.max_pool1d_with(c.size(), pool(c));
    "max_pool2d" => |x, c| x.max_pool2d_with(pair(c), pool(c));
    "max_pool2d" => |x, c| x.max_pool2d_with_indices(pair(c), pool(c)).map(|found| found.0);
    "avg_pool1d" => |x, c| x.avg_pool1d_with(c.size(), pool(c));
    "avg_pool2d" => |x, c| x.avg_pool2d_with(pair(c), pool(c));
    "adaptive_avg_pool1d" => |x, c| x.adaptive_avg_pool1d(c.size());
    "adaptive_avg_pool2d" => |x, c| x.adaptive_avg_pool2d(pair(c));
    "adaptive_avg_pool2d" => |x, c| x.adaptive_avg_pool2d((None, c.size()));
    "interpolate" => |x, c| x.interpolate_with(interpolate(c));
    "pixel_shuffle" => |x, c| x.pixel_shuffle(c.size());
    "pixel_unshuffle" => |x, c| x.pixel_unshuffle(c.size());
};

/// Some images, mostly with channels and a batch.
fn images(c: &mut Choices<'_>) -> Tensor {
    if c.flag() && c.flag() {
        return c.tensor();
    }
    let sizes = [1 + c.below(2), 1 + c.below(4), 1 + c.below(4), 1 + c.below(4)];
    let first = c.below(2);
    c.tensor_like(&sizes[first..], DType::F64)
}

fn pair(c: &mut Choices<'_>) -> Pair {
    let first = c.size();
    if c.flag() { first.into() } else { (first, c.size()).into() }
}

fn conv(c: &mut Choices<'_>) -> Conv {
    let mut conv = Conv::new();
    if c.flag() {
        conv = conv.padding(if c.flag() { Padding::Same } else { pair(c).into() });
    }
    if c.flag() {
        conv = conv.stride(pair(c)).dilation(pair(c));
    }
    if c.flag() {
        conv = conv.groups(c.size()).output_padding(pair(c));
    }
    conv
}

fn pool(c: &mut Choices<'_>) -> Pool {
    let mut pool = Pool::new().ceil_mode(c.flag()).count_include_pad(c.flag());
    if c.flag() {
        pool = pool.stride(pair(c));
    }
    if c.flag() {
        pool = pool.padding(pair(c));
    }
    if c.flag() {
        pool = pool.dilation(pair(c));
    }
    if c.flag() {
        pool = pool.divisor_override(c.size());
    }
    pool
}

fn interpolate(c: &mut Choices<'_>) -> Interpolate {
    let options = match c.flag() {
        true => Interpolate::size(pair(c)),
        false => Interpolate::scale(Factors::from([c.float(), c.float()])),
    };
    use InterpolateMode::{Bicubic, Bilinear, Linear, Nearest, NearestExact};
    let mode = [Nearest, NearestExact, Linear, Bilinear, Bicubic][c.below(5)];
    options.mode(mode).align_corners(c.flag())
}
