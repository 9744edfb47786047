//! `Parameters`: finding the parameters of a model, and their names.

use foldback_graph::Var;

use crate::layer_path::LayerId;

/// Something that holds parameters: a variable, a layer, a model, or a collection of these.
///
/// Derived by [`Module`](macro@crate::Module) and [`Parameters`](macro@crate::Parameters).
///
/// ```
/// use foldback_nn::{Linear, Parameters};
/// let layer = Linear::new(3, 2);
/// assert_eq!(layer.num_parameters(), 8);
/// assert_eq!(layer.named_parameters()[1].0, "bias");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no parameters",
    label = "neither a `Var`, nor a module, nor a `Vec`, `Option`, array or `Box` of these",
    note = "mark a field that holds no parameters with `#[module(skip)]`; make a parameter of a `Tensor` with `requires_grad()`; derive `Module` for a struct of your own"
)]
pub trait Parameters {
    /// Shows every part to the visitor, in the order of the fields.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// Switches layers that differ between training and use, such as [`Dropout`](crate::Dropout).
    fn set_training(&mut self, training: bool);

    /// The parameters with their paths, such as `l1.weight` and `layers.0.bias`, in the order of the fields.
    ///
    /// A variable that stands in several places is listed once, at the first.
    fn named_parameters(&self) -> Vec<(String, Var)> {
        let mut found: Vec<(String, Var)> = Vec::new();
        self.visit(&mut Visitor::new(&mut |path, seen| {
            if let Seen::Parameter(var) = seen
                && !found.iter().any(|(_, other)| other.is_same(var))
            {
                found.push((path.to_owned(), var.clone()));
            }
        }));
        found
    }

    /// The parameters, in the order of the fields; one that stands in several places once.
    ///
    /// The variables are handles on the model's own: what an optimiser writes there, the model sees.
    fn parameters(&self) -> Vec<Var> {
        self.named_parameters().into_iter().map(|(_, var)| var).collect()
    }

    /// How many numbers the parameters hold together.
    fn num_parameters(&self) -> usize {
        self.named_parameters().iter().map(|(_, var)| var.numel()).sum()
    }

    /// Forgets the gradients of all parameters.
    fn zero_grad(&self) {
        self.visit(&mut Visitor::new(&mut |_, seen| {
            if let Seen::Parameter(var) = seen {
                var.zero_grad();
            }
        }));
    }

    /// Switches to training: `set_training(true)`. Layers are made in this state.
    fn train(&mut self) {
        self.set_training(true);
    }

    /// Switches to use: `set_training(false)`.
    fn eval(&mut self) {
        self.set_training(false);
    }
}

/// What a visitor is shown.
pub(crate) enum Seen<'a> {
    Parameter(&'a Var),
    Layer(LayerId),
}

/// Walks through the parts of a model and keeps their path; [`Parameters::visit`] leads it.
///
/// ```
/// use foldback_graph::{RequiresGrad, Var};
/// use foldback_nn::{Parameters, Visitor};
///
/// struct Scale(Var);
/// impl Parameters for Scale {
///     fn visit(&self, visitor: &mut Visitor<'_>) {
///         visitor.layer(self);
///         visitor.part("scale", &self.0);
///     }
///     fn set_training(&mut self, _: bool) {}
/// }
/// let scale = Scale(foldback_tensor::tensor![2.0].requires_grad());
/// assert_eq!(scale.named_parameters()[0].0, "scale");
/// ```
pub struct Visitor<'a> {
    path: String,
    see: &'a mut dyn FnMut(&str, Seen<'_>),
}

impl<'a> Visitor<'a> {
    pub(crate) fn new(see: &'a mut dyn FnMut(&str, Seen<'_>)) -> Visitor<'a> {
        Visitor { path: String::new(), see }
    }

    /// Says that the visitor stands at a layer, so that errors which happen in it can be given its path.
    pub fn layer<T: Parameters>(&mut self, layer: &T) {
        (self.see)(&self.path, Seen::Layer(LayerId::of(layer)));
    }

    /// Leads the visitor through a part of this name.
    pub fn part(&mut self, name: &str, part: &dyn Parameters) {
        let above = self.path.len();
        if above > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        part.visit(self);
        self.path.truncate(above);
    }
}

impl Parameters for Var {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        (visitor.see)(&visitor.path, Seen::Parameter(self));
    }
    fn set_training(&mut self, _: bool) {}
}

impl<T: Parameters + ?Sized> Parameters for Box<T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        (**self).visit(visitor);
    }
    fn set_training(&mut self, training: bool) {
        (**self).set_training(training);
    }
}

impl<T: Parameters> Parameters for Option<T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.iter().for_each(|part| part.visit(visitor));
    }
    fn set_training(&mut self, training: bool) {
        self.iter_mut().for_each(|part| part.set_training(training));
    }
}

impl<T: Parameters> Parameters for [T] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (i, part) in self.iter().enumerate() {
            visitor.part(&i.to_string(), part);
        }
    }
    fn set_training(&mut self, training: bool) {
        self.iter_mut().for_each(|part| part.set_training(training));
    }
}

impl<T: Parameters> Parameters for Vec<T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.as_slice().visit(visitor);
    }
    fn set_training(&mut self, training: bool) {
        self.as_mut_slice().set_training(training);
    }
}

impl<T: Parameters, const N: usize> Parameters for [T; N] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.as_slice().visit(visitor);
    }
    fn set_training(&mut self, training: bool) {
        self.as_mut_slice().set_training(training);
    }
}

#[cfg(test)]
mod tests {
    use foldback_graph::{RequiresGrad, Var};
    use foldback_tensor::tensor;

    use crate::{Dropout, Forward, Linear, Module, Parameters, ReLU, Result, Sequential};

    #[derive(Module)]
    struct Inner {
        l1: Linear,
        dropout: Dropout,
        r#type: Linear,
    }

    impl Forward for Inner {
        fn forward(&self, x: &Var) -> Result<Var> {
            let h = self.l1.forward(x)?;
            let h = self.dropout.forward(&h)?.relu()?;
            self.r#type.forward(&h)
        }
    }

    /// Every kind of field.
    #[derive(Module)]
    struct Outer<M, const N: usize> {
        scale: Var,
        inner: Inner,
        list: Vec<M>,
        array: [Option<Linear>; N],
        boxed: Box<dyn Module>,
        tied: Var,
        count: usize,
        name: String,
        #[module(skip)]
        skipped: Option<std::time::Duration>,
    }

    impl<M: Module, const N: usize> Forward for Outer<M, N> {
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
            array: [None, Some(Linear::builder(5, 1).bias(false).build().unwrap())],
            boxed: Box::new(Sequential::new().then(ReLU).then(Linear::new(5, 1))),
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

    #[test]
    fn training_is_switched_everywhere() {
        let mut model = outer();
        model.eval();
        let x: Var = tensor![[1.0, 2.0]].into();
        let first = model.forward(&x).unwrap().value();
        assert_eq!(model.forward(&x).unwrap().value(), first);
        assert!(!model.inner.dropout.is_training());
        model.train();
        assert!(model.inner.dropout.is_training());
    }

    #[test]
    fn zero_grad_reaches_every_parameter() {
        let model = outer();
        model.forward(&tensor![[1.0, 2.0]].into()).unwrap().sum(..).unwrap().backward().unwrap();
        assert!(model.inner.l1.weight.grad().is_some());
        model.zero_grad();
        assert!(model.parameters().iter().all(|p| p.grad().is_none()));
    }

    fn message(model: &Outer<Linear, 2>) -> String {
        model.forward(&tensor![[1.0, 2.0]].into()).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_layer() {
        let mut model = outer();
        model.list[1] = Linear::new(7, 5);
        assert_eq!(message(&model), "list.1: linear: expected an input of shape [.., 7], found [1, 4]");
        model.inner.r#type = Linear::new(2, 4);
        assert_eq!(message(&model), "inner.type: linear: expected an input of shape [.., 2], found [1, 3]");
        let mut model = outer();
        model.boxed = Box::new(Sequential::new().then(ReLU).then(Linear::new(9, 1)));
        assert_eq!(message(&model), "boxed.1: linear: expected an input of shape [.., 9], found [1, 5]");
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
    impl Forward for OnTheSpot {
        fn forward(&self, x: &Var) -> Result<Var> {
            Linear::new(50, self.unused.in_features()).forward(x)
        }
    }

    #[derive(Module)]
    struct Holder {
        spot: OnTheSpot,
    }
    impl Forward for Holder {
        fn forward(&self, x: &Var) -> Result<Var> {
            self.spot.forward(x)
        }
    }

    #[test]
    fn unnamed_layers_are_named_by_their_module() {
        let model = Holder { spot: OnTheSpot { unused: Linear::new(1, 1) } };
        let e = model.forward(&tensor![[1.0, 2.0]].into()).unwrap_err().to_string();
        assert_eq!(e, "spot: linear: expected an input of shape [.., 50], found [1, 2]");
    }

    #[derive(Module)]
    struct Pair(Linear, #[module(skip)] std::time::Duration);
    impl Forward for Pair {
        fn forward(&self, x: &Var) -> Result<Var> {
            assert!(self.1.is_zero());
            self.0.forward(x)
        }
    }

    use crate as renamed;

    #[derive(Module)]
    #[module(crate = "renamed")]
    struct Nothing;
    impl Forward for Nothing {
        fn forward(&self, x: &Var) -> Result<Var> {
            Ok(x.clone())
        }
    }

    #[test]
    fn tuple_and_unit_structs() {
        let pair = Pair(Linear::new(1, 1), std::time::Duration::ZERO);
        assert_eq!(pair.named_parameters()[0].0, "0.weight");
        assert!(pair.forward(&tensor![1.0].into()).is_ok());
        assert_eq!(Nothing.num_parameters(), 0);
        assert!(Nothing.forward(&tensor![1.0].into()).is_ok());
    }
}
