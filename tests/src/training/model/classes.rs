//! Losses of classes that have parameters.

use foldback_nn::loss::{AdaptiveLogSoftmaxWithLoss, LinearCrossEntropyLoss};
use foldback_tensor::DType;

use super::basic::size;
use super::{Results, Row, one, row};
use crate::conformance::args::{Args, Read, Refusal};
use crate::training::loss::reduction;

pub(super) const ROWS: &[Row] = &[
    row!(
        "LinearCrossEntropyLoss",
        "in_features num_classes out_features bias weight reduction ignore_index label_smoothing",
        |a, dtype| cross_entropy(a, dtype)?,
        "input target",
        |loss, a| one(loss.forward(&a.var("input")?, &a.var("target")?))
    ),
    row!(
        "AdaptiveLogSoftmaxWithLoss",
        "in_features n_classes cutoffs div_value head_bias",
        |a, dtype| {
            let sizes = [size(a, "in_features")?, size(a, "n_classes")?];
            AdaptiveLogSoftmaxWithLoss::builder(sizes[0], sizes[1], sizes_of(&a.ints_of("cutoffs")?)?)
                .div_value(a.float("div_value", 4.0)?)
                .head_bias(a.flag("head_bias", false)?)
                .dtype(dtype)
                .build()?
        },
        "input target method",
        call_adaptive
    ),
];

fn call_adaptive(layer: &AdaptiveLogSoftmaxWithLoss, a: &Args) -> Results {
    let input = a.var("input")?;
    match a.word("method", "forward")?.as_str() {
        "forward" => {
            let (output, loss) = layer.forward(&input, &a.var("target")?)?;
            Ok(vec![Some(output), Some(loss)])
        }
        "log_prob" => one(layer.log_prob(&input)),
        "predict" => one(layer.predict(&input)),
        other => Err(Refusal::Unsupported(format!("AdaptiveLogSoftmaxWithLoss.{other}"))),
    }
}

fn cross_entropy(a: &Args, dtype: DType) -> Read<LinearCrossEntropyLoss> {
    let mut builder = LinearCrossEntropyLoss::builder(size(a, "in_features")?, size(a, "num_classes")?)
        .bias(a.flag("bias", false)?)
        .reduction(reduction(a)?)
        .label_smoothing(a.float("label_smoothing", 0.0)?)
        .dtype(dtype);
    if let Some(sizes) = a.ints("out_features")? {
        builder = builder.out_features(sizes_of(&sizes)?);
    }
    if let Some(weight) = a.maybe_var("weight")? {
        builder = builder.weight(weight.value());
    }
    if let Some(index) = a.int("ignore_index")? {
        builder = builder.ignore_index(index as i64);
    }
    Ok(builder.build()?)
}

fn sizes_of(sizes: &[isize]) -> Read<Vec<usize>> {
    let sizes = sizes.iter().map(|&size| usize::try_from(size));
    sizes.collect::<Result<_, _>>().map_err(|_| Refusal::Argument("a negative size".into()))
}
