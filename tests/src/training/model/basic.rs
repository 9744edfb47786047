//! Linear layers, activations, dropout.

use foldback_graph::Var;
use foldback_nn::{Dropout, GELU, GELUTanh, Linear, ReLU, SiLU, Sigmoid, Softplus, Tanh};
use foldback_tensor::DType;
use serde_json::{Map, Value};

use super::{Model, Row, arguments, row};
use crate::conformance::args::{Args, Read, Refusal};

pub(super) const ROWS: &[Row] = &[
    row!("Linear", "in_features out_features bias", |a, dtype| linear(a, dtype)?),
    row!("Dropout", "p", |a, _| Dropout::try_new(a.float("p", 0.5)?)?),
    row!("ReLU", "", |_, _| ReLU),
    row!("Tanh", "", |_, _| Tanh),
    row!("Sigmoid", "", |_, _| Sigmoid),
    row!("SiLU", "", |_, _| SiLU),
    Row {
        name: "GELU",
        keywords: "approximate",
        new: |a, _| match a.word("approximate", "none")?.as_str() {
            "none" => Ok(Model::Layer(Box::new(GELU))),
            "tanh" => Ok(Model::Layer(Box::new(GELUTanh))),
            other => Err(Refusal::Argument(format!("`approximate` = {other}"))),
        },
    },
    row!("Softplus", "beta threshold", |a, _| {
        Softplus::new().beta(a.float("beta", 1.0)?).threshold(a.float("threshold", 20.0)?)
    }),
];

/// A whole number that is not negative.
pub(super) fn size(a: &Args, name: &str) -> Read<usize> {
    usize::try_from(a.int_of(name)?).map_err(|_| Refusal::Argument(format!("`{name}` is negative")))
}

fn linear(a: &Args, dtype: DType) -> Read<Linear> {
    let builder = Linear::builder(size(a, "in_features")?, size(a, "out_features")?);
    Ok(builder.bias(a.flag("bias", true)?).dtype(dtype).build()?)
}

/// A layer of which one parameter is another's, if it can be made here.
pub(super) fn tied(
    name: &str,
    keywords: Map<String, Value>,
    parameter: &str,
    shared: Var,
    dtype: DType,
) -> Read<Option<Model>> {
    Ok(match (name, parameter) {
        ("Linear", "weight") => {
            let own = linear(&arguments("Linear", "in_features out_features bias", keywords)?, dtype)?;
            Some(Model::Layer(Box::new(Linear::from_parameters(shared, own.bias)?)))
        }
        _ => None,
    })
}
