//! Layers, a file for each family.

mod activation;
mod attention;
mod batch_norm;
mod bilinear;
mod channel_dropout;
mod conv;
mod curves;
mod distance;
mod dropout;
mod embedding;
mod linear;
mod making;
mod norm;
mod pad;
mod pool;
mod prelu;
mod recurrent;
mod sequential;
mod shape;
mod training;
mod transformer;

pub use activation::*;
pub use attention::{AttentionMasks, MultiheadAttention, MultiheadAttentionBuilder};
pub use batch_norm::{BatchNorm1d, BatchNorm2d, InstanceNorm1d, InstanceNorm2d};
pub use bilinear::Bilinear;
pub use channel_dropout::{Dropout1d, Dropout2d};
pub use conv::{Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d};
pub use curves::*;
pub use distance::{CosineSimilarity, PairwiseDistance};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use linear::{Linear, LinearBuilder, linear};
pub use making::LayerBuilder;
pub use norm::{GroupNorm, LayerNorm, RMSNorm};
pub use pad::*;
pub use pool::*;
pub use prelu::PReLU;
pub use recurrent::{
    GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell, Recurrent, RecurrentBuilder, RecurrentCell,
    RecurrentCellBuilder, State, kinds,
};
pub use sequential::Sequential;
pub use shape::{Flatten, Identity, PixelShuffle, PixelUnshuffle, Unflatten, Upsample};
pub use transformer::{
    TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
    TransformerLayerBuilder,
};
