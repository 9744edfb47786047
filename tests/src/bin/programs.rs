//! `programs DIR_OR_FILE...`: replays random programs made with PyTorch; see `docs/src/golden-cases.md`.

use std::process::ExitCode;

use tests::conformance::command;
use tests::programs::replay_programs;

fn main() -> ExitCode {
    command("programs", std::env::args_os().skip(1), replay_programs)
}
