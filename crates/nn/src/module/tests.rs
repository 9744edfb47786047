//! Modules of every kind of field: names, modes, errors, copies.

use foldback_graph::{RequiresGrad, Var};
use foldback_tensor::tensor;

use crate::{Dropout, Layer, Linear, Module, ReLU, Result, forward, sequential};

#[derive(Clone, Module)]
struct Inner {
    l1: Linear,
    dropout: Dropout,
    r#type: Linear,
}

#[forward]
impl Inner {
    fn forward(&self, x: &Var) -> Result<Var> {
        let h = self.l1.forward(x)?;
        let h = self.dropout.forward(&h)?.relu();
        self.r#type.forward(&h)
    }
}

/// What adds something in training.
#[derive(Clone, Module)]
struct Noise {
    size: f64,
    training: bool,
}

#[forward]
impl Noise {
    fn forward(&self, x: &Var) -> Result<Var> {
        if self.training { x.add(self.size) } else { Ok(x.clone()) }
    }
}

#[test]
fn a_layer_of_ones_own_has_a_mode() {
    let mut model = sequential![ReLU, Noise { size: 2.0, training: true }];
    let x = tensor![1.0];
    assert_eq!(model.forward(&x).unwrap().value(), tensor![3.0]);
    model.eval();
    assert_eq!(model.deep_copy().forward(&x).unwrap().value(), x);
    model.train();
    assert_eq!(model.forward(&x).unwrap().value(), tensor![3.0]);
}

/// Every kind of field.
#[derive(Clone, Module)]
struct Outer<M, const N: usize> {
    scale: Var,
    inner: Inner,
    list: Vec<M>,
    array: [Option<Linear>; N],
    boxed: Box<dyn Layer>,
    tied: Var,
    count: usize,
    name: String,
    #[module(skip)]
    skipped: Option<std::time::Duration>,
}

#[forward]
impl<M: Layer, const N: usize> Outer<M, N> {
    fn forward(&self, x: &Var) -> Result<Var> {
        let mut x = self.inner.forward(x)?.mul(&self.scale)?;
        for layer in &self.list {
            x = layer.forward(&x)?;
        }
        self.boxed.forward(&x)
    }
}

fn outer() -> Outer<Linear, 2> {
    let scale = tensor![2.0].requires_grad();
    Outer {
        tied: scale.clone(),
        scale,
        inner: Inner { l1: Linear::new(2, 3), dropout: Dropout::new(0.5), r#type: Linear::new(3, 4) },
        list: vec![Linear::new(4, 4), Linear::new(4, 5)],
        array: [None, Some(Linear::new(5, 1).bias(false))],
        boxed: Box::new(sequential![ReLU, Linear::new(5, 1)]),
        count: 3,
        name: "outer".into(),
        skipped: None,
    }
}

#[test]
fn names_follow_the_fields() {
    let model = outer();
    let names: Vec<String> = model.named_parameters().into_iter().map(|p| p.0).collect();
    let expected = "scale inner.l1.weight inner.l1.bias inner.type.weight inner.type.bias list.0.weight list.0.bias \
                    list.1.weight list.1.bias array.1.weight boxed.1.weight boxed.1.bias";
    assert_eq!(names.join(" "), expected);
    assert_eq!(model.num_parameters(), 1 + 6 + 3 + 12 + 4 + 16 + 4 + 20 + 5 + 5 + 5 + 1);
    assert_eq!((model.count, model.name.as_str(), model.skipped), (3, "outer", None));
    assert!(model.tied.is_same(&model.parameters()[0]));
}

/// What has no identity is no parameter: nothing could be loaded into it.
#[test]
fn a_constant_is_no_parameter() {
    let mut model = outer();
    model.scale = Var::from(tensor![2.0]);
    let names = |named: Vec<(String, Var)>| named.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let listed = names(model.named_parameters());
    assert!(!listed.contains(&"scale".to_owned()) && listed.contains(&"tied".to_owned()), "{listed:?}");
    assert!(model.state_dict().get("scale").is_none() && model.state_dict().get("tied").is_some());
    let summary = crate::Summary::of(&model, |m| m.forward(&tensor![[1.0, 2.0]])).unwrap();
    assert_eq!(summary.layers[0].parameters, model.num_parameters());
    // A result of the program is listed, as a functional step needs it, and not kept.
    model.scale = tensor![2.0].requires_grad() * 1.5;
    assert_eq!(names(model.named_parameters())[0], "scale");
    assert!(model.state_dict().get("scale").is_none());
    assert!(model.deep_copy().scale.is_same(&model.scale));
}

#[test]
fn training_is_switched_everywhere() {
    let mut model = outer();
    model.eval();
    let x = tensor![[1.0, 2.0]];
    let first = model.forward(&x).unwrap().value();
    assert_eq!(model.forward(&x).unwrap().value(), first);
    assert!(!model.inner.dropout.is_training());
    model.train();
    assert!(model.inner.dropout.is_training());
}

#[test]
fn zero_grad_reaches_every_parameter() {
    let model = outer();
    model.forward(&tensor![[1.0, 2.0]]).unwrap().sum(..).unwrap().backward().unwrap();
    assert!(model.inner.l1.weight.grad().is_some());
    model.zero_grad();
    assert!(model.parameters().iter().all(|p| p.grad().is_none()));
}

#[test]
fn a_clone_shares_and_a_deep_copy_does_not() {
    let mut model = outer();
    model.inner.l1.requires_grad_(false).unwrap();
    model.inner.dropout = Dropout::new(0.5).seed(1);
    let shared = model.clone().parameters();
    assert!(model.parameters().iter().zip(&shared).all(|(a, b)| a.is_same(b)));
    let copy = model.deep_copy();
    let (old, new) = (model.named_parameters(), copy.named_parameters());
    assert_eq!(old.len(), new.len());
    for ((name, old), (same_name, new)) in old.iter().zip(&new) {
        assert!(name == same_name && !old.is_same(new), "{name}");
        assert_eq!((old.value(), old.requires_grad()), (new.value(), new.requires_grad()), "{name}");
    }
    // What is tied stays tied, and the settings are there.
    assert!(copy.tied.is_same(&copy.scale) && !copy.tied.is_same(&model.tied));
    assert_eq!((copy.count, copy.name.as_str(), copy.skipped), (3, "outer", None));
    // The copy computes the same, drops the same, and learns by itself.
    let y = copy.forward(&tensor![[1.0, 2.0]]).unwrap();
    assert_eq!(y.value(), model.forward(&tensor![[1.0, 2.0]]).unwrap().value());
    y.sum(..).unwrap().backward().unwrap();
    assert!(copy.scale.grad().is_some() && model.scale.grad().is_none());
}

#[test]
fn a_module_is_frozen_as_a_whole_or_not_at_all() {
    let mut model = outer();
    let shared = model.clone();
    model.requires_grad_(false).unwrap();
    assert!(shared.parameters().iter().all(|p| !p.requires_grad()));
    model.requires_grad_(true).unwrap();
    assert!(model.parameters().iter().all(Var::requires_grad));
    // A table without history is no leaf, and the result of an operation cannot be turned off.
    model.tied = tensor![1, 2; i64].into();
    model.requires_grad_(true).unwrap();
    model.tied = &model.scale * 2.0;
    assert!(model.requires_grad_(false).unwrap_err().with_location(None).to_string().contains("leaf"));
    assert!(model.scale.requires_grad());
}

#[test]
fn parameters_by_pattern() {
    let mut model = outer();
    let names = |pattern: &str| {
        let found = model.named_parameters_matching(pattern).into_iter();
        found.map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("*.bias"), "inner.l1.bias inner.type.bias list.0.bias list.1.bias boxed.1.bias");
    assert_eq!(names("inner.*weight"), "inner.l1.weight inner.type.weight");
    // By its second name, too, and only once.
    assert_eq!(
        (names("tied").as_str(), names("*e*d*").as_str()),
        ("tied", "boxed.1.weight boxed.1.bias tied")
    );
    assert_eq!(names("nothing"), "");
    model.requires_grad_matching("tied", false).unwrap();
    model.requires_grad_matching("list.*", false).unwrap();
    let frozen = model.named_parameters().into_iter().filter(|(_, p)| !p.requires_grad());
    let frozen: Vec<String> = frozen.map(|(name, _)| name).collect();
    assert_eq!(frozen, ["scale", "list.0.weight", "list.0.bias", "list.1.weight", "list.1.bias"]);
    model.requires_grad_matching("*", true).unwrap();
    assert!(model.parameters().iter().all(Var::requires_grad));
    let e = Linear::new(2, 1).requires_grad_matching("fc.*", false).unwrap_err();
    assert_eq!(e.location().unwrap().file(), file!());
    assert_eq!(
        e.with_location(None).to_string(),
        r#"requires_grad_matching: "fc.*" matches none of the names weight, bias: `*` stands for any run of characters"#
    );
}

/// Several inputs, an option, a tuple out.
#[derive(Module)]
struct Two {
    left: Linear,
    right: Linear,
}

#[forward]
impl Two {
    fn new() -> Two {
        Two { left: Linear::new(2, 1), right: Linear::new(3, 1) }
    }

    fn forward(&self, a: &Var, b: &Var, scale: Option<f64>) -> Result<(Var, Var)> {
        let (a, b) = (self.left.forward(a)?, self.right.forward(b)?);
        Ok((a.mul(scale.unwrap_or(1.0))?, b))
    }
}

#[derive(Module)]
struct OfTwo {
    two: Two,
}

#[forward]
impl OfTwo {
    fn forward(&self, x: &Var) -> Result<Var> {
        Ok(self.two.forward(x, x, None)?.0)
    }
}

#[test]
fn several_inputs() {
    let model = Two::new();
    let (a, b) = (tensor![1.0, 2.0], tensor![1.0, 2.0, 3.0].requires_grad());
    let (once, right) = model.forward(&a, &b, None).unwrap();
    assert_eq!(model.forward(&a, &b, Some(2.0)).unwrap().0.value(), once.value() * 2.0);
    right.backward().unwrap();
    assert_eq!(b.grad(), Some(model.right.weight.value().squeeze(0).unwrap()));
    let e = model.forward(&b, &b, None).unwrap_err().with_location(None).to_string();
    assert_eq!(
        e,
        "left: linear: expected an input of shape [.., 2], found [3]: the last axis holds the features; make the \
         layer for 3, or transpose or reshape the input"
    );
    let layer: Box<dyn Layer> = Box::new(OfTwo { two: model });
    let e = layer.forward(&a).unwrap_err().with_location(None).to_string();
    assert_eq!(
        e,
        "two.right: linear: expected an input of shape [.., 3], found [2]: the last axis holds the features; make the \
         layer for 2, or transpose or reshape the input"
    );
}

/// A variable, a tensor, and both behind references.
#[test]
fn inputs_of_every_kind() {
    let model = Linear::new(2, 1);
    let tensor = tensor![1.0, 2.0];
    let expected = model.forward(&tensor).unwrap().value();
    let var = tensor.clone().requires_grad();
    let borrowed: (&Var, &foldback_tensor::Tensor) = (&var, &tensor);
    for y in [model.forward(&var), model.forward(borrowed.0), model.forward(borrowed.1)] {
        assert_eq!(y.unwrap().value(), expected);
    }
    assert!(OfTwo { two: Two::new() }.forward(&(&var * 2.0)).is_err());
    // By value as well.
    for y in [model.forward(var.clone()), model.forward(tensor.clone()), model.forward(&var * 1.0)] {
        assert_eq!(y.unwrap().value(), expected);
    }
    let mut own = var.clone();
    assert_eq!(model.forward(&mut own).unwrap().value(), expected);
    let layer: &dyn Layer = &model;
    assert_eq!(layer.forward(&tensor).unwrap().value(), expected);
}

#[derive(Module)]
struct Coder {
    down: Linear,
    up: Linear,
}

#[forward]
impl Coder {
    fn new() -> Coder {
        Coder { down: Linear::new(2, 1), up: Linear::new(1, 2) }
    }

    fn encode(&self, x: &Var) -> Result<Var> {
        self.down.forward(self.down.forward(x).map(|_| x)?)
    }

    fn decode(&self, mut code: &Var, times: usize) -> Result<Var> {
        let doubled = code * 2.0;
        if times == 2 {
            code = &doubled;
        }
        self.up.forward(code)
    }

    fn forward(&self, x: &Var) -> Result<Var> {
        self.decode(self.encode(x)?, 1)
    }
}

#[test]
fn other_methods_take_values_too() {
    let (model, x) = (Coder::new(), tensor![1.0, 2.0]);
    let code = model.encode(&x).unwrap();
    let y = model.forward(x.clone()).unwrap().value();
    assert_eq!(model.decode(&code, 1).unwrap().value(), y);
    assert_eq!(model.decode(code.value(), 1).unwrap().value(), y);
    assert_eq!(model.decode(&code, 2).unwrap().value(), model.decode(&code * 2.0, 1).unwrap().value());
}

fn message(model: &Outer<Linear, 2>) -> String {
    model.forward(&tensor![[1.0, 2.0]]).unwrap_err().with_location(None).to_string()
}

#[test]
fn errors_name_the_layer() {
    let mut model = outer();
    model.list[1] = Linear::new(7, 5);
    assert_eq!(
        message(&model),
        "list.1: linear: expected an input of shape [.., 7], found [1, 4]: the last axis holds the features; make the \
         layer for 4, or transpose or reshape the input"
    );
    model.inner.r#type = Linear::new(2, 4);
    assert_eq!(
        message(&model),
        "inner.type: linear: expected an input of shape [.., 2], found [1, 3]: the last axis holds the features; make the \
         layer for 3, or transpose or reshape the input"
    );
    let mut model = outer();
    model.boxed = Box::new(sequential![ReLU, Linear::new(9, 1)]);
    assert_eq!(
        message(&model),
        "boxed.1: linear: expected an input of shape [.., 9], found [1, 5]: the last axis holds the features; make the \
         layer for 5, or transpose or reshape the input"
    );
    // An operation of the model's own function.
    let mut model = outer();
    model.scale = tensor![1.0, 2.0, 3.0].requires_grad();
    assert!(message(&model).starts_with("mul: cannot broadcast [1, 4] with [3]"));
}

/// A layer made on the spot is named by the module that it was made in.
#[derive(Module)]
struct OnTheSpot {
    unused: Linear,
}
#[forward]
impl OnTheSpot {
    fn forward(&self, x: &Var) -> Result<Var> {
        Linear::new(50, self.unused.in_features()).forward(x)
    }
}

#[derive(Module)]
struct Holder {
    spot: OnTheSpot,
}
#[forward]
impl Holder {
    fn forward(&self, x: &Var) -> Result<Var> {
        self.spot.forward(x)
    }
}

#[test]
fn unnamed_layers_are_named_by_their_module() {
    let model = Holder { spot: OnTheSpot { unused: Linear::new(1, 1) } };
    let e = model.forward(&tensor![[1.0, 2.0]]).unwrap_err().with_location(None).to_string();
    assert_eq!(
        e,
        "spot: linear: expected an input of shape [.., 50], found [1, 2]: the last axis holds the features; make the \
         layer for 2, or transpose or reshape the input"
    );
}

#[derive(Module)]
struct Pair(Linear, #[module(skip)] std::time::Duration);
#[forward]
impl Pair {
    fn forward(&self, x: &Var) -> Result<Var> {
        assert!(self.1.is_zero());
        self.0.forward(x)
    }
}

use crate as renamed;

#[derive(Module)]
#[module(crate = "renamed")]
struct Nothing;
#[forward(crate = "renamed")]
impl Nothing {
    fn forward(&self, x: &Var) -> Result<Var> {
        Ok(x.clone())
    }
}

#[test]
fn tuple_and_unit_structs() {
    let pair = Pair(Linear::new(1, 1), std::time::Duration::ZERO);
    assert_eq!(pair.named_parameters()[0].0, "0.weight");
    assert!(pair.forward(&tensor![1.0]).is_ok());
    assert_eq!(Nothing.num_parameters(), 0);
    assert!(Nothing.forward(&tensor![1.0]).is_ok());
}
