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
    /// which sequences have which step: `[t, n, 1]`
    has: Tensor,
}

impl Lengths {
    pub(super) fn new(
        op: &'static str,
        lengths: &[usize],
        [steps, rows]: [usize; 2],
        alone: bool,
    ) -> Result<Lengths> {
        let fit = lengths.iter().all(|&length| (1..=steps).contains(&length));
        if alone || lengths.len() != rows || !fit {
            let (lengths, rows) = (lengths.to_vec(), (!alone).then_some(rows));
            return refuse(NnFacts::Lengths { op, lengths, rows, steps });
        }
        let has = (0..steps).flat_map(|step| lengths.iter().map(move |&length| step < length));
        let has = Tensor::from_vec(has.collect(), [steps, rows, 1])?;
        Ok(Lengths { shortest: lengths.iter().copied().min().unwrap_or(steps), has })
    }

    /// Inputs with zeros behind the ends, so that whatever stands there is never computed with.
    #[track_caller]
    pub(super) fn cut(&self, x: &Var) -> Result<Var> {
        Var::from(&self.has).where_cond(x, 0.0)
    }

    /// Which sequences have a step, `[n, 1]`; none if all have it.
    fn at(&self, step: usize) -> Result<Option<Var>> {
        if step < self.shortest {
            return Ok(None);
        }
        Ok(Some(self.has.select(0, step)?.into()))
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
        inputs.push(part.unbind(0)?);
    }
    let steps = x.dims()[0];
    let w = cell.weight_hh.t();
    let mut state = first;
    let mut outputs = Vec::with_capacity(steps);
    for i in 0..steps {
        let step = if back { steps - 1 - i } else { i };
        let gates: Vec<Var> = inputs.iter().map(|part| part[step].clone()).collect();
        let next = cell.kind.step(cell, &gates, &state, &w)?;
        let has = match lengths {
            Some(lengths) => lengths.at(step)?,
            None => None,
        };
        let Some(has) = has else {
            outputs.push(next.parts()[0].clone());
            state = next;
            continue;
        };
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
