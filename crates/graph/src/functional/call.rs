//! A function that was called to be differentiated: its arguments, its outputs and what it recorded between them.

use std::cell::RefCell;
use std::sync::Arc;

use foldback_tensor::{Here, refuse};

use super::arguments::{Arguments, Outputs};
use super::forward::Forward;
use super::reverse::{between, pull, zero, zeros};
use crate::error::{GraphFacts, Result};
use crate::grad::Grad;
use crate::lead::Lead;
use crate::mode::{enable_grad, is_grad_enabled};
use crate::node::rule::{Gradient, Rule};
use crate::node::{Edge, Node, Var};
use crate::record::record_rule;

/// A variable of its own for a value that has a history: derivatives for an argument are not those for the variable that was
/// given, which the function may capture, too.
static ARGUMENT: Rule =
    Rule { name: "argument", gradients: &[Some(Gradient::PASSES)], value: |x, _| Ok(x[0].clone()) };

/// A call of a function.
pub(super) struct Call {
    /// which derivative was asked for
    pub(super) op: &'static str,
    pub(super) arguments: Vec<Var>,
    pub(super) outputs: Vec<Var>,
    /// the smallest number of an argument's node
    lowest: u64,
    /// what was recorded from the arguments to the outputs, in order
    nodes: Vec<Arc<Node>>,
    /// whether derivatives are recorded: they depend on something else that requires a gradient
    pub(super) recorded: bool,
}

impl Call {
    /// Calls the function, which records, with variables that stand for its arguments.
    #[track_caller]
    pub(super) fn new<I: Arguments, O: Outputs>(
        op: &'static str,
        f: impl FnOnce(&I::Seen) -> O,
        inputs: I,
    ) -> Result<Call> {
        let enabled = is_grad_enabled();
        let mut arguments = Vec::new();
        for (index, given) in inputs.into_vars().into_iter().enumerate() {
            let dtype = given.dtype();
            if !dtype.is_float() {
                return refuse(GraphFacts::ArgumentDType { op, index, dtype }).here();
            }
            arguments.push(if enabled && given.requires_grad() {
                let value = given.value();
                record_rule(&ARGUMENT, [0.0; 2], [&given], [&given.value_ref()], value)
            } else {
                Var::leaf(given.value())?
            });
        }
        if arguments.is_empty() {
            return refuse(GraphFacts::Empty { op, what: "arguments" }).here();
        }
        let outputs = enable_grad(|| f(I::see(&arguments)).into_vars())?;
        let lowest = arguments.iter().filter_map(Var::edge).map(|e| e.node.sequence).min().unwrap_or(0);
        let (nodes, beyond) = between(&edges(&outputs), lowest);
        Ok(Call { op, arguments, outputs, lowest, nodes, recorded: enabled && beyond })
    }

    /// The outputs, as the caller gets them.
    pub(super) fn values(&self) -> Vec<Var> {
        let value = |y: &Var| if self.recorded { y.clone() } else { y.detach() };
        self.outputs.iter().map(value).collect()
    }

    /// The one output of a function that returns a number.
    pub(super) fn number(&self) -> Result<&Var> {
        match &self.outputs[..] {
            [y] if y.numel() == 1 => Ok(y),
            [y] => refuse(GraphFacts::NotANumber { op: self.op, found: format!("shape {}", y.shape()) }),
            list => refuse(GraphFacts::NotANumber { op: self.op, found: format!("{} outputs", list.len()) }),
        }
    }

    /// The gradients of some outputs with respect to the arguments, zeros where there are none.
    pub(super) fn pull(&self, seeds: &[Var], batch: Option<usize>) -> Result<Vec<Var>> {
        let all = self.outputs.iter().zip(seeds);
        let (roots, seeds): (Vec<&Var>, Vec<&Var>) = all.filter(|(y, _)| y.requires_grad()).unzip();
        pull(&roots, &seeds, &self.arguments, batch, self.recorded)
    }

    /// The gradients of the one output, recorded or not.
    pub(super) fn gradients(&self, recorded: bool) -> Result<Vec<Var>> {
        let y = self.number()?;
        if !y.requires_grad() {
            return zeros(&self.arguments, None);
        }
        let gradients =
            Grad::new(y, &self.arguments).create_graph(recorded).materialize_grads(true).pass()?;
        Ok(gradients.into_iter().flatten().collect())
    }

    /// The derivatives of the outputs in a direction of the arguments, zeros where there are none.
    pub(super) fn push(&self, tangents: Vec<Var>, batch: Option<usize>) -> Result<Vec<Var>> {
        self.push_to(&self.outputs, &self.nodes, tangents, batch)
    }

    /// The same of the gradients: forward over reverse.
    pub(super) fn push_gradients(&self, tangents: Vec<Var>, batch: Option<usize>) -> Result<Vec<Var>> {
        let gradients = self.gradients(true)?;
        let (nodes, _) = between(&edges(&gradients), self.lowest);
        self.push_to(&gradients, &nodes, tangents, batch)
    }

    fn push_to(
        &self,
        values: &[Var],
        nodes: &[Arc<Node>],
        tangents: Vec<Var>,
        batch: Option<usize>,
    ) -> Result<Vec<Var>> {
        let starts = self.arguments.iter().filter_map(Var::edge).zip(tangents).collect();
        let forward = Forward { lead: Lead(batch), recorded: self.recorded, again: RefCell::default() };
        let found = forward.run(nodes, starts, &edges(values))?;
        found.into_iter().zip(values).map(|(t, y)| t.map_or_else(|| zero(y, batch), Ok)).collect()
    }

    /// Checks directions for arguments, and casts them.
    pub(super) fn tangents(&self, v: Vec<Var>) -> Result<Vec<Var>> {
        directions(self.op, "argument", &self.arguments, v)
    }

    /// Checks directions for outputs, and casts them.
    pub(super) fn cotangents(&self, v: Vec<Var>) -> Result<Vec<Var>> {
        directions(self.op, "output", &self.outputs, v)
    }
}

fn directions(op: &'static str, what: &'static str, values: &[Var], v: Vec<Var>) -> Result<Vec<Var>> {
    if v.len() != values.len() {
        return refuse(GraphFacts::DirectionCount { op, what, expected: values.len(), found: v.len() });
    }
    for (index, (v, value)) in v.iter().zip(values).enumerate() {
        if v.shape() != value.shape() || !v.dtype().is_float() {
            let (expected, found, dtype) = (value.shape().clone(), v.shape().clone(), v.dtype());
            return refuse(GraphFacts::Direction { op, what, index, expected, found, dtype });
        }
    }
    v.into_iter().zip(values).map(|(v, value)| v.try_to(value.dtype())).collect()
}

fn edges(values: &[Var]) -> Vec<Option<Edge>> {
    values.iter().map(Var::edge).collect()
}
