//! Pooling, its places and what undoes it; patches; channels.

use foldback_graph::Var;
use foldback_nn::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AvgPool1d, AvgPool2d,
    ChannelShuffle, Fold, FractionalMaxPool2d, LPPool1d, LPPool2d, Layer, MaxPool1d, MaxPool2d, MaxUnpool1d,
    MaxUnpool2d, Unfold,
};
use foldback_tensor::Pair;

use super::basic::size;
use super::images::{divisor, set, step};
use super::{Model, Results, Row, called, one, row};
use crate::conformance::args::{Args, Read, Refusal};
use crate::conformance::table::images::{adaptive, both, factors_of, one_or_two, pair, single};

/// A layer that may also say where its results were.
macro_rules! picking {
    ($name:literal, $layer:ident, $keywords:literal, |$a:ident| $new:expr) => {
        Row {
            name: $name,
            keywords: $keywords,
            new: |$a, _| {
                picking($new, $a, |layer: &$layer, a| {
                    let (values, places) = layer.forward_with_indices(&a.var("input")?)?;
                    Ok(vec![Some(values), Some(places)])
                })
            },
        }
    };
}

fn picking<L: Layer + 'static>(layer: L, a: &Args, both: fn(&L, &Args) -> Results) -> Read<Model> {
    Ok(match a.flag("return_indices", false)? {
        true => called(layer, "input", both),
        false => Model::Layer(Box::new(layer)),
    })
}

macro_rules! largest {
    ($name:literal, $layer:ident, $kernel:ident, $step:ident) => {
        picking!($name, $layer, "kernel_size stride padding dilation return_indices ceil_mode", |a| {
            let layer = $layer::new($kernel(a, "kernel_size")?).ceil_mode(a.flag("ceil_mode", false)?);
            set!(layer, a: stride $step padding $step dilation $step);
            layer
        })
    };
}

macro_rules! undone {
    ($name:literal, $layer:ident, $kernel:ident, $step:ident) => {
        row!(
            $name,
            "kernel_size stride padding",
            |a, _| {
                let layer = $layer::new($kernel(a, "kernel_size")?);
                set!(layer, a: stride $step padding $step);
                layer
            },
            "input indices output_size",
            |layer, a| {
                let (x, places): (Var, Var) = (a.var("input")?, a.var("indices")?);
                match $step(a, "output_size")? {
                    Some(size) => one(layer.forward_with(&x, &places, size)),
                    None => one(layer.forward(&x, &places)),
                }
            }
        )
    };
}

macro_rules! norms {
    ($name:literal, $layer:ident, $kernel:ident, $step:ident) => {
        row!($name, "norm_type kernel_size stride ceil_mode", |a, _| {
            let layer = $layer::new(a.float("norm_type", 0.0)?, $kernel(a, "kernel_size")?);
            set!(layer, a: stride $step);
            layer.ceil_mode(a.flag("ceil_mode", false)?)
        })
    };
}

/// Both sizes, or one for both.
fn two(a: &Args, name: &str) -> Read<Pair> {
    one_or_two(a, name)?.ok_or_else(|| Refusal::Argument(format!("no `{name}`")))
}

fn fractional(a: &Args) -> Read<FractionalMaxPool2d> {
    let kernel = two(a, "kernel_size")?;
    let layer = match (one_or_two(a, "output_size")?, a.has("output_ratio")) {
        (Some(size), false) => FractionalMaxPool2d::size(kernel, size),
        (None, true) => FractionalMaxPool2d::ratio(kernel, factors_of(a, "output_ratio")?),
        _ => return Err(Refusal::Argument("one of `output_size` and `output_ratio`".into())),
    };
    Ok(match a.maybe_var("_random_samples")? {
        Some(samples) => layer.random_samples(samples.value()),
        None => layer,
    })
}

pub(super) const ROWS: &[Row] = &[
    largest!("MaxPool1d", MaxPool1d, single, step),
    largest!("MaxPool2d", MaxPool2d, both, pair),
    undone!("MaxUnpool1d", MaxUnpool1d, single, step),
    undone!("MaxUnpool2d", MaxUnpool2d, both, pair),
    picking!("AdaptiveMaxPool1d", AdaptiveMaxPool1d, "output_size return_indices", |a| {
        AdaptiveMaxPool1d::new(single(a, "output_size")?)
    }),
    picking!("AdaptiveMaxPool2d", AdaptiveMaxPool2d, "output_size return_indices", |a| {
        AdaptiveMaxPool2d::new(adaptive(a)?)
    }),
    picking!(
        "FractionalMaxPool2d",
        FractionalMaxPool2d,
        "kernel_size output_size output_ratio return_indices _random_samples",
        |a| fractional(a)?
    ),
    norms!("LPPool1d", LPPool1d, single, step),
    norms!("LPPool2d", LPPool2d, both, pair),
    row!("AvgPool1d", "kernel_size stride padding ceil_mode count_include_pad", |a, _| {
        let layer = AvgPool1d::new(single(a, "kernel_size")?).ceil_mode(a.flag("ceil_mode", false)?);
        set!(layer, a: stride step padding step);
        layer.count_include_pad(a.flag("count_include_pad", true)?)
    }),
    row!("AvgPool2d", "kernel_size stride padding ceil_mode count_include_pad divisor_override", |a, _| {
        let layer = AvgPool2d::new(both(a, "kernel_size")?).ceil_mode(a.flag("ceil_mode", false)?);
        set!(layer, a: stride pair padding pair divisor_override divisor);
        layer.count_include_pad(a.flag("count_include_pad", true)?)
    }),
    row!("AdaptiveAvgPool1d", "output_size", |a, _| AdaptiveAvgPool1d::new(single(a, "output_size")?)),
    row!("AdaptiveAvgPool2d", "output_size", |a, _| AdaptiveAvgPool2d::new(adaptive(a)?)),
    row!("Unfold", "kernel_size dilation padding stride", |a, _| {
        let layer = Unfold::new(two(a, "kernel_size")?);
        set!(layer, a: dilation one_or_two padding one_or_two stride one_or_two);
        layer
    }),
    row!("Fold", "output_size kernel_size dilation padding stride", |a, _| {
        let layer = Fold::new(two(a, "output_size")?, two(a, "kernel_size")?);
        set!(layer, a: dilation one_or_two padding one_or_two stride one_or_two);
        layer
    }),
    row!("ChannelShuffle", "groups", |a, _| ChannelShuffle::new(size(a, "groups")?)),
];
