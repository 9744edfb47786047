//! `conformance [--rewrite OUT] DIR_OR_FILE...`: replays golden cases made with PyTorch; see `docs/src/golden-cases.md`.

use std::ffi::OsString;
use std::process::ExitCode;

use tests::conformance::{command, replay};
use tests::rewrite_to;

fn main() -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(at) = args.iter().position(|arg| arg == "--rewrite") {
        let folder = args.splice(at..args.len().min(at + 2), []).nth(1);
        rewrite_to(folder.unwrap_or_default().into());
    }
    command("conformance", args, replay)
}
