//! Datasets and loaders: which items there are, and what a batch of them is.

use foldback::Result as Answer;
use foldback::data::{
    BatchOf, Collate, ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, pad_sequence_with,
};
use foldback_tensor::Tensor;
use serde_json::Value;

use super::super::judge::{list, number, written};
use super::super::{Judge, TrainingCase};
use super::{counts, equal, given, known, tensors, texts};
use crate::conformance::build;
use crate::conformance::case::text;
use crate::conformance::run::Stop;

pub(super) fn loader(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &["batch_size", "drop_last", "shuffle"])?;
    let tensors = tensors(case.get("tensors")?)?;
    match tensors.len() {
        1 => loader_of::<1>(case, judge, tensors),
        2 => loader_of::<2>(case, judge, tensors),
        3 => loader_of::<3>(case, judge, tensors),
        other => Err(Stop::Unsupported(format!("{other} tensors"))),
    }
}

fn loader_of<const N: usize>(
    case: &TrainingCase,
    judge: &mut Judge,
    tensors: Vec<Tensor>,
) -> Result<(), Stop> {
    let args = case.args();
    let flag = |key: &str| args.get(key).and_then(Value::as_bool).unwrap_or(false);
    let size = args.get("batch_size").and_then(Value::as_u64).unwrap_or(1) as usize;
    let tensors: [Tensor; N] = tensors.try_into().map_err(|_| "another number of tensors".to_owned())?;
    let set = TensorDataset::try_new(tensors.clone());
    let Some(loader) = given(&case.body, set.and_then(|set| DataLoader::try_new(set, size)))? else {
        return Ok(());
    };
    let loader = loader.drop_last(flag("drop_last")).seed(case.id.unsigned_abs());
    equal("the number of batches", Some(loader.len() as u64), case.get("len")?.as_u64())?;
    // Those of an epoch that this thread makes, and those that others make.
    let ordered = loader.shuffle(flag("shuffle"));
    compare(case, judge, &tensors, all(&ordered)?)?;
    compare(case, judge, &tensors, all(&ordered.workers(2))?)
}

fn all<D: Dataset<Item: Collate>>(loader: &DataLoader<D>) -> Result<Vec<BatchOf<D>>, Stop> {
    Ok(loader.iter().collect::<Answer<_>>().map_err(|e| e.to_string())?)
}

/// The batches themselves; or, of shuffled ones, their sizes, and that each item is one of the set's and comes once.
fn compare<const N: usize>(
    case: &TrainingCase,
    judge: &mut Judge,
    set: &[Tensor; N],
    batches: Vec<[Tensor; N]>,
) -> Result<(), Stop> {
    if let Ok(expected) = case.get("batches") {
        let expected = list(expected)?;
        equal("the number of batches", batches.len(), expected.len())?;
        return batches.iter().zip(expected).try_for_each(|(batch, expected)| batch.compare(judge, expected));
    }
    let sizes = batches.iter().map(|batch| batch[0].dims()[0]).collect();
    equal("the sizes", sizes, counts(case.get("sizes")?)?)?;
    let rows = |part: &Tensor| (0..part.dims()[0]).map(|i| part.select(0, i)).collect::<Answer<Vec<_>>>();
    let rows = |part: &Tensor| rows(part).map_err(|e| Stop::Failed(e.to_string()));
    let whole = set.iter().map(rows).collect::<Result<Vec<_>, _>>()?;
    let mut seen = vec![false; set[0].dims()[0]];
    for batch in &batches {
        let parts = batch.iter().map(rows).collect::<Result<Vec<_>, _>>()?;
        for item in 0..parts[0].len() {
            let is_it =
                |&i: &usize| !seen[i] && parts.iter().zip(&whole).all(|(part, whole)| part[item] == whole[i]);
            match (0..seen.len()).find(is_it) {
                Some(i) => seen[i] = true,
                None => return Err(Stop::Failed("an item is none of the set's, or comes twice".into())),
            }
        }
    }
    Ok(())
}

pub(super) fn joined(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &[])?;
    let sets = tensors(case.get("sets")?)?;
    items(case, judge, &ConcatDataset::new(sets.into_iter().map(|set| TensorDataset::new([set]))))
}

pub(super) fn subset(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &["indices"])?;
    let indices = counts(case.args().get("indices").ok_or_else(|| "no `indices`".to_owned())?)?;
    let [set] = &tensors(case.get("sets")?)?[..] else { return Err(Stop::Failed("not one set".into())) };
    let some = Subset::new(TensorDataset::new([set.clone()]), indices).map_err(|e| e.to_string())?;
    items(case, judge, &some)
}

/// All items, and none behind them.
fn items(case: &TrainingCase, judge: &mut Judge, set: &impl Dataset<Item = [Tensor; 1]>) -> Result<(), Stop> {
    let expected = list(case.get("items")?)?;
    equal("the number of items", set.len(), expected.len())?;
    if set.get(set.len()).is_ok() {
        return Err(Stop::Failed("there is an item behind the last".into()));
    }
    expected.iter().enumerate().try_for_each(|(i, expected)| {
        let [item] = set.get(i).map_err(|e| e.to_string())?;
        judge.exact("an item", &item, expected)
    })
}

pub(super) fn collate(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &["form"])?;
    match case.args().get("form").and_then(Value::as_str).unwrap_or("") {
        "tensor" => batch_of::<Tensor>(case, judge),
        "float" => batch_of::<f64>(case, judge),
        "int" => batch_of::<i64>(case, judge),
        "bool" => batch_of::<bool>(case, judge),
        "text" => batch_of::<String>(case, judge),
        "(tensor, int)" => batch_of::<(Tensor, i64)>(case, judge),
        "[tensor; 2]" => batch_of::<[Tensor; 2]>(case, judge),
        "((float, bool), text)" => batch_of::<((f64, bool), String)>(case, judge),
        other => Err(Stop::Unsupported(format!("items of the form {other}"))),
    }
}

fn batch_of<T: Read + Collate<Batch: Compare>>(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let items = list(case.get("items")?)?.iter().map(T::read).collect::<Result<_, _>>()?;
    match given(&case.body, T::collate(items))? {
        Some(batch) => batch.compare(judge, case.get("batch")?),
        None => Ok(()),
    }
}

/// An item as it is written.
trait Read: Sized {
    fn read(value: &Value) -> Result<Self, Stop>;
}

impl Read for Tensor {
    fn read(value: &Value) -> Result<Tensor, Stop> {
        written(value)
    }
}

impl Read for f64 {
    fn read(value: &Value) -> Result<f64, Stop> {
        number(value)
    }
}

impl Read for i64 {
    fn read(value: &Value) -> Result<i64, Stop> {
        Ok(value.as_i64().ok_or_else(|| format!("{value} is no integer"))?)
    }
}

impl Read for bool {
    fn read(value: &Value) -> Result<bool, Stop> {
        Ok(value.as_bool().ok_or_else(|| format!("{value} is no truth value"))?)
    }
}

impl Read for String {
    fn read(value: &Value) -> Result<String, Stop> {
        Ok(value.as_str().ok_or_else(|| format!("{value} is no text"))?.to_owned())
    }
}

fn pair(value: &Value) -> Result<[&Value; 2], Stop> {
    match &list(value)?[..] {
        [a, b] => Ok([a, b]),
        _ => Err(Stop::Failed(format!("{value} is no pair"))),
    }
}

impl<A: Read, B: Read> Read for (A, B) {
    fn read(value: &Value) -> Result<(A, B), Stop> {
        let [a, b] = pair(value)?;
        Ok((A::read(a)?, B::read(b)?))
    }
}

impl<T: Read> Read for [T; 2] {
    fn read(value: &Value) -> Result<[T; 2], Stop> {
        let [a, b] = pair(value)?;
        Ok([T::read(a)?, T::read(b)?])
    }
}

/// A batch beside what PyTorch made.
trait Compare {
    fn compare(&self, judge: &mut Judge, expected: &Value) -> Result<(), Stop>;
}

impl Compare for Tensor {
    fn compare(&self, judge: &mut Judge, expected: &Value) -> Result<(), Stop> {
        judge.exact("a batch", self, expected)
    }
}

impl Compare for Vec<String> {
    fn compare(&self, _: &mut Judge, expected: &Value) -> Result<(), Stop> {
        equal("a batch", self, &texts(expected)?)
    }
}

impl<A: Compare, B: Compare> Compare for (A, B) {
    fn compare(&self, judge: &mut Judge, expected: &Value) -> Result<(), Stop> {
        let [a, b] = pair(expected)?;
        self.0.compare(judge, a)?;
        self.1.compare(judge, b)
    }
}

impl<T: Compare, const N: usize> Compare for [T; N] {
    fn compare(&self, judge: &mut Judge, expected: &Value) -> Result<(), Stop> {
        let expected = list(expected)?;
        equal("the number of parts", N, expected.len())?;
        self.iter().zip(expected).try_for_each(|(part, expected)| part.compare(judge, expected))
    }
}

pub(super) fn padded(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    known(case, &["batch_first", "padding_value"])?;
    let args = case.args();
    let batch_first = args.get("batch_first").and_then(Value::as_bool).unwrap_or(false);
    let value = match args.get("padding_value") {
        Some(value) => build::number(value).ok_or_else(|| format!("{value} is no number"))?,
        None => 0.into(),
    };
    let sequences = tensors(case.get("sequences")?)?;
    match given(&case.body, pad_sequence_with(&sequences, batch_first, value))? {
        Some(found) => judge.exact(&text(&case.body, "name")?, &found, case.get("tensor")?),
        None => Ok(()),
    }
}
