//! Files of weights: safetensors, and how any file is written so that no reader ever sees half of it.

mod atomic;
mod elements;
mod error;
mod header;
pub mod safetensors;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use atomic::{create_folder, remove_leftovers, write_atomically, write_named};
pub use error::FileFacts;
use foldback_tensor::{IoFacts, StateDict};

use crate::error::Result;

/// Writes the state of a module.
pub(crate) fn save_module(path: &Path, state: &StateDict) -> Result<()> {
    safetensors::write_file("save", path, state, Some(&safetensors::usual()))
}

/// Reads a file and hands its tensors to a module.
pub(crate) fn load_module<R>(path: &Path, load: &mut dyn FnMut(&StateDict) -> Result<R>) -> Result<R> {
    let op = "load";
    let (state, _) = safetensors::read_file(op, path)?;
    load(&state).map_err(|e| FileFacts::contents(op, path.display().to_string(), e))
}

/// The bytes of a regular file; a pipe or a device might never end.
#[doc(hidden)]
pub fn read_bytes(op: &'static str, path: &Path) -> Result<Vec<u8>> {
    let bytes = || {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(std::io::Error::other("this is no regular file"));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(about.len()).unwrap_or(usize::MAX))?;
        // A file that grows meanwhile is read as far as it went.
        file.take(about.len()).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    bytes().map_err(|e| IoFacts::reading(op, path.display(), &e))
}
