//! What joins models, optimisers and data: checkpoints of whole runs, averages of models, loops, logs.

#![forbid(unsafe_code)]

mod averaged;

pub use averaged::{AverageFacts, AveragedModel};
pub use foldback_tensor::{Error, Facts, Kind, Result};
