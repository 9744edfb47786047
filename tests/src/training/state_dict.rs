//! Names and shapes of what models hold, and loading by name.

use std::collections::BTreeSet;

use foldback_nn::{LoadReport, Module, NnFacts};
use foldback_tensor::{DType, StateDict, Tensor};
use serde_json::Value;

use super::layer::stop;
use super::model::build;
use super::{Judge, TrainingCase};
use crate::conformance::case::{array, text};
use crate::conformance::run::Stop;

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let mut model = build(case.get("model")?, DType::F32).map_err(stop)?;
    let parameters = model.named_parameters();
    let shapes = parameters.iter().map(|(name, p)| shaped(name, p.shape().dims()));
    same(judge, "named_parameters", shapes.collect(), array(&case.body, "named_parameters")?)?;
    let buffers = model.named_buffers();
    let shapes = buffers.iter().map(|(name, b)| shaped(name, b.value().dims()));
    same(judge, "named_buffers", shapes.collect(), array(&case.body, "named_buffers")?)?;
    let state = model.state_dict();
    let entries = state.iter().map(|(name, t)| {
        let mut entry = shaped(name, t.dims());
        entry.as_array_mut().expect("it is a list").push(t.dtype().to_string().into());
        entry
    });
    same(judge, "state_dict", entries.collect(), array(&case.body, "state_dict")?)?;
    let count = model.num_parameters();
    if case.get("count")?.as_u64() != Some(count as u64) {
        return Err(Stop::Failed(format!("{count} numbers, expected {}", case.get("count")?)));
    }
    match case.body.get("load") {
        Some(load) => loading(&mut model, load, case.get("load_result")?, judge),
        None => Ok(()),
    }
}

fn shaped(name: &str, shape: &[usize]) -> Value {
    serde_json::json!([name, shape])
}

/// Compares two lists as sets.
fn same(judge: &mut Judge, what: &str, found: Vec<Value>, expected: &[Value]) -> Result<(), Stop> {
    let set = |list: &[Value]| list.iter().map(Value::to_string).collect::<BTreeSet<_>>();
    let (own, wanted) = (set(&found), set(expected));
    if own != wanted || found.len() != expected.len() {
        let less: Vec<_> = wanted.difference(&own).collect();
        let more: Vec<_> = own.difference(&wanted).collect();
        return Err(Stop::Failed(format!("{what}: lacks {less:?}, has {more:?} besides")));
    }
    if let Some((own, theirs)) = found.iter().zip(expected).find(|(own, theirs)| own != theirs) {
        judge.remark(format!("{what}: another order, {own} where PyTorch has {theirs}"));
    }
    Ok(())
}

/// Loads zeros into a model of ones: all that fits, or nothing.
fn loading(model: &mut impl Module, load: &Value, result: &Value, judge: &mut Judge) -> Result<(), Stop> {
    fill(model)?;
    let before = model.state_dict();
    let strict = load.get("strict").and_then(Value::as_bool).ok_or_else(|| "no `strict`".to_owned())?;
    let mut given = StateDict::new();
    for entry in array(load, "entries")? {
        let (name, shape) = (entry.get(0).and_then(Value::as_str), entry.get(1).and_then(Value::as_array));
        let (Some(name), Some(shape)) = (name, shape) else {
            return Err("no name and shape".to_owned().into());
        };
        let sizes = shape.iter().map(|n| n.as_u64().unwrap_or_default() as usize);
        given.insert(name, Tensor::zeros(sizes.collect::<Vec<_>>()));
    }
    let verdict = text(result, "verdict")?;
    let loaded = model.load_state_dict_with(&given, strict);
    match loaded {
        Ok(report) if verdict == "load" => {
            names(&report, result, true)?;
            for (name, value) in model.state_dict().iter() {
                let old = before.get(name).expect("it has the same names");
                let expected = if is_given(model, &given, name) { old.zeros_like() } else { old.clone() };
                if *value != expected {
                    return Err(Stop::Failed(format!("{name} is {value:?} after loading")));
                }
                judge.note(name, value);
            }
            Ok(())
        }
        Err(e) if verdict == "refuse" => {
            let Some(NnFacts::StateDict { report, .. }) = e.facts() else { return Err(e.to_string().into()) };
            names(report, result, strict)?;
            let shown = e.to_string();
            for key in ["missing", "unexpected", "mismatched"] {
                let unnamed =
                    array(result, key)?.iter().filter_map(Value::as_str).find(|name| !shown.contains(name));
                if let Some(name) = unnamed {
                    return Err(Stop::Failed(format!("the error does not name {name}: {shown}")));
                }
            }
            if strict && model.load_state_dict(&given).is_ok() {
                return Err(Stop::Failed("load_state_dict does not refuse".into()));
            }
            if model.state_dict() != before {
                return Err(Stop::Failed("a refusal has changed something".into()));
            }
            Ok(())
        }
        Ok(_) => Err(Stop::Failed("is not refused".into())),
        Err(e) => Err(Stop::Failed(format!("is refused: {e}"))),
    }
}

/// Whether a state dict has a tensor for what stands under this name, by that or by another of its names.
fn is_given(model: &impl Module, given: &StateDict, name: &str) -> bool {
    let of = |name: &str| model.named_parameters_matching(name).pop().map(|(_, parameter)| parameter);
    let own = of(name);
    given.names().any(|other| match (&own, of(other)) {
        (Some(own), Some(other)) => own.is_same(&other),
        _ => name == other,
    })
}

/// Ones in every parameter and buffer.
fn fill(model: &impl Module) -> Result<(), String> {
    for (_, mut parameter) in model.named_parameters() {
        parameter.set_value(parameter.value().ones_like()).map_err(|e| e.to_string())?;
    }
    model.named_buffers().iter().for_each(|(_, buffer)| buffer.set(buffer.value().ones_like()));
    Ok(())
}

/// The names of a report are those of the case. PyTorch, where it refuses for a shape and is not strict, names nothing else.
fn names(report: &LoadReport, result: &Value, all: bool) -> Result<(), Stop> {
    let mismatched: Vec<String> = report.mismatched.iter().map(|m| m.name.clone()).collect();
    let lists =
        [("missing", &report.missing), ("unexpected", &report.unexpected), ("mismatched", &mismatched)];
    for (key, found) in lists {
        let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
        let wanted: BTreeSet<&str> = array(result, key)?.iter().filter_map(Value::as_str).collect();
        if if all { found != wanted } else { !found.is_superset(&wanted) } {
            return Err(Stop::Failed(format!("{key}: {found:?}, expected {wanted:?}")));
        }
    }
    Ok(())
}
