//! One cell over all steps of a sequence, forward or back.

use foldback_graph::Var;
use foldback_tensor::{Tensor, refuse};

use super::cell::RecurrentCell;
use super::kinds::Kind;
use super::state::State;
use crate::error::{NnFacts, Result};

/// How long the sequences of a batch are.
pub(super) struct Lengths {
    /// the steps that all of them have
    shortest: usize,
    /// for each step from there on, which sequences have it: `[n, 1]`
    later: Vec<Tensor>,
}

impl Lengths {
    pub(super) fn new(
        op: &'static str,
        lengths: &[usize],
        [steps, rows]: [usize; 2],
        alone: bool,
    ) -> Result<Lengths> {
        let fit = lengths.iter().all(|&l| (1..=steps).contains(&l));
        if alone || lengths.len() != rows || !fit {
            return refuse(NnFacts::Lengths {
                op,
                lengths: lengths.to_vec(),
                rows: (!alone).then_some(rows),
                steps,
            });
        }
        let shortest = lengths.iter().copied().min().unwrap_or(steps);
        let mut later = Vec::new();
        for step in shortest..steps {
            let has: Vec<bool> = lengths.iter().map(|&l| step < l).collect();
            later.push(Tensor::from_vec(has, [rows, 1])?);
        }
        Ok(Lengths { shortest, later })
    }

    /// Which sequences have a step; none if all have it.
    fn at(&self, step: usize) -> Option<&Tensor> {
        self.later.get(step.checked_sub(self.shortest)?)
    }
}

/// The outputs `[t, n, hidden]` of a cell for inputs `[t, n, in]`, and its last state.
#[track_caller]
pub(super) fn run<K: Kind>(
    cell: &RecurrentCell<K>,
    x: &Var,
    first: K::State,
    lengths: Option<&Lengths>,
    back: bool,
) -> Result<(Var, K::State)> {
    let mut inputs = Vec::new();
    for part in cell.kind.of_inputs(cell, x)? {
        inputs.push(steps_of(&part)?);
    }
    let steps = x.dims()[0];
    let w = cell.weight_hh.t();
    let mut state = first;
    let mut outputs = Vec::with_capacity(steps);
    for i in 0..steps {
        let step = if back { steps - 1 - i } else { i };
        let gates: Vec<Var> = inputs.iter().map(|part| part[step].clone()).collect();
        let next = cell.kind.step(cell, &gates, &state, &w)?;
        let Some(has) = lengths.and_then(|lengths| lengths.at(step)) else {
            outputs.push(next.parts()[0].clone());
            state = next;
            continue;
        };
        let has = Var::from(has);
        outputs.push(has.where_cond(next.parts()[0], 0.0)?);
        let mut parts = Vec::new();
        for (new, old) in next.parts().into_iter().zip(state.parts()) {
            parts.push(has.where_cond(new, old)?);
        }
        state = K::State::of(parts);
    }
    if back {
        outputs.reverse();
    }
    Ok((Var::stack(&outputs, 0)?, state))
}

/// The elements of axis 0, cut in halves again and again: the gradient of each cut is as large as what was cut, so that all
/// together are `log t` times as large as `x`, and not `t` times.
#[track_caller]
fn steps_of(x: &Var) -> Result<Vec<Var>> {
    let count = x.dims()[0];
    if count == 1 {
        return Ok(vec![x.squeeze(0)?]);
    }
    let half = count / 2;
    let mut steps = steps_of(&x.narrow(0, 0, half)?)?;
    steps.extend(steps_of(&x.narrow(0, half, count - half)?)?);
    Ok(steps)
}
