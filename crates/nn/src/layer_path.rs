//! Where in a model an error happened.
//!
//! Note [Layer paths]
//! A layer does not know its name: that is the field of a struct which owns it. So a layer that fails puts its
//! *address* (and type: a first field lies where its struct does) into the error, and each module further out looks for
//! that address among its parts and writes the path from there. Nothing is done unless something fails. A layer that
//! is not found, because it was made on the spot, is named by the innermost module that is.

use std::fmt;

use crate::error::{Error, Result};
use crate::module::{Module, Seen, Visitor};

/// Where in a model a layer stands: the names of fields joined by dots, `encoder.layers.0`.
///
/// Seen from the module that `forward` was called on; empty if that module itself failed.
///
/// ```
/// use foldback_nn::{Error, Linear, ReLU, Sequential};
/// let model = Sequential::new().then(Linear::new(2, 8)).then(ReLU).then(Linear::new(4, 1));
/// match model.forward(&foldback_tensor::tensor![1.0, 2.0]) {
///     Err(Error::Layer { path, .. }) => assert_eq!(path.as_str(), "2"),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerPath {
    text: String,
    origin: LayerId,
}

impl LayerPath {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for LayerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A layer's address and type, valid while it does not move: during a call of `forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerId {
    address: usize,
    kind: &'static str,
}

impl LayerId {
    pub(crate) fn of<T>(layer: &T) -> LayerId {
        LayerId { address: std::ptr::from_ref(layer).addr(), kind: std::any::type_name::<T>() }
    }
}

/// Adds the place of the failing layer, as seen from `layer`, to an error of its `forward`.
///
/// What `#[forward]` writes.
#[doc(hidden)]
pub fn in_layer<T: Module, V>(layer: &T, result: Result<V>) -> Result<V> {
    result.map_err(|e| placed(layer, e))
}

fn placed<T: Module>(layer: &T, error: Error) -> Error {
    let own = LayerId::of(layer);
    match error {
        Error::Layer { path, source } if path.origin == own => Error::Layer { path, source },
        Error::Layer { path, source } => match find(layer, path.origin) {
            Some(text) => Error::Layer { path: LayerPath { text, origin: path.origin }, source },
            None if path.text.is_empty() => at(own, source),
            None => at(own, Box::new(Error::Layer { path, source })),
        },
        other => at(own, Box::new(other)),
    }
}

fn at(origin: LayerId, source: Box<Error>) -> Error {
    Error::Layer { path: LayerPath { text: String::new(), origin }, source }
}

/// The path of a layer among the parts of another.
fn find(root: &dyn Module, wanted: LayerId) -> Option<String> {
    let mut found = None;
    root.visit(&mut Visitor::new(&mut |path, seen| {
        if let Seen::Layer(id) = seen
            && id == wanted
            && found.is_none()
        {
            found = Some(path.to_owned());
        }
    }));
    found
}
