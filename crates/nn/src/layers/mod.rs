//! Layers that are more than one function of their input.

mod recurrent;

pub use recurrent::{
    GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell, Recurrent, RecurrentBuilder, RecurrentCell,
    RecurrentCellBuilder, State, kinds,
};
