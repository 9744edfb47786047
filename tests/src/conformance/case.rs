//! A golden case as it stands in its file.

use serde_json::{Map, Value};

/// One line of a golden file, taken apart.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) op: String,
    pub(crate) id: i64,
    pub(crate) tags: Vec<String>,
    pub(crate) inputs: Vec<InputSpec>,
    pub(crate) args: Map<String, Value>,
    pub(crate) expected: Expected,
}

/// What PyTorch did.
#[derive(Clone)]
pub(crate) enum Expected {
    /// it refused, with this message
    Error(String),
    /// it computed
    Results(Box<Results>),
}

/// What PyTorch computed. Lists run parallel to outputs or inputs, as the format says.
#[derive(Clone, Default)]
pub(crate) struct Results {
    pub(crate) outputs: Vec<TensorSpec>,
    pub(crate) seeds: Vec<Option<TensorSpec>>,
    /// `None` for an operation without gradients
    pub(crate) grads: Option<Vec<Option<TensorSpec>>>,
    pub(crate) second: Option<Second>,
    /// inputs that the call changed
    pub(crate) after: Vec<(String, Vec<Value>)>,
}

/// The second-order part of a case.
#[derive(Clone)]
pub(crate) struct Second {
    pub(crate) directions: Vec<Option<TensorSpec>>,
    pub(crate) inputs: Vec<Option<TensorSpec>>,
    pub(crate) seeds: Vec<Option<TensorSpec>>,
}

/// A tensor as it is written down: elements in row-major order.
#[derive(Clone)]
pub(crate) struct TensorSpec {
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: String,
    pub(crate) data: Vec<Value>,
}

/// An input: a tensor, its name, and how it lies in memory.
#[derive(Clone)]
pub(crate) struct InputSpec {
    pub(crate) name: String,
    pub(crate) tensor: TensorSpec,
    /// strides and offset, where it is not contiguous
    pub(crate) layout: Option<(Vec<isize>, usize)>,
    pub(crate) requires_grad: bool,
}

impl Case {
    /// Reads one line; the error says what is missing.
    pub(crate) fn parse(line: &str) -> Result<Case, String> {
        Case::new(&serde_json::from_str(line).map_err(|e| e.to_string())?)
    }

    /// Takes a line apart.
    pub(crate) fn new(value: &Value) -> Result<Case, String> {
        let inputs = array(value, "inputs")?.iter().map(input).collect::<Result<_, _>>()?;
        let expected = match value.get("error") {
            Some(text) => Expected::Error(text.as_str().unwrap_or_default().to_owned()),
            None => Expected::Results(Box::new(results(value)?)),
        };
        Ok(Case {
            op: text(value, "op")?,
            id: value.get("id").and_then(Value::as_i64).unwrap_or(-1),
            tags: array(value, "tags").unwrap_or(&vec![]).iter().filter_map(owned).collect(),
            inputs,
            args: value.get("args").and_then(Value::as_object).cloned().unwrap_or_default(),
            expected,
        })
    }

    /// Whether it is about a point where PyTorch had to choose: ties, NaN, kinks, the ends of a domain.
    pub(crate) fn is_special(&self) -> bool {
        self.tags.iter().any(|t| matches!(t.as_str(), "ties" | "special" | "nan" | "nonfinite"))
    }
}

fn results(value: &Value) -> Result<Results, String> {
    let grads = match value.get("grads") {
        None | Some(Value::Null) => None,
        Some(_) => Some(tensors(value, "grads")?),
    };
    let second = match value.get("grad2") {
        None | Some(Value::Null) => None,
        Some(s) => Some(Second {
            directions: tensors(s, "v")?,
            inputs: tensors(s, "grad_inputs")?,
            seeds: tensors(s, "grad_grad_outputs")?,
        }),
    };
    let after = value.get("inputs_after").and_then(Value::as_object);
    Ok(Results {
        outputs: array(value, "outputs")?.iter().map(tensor).collect::<Result<_, _>>()?,
        seeds: tensors(value, "grad_outputs").unwrap_or_default(),
        grads,
        second,
        after: after
            .into_iter()
            .flatten()
            .map(|(name, data)| (name.clone(), data.as_array().cloned().unwrap_or_default()))
            .collect(),
    })
}

pub(crate) fn input(value: &Value) -> Result<InputSpec, String> {
    let layout = match value.get("layout").and_then(Value::as_str) {
        None | Some("contiguous") => None,
        Some(_) => Some((
            array(value, "strides")?.iter().filter_map(Value::as_i64).map(|s| s as isize).collect(),
            value.get("offset").and_then(Value::as_u64).unwrap_or(0) as usize,
        )),
    };
    let requires_grad = value.get("requires_grad").and_then(Value::as_bool).unwrap_or(false);
    Ok(InputSpec { name: text(value, "name")?, tensor: tensor(value)?, layout, requires_grad })
}

fn tensors(value: &Value, key: &str) -> Result<Vec<Option<TensorSpec>>, String> {
    let each = |v: &Value| if v.is_null() { Ok(None) } else { tensor(v).map(Some) };
    array(value, key)?.iter().map(each).collect()
}

pub(crate) fn tensor(value: &Value) -> Result<TensorSpec, String> {
    Ok(TensorSpec {
        shape: array(value, "shape")?.iter().filter_map(Value::as_u64).map(|n| n as usize).collect(),
        dtype: text(value, "dtype")?,
        data: array(value, "data")?.clone(),
    })
}

pub(crate) fn array<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value.get(key).and_then(Value::as_array).ok_or_else(|| format!("no list `{key}`"))
}

pub(crate) fn text(value: &Value, key: &str) -> Result<String, String> {
    value.get(key).and_then(owned).ok_or_else(|| format!("no text `{key}`"))
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
