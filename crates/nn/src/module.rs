//! `Module`: what holds parameters, and what one can do with all of them.

use foldback_graph::Var;

use crate::buffer::Buffer;
use crate::copies::Copies;
use crate::error::Result;
use crate::layer_path::{LayerId, id_of};

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

    /// The buffers with their paths, such as `norm.running_mean`, in the order of the fields; one that stands in several
    /// places once.
    ///
    /// They are handles on the model's own.
    fn named_buffers(&self) -> Vec<(String, Buffer)> {
        let mut found: Vec<(String, Buffer)> = Vec::new();
        self.visit(&mut Visitor::new(&mut |path, seen| {
            if let Seen::Buffer(buffer) = seen
                && !found.iter().any(|(_, other)| other.is_same(buffer))
            {
                found.push((path.to_owned(), buffer.clone()));
            }
        }));
        found
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
    /// `NotALeaf` when turning off the result of an operation; nothing is changed then.
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
    Buffer(&'a Buffer),
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
        (self.see)(&self.path, Seen::Layer(id_of(layer)));
    }

    pub(crate) fn buffer(&mut self, buffer: &Buffer) {
        (self.see)(&self.path, Seen::Buffer(buffer));
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
mod tests;
