//! Safetensors files, good and malformed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use foldback_graph::{Var, no_grad};
use foldback_nn::safetensors::{
    Metadata, load_file_with_metadata, load_with_metadata, save_file_with, save_with,
};
use foldback_nn::{Linear, Module};
use foldback_tensor::{StateDict, Tensor};
use serde_json::{Map, Value};

use super::judge::written;
use super::layer::stop;
use super::model::build;
use super::{Judge, TrainingCase};
use crate::conformance::args::Args;
use crate::conformance::case::text;
use crate::conformance::close::same_bits;
use crate::conformance::run::Stop;

/// A reader that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(1);

static REWRITTEN: OnceLock<PathBuf> = OnceLock::new();

/// From here on what each case has loaded is saved in this folder, under the path that the case names and under the name
/// of the file alone.
pub fn rewrite_to(folder: PathBuf) {
    REWRITTEN.get_or_init(|| folder);
}

type Loaded = (StateDict, Option<Metadata>);

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let file = text(&case.body, "file")?;
    let path = case.folder.join(&file);
    let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let start = Instant::now();
    let (by_path, by_bytes) = (load_file_with_metadata(&path), load_with_metadata(&bytes));
    if start.elapsed() > 2 * PATIENCE {
        return Err(Stop::Failed("the readers hang".into()));
    }
    let words = |e: foldback_tensor::Error| e.to_string();
    match (text(&case.body, "want")?.as_str(), by_path.map_err(words), by_bytes.map_err(words)) {
        ("load", Ok(by_path), Ok(by_bytes)) => {
            expect_same("by bytes", &by_bytes, &by_path)?;
            compare(case, judge, &by_path)?;
            again(&by_path)?;
            rewrite(&file, &by_path)?;
            in_model(case, judge, &path)
        }
        ("load", Err(by_path), Err(by_bytes)) => Err(unsupported(case, &by_path, &by_bytes)),
        ("refuse", Err(by_path), Err(by_bytes)) if !by_path.is_empty() && !by_bytes.is_empty() => {
            untouched(&path)
        }
        ("refuse", _, _) => Err(Stop::Failed("is not refused".into())),
        ("either", Ok(by_path), Ok(by_bytes)) => expect_same("by bytes", &by_bytes, &by_path),
        ("either", Err(_), Err(_)) => untouched(&path),
        (want, by_path, by_bytes) => {
            let of = |r: Result<Loaded, String>| r.map_or_else(|e| e, |_| "loaded".into());
            Err(Stop::Failed(format!("want {want}; by path: {}; by bytes: {}", of(by_path), of(by_bytes))))
        }
    }
}

/// A refusal of a good file: for a type that the library lacks, if both readers name it.
fn unsupported(case: &TrainingCase, by_path: &str, by_bytes: &str) -> Stop {
    let tensors = case.body.get("tensors").and_then(Value::as_object).into_iter().flatten();
    let dtypes = tensors.filter_map(|(_, t)| t.get("dtype")?.as_str());
    let lacking = dtypes.filter(|d| !["f64", "f32", "f16", "bf16", "i64", "bool"].contains(d));
    let is_named =
        |d: &&str| [by_path, by_bytes].iter().all(|e| e.contains(&format!("dtype {}", d.to_uppercase())));
    match lacking.into_iter().find(is_named) {
        Some(dtype) => Stop::Unsupported(format!("dtype {dtype}")),
        None => Stop::Failed(by_path.to_owned()),
    }
}

/// Names, shapes, types, bits and metadata.
fn compare(case: &TrainingCase, judge: &mut Judge, (state, metadata): &Loaded) -> Result<(), Stop> {
    let tensors = case.get("tensors")?.as_object().ok_or_else(|| "`tensors` is no object".to_owned())?;
    if state.len() != tensors.len() {
        return Err(Stop::Failed(format!("{} tensors, expected {}", state.len(), tensors.len())));
    }
    for (name, expected) in tensors {
        let found = state.get(name).ok_or_else(|| format!("no tensor {name:?}"))?;
        judge.note(name, found);
        if !same_bits(found, &widened(expected)?) {
            return Err(Stop::Failed(format!("{name:?}: {found:?}, expected {expected}")));
        }
    }
    let texts = |v: &Value| serde_json::from_value::<Option<Metadata>>(v.clone()).map_err(|e| e.to_string());
    if *metadata != texts(case.get("metadata")?)? {
        return Err(Stop::Failed(format!("metadata {metadata:?}")));
    }
    Ok(())
}

/// A tensor as it is written; one of halves as the `f32` of their values, which are the halves nearest to what is written.
fn widened(expected: &Value) -> Result<Tensor, Stop> {
    let (bits, lowest) = match expected.get("dtype").and_then(Value::as_str) {
        Some("f16") => (10, -14),
        Some("bf16") => (7, -126),
        _ => return written(expected),
    };
    let mut expected = expected.clone();
    expected["dtype"] = "f64".into();
    let wide = written(&expected)?;
    let nearest = |v: f64| {
        if v == 0.0 || !v.is_finite() {
            return v as f32;
        }
        let exponent = ((v.abs().to_bits() >> 52) as i32 - 1023).max(lowest);
        let unit = f64::from(exponent - bits).exp2();
        ((v / unit).round_ties_even() * unit) as f32
    };
    let values = wide.to_vec::<f64>().map_err(|e| e.to_string())?.into_iter().map(nearest);
    Ok(Tensor::from_vec(values.collect(), wide.shape()).map_err(|e| e.to_string())?)
}

fn expect_same(what: &str, found: &Loaded, expected: &Loaded) -> Result<(), Stop> {
    let pairs = || found.0.iter().zip(expected.0.iter());
    let same = found.0.len() == expected.0.len() && pairs().all(|((a, x), (b, y))| a == b && same_bits(x, y));
    if same && found.1 == expected.1 { Ok(()) } else { Err(Stop::Failed(format!("{what}: something else"))) }
}

/// Saving and loading again gives the same.
fn again(loaded: &Loaded) -> Result<(), Stop> {
    let bytes = save_with(&loaded.0, loaded.1.as_ref()).map_err(|e| e.to_string())?;
    expect_same("saved and loaded again", &load_with_metadata(&bytes).map_err(|e| e.to_string())?, loaded)
}

fn rewrite(file: &str, loaded: &Loaded) -> Result<(), Stop> {
    let Some(folder) = REWRITTEN.get() else { return Ok(()) };
    let name = Path::new(file).file_name().ok_or_else(|| format!("{file} names no file"))?;
    for path in [folder.join(file), folder.join(name)] {
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(|e| e.to_string())?;
        save_file_with(&loaded.0, &path, loaded.1.as_ref()).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// What the file holds, in the model that it is for.
fn in_model(case: &TrainingCase, judge: &mut Judge, path: &Path) -> Result<(), Stop> {
    let Some(described) = case.body.get("model").filter(|m| !m.is_null()) else { return Ok(()) };
    let input = written(case.get("input")?)?;
    let outputs = |path: &Path| -> Result<Tensor, Stop> {
        let mut model = build(described, input.dtype()).map_err(stop)?;
        Module::load(&mut model, path).map_err(|e| e.to_string())?;
        model.set_training(false);
        let args = Args::new(vec![("input".into(), Var::from(&input))], Map::new());
        let mut results = no_grad(|| model.call("model", &args)).map_err(stop)?;
        match results.pop() {
            Some(Some(y)) => Ok(y.value()),
            _ => Err(Stop::Failed("the model has no output".into())),
        }
    };
    judge.tensor("output", &outputs(path)?, case.get("output")?)
}

/// Nothing of a refused file gets into a model.
fn untouched(path: &Path) -> Result<(), Stop> {
    let mut layer = Linear::new(1, 1);
    let before = layer.state_dict();
    match layer.load(path) {
        Err(_) if layer.state_dict() == before => Ok(()),
        _ => Err(Stop::Failed("it got into a model".into())),
    }
}
