//! Attention of several heads, with PyTorch's weights and masks.

mod layer;
mod masks;
mod options;
#[cfg(test)]
mod tests;

pub use layer::MultiheadAttention;
pub use masks::AttentionMasks;
pub use options::MultiheadAttentionBuilder;
