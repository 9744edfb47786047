//! Recurrent networks: Elman's, long short-term memory and gated units, in layers, in both directions, over sequences of
//! unequal lengths.

mod cell;
pub mod kinds;
mod layer;
mod options;
mod sequence;
mod state;

pub use cell::{RecurrentCell, RecurrentCellBuilder};
pub use layer::Recurrent;
pub use options::RecurrentBuilder;
pub use state::State;

use kinds::{Elman, GatedUnit, LongShortTerm};

/// Elman's network: `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`, or with ReLU. PyTorch's
/// [`RNN`](https://docs.pytorch.org/docs/stable/generated/torch.nn.RNN.html); the state is `h`. See [`Recurrent`].
///
/// ```
/// use foldback_nn::init::Nonlinearity;
/// use foldback_nn::RNN;
/// use foldback_tensor::Tensor;
/// let rnn = RNN::new(3, 4).nonlinearity(Nonlinearity::ReLU);
/// let (y, h) = rnn.forward(&Tensor::randn([5, 2, 3]), None)?;
/// assert_eq!(y.shape(), [5, 2, 4]);
/// assert_eq!(h.shape(), [1, 2, 4]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
pub type RNN = Recurrent<Elman>;

/// Long short-term memory: with the gates `i f g o = W_ih x + b_ih + W_hh h + b_hh`,
/// `c' = sigmoid(f) c + sigmoid(i) tanh(g)` and `h' = sigmoid(o) tanh(c')`. (Hochreiter and Schmidhuber, 1997; PyTorch's
/// [`LSTM`](https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html).) The state is `(h, c)`. See [`Recurrent`].
///
/// ```
/// use foldback_nn::LSTM;
/// use foldback_tensor::Tensor;
/// let lstm = LSTM::new(3, 4).num_layers(2).bidirectional(true);
/// let x = Tensor::randn([5, 2, 3]);
/// let (y, (h, c)) = lstm.forward(&x, None)?;
/// assert_eq!(y.shape(), [5, 2, 8]);
/// assert_eq!((h.dims(), c.dims()), (&[4, 2, 4][..], &[4, 2, 4][..]));
/// let (more, _) = lstm.forward(&x, Some(&(h, c)))?;
/// assert_eq!(more.shape(), [5, 2, 8]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
pub type LSTM = Recurrent<LongShortTerm>;

/// Gated recurrent units: with the gates `r z n` of the input and of the state, `r = sigmoid(r_x + r_h)`,
/// `z = sigmoid(z_x + z_h)`, `n = tanh(n_x + r n_h)` and `h' = (1 - z) n + z h`. (Cho and others, 2014; PyTorch's
/// [`GRU`](https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html).) The state is `h`. See [`Recurrent`].
///
/// ```
/// use foldback_nn::GRU;
/// use foldback_tensor::Tensor;
/// let gru = GRU::new(3, 4).batch_first(true);
/// let (y, h) = gru.forward(&Tensor::randn([2, 5, 3]), None)?;
/// assert_eq!((y.dims(), h.dims()), (&[2, 5, 4][..], &[1, 2, 4][..]));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
pub type GRU = Recurrent<GatedUnit>;

/// One step of an [`RNN`]: PyTorch's [`RNNCell`](https://docs.pytorch.org/docs/stable/generated/torch.nn.RNNCell.html). See
/// [`RecurrentCell`].
///
/// ```
/// use foldback_nn::RNNCell;
/// use foldback_tensor::Tensor;
/// let h = RNNCell::new(3, 4).forward(&Tensor::randn([2, 3]), None)?;
/// assert_eq!(h.shape(), [2, 4]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
pub type RNNCell = RecurrentCell<Elman>;

/// One step of an [`LSTM`]: PyTorch's [`LSTMCell`](https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTMCell.html). See
/// [`RecurrentCell`].
///
/// ```
/// use foldback_nn::LSTMCell;
/// use foldback_tensor::Tensor;
/// let cell = LSTMCell::new(3, 4);
/// let state = cell.forward(&Tensor::randn([2, 3]), None)?;
/// let (h, c) = cell.forward(&Tensor::randn([2, 3]), Some(&state))?;
/// assert_eq!((h.dims(), c.dims()), (&[2, 4][..], &[2, 4][..]));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
pub type LSTMCell = RecurrentCell<LongShortTerm>;

/// One step of a [`GRU`]: PyTorch's [`GRUCell`](https://docs.pytorch.org/docs/stable/generated/torch.nn.GRUCell.html). See
/// [`RecurrentCell`].
///
/// ```
/// use foldback_nn::GRUCell;
/// use foldback_tensor::Tensor;
/// let h = GRUCell::new(3, 4).forward(&Tensor::randn([3]), None)?;
/// assert_eq!(h.shape(), [4]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
pub type GRUCell = RecurrentCell<GatedUnit>;

#[cfg(test)]
mod tests;
