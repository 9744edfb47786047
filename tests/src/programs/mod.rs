//! Replays random programs: what PyTorch computed when operations, writes and passes followed one another.
//!
//! A *program* is one line of a `.jsonl` or `.jsonl.gz` file, described in `docs/src/golden-cases.md`. Every statement is
//! one public call of the library; how operations are called stands in the table of the golden cases.

mod machine;
mod program;
mod run;
mod show;
mod writes;

use std::io;
use std::path::PathBuf;

use crate::conformance::Report;
use crate::conformance::replay::judge_lines;
use program::Program;

/// Runs every program of some files. A panic or a hang is a failure of its program, and the replay goes on.
///
/// # Errors
/// If a file cannot be read.
pub fn replay_programs(files: &[PathBuf]) -> io::Result<Report> {
    judge_lines(
        files,
        |line, _| Program::parse(line),
        run::run,
        |p| (p.tags.join(", "), format!("program {}", p.id), p.is_special()),
    )
}
