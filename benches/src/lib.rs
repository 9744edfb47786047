//! How the benchmarks measure and print.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// What a workload's time is divided by.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// elements of the largest operand
    Elements(usize),
    /// recorded operations
    Nodes(usize),
    /// floating-point operations
    Flops(usize),
}

/// Time that the runs of one workload may take together.
const BUDGET: Duration = Duration::from_millis(400);

/// Runs a workload until its time is used up and prints median, quartiles and the time per unit.
///
/// # Panics
/// If the workload fails: a benchmark of something that does not work has no meaning.
pub fn workload<T, E: std::fmt::Display>(name: &str, unit: Unit, mut f: impl FnMut() -> Result<T, E>) {
    let mut once = || {
        let start = Instant::now();
        let result = f().unwrap_or_else(|e| panic!("{name}: {e}"));
        black_box(&result);
        drop(result);
        start.elapsed().as_secs_f64() * 1e6
    };
    for _ in 0..3 {
        once();
    }
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 5 || (start.elapsed() < BUDGET && times.len() < 1000) {
        times.push(once());
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let median = at(0.5);
    let per = match unit {
        Unit::Elements(n) => format!("{:8.3} ns/element", median * 1e3 / n as f64),
        Unit::Nodes(n) => format!("{:8.1} ns/node", median * 1e3 / n as f64),
        Unit::Flops(n) => format!("{:8.1} GFLOP/s", n as f64 / median / 1e3),
    };
    println!("{name:<46} {median:>11.1} us  ({:.1} to {:.1})  {per}", at(0.25), at(0.75));
}
