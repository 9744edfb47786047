//! Data for training: datasets, loaders of batches, samplers, and readers of files.

#![forbid(unsafe_code)]

mod collate;
mod dataset;
mod error;
mod loader;
mod sampler;
mod split;

pub use collate::Collate;
pub use dataset::{ConcatDataset, Dataset, Mapped, Subset, TensorDataset};
pub use error::DataFacts;
pub use foldback_tensor::{Error, Facts, Kind, Result};
pub use loader::{BatchOf, DataLoader, Epoch};
pub use sampler::{
    RandomSampler, Sampler, SequentialSampler, StratifiedSampler, SubsetRandomSampler, WeightedRandomSampler,
};
pub use split::{Length, random_split, random_split_with};
