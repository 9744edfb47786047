//! Times jobs: many samples of each, taken in turn, and the statistics of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use foldback::Result;

use crate::checksum::Checksum;

/// Something that is timed, by any library.
pub trait Job {
    /// Whether `prepare` does something. The runs of a sample are timed together otherwise, so that reading the clock
    /// costs nothing.
    fn needs_preparation(&self) -> bool {
        false
    }

    /// What has to happen before a run and is not timed.
    ///
    /// # Errors
    /// If the library refuses.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Goes back to the initial state where runs change it; called between samples.
    ///
    /// # Errors
    /// If the library refuses.
    fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    /// One run, with the release of what it made.
    ///
    /// # Errors
    /// If the library refuses.
    fn run(&mut self) -> Result<()>;

    /// Runs it from its initial state and sums up what it computed.
    ///
    /// # Errors
    /// If the library refuses.
    fn checksums(&mut self) -> Result<Vec<Checksum>>;
}

/// How long and how often to measure one job.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// the time that all samples of a job may take
    pub budget: Duration,
    /// the shortest sample; short runs are repeated to fill it
    pub sample: Duration,
    /// at least this many samples, however long they take
    pub at_least: usize,
    /// at most this many
    pub at_most: usize,
}

impl Effort {
    /// For figures that are kept.
    pub const FULL: Effort = Effort {
        budget: Duration::from_millis(600),
        sample: Duration::from_micros(200),
        at_least: 7,
        at_most: 400,
    };

    /// For a glance.
    pub const QUICK: Effort = Effort {
        budget: Duration::from_millis(60),
        sample: Duration::from_micros(100),
        at_least: 3,
        at_most: 50,
    };
}

/// The times of one job per run, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// the shortest sample
    pub min: f64,
    /// a quarter of the samples were shorter
    pub low: f64,
    /// half of the samples were shorter
    pub median: f64,
    /// a quarter of the samples were longer
    pub high: f64,
}

impl Times {
    /// The statistics of samples, interpolated between neighbours.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(mut samples: Vec<f64>) -> Times {
        assert!(!samples.is_empty(), "statistics of no samples");
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (samples.len() - 1) as f64 * share;
            let (below, rest) = (place as usize, place.fract());
            let above = (below + 1).min(samples.len() - 1);
            samples[below] * (1.0 - rest) + samples[above] * rest
        };
        Times { min: samples[0], low: at(0.25), median: at(0.5), high: at(0.75) }
    }

    /// The distance of the quartiles as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.high - self.low) / self.median
    }
}

/// One job among others, with its samples so far.
struct Course<'a> {
    job: &'a mut dyn Job,
    repeats: usize,
    samples: Vec<f64>,
    used: Duration,
}

impl Course<'_> {
    fn sample(&mut self) -> Result<Duration> {
        self.job.reset()?;
        if !self.job.needs_preparation() {
            let start = Instant::now();
            for _ in 0..self.repeats {
                self.job.run()?;
            }
            return Ok(start.elapsed());
        }
        let mut used = Duration::ZERO;
        for _ in 0..self.repeats {
            self.job.prepare()?;
            let start = Instant::now();
            self.job.run()?;
            used += start.elapsed();
        }
        Ok(used)
    }

    /// Warms up, and finds how many runs fill a sample.
    fn calibrate(&mut self, effort: &Effort) -> Result<()> {
        self.sample()?;
        loop {
            let used = self.sample()?;
            if used >= effort.sample {
                return Ok(());
            }
            let factor = effort.sample.as_secs_f64() / used.as_secs_f64().max(1e-9);
            self.repeats = (self.repeats as f64 * factor.clamp(1.2, 10.0)).ceil() as usize;
        }
    }

    fn step(&mut self) -> Result<()> {
        let used = self.sample()?;
        self.used += used;
        self.samples.push(used.as_secs_f64() * 1e6 / self.repeats as f64);
        Ok(())
    }

    fn is_done(&self, effort: &Effort) -> bool {
        let n = self.samples.len();
        n >= effort.at_least && (self.used >= effort.budget || n >= effort.at_most)
    }
}

/// Measures jobs that do the same work, one sample of each in turn, so that what disturbs the machine disturbs all.
///
/// A job that fails or panics has its message in place of times; the others go on.
pub fn interleaved(jobs: &mut [Box<dyn Job>], effort: &Effort) -> Vec<Result<Times, String>> {
    let mut courses: Vec<_> = jobs
        .iter_mut()
        .map(|job| Course { job: &mut **job, repeats: 1, samples: Vec::new(), used: Duration::ZERO })
        .collect();
    let mut failures: Vec<Option<String>> =
        courses.iter_mut().map(|c| guarded(|| c.calibrate(effort)).err()).collect();
    while failures.iter().zip(&courses).any(|(f, c)| f.is_none() && !c.is_done(effort)) {
        for (course, failure) in courses.iter_mut().zip(&mut failures) {
            if failure.is_none() && !course.is_done(effort) {
                *failure = guarded(|| course.step()).err();
            }
        }
    }
    courses.into_iter().zip(failures).map(|(c, f)| f.map_or_else(|| Ok(Times::of(c.samples)), Err)).collect()
}

/// Runs somebody else's code; an error and a panic become a message.
///
/// # Errors
/// The message.
pub fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of unknown cause");
            Err(format!("panic: {text}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use foldback::Error;

    use super::*;

    #[test]
    fn quartiles_of_few_and_of_many() {
        let one = Times::of(vec![3.0]);
        assert_eq!((one.min, one.low, one.median, one.high), (3.0, 3.0, 3.0, 3.0));
        let four = Times::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((four.min, four.low, four.median, four.high), (1.0, 1.75, 2.5, 3.25));
        assert!((four.spread() - 0.6).abs() < 1e-12);
    }

    struct Counted {
        prepared: usize,
        run: usize,
        fails_at: usize,
    }

    impl Job for Counted {
        fn needs_preparation(&self) -> bool {
            true
        }
        fn prepare(&mut self) -> Result<()> {
            self.prepared += 1;
            Ok(())
        }
        fn run(&mut self) -> Result<()> {
            self.run += 1;
            if self.run == self.fails_at { Err(Error::other("worn out")) } else { Ok(()) }
        }
        fn checksums(&mut self) -> Result<Vec<Checksum>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn every_run_is_prepared_and_a_failure_stops_one_job_alone() {
        const EFFORT: Effort = Effort {
            budget: Duration::from_millis(1),
            sample: Duration::from_micros(5),
            at_least: 3,
            at_most: 4,
        };
        let job = |fails_at| Counted { prepared: 0, run: 0, fails_at };
        let mut jobs: Vec<Box<dyn Job>> = vec![Box::new(job(usize::MAX)), Box::new(job(2))];
        let times = interleaved(&mut jobs, &EFFORT);
        assert!(times[0].as_ref().is_ok_and(|t| t.min > 0.0 && t.min <= t.median));
        assert_eq!(times[1], Err("worn out".to_owned()));

        let mut job = job(usize::MAX);
        let mut course = Course { job: &mut job, repeats: 7, samples: Vec::new(), used: Duration::ZERO };
        course.step().unwrap();
        assert_eq!((course.samples.len(), job.prepared, job.run), (1, 7, 7));
    }

    #[test]
    fn a_panic_is_a_message() {
        assert_eq!(guarded::<()>(|| panic!("no {}", 1)), Err("panic: no 1".to_owned()));
        assert_eq!(guarded(|| Ok(3)), Ok(3));
    }
}
