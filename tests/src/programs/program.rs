//! A program as it stands in its file.

use serde_json::{Map, Value};

use crate::conformance::case::{InputSpec, TensorSpec, array, input, tensor, text};

/// One line of a file of programs, taken apart.
pub(super) struct Program {
    pub(super) id: i64,
    pub(super) tags: Vec<String>,
    pub(super) statements: Vec<Statement>,
    /// what PyTorch had in some slots at the end; `None` for no gradient
    pub(super) values: Vec<(usize, Option<TensorSpec>)>,
    /// the slots that required a gradient at the end
    pub(super) tracked: Vec<usize>,
}

/// One statement, which is one call.
pub(super) struct Statement {
    pub(super) action: Action,
    /// whether it runs without recording
    pub(super) no_grad: bool,
    /// PyTorch's message, if it refused
    pub(super) refused: Option<String>,
}

/// What a statement does. Numbers stand for slots.
pub(super) enum Action {
    Leaf(InputSpec),
    Call(Call),
    /// an in-place form, which leaves its result in a slot
    Write(usize, Call),
    Part(usize, Vec<Item>),
    Assign {
        into: usize,
        slices: Vec<Item>,
        value: usize,
    },
    Detach(usize),
    /// a hook that multiplies the gradient
    Hook(usize, f64),
    RetainGrad(usize),
    ZeroGrad(usize),
    ReadGrad(usize),
    Backward(Pass),
    Grad {
        pass: Pass,
        allow_unused: bool,
        materialize_grads: bool,
    },
}

/// A call of an operation, by PyTorch's name and parameter names.
pub(super) struct Call {
    pub(super) op: String,
    pub(super) inputs: Vec<(String, usize)>,
    pub(super) args: Map<String, Value>,
}

/// A backward pass.
pub(super) struct Pass {
    pub(super) roots: Vec<usize>,
    pub(super) seeds: Option<Vec<usize>>,
    pub(super) inputs: Option<Vec<usize>>,
    pub(super) retain_graph: bool,
    pub(super) create_graph: bool,
}

/// What is taken of one axis.
#[derive(Clone, Copy)]
pub(super) enum Item {
    Index(isize),
    /// start, end and step, as in Python
    Range(Option<isize>, Option<isize>, Option<isize>),
}

impl Program {
    /// Reads one line; the error says what is missing.
    pub(super) fn parse(line: &str) -> Result<Program, String> {
        let value: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let values = value.get("values").and_then(Value::as_object).ok_or("no `values`")?;
        let written = |(name, v): (&String, &Value)| {
            let slot = name.parse().map_err(|_| format!("no slot `{name}`"))?;
            Ok((slot, if v.is_null() { None } else { Some(tensor(v)?) }))
        };
        Ok(Program {
            id: value.get("id").and_then(Value::as_i64).unwrap_or(-1),
            tags: array(&value, "tags")?.iter().filter_map(|t| t.as_str().map(str::to_owned)).collect(),
            statements: array(&value, "program")?.iter().map(statement).collect::<Result<_, _>>()?,
            values: values.iter().map(written).collect::<Result<_, String>>()?,
            tracked: slots(&value, "tracked")?,
        })
    }

    /// Whether its values are chosen to meet ties, kinks, zeros, infinities or NaN.
    pub(super) fn is_special(&self) -> bool {
        self.tags.iter().any(|t| t == "ties" || t == "nonfinite")
    }
}

impl Statement {
    /// How many slots it fills when it succeeds.
    pub(super) fn results(&self) -> usize {
        match &self.action {
            _ if self.refused.is_some() => 0,
            Action::Call(c) => {
                1 + usize::from(matches!(c.op.as_str(), "max" | "min") && c.args.contains_key("dim"))
            }
            Action::Leaf(_) | Action::Part(..) | Action::Detach(_) | Action::ReadGrad(_) => 1,
            Action::Grad { pass, .. } => pass.inputs.as_ref().map_or(0, Vec::len),
            _ => 0,
        }
    }
}

fn statement(value: &Value) -> Result<Statement, String> {
    let action = match text(value, "do")?.as_str() {
        "leaf" => Action::Leaf(input(value.get("leaf").ok_or("no `leaf`")?)?),
        "call" => Action::Call(call(value)?),
        "write" => Action::Write(slot(value, "into")?, call(value)?),
        "part" => Action::Part(slot(value, "input")?, slices(value)?),
        "assign" => Action::Assign {
            into: slot(value, "into")?,
            slices: slices(value)?,
            value: slot(value, "value")?,
        },
        "detach" => Action::Detach(slot(value, "input")?),
        "hook" => Action::Hook(slot(value, "input")?, value["factor"].as_f64().ok_or("no `factor`")?),
        "retain_grad" => Action::RetainGrad(slot(value, "input")?),
        "zero_grad" => Action::ZeroGrad(slot(value, "input")?),
        "read_grad" => Action::ReadGrad(slot(value, "input")?),
        "backward" => Action::Backward(pass(value)?),
        "grad" => Action::Grad {
            pass: pass(value)?,
            allow_unused: flag(value, "allow_unused"),
            materialize_grads: flag(value, "materialize_grads"),
        },
        other => return Err(format!("no statement `{other}`")),
    };
    let refused = value.get("refused").and_then(Value::as_str).map(str::to_owned);
    Ok(Statement { action, no_grad: flag(value, "no_grad"), refused })
}

fn call(value: &Value) -> Result<Call, String> {
    let inputs = value.get("inputs").and_then(Value::as_object).ok_or("no `inputs`")?;
    Ok(Call {
        op: text(value, "op")?,
        inputs: inputs
            .iter()
            .map(|(name, v)| Ok((name.clone(), number(v)?)))
            .collect::<Result<_, String>>()?,
        args: value.get("args").and_then(Value::as_object).cloned().unwrap_or_default(),
    })
}

fn pass(value: &Value) -> Result<Pass, String> {
    let given = |key: &str| value.get(key).is_some_and(|v| !v.is_null());
    let maybe = |key: &str| given(key).then(|| slots(value, key)).transpose();
    Ok(Pass {
        roots: slots(value, "roots")?,
        seeds: maybe("seeds")?,
        inputs: maybe("inputs")?,
        retain_graph: flag(value, "retain_graph"),
        create_graph: flag(value, "create_graph"),
    })
}

fn slices(value: &Value) -> Result<Vec<Item>, String> {
    let at = |v: &Value| v.as_i64().map(|v| v as isize);
    let item = |v: &Value| match (at(v), v.as_array().map(Vec::as_slice)) {
        (Some(index), _) => Ok(Item::Index(index)),
        (_, Some([start, end, step])) => Ok(Item::Range(at(start), at(end), at(step))),
        _ => Err(format!("no slice {v}")),
    };
    array(value, "slices")?.iter().map(item).collect()
}

fn slots(value: &Value, key: &str) -> Result<Vec<usize>, String> {
    array(value, key)?.iter().map(number).collect()
}

fn slot(value: &Value, key: &str) -> Result<usize, String> {
    number(value.get(key).ok_or_else(|| format!("no slot `{key}`"))?)
}

fn number(value: &Value) -> Result<usize, String> {
    value.as_u64().map(|n| n as usize).ok_or_else(|| format!("{value} is no slot"))
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}
