//! Transformers: layers of attention and of a network that each step goes through alone.

mod decoder;
mod encoder;
mod options;
mod stack;
#[cfg(test)]
mod tests;

pub use decoder::TransformerDecoderLayer;
pub use encoder::TransformerEncoderLayer;
pub use options::TransformerLayerBuilder;
pub use stack::{TransformerDecoder, TransformerEncoder};
