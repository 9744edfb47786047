//! Replays golden cases: what PyTorch computed, differentiated or refused, against this library.
//!
//! A *case* is one line of a `.jsonl` or `.jsonl.gz` file, described in `docs/src/golden-cases.md`. [`replay`] reads
//! files, runs each case and gives a [`Report`]. How PyTorch's operations are called here stands in `table`, a row each.

mod args;
mod build;
mod case;
mod close;
mod replay;
mod report;
mod run;
mod table;

pub use replay::{files, replay};
pub use report::{Counts, Report};
pub use run::result_dtypes;
