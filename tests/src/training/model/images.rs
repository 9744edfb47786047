//! Convolutions, padding, enlarging.

use foldback_nn::{
    CircularPad1d, CircularPad2d, ConstantPad1d, ConstantPad2d, Conv1d, Conv2d, ConvTranspose1d,
    ConvTranspose2d, PixelShuffle, PixelUnshuffle, ReflectionPad1d, ReflectionPad2d, ReplicationPad1d,
    ReplicationPad2d, Upsample, ZeroPad1d, ZeroPad2d,
};
use foldback_tensor::{Pad, Padding, Pair};

use super::basic::size;
use super::{Model, Row, called, one, row};
use crate::conformance::args::{Args, Read, Refusal};
use crate::conformance::table::images::{both, factors, interpolate_mode, is_list_of_one, pair, single};

/// Sets what is given.
macro_rules! set {
    ($layer:ident, $a:ident: $($name:ident $read:ident)*) => {$(
        let $layer = match $read($a, stringify!($name))? {
            Some(given) => $layer.$name(given),
            None => $layer,
        };
    )*};
}
pub(super) use set;

macro_rules! convolution {
    ($name:literal, $layer:ident, $kernel:ident, $step:ident) => {
        row!(
            $name,
            "in_channels out_channels kernel_size stride padding dilation groups bias padding_mode",
            |a, dtype| {
                let layer =
                    $layer::builder(size(a, "in_channels")?, size(a, "out_channels")?, $kernel(a, "kernel_size")?);
                set!(layer, a: stride $step dilation $step padding padding groups count padding_mode mode);
                layer.bias(a.flag("bias", true)?).dtype(dtype).build()?
            }
        )
    };
}

macro_rules! transposed {
    ($name:literal, $layer:ident, $kernel:ident, $step:ident) => {
        row!(
            $name,
            "in_channels out_channels kernel_size stride padding output_padding groups bias dilation padding_mode",
            |a, dtype| {
                let layer =
                    $layer::builder(size(a, "in_channels")?, size(a, "out_channels")?, $kernel(a, "kernel_size")?);
                set!(layer, a: stride $step dilation $step padding $step output_padding $step groups count);
                let Some(Pad::Constant(_)) = mode(a, "padding_mode")? else {
                    return Err(Refusal::Argument("only zeros".into()));
                };
                layer.bias(a.flag("bias", true)?).dtype(dtype).build()?
            }
        )
    };
}

pub(super) const ROWS: &[Row] = &[
    convolution!("Conv1d", Conv1d, single, step),
    convolution!("Conv2d", Conv2d, both, pair),
    transposed!("ConvTranspose1d", ConvTranspose1d, single, step),
    transposed!("ConvTranspose2d", ConvTranspose2d, both, pair),
    row!("PixelShuffle", "upscale_factor", |a, _| PixelShuffle::new(size(a, "upscale_factor")?)),
    row!("PixelUnshuffle", "downscale_factor", |a, _| PixelUnshuffle::new(size(a, "downscale_factor")?)),
    Row {
        name: "Upsample",
        keywords: "size scale_factor mode align_corners recompute_scale_factor",
        new: |a, _| upsample(a),
    },
    row!("ZeroPad1d", "padding", |a, _| ZeroPad1d::new(a.ints_of("padding")?)),
    row!("ZeroPad2d", "padding", |a, _| ZeroPad2d::new(a.ints_of("padding")?)),
    row!("ConstantPad1d", "padding value", |a, _| ConstantPad1d::new(
        a.ints_of("padding")?,
        a.float("value", 0.0)?
    )),
    row!("ConstantPad2d", "padding value", |a, _| ConstantPad2d::new(
        a.ints_of("padding")?,
        a.float("value", 0.0)?
    )),
    row!("ReflectionPad1d", "padding", |a, _| ReflectionPad1d::new(a.ints_of("padding")?)),
    row!("ReflectionPad2d", "padding", |a, _| ReflectionPad2d::new(a.ints_of("padding")?)),
    row!("ReplicationPad1d", "padding", |a, _| ReplicationPad1d::new(a.ints_of("padding")?)),
    row!("ReplicationPad2d", "padding", |a, _| ReplicationPad2d::new(a.ints_of("padding")?)),
    row!("CircularPad1d", "padding", |a, _| CircularPad1d::new(a.ints_of("padding")?)),
    row!("CircularPad2d", "padding", |a, _| CircularPad2d::new(a.ints_of("padding")?)),
];

/// A number that may be given, as it is or in a list.
pub(super) fn step(a: &Args, name: &str) -> Read<Option<usize>> {
    if a.has(name) { single(a, name).map(Some) } else { Ok(None) }
}

fn count(a: &Args, name: &str) -> Read<Option<usize>> {
    if a.has(name) { size(a, name).map(Some) } else { Ok(None) }
}

/// What sums are divided by, if it is given.
pub(super) fn divisor(a: &Args, name: &str) -> Read<Option<i64>> {
    Ok(a.int(name)?.map(|n| n as i64))
}

fn padding(a: &Args, name: &str) -> Read<Option<Padding>> {
    match a.word(name, "").as_deref() {
        Ok("same") => Ok(Some(Padding::Same)),
        Ok("valid") => Ok(Some(Padding::Valid)),
        Ok("") | Err(_) => Ok(pair(a, name)?.map(Pair::into)),
        Ok(other) => Err(Refusal::Argument(format!("`{name}` = {other}"))),
    }
}

fn mode(a: &Args, name: &str) -> Read<Option<Pad>> {
    Ok(Some(match a.word(name, "zeros")?.as_str() {
        "zeros" => Pad::Constant(0.into()),
        "reflect" => Pad::Reflect,
        "replicate" => Pad::Replicate,
        "circular" => Pad::Circular,
        other => return Err(Refusal::Argument(format!("`{name}` = {other}"))),
    }))
}

fn upsample(a: &Args) -> Read<Model> {
    let layer = match pair(a, "size")? {
        Some(_) if a.has("scale_factor") => {
            return Err(Refusal::Argument("`size` and `scale_factor`".into()));
        }
        Some(size) => Upsample::size(size),
        None => Upsample::scale(factors(a)?),
    };
    let layer = layer.mode(interpolate_mode(a)?);
    let layer = layer.recompute_scale_factor(a.flag("recompute_scale_factor", false)?);
    let layer =
        if a.has("align_corners") { layer.align_corners(a.flag("align_corners", false)?) } else { layer };
    if !["size", "scale_factor"].iter().any(|name| is_list_of_one(a, name)) {
        return Ok(Model::Layer(Box::new(layer)));
    }
    Ok(called(layer, "input", |layer, a| {
        let x = a.var("input")?;
        if x.rank() == 4 {
            return Err(Refusal::Argument("one number in a list for images".into()));
        }
        one(layer.forward(&x))
    }))
}
