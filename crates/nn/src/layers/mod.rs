//! Layers, a file for each family.

mod activation;
mod adaptive;
mod adaptive_softmax;
mod alpha_dropout;
mod attention;
mod batch_norm;
mod bilinear;
mod channel_dropout;
mod conv;
mod curves;
mod distance;
mod dropout;
mod embedding;
mod fold;
mod fractional;
mod linear;
mod linear_cross_entropy;
mod lp_pool;
mod making;
mod norm;
mod pad;
mod planes;
mod pool;
mod prelu;
mod recurrent;
mod sequential;
mod shape;
mod transformer;
mod unpool;
mod whole_batches;

pub use activation::*;
pub use adaptive::{AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveMaxPool1d, AdaptiveMaxPool2d};
pub use adaptive_softmax::AdaptiveLogSoftmaxWithLoss;
pub use alpha_dropout::{AlphaDropout, FeatureAlphaDropout};
pub use attention::{AttentionMasks, MultiheadAttention, MultiheadAttentionBuilder};
pub use batch_norm::{BatchNorm1d, BatchNorm2d, InstanceNorm1d, InstanceNorm2d};
pub use bilinear::Bilinear;
pub use channel_dropout::{Dropout1d, Dropout2d};
pub use conv::{Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d};
pub use curves::*;
pub use distance::{CosineSimilarity, PairwiseDistance};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use fold::{Fold, Unfold};
pub use fractional::FractionalMaxPool2d;
pub use linear::{Linear, LinearBuilder, linear};
pub use linear_cross_entropy::LinearCrossEntropyLoss;
pub use lp_pool::{LPPool1d, LPPool2d};
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
pub use shape::{ChannelShuffle, Flatten, Identity, PixelShuffle, PixelUnshuffle, Unflatten, Upsample};
pub use transformer::{
    TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
    TransformerLayerBuilder,
};
pub use unpool::{MaxUnpool1d, MaxUnpool2d};
#[doc(hidden)]
pub use whole_batches::{forget_batches, over_all_batches};

#[cfg(test)]
mod tests;
