//! Measures random work of a kind beside PyTorch, or `fuse!` beside operators, in turns of some milliseconds, and prints what is worst.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use benches::python::keep_freed_memory;
use benches::survey::{KINDS, Passes, RandomWork, works};
use benches::sweep::Run;

const USAGE: &str = "\
usage: survey [--python PATH] [--kind products] [--passes forward] [--seed 1] [--count 100] [--elements FROM..TO] [--milliseconds 250] [--threads 1] [--worst 30] [--work TEXT]

  --python PATH      an interpreter that has PyTorch: python3
  --kind KIND        products, pointwise, folds or windows, beside PyTorch; or fused, beside operators
  --passes PASSES    forward or both; both records the work, and asks for the gradients of all operands
  --seed N           other shapes
  --count N          how many
  --elements F..T    of so many elements, T at least twice F, and not products or windows: as many as is usual for the kind
  --milliseconds N   for each
  --threads N        of ours and of the peer
  --worst N          how many are printed
  --work TEXT        this work and no other, as it is printed; may be given several times
";

struct Arguments {
    python: PathBuf,
    kind: String,
    passes: Passes,
    seed: u32,
    count: usize,
    elements: Option<Range<usize>>,
    budget: Duration,
    threads: usize,
    worst: usize,
    works: Vec<RandomWork>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let (python, kind, budget) = ("python3".into(), KINDS[0].to_owned(), Duration::from_millis(250));
    let mut arguments = Arguments {
        python,
        kind,
        passes: Passes::Forward,
        seed: 1,
        count: 100,
        elements: None,
        budget,
        threads: 1,
        worst: 30,
        works: vec![],
    };
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--python" => arguments.python = value.into(),
            "--kind" => arguments.kind = value,
            "--passes" if value == "forward" => arguments.passes = Passes::Forward,
            "--passes" if value == "both" => arguments.passes = Passes::Both,
            "--seed" => arguments.seed = value.parse().ok()?,
            "--count" => arguments.count = value.parse().ok()?,
            "--elements" => {
                let (from, to) = value.split_once("..")?;
                let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
                // Sizes come to some number between any number and its double.
                arguments.elements = Some((1..=to / 2).contains(&from).then_some(from..to)?);
            }
            "--milliseconds" => arguments.budget = Duration::from_millis(value.parse().ok()?),
            "--threads" => arguments.threads = value.parse().ok()?,
            "--worst" => arguments.worst = value.parse().ok()?,
            "--work" => arguments.works.push(RandomWork::parse(&value)?),
            _ => return None,
        }
    }
    KINDS.contains(&&*arguments.kind).then_some(arguments)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments(std::env::args().skip(1)) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match survey(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// The process that runs the same work in PyTorch.
struct PyTorch {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl PyTorch {
    fn start(python: &Path, threads: usize, passes: Passes) -> Result<PyTorch, Box<dyn Error>> {
        let mut command = Command::new(python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python/survey.py")).arg(threads.to_string());
        command.arg(if passes == Passes::Both { "both" } else { "forward" });
        for variable in ["OMP_NUM_THREADS", "MKL_NUM_THREADS"] {
            command.env(variable, threads.to_string());
        }
        // Threads that spin when their work is done would take the time of ours, which comes next.
        command.envs([("GOMP_SPINCOUNT", "0"), ("OMP_WAIT_POLICY", "PASSIVE"), ("KMP_BLOCKTIME", "0")]);
        keep_freed_memory(&mut command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (to, from) =
            (child.stdin.take().expect("it is piped"), child.stdout.take().expect("it is piped"));
        Ok(PyTorch { child, to, from: BufReader::new(from) })
    }

    fn ask(&mut self, line: &str) -> Result<[f64; 2], Box<dyn Error>> {
        writeln!(self.to, "{line}")?;
        let mut answer = String::new();
        self.from.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }
}

/// What the work is run beside.
enum Peer {
    PyTorch(PyTorch),
    /// ours, by operators
    Operators(Option<Run>),
}

impl Peer {
    fn start(arguments: &Arguments) -> Result<Peer, Box<dyn Error>> {
        Ok(match &*arguments.kind {
            "fused" => Peer::Operators(None),
            _ => Peer::PyTorch(PyTorch::start(&arguments.python, arguments.threads, arguments.passes)?),
        })
    }

    /// Gets a piece of work ready.
    fn prepare(&mut self, work: &RandomWork, passes: Passes) -> Result<(), Box<dyn Error>> {
        match self {
            Peer::PyTorch(python) => drop(python.ask(&work.to_json().to_string())?),
            Peer::Operators(run) => drop(measured(run.insert(work.prepare_operators(passes)?), 3)?),
        }
        Ok(())
    }

    /// The fastest and the median of some runs, in nanoseconds.
    fn measured(&mut self, repeats: usize) -> Result<[f64; 2], Box<dyn Error>> {
        match self {
            Peer::PyTorch(python) => python.ask(&repeats.to_string()),
            Peer::Operators(run) => Ok(measured(run.as_mut().ok_or("nothing is prepared")?, repeats)?),
        }
    }
}

/// The fastest and the median of some runs, in nanoseconds.
fn measured(run: &mut Run, repeats: usize) -> foldback::Result<[f64; 2]> {
    let mut times = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let begin = Instant::now();
        run()?;
        times.push(begin.elapsed().as_nanos() as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok([times[0], times[repeats / 2]])
}

/// Our time over the peer's: of the fastest runs, and the median of that of turns.
struct Ratios {
    best: f64,
    median: f64,
    times: [f64; 2],
}

fn ratios(work: &RandomWork, peer: &mut Peer, arguments: &Arguments) -> Result<Ratios, Box<dyn Error>> {
    let mut run = work.prepare(arguments.passes)?;
    let [once, _] = measured(&mut run, 3)?;
    peer.prepare(work, arguments.passes)?;
    let repeats = ((4e6 / once) as usize).clamp(1, 300);
    let (start, mut fastest, mut turns) = (Instant::now(), [f64::INFINITY; 2], Vec::new());
    while start.elapsed() < arguments.budget || turns.len() < 3 {
        let [ours, theirs] = [measured(&mut run, repeats)?, peer.measured(repeats)?];
        fastest = [fastest[0].min(ours[0]), fastest[1].min(theirs[0])];
        turns.push(ours[1] / theirs[1]);
        std::thread::sleep(Duration::from_millis(1));
    }
    turns.sort_by(f64::total_cmp);
    Ok(Ratios { best: fastest[0] / fastest[1], median: turns[turns.len() / 2], times: fastest })
}

fn survey(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    foldback::tensor::try_set_num_threads(arguments.threads)?;
    let mut peer = Peer::start(arguments)?;
    let mut all = Vec::new();
    let work = match &arguments.works[..] {
        [] => works(&arguments.kind, arguments.seed, arguments.count, arguments.elements.clone()),
        chosen => chosen.to_vec(),
    };
    for work in work {
        all.push((ratios(&work, &mut peer, arguments).map_err(|e| format!("{work}: {e}"))?, work));
    }
    if let Peer::PyTorch(mut python) = peer {
        drop(python.to);
        python.child.wait()?;
    }
    let both = |r: &Ratios| r.best.min(r.median);
    all.sort_by(|(a, _), (b, _)| both(b).total_cmp(&both(a)));
    println!(
        "our time over {}, of the fastest runs and the median of turns; {} threads",
        if arguments.kind == "fused" { "that of operators" } else { "PyTorch's" },
        arguments.threads
    );
    for (r, work) in all.iter().take(arguments.worst) {
        let [ours, theirs] = r.times.map(|ns| ns / 1000.0);
        println!("{:>5.2} {:>5.2} {ours:>10.1} {theirs:>10.1} us  {work}", r.best, r.median);
    }
    let mean = |of: fn(&Ratios) -> f64| {
        (all.iter().map(|(r, _)| of(r).ln()).sum::<f64>() / all.len().max(1) as f64).exp()
    };
    let above = all.iter().filter(|(r, _)| both(r) > 1.1).count();
    println!(
        "geometric means {:.2} and {:.2}; above 1.1 in both: {above} of {}",
        mean(|r| r.best),
        mean(|r| r.median),
        all.len()
    );
    Ok(())
}
