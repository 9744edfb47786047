//! `conformance DIR_OR_FILE...`: replays golden cases made with PyTorch; see `docs/src/golden-cases.md`.

use std::process::ExitCode;

use tests::conformance::{command, replay};

fn main() -> ExitCode {
    command("conformance", replay)
}
