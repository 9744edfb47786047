//! What is done with all parts of a module: functions of its walk, which are compiled once and not for each type of module.

use foldback_graph::Var;
use foldback_tensor::{Here, name_matches, refuse};

use super::{Module, Seen, Visitor};
use crate::buffer::Buffer;
use crate::error::{NnFacts, Result};

/// Leads a visitor through a module.
pub(crate) type Walk<'a> = &'a dyn Visitable;

/// What a visitor is led through.
pub(crate) trait Visitable {
    fn accept(&self, visitor: &mut Visitor<'_>);
}

/// A module of any type behind a pointer: a function for each type, and not three for each type and each thing that is done with
/// all parts.
pub(crate) struct Through<'a, M: ?Sized>(pub(crate) &'a M);

impl<M: Module + ?Sized> Visitable for Through<'_, M> {
    fn accept(&self, visitor: &mut Visitor<'_>) {
        self.0.visit(visitor);
    }
}

pub(super) fn named_parameters_matching(walk: Walk<'_>, pattern: &str) -> Vec<(String, Var)> {
    let mut found: Vec<(String, Var)> = Vec::new();
    walk.accept(&mut Visitor::new(&mut |path, seen| {
        // A variable that holds a tensor and no history is not even the same as itself: a constant of the program.
        if let Seen::Parameter(var) = seen
            && var.is_same(var)
            && name_matches(pattern, path)
            && !found.iter().any(|(_, other)| other.is_same(var))
        {
            found.push((path.to_owned(), var.clone()));
        }
    }));
    found
}

pub(super) fn parameters(walk: Walk<'_>) -> Vec<Var> {
    named_parameters_matching(walk, "*").into_iter().map(|(_, var)| var).collect()
}

pub(super) fn num_parameters(walk: Walk<'_>) -> usize {
    parameters(walk).iter().map(Var::numel).sum()
}

pub(super) fn named_buffers(walk: Walk<'_>) -> Vec<(String, Buffer)> {
    let mut found: Vec<(String, Buffer)> = Vec::new();
    walk.accept(&mut Visitor::new(&mut |path, seen| {
        if let Seen::Buffer(buffer) = seen
            && !found.iter().any(|(_, other)| other.is_same(buffer))
        {
            found.push((path.to_owned(), buffer.clone()));
        }
    }));
    found
}

pub(super) fn zero_grad(walk: Walk<'_>) {
    walk.accept(&mut Visitor::new(&mut |_, seen| {
        if let Seen::Parameter(var) = seen {
            var.zero_grad();
        }
    }));
}

/// Turns gradients of all parameters on or off, or of none.
#[track_caller]
pub(super) fn require_grad(walk: Walk<'_>, on: bool) -> Result<()> {
    require_grad_of(parameters(walk), on)
}

/// [`require_grad`] of those whose names match.
#[track_caller]
pub(super) fn require_grad_matching(walk: Walk<'_>, pattern: &str, on: bool) -> Result<()> {
    let found = named_parameters_matching(walk, pattern);
    if found.is_empty() {
        let names = named_parameters_matching(walk, "*").into_iter().map(|(name, _)| name).collect();
        let (op, pattern) = ("requires_grad_matching", pattern.to_owned());
        return refuse(NnFacts::NoSuchName { op, pattern, names }).here();
    }
    require_grad_of(found.into_iter().map(|(_, var)| var).collect(), on)
}

#[track_caller]
fn require_grad_of(mut leaves: Vec<Var>, on: bool) -> Result<()> {
    // A variable without history is not even the same as itself.
    leaves.retain(|var| var.is_same(var));
    // Those that may be refused come first.
    leaves.sort_by_key(Var::is_leaf);
    for var in &mut leaves {
        var.requires_grad_(on)?;
    }
    Ok(())
}
