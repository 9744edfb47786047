//! Data for training: datasets, loaders of batches, samplers, and readers of files.

#![forbid(unsafe_code)]

mod collate;
mod dataset;
mod error;
mod loader;
mod normalise;
mod pad_sequence;
mod read;
mod sampler;
mod split;

pub use collate::Collate;
pub use dataset::{ConcatDataset, Dataset, Mapped, Subset, TensorDataset};
pub use error::DataFacts;
pub use foldback_tensor::{Error, Facts, Kind, Result};
pub use loader::{BatchOf, DataLoader, Epoch};
pub use normalise::Normaliser;
pub use pad_sequence::{pad_sequence, pad_sequence_with};
#[cfg(feature = "csv")]
pub use read::{Csv, Table};
#[cfg(feature = "images")]
pub use read::{ImageFolder, image_grid, read_image, write_image};
pub use read::{encode_labels, read_idx, read_idx_with};
#[cfg(feature = "npy")]
pub use read::{read_npy, read_npz};
pub use sampler::{
    RandomSampler, Sampler, SequentialSampler, StratifiedSampler, SubsetRandomSampler, WeightedRandomSampler,
};
pub use split::{Length, random_split, random_split_with};
