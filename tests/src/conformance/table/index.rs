//! Joining, gathering and scattering.

use foldback_graph::Var;

use super::{Operation, Outcome, one, operation};
use crate::conformance::args::{Args, Refusal};

pub(super) const ROWS: &[Operation] = &[
    operation!(Exact "cat concat concatenate", "tensors dim axis", |a| joined(a, |list, axis| Var::cat(list, axis))),
    operation!(Exact "stack", "tensors dim", |a| joined(a, |list, axis| Var::stack(list, axis))),
    operation!(Exact "gather", "input dim index", |a| {
        one(a.var("input")?.gather(a.int_of("dim")?, &a.tensor("index")?))
    }),
    operation!(Exact "index_select", "input dim index", |a| {
        one(a.var("input")?.index_select(a.int_of("dim")?, &a.tensor("index")?))
    }),
    operation!(Sum "scatter_add", "input dim index src", |a| {
        one(a.var("input")?.scatter_add(a.int_of("dim")?, &a.tensor("index")?, &a.var("src")?))
    }),
    operation!(Sum "index_add", "input dim index source alpha", |a| {
        let (x, index, source) = (a.var("input")?, &a.tensor("index")?, a.var("source")?);
        match a.scalar("alpha")? {
            Some(alpha) => one(x.index_add_with(a.int_of("dim")?, index, source, alpha)),
            None => one(x.index_add(a.int_of("dim")?, index, source)),
        }
    }),
];

fn joined(a: &Args, join: fn(&[&Var], isize) -> foldback_graph::Result<Var>) -> Outcome {
    let vars = a.list("tensors")?;
    let axis = if a.has("axis") { a.int("axis")? } else { a.int("dim")? };
    if a.has("axis") && a.has("dim") {
        return Err(Refusal::Argument("both `dim` and `axis`".into()));
    }
    one(join(&vars.iter().collect::<Vec<_>>(), axis.unwrap_or(0)))
}
