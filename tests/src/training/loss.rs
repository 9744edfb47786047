//! Losses with their options.

use foldback_graph::Var;
use foldback_nn::loss::*;
use foldback_nn::{NnFacts, PairwiseDistance};
use foldback_tensor::Tensor;
use serde_json::{Map, Value};

use super::layer::{compare, dtype, inputs, refused, stop};
use super::model::{Results, arguments, expect_known, one};
use super::{Judge, TrainingCase};
use crate::conformance::args::{Args, Read, Refusal};
use crate::conformance::case::text;
use crate::conformance::run::Stop;

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let name = text(&case.body, "loss")?;
    dtype(case)?;
    let inputs = inputs(case)?;
    let results = call(&name, case.args(), inputs.named.clone());
    if case.is_refused() {
        return if refused(&results)? { Ok(()) } else { Err(Stop::Failed("is not refused".into())) };
    }
    compare(case, judge, &results.map_err(stop)?, &inputs, &[])
}

/// A loss by its name and keywords, of inputs by PyTorch's names.
pub(crate) fn call(name: &str, keywords: Map<String, Value>, inputs: Vec<(String, Var)>) -> Results {
    let row = ROWS.iter().find(|row| row.name == name);
    let row = row.ok_or_else(|| Refusal::Unsupported(format!("loss {name}")))?;
    let options = arguments(name, row.keywords, keywords)?;
    // PyTorch's name for the input of this loss is that of an option; it is also written as those of all others.
    let plain =
        |input: String| if name == "PoissonNLLLoss" && input == "input" { "log_input".into() } else { input };
    let inputs = inputs.into_iter().map(|(input, var)| (plain(input), var)).collect();
    let inputs = Args::new(inputs, Map::new());
    expect_known(name, row.inputs, &inputs)?;
    (row.call)(&options, &inputs)
}

/// One row: a loss.
struct Row {
    /// PyTorch's name
    name: &'static str,
    /// PyTorch's names for what its constructor takes
    keywords: &'static str,
    /// and for what its call takes
    inputs: &'static str,
    /// the call, with the constructor's arguments first
    call: fn(&Args, &Args) -> Results,
}

/// A row: the loss, what it takes, its options as they are read, and the inputs of the call.
macro_rules! loss {
    ($loss:ident { $($option:ident $(= $read:ident)?),* } ($($input:ident),*)) => {
        Row {
            name: stringify!($loss),
            keywords: concat!($(stringify!($option), " ",)* "reduction"),
            inputs: concat!($(stringify!($input), " ",)* ""),
            call: |a, x| {
                let loss = $loss::new().reduction(reduction(a)?);
                $(let loss = match loss!(@read $($read)?)(a, stringify!($option))? {
                    Some(given) => loss.$option(given),
                    None => loss,
                };)*
                by_design(loss.forward($(&x.var(stringify!($input))?),*))
            },
        }
    };
    (@read) => { float };
    (@read $read:ident) => { $read };
}

const ROWS: &[Row] = &[
    loss!(CrossEntropyLoss { weight = tensor, ignore_index = int, label_smoothing } (input, target)),
    loss!(NLLLoss { weight = tensor, ignore_index = int } (input, target)),
    loss!(MSELoss {}(input, target)),
    loss!(L1Loss {}(input, target)),
    loss!(SmoothL1Loss { beta }(input, target)),
    loss!(HuberLoss { delta }(input, target)),
    loss!(BCELoss { weight = tensor } (input, target)),
    loss!(BCEWithLogitsLoss { weight = tensor, pos_weight = tensor } (input, target)),
    loss!(KLDivLoss { log_target = flag } (input, target)),
    loss!(CosineEmbeddingLoss { margin }(input1, input2, target)),
    loss!(MarginRankingLoss { margin }(input1, input2, target)),
    loss!(HingeEmbeddingLoss { margin }(input, target)),
    loss!(TripletMarginLoss { margin, p, eps, swap = flag } (anchor, positive, negative)),
    loss!(TripletMarginWithDistanceLoss { distance_function = distance, margin, swap = flag } (anchor, positive, negative)),
    loss!(SoftMarginLoss {}(input, target)),
    loss!(MultiMarginLoss { p, margin, weight = tensor } (input, target)),
    loss!(MultiLabelMarginLoss {}(input, target)),
    loss!(MultiLabelSoftMarginLoss { weight = tensor } (input, target)),
    loss!(PoissonNLLLoss { log_input = flag, full = flag, eps } (log_input, target)),
    loss!(CTCLoss { blank = count, zero_infinity = flag } (log_probs, targets, input_lengths, target_lengths)),
    loss!(GaussianNLLLoss { full = flag, eps } (input, target, var)),
];

pub(super) fn reduction(a: &Args) -> Read<Reduction> {
    match a.word("reduction", "mean")?.as_str() {
        "mean" => Ok(Reduction::Mean),
        "sum" => Ok(Reduction::Sum),
        "none" => Ok(Reduction::None),
        "batchmean" => Ok(Reduction::BatchMean),
        other => Err(Refusal::Argument(format!("`reduction` = {other}"))),
    }
}

fn float(a: &Args, name: &str) -> Read<Option<f64>> {
    Ok(a.scalar(name)?.map(|number| number.to_f64()))
}

fn int(a: &Args, name: &str) -> Read<Option<i64>> {
    Ok(a.int(name)?.map(|number| number as i64))
}

fn count(a: &Args, name: &str) -> Read<Option<usize>> {
    let number = a.int(name)?.map(usize::try_from).transpose();
    number.map_err(|_| Refusal::Argument(format!("`{name}` is negative")))
}

fn flag(a: &Args, name: &str) -> Read<Option<bool>> {
    if a.has(name) { a.flag(name, false).map(Some) } else { Ok(None) }
}

fn tensor(a: &Args, name: &str) -> Read<Option<Tensor>> {
    Ok(a.maybe_var(name)?.map(|var| var.value()))
}

/// How far two variables are from each other.
type Distance = fn(&Var, &Var) -> foldback_tensor::Result<Var>;

/// A function that a case names, as what writes the cases does.
fn distance(a: &Args, name: &str) -> Read<Option<Distance>> {
    let Some(function) = a.value(name) else { return Ok(None) };
    Ok(Some(match function.get("f").and_then(Value::as_str) {
        Some("pairwise") => |a, b| PairwiseDistance::new().forward(a, b),
        Some("cosine") => |a, b| a.cosine_similarity(b, -1)?.rsub(1),
        Some("l1") => |a, b| a.sub(b)?.abs().sum(-1),
        Some("each") => |a, b| Ok(a.sub(b)?.square()),
        _ => return Err(Refusal::Unsupported(format!("{name} {function}"))),
    }))
}

/// Losses do not broadcast, by design.
fn by_design(result: foldback_tensor::Result<Var>) -> Results {
    if let Err(e) = &result
        && let Some(NnFacts::LossShapes { input, target, .. }) = e.facts()
        && foldback_tensor::can_broadcast(input, target)
    {
        return Err(Refusal::Unsupported("by design: a loss of unequal shapes".into()));
    }
    one(result)
}
