//! Metrics: batch by batch, whole, and with batches between that are refused.

use foldback::Result as Answer;
use foldback::train::metrics::{
    Accuracy, Average, ConfusionMatrix, MeanAbsoluteError, Metric, R2Score, RocAuc, RootMeanSquaredError,
    TopKAccuracy, accuracy, confusion_matrix, mean_absolute_error, r2_score, roc_auc,
    root_mean_squared_error, top_k_accuracy,
};
use foldback_tensor::{DType, Tensor};
use serde_json::{Map, Value};

use super::judge::{list, written};
use super::{Judge, TrainingCase};
use crate::conformance::case::text;
use crate::conformance::run::Stop;

/// Over batches that are taken in one after the other.
struct Batches {
    metric: Box<dyn Metric>,
    /// of all predictions and targets at once
    whole: fn(&Tensor, &Tensor, usize) -> Answer<f64>,
}

/// A metric by its name; `number` is the `k` or the count of classes that it is made with.
fn make(name: &str, number: usize) -> Result<Answer<Batches>, Stop> {
    fn of(metric: impl Metric + 'static, whole: fn(&Tensor, &Tensor, usize) -> Answer<f64>) -> Batches {
        Batches { metric: Box::new(metric), whole }
    }
    Ok(Ok(match name {
        "accuracy" => of(Accuracy::new(), |p, t, _| accuracy(p, t)),
        "roc_auc" => of(RocAuc::new(), |p, t, _| roc_auc(p, t)),
        "r2_score" => of(R2Score::new(), |p, t, _| r2_score(p, t)),
        "mean_absolute_error" => of(MeanAbsoluteError::new(), |p, t, _| mean_absolute_error(p, t)),
        "root_mean_squared_error" => of(RootMeanSquaredError::new(), |p, t, _| root_mean_squared_error(p, t)),
        "top_k_accuracy" => {
            return Ok(
                TopKAccuracy::try_new(number).map(|metric| of(metric, |p, t, k| top_k_accuracy(p, t, k)))
            );
        }
        other => return Err(Stop::Unsupported(format!("metric {other}"))),
    }))
}

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let name = text(&case.body, "name")?;
    let (keyword, number) = number_of(&name, &case.args())?;
    if name == "confusion_matrix" {
        let mut matrix = ConfusionMatrix::try_new(number).map_err(|e| e.to_string())?;
        let [p, t] = take(case, &mut matrix, &|p, t| confusion_matrix(p, t, number).map(drop))?;
        let whole = confusion_matrix(&p, &t, number).map_err(|e| e.to_string())?;
        compare(case, judge, &matrix)?;
        return compare(case, judge, &whole);
    }
    let Batches { mut metric, whole } = match (make(&name, number)?, case.is_refused()) {
        (Ok(made), false) => made,
        (Err(_), true) => return Ok(()),
        (Ok(_), true) => return Err(Stop::Failed(format!("`{keyword}` = {number} is not refused"))),
        (Err(e), false) => return Err(Stop::Failed(format!("refused: {e}"))),
    };
    let [p, t] = take(case, metric.as_mut(), &|p, t| whole(p, t, number).map(drop))?;
    let whole = whole(&p, &t, number).map_err(|e| e.to_string())?;
    judge_value(case, judge, "the value over batches", metric.value())?;
    judge_value(case, judge, "the value of all at once", whole)
}

/// The argument of a metric, if it has one.
fn number_of(name: &str, args: &Map<String, Value>) -> Result<(&'static str, usize), Stop> {
    let keyword = match name {
        "top_k_accuracy" => "k",
        "confusion_matrix" => "classes",
        _ => "",
    };
    match args.keys().find(|found| *found != keyword) {
        Some(unknown) => Err(Stop::Unsupported(format!("{name}({unknown})"))),
        None => Ok((keyword, args.get(keyword).and_then(Value::as_u64).unwrap_or(0) as usize)),
    }
}

/// Takes the batches in, with refusals of those that have an `error`, and gives all that count as one.
fn take(
    case: &TrainingCase,
    metric: &mut dyn Metric,
    whole: &dyn Fn(&Tensor, &Tensor) -> Answer<()>,
) -> Result<[Tensor; 2], Stop> {
    let (mut predictions, mut targets) = (Vec::new(), Vec::new());
    for batch in list(case.get("batches")?)? {
        let of = |key: &str| written(batch.get(key).ok_or_else(|| format!("no `{key}`"))?);
        let (prediction, target) = (of("prediction")?, of("target")?);
        let before = metric.value();
        let taken = metric.update(&prediction, &target);
        if batch.get("error").is_some() {
            if taken.is_ok() || whole(&prediction, &target).is_ok() {
                return Err(Stop::Failed(format!("{batch} is not refused")));
            }
            if metric.value().to_bits() != before.to_bits() {
                return Err(Stop::Failed("a batch that is refused counts".into()));
            }
            continue;
        }
        taken.map_err(|e| format!("refused: {e}"))?;
        predictions.push(prediction);
        targets.push(target);
    }
    let joined = |all: Vec<Tensor>| Tensor::cat(all, 0).map_err(|e| e.to_string());
    Ok([joined(predictions)?, joined(targets)?])
}

fn judge_value(case: &TrainingCase, judge: &mut Judge, what: &str, found: f64) -> Result<(), Stop> {
    judge.numbers(what, &[found], &Value::Array(vec![case.get("value")?.clone()]), DType::F64)
}

/// The matrix and everything that is computed of it.
fn compare(case: &TrainingCase, judge: &mut Judge, matrix: &ConfusionMatrix) -> Result<(), Stop> {
    judge.tensor("the counts", &matrix.counts(), case.get("counts")?)?;
    judge_value(case, judge, "the accuracy", matrix.value())?;
    for (name, average) in
        [("macro", Average::Macro), ("micro", Average::Micro), ("weighted", Average::Weighted)]
    {
        let found = [
            ("precision", matrix.precision(average)),
            ("recall", matrix.recall(average)),
            ("f1", matrix.f1(average)),
        ];
        for (of, found) in found {
            let expected = case.get(of)?.get(name).ok_or_else(|| format!("no `{name}` of `{of}`"))?;
            judge.numbers(
                &format!("{name} {of}"),
                &[found],
                &Value::Array(vec![expected.clone()]),
                DType::F64,
            )?;
        }
    }
    let each = [
        ("precision_per_class", matrix.precision_per_class()),
        ("recall_per_class", matrix.recall_per_class()),
        ("f1_per_class", matrix.f1_per_class()),
    ];
    each.iter().try_for_each(|(name, found)| judge.numbers(name, found, case.get(name)?, DType::F64))
}
