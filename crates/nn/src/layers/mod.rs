//! Layers that are more than one function of their input.

mod attention;
mod recurrent;

pub use attention::{AttentionMasks, MultiheadAttention, MultiheadAttentionBuilder};
pub use recurrent::{
    GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell, Recurrent, RecurrentBuilder, RecurrentCell,
    RecurrentCellBuilder, State, kinds,
};
