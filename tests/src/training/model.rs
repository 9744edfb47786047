//! Models as cases write them, made of layers by PyTorch's names.
//!
//! The layers stand in tables, a row each: PyTorch's name, the keywords of its constructor, how it is made from these, and how it is
//! called if it is no function of one variable.

mod attention;
mod basic;
mod classes;
mod curves;
mod images;
mod inner;
mod normal;
mod recurrent;
mod windows;

use foldback_graph::{RequiresGrad, Var};
use foldback_nn::{Buffer, Copies, Layer, Module, Sequential, Visitor};
use foldback_tensor::{DType, StateDict, Tensor};
use serde_json::{Map, Value};

use super::judge::written;
use crate::conformance::args::{Args, Read, Refusal};
use crate::conformance::run::Stop;

/// A model made from what a case says.
pub(crate) enum Model {
    /// a function of one variable
    Layer(Box<dyn Layer>),
    /// a layer that is called otherwise
    Called(Box<dyn Called>),
    /// a list field
    List(Vec<Model>),
    /// a user's struct
    Parts(Vec<(String, Model)>),
    Parameter(Var),
    Buffer(Buffer),
}

/// All results of a call in order, nested tuples flattened; None for what PyTorch gives as None.
pub(crate) type Results = Read<Vec<Option<Var>>>;

/// A module with a call of PyTorch's arguments, tensors and plain ones.
pub(crate) trait Called: Module + Send + Sync {
    fn call(&self, name: &str, args: &Args) -> Results;
    fn copy_called(&self, copies: &mut Copies) -> Box<dyn Called>;
}

/// A module and how it is called.
struct With<M> {
    module: M,
    /// PyTorch's names for what its call takes
    inputs: &'static str,
    call: fn(&M, &Args) -> Results,
}

impl<M: Module + Send + Sync + 'static> Called for With<M> {
    fn call(&self, name: &str, args: &Args) -> Results {
        expect_known(name, self.inputs, args)?;
        (self.call)(&self.module, args)
    }
    fn copy_called(&self, copies: &mut Copies) -> Box<dyn Called> {
        Box::new(self.copy_parts(copies))
    }
}

impl<M: Module> Module for With<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.module.visit(visitor);
    }
    fn set_training(&mut self, training: bool) {
        self.module.set_training(training);
    }
    fn copy_parts(&self, copies: &mut Copies) -> Self {
        With { module: copies.part(&self.module), inputs: self.inputs, call: self.call }
    }
}

impl Module for Model {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        match self {
            Model::Layer(m) => m.visit(visitor),
            Model::Called(m) => m.visit(visitor),
            Model::List(m) => m.visit(visitor),
            Model::Parts(m) => m.iter().for_each(|(name, part)| visitor.part(name, part)),
            Model::Parameter(m) => m.visit(visitor),
            Model::Buffer(m) => m.visit(visitor),
        }
    }
    fn set_training(&mut self, training: bool) {
        match self {
            Model::Layer(m) => m.set_training(training),
            Model::Called(m) => m.set_training(training),
            Model::List(m) => m.set_training(training),
            Model::Parts(m) => m.iter_mut().for_each(|(_, part)| part.set_training(training)),
            Model::Parameter(_) | Model::Buffer(_) => {}
        }
    }
    fn copy_parts(&self, copies: &mut Copies) -> Self {
        match self {
            Model::Layer(m) => Model::Layer(copies.part(m)),
            Model::Called(m) => Model::Called(m.copy_called(copies)),
            Model::List(m) => Model::List(copies.part(m)),
            Model::Parts(m) => {
                Model::Parts(m.iter().map(|(name, part)| (name.clone(), copies.part(part))).collect())
            }
            Model::Parameter(m) => Model::Parameter(copies.part(m)),
            Model::Buffer(m) => Model::Buffer(copies.part(m)),
        }
    }
}

/// One row: a layer, or a loss.
pub(crate) struct Row {
    /// PyTorch's name
    pub(crate) name: &'static str,
    /// PyTorch's names for what its constructor takes
    pub(crate) keywords: &'static str,
    /// with parameters of this type
    pub(crate) new: fn(&Args, DType) -> Read<Model>,
}

/// A row; without a call it is a function of one variable, `input`. Before a call stand the names of what it takes.
macro_rules! row {
    ($name:literal, $keywords:literal, |$a:pat_param, $dtype:pat_param| $new:expr) => {
        $crate::training::model::Row {
            name: $name,
            keywords: $keywords,
            new: |$a, $dtype| Ok($crate::training::model::Model::Layer(Box::new($new))),
        }
    };
    ($name:literal, $keywords:literal, |$a:pat_param, $dtype:pat_param| $new:expr, $inputs:expr, $call:expr) => {
        $crate::training::model::Row {
            name: $name,
            keywords: $keywords,
            new: |$a, $dtype| Ok($crate::training::model::called($new, $inputs, $call)),
        }
    };
}
pub(crate) use row;

/// What the macro writes for a layer with a call of its own.
pub(crate) fn called<M: Module + Send + Sync + 'static>(
    module: M,
    inputs: &'static str,
    call: fn(&M, &Args) -> Results,
) -> Model {
    Model::Called(Box::new(With { module, inputs, call }))
}

/// One result.
pub(crate) fn one(result: foldback_tensor::Result<Var>) -> Results {
    Ok(vec![Some(result?)])
}

fn rows() -> impl Iterator<Item = &'static Row> {
    [
        attention::ROWS,
        basic::ROWS,
        classes::ROWS,
        curves::ROWS,
        images::ROWS,
        normal::ROWS,
        recurrent::ROWS,
        windows::ROWS,
    ]
    .into_iter()
    .flatten()
}

/// The model of a case: `{"layer", "args"}`, `{"sequential"}`, `{"list"}`, `{"module"}` or `{"inner"}`, with parameters of one type.
pub(crate) fn build(model: &Value, dtype: DType) -> Read<Model> {
    let members = |key: &str| model.get(key).and_then(Value::as_array);
    if let Some(name) = model.get("layer").and_then(Value::as_str) {
        let keywords = model.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
        return build_layer(name, keywords, dtype);
    }
    if let Some(list) = members("sequential") {
        let mut all = Sequential::new();
        for part in list {
            match build(part, dtype)? {
                Model::Layer(layer) => all.push(layer),
                _ => return Err(Refusal::Unsupported("form sequential(of several inputs)".into())),
            }
        }
        return Ok(Model::Layer(Box::new(all)));
    }
    if let Some(list) = members("list") {
        return Ok(Model::List(list.iter().map(|part| build(part, dtype)).collect::<Read<_>>()?));
    }
    if let Some(fields) = model.get("module").and_then(Value::as_object) {
        let each = fields.iter().map(|(name, part)| Ok((name.clone(), build(part, dtype)?)));
        let mut parts: Vec<(String, Model)> = each.collect::<Read<_>>()?;
        for pair in members("tie").into_iter().flatten() {
            tie(&mut parts, fields, pair, dtype)?;
        }
        return Ok(Model::Parts(parts));
    }
    if let Some(inner) = model.get("inner") {
        let inputs = members("inputs").into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let step = model.get("step").and_then(Value::as_i64).map(|step| step as isize);
        let all = inner::Inner { inner: build(inner, dtype)?, inputs: inputs.collect(), step };
        return Ok(Model::Layer(Box::new(all)));
    }
    if let Some(shape) = members("parameter") {
        return Ok(Model::Parameter(zeros(shape, dtype)?.requires_grad()));
    }
    if let Some(shape) = members("buffer") {
        let persistent = model.get("persistent").and_then(Value::as_bool).unwrap_or(true);
        return Ok(Model::Buffer(Buffer::new(zeros(shape, dtype)?).persistent(persistent)));
    }
    Err(Refusal::Unsupported("form of model".into()))
}

fn zeros(shape: &[Value], dtype: DType) -> Read<Tensor> {
    let sizes: Option<Vec<usize>> = shape.iter().map(|n| n.as_u64().map(|n| n as usize)).collect();
    Ok(Tensor::try_zeros_with(sizes.ok_or_else(|| Refusal::Argument("no shape".into()))?, dtype)?)
}

/// A layer by its name and keywords.
pub(crate) fn build_layer(name: &str, mut keywords: Map<String, Value>, dtype: DType) -> Read<Model> {
    // Layers give new values; only writing over the input is something that they lack.
    keywords.retain(|keyword, value| keyword != "inplace" || *value != Value::Bool(false));
    let row =
        rows().find(|row| row.name == name).ok_or_else(|| Refusal::Unsupported(format!("layer {name}")))?;
    (row.new)(&arguments(row.name, row.keywords, keywords)?, dtype)
}

/// The arguments of a constructor; one that is not among the keywords is unsupported by name.
pub(crate) fn arguments(name: &str, keywords: &str, args: Map<String, Value>) -> Read<Args> {
    let (tensors, plain): (Vec<_>, Vec<_>) =
        args.into_iter().partition(|(_, value)| value.get("shape").is_some());
    let tensors = tensors.into_iter().map(|(name, value)| match written(&value) {
        Ok(tensor) => Ok((name, tensor.into())),
        Err(Stop::Failed(text)) => Err(Refusal::Argument(text)),
        Err(Stop::Unsupported(text)) => Err(Refusal::Unsupported(text)),
    });
    let args = Args::new(tensors.collect::<Read<_>>()?, plain.into_iter().collect());
    expect_known(name, keywords, &args)?;
    Ok(args)
}

/// Refuses by name an argument that a call here does not take.
pub(crate) fn expect_known(name: &str, keywords: &str, args: &Args) -> Read<()> {
    match args.names().find(|found| !keywords.split(' ').any(|keyword| keyword == *found)) {
        Some(unknown) => Err(Refusal::Unsupported(format!("{name}({unknown})"))),
        None => Ok(()),
    }
}

/// Makes the field of the first name anew, with the parameter of the second: `["head.weight", "wte.weight"]`.
fn tie(parts: &mut [(String, Model)], fields: &Map<String, Value>, pair: &Value, dtype: DType) -> Read<()> {
    let unsupported = || Refusal::Unsupported("form of tie".into());
    let name = |i: usize| pair.get(i).and_then(Value::as_str);
    let (Some(to), Some(from)) = (name(0), name(1)) else { return Err(unsupported()) };
    let shared = parts.iter().flat_map(|(name, part)| {
        part.named_parameters().into_iter().map(move |(path, var)| (format!("{name}.{path}"), var))
    });
    let shared = shared.into_iter().find(|(path, _)| path == from).ok_or_else(unsupported)?.1;
    let (field, parameter) = to.split_once('.').ok_or_else(unsupported)?;
    let (layer, keywords) = match fields.get(field).map(|m| (m.get("layer"), m.get("args"))) {
        Some((Some(Value::String(layer)), args)) => (layer, args.and_then(Value::as_object)),
        _ => return Err(unsupported()),
    };
    let tied = basic::tied(layer, keywords.cloned().unwrap_or_default(), parameter, shared, dtype)?;
    let (_, place) = parts.iter_mut().find(|(name, _)| name == field).ok_or_else(unsupported)?;
    *place = tied.ok_or_else(unsupported)?;
    Ok(())
}

impl Model {
    /// Calls the model: a layer with its `input` alone.
    pub(crate) fn call(&self, name: &str, args: &Args) -> Results {
        match self {
            Model::Layer(layer) => {
                expect_known(name, "input", args)?;
                one(layer.forward(&args.var("input")?))
            }
            Model::Called(module) => module.call(name, args),
            _ => Err(Refusal::Unsupported(format!("form call of {name}"))),
        }
    }

    /// Loads the state of a case: every name must be in both.
    pub(crate) fn load(&mut self, state: &Value) -> Result<(), Stop> {
        let mut all = StateDict::new();
        for (name, value) in state.as_object().into_iter().flatten() {
            all.insert(name, written(value)?);
        }
        self.load_state_dict(&all).map_err(|e| Stop::Failed(e.to_string()))
    }
}
