//! Losses and gradients that are not finite, or too large, and where they come from.

use foldback_graph::{Recorded, Var, detect_anomaly, recorded};
use foldback_nn::Module;
use foldback_tensor::{Generator, Tensor, refuse, set_rng_state};

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
    pub(super) fn measure(&self, model: &impl Module, loss: f64) -> Result<Measured> {
        if !loss.is_finite() {
            let alarm = Alarm { what: "the loss", value: loss, limit: f64::INFINITY };
            return Ok(Measured { norm: None, alarm: Some(alarm) });
        }
        let Some(limit) = self.limit else { return Ok(Measured { norm: None, alarm: None }) };
        let norm = norm(&model.parameters())?;
        let fine = norm.is_finite() && norm <= limit;
        let alarm = (!fine).then_some(Alarm { what: "the norm of the gradients", value: norm, limit });
        Ok(Measured { norm: Some(norm), alarm })
    }
}

/// The 2-norm of all gradients together.
fn norm(parameters: &[Var]) -> Result<f64> {
    let mut squares = 0.0;
    for gradient in parameters.iter().filter_map(Var::grad) {
        squares += gradient.norm(..)?.item()?.powi(2);
    }
    Ok(squares.sqrt())
}

impl Alarm {
    /// Ends the run. The step is repeated to see what the value came from.
    pub(super) fn raise<T>(
        self,
        Place { epoch, batch }: Place,
        model: &impl Module,
        drawn_from: Generator,
        again: impl FnMut() -> Result<Var>,
    ) -> Result<T> {
        let Alarm { what, value, limit } = self;
        let cause = if value.is_finite() {
            format!("the limit is {limit}: clip gradients before the step, or take a smaller learning rate")
        } else {
            cause(model, drawn_from, again)
        };
        model.zero_grad();
        refuse(TrainFacts::Alarm { what, value, batch, epoch, cause })
    }
}

/// The first thing in a step that is not finite.
fn cause(model: &impl Module, drawn_from: Generator, again: impl FnMut() -> Result<Var>) -> String {
    let wild = |value: &Tensor| !is_finite(value);
    if let Some((name, _)) = model.named_parameters().iter().find(|(_, p)| wild(&p.value())) {
        return format!(
            "the parameter {name} is not finite already; gradient_limit(f64::INFINITY) stops at the step before"
        );
    }
    set_rng_state(drawn_from);
    model.zero_grad();
    let (loss, operations) = recorded(again);
    let first = |o: &&Recorded| o.outputs.iter().any(wild);
    if let Some(operation) = operations.iter().find(first) {
        let (name, line) = (operation.grad_fn.name(), operation.grad_fn.location());
        return format!("it comes from the result of {name}, recorded at {line}");
    }
    match detect_anomaly(|| loss.and_then(|loss| loss.backward())) {
        Err(e) => e.with_location(None).to_string(),
        Ok(()) => {
            "it did not come again when the batch was repeated: an operation is not deterministic".into()
        }
    }
}

fn is_finite(value: &Tensor) -> bool {
    value.isfinite().all(..).and_then(|all| all.item_as::<bool>()).unwrap_or(true)
}
