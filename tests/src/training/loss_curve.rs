//! Whole trainings.

use foldback::optim::clip_grad_norm_with_;
use foldback_graph::{Var, no_grad};
use foldback_nn::Module;
use foldback_tensor::name_matches;
use serde_json::{Map, Value};

use super::ema::compare;
use super::judge::{list, number, written};
use super::layer::{dtype, stop};
use super::model::{Model, build};
use super::optimizer::{Groups, Made, NotMade, make};
use super::schedule::{Course, schedule};
use super::{Judge, TrainingCase, loss};
use crate::conformance::args::Args;
use crate::conformance::case::text;
use crate::conformance::run::Stop;

/// What is neither refused here nor unsupported.
fn made<T>(result: Result<T, NotMade>) -> Result<T, Stop> {
    result.map_err(|e| match e {
        NotMade::Stop(stop) => stop,
        NotMade::Refused(e) => Stop::Failed(format!("refused: {e}")),
    })
}

/// The parameters of no pattern come first, as one group, then those of each.
fn optimizer(case: &TrainingCase, model: &Model) -> Result<Made, Stop> {
    let given = case.get("optimizer")?;
    let mut left = model.named_parameters();
    let mut groups: Groups<(String, Var)> = Vec::new();
    for group in given.get("groups").and_then(Value::as_array).into_iter().flatten() {
        let mut own = group.as_object().cloned().unwrap_or_default();
        let patterns = own.remove("names").unwrap_or_default();
        let patterns: Vec<&str> = list(&patterns)?.iter().filter_map(Value::as_str).collect();
        let matches = |name: &str| patterns.iter().any(|pattern| name_matches(pattern, name));
        let (taken, rest) = left.into_iter().partition(|(name, _)| matches(name));
        left = rest;
        groups.push((taken, own));
    }
    if !left.is_empty() {
        groups.insert(0, (left, Map::new()));
    }
    let args = given.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
    made(make(&text(given, "name")?, &args, &groups))
}

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let dtype = dtype(case)?;
    let mut model = build(case.get("model")?, dtype).map_err(stop)?;
    model.load(case.get("state")?)?;
    model.train();
    let optimizer = optimizer(case, &model)?;
    let mut course: Option<Course> = match case.body.get("schedule").filter(|v| !v.is_null()) {
        Some(given) => {
            let args = given.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
            Some(made(schedule(&text(given, "name")?, &args, optimizer.get()))?)
        }
        None => None,
    };
    let clip = case.body.get("clip").filter(|v| !v.is_null());
    let (input, target) = (Var::from(written(case.get("input")?)?), Var::from(written(case.get("target")?)?));
    let given = case.get("loss")?;
    let (name, options) = (text(given, "loss")?, given.get("args").and_then(Value::as_object).cloned());
    let loss = |model: &Model| -> Result<Var, Stop> {
        let args = Args::new(vec![("input".to_owned(), input.clone())], Map::new());
        let outputs = model.call("model", &args).map_err(stop)?;
        let output = outputs.into_iter().next().flatten().ok_or_else(|| "no output".to_owned())?;
        let inputs = vec![("input".to_owned(), output), ("target".to_owned(), target.clone())];
        let values = loss::call(&name, options.clone().unwrap_or_default(), inputs).map_err(stop)?;
        Ok(values.into_iter().next().flatten().ok_or_else(|| "no loss".to_owned())?)
    };
    let (mut losses, mut lrs, mut norms) = (Vec::new(), Vec::new(), Vec::new());
    let steps = case.get("steps")?.as_u64().unwrap_or(0);
    for _ in 0..steps {
        optimizer.get().zero_grad();
        let value = loss(&model)?;
        value.backward().map_err(|e| e.to_string())?;
        if let Some(clip) = clip {
            let most = number(clip.get("max_norm").unwrap_or(&Value::Null))?;
            let p = clip.get("norm_type").map_or(Ok(2.0), number)?;
            let norm = clip_grad_norm_with_(model.parameters(), most, p, false);
            norms.push(norm.map_err(|e| e.to_string())?);
        }
        losses.push(no_grad(|| value.item()).map_err(|e| e.to_string())?);
        lrs.extend(optimizer.get().lrs());
        optimizer.get().step().map_err(|e| e.to_string())?;
        if let Some(course) = &mut course {
            course.step(optimizer.get(), None, None).map_err(|e| e.to_string())?;
        }
    }
    judge.numbers("losses", &losses, case.get("losses")?, dtype)?;
    if let Some(expected) = case.body.get("lrs") {
        judge.numbers("lrs", &lrs, expected, dtype)?;
    }
    if let Some(expected) = case.body.get("norms") {
        judge.numbers("norms", &norms, expected, dtype)?;
    }
    compare(judge, "afterwards", &model, case.get("state_after")?)
}
