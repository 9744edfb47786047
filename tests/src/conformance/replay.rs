//! Files of cases, run one after another on a thread that is watched.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use super::case::Case;
use super::report::Report;
use super::run::{Verdict, run};
use crate::training::{self, TrainingCase};

/// A case that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The golden files under some paths: files as they are, folders searched to any depth, in the order of their names.
///
/// # Errors
/// If a path cannot be read.
pub fn files(paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let mut inside =
                fs::read_dir(path)?.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
            inside.retain(|p| p.is_dir() || is_golden(p));
            inside.sort();
            found.extend(files(&inside)?);
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

fn is_golden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
}

/// Runs every case of some files. A panic or a hang is a failure of its case, and the replay goes on.
///
/// # Errors
/// If a file cannot be read.
pub fn replay(files: &[PathBuf]) -> io::Result<Report> {
    judge_lines(files, Line::parse, Line::run, Line::about)
}

/// A line of a golden file: a case of an operation, or of training.
enum Line {
    Operation(Case),
    Training(TrainingCase),
}

impl Line {
    fn parse(line: &str, folder: &Path) -> Result<Line, String> {
        let value: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        if value.get("kind").is_some() {
            return TrainingCase::new(value, folder).map(Line::Training);
        }
        Case::new(&value).map(Line::Operation)
    }

    fn run(&self) -> Verdict {
        match self {
            Line::Operation(case) => run(case),
            Line::Training(case) => training::run(case),
        }
    }

    fn about(&self) -> (String, String, bool) {
        let (name, id, special) = match self {
            Line::Operation(case) => (case.op.clone(), case.id, case.is_special()),
            Line::Training(case) => (case.name(), case.id, case.is_special()),
        };
        (name.clone(), format!("{name}#{id}"), special)
    }
}

/// Runs what stands in each line of some files: `parse` reads it, `run` judges it, and `about` gives the name that it
/// is counted under, what it is called in a failure, and whether it is about a special point.
pub(crate) fn judge_lines<C: Send + 'static>(
    files: &[PathBuf],
    parse: fn(&str, &Path) -> Result<C, String>,
    run: fn(&C) -> Verdict,
    about: fn(&C) -> (String, String, bool),
) -> io::Result<Report> {
    let silence = SilentPanics::new();
    let mut report = Report::default();
    let mut worker = Worker::start(run);
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (number, line) in lines(path)?.enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            match parse(&line, path.parent().unwrap_or(Path::new(""))) {
                Ok(case) => {
                    let (kind, called, special) = about(&case);
                    let place = format!("{called} ({name}:{})", number + 1);
                    report.note(&kind, &place, special, worker.judge(case));
                }
                Err(e) => report.note(&name, &format!("{name}:{}", number + 1), false, Verdict::Failed(e)),
            }
        }
    }
    drop(silence);
    Ok(report)
}

fn lines(path: &Path) -> io::Result<io::Lines<BufReader<Box<dyn Read>>>> {
    let file = File::open(path)?;
    let zipped = path.extension().is_some_and(|e| e == "gz");
    let reader: Box<dyn Read> = if zipped { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    Ok(BufReader::new(reader).lines())
}

/// The thread that runs cases.
struct Worker<C> {
    cases: Sender<C>,
    verdicts: Receiver<Verdict>,
    run: fn(&C) -> Verdict,
}

impl<C: Send + 'static> Worker<C> {
    fn start(run: fn(&C) -> Verdict) -> Worker<C> {
        let (cases, todo) = mpsc::channel::<C>();
        let (done, verdicts) = mpsc::channel();
        thread::Builder::new()
            .name("golden cases".into())
            .spawn(move || {
                for case in todo {
                    let verdict = panic::catch_unwind(AssertUnwindSafe(|| run(&case)));
                    let verdict =
                        verdict.unwrap_or_else(|_| Verdict::Failed(format!("panic: {}", last_panic())));
                    if done.send(verdict).is_err() {
                        return;
                    }
                }
            })
            .expect("a thread can be started");
        Worker { cases, verdicts, run }
    }

    /// Runs a case. If it hangs, its thread is left alone and another one takes over.
    fn judge(&mut self, case: C) -> Verdict {
        self.cases.send(case).expect("the worker outlives its sender");
        match self.verdicts.recv_timeout(PATIENCE) {
            Ok(verdict) => verdict,
            Err(RecvTimeoutError::Timeout) => {
                *self = Worker::start(self.run);
                Verdict::Failed(format!("no result within {PATIENCE:?}"))
            }
            Err(RecvTimeoutError::Disconnected) => {
                *self = Worker::start(self.run);
                Verdict::Failed("the thread died".into())
            }
        }
    }
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

fn last_panic() -> String {
    LAST.with(|l| l.borrow().clone())
}

type Hook = Box<dyn Fn(&panic::PanicHookInfo<'_>) + Sync + Send + 'static>;

/// While it lives, panics of worker threads are remembered and not printed.
struct SilentPanics(Option<Hook>);

impl SilentPanics {
    fn new() -> SilentPanics {
        let old = panic::take_hook();
        panic::set_hook(Box::new(|info| LAST.with(|l| *l.borrow_mut() = info.to_string())));
        SilentPanics(Some(old))
    }
}

impl Drop for SilentPanics {
    fn drop(&mut self) {
        if let (Some(old), false) = (self.0.take(), thread::panicking()) {
            panic::set_hook(old);
        }
    }
}
