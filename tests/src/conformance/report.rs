//! What a replay found, counted by operation, and its printed form.

use std::collections::BTreeMap;
use std::fmt;

use super::run::Verdict;

/// How many cases of one operation had each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// agreed with PyTorch
    pub passed: usize,
    /// did not
    pub failed: usize,
    /// concern something that the library does not have
    pub skipped: usize,
    /// cases among the passed that are about ties, NaN, infinities, kinks or the ends of a domain
    pub special_passed: usize,
    /// such cases among the failed
    pub special_failed: usize,
}

/// The outcome of a replay.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// by operation
    pub operations: BTreeMap<String, Counts>,
    /// by the name of what is not supported, how many cases were skipped for it
    pub unsupported: BTreeMap<String, usize>,
    /// failures: the operation, and where and why
    pub failures: Vec<(String, String)>,
}

/// How many failures of one operation are printed.
const SHOWN: usize = 5;

impl Report {
    /// Sums over all operations.
    pub fn total(&self) -> Counts {
        self.operations.values().fold(Counts::default(), |a, b| Counts {
            passed: a.passed + b.passed,
            failed: a.failed + b.failed,
            skipped: a.skipped + b.skipped,
            special_passed: a.special_passed + b.special_passed,
            special_failed: a.special_failed + b.special_failed,
        })
    }

    /// Notes what became of a case.
    pub(crate) fn note(&mut self, op: &str, place: &str, special: bool, verdict: Verdict) {
        let counts = self.operations.entry(op.to_owned()).or_default();
        match verdict {
            Verdict::Passed => {
                counts.passed += 1;
                counts.special_passed += usize::from(special);
            }
            Verdict::Failed(reason) => {
                counts.failed += 1;
                counts.special_failed += usize::from(special);
                self.failures.push((op.to_owned(), format!("{place}: {reason}")));
            }
            Verdict::Unsupported(name) => {
                counts.skipped += 1;
                *self.unsupported.entry(name).or_default() += 1;
            }
        }
    }
}

impl fmt::Display for Report {
    /// A line per operation, the first failures, what is unsupported, and last the line with the sums.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "operation                           passed  failed unsupported   ties, nan, special")?;
        for (op, c) in &self.operations {
            let special = c.special_passed + c.special_failed;
            let special = if special > 0 { format!("{}/{special}", c.special_passed) } else { String::new() };
            writeln!(f, "{op:34} {:7} {:7} {:11}   {special:>18}", c.passed, c.failed, c.skipped)?;
        }
        let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
        for (op, text) in &self.failures {
            let n = shown.entry(op).or_default();
            *n += 1;
            match *n {
                n if n <= SHOWN => writeln!(f, "FAILED {text}")?,
                n if n == SHOWN + 1 => writeln!(f, "FAILED {op}: more, not shown")?,
                _ => {}
            }
        }
        for (name, count) in &self.unsupported {
            writeln!(f, "unsupported: {name}: {count}")?;
        }
        let Counts { passed, failed, skipped, .. } = self.total();
        writeln!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}
