//! `conformance DIR_OR_FILE...`: replays golden cases made with PyTorch; see `docs/src/golden-cases.md`.

use std::path::PathBuf;
use std::process::ExitCode;

use tests::conformance::{files, replay};

fn main() -> ExitCode {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.is_empty() {
        eprintln!("usage: conformance DIR_OR_FILE...");
        return ExitCode::from(2);
    }
    match files(&paths).and_then(|files| replay(&files)) {
        Ok(report) => {
            print!("{report}");
            if report.total().failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(e) => {
            eprintln!("conformance: {e}");
            ExitCode::from(2)
        }
    }
}
