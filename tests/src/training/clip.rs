//! Clipping of gradients.

use foldback::optim::{clip_grad_norm_with_, clip_grad_value_};
use foldback_graph::{RequiresGrad, Var};
use foldback_tensor::Tensor;
use serde_json::Value;

use super::judge::{list, number, written};
use super::layer::dtype;
use super::{Judge, TrainingCase};
use crate::conformance::case::text;
use crate::conformance::run::Stop;

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let dtype = dtype(case)?;
    let mut vars: Vec<Var> = Vec::new();
    for grad in list(case.get("grads")?)? {
        let grad = if grad.is_null() { None } else { Some(written(grad)?) };
        let shape = grad.as_ref().map_or(vec![2], |g| g.dims().to_vec());
        let var = Tensor::zeros_with(shape, dtype).requires_grad();
        var.set_grad(grad).map_err(|e| e.to_string())?;
        vars.push(var);
    }
    let args = case.args();
    let of = |name: &str| args.get(name).map(number).transpose();
    let needed = |name: &str| Ok::<f64, Stop>(of(name)?.ok_or_else(|| format!("no `{name}`"))?);
    let known = ["max_norm", "norm_type", "error_if_nonfinite", "clip_value"];
    if let Some(name) = args.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(Stop::Unsupported(format!("{}({name})", text(&case.body, "f")?)));
    }
    let result = match text(&case.body, "f")?.as_str() {
        "clip_grad_norm_" => {
            let strict = args.get("error_if_nonfinite").and_then(Value::as_bool) == Some(true);
            clip_grad_norm_with_(&vars, needed("max_norm")?, of("norm_type")?.unwrap_or(2.0), strict)
                .map(Some)
        }
        "clip_grad_value_" => clip_grad_value_(&vars, needed("clip_value")?).map(|()| None),
        other => return Err(Stop::Unsupported(format!("clip {other}"))),
    };
    match (result, case.is_refused()) {
        (Ok(_), true) => return Err(Stop::Failed("was not refused".into())),
        (Err(e), false) => return Err(Stop::Failed(format!("refused: {e}"))),
        (Ok(Some(norm)), false) => {
            judge.numbers("the norm", &[norm], &Value::Array(vec![case.get("returns")?.clone()]), dtype)?
        }
        _ => {}
    }
    for (i, (var, after)) in vars.iter().zip(list(case.get("after")?)?).enumerate() {
        judge.maybe(&format!("gradient {i}"), var.grad().as_ref(), after)?;
    }
    Ok(())
}
