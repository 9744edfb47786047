//! What the operating system says, with or without the file it speaks of.

use std::fmt::Display;
use std::io::ErrorKind;

use super::{Error, Facts, Kind};

/// What the operating system says about a file: of kind [`Kind::Io`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{op}: {path}: {error}: {}", cure_of(*kind, *writes))]
#[non_exhaustive]
pub struct IoFacts {
    /// the operation
    pub op: &'static str,
    /// the file
    pub path: String,
    /// whether it should have been written
    pub writes: bool,
    /// the kind of its error
    pub kind: ErrorKind,
    /// its words
    pub error: String,
}

impl IoFacts {
    /// An error about a file that should be read; the caller's line comes later.
    #[doc(hidden)]
    pub fn reading(op: &'static str, path: impl Display, error: &std::io::Error) -> Error {
        IoFacts { op, path: path.to_string(), writes: false, kind: error.kind(), error: error.to_string() }
            .into()
    }

    /// The same about a file that should be written.
    #[doc(hidden)]
    pub fn writing(op: &'static str, path: impl Display, error: &std::io::Error) -> Error {
        IoFacts { op, path: path.to_string(), writes: true, kind: error.kind(), error: error.to_string() }
            .into()
    }
}

impl Facts for IoFacts {
    fn kind(&self) -> Kind {
        Kind::Io
    }
}

fn cure_of(kind: ErrorKind, writes: bool) -> &'static str {
    use ErrorKind::*;
    match kind {
        NotFound if writes => "check the path, and make its folder first",
        NotFound => "check the path, and the folder it starts from",
        PermissionDenied | ReadOnlyFilesystem => "choose a place that this program may use",
        StorageFull | QuotaExceeded => "make room, or choose another disk",
        OutOfMemory => "the file is larger than the memory that is left",
        _ => "check the path and the disk",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_said_to_be_missing_and_a_missing_folder_to_be_made() {
        let missing = std::io::Error::from(ErrorKind::NotFound);
        let (read, written) =
            (IoFacts::reading("load", "a/b", &missing), IoFacts::writing("save", "a/b", &missing));
        assert_eq!((read.kind(), written.kind(), read.location()), (Kind::Io, Kind::Io, None));
        assert_eq!(
            read.to_string(),
            "load: a/b: entity not found: check the path, and the folder it starts from"
        );
        assert_eq!(
            written.to_string(),
            "save: a/b: entity not found: check the path, and make its folder first"
        );
        assert!(read.facts::<IoFacts>().is_some_and(|facts| facts.path == "a/b" && !facts.writes));
    }
}
