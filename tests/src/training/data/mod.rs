//! Files of data, datasets and their loaders, samplers, splits and scaling.

mod batches;
mod files;
mod orders;

use foldback::Result as Answer;
use foldback::data::{Normaliser, encode_labels};
use foldback_tensor::Tensor;
use serde_json::Value;

use super::judge::{list, written};
use super::{Judge, TrainingCase};
use crate::conformance::case::text;
use crate::conformance::run::Stop;

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    match text(&case.body, "name")?.as_str() {
        "csv" => files::csv(case, judge),
        "idx" => files::idx(case, judge),
        "npy" => files::npy(case, judge),
        "npz" => files::npz(case, judge),
        "image_folder" => files::image_folder(case, judge),
        "random_split" => orders::random_split(case),
        "sampler" => orders::sampler(case),
        "DataLoader" => batches::loader(case, judge),
        "ConcatDataset" => batches::joined(case, judge),
        "Subset" => batches::subset(case, judge),
        "default_collate" => batches::collate(case, judge),
        "pad_sequence" => batches::padded(case, judge),
        "StandardScaler" => scaler(case, judge),
        "LabelEncoder" => class_numbers(case, judge),
        other => Err(Stop::Unsupported(format!("data {other}"))),
    }
}

/// What a call gave, where this computes; nothing, where a line has an `error` and the call has one, too.
fn given<T>(line: &Value, found: Answer<T>) -> Result<Option<T>, Stop> {
    match (found, line.get("error")) {
        (Ok(found), None) => Ok(Some(found)),
        (Err(_), Some(_)) => Ok(None),
        (Ok(_), Some(why)) => Err(Stop::Failed(format!("is not refused: {why}"))),
        (Err(e), None) => Err(Stop::Failed(format!("refused: {e}"))),
    }
}

/// The keywords of a case, each of which is known.
fn known(case: &TrainingCase, keywords: &[&str]) -> Result<(), Stop> {
    match case.args().keys().find(|key| !keywords.contains(&key.as_str())) {
        Some(unknown) => Err(Stop::Unsupported(format!("{}({unknown})", text(&case.body, "name")?))),
        None => Ok(()),
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Stop> {
    if found == expected {
        return Ok(());
    }
    Err(Stop::Failed(format!("{what}: {found:?}, expected {expected:?}")))
}

fn counts(value: &Value) -> Result<Vec<usize>, Stop> {
    let count = |v: &Value| v.as_u64().map(|n| n as usize);
    list(value)?.iter().map(|v| count(v).ok_or_else(|| format!("{v} is no count").into())).collect()
}

fn texts(value: &Value) -> Result<Vec<String>, Stop> {
    let one = |v: &Value| v.as_str().map(str::to_owned);
    list(value)?.iter().map(|v| one(v).ok_or_else(|| format!("{v} is no text").into())).collect()
}

fn tensors(value: &Value) -> Result<Vec<Tensor>, Stop> {
    list(value)?.iter().map(written).collect()
}

fn scaler(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &[])?;
    let train = written(case.get("train")?)?;
    let Some(fitted) = given(&case.body, Normaliser::fit(&train))? else { return Ok(()) };
    judge.tensor("the mean", fitted.mean(), case.get("mean")?)?;
    judge.tensor("the deviation", fitted.std(), case.get("std")?)?;
    let test = written(case.get("test")?)?;
    let done = |found: Answer<Tensor>| found.map_err(|e| format!("refused: {e}"));
    judge.tensor("the training set", &done(fitted.apply(&train))?, case.get("scaled_train")?)?;
    let scaled = done(fitted.apply(&test))?;
    judge.tensor("the test set", &scaled, case.get("scaled_test")?)?;
    judge.tensor("the test set and back", &done(fitted.invert(&scaled))?, case.get("back")?)
}

fn class_numbers(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &[])?;
    let (numbers, classes) = encode_labels(&texts(case.get("texts")?)?);
    judge.exact("the numbers", &numbers, case.get("tensor")?)?;
    equal("the classes", classes, texts(case.get("classes")?)?)
}
