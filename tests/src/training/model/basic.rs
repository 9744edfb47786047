//! Linear and bilinear layers, embeddings, dropout, distances, shapes.

use foldback_graph::Var;
use foldback_nn::{
    AlphaDropout, Bilinear, CosineSimilarity, Dropout, Dropout1d, Dropout2d, Embedding, FeatureAlphaDropout,
    Flatten, Identity, Linear, PairwiseDistance, Unflatten,
};
use foldback_tensor::DType;
use serde_json::{Map, Value};

use super::{Model, Row, arguments, one, row};
use crate::conformance::args::{Args, Read, Refusal};

pub(super) const ROWS: &[Row] = &[
    row!("Linear", "in_features out_features bias", |a, dtype| linear(a, dtype)?),
    row!(
        "Bilinear",
        "in1_features in2_features out_features bias",
        |a, dtype| {
            let sizes = [size(a, "in1_features")?, size(a, "in2_features")?, size(a, "out_features")?];
            Bilinear::builder(sizes[0], sizes[1], sizes[2])
                .bias(a.flag("bias", true)?)
                .dtype(dtype)
                .build()?
        },
        "input1 input2",
        |layer, a| one(layer.forward(&a.var("input1")?, &a.var("input2")?))
    ),
    row!(
        "Embedding",
        "num_embeddings embedding_dim padding_idx max_norm norm_type scale_grad_by_freq",
        |a, dtype| embedding(a, dtype)?
    ),
    row!("Dropout", "p", |a, _| Dropout::try_new(a.float("p", 0.5)?)?),
    row!("Dropout1d", "p", |a, _| Dropout1d::try_new(a.float("p", 0.5)?)?),
    row!("Dropout2d", "p", |a, _| Dropout2d::try_new(a.float("p", 0.5)?)?),
    row!("AlphaDropout", "p", |a, _| AlphaDropout::try_new(a.float("p", 0.5)?)?),
    row!("FeatureAlphaDropout", "p", |a, _| FeatureAlphaDropout::try_new(a.float("p", 0.5)?)?),
    row!("Identity", "", |_, _| Identity),
    row!("Flatten", "start_dim end_dim", |a, _| {
        Flatten::over(a.int("start_dim")?.unwrap_or(1)..=a.int("end_dim")?.unwrap_or(-1))
    }),
    row!("Unflatten", "dim unflattened_size", |a, _| {
        Unflatten::new(a.int_of("dim")?, a.ints_of("unflattened_size")?)
    }),
    row!(
        "CosineSimilarity",
        "dim eps",
        |a, _| CosineSimilarity::new().dim(a.int("dim")?.unwrap_or(1)).eps(a.float("eps", 1e-8)?),
        "x1 x2",
        |layer, a| one(layer.forward(&a.var("x1")?, &a.var("x2")?))
    ),
    row!(
        "PairwiseDistance",
        "p eps keepdim",
        |a, _| {
            let layer = PairwiseDistance::new().p(a.float("p", 2.0)?).eps(a.float("eps", 1e-6)?);
            layer.keepdim(a.flag("keepdim", false)?)
        },
        "x1 x2",
        |layer, a| one(layer.forward(&a.var("x1")?, &a.var("x2")?))
    ),
];

/// A whole number that is not negative.
pub(super) fn size(a: &Args, name: &str) -> Read<usize> {
    usize::try_from(a.int_of(name)?).map_err(|_| Refusal::Argument(format!("`{name}` is negative")))
}

fn linear(a: &Args, dtype: DType) -> Read<Linear> {
    let builder = Linear::builder(size(a, "in_features")?, size(a, "out_features")?);
    Ok(builder.bias(a.flag("bias", true)?).dtype(dtype).build()?)
}

fn embedding(a: &Args, dtype: DType) -> Read<Embedding> {
    let builder = Embedding::builder(size(a, "num_embeddings")?, size(a, "embedding_dim")?);
    let builder = builder.padding_idx(a.int("padding_idx")?.map(|row| row as i64)).dtype(dtype);
    let builder = builder
        .max_norm(a.scalar("max_norm")?.map(|norm| norm.to_f64()))
        .norm_type(a.float("norm_type", 2.0)?);
    Ok(builder.scale_grad_by_freq(a.flag("scale_grad_by_freq", false)?).build()?)
}

/// A layer of which one parameter is another's, if it can be made here.
pub(super) fn tied(
    name: &str,
    keywords: Map<String, Value>,
    parameter: &str,
    shared: Var,
    dtype: DType,
) -> Read<Option<Model>> {
    let row =
        ROWS.iter().find(|row| row.name == name).ok_or_else(|| Refusal::Unsupported("form of tie".into()))?;
    let a = arguments(row.name, row.keywords, keywords)?;
    Ok(match (name, parameter) {
        ("Linear", "weight") => {
            let own = linear(&a, dtype)?;
            Some(Model::Layer(Box::new(Linear::from_parameters(shared, own.bias)?)))
        }
        ("Embedding", "weight") => {
            let mut own = embedding(&a, dtype)?;
            own.weight = shared;
            Some(Model::Layer(Box::new(own)))
        }
        _ => None,
    })
}
