//! Summaries: how many parameters a model has, and what a call of it costs.

use foldback_nn::{Error, Module, Summary};
use serde_json::{Map, Value};

use super::judge::list;
use super::layer::{dtype, inputs, stop};
use super::model::build;
use super::{Judge, TrainingCase};
use crate::conformance::args::{Args, Refusal};
use crate::conformance::run::Stop;

pub(super) fn replay(case: &TrainingCase, _: &mut Judge) -> Result<(), Stop> {
    let mut model = build(case.get("model")?, dtype(case)?).map_err(stop)?;
    for name in list(case.get("frozen")?)?.iter().filter_map(Value::as_str) {
        model.requires_grad_matching(name, false).map_err(|e| e.to_string())?;
    }
    let args = Args::new(inputs(case)?.named, Map::new());
    let summary = Summary::of(&model, |model| {
        model.call("the model", &args).map_err(|refusal| match refusal {
            Refusal::Library(text) | Refusal::Argument(text) | Refusal::Unsupported(text) => {
                Error::other(text)
            }
        })
    });
    let summary = summary.map_err(|e| format!("refused: {e}"))?;
    let equal = |what: &str, found: u64, expected: &Value| match expected.as_u64() {
        Some(expected) if expected == found => Ok(()),
        _ => Err(Stop::Failed(format!("{what}: {found}, expected {expected}"))),
    };
    equal("parameters", summary.parameters as u64, case.get("parameters")?)?;
    equal("trainable ones", summary.trainable as u64, case.get("trainable")?)?;
    equal("FLOPs", summary.flops, case.get("flops")?)?;
    for part in list(case.get("parts")?)? {
        let path = part[0].as_str().unwrap_or_default();
        let line = summary.layers.iter().find(|line| line.path == path);
        let line = line.ok_or_else(|| format!("no line of `{path}`"))?;
        equal(&format!("parameters of `{path}`"), line.parameters as u64, &part[1])?;
        equal(&format!("FLOPs of `{path}`"), line.flops, &part[2])?;
    }
    // A layer that the derive did not make is called without being seen.
    let Some(output) = summary.layers[0].outputs.first() else { return Ok(()) };
    let sizes = list(case.get("output")?)?;
    sizes.iter().zip(output.dims()).try_for_each(|(size, &found)| equal("the output", found as u64, size))?;
    equal("axes of the output", output.rank() as u64, &sizes.len().into())
}
