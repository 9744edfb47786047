//! Files of weights: safetensors, and how any file is written so that no reader ever sees half of it.

mod atomic;
mod elements;
mod error;
mod header;
pub mod safetensors;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use atomic::write_atomically;
pub use error::FileFacts;

use crate::error::Result;
use error::from_io;

/// The bytes of a regular file; a pipe or a device might never end.
pub(crate) fn read(op: &'static str, path: &Path) -> Result<Vec<u8>> {
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
    bytes().map_err(|e| from_io(op, path, &e))
}
