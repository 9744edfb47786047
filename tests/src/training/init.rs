//! Laws of fresh weights.

use foldback_nn::Module;
use foldback_nn::init::{Fan, Init, Nonlinearity};
use foldback_tensor::{DType, Tensor, manual_seed};
use serde_json::{Map, Value};

use super::layer::{refused, stop};
use super::model::{arguments, build_layer};
use super::{Judge, TrainingCase};
use crate::conformance::args::{Args, Read, Refusal};
use crate::conformance::build;
use crate::conformance::case::text;
use crate::conformance::run::Stop;

/// So many values of each random parameter are drawn at least.
const VALUES: usize = 20_000;

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let dtype = match text(&case.body, "dtype") {
        Ok(name) => build::dtype(&name).ok_or_else(|| Stop::Unsupported(format!("dtype {name}")))?,
        Err(_) => DType::F32,
    };
    let draw = || draw(case, dtype);
    manual_seed(case.id.unsigned_abs());
    let first = draw();
    if case.is_refused() {
        return if refused(&first)? { Ok(()) } else { Err(Stop::Failed("is not refused".into())) };
    }
    let first = first.map_err(stop)?;
    let laws = laws(case)?;
    for (name, _) in &first {
        if !laws.contains_key(name) {
            return Err(Stop::Failed(format!("there is a parameter {name}")));
        }
    }
    let smallest = laws.iter().filter(|(_, law)| is_random(law)).map(|(_, law)| elements(law)).min();
    let mut draws = vec![first];
    while smallest.is_some_and(|n| n > 0 && n * draws.len() < VALUES) {
        draws.push(draw().map_err(stop)?);
    }
    let [again, other] = [(); 2].map(|()| draw().map_err(stop));
    let (again, other) = (again?, other?);
    manual_seed(case.id.unsigned_abs());
    let same = draw().map_err(stop)?;
    for (name, law) in &laws {
        let of = |drawn: &[(String, Tensor)]| {
            let found = drawn.iter().find(|(own, _)| own == name);
            found.map(|(_, t)| t.clone()).ok_or_else(|| format!("no parameter {name}"))
        };
        // As many of a large parameter as of the smallest would be so many more values.
        let enough = VALUES.div_ceil(elements(law).max(1));
        let all: Vec<Tensor> = draws.iter().take(enough).map(|drawn| of(drawn)).collect::<Result<_, _>>()?;
        judge.note(name, &all[0]);
        follows(&all, law).map_err(|reason| format!("{name}: {reason}"))?;
        if of(&same)? != all[0] {
            return Err(Stop::Failed(format!("{name}: equal seeds give different numbers")));
        }
        if is_random(law) && elements(law) > 0 && of(&again)? == of(&other)? {
            return Err(Stop::Failed(format!("{name}: two draws are equal")));
        }
    }
    Ok(())
}

/// A fresh layer's parameters, or what a function gives.
fn draw(case: &TrainingCase, dtype: DType) -> Read<Vec<(String, Tensor)>> {
    let Ok(function) = text(&case.body, "function") else {
        let name = text(&case.body, "layer").map_err(Refusal::Argument)?;
        let parameters = build_layer(&name, case.args(), dtype)?.named_parameters();
        return Ok(parameters.into_iter().map(|(name, p)| (name, p.value())).collect());
    };
    let shape = case.body.get("shape").and_then(Value::as_array).into_iter().flatten();
    let shape: Vec<usize> = shape.map(|n| n.as_u64().unwrap_or_default() as usize).collect();
    Ok(vec![("tensor".into(), init(&function, case.args())?.sample(shape, dtype)?)])
}

/// The law of one of PyTorch's functions.
fn init(function: &str, args: Map<String, Value>) -> Read<Init> {
    let with = |keywords: &str| arguments(function, keywords, args.clone());
    Ok(match function {
        "uniform_" => {
            let a = with("a b")?;
            Init::uniform(a.float("a", 0.0)?, a.float("b", 1.0)?)
        }
        "normal_" => {
            let a = with("mean std")?;
            Init::normal(a.float("mean", 0.0)?, a.float("std", 1.0)?)
        }
        "trunc_normal_" => {
            let a = with("mean std a b")?;
            let (mean, std) = (a.float("mean", 0.0)?, a.float("std", 1.0)?);
            Init::trunc_normal(mean, std, a.float("a", -2.0)?, a.float("b", 2.0)?)
        }
        "constant_" => Init::constant(with("val")?.float("val", 0.0)?),
        "ones_" => with("").map(|_| Init::constant(1.0))?,
        "zeros_" => with("").map(|_| Init::constant(0.0))?,
        "eye_" => with("").map(|_| Init::eye())?,
        "orthogonal_" => Init::orthogonal(with("gain")?.float("gain", 1.0)?),
        "xavier_uniform_" => Init::xavier_uniform(with("gain")?.float("gain", 1.0)?),
        "xavier_normal_" => Init::xavier_normal(with("gain")?.float("gain", 1.0)?),
        "kaiming_uniform_" | "kaiming_normal_" => {
            let a = with("a mode nonlinearity")?;
            let fan = match a.word("mode", "fan_in")?.as_str() {
                "fan_in" => Fan::In,
                "fan_out" => Fan::Out,
                other => return Err(Refusal::Argument(format!("`mode` = {other}"))),
            };
            let nonlinearity = nonlinearity(&a)?;
            let law = match function {
                "kaiming_uniform_" => Init::kaiming_uniform(nonlinearity),
                _ => Init::kaiming_normal(nonlinearity),
            };
            law.fan(fan)
        }
        _ => return Err(Refusal::Unsupported(format!("function {function}"))),
    })
}

fn nonlinearity(a: &Args) -> Read<Nonlinearity> {
    Ok(match a.word("nonlinearity", "leaky_relu")?.as_str() {
        "leaky_relu" => Nonlinearity::LeakyReLU(a.float("a", 0.0)?),
        "relu" => Nonlinearity::ReLU,
        "tanh" => Nonlinearity::Tanh,
        "sigmoid" => Nonlinearity::Sigmoid,
        "selu" => Nonlinearity::SELU,
        "linear" => Nonlinearity::Linear,
        name if name.starts_with("conv") => Nonlinearity::Linear,
        other => return Err(Refusal::Argument(format!("`nonlinearity` = {other}"))),
    })
}

/// The laws of a case by parameter; that of a function is of its `tensor`.
fn laws(case: &TrainingCase) -> Result<Map<String, Value>, Stop> {
    if let Some(laws) = case.body.get("parameters").and_then(Value::as_object) {
        return Ok(laws.clone());
    }
    let law = case.get("tensor")?.clone();
    Ok([("tensor".to_owned(), law)].into_iter().collect())
}

fn is_random(law: &Value) -> bool {
    let name = law.get("law").and_then(Value::as_str);
    !matches!(name, Some("constant" | "eye"))
}

fn elements(law: &Value) -> usize {
    let shape = law.get("shape").and_then(Value::as_array);
    shape.map_or(0, |sizes| sizes.iter().map(|n| n.as_u64().unwrap_or_default() as usize).product())
}

/// The values of all draws but those of some rows, which must be zero.
fn values_without(zero_rows: &[usize], draws: &[Tensor]) -> Result<Vec<f64>, String> {
    let mut values: Vec<f64> = Vec::new();
    for draw in draws {
        let flat: Vec<f64> = draw.double().to_vec().map_err(|e| e.to_string())?;
        let width = flat.len() / draw.dims().first().copied().unwrap_or(1).max(1);
        for (row, part) in flat.chunks(width.max(1)).enumerate() {
            match zero_rows.contains(&row) {
                true if part.iter().any(|&v| v != 0.0) => return Err(format!("row {row} is not zero")),
                true => {}
                false => values.extend(part),
            }
        }
    }
    Ok(values)
}

/// Whether all draws follow a law.
fn follows(draws: &[Tensor], law: &Value) -> Result<(), String> {
    let shape = serde_json::json!(draws[0].dims());
    if law.get("shape") != Some(&shape) {
        return Err(format!("has shape {shape}, expected {:?}", law.get("shape")));
    }
    let zero_rows: Vec<usize> = law
        .get("zero_rows")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|n| Some(n.as_u64()? as usize))
        .collect();
    let values = values_without(&zero_rows, draws)?;
    let number = |key: &str| match law.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match build::number(value) {
            Some(number) => Ok(Some(number.to_f64())),
            None => Err(format!("`{key}` is no number")),
        },
    };
    let of = |key: &str| number(key)?.ok_or_else(|| format!("no `{key}`"));
    match text(law, "law")?.as_str() {
        "constant" => {
            let value = [number("value")?, number("mean")?, number("low")?].into_iter().flatten().next();
            let value = value.ok_or_else(|| "no `value`".to_owned())?;
            all_are(&values, as_held(value, draws[0].dtype()))
        }
        "eye" => {
            let [rows, columns] = draws[0].sizes().map_err(|e| e.to_string())?;
            let eye = Tensor::eye((rows, columns)).to(draws[0].dtype());
            if draws[0] == eye { Ok(()) } else { Err("is not the identity".into()) }
        }
        "orthogonal" => draws.iter().try_for_each(|t| orthogonal(t, number("gain")?.unwrap_or(1.0))),
        "uniform" => {
            let (low, high) = (of("low")?, of("high")?);
            within(&values, low, high, draws[0].dtype())?;
            moments(&values, of("mean")?, of("std")?)?;
            distance(values, |all| all.iter().map(|x| ((x - low) / (high - low)).clamp(0.0, 1.0)).collect())
        }
        "normal" => {
            let (mean, std) = (of("mean")?, of("std")?);
            moments(&values, mean, std)?;
            distance(values, |all| below(all, mean, std))
        }
        "truncated_normal" => {
            let (low, high, mean, std) = (of("low")?, of("high")?, of("of_mean")?, of("of_std")?);
            within(&values, low, high, draws[0].dtype())?;
            moments(&values, of("mean")?, of("std")?)?;
            let ends = below(&[low, high], mean, std);
            let part = |p: f64| ((p - ends[0]) / (ends[1] - ends[0])).clamp(0.0, 1.0);
            distance(values, |all| below(all, mean, std).into_iter().map(part).collect())
        }
        other => Err(format!("no law {other}")),
    }
}

/// A number as a type holds it.
fn as_held(value: f64, dtype: DType) -> f64 {
    if dtype == DType::F32 { f64::from(value as f32) } else { value }
}

fn all_are(values: &[f64], wanted: f64) -> Result<(), String> {
    match values.iter().find(|&&v| v != wanted) {
        Some(v) => Err(format!("has {v}, expected {wanted}")),
        None => Ok(()),
    }
}

fn within(values: &[f64], low: f64, high: f64, dtype: DType) -> Result<(), String> {
    let (low, high) = (as_held(low, dtype), as_held(high, dtype));
    match values.iter().find(|v| !(low..=high).contains(*v)) {
        Some(v) => Err(format!("has {v}, which is not between {low} and {high}")),
        None => Ok(()),
    }
}

/// Mean and standard deviation are five standard errors at most from those wanted.
fn moments(values: &[f64], mean: f64, std: f64) -> Result<(), String> {
    let n = values.len() as f64;
    let own = values.iter().sum::<f64>() / n;
    let spread = (values.iter().map(|v| (v - own).powi(2)).sum::<f64>() / n).sqrt();
    if (own - mean).abs() > 5.0 * std / n.sqrt() {
        return Err(format!("has mean {own}, expected {mean}"));
    }
    if (spread - std).abs() > 5.0 * std / (2.0 * n).sqrt() {
        return Err(format!("has standard deviation {spread}, expected {std}"));
    }
    Ok(())
}

/// Kolmogorov and Smirnov's distance of the values to a distribution, by how much of it lies below each of them.
fn distance(values: Vec<f64>, below: impl Fn(&[f64]) -> Vec<f64>) -> Result<(), String> {
    // By a sort that is built with optimisation, as this package is not: the draws of all cases took 40 s here.
    let count = values.len();
    let sorted = Tensor::from_vec(values, [count]).and_then(|all| all.sort(0)?.0.to_vec::<f64>());
    let n = count as f64;
    let each = below(&sorted.map_err(|e| e.to_string())?).into_iter().enumerate();
    let most =
        each.fold(0f64, |most, (i, part)| most.max(part - i as f64 / n).max((i + 1) as f64 / n - part));
    if most > 2.2 / n.sqrt() {
        Err(format!("is distributed otherwise: distance {most}, n {n}"))
    } else {
        Ok(())
    }
}

/// How much of a normal distribution lies below each number.
fn below(values: &[f64], mean: f64, std: f64) -> Vec<f64> {
    let scaled: Vec<f64> = values.iter().map(|v| (v - mean) / (std * std::f64::consts::SQRT_2)).collect();
    let scaled = Tensor::from_vec(scaled, [values.len()]).expect("as many as there are");
    ((scaled.erf() + 1.0) * 0.5).to_vec().expect("they are f64")
}

/// Rows, or columns where these are fewer, are `gain` long and at right angles.
fn orthogonal(t: &Tensor, gain: f64) -> Result<(), String> {
    let product = || {
        let m = t.double().reshape((t.dims()[0], -1))?;
        let m = if m.dims()[0] <= m.dims()[1] { m } else { m.t() };
        let eye = Tensor::eye(m.dims()[0]).double() * (gain * gain);
        (m.matmul(m.t())? - eye).abs().max(..)?.item()
    };
    let limit = if t.dtype() == DType::F64 { 1e-12 } else { 1e-5 };
    match product() {
        Ok(off) if off <= limit * (1.0 + gain * gain) => Ok(()),
        Ok(off) => Err(format!("is off by {off} from orthogonal")),
        Err(e) => Err(e.to_string()),
    }
}
