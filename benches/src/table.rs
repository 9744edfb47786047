//! Turns records into tables, for a terminal and for Markdown.

use std::fmt::Write;

use crate::checksum::agree;
use crate::limits::{Bandwidth, Limits};
use crate::measure::Times;
use crate::record::Record;
use crate::workloads::{Unit, Workload};

/// The name under which our own records run.
pub const OURS: &str = "foldback";

/// Cells in rows under a heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// the heading of each column; those that begin with `<` are aligned left
    pub heading: Vec<String>,
    /// as many cells each as the heading has
    pub rows: Vec<Vec<String>>,
}

impl Table {
    fn new(heading: &[&str]) -> Table {
        Table { heading: heading.iter().map(|h| (*h).to_owned()).collect(), rows: Vec::new() }
    }

    /// Columns padded with blanks, or a Markdown table, which is padded too so that its source can be read.
    pub fn render(&self, markdown: bool) -> String {
        let name = |h: &str| h.trim_start_matches('<').to_owned();
        let heading: Vec<String> = self.heading.iter().map(|h| name(h)).collect();
        let left: Vec<bool> = self.heading.iter().map(|h| h.starts_with('<')).collect();
        let width = |i: usize| {
            let cells = self.rows.iter().map(|r| &r[i]).chain([&heading[i]]);
            cells.map(|c| c.chars().count()).max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..heading.len()).map(width).collect();
        let line = |cells: &[String]| {
            let padded: Vec<String> = cells
                .iter()
                .zip(&widths)
                .zip(&left)
                .map(|((c, &w), &left)| if left { format!("{c:<w$}") } else { format!("{c:>w$}") })
                .collect();
            if markdown {
                format!("| {} |", padded.join(" | "))
            } else {
                padded.join("  ").trim_end().to_owned()
            }
        };
        let mut text = line(&heading) + "\n";
        if markdown {
            let rule = |(&w, &left): (&usize, &bool)| {
                let dashes = "-".repeat(w - 1);
                if left { format!(":{dashes}") } else { format!("{dashes}:") }
            };
            let rules: Vec<String> = widths.iter().zip(&left).map(rule).collect();
            writeln!(text, "| {} |", rules.join(" | ")).expect("a string takes all");
        }
        for row in &self.rows {
            text += &line(row);
            text.push('\n');
        }
        text
    }
}

/// All that is known at the end of a run.
pub struct Report<'a> {
    /// the selected workloads
    pub workloads: &'a [Workload],
    /// the machine, for each number of threads
    pub limits: &'a [Limits],
    /// everybody's results
    pub records: &'a [Record],
    /// judge by the fastest sample
    pub best: bool,
}

impl Report<'_> {
    /// The machine's limits.
    pub fn limits(&self) -> Table {
        let mut table = Table::new(&[
            "threads",
            "read 1 MiB",
            "copy 1 MiB",
            "write 1 MiB",
            "read 16 MiB",
            "copy 16 MiB",
            "write 16 MiB",
            "multiply-add",
            "first touch",
        ]);
        for l in self.limits {
            let rates = |b: &Bandwidth| [b.read, b.copy, b.write].map(|r| format!("{:.0} GB/s", r / 1e9));
            let mut row = vec![l.threads.to_string()];
            row.extend(rates(&l.small));
            row.extend(rates(&l.large));
            row.push(format!("{:.0} GFLOP/s", l.flops / 1e9));
            row.push(format!("{:.2} us/page", l.page * 1e6));
            table.rows.push(row);
        }
        table
    }

    /// Our own figures.
    pub fn ours(&self) -> Table {
        let mut table = Table::new(&[
            "<key",
            "<workload",
            "threads",
            "time [us]",
            "spread",
            "<per unit",
            "<rate",
            "of limit",
            "<best peer",
        ]);
        for (w, limits) in self.cells() {
            let mut row = vec![w.key.to_owned(), w.title.clone(), limits.threads.to_string()];
            match self.times(w.key, OURS, limits.threads) {
                None => row.extend(["failed", "", "", "", "", ""].map(str::to_owned)),
                Some(times) => {
                    let time = self.judged(times);
                    row.extend([
                        number(time),
                        percent(times.spread()),
                        per_unit(w.unit, time),
                        rate(w, time),
                    ]);
                    let least = limits.least(&w.work) * 1e6;
                    row.push(if least > 0.0 { percent(least / time) } else { String::new() });
                    row.push(self.best_peer(w, limits.threads, time));
                }
            }
            table.rows.push(row);
        }
        table
    }

    /// Everybody's times, each with its ratio to ours: above 1, we are faster. Nothing if there are no peers.
    pub fn peers(&self) -> Option<Table> {
        let mut runners: Vec<&str> = Vec::new();
        for r in self.records.iter().filter(|r| r.runner != OURS && r.outcome.is_ok()) {
            if !runners.contains(&r.runner.as_str()) {
                runners.push(&r.runner);
            }
        }
        if runners.is_empty() {
            return None;
        }
        let mut table = Table::new(&["<key", "threads", OURS]);
        table.heading.extend(runners.iter().map(|r| (*r).to_owned()));
        for (w, limits) in self.cells() {
            let ours = self.times(w.key, OURS, limits.threads).map(|t| self.judged(t));
            let mut row =
                vec![w.key.to_owned(), limits.threads.to_string(), ours.map_or(String::new(), number)];
            for runner in &runners {
                let theirs = self.times(w.same_as, runner, limits.threads).map(|t| self.judged(t));
                let sign = if self.differs(w, runner, limits.threads) { " ≠" } else { "" };
                row.push(match (ours, theirs) {
                    (Some(ours), Some(theirs)) => format!("{} (×{:.2}){sign}", number(theirs), theirs / ours),
                    (None, Some(theirs)) => format!("{}{sign}", number(theirs)),
                    _ => "-".to_owned(),
                });
            }
            table.rows.push(row);
        }
        Some(table)
    }

    /// What did not work, a line each, and whether all computed the same.
    pub fn notes(&self) -> (Vec<String>, bool) {
        let mut notes = Vec::new();
        for r in self.records {
            if let Err(why) = &r.outcome {
                let place = if r.workload.is_empty() { String::new() } else { format!(" {}", r.workload) };
                let why = why.lines().next().unwrap_or_default();
                notes.push(format!("{}{place}, threads {}: {why}", r.runner, r.threads));
            }
        }
        let mut same = true;
        for (w, limits) in self.cells() {
            for r in self.records.iter().filter(|r| r.workload == w.same_as && r.threads == limits.threads) {
                if self.differs(w, &r.runner, limits.threads) {
                    same = false;
                    notes.push(format!(
                        "{} {}, threads {}: values differ from ours",
                        r.runner, w.key, limits.threads
                    ));
                }
            }
        }
        notes.dedup();
        (notes, same)
    }

    /// Workloads with thread counts.
    fn cells(&self) -> impl Iterator<Item = (&Workload, &Limits)> {
        self.workloads.iter().flat_map(|w| self.limits.iter().map(move |l| (w, l)))
    }

    fn find(&self, key: &str, runner: &str, threads: usize) -> Option<&Record> {
        self.records.iter().find(|r| r.workload == key && r.runner == runner && r.threads == threads)
    }

    fn times(&self, key: &str, runner: &str, threads: usize) -> Option<Times> {
        Some(self.find(key, runner, threads)?.outcome.as_ref().ok()?.0)
    }

    fn judged(&self, times: Times) -> f64 {
        if self.best { times.min } else { times.median }
    }

    /// Whether this runner and we both have a result, and not the same.
    fn differs(&self, w: &Workload, runner: &str, threads: usize) -> bool {
        let sums = |key, runner| Some(&self.find(key, runner, threads)?.outcome.as_ref().ok()?.1);
        match (sums(w.key, OURS), sums(w.same_as, runner)) {
            (Some(ours), Some(theirs)) => !agree(ours, theirs),
            _ => false,
        }
    }

    fn best_peer(&self, w: &Workload, threads: usize, ours: f64) -> String {
        let rows = self.records.iter().filter(|r| r.workload == w.same_as && r.threads == threads);
        let peers = rows.filter(|r| r.runner != OURS && !self.differs(w, &r.runner, threads));
        let times = peers.filter_map(|r| Some((self.judged(r.outcome.as_ref().ok()?.0), &r.runner)));
        match times.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((time, runner)) => format!("×{:.2} {runner}", time / ours),
            None => String::new(),
        }
    }
}

/// Three significant digits at least.
fn number(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.2}"),
        us if us < 100.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn per_unit(unit: Unit, us: f64) -> String {
    match unit {
        Unit::Elements(n) => format!("{:.3} ns/element", us * 1e3 / n as f64),
        Unit::Nodes(n) => format!("{:.1} ns/node", us * 1e3 / n as f64),
        Unit::Step => format!("{} us/step", number(us)),
    }
}

fn rate(w: &Workload, us: f64) -> String {
    match (w.work.flops, w.work.bytes()) {
        (0, 0) => String::new(),
        (0, bytes) => format!("{:.1} GB/s", bytes as f64 / us / 1e3),
        (flops, _) => format!("{:.1} GFLOP/s", flops as f64 / us / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Checksum;
    use crate::workloads;

    #[test]
    fn columns_are_padded_and_aligned() {
        let mut table = Table::new(&["<name", "us"]);
        table.rows = vec![vec!["a".into(), "1".into()], vec!["longer".into(), "123.5".into()]];
        assert_eq!(table.render(false), "name       us\na           1\nlonger  123.5\n");
        let markdown = table.render(true);
        assert_eq!(markdown.lines().nth(1), Some("| :----- | ----: |"));
        assert_eq!(markdown.lines().last(), Some("| longer | 123.5 |"));
    }

    fn record(runner: &str, time: f64, sum: f64) -> Record {
        let times = Times { min: time / 2.0, low: time, median: time, high: time * 1.5 };
        let outcome = Ok((times, vec![Checksum::of([sum])]));
        Record { workload: "W1".into(), runner: runner.into(), threads: 1, outcome }
    }

    fn limits() -> Limits {
        let rate = Bandwidth { read: 1e11, copy: 1e11, write: 1e11 };
        Limits { threads: 1, small: rate, large: rate, flops: 1e11, page: 1e-6 }
    }

    #[test]
    fn ratios_limits_and_differences() {
        let all = workloads::all();
        let failed = Record { outcome: Err("not installed\nat all".into()), ..record("jax", 1.0, 1.0) };
        let records =
            [record(OURS, 671.0, 1.0), record("eager", 1342.0, 1.0), record("burn", 67.1, 9.0), failed];
        let limits = [limits()];
        let report = Report { workloads: &all[..1], limits: &limits, records: &records, best: false };
        let ours = report.ours();
        // 32 MiB at 50 GB/s; the peer with other values is not the best.
        assert_eq!(
            ours.rows[0][3..],
            ["671", "50 %", "0.160 ns/element", "50.0 GB/s", "50 %", "×2.00 eager"]
        );
        let peers = report.peers().unwrap();
        assert_eq!(peers.heading[2..], [OURS, "eager", "burn"]);
        assert_eq!(peers.rows[0], ["W1", "1", "671", "1342 (×2.00)", "67.1 (×0.10) ≠"]);
        let (notes, same) = report.notes();
        assert_eq!(
            notes,
            ["jax W1, threads 1: not installed", "burn W1, threads 1: values differ from ours"]
        );
        assert!(!same);
        let best = Report { best: true, ..report };
        assert_eq!(best.ours().rows[0][3], "336");
    }

    #[test]
    fn without_peers_there_is_no_second_table() {
        let all = workloads::all();
        let records = [record(OURS, 1.0, 1.0)];
        let report = Report { workloads: &all[..1], limits: &[limits()], records: &records, best: false };
        assert_eq!(report.peers(), None);
        assert_eq!(report.notes(), (vec![], true));
        assert_eq!(report.limits().rows[0][7..], ["100 GFLOP/s", "1.00 us/page"]);
    }
}
