//! Averages of models.

use foldback::train::{AveragedModel, update_bn};
use foldback_nn::Module;
use foldback_tensor::{Error, Tensor};
use serde_json::Value;

use super::judge::{list, number, written};
use super::layer::{dtype, stop};
use super::model::{Model, build};
use super::{Judge, TrainingCase};
use crate::conformance::run::Stop;

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let mut args = case.args();
    let use_buffers = args.remove("use_buffers").and_then(|v| v.as_bool()) == Some(true);
    let decay = args.remove("decay").filter(|v| !v.is_null()).map(|v| number(&v)).transpose()?;
    if let Some(name) = args.keys().next() {
        return Err(Stop::Unsupported(format!("AveragedModel({name})")));
    }
    let mut model = build(case.get("model")?, dtype(case)?).map_err(stop)?;
    model.load(case.get("start")?)?;
    let made = match decay {
        Some(decay) => AveragedModel::try_ema(&model, decay),
        None => Ok(AveragedModel::new(&model)),
    };
    let averaged = match (made, case.is_refused()) {
        (Ok(averaged), false) => averaged.use_buffers(use_buffers),
        (Err(_), true) => return Ok(()),
        (Ok(_), true) => return Err(Stop::Failed("was not refused".into())),
        (Err(e), false) => return Err(Stop::Failed(format!("refused: {e}"))),
    };
    let states = list(case.get("states")?)?;
    for k in 0..=states.len() {
        if k > 0 {
            model.load(&states[k - 1])?;
            averaged.update(&model).map_err(|e| e.to_string())?;
        }
        if let Some(expected) = case.get("after")?.get(k.to_string()) {
            compare(judge, &format!("after {k} updates"), &averaged.module, expected)?;
        }
    }
    let Ok(batches) = case.get("batches") else { return Ok(()) };
    let batches = list(batches)?.iter().map(written).collect::<Result<Vec<_>, Stop>>()?;
    let forward = |averaged: &AveragedModel<Model>, x: &Tensor| match &averaged.module {
        Model::Layer(layer) => layer.forward(x),
        _ => Err(Error::other("a form of model that is no layer")),
    };
    let mut averaged = averaged;
    update_bn(batches.into_iter().map(Ok), &mut averaged, forward).map_err(|e| e.to_string())?;
    compare(judge, "after update_bn", &averaged.module, case.get("after_update_bn")?)
}

/// The state of a model against a written one, name by name.
pub(super) fn compare(judge: &mut Judge, when: &str, model: &Model, expected: &Value) -> Result<(), Stop> {
    let (found, expected) = (model.state_dict(), expected.as_object().cloned().unwrap_or_default());
    if found.len() != expected.len() {
        return Err(Stop::Failed(format!("{} entries {when}, expected {}", found.len(), expected.len())));
    }
    expected.iter().try_for_each(|(name, expected)| {
        let found = found.get(name).ok_or_else(|| format!("no `{name}` {when}"))?;
        judge.tensor(&format!("`{name}` {when}"), found, expected)
    })
}
