//! What is wrong with a file, or with what should be written to one.

use std::path::Path;

use foldback_tensor::{Error, Facts, Kind};

/// Why a file could not be read or written. Nothing has been loaded when one is returned, and what stood at the path stays.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FileFacts {
    /// Bytes that are no such file.
    #[error("{op}: {}{problem}: {cure}", place(path))]
    Malformed {
        /// the operation
        op: &'static str,
        /// the file; empty for bytes
        path: String,
        /// what is wrong
        problem: String,
        /// what to do
        cure: &'static str,
    },
    /// Elements of a type that tensors do not have.
    #[error(
        "{op}: {}tensor {name:?} has dtype {dtype}, which tensors here do not have: write it as F32, F64, F16, BF16, I64 or BOOL",
        place(path)
    )]
    DType {
        /// the operation
        op: &'static str,
        /// the file; empty for bytes
        path: String,
        /// the tensor
        name: String,
        /// its type, as the file names it
        dtype: String,
    },
    /// Tensors that are not those of what they should be loaded into.
    #[error("{op}: {place}: {error}")]
    Contents {
        /// the operation
        op: &'static str,
        /// the file, or the entry of a file
        place: String,
        /// what the error is about that loading gave
        kind: Kind,
        /// its words
        error: String,
    },
    /// Something that no such file can hold.
    #[error("{op}: {problem}")]
    Unwritable {
        /// the operation
        op: &'static str,
        /// what, and what to do
        problem: String,
    },
}

impl Facts for FileFacts {
    fn kind(&self) -> Kind {
        use FileFacts::*;
        match self {
            Malformed { .. } | DType { .. } => Kind::File,
            Contents { kind, .. } => *kind,
            Unwritable { .. } => Kind::Argument,
        }
    }
}

impl FileFacts {
    /// An error of loading what stands at some place.
    #[doc(hidden)]
    pub fn contents(op: &'static str, place: String, error: Error) -> Error {
        let (kind, error) = (error.kind(), error.with_location(None).to_string());
        Error::from(FileFacts::Contents { op, place, kind, error })
    }

    /// The same facts about a file.
    pub(crate) fn in_file(mut self, file: &Path) -> FileFacts {
        if let FileFacts::Malformed { path, .. } | FileFacts::DType { path, .. } = &mut self {
            *path = file.display().to_string();
        }
        self
    }
}

fn place(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_has_a_kind_and_a_cure() {
        let (op, path) = ("load", String::new);
        let malformed =
            FileFacts::Malformed { op, path: path(), problem: "it is cut".into(), cure: "save again" };
        assert_eq!(malformed.to_string(), "load: it is cut: save again");
        assert_eq!(malformed.kind(), Kind::File);
        let named = malformed.in_file(Path::new("a/b"));
        assert_eq!(named.to_string(), "load: a/b: it is cut: save again");
        let dtype = FileFacts::DType { op, path: path(), name: "x".into(), dtype: "I32".into() };
        assert_eq!(dtype.kind(), Kind::File);
        assert!(dtype.to_string().starts_with("load: tensor \"x\" has dtype I32, "));
        let contents = FileFacts::contents(op, "a/b".into(), named.into());
        assert_eq!(
            (contents.kind(), contents.to_string()),
            (Kind::File, "load: a/b: load: a/b: it is cut: save again".into())
        );
        assert_eq!(FileFacts::Unwritable { op, problem: path() }.kind(), Kind::Argument);
    }
}
