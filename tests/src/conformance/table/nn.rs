//! Layers and losses. Losses never broadcast, so that unequal shapes are refused by design.

use foldback_graph::Var;
use foldback_nn::loss::{
    BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss, Reduction,
    SmoothL1Loss,
};
use foldback_nn::{Error, NnFacts};
use foldback_tensor::refused;

use super::{Operation, Outcome, one, operation};
use crate::conformance::args::{Args, Read, Refusal};

pub(super) const ROWS: &[Operation] = &[
    operation!(Sum "linear", "input weight bias", |a| {
        one(a.var("input")?.linear(a.var("weight")?, &a.maybe_var("bias")?))
    }),
    operation!(Sum "mse_loss", "input target weight reduction", |a| {
        let mut loss = MSELoss::new().reduction(reduction(a)?);
        if let Some(weight) = a.maybe_var("weight")? {
            loss = loss.weight(weight);
        }
        same_shapes(a, loss.forward(&a.var("input")?, &a.var("target")?))
    }),
    operation!(Sum "l1_loss", "input target weight reduction", |a| {
        let mut loss = L1Loss::new().reduction(reduction(a)?);
        if let Some(weight) = a.maybe_var("weight")? {
            loss = loss.weight(weight);
        }
        same_shapes(a, loss.forward(&a.var("input")?, &a.var("target")?))
    }),
    operation!(Sum "smooth_l1_loss", "input target beta reduction", |a| {
        let loss = SmoothL1Loss::new().beta(a.float("beta", 1.0)?).reduction(reduction(a)?);
        same_shapes(a, loss.forward(&a.var("input")?, &a.var("target")?))
    }),
    operation!(Sum "huber_loss", "input target delta weight reduction", |a| {
        let mut loss = HuberLoss::new().delta(a.float("delta", 1.0)?).reduction(reduction(a)?);
        if let Some(weight) = a.maybe_var("weight")? {
            loss = loss.weight(weight);
        }
        same_shapes(a, loss.forward(&a.var("input")?, &a.var("target")?))
    }),
    operation!(Sum "kl_div", "input target log_target reduction", |a| {
        let loss = KLDivLoss::new().log_target(a.flag("log_target", false)?);
        let loss = loss.reduction(match a.word("reduction", "mean")?.as_str() {
            "batchmean" => Reduction::BatchMean,
            _ => reduction(a)?,
        });
        same_shapes(a, loss.forward(&a.var("input")?, &a.var("target")?))
    }),
    operation!(Sum "binary_cross_entropy", "input target weight reduction", |a| {
        let mut loss = BCELoss::new().reduction(reduction(a)?);
        if let Some(weight) = untracked(a, "weight")? {
            loss = loss.weight(weight.value());
        }
        same_shapes(a, loss.forward(&a.var("input")?, &a.var("target")?))
    }),
    operation!(Sum "binary_cross_entropy_with_logits", "input target weight pos_weight reduction", |a| {
        let mut loss = BCEWithLogitsLoss::new().reduction(reduction(a)?);
        if let Some(weight) = untracked(a, "weight")? {
            loss = loss.weight(weight.value());
        }
        if let Some(weight) = untracked(a, "pos_weight")? {
            loss = loss.pos_weight(weight.value());
        }
        same_shapes(a, loss.forward(&a.var("input")?, &a.var("target")?))
    }),
    operation!(Sum "nll_loss", "input target weight ignore_index reduction", |a| {
        let mut loss = NLLLoss::new().reduction(reduction(a)?);
        if let Some(weight) = untracked(a, "weight")? {
            loss = loss.weight(weight.value());
        }
        if let Some(index) = a.int("ignore_index")? {
            loss = loss.ignore_index(index as i64);
        }
        one(loss.forward(&a.var("input")?, &a.var("target")?))
    }),
    operation!(Sum "cross_entropy", "input target weight ignore_index reduction label_smoothing", |a| {
        let mut loss = CrossEntropyLoss::new().reduction(reduction(a)?);
        if let Some(weight) = untracked(a, "weight")? {
            loss = loss.weight(weight.value());
        }
        if let Some(index) = a.int("ignore_index")? {
            loss = loss.ignore_index(index as i64);
        }
        loss = loss.label_smoothing(a.float("label_smoothing", 0.0)?);
        one(loss.forward(&a.var("input")?, &a.var("target")?))
    }),
];

fn reduction(a: &Args) -> Read<Reduction> {
    match a.word("reduction", "mean")?.as_str() {
        "mean" => Ok(Reduction::Mean),
        "sum" => Ok(Reduction::Sum),
        "none" => Ok(Reduction::None),
        other => Err(Refusal::Argument(format!("`reduction` = {other}"))),
    }
}

/// A weight, which has no gradient here.
fn untracked(a: &Args, name: &str) -> Read<Option<Var>> {
    match a.maybe_var(name)? {
        Some(v) if v.requires_grad() => Err(Refusal::Unsupported(format!("form loss(tracked {name})"))),
        other => Ok(other),
    }
}

/// The refusal of unequal shapes is by design.
fn same_shapes(a: &Args, result: Result<Var, Error>) -> Outcome {
    let (input, target) = (a.var("input")?.shape().clone(), a.var("target")?.shape().clone());
    if refused!(result, NnFacts::LossShapes { .. }) && foldback_tensor::can_broadcast(&input, &target) {
        return Err(Refusal::Unsupported("by design: a loss of unequal shapes".into()));
    }
    one(result)
}
