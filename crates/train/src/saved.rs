//! Saved states, taken apart name by name.

use foldback_tensor::{StateDict, Tensor, refuse};

use crate::error::{Result, TrainFacts};

/// A state that is being read. What is missing, of another form, or left over is refused, before anything has been changed.
pub(crate) struct Reader<'a> {
    /// whose state it is, for errors
    what: &'static str,
    left: Vec<(&'a str, &'a Tensor)>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(what: &'static str, state: &'a StateDict) -> Reader<'a> {
        Reader { what, left: state.iter().collect() }
    }

    /// The tensor of this name, if there is one.
    pub(crate) fn find(&mut self, name: &str) -> Option<&'a Tensor> {
        let at = self.left.iter().position(|(own, _)| *own == name)?;
        Some(self.left.remove(at).1)
    }

    /// The numbers of this name.
    pub(crate) fn list<T: foldback_tensor::Element>(&mut self, name: &str) -> Result<Vec<T>> {
        let Some(tensor) = self.find(name) else { return self.refuse(format!("{name} is missing")) };
        match tensor.to_vec() {
            Ok(list) if tensor.rank() == 1 => Ok(list),
            _ => self.refuse(format!("{name} is {} {}", tensor.dtype(), tensor.shape())),
        }
    }

    /// The number of this name, if there is one.
    pub(crate) fn number<T: foldback_tensor::Element>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(tensor) = self.find(name) else { return Ok(None) };
        match tensor.to_vec::<T>().as_deref() {
            Ok(&[number]) if tensor.rank() == 0 => Ok(Some(number)),
            _ => self.refuse(format!("{name} is {} {}", tensor.dtype(), tensor.shape())),
        }
    }

    /// Refuses what is left over.
    pub(crate) fn end(&self) -> Result<()> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) => self.refuse(format!("{name} is unexpected")),
        }
    }

    pub(crate) fn refuse<T>(&self, problem: String) -> Result<T> {
        refuse(TrainFacts::State { what: self.what, problem })
    }
}
