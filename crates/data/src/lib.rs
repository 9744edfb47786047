//! Data for training: datasets, loaders of batches, samplers, and readers of files.

#![forbid(unsafe_code)]

pub use foldback_tensor::{Error, Facts, Kind, Result};
