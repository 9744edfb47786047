//! The walk through the parts of a model, with their paths.

use foldback_graph::Var;
use foldback_tensor::{Generator, StateCell};

use super::Module;
use crate::buffer::Buffer;
use crate::layer_path::{LayerId, id_of};

/// What a visitor is shown.
pub(crate) enum Seen<'a> {
    Parameter(&'a Var),
    Buffer(&'a Buffer),
    Generator(&'a StateCell<Generator>),
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

    pub(crate) fn parameter(&mut self, parameter: &Var) {
        (self.see)(&self.path, Seen::Parameter(parameter));
    }

    pub(crate) fn buffer(&mut self, buffer: &Buffer) {
        (self.see)(&self.path, Seen::Buffer(buffer));
    }

    /// Shows a layer's own generator of random numbers, so that checkpoints keep its state.
    pub fn generator(&mut self, generator: &StateCell<Generator>) {
        (self.see)(&self.path, Seen::Generator(generator));
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
