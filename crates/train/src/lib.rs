//! What joins models, optimisers and data: checkpoints of whole runs, averages of models, loops, logs.

#![forbid(unsafe_code)]

mod averaged;
#[cfg(feature = "safetensors")]
mod checkpoint;
mod early_stopping;
mod error;
mod fit;
mod log;
pub mod metrics;
#[cfg(feature = "plots")]
mod plots;
#[cfg(feature = "progress")]
mod progress;
mod saved;
mod update_bn;

pub use averaged::{AverageFacts, AveragedModel};
#[cfg(feature = "safetensors")]
pub use checkpoint::{
    ByLoader, ByModule, ByOptimizer, BySchedule, ByValue, Checkpoint, Checkpoints, Saved, Stateful,
};
pub use early_stopping::EarlyStopping;
pub use error::TrainFacts;
pub use fit::{BatchReport, EpochReport, Fit, FitState, History};
pub use foldback_tensor::{Error, Facts, Kind, Result};
pub use log::{CsvLog, JsonLinesLog, Log};
#[cfg(feature = "plots")]
pub use plots::{plot_curves, plot_decision_boundary};
#[cfg(feature = "progress")]
pub use progress::Progress;
pub use update_bn::update_bn;
