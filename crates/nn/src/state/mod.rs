//! What a module keeps, by name: `state_dict` and loading it again, all or nothing.

mod generators;
mod report;

use std::collections::{HashMap, HashSet};

use foldback_graph::Var;
use foldback_tensor::{DType, Shape, StateDict, Tensor, refuse};

use crate::buffer::Buffer;
use crate::error::{NnFacts, Result};
use crate::module::{Seen, Visitor, Walk};

pub(crate) use generators::{generator_states, load_generator_states};
pub(crate) use report::{Listed, Refused};
pub use report::{LoadReport, Mismatched};

/// A tensor of a module that is saved.
enum Kept {
    Parameter(Var),
    Buffer(Buffer),
}

impl Kept {
    /// A variable that is no leaf is computed or fixed by the program, a buffer that is not persistent can be computed again.
    fn of(seen: &Seen<'_>) -> Option<Kept> {
        match seen {
            // One without history is not even the same as itself.
            Seen::Parameter(var) if var.is_leaf() && var.is_same(var) => {
                Some(Kept::Parameter((*var).clone()))
            }
            Seen::Buffer(buffer) if buffer.is_persistent() => Some(Kept::Buffer((*buffer).clone())),
            _ => None,
        }
    }

    fn value(&self) -> Tensor {
        match self {
            Kept::Parameter(var) => var.value(),
            Kept::Buffer(buffer) => buffer.value(),
        }
    }

    fn may_be_missing(&self) -> bool {
        matches!(self, Kept::Buffer(buffer) if buffer.is_optional())
    }
}

/// In the order of the fields; what stands in several places stands under each of its names.
fn kept(walk: Walk<'_>) -> Vec<(String, Kept)> {
    let mut all = Vec::new();
    walk.accept(&mut Visitor::new(&mut |path, seen| {
        all.extend(Kept::of(&seen).map(|kept| (path.to_owned(), kept)));
    }));
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
                None => report.mismatched.push(Mismatched {
                    name: name.clone(),
                    expected: (own.dtype(), own.shape().clone()),
                    found: (found.dtype(), found.shape().clone()),
                }),
            },
        }
        known.insert(name);
    }
    report.unexpected = state.names().filter(|&name| !known.contains(name)).map(str::to_owned).collect();
    let incomplete = !(report.missing.is_empty() && report.unexpected.is_empty());
    if !report.mismatched.is_empty() || (strict && incomplete) {
        return refuse(NnFacts::StateDict { report });
    }
    for (kept, _) in &writes {
        if let Kept::Parameter(var) = kept {
            var.expect_not_updating("load_state_dict")?;
        }
    }
    for (kept, value) in writes {
        match kept {
            Kept::Parameter(mut var) => var.set_value(value)?,
            Kept::Buffer(buffer) => buffer.set(value),
        }
    }
    Ok(report)
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
