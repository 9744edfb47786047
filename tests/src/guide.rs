//! The programs in the guide, run as documentation tests.

#[doc = include_str!("../../docs/src/from-pytorch.md")]
pub mod from_pytorch {}

#[doc = include_str!("../../docs/src/guide/tensors.md")]
pub mod tensors {}

#[doc = include_str!("../../docs/src/guide/broadcasting.md")]
pub mod broadcasting {}

#[doc = include_str!("../../docs/src/guide/gradients.md")]
pub mod gradients {}

#[doc = include_str!("../../docs/src/guide/looking-at-graphs.md")]
pub mod looking_at_graphs {}

#[doc = include_str!("../../docs/src/guide/fusing.md")]
pub mod fusing {}

#[doc = include_str!("../../docs/src/guide/own-operations.md")]
pub mod own_operations {}

#[doc = include_str!("../../docs/src/guide/testing.md")]
pub mod testing {}

#[doc = include_str!("../../docs/src/guide/models.md")]
pub mod models {}

#[doc = include_str!("../../docs/src/guide/sequences.md")]
pub mod sequences {}

#[doc = include_str!("../../docs/src/guide/saving.md")]
pub mod saving {}

#[doc = include_str!("../../docs/src/guide/data.md")]
pub mod data {}

#[doc = include_str!("../../docs/src/guide/watching.md")]
pub mod watching {}

#[doc = include_str!("../../docs/src/guide/training.md")]
pub mod training {}

#[doc = include_str!("../../docs/src/guide/large-graphs.md")]
pub mod large_graphs {}

#[doc = include_str!("../../README.md")]
pub mod readme {}
