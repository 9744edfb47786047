//! What datasets, loaders and readers refuse; each variant holds the facts.

pub(crate) use foldback_tensor::Result;
use foldback_tensor::{Facts, Kind, refuse};

/// Why something about data was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataFacts {
    /// A setting outside its domain.
    #[error("{op}: {name} = {found} is not valid: expected {expected}")]
    Parameter {
        /// what was called
        op: &'static str,
        /// the setting
        name: &'static str,
        /// what it was
        found: String,
        /// its domain, and the cure
        expected: String,
    },
    /// Tensors that should hold the same items and have different numbers of them.
    #[error(
        "{op}: tensor {index} holds {found} items and tensor 0 {expected}: the first axis counts items, give each as many"
    )]
    Items {
        /// what was called
        op: &'static str,
        /// which tensor
        index: usize,
        /// how many items it holds
        found: usize,
        /// how many the first holds
        expected: usize,
    },
    /// An item that is not there.
    #[error("{op}: item {index} is out of bounds for {len} items: give one below {len}")]
    Index {
        /// what was called
        op: &'static str,
        /// which item
        index: usize,
        /// how many there are
        len: usize,
    },
    /// A dataset that panicked while a batch was made.
    #[error("data loader: the dataset panicked in batch {batch}: {message}")]
    Panicked {
        /// the batch, counted from 0 in its epoch
        batch: usize,
        /// what the panic said
        message: String,
    },
    /// A state that does not belong to what it is loaded into.
    #[error("{op}: the entry `{entry}` is {found}, expected {expected}")]
    State {
        /// what it is loaded into
        op: &'static str,
        /// the name of the entry
        entry: &'static str,
        /// what it is
        found: String,
        /// what it should be
        expected: String,
    },
    /// A file that does not hold what it should.
    #[error("{op}: {}{what}", if file.is_empty() { String::new() } else { format!("{file}: ") })]
    File {
        /// what was called
        op: &'static str,
        /// which file; empty for what was no file
        file: String,
        /// what is wrong with it, where, and what to do
        what: String,
    },
}

impl Facts for DataFacts {
    fn kind(&self) -> Kind {
        use DataFacts::*;
        match self {
            Parameter { .. } | State { .. } => Kind::Argument,
            Items { .. } => Kind::Shape,
            Index { .. } => Kind::Index,
            Panicked { .. } => Kind::User,
            File { .. } => Kind::File,
        }
    }
}

/// Refuses a setting unless it holds.
pub(crate) fn check(
    holds: bool,
    op: &'static str,
    name: &'static str,
    found: impl ToString,
    expected: impl Into<String>,
) -> Result<()> {
    if holds {
        return Ok(());
    }
    refuse(DataFacts::Parameter { op, name, found: found.to_string(), expected: expected.into() })
}

/// Refuses an item that is not there.
pub(crate) fn check_index(op: &'static str, index: usize, len: usize) -> Result<()> {
    if index < len { Ok(()) } else { refuse(DataFacts::Index { op, index, len }) }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::Error;

    use super::*;

    #[test]
    fn every_fact_has_a_kind() {
        use DataFacts::*;
        let op = "data loader";
        let text = String::new;
        let all = [
            (Parameter { op, name: "batch_size", found: text(), expected: text() }, Kind::Argument),
            (Items { op, index: 1, found: 2, expected: 3 }, Kind::Shape),
            (Index { op, index: 1, len: 1 }, Kind::Index),
            (Panicked { batch: 0, message: text() }, Kind::User),
            (State { op, entry: "epoch", found: text(), expected: text() }, Kind::Argument),
            (File { op, file: text(), what: text() }, Kind::File),
        ];
        for (facts, kind) in all {
            let e = Error::from(facts.clone());
            assert_eq!(e.kind(), kind, "{e}");
            assert_eq!(e, facts);
        }
    }
}
