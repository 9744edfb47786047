//! Replays golden cases: what PyTorch computed, differentiated or refused, against this library.
//!
//! A *case* is one line of a `.jsonl` or `.jsonl.gz` file, described in `docs/src/golden-cases.md`. [`replay`] reads
//! files, runs each case and gives a [`Report`]. How PyTorch's operations are called here stands in `table`, a row each.

pub(crate) mod args;
pub(crate) mod build;
pub(crate) mod case;
pub(crate) mod close;
mod command;
pub mod page;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod table;

pub use command::command;
pub use replay::{files, replay};
pub use report::{Counts, Report};
pub use run::result_dtypes;
