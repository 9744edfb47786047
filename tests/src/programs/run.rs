//! One program: run twice, compared with what PyTorch had, and looked after for what it leaves behind.

use foldback_graph::{Var, live_nodes};
use foldback_tensor::{DType, Tensor};

use super::machine::Machine;
use super::program::Program;
use super::show::listing;
use crate::conformance::args::Refusal;
use crate::conformance::build;
use crate::conformance::close::{Precision, compare_computed, is_zero, same_bits};
use crate::conformance::run::Verdict;

/// Runs a program twice. Panics are the caller's to catch.
pub(super) fn run(program: &Program) -> Verdict {
    let before = live_nodes();
    let verdict = match (single(program), single(program)) {
        (Err(verdict), _) | (_, Err(verdict)) => verdict,
        (Ok(once), Ok(again)) => repeats(&once, &again),
    };
    let verdict = match live_nodes() {
        after if verdict == Verdict::Passed && after != before => {
            Verdict::Failed(format!("{} nodes of the graph are left", after as isize - before as isize))
        }
        _ => verdict,
    };
    match verdict {
        Verdict::Failed(reason) => Verdict::Failed(format!("{reason}\n{}", listing(program))),
        other => other,
    }
}

/// Runs a program, compares, and gives the values of all slots.
fn single(program: &Program) -> Result<Vec<Option<Tensor>>, Verdict> {
    let mut machine = Machine::default();
    for (number, statement) in program.statements.iter().enumerate() {
        let (slots, wanted) = (machine.slots.len(), statement.results());
        let at = |what: String| Verdict::Failed(format!("statement {number}: {what}"));
        match (machine.step(statement), &statement.refused) {
            (Err(Refusal::Unsupported(name)), _) => return Err(Verdict::Unsupported(name)),
            (Err(Refusal::Library(text) | Refusal::Argument(text)), None) => {
                return Err(at(format!("refused: {text}")));
            }
            (Err(Refusal::Library(text)), _) if text.is_empty() => {
                return Err(at("refused without a word".into()));
            }
            (Ok(()), Some(text)) => return Err(at(format!("accepted, but PyTorch refuses: {text}"))),
            (Err(_), Some(_)) => {}
            (Ok(()), None) if machine.slots.len() != slots + wanted => {
                return Err(at(format!("{} results, expected {wanted}", machine.slots.len() - slots)));
            }
            (Ok(()), None) => {}
        }
    }
    agree(program, &machine).map_err(Verdict::Failed)?;
    Ok(machine.slots.iter().map(|slot| slot.as_ref().map(Var::value)).collect())
}

fn agree(program: &Program, machine: &Machine) -> Result<(), String> {
    // A value is no more accurate than the types that it passed through.
    let dtypes = machine.slots.iter().flatten().map(Var::dtype);
    let coarsest = dtypes.filter(|d| d.is_float()).min().unwrap_or(DType::F64);
    // Where no gradient arrives, there is none, or zeros.
    let mut nothing = Vec::new();
    for (slot, expected) in &program.values {
        let found =
            machine.slots.get(*slot).ok_or_else(|| format!("no slot {slot}"))?.as_ref().map(Var::value);
        let expected = expected.as_ref().map(build::dense).transpose()?;
        match (found, expected) {
            (None, None) => nothing.push(*slot),
            (Some(zeros), None) | (None, Some(zeros)) if is_zero(&zeros) => nothing.push(*slot),
            (Some(found), None) => return Err(format!("v{slot}: {found:?}, expected none")),
            (None, Some(_)) => return Err(format!("v{slot}: none")),
            (Some(found), Some(expected)) => {
                let name = format!("v{slot}");
                compare_computed(&name, &found, &expected, Precision::Sum, coarsest, 0.0)?;
                if is_zero(&found) {
                    nothing.push(*slot);
                }
            }
        }
    }
    for (slot, value) in machine.slots.iter().enumerate().filter(|(slot, _)| !nothing.contains(slot)) {
        let (found, expected) =
            (value.as_ref().is_some_and(Var::requires_grad), program.tracked.contains(&slot));
        if found != expected {
            return Err(format!("v{slot} requires a gradient: {found}, expected {expected}"));
        }
    }
    Ok(())
}

fn repeats(once: &[Option<Tensor>], again: &[Option<Tensor>]) -> Verdict {
    let same = |pair: (&Option<Tensor>, &Option<Tensor>)| match pair {
        (Some(a), Some(b)) => same_bits(a, b),
        (None, None) => true,
        _ => false,
    };
    match once.iter().zip(again).position(|pair| !same(pair)) {
        Some(slot) => Verdict::Failed(format!("v{slot} has other bits when run again")),
        None => Verdict::Passed,
    }
}
