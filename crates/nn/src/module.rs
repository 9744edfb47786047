//! `Module`: what holds parameters, and what one can do with all of them.

use foldback_graph::Var;

use crate::copies::Copies;
use crate::error::Result;
use crate::layer_path::LayerId;

/// Something that holds parameters: a variable, a layer, a model, or a collection of these.
///
/// Derived for the fields of a struct, see [`derive(Module)`](macro@crate::Module). What a module computes is a method
/// `forward` beside it, see [`forward`](macro@crate::forward). A `clone()` shares the weights of a module,
/// [`deep_copy`](Module::deep_copy) has its own.
///
/// ```
/// use foldback_nn::{Linear, Module};
/// let layer = Linear::new(3, 2);
/// assert_eq!(layer.num_parameters(), 8);
/// assert_eq!(layer.named_parameters()[1].0, "bias");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no parameters",
    label = "neither a `Var`, nor a module, nor a `Vec`, `Option`, array or `Box` of these",
    note = "mark a field that holds no parameters with `#[module(skip)]`; make a parameter of a `Tensor` with `requires_grad()`; derive `Module` for a struct of your own"
)]
pub trait Module {
    /// Shows every part to the visitor, in the order of the fields.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// Switches layers that differ between training and use, such as [`Dropout`](crate::Dropout).
    fn set_training(&mut self, training: bool);

    /// The same module with other parts, as `copies` says: what [`Module::deep_copy`] is made of.
    fn copy_parts(&self, copies: &mut Copies) -> Self
    where
        Self: Sized;

    /// A copy with weights of its own; `clone()` shares them.
    ///
    /// Its parameters are leaves with the same values, which require gradients where these do and have none yet. A variable
    /// that stands in several places is one variable in the copy, too. Fields that hold no parameters are cloned.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module};
    /// let layer = Linear::new(3, 2);
    /// assert!(layer.clone().weight.is_same(&layer.weight));
    /// let copy = layer.deep_copy();
    /// assert!(!copy.weight.is_same(&layer.weight));
    /// assert_eq!(copy.weight.value(), layer.weight.value());
    /// ```
    #[must_use]
    fn deep_copy(&self) -> Self
    where
        Self: Sized,
    {
        self.copy_parts(&mut Copies::deep())
    }

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

    /// Turns gradients of all parameters on or off: without them a module is frozen, as backward passes
    /// leave none in it.
    ///
    /// Clones that share the parameters see it, too. Variables without history, which are no leaves, stay as they are.
    ///
    /// # Errors
    /// `Graph` when turning off the result of an operation; nothing is changed then.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module};
    /// let mut layer = Linear::new(3, 2);
    /// layer.requires_grad_(false)?;
    /// assert!(!layer.weight.requires_grad());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    fn requires_grad_(&mut self, on: bool) -> Result<()> {
        let mut leaves = self.parameters();
        // A variable without history is not even the same as itself.
        leaves.retain(|var| var.is_same(var));
        // Those that may be refused come first.
        leaves.sort_by_key(Var::is_leaf);
        for var in &mut leaves {
            var.requires_grad_(on)?;
        }
        Ok(())
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

/// Walks through the parts of a model and keeps their path; [`Module::visit`] leads it.
///
/// ```
/// use foldback_nn::{Linear, Module, Visitor};
/// # use foldback_nn::Copies;
///
/// struct Tied(Linear);
/// impl Module for Tied {
///     fn visit(&self, visitor: &mut Visitor<'_>) {
///         visitor.layer(self);
///         visitor.part("encoder", &self.0);
///     }
///     // ...
///     # fn set_training(&mut self, _: bool) {}
///     # fn copy_parts(&self, copies: &mut Copies) -> Tied {
///     #     Tied(copies.part(&self.0))
///     # }
/// }
/// assert_eq!(Tied(Linear::new(2, 1)).named_parameters()[0].0, "encoder.weight");
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
    pub fn layer<T: Module>(&mut self, layer: &T) {
        (self.see)(&self.path, Seen::Layer(LayerId::of(layer)));
    }

    /// Leads the visitor through a part of this name.
    pub fn part(&mut self, name: &str, part: &dyn Module) {
        let above = self.path.len();
        if above > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        part.visit(self);
        self.path.truncate(above);
    }
}

impl Module for Var {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        (visitor.see)(&visitor.path, Seen::Parameter(self));
    }
    fn set_training(&mut self, _: bool) {}
    fn copy_parts(&self, copies: &mut Copies) -> Self {
        copies.var(self)
    }
}

impl<T: Module> Module for Option<T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.iter().for_each(|part| part.visit(visitor));
    }
    fn set_training(&mut self, training: bool) {
        self.iter_mut().for_each(|part| part.set_training(training));
    }
    fn copy_parts(&self, copies: &mut Copies) -> Self {
        self.as_ref().map(|part| part.copy_parts(copies))
    }
}

/// Leads a visitor through the parts of a list, which are named by their numbers.
fn visit_list<T: Module>(list: &[T], visitor: &mut Visitor<'_>) {
    for (i, part) in list.iter().enumerate() {
        visitor.part(&i.to_string(), part);
    }
}

impl<T: Module> Module for Vec<T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visit_list(self, visitor);
    }
    fn set_training(&mut self, training: bool) {
        self.iter_mut().for_each(|part| part.set_training(training));
    }
    fn copy_parts(&self, copies: &mut Copies) -> Self {
        self.iter().map(|part| part.copy_parts(copies)).collect()
    }
}

impl<T: Module, const N: usize> Module for [T; N] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visit_list(self, visitor);
    }
    fn set_training(&mut self, training: bool) {
        self.iter_mut().for_each(|part| part.set_training(training));
    }
    fn copy_parts(&self, copies: &mut Copies) -> Self {
        std::array::from_fn(|i| self[i].copy_parts(copies))
    }
}

#[cfg(test)]
mod tests {
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
            let h = self.dropout.forward(&h)?.relu()?;
            self.r#type.forward(&h)
        }
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
        assert!(model.requires_grad_(false).unwrap_err().to_string().contains("leaf"));
        assert!(model.scale.requires_grad());
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
        let e = model.forward(&b, &b, None).unwrap_err().to_string();
        assert_eq!(e, "left: linear: expected an input of shape [.., 2], found [3]");
        let layer: Box<dyn Layer> = Box::new(OfTwo { two: model });
        let e = layer.forward(&a).unwrap_err().to_string();
        assert_eq!(e, "two.right: linear: expected an input of shape [.., 3], found [2]");
    }

    /// A variable, a tensor, and both behind references.
    #[test]
    fn inputs_of_every_kind() {
        let model = Linear::new(2, 1);
        let tensor = tensor![1.0, 2.0];
        let expected = model.forward(&tensor).unwrap().value();
        let var = tensor.clone().requires_grad();
        let borrowed: (&Var, &foldback_tensor::Tensor) = (&var, &tensor);
        for y in [model.forward(&var), model.forward(&borrowed.0), model.forward(&borrowed.1)] {
            assert_eq!(y.unwrap().value(), expected);
        }
        assert!(OfTwo { two: Two::new() }.forward(&(&var * 2.0)).is_err());
    }

    fn message(model: &Outer<Linear, 2>) -> String {
        model.forward(&tensor![[1.0, 2.0]]).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_layer() {
        let mut model = outer();
        model.list[1] = Linear::new(7, 5);
        assert_eq!(message(&model), "list.1: linear: expected an input of shape [.., 7], found [1, 4]");
        model.inner.r#type = Linear::new(2, 4);
        assert_eq!(message(&model), "inner.type: linear: expected an input of shape [.., 2], found [1, 3]");
        let mut model = outer();
        model.boxed = Box::new(sequential![ReLU, Linear::new(9, 1)]);
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
        let e = model.forward(&tensor![[1.0, 2.0]]).unwrap_err().to_string();
        assert_eq!(e, "spot: linear: expected an input of shape [.., 50], found [1, 2]");
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
}
