//! Measures what an element costs in every case of the sweep, at every size, and marks what costs too much.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use benches::python::keep_freed_memory;
use benches::sweep::{Case, Measured, Run, cases, picture};

const USAGE: &str = "\
usage: sweep [--only TEXT] [--sizes 1000,100000] [--milliseconds 20] [--threads 1] [--python PATH] [--svg PATH]

  --only TEXT        families and cases whose names have it in them
  --sizes LIST       numbers of elements
  --milliseconds N   for each case at each size
  --threads N        of ours and of PyTorch
  --python PATH      an interpreter that has PyTorch, to be measured beside
  --svg PATH         where a picture goes
";

struct Arguments {
    only: String,
    sizes: Vec<usize>,
    budget: Duration,
    threads: usize,
    python: Option<PathBuf>,
    svg: Option<PathBuf>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let sizes = (0..=8).map(|power| 10usize.pow(power)).collect();
    let budget = Duration::from_millis(20);
    let mut arguments = Arguments { only: String::new(), sizes, budget, threads: 1, python: None, svg: None };
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--only" => arguments.only = value,
            "--sizes" => arguments.sizes = value.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?,
            "--milliseconds" => arguments.budget = Duration::from_millis(value.parse().ok()?),
            "--threads" => arguments.threads = value.parse().ok()?,
            "--python" => arguments.python = Some(value.into()),
            "--svg" => arguments.svg = Some(value.into()),
            _ => return None,
        }
    }
    Some(arguments)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments(std::env::args().skip(1)) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match sweep(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// The nanoseconds that PyTorch takes per element, by family and case.
type Peer = HashMap<(String, String), Vec<f64>>;

fn measure_peer(python: &Path, arguments: &Arguments) -> Result<Peer, Box<dyn Error>> {
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python/sweep.py"));
    command.args([arguments.threads.to_string(), arguments.budget.as_millis().to_string()]);
    command.args(arguments.sizes.iter().map(usize::to_string));
    keep_freed_memory(&mut command);
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let mut peer = Peer::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        peer.insert((word("family"), word("name")), serde_json::from_value(line["ns"].clone())?);
    }
    Ok(peer)
}

/// One line for each case and size: nanoseconds per element, beside the friendly case and beside PyTorch.
fn sweep(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    foldback::tensor::try_set_num_threads(arguments.threads)?;
    let peer = arguments.python.as_deref().map(|python| measure_peer(python, arguments)).transpose()?;
    println!(
        "ns per element, over the friendly case (! is too much), and over PyTorch; {} threads",
        arguments.threads
    );
    print!("{:<30} {:<36}", "family", "case");
    arguments.sizes.iter().for_each(|n| print!(" {:>21}", format!("{n:e}")));
    println!();
    let (mut family, mut friendly, mut all) = ("", Vec::new(), Vec::new());
    let is_wanted =
        |case: &Case| case.family.contains(&arguments.only) || case.name.contains(&arguments.only);
    // The friendly case of a family is measured with whatever is wanted of it.
    let families: HashSet<_> =
        cases().iter().filter(|case| is_wanted(case)).map(|case| case.family).collect();
    for case in cases() {
        let is_first = family != case.family;
        if !families.contains(case.family) || !is_first && !is_wanted(&case) {
            continue;
        }
        let mut times = Vec::new();
        for &n in &arguments.sizes {
            times.push(per_element(&case, n, arguments.budget)?);
        }
        if is_first {
            (family, friendly) = (case.family, times.clone());
        }
        let key = (case.family.to_owned(), case.name.to_owned());
        let theirs = peer.as_ref().and_then(|peer| peer.get(&key));
        let measured = Measured {
            over_friendly: times.iter().zip(&friendly).map(|(time, best)| time / best).collect(),
            over_peer: theirs
                .map(|theirs| times.iter().zip(theirs).map(|(own, their)| own / their).collect()),
            case,
        };
        print_line(&measured, &times);
        all.push(measured);
    }
    if let Some(path) = &arguments.svg {
        std::fs::write(path, picture(&arguments.sizes, &all))?;
    }
    Ok(())
}

fn print_line(measured: &Measured, times: &[f64]) {
    print!("{:<30} {:<36}", measured.case.family, measured.case.name);
    for (i, (time, ratio)) in times.iter().zip(&measured.over_friendly).enumerate() {
        let mark = if *ratio > measured.case.allowed { '!' } else { ' ' };
        let beside = measured.over_peer.as_ref().map_or(String::new(), |peer| format!("{:.2}", peer[i]));
        print!(" {time:>8.3} {ratio:>5.2}{mark}{beside:>6}");
    }
    println!();
}

/// The fastest run, in nanoseconds per element.
fn per_element(case: &Case, n: usize, budget: Duration) -> foldback::Result<f64> {
    let (elements, mut run) = (case.of)(n)?;
    let repeats = repeats(&mut run)?;
    let (start, mut fastest) = (Instant::now(), f64::INFINITY);
    while start.elapsed() < budget {
        let begin = Instant::now();
        for _ in 0..repeats {
            run()?;
        }
        fastest = fastest.min(begin.elapsed().as_nanos() as f64 / repeats as f64);
    }
    Ok(fastest / elements as f64)
}

/// How many runs fill a sample that the clock can measure.
fn repeats(run: &mut Run) -> foldback::Result<usize> {
    run()?;
    let begin = Instant::now();
    run()?;
    let once = begin.elapsed().as_nanos().max(1);
    Ok((50_000 / once).clamp(1, 1000) as usize)
}
