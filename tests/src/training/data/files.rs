//! What readers make of files, whose bytes stand in the case.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use foldback::Result as Answer;
use foldback::data::{Csv, Dataset, ImageFolder, Table, read_idx, read_idx_with, read_npy, read_npz};
use foldback_tensor::{DType, Tensor};
use serde_json::Value;

use super::super::judge::{list, written};
use super::super::{Judge, TrainingCase};
use super::{counts, equal, given, known, texts};
use crate::conformance::build;
use crate::conformance::case::text;
use crate::conformance::run::Stop;

/// The files of a case, in a folder of their own; removed when dropped.
struct Files {
    folder: PathBuf,
    /// the first of them
    first: PathBuf,
}

impl Files {
    fn of(case: &TrainingCase) -> Result<Files, Stop> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("foldback-golden-{}-{number}", std::process::id()));
        let mut files = Files { first: folder.clone(), folder };
        let all = case.get("files")?.as_object().ok_or_else(|| "`files` has no names".to_owned())?;
        for (name, bytes) in all {
            let path = files.folder.join(name);
            let written = std::fs::create_dir_all(path.parent().unwrap_or(&files.folder))
                .and_then(|()| std::fs::write(&path, unhexed(bytes.as_str().unwrap_or_default())));
            written.map_err(|e| format!("{}: {e}", path.display()))?;
            if files.first == files.folder {
                files.first = path;
            }
        }
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn unhexed(text: &str) -> Vec<u8> {
    let digit = |b: u8| (b as char).to_digit(16).unwrap_or_default() as u8;
    text.as_bytes().as_chunks::<2>().0.iter().map(|&[high, low]| digit(high) << 4 | digit(low)).collect()
}

fn dtype(name: &str) -> Result<DType, Stop> {
    build::dtype(name).ok_or_else(|| Stop::Unsupported(format!("dtype {name}")))
}

pub(super) fn csv(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &["delimiter", "header"])?;
    let args = case.args();
    let delimiter = args.get("delimiter").and_then(Value::as_str).map(str::as_bytes);
    let Some(&[delimiter]) = delimiter else { return Err(Stop::Failed("no `delimiter`".into())) };
    let headers = args.get("header").and_then(Value::as_bool).unwrap_or(true);
    let files = Files::of(case)?;
    let opened = Csv::new().delimiter(delimiter).headers(headers).open(&files.first);
    let Some(table) = given(&case.body, opened)? else { return Ok(()) };
    equal("the names", table.names().to_vec(), texts(case.get("names")?)?)?;
    equal("the rows", Some(table.len() as u64), case.get("rows")?.as_u64())?;
    list(case.get("asked")?)?.iter().try_for_each(|asked| answer(&table, asked, judge))
}

/// What a table says to one question.
fn answer(table: &Table, asked: &Value, judge: &mut Judge) -> Result<(), Stop> {
    let get = |key: &str| asked.get(key).ok_or_else(|| format!("no `{key}`"));
    let (columns, kind) = (texts(get("columns")?)?, text(asked, "as")?);
    let what = format!("{columns:?} as {kind}");
    match kind.as_str() {
        "texts" => {
            if let Some(found) = given(asked, table.texts(&columns[0]))? {
                let found = found.into_iter().map(str::to_owned).collect();
                equal(&what, found, texts(get("texts")?)?)?;
            }
        }
        "labels" => {
            if let Some((numbers, classes)) = given(asked, table.labels(&columns[0]))? {
                judge.exact(&what, &numbers, get("tensor")?)?;
                equal(&what, classes, texts(get("classes")?)?)?;
            }
        }
        name => {
            if let Some(found) = given(asked, table.columns_with(&columns, dtype(name)?))? {
                judge.exact(&what, &found, get("tensor")?)?;
            }
        }
    }
    Ok(())
}

pub(super) fn idx(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &["dtype"])?;
    let files = Files::of(case)?;
    let found = match case.args().get("dtype").and_then(Value::as_str) {
        Some(name) => read_idx_with(&files.first, dtype(name)?),
        None => read_idx(&files.first),
    };
    one(case, judge, found)
}

pub(super) fn npy(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &[])?;
    let files = Files::of(case)?;
    one(case, judge, read_npy(&files.first))
}

/// A file of one tensor.
fn one(case: &TrainingCase, judge: &mut Judge, found: Answer<Tensor>) -> Result<(), Stop> {
    match given(&case.body, found)? {
        Some(found) => judge.exact("the tensor", &found, case.get("tensor")?),
        None => Ok(()),
    }
}

pub(super) fn npz(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &[])?;
    let files = Files::of(case)?;
    let Some(arrays) = given(&case.body, read_npz(&files.first))? else { return Ok(()) };
    let expected = case.get("tensors")?.as_object().ok_or_else(|| "`tensors` has no names".to_owned())?;
    equal("the number of arrays", arrays.len(), expected.len())?;
    expected.iter().try_for_each(|(name, expected)| {
        let found = arrays.get(name).ok_or_else(|| format!("no array {name}"))?;
        judge.exact(name, found, expected)
    })
}

pub(super) fn image_folder(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &["grayscale", "resize"])?;
    let args = case.args();
    let grayscale = args.get("grayscale").and_then(Value::as_bool).unwrap_or(false);
    let files = Files::of(case)?;
    let mut opened = ImageFolder::open(&files.folder).map(|folder| folder.grayscale(grayscale));
    if let Some(size) = args.get("resize") {
        let size: Vec<u32> = counts(size)?.into_iter().map(|n| n as u32).collect();
        opened = opened.map(|folder| folder.resize(size[0], size[1]));
    }
    let items = |folder: ImageFolder| {
        let items = (0..folder.len()).map(|i| folder.get(i)).collect::<Answer<Vec<_>>>()?;
        Ok((folder, items))
    };
    let Some((folder, items)) = given(&case.body, opened.and_then(items))? else { return Ok(()) };
    equal("the classes", folder.classes().to_vec(), texts(case.get("classes")?)?)?;
    let (images, labels): (Vec<Tensor>, Vec<i64>) = items.into_iter().unzip();
    equal("all labels", folder.labels(), labels.clone())?;
    equal("the labels", labels.iter().map(|&label| label as usize).collect(), counts(case.get("labels")?)?)?;
    if let Ok(scaled) = case.get("scaled") {
        return each(&images, scaled, |image, expected| nearest(image, &written(expected)?, judge));
    }
    each(&images, case.get("images")?, |image, expected| judge.exact("an image", image, expected))
}

fn each(
    found: &[Tensor],
    expected: &Value,
    mut compare: impl FnMut(&Tensor, &Value) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let expected = list(expected)?;
    equal("the number of images", found.len(), expected.len())?;
    found.iter().zip(expected).try_for_each(|(found, expected)| compare(found, expected))
}

/// An image of 256 levels: each is the one nearest to what is expected.
fn nearest(found: &Tensor, expected: &Tensor, judge: &mut Judge) -> Result<(), Stop> {
    judge.note("a scaled image", found);
    equal("the shape", found.dims(), expected.dims())?;
    let numbers = |t: &Tensor| t.to(DType::F64).to_vec::<f64>().map_err(|e| e.to_string());
    for (found, expected) in numbers(found)?.into_iter().zip(numbers(expected)?) {
        // What lies half way between two levels may be either, and the filter's weights are `f32`.
        if (found - expected).abs() * 255.0 > 0.5 + 1e-3 {
            return Err(Stop::Failed(format!("a level is {}, expected {}", found * 255.0, expected * 255.0)));
        }
    }
    Ok(())
}
