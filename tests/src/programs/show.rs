//! A program in a form that is easy to read, with `v0`, `v1`, ... for its slots.

use std::fmt::{self, Display, Formatter, Write};

use super::program::{Action, Call, Item, Pass, Program, Statement};

/// The program, a numbered line per statement.
pub(super) fn listing(program: &Program) -> String {
    let (mut text, mut slot) = (String::new(), 0);
    for (number, statement) in program.statements.iter().enumerate() {
        let results: Vec<String> = (slot..slot + statement.results()).map(|i| format!("v{i}")).collect();
        slot += results.len();
        let left = if results.is_empty() { String::new() } else { format!("{} = ", results.join(", ")) };
        writeln!(text, "    {number:2}  {left}{statement}").expect("a string can be written");
    }
    text
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::Leaf(leaf) => {
                let tensor = &leaf.tensor;
                write!(f, "leaf {}{:?}", tensor.dtype, tensor.shape)?;
                if let Some((strides, offset)) = &leaf.layout {
                    write!(f, " strides {strides:?} offset {offset}")?;
                }
                let data: Vec<String> = tensor.data.iter().map(ToString::to_string).collect();
                write!(f, " [{}]{}", data.join(" "), if leaf.requires_grad { " requires_grad" } else { "" })?;
            }
            Action::Call(call) => write!(f, "{call}")?,
            Action::Write(into, call) => write!(f, "v{into} <- {call}")?,
            Action::Part(input, slices) => write!(f, "v{input}[{}]", selection(slices))?,
            Action::Assign { into, slices, value } => {
                write!(f, "v{into}[{}] <- v{value}", selection(slices))?
            }
            Action::Detach(input) => write!(f, "detach(v{input})")?,
            Action::Hook(input, factor) => write!(f, "hook(v{input}, g * {factor})")?,
            Action::RetainGrad(input) => write!(f, "retain_grad(v{input})")?,
            Action::ZeroGrad(input) => write!(f, "zero_grad(v{input})")?,
            Action::ReadGrad(input) => write!(f, "v{input}.grad")?,
            Action::Backward(pass) => write!(f, "backward({pass})")?,
            Action::Grad { pass, allow_unused, materialize_grads } => {
                let unused = if *allow_unused { ", allow_unused" } else { "" };
                write!(
                    f,
                    "grad({pass}{unused}{})",
                    if *materialize_grads { ", materialize_grads" } else { "" }
                )?;
            }
        }
        f.write_str(if self.no_grad { "  without recording" } else { "" })?;
        match &self.refused {
            Some(text) => write!(f, "  refused: {text}"),
            None => Ok(()),
        }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let inputs = self.inputs.iter().map(|(name, slot)| format!("{name}=v{slot}"));
        let args = self.args.iter().map(|(name, value)| format!("{name}={value}"));
        write!(f, "{}({})", self.op, inputs.chain(args).collect::<Vec<_>>().join(", "))
    }
}

impl Display for Pass {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let list = |slots: &[usize]| slots.iter().map(|i| format!("v{i}")).collect::<Vec<_>>().join(" ");
        write!(f, "roots {}", list(&self.roots))?;
        if let Some(seeds) = &self.seeds {
            write!(f, ", seeds {}", list(seeds))?;
        }
        if let Some(inputs) = &self.inputs {
            write!(f, ", inputs {}", list(inputs))?;
        }
        f.write_str(if self.create_graph { ", create_graph" } else { "" })?;
        f.write_str(if self.retain_graph { ", retain_graph" } else { "" })
    }
}

/// As Python writes it.
fn selection(items: &[Item]) -> String {
    let at = |v: Option<isize>| v.map(|v| v.to_string()).unwrap_or_default();
    let item = |item: &Item| match *item {
        Item::Index(index) => index.to_string(),
        Item::Range(start, end, step) => format!("{}:{}:{}", at(start), at(end), at(step)),
    };
    items.iter().map(item).collect::<Vec<_>>().join(", ")
}
