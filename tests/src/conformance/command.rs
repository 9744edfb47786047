//! The command line of a replayer.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use super::replay::files;
use super::report::Report;

/// Replays the files and folders that are named as arguments and prints the report; a failure fails the command.
pub fn command(
    name: &str,
    args: impl IntoIterator<Item = OsString>,
    replay: fn(&[PathBuf]) -> io::Result<Report>,
) -> ExitCode {
    let paths: Vec<PathBuf> = args.into_iter().map(PathBuf::from).collect();
    if paths.is_empty() {
        eprintln!("usage: {name} DIR_OR_FILE...");
        return ExitCode::from(2);
    }
    match files(&paths).and_then(|files| replay(&files)) {
        Ok(report) => {
            print!("{report}");
            if report.total().failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(e) => {
            eprintln!("{name}: {e}");
            ExitCode::from(2)
        }
    }
}
