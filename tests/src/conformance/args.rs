//! The arguments of a call, by PyTorch's parameter names.

use foldback_graph::{Input, Var};
use foldback_tensor::{Along, Axes, DType, Over, Scalar, Tensor};
use serde_json::{Map, Value};

use super::build;

/// Why a call gave no result.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// the library returned an error
    Library(String),
    /// the arguments are of a kind that the library's types do not express
    Argument(String),
    /// the library lacks something, or refuses by design; the text is the name that it is counted under
    Unsupported(String),
}

impl From<foldback_tensor::Error> for Refusal {
    fn from(e: foldback_tensor::Error) -> Refusal {
        Refusal::Library(e.to_string())
    }
}

/// What reading an argument gives.
pub(crate) type Read<T> = Result<T, Refusal>;

/// An operand: a variable, or a plain number where PyTorch takes either.
pub(crate) enum Operand {
    Var(Var),
    Number(Scalar),
}

impl Operand {
    pub(crate) fn input(&self) -> Input<'_> {
        match self {
            Operand::Var(v) => Input::Var(v),
            Operand::Number(s) => Input::Scalar(*s),
        }
    }
}

/// A call's named arguments.
pub(crate) struct Args {
    vars: Vec<(String, Var)>,
    plain: Map<String, Value>,
}

impl Args {
    pub(crate) fn new(vars: Vec<(String, Var)>, plain: Map<String, Value>) -> Args {
        Args { vars, plain }
    }

    /// The names given, with those of a list's members cut off: `tensors[0]` counts as `tensors`. What is null is not given.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let base = |n: &'_ str| n.find('[').unwrap_or(n.len());
        self.vars
            .iter()
            .map(move |(n, _)| &n[..base(n)])
            .chain(self.plain.iter().filter(|(_, v)| !v.is_null()).map(|(name, _)| name.as_str()))
    }

    /// A tensor argument.
    pub(crate) fn var(&self, name: &str) -> Read<Var> {
        self.maybe_var(name)?.ok_or_else(|| Refusal::Argument(format!("no tensor `{name}`")))
    }

    /// A tensor argument that is written: a result with its elements, since a leaf may not be.
    pub(crate) fn written(&self, name: &str) -> Read<Var> {
        let x = self.var(name)?;
        Ok(x.view(x.shape())?)
    }

    /// A tensor argument that may be absent or null.
    pub(crate) fn maybe_var(&self, name: &str) -> Read<Option<Var>> {
        if let Some((_, v)) = self.vars.iter().find(|(n, _)| n == name) {
            return Ok(Some(v.clone()));
        }
        match self.value(name) {
            None => Ok(None),
            Some(_) => Err(Refusal::Argument(format!("`{name}` is a number where a tensor is wanted"))),
        }
    }

    /// A tensor argument that takes no part in gradients: an index, a condition, a target.
    pub(crate) fn tensor(&self, name: &str) -> Read<Tensor> {
        Ok(self.var(name)?.value())
    }

    /// A tensor or a number.
    pub(crate) fn operand(&self, name: &str) -> Read<Operand> {
        self.maybe_operand(name)?.ok_or_else(|| Refusal::Argument(format!("no `{name}`")))
    }

    /// A tensor or a number, which may be absent or null.
    pub(crate) fn maybe_operand(&self, name: &str) -> Read<Option<Operand>> {
        if let Some((_, v)) = self.vars.iter().find(|(n, _)| n == name) {
            return Ok(Some(Operand::Var(v.clone())));
        }
        Ok(self.scalar(name)?.map(Operand::Number))
    }

    /// A list of tensors: `name[0]`, `name[1]`, ...
    pub(crate) fn list(&self, name: &str) -> Read<Vec<Var>> {
        let mut list = Vec::new();
        while let Some((_, v)) = self.vars.iter().find(|(n, _)| *n == format!("{name}[{}]", list.len())) {
            list.push(v.clone());
        }
        match self.value(name) {
            Some(v) if v.as_array().is_none_or(|l| !l.is_empty()) => {
                Err(Refusal::Argument(format!("`{name}` is no list of tensors")))
            }
            _ => Ok(list),
        }
    }

    /// The list `indices`. A 0-d one among others that have axes is one with an axis to PyTorch, not a number as between brackets.
    pub(crate) fn indices(&self) -> Read<Vec<Var>> {
        let mut list = self.list("indices")?;
        if list.iter().any(|t| t.rank() > 0) {
            for t in list.iter_mut().filter(|t| t.rank() == 0 && t.dtype() == DType::I64) {
                *t = t.unsqueeze(0)?;
            }
        }
        Ok(list)
    }

    /// A plain number, if given.
    pub(crate) fn scalar(&self, name: &str) -> Read<Option<Scalar>> {
        self.read(name, "a number", build::number)
    }

    /// A plain number as a float, or its default.
    pub(crate) fn float(&self, name: &str, default: f64) -> Read<f64> {
        Ok(self.scalar(name)?.map_or(default, Scalar::to_f64))
    }

    /// A whole number, if given. PyTorch takes a 0-d integer tensor for one, too.
    pub(crate) fn int(&self, name: &str) -> Read<Option<isize>> {
        if let Some((_, v)) = self.vars.iter().find(|(n, _)| n == name) {
            if v.rank() != 0 || v.dtype() != DType::I64 {
                return Err(Refusal::Argument(format!("`{name}` is no single whole number")));
            }
            return Ok(Some(v.value().item_as::<i64>()? as isize));
        }
        self.read(name, "a whole number", |v| v.as_i64().map(|v| v as isize))
    }

    /// A whole number that must be given.
    pub(crate) fn int_of(&self, name: &str) -> Read<isize> {
        self.int(name)?.ok_or_else(|| Refusal::Argument(format!("no `{name}`")))
    }

    /// A truth value, or its default.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Read<bool> {
        Ok(self.read(name, "a truth value", Value::as_bool)?.unwrap_or(default))
    }

    /// A word, or its default.
    pub(crate) fn word(&self, name: &str, default: &str) -> Read<String> {
        let word = self.read(name, "a word", |v| v.as_str().map(str::to_owned))?;
        Ok(word.unwrap_or_else(|| default.to_owned()))
    }

    /// Whole numbers, one or a list of them, if given.
    pub(crate) fn ints(&self, name: &str) -> Read<Option<Vec<isize>>> {
        self.read(name, "whole numbers", |v| match v {
            Value::Array(list) => list.iter().map(|v| v.as_i64().map(|v| v as isize)).collect(),
            v => v.as_i64().map(|v| vec![v as isize]),
        })
    }

    /// Real numbers, one or a list of them, if given.
    pub(crate) fn floats(&self, name: &str) -> Read<Option<Vec<f64>>> {
        self.read(name, "real numbers", |v| match v {
            Value::Array(list) => list.iter().map(Value::as_f64).collect(),
            v => v.as_f64().map(|v| vec![v]),
        })
    }

    /// Whole numbers that must be given.
    pub(crate) fn ints_of(&self, name: &str) -> Read<Vec<isize>> {
        self.ints(name)?.ok_or_else(|| Refusal::Argument(format!("no `{name}`")))
    }

    /// A list of whatever is not a tensor, which must be given.
    pub(crate) fn items(&self, name: &str) -> Read<Vec<Value>> {
        let list = self.read(name, "a list", |v| v.as_array().cloned())?;
        list.ok_or_else(|| Refusal::Argument(format!("no `{name}`")))
    }

    /// What a reduction folds: the axes `dim`, all of them if it is absent or null, and `keepdim`.
    pub(crate) fn over(&self) -> Read<Over> {
        let axes = self.ints("dim")?.map_or(Axes::from(..), Axes::from);
        Ok(Over::from(axes).with_keepdim(self.flag("keepdim", false)?))
    }

    /// One axis `dim`, or all elements in a row if it is absent or null.
    pub(crate) fn along(&self) -> Read<Along> {
        Ok(self.int("dim")?.map_or(Along::from(..), Along::from))
    }

    /// A dtype, if given.
    pub(crate) fn dtype(&self, name: &str) -> Read<Option<DType>> {
        let Some(word) = self.read(name, "a dtype", |v| v.as_str().map(str::to_owned))? else {
            return Ok(None);
        };
        build::dtype(&word).map(Some).ok_or_else(|| Refusal::Unsupported(format!("dtype {word}")))
    }

    /// Whether something other than null is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.value(name).is_some() || self.vars.iter().any(|(n, _)| n == name)
    }

    /// Whether null is given, which says something where the default is something else.
    pub(crate) fn is_null(&self, name: &str) -> bool {
        self.plain.get(name).is_some_and(Value::is_null)
    }

    /// A plain argument as it is written, unless it is null.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.plain.get(name).filter(|v| !v.is_null())
    }

    fn read<T>(&self, name: &str, kind: &str, parse: impl FnOnce(&Value) -> Option<T>) -> Read<Option<T>> {
        match self.value(name) {
            None => Ok(None),
            Some(v) => match parse(v) {
                Some(t) => Ok(Some(t)),
                None => Err(Refusal::Argument(format!("`{name}` = {v} is not {kind}"))),
            },
        }
    }
}
