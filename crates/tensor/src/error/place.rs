//! Where in a model an error happened, as the modules on its way out wrote it down.

use std::fmt;

/// The place of the layer that failed.
#[doc(hidden)]
#[derive(Debug)]
pub struct Place {
    /// the names of fields joined by dots, seen from the outermost module that has seen the error; empty in the layer itself
    pub path: String,
    /// which layer it is: its address and the name of its type
    pub origin: (usize, &'static str),
    /// the path inside that layer, where a layer further in had no name outside it
    pub inner: String,
}

impl fmt::Display for Place {
    /// With a colon behind each part; nothing for a layer that is not part of a model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.path, &self.inner] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        Ok(())
    }
}
