//! Whether a layer is in training.

use crate::copies::Copies;
use crate::module::{Module, Visitor};

/// The mode of a layer that differs between training and use: a part without parameters, which [`Module::set_training`]
/// reaches. Layers are made in training.
#[derive(Clone, Copy, Debug)]
pub(super) struct Training(bool);

impl Training {
    pub(super) fn new() -> Training {
        Training(true)
    }

    pub(super) fn is_on(self) -> bool {
        self.0
    }
}

impl Module for Training {
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn set_training(&mut self, training: bool) {
        self.0 = training;
    }
    fn copy_parts(&self, _: &mut Copies) -> Training {
        *self
    }
}
