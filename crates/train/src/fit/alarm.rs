//! Losses and gradients that are not finite, or too large, and where they come from.

use foldback_graph::{Recorded, Var, detect_anomaly, recorded};
use foldback_nn::Module;
use foldback_tensor::{Generator, StateDict, Tensor, get_rng_state, refuse, set_rng_state};

use crate::error::{Result, TrainFacts};

/// What is watched besides the loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alarms {
    /// the largest norm that gradients may have together
    pub limit: Option<f64>,
}

/// Where in a run, both counted from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub epoch: usize,
    pub batch: usize,
}

/// A value that ends a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    what: &'static str,
    value: f64,
    limit: f64,
}

/// The norm of all gradients, if it is watched, and what is wrong.
pub(super) struct Measured {
    pub norm: Option<f64>,
    pub alarm: Option<Alarm>,
}

impl Alarms {
    /// Behind the batches that are not the last of a step, gradients have to be finite; the limit is for all of them together.
    pub(super) fn measure(&self, model: &impl Module, loss: f64, is_last: bool) -> Result<Measured> {
        if !loss.is_finite() {
            let alarm = Alarm { what: "the loss", value: loss, limit: f64::INFINITY };
            return Ok(Measured { norm: None, alarm: Some(alarm) });
        }
        let Some(limit) = self.limit else { return Ok(Measured { norm: None, alarm: None }) };
        let norm = norm(&model.parameters())?;
        let fine = norm.is_finite() && (norm <= limit || !is_last);
        let alarm = (!fine).then_some(Alarm { what: "the norm of the gradients", value: norm, limit });
        Ok(Measured { norm: Some(norm), alarm })
    }
}

/// The 2-norm of all gradients together.
fn norm(parameters: &[Var]) -> Result<f64> {
    let mut norm = 0f64;
    for gradient in parameters.iter().filter_map(Var::grad) {
        norm = norm.hypot(gradient.norm(..)?.item()?);
    }
    Ok(norm)
}

impl Alarm {
    /// Ends the run. The step is repeated to see what the value came from.
    pub(super) fn raise<T, M: Module>(
        self,
        Place { epoch, batch }: Place,
        model: &mut M,
        drawn_from: &Drawn,
        again: impl FnMut(&M) -> Result<Var>,
    ) -> Result<T> {
        let Alarm { what, value, limit } = self;
        let cause = if value.is_finite() {
            format!("the limit is {limit}: clip gradients before the step, or take a smaller learning rate")
        } else {
            let state = model.state_dict();
            let cause = cause(model, drawn_from, again);
            // What the step has told buffers is not told them twice.
            model.load_state_dict(&state)?;
            cause
        };
        model.zero_grad();
        refuse(TrainFacts::Alarm { what, value, batch, epoch, cause })
    }
}

/// Where the generators stood before a step: for an alarm, what it draws is drawn again.
pub(super) struct Drawn {
    rng: Generator,
    /// those of layers with their own
    layers: StateDict,
}

impl Drawn {
    /// Layers are walked only where some are known to have a generator: a step may be short.
    pub(super) fn now(model: &impl Module, has_generators: bool) -> Drawn {
        let layers = if has_generators { model.generator_states() } else { StateDict::new() };
        Drawn { rng: get_rng_state(), layers }
    }
}

/// What in a step is not finite.
fn cause<M: Module>(model: &mut M, drawn_from: &Drawn, again: impl FnOnce(&M) -> Result<Var>) -> String {
    if let Some((name, _)) =
        model.named_parameters().iter().find(|(_, p)| p.requires_grad() && wild(&p.value()))
    {
        return format!(
            "the parameter {name} is not finite already; gradient_limit(f64::INFINITY) stops at the step before"
        );
    }
    set_rng_state(drawn_from.rng.clone());
    if let Err(e) = model.load_generator_states(&drawn_from.layers) {
        return e.with_location(None).to_string();
    }
    model.zero_grad();
    let (loss, operations) = recorded(|| again(model));
    if let Ok(loss) = &loss
        && wild(&loss.value())
    {
        return origin(loss, &operations);
    }
    match detect_anomaly(|| loss.and_then(|loss| loss.backward())) {
        Err(e) => e.with_location(None).to_string(),
        Ok(()) => {
            "it did not come again when the batch was repeated: an operation is not deterministic".into()
        }
    }
}

/// The operation that a loss which is not finite comes from: back from it, as long as what an operation reads is no better than
/// what it gives. Of a NaN that is the one that reads none; the infinity that it reads has an origin, too.
fn origin(loss: &Var, operations: &[Recorded]) -> String {
    let last = loss.grad_fn().and_then(|f| operations.iter().position(|o| o.grad_fn == f));
    let Some(last) = last else {
        return "nothing that the parameters have a part in: what is given to the step is not finite".into();
    };
    let is_nan = has_nan(&loss.value());
    let bad = if is_nan { has_nan } else { wild };
    let at = back(last, operations, bad);
    let operation = &operations[at];
    if operation.untracked.iter().any(|(_, t)| bad(t)) {
        let (name, line) = (operation.grad_fn.name(), operation.grad_fn.location());
        return format!(
            "it is in what {name} is given that has no history, such as a batch, recorded at {line}"
        );
    }
    let text = format!("it comes from {}", result_of(operation));
    let reads = operation.inputs.iter().zip(&operation.made_by);
    let mut infinite =
        reads.filter_map(|(input, made_by)| made_by.filter(|_| input.as_ref().is_some_and(wild)));
    match infinite.next() {
        Some(before) => {
            let before = &operations[back(before, operations, wild)];
            format!("{text}, which reads the infinity of {}", result_of(before))
        }
        None => text,
    }
}

/// From an operation back to one whose inputs are all well, as far as they have been recorded.
fn back(mut at: usize, operations: &[Recorded], bad: fn(&Tensor) -> bool) -> usize {
    loop {
        let operation = &operations[at];
        let mut inputs = operation.inputs.iter().zip(&operation.made_by);
        match inputs.find_map(|(input, made_by)| made_by.filter(|_| input.as_ref().is_some_and(bad))) {
            Some(before) => at = before,
            None => return at,
        }
    }
}

fn result_of(operation: &Recorded) -> String {
    format!("the result of {}, recorded at {}", operation.grad_fn.name(), operation.grad_fn.location())
}

fn has_nan(value: &Tensor) -> bool {
    value.isnan().any(..).and_then(|any| any.item_as::<bool>()).unwrap_or(false)
}

/// Whether something in it is not finite.
fn wild(value: &Tensor) -> bool {
    !value.isfinite().all(..).and_then(|all| all.item_as::<bool>()).unwrap_or(true)
}
