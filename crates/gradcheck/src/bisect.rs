//! Finds the recorded operation whose own gradient is wrong.
//!
//! Along a direction, every value on the way changes at some speed, which differences of the recorded values show. What an
//! operation's results change by, weighted with their gradients, must be what its inputs change by, weighted with theirs. Where
//! it is not, the operation is wrong, and what it is wrong by adds up, over all operations, to what the whole gradient is
//! wrong by.

use std::sync::{Arc, Mutex};

use foldback_graph::{Recorded, Var, recorded};
use foldback_tensor::{DType, Tensor};

use crate::compare::{Finding, Problem, moved};
use crate::diagnosis::WrongOperation;
use crate::error::Result;
use crate::target::{from_numbers, gradients_or_zeros, numbers};

/// The gradients of an operation's inputs and of its outputs, as a pass had them.
type Passed = (Vec<Option<Tensor>>, Vec<Option<Tensor>>);

/// The first recorded operation that is wrong along the direction of a finding.
pub(crate) fn wrong_operation(
    problem: &Problem<'_>,
    weights: &[Tensor],
    finding: &Finding,
) -> Result<Option<WrongOperation>> {
    let step = problem.precision.step;
    let operations = |points: &[Tensor]| -> Result<_> {
        let (run, operations) = recorded(|| problem.target.run(points, true));
        Ok((run?, operations))
    };
    let shifted = |sign: f64| -> Result<Vec<Recorded>> {
        let points = moved(&problem.start, &finding.direction, sign * step);
        let shaped = points.into_iter().zip(&problem.arguments);
        let points: Vec<Tensor> =
            shaped.map(|(p, (_, t))| from_numbers(p, t.shape())).collect::<Result<_>>()?;
        Ok(operations(&points)?.1)
    };
    let (above, below) = (shifted(1.0)?, shifted(-1.0)?);
    let points: Vec<Tensor> = problem.arguments.iter().map(|(_, t)| t.clone()).collect();
    let (run, here) = operations(&points)?;
    let names = |list: &[Recorded]| list.iter().map(|r| r.grad_fn.name()).collect::<Vec<_>>();
    if names(&above) != names(&here) || names(&below) != names(&here) {
        return Ok(None);
    }
    let passed = pass(&here, || {
        let weights: Vec<Var> = weights.iter().map(Var::from).collect();
        gradients_or_zeros(&run.outputs, &run.leaves, &weights, problem.target.creates_graph())
    })?;
    if let Some(at) = passed.iter().rposition(makes_non_finite) {
        return Ok(Some(report(&here[at], 0, here.len())));
    }
    let mut wrong = Vec::new();
    let total = (finding.analytical - finding.numerical).abs();
    for (at, passed) in passed.iter().enumerate() {
        let Some((inputs, outputs)) = passed else { continue };
        let changed = weighted(&outputs[..], &above[at].outputs, &below[at].outputs, step)?;
        let (above, below) = (known(&above[at].inputs), known(&below[at].inputs));
        let taken = weighted(&inputs[..], &above, &below, step)?;
        let (difference, size) = ((changed.0 - taken.0).abs(), 1.0 + changed.1 + taken.1);
        // A share of the whole that matters.
        if difference > problem.precision.tolerance * size && difference > total / 100.0 {
            wrong.push(at);
        }
    }
    Ok(wrong.first().map(|&at| report(&here[at], wrong.len() - 1, here.len())))
}

/// Notes what a pass computes at each operation; none where it does not come to it.
fn pass(operations: &[Recorded], run: impl FnOnce() -> Result<Vec<Var>>) -> Result<Vec<Option<Passed>>> {
    let notes: Arc<Mutex<Vec<Option<Passed>>>> = Arc::new(Mutex::new(vec![None; operations.len()]));
    let mut handles = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        let notes = notes.clone();
        let values = |grads: &[Option<Var>]| -> Vec<Option<Tensor>> {
            grads.iter().map(|g| g.as_ref().map(Var::value)).collect()
        };
        let note = move |inputs: &[Option<Var>], outputs: &[Option<Var>]| {
            if let Ok(mut notes) = notes.lock() {
                notes[at] = Some((values(inputs), values(outputs)));
            }
        };
        handles.push(operation.grad_fn.register_hook(note));
    }
    let result = run();
    handles.into_iter().for_each(|handle| handle.remove());
    result?;
    Ok(notes.lock().map(|mut notes| std::mem::take(&mut *notes)).unwrap_or_default())
}

fn report(operation: &Recorded, others: usize, recorded: usize) -> WrongOperation {
    WrongOperation {
        name: operation.grad_fn.name(),
        location: operation.grad_fn.location(),
        others,
        recorded,
        has_constants: operation.inputs.iter().any(Option::is_none),
    }
}

/// Whether what came in was finite, and what goes out is not.
fn makes_non_finite(passed: &Option<Passed>) -> bool {
    let is_finite = |grads: &[Option<Tensor>]| {
        grads.iter().flatten().all(|g| numbers(g).is_ok_and(|g| g.iter().all(|v| v.is_finite())))
    };
    passed.as_ref().is_some_and(|(inputs, outputs)| is_finite(outputs) && !is_finite(inputs))
}

/// An empty tensor where a value is not known: it changes nothing.
fn known(values: &[Option<Tensor>]) -> Vec<Tensor> {
    let nothing = || Tensor::zeros_with([0], DType::F64);
    values.iter().map(|v| v.clone().unwrap_or_else(nothing)).collect()
}

/// The change of some values, weighted with gradients, and the sum of the magnitudes that it is made of.
fn weighted(
    gradients: &[Option<Tensor>],
    above: &[Tensor],
    below: &[Tensor],
    step: f64,
) -> Result<(f64, f64)> {
    let (mut sum, mut size) = (0.0, 0.0);
    for ((g, a), b) in gradients.iter().zip(above).zip(below) {
        let Some(g) = g else { continue };
        for ((g, a), b) in numbers(g)?.iter().zip(numbers(a)?).zip(numbers(b)?) {
            let part = if a == b { 0.0 } else { g * (a - b) / (2.0 * step) };
            sum += part;
            size += if a == b { 0.0 } else { part.abs() + (g * a).abs() };
        }
    }
    Ok((sum, size))
}
