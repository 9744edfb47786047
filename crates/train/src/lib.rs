//! What joins models, optimisers and data: checkpoints of whole runs, averages of models, loops, logs.

#![forbid(unsafe_code)]

#[cfg(feature = "safetensors")]
mod checkpoint;

#[cfg(feature = "safetensors")]
pub use checkpoint::{ByLoader, ByModule, ByOptimizer, ByValue, Checkpoint, Checkpoints, Saved, Stateful};
pub use foldback_tensor::{Error, Facts, Kind, Result};
