//! Layers: values, gradients and buffers, in training and in use.

use foldback_graph::{Backward, Var, backward, no_grad};
use foldback_nn::{Module, safetensors};
use foldback_tensor::DType;
use serde_json::{Map, Value};

use super::model::{Model, build_layer};
use super::{Judge, TrainingCase};
use crate::conformance::args::{Args, Refusal};
use crate::conformance::build;
use crate::conformance::case::{array, input, text};
use crate::conformance::close::same_bits;
use crate::conformance::run::Stop;

use super::judge::written;

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let name = text(&case.body, "layer")?;
    let made = build_layer(&name, case.args(), dtype(case)?);
    if case.is_refused() && refused(&made)? {
        return Ok(());
    }
    let mut model = made.map_err(stop)?;
    // A layer that PyTorch did not make has no state.
    if text(&case.body, "when").as_deref() != Ok("new") {
        model.load(case.get("state")?)?;
    }
    model.set_training(is_training(case)?);
    let inputs = inputs(case)?;
    for warm in case.body.get("warmup").and_then(Value::as_array).into_iter().flatten() {
        let args = Args::new(vec![(inputs.named[0].0.clone(), written(warm)?.into())], Map::new());
        no_grad(|| model.call(&name, &args)).map_err(stop)?;
    }
    let saved = safetensors::save(&model.state_dict()).map_err(|e| format!("save: {e}"))?;
    let forward = case.body.get("forward").and_then(Value::as_object).cloned().unwrap_or_default();
    let args = Args::new(inputs.named.clone(), forward);
    let results = model.call(&name, &args);
    if case.is_refused() {
        return if refused(&results)? { Ok(()) } else { Err(Stop::Failed("is not refused".into())) };
    }
    let results = results.map_err(stop)?;
    compare(case, judge, &results, &inputs, &model.named_parameters())?;
    state_after(case, judge, &model)?;
    let mut fresh = build_layer(&name, case.args(), dtype(case)?).map_err(stop)?;
    let state = safetensors::load(&saved).map_err(|e| format!("load: {e}"))?;
    fresh.load_state_dict(&state).map_err(|e| format!("load: {e}"))?;
    fresh.set_training(is_training(case)?);
    let again = fresh.call(&name, &args).map_err(stop)?;
    let values = |all: &[Option<Var>]| all.iter().flatten().map(Var::value).collect::<Vec<_>>();
    if values(&results).iter().zip(&values(&again)).all(|(a, b)| same_bits(a, b)) {
        return Ok(());
    }
    Err(Stop::Failed("another layer that has loaded its file gives other bits".into()))
}

/// Whether the layer is in training.
fn is_training(case: &TrainingCase) -> Result<bool, Stop> {
    Ok(text(&case.body, "mode")? == "train")
}

/// The inputs of a call.
pub(super) struct Inputs {
    /// by PyTorch's names
    pub(super) named: Vec<(String, Var)>,
    /// one for each written input, or None where it is the same as another
    leaves: Vec<Option<Var>>,
}

/// Leaves from what is written; `{"name": "key", "same": "query"}` is the same variable again.
pub(super) fn inputs(case: &TrainingCase) -> Result<Inputs, Stop> {
    let mut all = Inputs { named: Vec::new(), leaves: Vec::new() };
    for one in array(&case.body, "inputs")? {
        if let Ok(same) = text(one, "same") {
            let var = all.named.iter().find(|(name, _)| *name == same).map(|(_, var)| var.clone());
            let var = var.ok_or_else(|| Stop::Failed(format!("no input `{same}`")))?;
            all.named.push((text(one, "name")?, var));
            all.leaves.push(None);
            continue;
        }
        let spec = input(one)?;
        let tensor = build::input(&spec).map_err(Stop::Unsupported)?;
        let var = if spec.requires_grad {
            Var::leaf(tensor).map_err(|e| Stop::Failed(e.to_string()))?
        } else {
            tensor.into()
        };
        all.leaves.push(Some(var.clone()));
        all.named.push((spec.name, var));
    }
    Ok(all)
}

/// The type of parameters, inputs and state.
pub(super) fn dtype(case: &TrainingCase) -> Result<DType, Stop> {
    let name = text(&case.body, "dtype")?;
    build::dtype(&name).ok_or_else(|| Stop::Unsupported(format!("dtype {name}")))
}

/// Outputs, then the gradients of all non-null seeds at once.
pub(super) fn compare(
    case: &TrainingCase,
    judge: &mut Judge,
    results: &[Option<Var>],
    inputs: &Inputs,
    parameters: &[(String, Var)],
) -> Result<(), Stop> {
    let expected = array(&case.body, "outputs")?;
    if expected.len() != results.len() {
        return Err(Stop::Failed(format!("{} results, expected {}", results.len(), expected.len())));
    }
    for (i, (found, expected)) in results.iter().zip(expected).enumerate() {
        judge.maybe(&format!("output {i}"), found.as_ref().map(Var::value).as_ref(), expected)?;
    }
    let Some(grads) = case.body.get("grads").filter(|g| !g.is_null()) else { return Ok(()) };
    let (mut roots, mut seeds) = (Vec::new(), Vec::new());
    for (result, seed) in results.iter().zip(array(&case.body, "grad_outputs")?) {
        if let (Some(result), false) = (result, seed.is_null()) {
            roots.push(result);
            seeds.push(written(seed)?);
        }
    }
    backward(&roots, Backward::new().seeds(&seeds)).map_err(|e| format!("backward: {e}"))?;
    let named = inputs.named.iter().zip(&inputs.leaves);
    for (((name, _), leaf), expected) in named.zip(array(grads, "inputs")?) {
        let found = leaf.as_ref().and_then(Var::grad);
        judge.maybe(&format!("gradient of `{name}`"), found.as_ref(), expected)?;
    }
    let expected = grads.get("parameters").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, parameter) in parameters {
        let expected = expected.get(name).unwrap_or(&Value::Null);
        judge.maybe(&format!("gradient of `{name}`"), parameter.grad().as_ref(), expected)?;
    }
    Ok(())
}

/// Buffers, and parameters that the call changed.
fn state_after(case: &TrainingCase, judge: &mut Judge, model: &Model) -> Result<(), Stop> {
    let buffers = model.named_buffers().into_iter().map(|(name, buffer)| (name, buffer.value()));
    let parameters = model.named_parameters().into_iter().map(|(name, var)| (name, var.value()));
    let now: Vec<_> = parameters.chain(buffers).collect();
    for (name, expected) in case.body.get("state_after").and_then(Value::as_object).into_iter().flatten() {
        let found = now.iter().find(|(own, _)| own == name).map(|(_, value)| value);
        judge.maybe(&format!("`{name}` afterwards"), found, expected)?;
    }
    Ok(())
}

/// Whether a call was refused as PyTorch does; what is unsupported stays so.
pub(super) fn refused<T>(result: &Result<T, Refusal>) -> Result<bool, Stop> {
    match result {
        Ok(_) => Ok(false),
        Err(Refusal::Unsupported(name)) => Err(Stop::Unsupported(name.clone())),
        Err(Refusal::Library(text) | Refusal::Argument(text)) if text.is_empty() => {
            Err(Stop::Failed("is refused without a word".into()))
        }
        Err(_) => Ok(true),
    }
}

/// A refusal where PyTorch computes.
pub(super) fn stop(refusal: Refusal) -> Stop {
    match refusal {
        Refusal::Unsupported(name) => Stop::Unsupported(name),
        Refusal::Library(text) | Refusal::Argument(text) => Stop::Failed(text),
    }
}
