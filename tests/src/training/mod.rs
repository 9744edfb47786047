//! Replays golden cases of training: layers, losses, optimisers, schedules, clipping, averages, loss curves, metrics, names,
//! laws of fresh weights, data and its loaders, summaries, and safetensors files.
//!
//! A case is one line with a `kind`, as `docs/src/golden-cases.md` says; each kind is a file here, a row of [`KINDS`].

mod clip;
mod data;
mod ema;
mod init;
mod judge;
mod layer;
mod loss;
mod loss_curve;
mod metric;
mod model;
mod optimizer;
mod safetensors;
mod schedule;
mod state_dict;
mod summary;

use std::path::{Path, PathBuf};

use foldback_graph::live_nodes;
use serde_json::{Map, Value};

use crate::conformance::case::text;
use crate::conformance::run::{Stop, Verdict};

pub(crate) use judge::Judge;
pub use safetensors::rewrite_to;

/// One line with a `kind`.
#[derive(Clone)]
pub(crate) struct TrainingCase {
    pub(crate) kind: String,
    pub(crate) id: i64,
    pub(crate) tags: Vec<String>,
    /// the whole line
    pub(crate) body: Value,
    /// where the line's file lies: what it names lies beside it
    pub(crate) folder: PathBuf,
}

/// Runs one case and compares what it gives; what it computed goes into the judge, in a fixed order.
type Kind = fn(&TrainingCase, &mut Judge) -> Result<(), Stop>;

const KINDS: [(&str, Kind); 13] = [
    ("layer", layer::replay),
    ("loss", loss::replay),
    ("optimizer", optimizer::replay),
    ("schedule", schedule::replay),
    ("clip", clip::replay),
    ("ema", ema::replay),
    ("loss_curve", loss_curve::replay),
    ("metric", metric::replay),
    ("state_dict", state_dict::replay),
    ("init", init::replay),
    ("data", data::replay),
    ("summary", summary::replay),
    ("safetensors", safetensors::replay),
];

impl TrainingCase {
    /// Takes a line apart; the error says what is missing.
    pub(crate) fn new(body: Value, folder: &Path) -> Result<TrainingCase, String> {
        let tags = body.get("tags").and_then(Value::as_array).into_iter().flatten();
        Ok(TrainingCase {
            kind: text(&body, "kind")?,
            id: body.get("id").and_then(Value::as_i64).unwrap_or(-1),
            tags: tags.filter_map(Value::as_str).map(str::to_owned).collect(),
            folder: folder.to_owned(),
            body,
        })
    }

    /// What it is counted under: its kind, and the name of what it is about.
    pub(crate) fn name(&self) -> String {
        let about = ["layer", "loss", "name", "f", "function"]
            .into_iter()
            .find_map(|key| self.body.get(key)?.as_str());
        about.map_or_else(|| self.kind.clone(), |about| format!("{} {about}", self.kind))
    }

    /// A member of the line.
    pub(crate) fn get(&self, key: &str) -> Result<&Value, String> {
        self.body.get(key).ok_or_else(|| format!("no `{key}`"))
    }

    /// The keywords of its constructor.
    pub(crate) fn args(&self) -> Map<String, Value> {
        self.body.get("args").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// Whether PyTorch refuses it.
    pub(crate) fn is_refused(&self) -> bool {
        self.body.get("error").is_some()
    }

    pub(crate) fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|t| t == tag)
    }

    /// Whether it is counted in the column of conventions and rare things.
    pub(crate) fn is_special(&self) -> bool {
        ["ties", "nan", "special", "nonfinite", "rare", "external", "stricter"]
            .iter()
            .any(|tag| self.has_tag(tag))
    }
}

/// Runs a case twice: it must pass, give the same bits again, and leave no node of the graph.
pub(crate) fn run(case: &TrainingCase) -> Verdict {
    let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == case.kind) else {
        return Verdict::Unsupported(format!("kind {}", case.kind));
    };
    let before = live_nodes();
    let mut once = Judge::default();
    match kind(case, &mut once) {
        Ok(()) => {}
        Err(Stop::Failed(reason)) => return Verdict::Failed(reason),
        Err(Stop::Unsupported(name)) => return Verdict::Unsupported(name),
    }
    let mut again = Judge::default();
    if kind(case, &mut again).is_err() {
        return Verdict::Failed("behaves otherwise when run again".into());
    }
    if let Some(name) = once.other_bits(&again) {
        return Verdict::Failed(format!("{name} has other bits when run again"));
    }
    once.remarks().iter().for_each(|text| println!("{} {}: {text}", case.name(), case.id));
    drop((once, again));
    match live_nodes() {
        after if after == before => Verdict::Passed,
        after => Verdict::Failed(format!("{} nodes of the graph are left", after as isize - before as isize)),
    }
}
