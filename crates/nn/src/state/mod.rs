//! What a module keeps, by name: `state_dict` and loading it again, all or nothing.

mod generators;
mod report;

use std::collections::{HashMap, HashSet};

use foldback_graph::Var;
use foldback_tensor::{DType, Shape, StateDict, Tensor, refuse};

use crate::buffer::Buffer;
use crate::copies::Pairs;
use crate::error::{NnFacts, Result};
use crate::module::{Seen, Visitor, Walk};

pub(crate) use generators::{generator_states, load_generator_states};
pub(crate) use report::{Listed, Refused};
pub use report::{LoadReport, Mismatched};

/// A tensor of a module that has a name.
enum StateTensor {
    Parameter(Var),
    Buffer(Buffer),
}

impl StateTensor {
    fn of(seen: &Seen<'_>) -> Option<StateTensor> {
        match seen {
            // One without history is not even the same as itself: a constant of the program.
            Seen::Parameter(var) if var.is_same(var) => Some(StateTensor::Parameter((*var).clone())),
            Seen::Buffer(buffer) => Some(StateTensor::Buffer((*buffer).clone())),
            _ => None,
        }
    }

    /// A variable that is no leaf is computed by the program, a buffer that is not persistent can be computed again.
    fn is_saved(&self) -> bool {
        match self {
            StateTensor::Parameter(var) => var.is_leaf(),
            StateTensor::Buffer(buffer) => buffer.is_persistent(),
        }
    }

    fn value(&self) -> Tensor {
        match self {
            StateTensor::Parameter(var) => var.value(),
            StateTensor::Buffer(buffer) => buffer.value(),
        }
    }

    fn may_be_missing(&self) -> bool {
        matches!(self, StateTensor::Buffer(buffer) if buffer.is_optional())
    }
}

/// In the order of the fields; what stands in several places stands under each of its names.
fn named(walk: Walk<'_>) -> Vec<(String, StateTensor)> {
    let mut all = Vec::new();
    walk.accept(&mut Visitor::new(&mut |path, seen| {
        all.extend(StateTensor::of(&seen).map(|named| (path.to_owned(), named)));
    }));
    all
}

/// Those of [`named`] that are saved.
fn kept(walk: Walk<'_>) -> Vec<(String, StateTensor)> {
    let mut all = named(walk);
    all.retain(|(_, named)| named.is_saved());
    all
}

pub(crate) fn state_dict(walk: Walk<'_>) -> StateDict {
    kept(walk).into_iter().map(|(name, kept)| (name, kept.value())).collect()
}

pub(crate) fn load(walk: Walk<'_>, state: &StateDict, strict: bool) -> Result<LoadReport> {
    let given: HashMap<&str, &Tensor> = state.iter().collect();
    let mut report = LoadReport::default();
    let (mut known, mut writes) = (HashSet::new(), Vec::new());
    for (name, kept) in kept(walk) {
        let own = kept.value();
        match given.get(name.as_str()) {
            None if kept.may_be_missing() => {}
            None => report.missing.push(name.clone()),
            Some(&found) => match fitted(found, own.shape(), own.dtype())? {
                Some(value) => writes.push((kept, value)),
                None => report.mismatched.push(Mismatched::new(name.clone(), &own, found)),
            },
        }
        known.insert(name);
    }
    report.unexpected = state.names().filter(|&name| !known.contains(name)).map(str::to_owned).collect();
    let incomplete = !(report.missing.is_empty() && report.unexpected.is_empty());
    if !report.mismatched.is_empty() || (strict && incomplete) {
        return refuse(NnFacts::StateDict { op: "load_state_dict", report });
    }
    for (kept, _) in &writes {
        if let StateTensor::Parameter(var) = kept {
            var.expect_not_updating("load_state_dict")?;
        }
    }
    for (kept, value) in writes {
        match kept {
            StateTensor::Parameter(mut var) => var.set_value(value)?,
            StateTensor::Buffer(buffer) => buffer.set(value),
        }
    }
    Ok(report)
}

/// The parameters and buffers of these names, each with what should stand for it.
pub(crate) fn pairs(walk: Walk<'_>, given: Vec<(String, Var)>) -> Result<Pairs> {
    let known: HashMap<String, StateTensor> = named(walk).into_iter().collect();
    let (mut report, mut pairs) = (LoadReport::default(), Pairs::default());
    for (name, var) in given {
        let Some(named) = known.get(&name) else {
            report.unexpected.push(name);
            continue;
        };
        let own = named.value();
        let fits = match named {
            StateTensor::Parameter(_) => own.dtype().is_float() == var.dtype().is_float(),
            StateTensor::Buffer(_) => own.dtype() == var.dtype(),
        };
        if own.shape() != var.shape() || !fits {
            report.mismatched.push(Mismatched::new(name, &own, &var.value()));
            continue;
        }
        match named {
            // Of several for one the last counts.
            StateTensor::Parameter(own) => {
                pairs.vars.retain(|(old, _)| !old.is_same(own));
                pairs.vars.push((own.clone(), with_a_name(var)?));
            }
            StateTensor::Buffer(own) => {
                pairs.buffers.retain(|(old, _)| !old.is_same(own));
                pairs.buffers.push((own.clone(), own.with(var.value())));
            }
        }
    }
    if report != LoadReport::default() {
        return refuse(NnFacts::StateDict { op: "with_parameters", report });
    }
    Ok(pairs)
}

/// A variable that can be found again: without a history it is not even the same as itself, and becomes a frozen leaf.
fn with_a_name(var: Var) -> Result<Var> {
    if var.is_same(&var) || !var.dtype().is_float() {
        return Ok(var);
    }
    let mut leaf = Var::leaf(var.value())?;
    leaf.requires_grad_(false)?;
    Ok(leaf)
}

/// A tensor as a parameter or a buffer of this shape and type can hold it: compact, converted between floating-point types by
/// rounding, between others only if no number changes. A list of one number may stand for a number without axes, as it does in old
/// files.
fn fitted(found: &Tensor, shape: &Shape, dtype: DType) -> Result<Option<Tensor>> {
    if found.shape() != shape && !(shape.rank() == 0 && found.dims() == [1]) {
        return Ok(None);
    }
    let found = &found.reshape(shape)?;
    let value = found.to(dtype);
    let keeps = found.dtype() == dtype || (found.dtype().is_float() && dtype.is_float());
    Ok((keeps || value.to(found.dtype()) == *found).then(|| value.contiguous()))
}

#[cfg(test)]
mod tests;
