//! What joins models, optimisers and data: checkpoints of whole runs, averages of models, loops, logs.

#![forbid(unsafe_code)]

mod error;
pub mod metrics;

pub use error::TrainFacts;
pub use foldback_tensor::{Error, Facts, Kind, Result};
