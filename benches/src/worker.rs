//! A process that measures all Rust runners with one number of threads, and prints a record for each.
//!
//! Rayon's own pool, which the peers use, takes its size from the environment when a process starts; therefore each
//! number of threads has a process of its own. In it the runners take turns, sample by sample.

use std::path::Path;
use std::process::Command;

use foldback::tensor::{release_memory, set_num_threads};
use foldback::{Result, Tensor};

use crate::checksum::Checksum;
use crate::inputs::hash;
use crate::measure::{Effort, Job, guarded, interleaved};
use crate::peers;
use crate::record::Record;
use crate::workloads::{self, Workload};

/// The first word that makes `compare` a worker.
pub const WORD: &str = "worker";

/// Candle walks and drops its graphs by recursion, a frame or more per node.
const STACK: usize = 4 << 30;

/// What a worker is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// how many threads every runner may use
    pub threads: usize,
    /// few samples
    pub quick: bool,
    /// leave ourselves out
    pub peers_only: bool,
    /// the seed by which workloads are mixed; 0 where each starts as if it were alone
    pub mix: u32,
    /// the keys of workloads
    pub keys: Vec<String>,
}

impl Task {
    /// The command that carries it out.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let (quick, peers_only) = (self.quick.to_string(), self.peers_only.to_string());
        command.args([WORD, &self.threads.to_string(), &quick, &peers_only, &self.mix.to_string()]);
        command.args(&self.keys);
        command.env("RAYON_NUM_THREADS", self.threads.to_string());
        command
    }

    /// From the words behind [`WORD`].
    pub fn parse(words: &[String]) -> Option<Task> {
        let [threads, quick, peers_only, mix, keys @ ..] = words else { return None };
        Some(Task {
            threads: threads.parse().ok()?,
            quick: quick.parse().ok()?,
            peers_only: peers_only.parse().ok()?,
            mix: mix.parse().ok()?,
            keys: keys.to_vec(),
        })
    }

    /// Measures and prints.
    ///
    /// # Panics
    /// If the system refuses the thread.
    pub fn run(self) {
        // An error of a peer arrives as a record; its panic needs no second message.
        std::panic::set_hook(Box::new(|_| {}));
        let work = std::thread::Builder::new().stack_size(if peers::ANY { STACK } else { 8 << 20 });
        let measuring = work.spawn(move || self.measure()).expect("the system grants a thread");
        measuring.join().expect("panics are caught where they happen");
    }

    fn measure(&self) {
        set_num_threads(self.threads);
        let effort = if self.quick { Effort::QUICK } else { Effort::FULL };
        let all = workloads::all();
        let mut chosen: Vec<_> = all.iter().filter(|w| self.keys.iter().any(|k| k == w.key)).collect();
        if self.mix > 0 {
            let mut places = (0..).map(|place| hash(place, self.mix));
            chosen.sort_by_cached_key(|_| places.next());
        }
        for (place, workload) in (0..).zip(chosen) {
            if self.mix > 0 {
                other_buffers(hash(place, !self.mix));
            }
            for record in self.records(workload, &effort) {
                println!("{}", record.to_line());
            }
            if self.mix == 0 {
                release_memory();
            }
        }
    }

    /// All runners' results for one workload.
    fn records(&self, workload: &Workload, effort: &Effort) -> Vec<Record> {
        let (mut names, mut jobs, mut sums, mut failed) = (vec![], vec![], vec![], vec![]);
        for (name, job) in self.runners(workload) {
            // The checksum comes first: a job that cannot compute the result is not worth measuring.
            match guarded(|| checked(job)) {
                Ok((job, checksums)) => {
                    names.push(name);
                    jobs.push(job);
                    sums.push(checksums);
                }
                Err(why) => failed.push(self.record(workload, name, Err(why))),
            }
        }
        let times = interleaved(&mut jobs, effort);
        let measured = names.into_iter().zip(times).zip(sums);
        let outcomes = measured.map(|((name, times), sums)| (name, times.map(|t| (t, sums))));
        outcomes.map(|(name, outcome)| self.record(workload, name, outcome)).chain(failed).collect()
    }

    fn runners(&self, workload: &Workload) -> Vec<(&'static str, Making)> {
        let mut runners = Vec::new();
        if !self.peers_only {
            runners.push(("foldback", workload.job()));
        }
        // Another form of the same work has no peers of its own.
        if workload.same_as == workload.key {
            runners.extend(peers::jobs(workload.key));
        }
        runners
    }

    fn record(
        &self,
        workload: &Workload,
        runner: &str,
        outcome: Result<(crate::measure::Times, Vec<Checksum>), String>,
    ) -> Record {
        Record { workload: workload.key.into(), runner: runner.into(), threads: self.threads, outcome }
    }
}

/// Leaves the memory as the preparation of data might: tensors of sizes that no workload has have been written, and dropped in another order.
fn other_buffers(seed: u32) {
    let size = |nr| (1 << (8 + hash(nr, seed) % 15)) | (hash(nr, !seed) as usize % 256);
    let mut held: Vec<Tensor> = (0..12).map(|nr| Tensor::ones(size(nr))).collect();
    while !held.is_empty() {
        held.swap_remove(hash(held.len() as u32, seed) as usize % held.len());
    }
}

/// A job, or why there is none.
pub type Making = Result<Box<dyn Job>>;

fn checked(job: Making) -> Result<(Box<dyn Job>, Vec<Checksum>)> {
    let mut job = job?;
    let sums = job.checksums()?;
    Ok((job, sums))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_survives_its_command_line() {
        let task = Task {
            threads: 2,
            quick: true,
            peers_only: false,
            mix: 3,
            keys: vec!["W3".into(), "W8-backward".into()],
        };
        let command = task.command(Path::new("compare"));
        let words: Vec<_> = command.get_args().map(|w| w.to_str().unwrap().to_owned()).collect();
        assert_eq!(words[0], WORD);
        assert_eq!(Task::parse(&words[1..]), Some(task));
        assert_eq!(Task::parse(&[]), None);
    }

    /// Not only within the tolerance: ours have the same bits for any number of threads.
    #[test]
    fn values_do_not_depend_on_threads() {
        use foldback::tensor::ThreadPool;
        let layers =
            ["W18-odd-back", "W18-overlap-back", "W19-odd-back", "W20-odd-back", "W21-odd", "W22-odd-back"];
        let keys = ["W2", "W5", "W7-middle", "W10"].into_iter().chain(layers);
        for workload in keys.map(|key| workloads::all().into_iter().find(|w| w.key == key).unwrap()) {
            let sums = |n| ThreadPool::new(n).install(|| workload.job().unwrap().checksums().unwrap());
            assert_eq!(sums(1), sums(3), "{}", workload.key);
        }
    }

    #[test]
    fn quick_records_of_a_small_workload() {
        let task = Task { threads: 1, quick: true, peers_only: false, mix: 0, keys: vec![] };
        let all = workloads::all();
        let w9 = all.iter().find(|w| w.key == "W9").unwrap();
        let records = task.records(w9, &Effort::QUICK);
        assert_eq!(records[0].runner, "foldback");
        let (times, sums) = records[0].outcome.clone().unwrap();
        assert!(times.min > 0.0 && sums.len() > 5);
    }
}
