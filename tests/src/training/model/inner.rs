//! A model among others whose call takes and gives more than one variable.

use foldback_graph::{Value, Var};
use foldback_nn::{Copies, Layer, Module, Visitor};
use foldback_tensor::{Error, Result};
use serde_json::Map;

use super::Model;
use crate::conformance::args::{Args, Refusal};

/// A struct with the one field `inner`, which is called with its input under each of some names; of the results the first counts,
/// and of that one step of axis 1, if one is asked for.
pub(super) struct Inner {
    pub(super) inner: Model,
    /// PyTorch's names for what the call takes
    pub(super) inputs: Vec<String>,
    pub(super) step: Option<isize>,
}

impl Module for Inner {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.part("inner", &self.inner);
    }
    fn set_training(&mut self, training: bool) {
        self.inner.set_training(training);
    }
    fn copy_parts(&self, copies: &mut Copies) -> Self {
        Inner { inner: copies.part(&self.inner), inputs: self.inputs.clone(), step: self.step }
    }
}

impl Layer for Inner {
    fn forward(&self, input: &dyn Value) -> Result<Var> {
        let input = Var::clone(&input.as_var());
        let named = self.inputs.iter().map(|name| (name.clone(), input.clone())).collect();
        let results =
            self.inner.call("inner", &Args::new(named, Map::new())).map_err(|refusal| match refusal {
                Refusal::Library(text) | Refusal::Argument(text) | Refusal::Unsupported(text) => {
                    Error::other(text)
                }
            })?;
        let first = results.into_iter().next().flatten().ok_or_else(|| Error::other("no result"))?;
        self.step.map_or(Ok(first.clone()), |step| first.select(1, step))
    }
}
