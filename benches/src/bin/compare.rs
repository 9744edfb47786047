//! Measures every workload at several numbers of threads, beside the machine's limits and other libraries.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use benches::arguments::{Arguments, USAGE};
use benches::limits::Limits;
use benches::python::{self, keep_freed_memory};
use benches::record::{Record, version_from_line};
use benches::results;
use benches::table::Report;
use benches::worker::{self, Task};
use benches::workloads::{self, Workload};
use benches::{machine, peers};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|w| w == worker::WORD) {
        return match Task::parse(&words[1..]) {
            Some(task) => {
                task.run();
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        };
    }
    let (arguments, workloads) = match selected(words) {
        Ok(selected) => selected,
        Err(message) => {
            eprint!("{message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if arguments.help {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if arguments.list {
        workloads.iter().for_each(|w| println!("{:<20} {}", w.key, w.title));
        return ExitCode::SUCCESS;
    }
    match compare(&arguments, &workloads) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn selected(words: Vec<String>) -> Result<(Arguments, Vec<Workload>), String> {
    let arguments = Arguments::parse(words)?;
    let workloads = arguments.select(workloads::all())?;
    Ok((arguments, workloads))
}

/// Runs everything and prints the tables. False if somebody computed something else than we did.
fn compare(arguments: &Arguments, workloads: &[Workload]) -> Result<bool, Box<dyn Error>> {
    let (mut limits, mut found): (Vec<Limits>, _) = (Vec::new(), Findings::default());
    for _ in 0..arguments.rounds {
        for &threads in &arguments.threads {
            eprintln!("threads {threads}: the machine's limits");
            let now = Limits::measure(threads);
            match limits.iter_mut().find(|l| l.threads == threads) {
                Some(before) => *before = before.better_of(now),
                None => limits.push(now),
            }
            rust_runners(arguments, workloads, threads, &mut found)?;
            python_runners(arguments, workloads, threads, &mut found);
        }
    }
    let report = Report { workloads, limits: &limits, records: &found.records, best: arguments.best };
    let (notes, same) = report.notes();
    let about = [machine::description(), machine::versions(&found.versions)];
    let text = |markdown| results::page(&about, &report, &notes, arguments, markdown);
    print!("{}", text(false));
    if let Some(path) = &arguments.markdown {
        results::write(path, &text(true))?;
        eprintln!("written to {}", path.display());
    }
    Ok(same)
}

/// What the measuring processes printed.
#[derive(Default)]
struct Findings {
    records: Vec<Record>,
    versions: Vec<String>,
}

/// Ours and the compiled peers, once as they are, and the peers once more with an allocator that keeps memory; of the
/// two the faster counts.
fn rust_runners(
    arguments: &Arguments,
    workloads: &[Workload],
    threads: usize,
    found: &mut Findings,
) -> Result<(), Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let keys = workloads.iter().map(|w| w.key.to_owned()).collect();
    let task = Task { threads, quick: arguments.quick, peers_only: false, mix: arguments.mix, keys };
    let first = collect(&mut task.command(&program), "Rust", threads, &mut found.versions);
    first.into_iter().for_each(|record| results::keep_faster(&mut found.records, record));
    if peers::ANY {
        let mut command = Task { peers_only: true, ..task }.command(&program);
        keep_freed_memory(&mut command);
        for record in collect(&mut command, "Rust peers, tuned", threads, &mut found.versions) {
            results::keep_faster(&mut found.records, record);
        }
    }
    Ok(())
}

fn python_runners(arguments: &Arguments, workloads: &[Workload], threads: usize, found: &mut Findings) {
    let own: Vec<_> = workloads.iter().filter(|w| w.same_as == w.key).map(|w| w.key.to_owned()).collect();
    for runner in python::RUNNERS {
        let mut records = Vec::new();
        for interpreter in &arguments.python {
            let mut command = python::command(interpreter, runner, threads, arguments.quick, &own);
            records.extend(collect(&mut command, runner, threads, &mut found.versions));
        }
        // With several interpreters a package may be missing in all but one.
        if records.iter().any(|r| !r.workload.is_empty()) {
            records.retain(|r| !r.workload.is_empty());
        }
        records.into_iter().for_each(|record| results::keep_faster(&mut found.records, record));
    }
}

/// Starts a process and takes its records as they come. One that fails leaves a record that says so.
fn collect(command: &mut Command, runner: &str, threads: usize, versions: &mut Vec<String>) -> Vec<Record> {
    let failed = |why: String| Record {
        workload: String::new(),
        runner: runner.to_owned(),
        threads,
        outcome: Err(why),
    };
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(e) => return vec![failed(format!("{}: {e}", command.get_program().display()))],
    };
    let mut records = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok) {
        if let Some(record) = Record::from_line(&line) {
            eprintln!("threads {threads}: {} {}", record.runner, record.workload);
            records.push(record);
        } else if let Some(version) = version_from_line(&line) {
            versions.push(version);
        }
    }
    match child.wait() {
        Ok(status) if status.success() => {}
        Ok(status) => records.push(failed(format!("the process ended with {status}; what it had is shown"))),
        Err(e) => records.push(failed(e.to_string())),
    }
    records
}
