//! A folder of checkpoints, of which the last and the best are kept.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use foldback_nn::{create_folder, remove_leftovers};
use foldback_tensor::{Here, IoFacts, Result};

use super::Checkpoint;

/// The checkpoints of a run in a folder: the last ones and the best ones are kept, the others removed.
///
/// A file is named by its step and, if it has one, by its metric: `step-00000120-metric-0.25.ckpt`. A new one is written whole
/// before any other is removed, so that a run that is killed at any moment has what it needs.
///
/// Behind the feature `safetensors`.
///
/// ```
/// use foldback_train::{Checkpoint, Checkpoints};
/// # let folder = std::env::temp_dir().join(format!("foldback-folder-{}", std::process::id()));
/// let kept = Checkpoints::in_folder(&folder).keep_last(2).keep_best(1);
/// for (epoch, loss) in [(1, 0.5), (2, 0.25), (3, 0.4), (4, 0.3)] {
///     kept.save_with(epoch, loss, &Checkpoint::new().put("epoch", &epoch))?;
/// }
/// let steps: Vec<usize> = kept.list()?.iter().map(|saved| saved.step).collect();
/// assert_eq!(steps, [2, 3, 4]);
/// assert_eq!(kept.best()?.unwrap().metric, Some(0.25));
///
/// if let Some(last) = kept.last()? { // none in a fresh folder
///     let mut epoch = 0usize;
///     Checkpoint::open(last.path)?.get("epoch", &mut epoch)?;
///     assert_eq!(epoch, 4);
/// }
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    last: usize,
    best: usize,
    maximize: bool,
}

/// A checkpoint in a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// the file
    pub path: PathBuf,
    /// the step that it was saved at
    pub step: usize,
    /// what it was judged by, if it was
    pub metric: Option<f64>,
}

impl Checkpoints {
    /// Those of a folder, which is made when something is saved. Only the last one is kept.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Checkpoints {
        Checkpoints { folder: folder.into(), last: 1, best: 0, maximize: false }
    }

    /// How many of the last steps are kept; the very last one always is.
    #[must_use]
    pub fn keep_last(mut self, last: usize) -> Checkpoints {
        self.last = last.max(1);
        self
    }

    /// How many are kept beside these because of their metric; of equal ones the earlier. NaN is worse than any number.
    #[must_use]
    pub fn keep_best(mut self, best: usize) -> Checkpoints {
        self.best = best;
        self
    }

    /// Whether a larger metric is better (an accuracy), not a smaller one (a loss, the default).
    #[must_use]
    pub fn maximize(mut self, maximize: bool) -> Checkpoints {
        self.maximize = maximize;
        self
    }

    /// Saves a checkpoint of a step, and removes those that are not kept any more.
    ///
    /// What is saved stays, whatever its step. A run that goes on from an earlier step than the last one of the folder had
    /// better have a folder of its own: the steps after it count as the last ones until it has come there.
    ///
    /// # Errors
    /// As [`Checkpoint::save`], and of kind `Io` if the folder cannot be made or read.
    #[track_caller]
    pub fn save(&self, step: usize, run: &Checkpoint) -> Result<PathBuf> {
        self.keep(step, None, run).here()
    }

    /// [`Checkpoints::save`] with what it is judged by.
    ///
    /// # Errors
    /// As [`Checkpoints::save`].
    #[track_caller]
    pub fn save_with(&self, step: usize, metric: f64, run: &Checkpoint) -> Result<PathBuf> {
        self.keep(step, Some(metric), run).here()
    }

    fn keep(&self, step: usize, metric: Option<f64>, run: &Checkpoint) -> Result<PathBuf> {
        create_folder(&self.folder).map_err(|e| IoFacts::writing("save", self.folder.display(), &e))?;
        remove_leftovers(&self.folder, format!(".{STEP}").as_ref());
        let path = self.folder.join(name_of(step, metric));
        run.write(&path)?;
        let all = self.read("save")?;
        // A run that comes to a step again writes it anew.
        let current: Vec<&Saved> = all.iter().filter(|own| own.step != step || own.path == path).collect();
        let last = current.iter().rev().take(self.last);
        let best = self.ranked(current.iter().copied()).into_iter().take(self.best);
        let kept: Vec<&Path> = last.copied().chain(best).map(|saved| saved.path.as_path()).collect();
        for old in all.iter().filter(|own| own.path != path && !kept.contains(&own.path.as_path())) {
            match fs::remove_file(&old.path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(IoFacts::writing("save", old.path.display(), &e));
                }
                _ => {}
            }
        }
        Ok(path)
    }

    /// Those with a metric, the best first.
    fn ranked<'a>(&self, all: impl Iterator<Item = &'a Saved>) -> Vec<&'a Saved> {
        let cost = |saved: &Saved| {
            let metric = saved.metric.unwrap_or(f64::NAN);
            let cost = if self.maximize { -metric } else { metric };
            (cost.is_nan(), cost, saved.step)
        };
        let mut judged: Vec<&Saved> = all.filter(|saved| saved.metric.is_some()).collect();
        judged.sort_by(|a, b| {
            let ((no_a, a, step_a), (no_b, b, step_b)) = (cost(a), cost(b));
            no_a.cmp(&no_b).then(a.total_cmp(&b)).then(step_a.cmp(&step_b))
        });
        judged
    }

    /// The checkpoints that are there, in the order of their steps; other files are not looked at.
    ///
    /// # Errors
    /// Of kind `Io` if the folder cannot be read; one that does not exist has none.
    #[track_caller]
    pub fn list(&self) -> Result<Vec<Saved>> {
        self.read("list").here()
    }

    fn read(&self, op: &'static str) -> Result<Vec<Saved>> {
        let failed = |e: &io::Error| IoFacts::reading(op, self.folder.display(), e);
        let entries = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|e| failed(&e))?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| failed(&e))?;
            all.extend(Saved::parse(entry.path()).filter(|saved| saved.path.is_file()));
        }
        all.sort_by(|a, b| (a.step, &a.path).cmp(&(b.step, &b.path)));
        Ok(all)
    }

    /// The one of the last step.
    ///
    /// # Errors
    /// As [`Checkpoints::list`].
    #[track_caller]
    pub fn last(&self) -> Result<Option<Saved>> {
        Ok(self.read("last").here()?.pop())
    }

    /// The one with the best metric.
    ///
    /// # Errors
    /// As [`Checkpoints::list`].
    #[track_caller]
    pub fn best(&self) -> Result<Option<Saved>> {
        let all = self.read("best").here()?;
        Ok(self.ranked(all.iter()).first().map(|&saved| saved.clone()))
    }
}

const STEP: &str = "step-";
const METRIC: &str = "-metric-";
const ENDING: &str = ".ckpt";

fn name_of(step: usize, metric: Option<f64>) -> String {
    // `{:?}` of a number reads back as the same number.
    let metric = metric.map_or(String::new(), |metric| format!("{METRIC}{metric:?}"));
    format!("{STEP}{step:08}{metric}{ENDING}")
}

impl Saved {
    fn parse(path: PathBuf) -> Option<Saved> {
        let name = path.file_name()?.to_str()?.strip_prefix(STEP)?.strip_suffix(ENDING)?;
        let (step, metric) = match name.split_once(METRIC) {
            Some((step, metric)) => (step, Some(metric.parse().ok()?)),
            None => (name, None),
        };
        Some(Saved { step: step.parse().ok()?, metric, path })
    }
}
