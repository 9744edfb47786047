//! Runs the statements of a program, one public call each.

use foldback_graph::{Backward, Grad, Var, backward, no_grad};
use foldback_tensor::{Slice, SliceItem, Slices};

use super::program::{Action, Call, Item, Pass, Statement};
use super::writes::write;
use crate::conformance::args::{Args, Refusal};
use crate::conformance::{build, table};

/// The values of a program that runs.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) slots: Vec<Option<Var>>,
}

impl Machine {
    /// Runs one statement. If it is refused, no slot has changed.
    pub(super) fn step(&mut self, statement: &Statement) -> Result<(), Refusal> {
        let results = match statement.no_grad {
            true => no_grad(|| self.run(&statement.action)),
            false => self.run(&statement.action),
        }?;
        self.slots.extend(results);
        Ok(())
    }

    fn run(&mut self, action: &Action) -> Result<Vec<Option<Var>>, Refusal> {
        Ok(match action {
            Action::Leaf(spec) => {
                let value = build::input(spec).map_err(Refusal::Argument)?;
                vec![Some(if spec.requires_grad { Var::leaf(value)? } else { Var::constant(value) })]
            }
            Action::Call(call) => self.call(call)?.into_iter().map(Some).collect(),
            Action::Write(into, call) => {
                let args = self.args(call, Some("input"))?;
                write(self.slots[*into].as_mut().ok_or_else(no_value)?, &call.op, &args)?;
                vec![]
            }
            Action::Part(input, slices) => vec![Some(self.var(*input)?.slice(selection(slices))?)],
            Action::Assign { into, slices, value } => {
                let value = self.var(*value)?.clone();
                self.slots[*into].as_mut().ok_or_else(no_value)?.slice_assign(selection(slices), &value)?;
                vec![]
            }
            Action::Detach(input) => vec![Some(self.var(*input)?.detach())],
            Action::Hook(input, factor) => {
                let factor = *factor;
                let hook = self.var(*input)?.register_hook(move |g| Some(g * factor));
                hook.map(|_| vec![])?
            }
            Action::RetainGrad(input) => {
                self.var(*input)?.retain_grad()?;
                vec![]
            }
            Action::ZeroGrad(input) => {
                self.var(*input)?.zero_grad();
                vec![]
            }
            Action::ReadGrad(input) => vec![self.var(*input)?.grad_var()],
            Action::Backward(pass) => {
                self.backward(pass)?;
                vec![]
            }
            Action::Grad { pass, allow_unused, materialize_grads } => {
                self.grad(pass, *allow_unused, *materialize_grads)?
            }
        })
    }

    fn call(&self, call: &Call) -> Result<Vec<Var>, Refusal> {
        let args = self.args(call, None)?;
        let operation =
            table::find(&call.op).ok_or_else(|| Refusal::Unsupported(format!("operation {}", call.op)))?;
        if let Some(name) = args.names().find(|n| !operation.takes(n)) {
            return Err(Refusal::Unsupported(format!("argument {}({name}=)", call.op)));
        }
        (operation.call)(&args)
    }

    /// The arguments of a call, without the one that is written.
    fn args(&self, call: &Call, without: Option<&str>) -> Result<Args, Refusal> {
        let given = call.inputs.iter().filter(|(name, _)| Some(name.as_str()) != without);
        let vars = given.map(|(name, slot)| Ok((name.clone(), self.var(*slot)?.clone())));
        Ok(Args::new(vars.collect::<Result<_, Refusal>>()?, call.args.clone()))
    }

    fn backward(&self, pass: &Pass) -> Result<(), Refusal> {
        let (roots, seeds) =
            (self.vars(&pass.roots)?, pass.seeds.as_ref().map(|s| self.vars(s)).transpose()?);
        let inputs = pass.inputs.as_ref().map(|i| self.vars(i)).transpose()?;
        let mut todo = Backward::new().retain_graph(pass.retain_graph).create_graph(pass.create_graph);
        if let Some(seeds) = &seeds {
            todo = todo.seeds(seeds);
        }
        if let Some(inputs) = &inputs {
            todo = todo.inputs(inputs);
        }
        Ok(backward(&roots, todo)?)
    }

    fn grad(&self, pass: &Pass, unused: bool, materialize: bool) -> Result<Vec<Option<Var>>, Refusal> {
        let (roots, seeds) =
            (self.vars(&pass.roots)?, pass.seeds.as_ref().map(|s| self.vars(s)).transpose()?);
        let inputs = self.vars(pass.inputs.as_deref().unwrap_or_default())?;
        let mut todo = Grad::new(&roots, &inputs)
            .retain_graph(pass.retain_graph)
            .create_graph(pass.create_graph)
            .allow_unused(unused)
            .materialize_grads(materialize);
        if let Some(seeds) = &seeds {
            todo = todo.seeds(seeds);
        }
        Ok(todo.run()?)
    }

    fn var(&self, slot: usize) -> Result<&Var, Refusal> {
        self.slots.get(slot).and_then(Option::as_ref).ok_or_else(no_value)
    }

    fn vars(&self, slots: &[usize]) -> Result<Vec<&Var>, Refusal> {
        slots.iter().map(|&slot| self.var(slot)).collect()
    }
}

fn no_value() -> Refusal {
    Refusal::Argument("a slot without a value".into())
}

/// Slices as the library writes them; what Python leaves out is the whole axis.
fn selection(items: &[Item]) -> Slices {
    let item = |item: &Item| match *item {
        Item::Index(index) => SliceItem::from(index),
        Item::Range(start, end, step) => {
            Slice::new(start.unwrap_or(0), end.unwrap_or(isize::MAX), step.unwrap_or(1)).into()
        }
    };
    Slices::from(items.iter().map(item).collect::<Vec<_>>())
}
