//! Buffers: tensors of a module that are no parameters.

use std::fmt;
use std::sync::Arc;

use foldback_tensor::{StateCell, Tensor};

use crate::copies::Copies;
use crate::module::{Module, Visitor};

/// A tensor that belongs to a module, is no parameter and moves while the module is used: running statistics, a table of
/// positions, a counter.
///
/// It stands in a field as a parameter does, is found by [`Module::named_buffers`] and saved with the weights. A clone is
/// a handle on the same buffer; [`deep_copy`](Module::deep_copy) gives a module its own.
///
/// ```
/// use foldback_nn::{Buffer, Module, Result, Var, forward};
/// use foldback_tensor::tensor;
///
/// #[derive(Module)]
/// struct Counted { calls: Buffer }
///
/// #[forward]
/// impl Counted {
///     fn forward(&self, x: &Var) -> Result<Var> {
///         self.calls.set(self.calls.value().add(1)?);
///         Ok(x.clone())
///     }
/// }
///
/// let model = Counted { calls: Buffer::new(tensor![0; i64]) };
/// model.forward(&tensor![1.0])?;
/// assert_eq!(model.calls.value(), tensor![1; i64]);
/// assert_eq!(model.named_buffers()[0].0, "calls");
/// assert!(model.parameters().is_empty());
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone)]
pub struct Buffer {
    cell: Arc<StateCell<Tensor>>,
    persistent: bool,
    optional: bool,
}

impl Buffer {
    /// A buffer with this value, which is saved with the weights.
    pub fn new(value: impl Into<Tensor>) -> Buffer {
        Buffer { cell: Arc::new(StateCell::new(value.into())), persistent: true, optional: false }
    }

    /// Whether it is saved with the weights. One that can be computed again need not be.
    #[must_use]
    pub fn persistent(mut self, persistent: bool) -> Buffer {
        self.persistent = persistent;
        self
    }

    /// Whether it is saved with the weights.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Whether a state dict may lack it even where loading is strict, as files do that are older than the buffer. It keeps
    /// its value then.
    ///
    /// ```
    /// use foldback_nn::{Buffer, Module};
    /// use foldback_tensor::{StateDict, tensor};
    /// let mut parts = vec![Buffer::new(tensor![1.0]), Buffer::new(tensor![0; i64]).optional(true)];
    /// parts.load_state_dict(&StateDict::from_iter([("0", tensor![2.0])]))?;
    /// assert_eq!(parts[1].value(), tensor![0; i64]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[must_use]
    pub fn optional(mut self, optional: bool) -> Buffer {
        self.optional = optional;
        self
    }

    /// Whether a state dict may lack it.
    pub fn is_optional(&self) -> bool {
        self.optional
    }

    /// Its value now.
    pub fn value(&self) -> Tensor {
        self.cell.read()
    }

    /// Gives it another value; all handles see it.
    pub fn set(&self, value: impl Into<Tensor>) {
        drop(self.cell.replace(value.into()));
    }

    /// Another one of the same kind.
    pub(crate) fn with(&self, value: Tensor) -> Buffer {
        Buffer { cell: Arc::new(StateCell::new(value)), ..*self }
    }

    /// Whether both are handles on the same buffer.
    pub fn is_same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("value", &self.value())
            .field("persistent", &self.persistent)
            .field("optional", &self.optional)
            .finish()
    }
}

impl Module for Buffer {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.buffer(self);
    }
    fn set_training(&mut self, _: bool) {}
    fn copy_parts(&self, copies: &mut Copies) -> Self {
        copies.buffer(self)
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::tensor;

    use super::*;

    #[test]
    fn clones_share_and_copies_do_not() {
        let own = Buffer::new(tensor![1.0]).persistent(false).optional(true);
        let (clone, copy) = (own.clone(), own.deep_copy());
        own.set(tensor![2.0]);
        assert_eq!(clone.value(), tensor![2.0]);
        assert_eq!(copy.value(), tensor![1.0]);
        assert!(own.is_same(&clone) && !own.is_same(&copy) && !copy.is_persistent() && copy.is_optional());
        // One that stands in two places is one in the copy, too.
        let [a, b] = [own.clone(), own].deep_copy();
        assert!(a.is_same(&b));
    }

    #[test]
    fn buffers_are_no_parameters() {
        let parts = vec![Some(Buffer::new(tensor![1.0])), None];
        assert!(parts.parameters().is_empty());
        assert_eq!(parts.named_buffers()[0].0, "0");
    }
}
