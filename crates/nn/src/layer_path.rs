//! Where in a model an error happened.
//!
//! Note [Layer paths]
//! A layer does not know its name: that is the field of a struct which owns it. So a layer that fails puts its
//! *address* (and type: a first field lies where its struct does) into the error, and each module further out looks for
//! that address among its parts and writes the path from there. Nothing is done unless something fails. A layer that
//! is not found, because it was made on the spot, is named by the innermost module that is.

use foldback_tensor::Place;

use crate::error::{Error, Result};
use crate::module::{Module, Seen, Visitor};

/// A layer's address and the name of its type, valid while it does not move: during a call of `forward`.
pub(crate) type LayerId = (usize, &'static str);

pub(crate) fn id_of<T>(layer: &T) -> LayerId {
    (std::ptr::from_ref(layer).addr(), std::any::type_name::<T>())
}

/// Adds the place of the failing layer, as seen from `layer`, to an error of its `forward`.
///
/// What `#[forward]` writes.
#[doc(hidden)]
pub fn in_layer<T: Module, V>(layer: &T, result: Result<V>) -> Result<V> {
    result.map_err(|e| placed(layer, id_of(layer), e))
}

/// [`in_layer`] of a call that summaries see: what `#[forward]` writes, for a layer's other functions.
macro_rules! call_of {
    ($layer:expr, $result:expr $(,)?) => {{
        let asked = $crate::enter($layer);
        let result = $result;
        if asked {
            $crate::leave($crate::Returned(&result).shapes());
        }
        $crate::in_layer($layer, result)
    }};
}
pub(crate) use call_of;

#[cold]
fn placed(layer: &dyn Module, own: LayerId, mut error: Error) -> Error {
    let place = error.place_mut();
    match place {
        Some(place) if place.origin == own => {}
        Some(place) => match find(layer, place.origin) {
            Some(path) => place.path = path,
            None => {
                let path = std::mem::take(&mut place.path);
                if place.inner.is_empty() {
                    place.inner = path;
                } else if !path.is_empty() {
                    place.inner = format!("{path}: {}", place.inner);
                }
                place.origin = own;
            }
        },
        None => *place = Some(Place { path: String::new(), origin: own, inner: String::new() }),
    }
    error
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
