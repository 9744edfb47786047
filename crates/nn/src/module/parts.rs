//! What modules are made of: variables, and lists, options and arrays of modules.

use foldback_graph::Var;

use crate::copies::Copies;
use crate::module::{Module, Visitor};

impl Module for Var {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.parameter(self);
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
