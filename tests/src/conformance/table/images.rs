//! Convolutions, pooling, interpolation, pixels.

use foldback_tensor::{AdaptiveSize, Conv, Factors, Interpolate, InterpolateMode, Padding, Pair, Pool};
use serde_json::Value;

use super::{Operation, Outcome, one, operation};
use crate::conformance::args::{Args, Read, Refusal};

macro_rules! convolution {
    ($name:literal, $parameters:literal, $call:ident) => {
        operation!(Sum $name, $parameters, |a| {
            let (input, weight, options) = (a.var("input")?, a.var("weight")?, convolution(a)?);
            match a.maybe_var("bias")? {
                Some(bias) => one(input.$call(&weight, options.bias(bias))),
                None => one(input.$call(&weight, options)),
            }
        })
    };
}

macro_rules! largest {
    ($name:literal, $call:ident, $with_indices:ident, $kernel:ident) => {
        operation!(Exact $name, "input kernel_size stride padding dilation ceil_mode return_indices", |a| {
            let (input, kernel, options) = (a.var("input")?, $kernel(a, "kernel_size")?, pool(a)?);
            if a.flag("return_indices", false)? {
                let (values, places) = input.$with_indices(kernel, options)?;
                return Ok(vec![values, places]);
            }
            one(input.$call(kernel, options))
        })
    };
}

macro_rules! mean {
    ($name:literal, $call:ident, $kernel:ident) => {
        operation!(Sum $name, "input kernel_size stride padding ceil_mode count_include_pad divisor_override", |a| {
            let mut options = pool(a)?.count_include_pad(a.flag("count_include_pad", true)?);
            if let Some(divisor) = a.int("divisor_override")? {
                options = options.divisor_override(divisor as i64);
            }
            one(a.var("input")?.$call($kernel(a, "kernel_size")?, options))
        })
    };
}

pub(super) const ROWS: &[Operation] = &[
    convolution!("conv1d", "input weight bias stride padding dilation groups", conv1d_with),
    convolution!("conv2d", "input weight bias stride padding dilation groups", conv2d_with),
    convolution!(
        "conv_transpose1d",
        "input weight bias stride padding output_padding groups dilation",
        conv_transpose1d_with
    ),
    convolution!(
        "conv_transpose2d",
        "input weight bias stride padding output_padding groups dilation",
        conv_transpose2d_with
    ),
    largest!("max_pool1d", max_pool1d_with, max_pool1d_with_indices, single),
    largest!("max_pool2d", max_pool2d_with, max_pool2d_with_indices, both),
    mean!("avg_pool1d", avg_pool1d_with, single),
    mean!("avg_pool2d", avg_pool2d_with, both),
    operation!(Sum "adaptive_avg_pool1d", "input output_size", |a| {
        one(a.var("input")?.adaptive_avg_pool1d(single(a, "output_size")?))
    }),
    operation!(Sum "adaptive_avg_pool2d", "input output_size", |a| {
        one(a.var("input")?.adaptive_avg_pool2d(adaptive(a)?))
    }),
    operation!(Sum "interpolate", "input size scale_factor mode align_corners recompute_scale_factor", interpolated),
    operation!(Exact "pixel_shuffle", "input upscale_factor", |a| {
        one(a.var("input")?.pixel_shuffle(single(a, "upscale_factor")?))
    }),
    operation!(Exact "pixel_unshuffle", "input downscale_factor", |a| {
        one(a.var("input")?.pixel_unshuffle(single(a, "downscale_factor")?))
    }),
];

/// A size of the result, or one or null for each axis.
pub(crate) fn adaptive(a: &Args) -> Read<AdaptiveSize> {
    let refused = || Refusal::Argument("a size that is none".into());
    let size = |v: &Value| match v {
        Value::Null => Ok(None),
        v => v.as_u64().map(|n| Some(n as usize)).ok_or_else(refused),
    };
    match a.value("output_size") {
        Some(Value::Array(list)) if list.len() == 2 => Ok([size(&list[0])?, size(&list[1])?].into()),
        _ => Ok(one_or_two(a, "output_size")?.ok_or_else(refused)?.into()),
    }
}

fn natural(name: &str, n: isize) -> Read<usize> {
    usize::try_from(n).map_err(|_| Refusal::Argument(format!("`{name}` = {n}")))
}

/// A number, or one for each axis.
pub(crate) fn pair(a: &Args, name: &str) -> Read<Option<Pair>> {
    match a.ints(name)?.as_deref() {
        // An empty list is PyTorch's own default of a stride.
        None | Some(&[]) => Ok(None),
        Some(&[both]) => Ok(Some(natural(name, both)?.into())),
        Some(&[first, second]) => Ok(Some([natural(name, first)?, natural(name, second)?].into())),
        Some(other) => Err(Refusal::Argument(format!("`{name}` = {other:?}"))),
    }
}

/// A number, or one for each of two axes where PyTorch takes no list of one.
pub(crate) fn one_or_two(a: &Args, name: &str) -> Read<Option<Pair>> {
    if is_list_of_one(a, name) {
        return Err(Refusal::Argument(format!("`{name}` is a list of one number for two axes")));
    }
    pair(a, name)
}

pub(crate) fn is_list_of_one(a: &Args, name: &str) -> bool {
    matches!(a.value(name), Some(Value::Array(list)) if list.len() == 1)
}

pub(crate) fn both(a: &Args, name: &str) -> Read<Pair> {
    pair(a, name)?.ok_or_else(|| Refusal::Argument(format!("no `{name}`")))
}

pub(crate) fn single(a: &Args, name: &str) -> Read<usize> {
    match a.ints_of(name)?[..] {
        [n] => natural(name, n),
        ref other => Err(Refusal::Argument(format!("`{name}` = {other:?}"))),
    }
}

fn convolution(a: &Args) -> Read<Conv> {
    let mut options = Conv::new();
    match a.word("padding", "") {
        Ok(word) if word == "same" => options = options.padding(Padding::Same),
        Ok(word) if word == "valid" => options = options.padding(Padding::Valid),
        Ok(word) if !word.is_empty() => return Err(Refusal::Argument(format!("`padding` = {word}"))),
        _ => {
            if let Some(padding) = pair(a, "padding")? {
                options = options.padding(padding);
            }
        }
    }
    if let Some(stride) = pair(a, "stride")? {
        options = options.stride(stride);
    }
    if let Some(dilation) = pair(a, "dilation")? {
        options = options.dilation(dilation);
    }
    if let Some(output_padding) = pair(a, "output_padding")? {
        options = options.output_padding(output_padding);
    }
    if let Some(groups) = a.int("groups")? {
        options = options.groups(natural("groups", groups)?);
    }
    Ok(options)
}

fn pool(a: &Args) -> Read<Pool> {
    let mut options = Pool::new().ceil_mode(a.flag("ceil_mode", false)?);
    if let Some(stride) = pair(a, "stride")? {
        options = options.stride(stride);
    }
    if let Some(padding) = pair(a, "padding")? {
        options = options.padding(padding);
    }
    if let Some(dilation) = pair(a, "dilation")? {
        options = options.dilation(dilation);
    }
    Ok(options)
}

fn interpolated(a: &Args) -> Outcome {
    let rank = a.var("input")?.rank();
    if rank == 5 {
        return Err(Refusal::Unsupported("by design: interpolate of volumes".into()));
    }
    for name in ["size", "scale_factor"] {
        if a.value(name).and_then(Value::as_array).is_some_and(|list| list.len() + 2 != rank) {
            return Err(Refusal::Argument(format!("`{name}` has not one number for each axis of the image")));
        }
    }
    let options = match pair(a, "size")? {
        Some(_) if a.has("scale_factor") => {
            return Err(Refusal::Argument("`size` and `scale_factor`".into()));
        }
        Some(size) => Interpolate::size(size),
        None => Interpolate::scale(factors(a)?),
    };
    let options = options.mode(interpolate_mode(a)?).align_corners(a.flag("align_corners", false)?);
    let recompute = a.flag("recompute_scale_factor", false)?;
    one(a.var("input")?.interpolate_with(options.recompute_scale_factor(recompute)))
}

/// The mode, which says whether corners can be aligned.
pub(crate) fn interpolate_mode(a: &Args) -> Read<InterpolateMode> {
    match a.word("mode", "nearest")?.as_str() {
        "nearest" | "nearest-exact" if a.has("align_corners") => {
            Err(Refusal::Argument("`align_corners` where nothing is blended".into()))
        }
        "nearest" => Ok(InterpolateMode::Nearest),
        "nearest-exact" => Ok(InterpolateMode::NearestExact),
        "linear" => Ok(InterpolateMode::Linear),
        "bilinear" => Ok(InterpolateMode::Bilinear),
        "bicubic" => Ok(InterpolateMode::Bicubic),
        other => Err(Refusal::Unsupported(format!("interpolate(mode={other})"))),
    }
}

pub(crate) fn factors(a: &Args) -> Read<Factors> {
    factors_of(a, "scale_factor")
}

/// A number, or one for each of two axes.
pub(crate) fn factors_of(a: &Args, name: &str) -> Read<Factors> {
    match a.floats(name)?.as_deref() {
        Some(&[both]) => Ok(both.into()),
        Some(&[first, second]) => Ok([first, second].into()),
        other => Err(Refusal::Argument(format!("`{name}` = {other:?}"))),
    }
}
