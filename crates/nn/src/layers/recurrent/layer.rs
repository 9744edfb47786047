//! The recurrent network: cells in layers, in one direction or in both.

use std::fmt;

use foldback_graph::{Value, Var};
use foldback_tensor::{DType, Here, or_panic, refuse};

use super::cell::{RecurrentCell, check_input, part_or_zeros};
use super::kinds::{Elman, Kind, LongShortTerm};
use super::options::RecurrentBuilder;
use super::sequence::{self, Lengths};
use super::state::State;
use crate::copies::Copies;
use crate::error::{NnFacts, Result};
use crate::init::Nonlinearity;
use crate::layer_path::call_of;
use crate::module::{Module, Visitor};
use crate::{Dropout, forward};

/// A recurrent network over sequences. Its kinds are [`RNN`](crate::RNN), [`LSTM`](crate::LSTM) and [`GRU`](crate::GRU).
///
/// | | shape |
/// |---|---|
/// | input | `[t, n, in]`; `[n, t, in]` with [`batch_first`](Recurrent::batch_first); `[t, in]` without a batch |
/// | output | the same with `directions hidden` in place of `in` |
/// | state, `h` and `c` | `[layers directions, n, hidden]`; `[layers directions, hidden]` without a batch |
///
/// Parameters have PyTorch's names: `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, then those of layer 1, and
/// `weight_ih_l0_reverse` for the way back. All start uniform between `-1/sqrt(hidden)` and `1/sqrt(hidden)`. A clone shares
/// them, [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::{GRU, Module};
/// let gru = GRU::new(3, 4).bidirectional(true).bias(false);
/// let names: Vec<String> = gru.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse"]);
/// ```
pub struct Recurrent<K: Kind> {
    /// those of layer 0, forward and back, then those of layer 1, and so on
    pub cells: Vec<RecurrentCell<K>>,
    pub(super) dropout: Dropout,
    pub(super) options: RecurrentBuilder<K>,
}

impl<K: Kind> Recurrent<K> {
    /// A network of one layer with biases and `f32` parameters from this thread's generator. Setters follow it; what they change
    /// is drawn anew.
    ///
    /// # Panics
    /// If a size is 0, or a weight would be too large to address; [`Recurrent::try_new`] returns an error instead.
    #[track_caller]
    pub fn new(input_size: usize, hidden_size: usize) -> Self {
        or_panic(Self::try_new(input_size, hidden_size))
    }

    /// [`Recurrent::new`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Parameter` if a size is 0, `TooLarge` if a weight would be too large to address.
    ///
    /// ```
    /// assert!(foldback_nn::LSTM::try_new(0, 4).is_err());
    /// ```
    #[track_caller]
    pub fn try_new(input_size: usize, hidden_size: usize) -> Result<Self> {
        Self::builder(input_size, hidden_size).build().here()
    }

    /// For what may be refused: the setters of a network, and [`RecurrentBuilder::build`].
    ///
    /// ```
    /// use foldback_nn::LSTM;
    /// assert!(LSTM::builder(3, 4).num_layers(2).dropout(0.1).build().is_ok());
    /// assert!(LSTM::builder(3, 4).proj_size(4).build().is_err());
    /// ```
    pub fn builder(input_size: usize, hidden_size: usize) -> RecurrentBuilder<K> {
        RecurrentBuilder::new(input_size, hidden_size)
    }

    /// How many layers there are, each over what the one before gives. The default is 1; parameters are drawn anew.
    ///
    /// # Panics
    /// If it is 0; [`RecurrentBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn num_layers(self, num_layers: usize) -> Self {
        or_panic(self.options.num_layers(num_layers).build())
    }

    /// Whether each layer also goes from the end to the start; both outputs stand side by side. Parameters are drawn anew.
    ///
    /// # Panics
    /// If a weight would be too large to address; [`RecurrentBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn bidirectional(self, bidirectional: bool) -> Self {
        or_panic(self.options.bidirectional(bidirectional).build())
    }

    /// Whether inputs and outputs are `[n, t, ..]` and not `[t, n, ..]`. States are not concerned.
    #[must_use]
    pub fn batch_first(mut self, batch_first: bool) -> Self {
        self.options.batch_first = batch_first;
        self
    }

    /// The probability that an output of a layer other than the last is dropped in training, by this thread's generator.
    ///
    /// # Panics
    /// If it is not between 0 and 1; [`RecurrentBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn dropout(mut self, dropout: f64) -> Self {
        let mut layer = Dropout::new(dropout);
        layer.set_training(self.dropout.is_training());
        self.dropout = layer;
        self.options.dropout = dropout;
        self
    }

    /// Whether there are biases. Parameters are drawn anew.
    ///
    /// # Panics
    /// If a weight would be too large to address; [`RecurrentBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn bias(self, bias: bool) -> Self {
        or_panic(self.options.bias(bias).build())
    }

    /// With parameters of this type, drawn anew. The default is `f32`.
    ///
    /// # Panics
    /// If it is not a floating-point type; [`RecurrentBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn dtype(self, dtype: DType) -> Self {
        or_panic(self.options.dtype(dtype).build())
    }

    /// [`Recurrent::forward`] of sequences of these lengths, one for each of the batch: what lies behind a sequence's end has no
    /// influence. Outputs there are 0, and the state is that of each one's last step. The way back begins at each one's end.
    /// PyTorch's result for a
    /// [packed sequence](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html), padded
    /// to as many steps as the input has.
    ///
    /// # Errors
    /// As [`Recurrent::forward`]; `Lengths` for another number of lengths than the batch has sequences, for one that is 0 or
    /// longer than the input, and for an input without a batch.
    ///
    /// ```
    /// use foldback_nn::GRU;
    /// use foldback_tensor::Tensor;
    /// let gru = GRU::new(3, 4);
    /// let x = Tensor::randn([5, 2, 3]);
    /// let (y, h) = gru.forward_with(&x, None, &[5, 2])?;
    /// assert_eq!(y.slice((4, 1))?.value(), Tensor::zeros([4]));
    /// assert_eq!(y.slice((1, 1))?.value(), h.slice((0, 1))?.value());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    pub fn forward_with(
        &self,
        input: impl Value,
        state: Option<&K::State>,
        lengths: &[usize],
    ) -> Result<(Var, K::State)> {
        call_of!(self, self.run(&input.as_var(), state, Some(lengths)))
    }

    #[track_caller]
    fn run(
        &self,
        input: &Var,
        state: Option<&K::State>,
        lengths: Option<&[usize]>,
    ) -> Result<(Var, K::State)> {
        let alone = input.rank() == 2;
        let swapped = self.options.batch_first && !alone;
        let mut x = if alone { input.unsqueeze(1)? } else { input.clone() };
        check_input(K::LAYER, &x, 3, input.shape(), &self.cells[0]).here()?;
        if swapped {
            x = x.transpose(0, 1)?;
        }
        let [steps, rows] = [x.dims()[0], x.dims()[1]];
        if steps == 0 {
            let (op, expected) = (K::LAYER, "[t, ..] of at least one step".to_owned());
            return refuse(NnFacts::InputShape {
                op,
                name: "an input",
                expected,
                found: input.shape().clone(),
            })
            .here();
        }
        let lengths = match lengths {
            None => None,
            Some(lengths) => Some(Lengths::new(K::LAYER, lengths, [steps, rows], alone).here()?),
        };
        if let Some(lengths) = &lengths {
            x = lengths.cut(&x)?;
        }
        let mut states = self.first_states(state, rows, alone, x.dtype()).here()?;
        let directions = self.directions();
        let mut last: Vec<Vec<Var>> = vec![Vec::new(); K::State::NAMES.len()];
        for (number, layer) in self.cells.chunks(directions).enumerate() {
            if number > 0 {
                x = self.dropout.forward(&x)?;
            }
            let mut outputs = Vec::with_capacity(directions);
            for (back, cell) in layer.iter().enumerate() {
                let first = states.next().expect("a state for each cell");
                let (output, end) = sequence::run(cell, &x, first, lengths.as_ref(), back == 1)?;
                outputs.push(output);
                for (all, part) in last.iter_mut().zip(end.parts()) {
                    all.push(part.clone());
                }
            }
            x = match &outputs[..] {
                [one] => one.clone(),
                all => Var::cat(all, -1)?,
            };
        }
        let mut parts = Vec::with_capacity(last.len());
        for all in &last {
            let all = Var::stack(all, 0)?;
            parts.push(if alone { all.squeeze(1)? } else { all });
        }
        if swapped {
            x = x.transpose(0, 1)?;
        }
        Ok((if alone { x.squeeze(1)? } else { x }, K::State::of(parts)))
    }

    /// The state that each cell begins with, `[n, hidden]`.
    #[track_caller]
    fn first_states(
        &self,
        state: Option<&K::State>,
        rows: usize,
        alone: bool,
        dtype: DType,
    ) -> Result<std::vec::IntoIter<K::State>> {
        let count = self.cells.len();
        let given: Vec<&Var> = state.map_or_else(Vec::new, |state| state.parts());
        let mut parts: Vec<Vec<Var>> = vec![Vec::new(); count];
        for (i, size) in self.cells[0].state_sizes().into_iter().enumerate().take(K::State::NAMES.len()) {
            let shape: &[usize] = if alone { &[count, size] } else { &[count, rows, size] };
            let part = part_or_zeros::<K>(K::LAYER, given.get(i).copied(), i, shape, dtype)?;
            let part = if alone { part.unsqueeze(1)? } else { part };
            for (of_cell, part) in parts.iter_mut().zip(part.unbind(0)?) {
                of_cell.push(part);
            }
        }
        Ok(parts.into_iter().map(K::State::of).collect::<Vec<_>>().into_iter())
    }

    fn directions(&self) -> usize {
        if self.options.bidirectional { 2 } else { 1 }
    }
}

impl Recurrent<Elman> {
    /// What follows the sum: `Tanh` or `ReLU`. The default is `Tanh`; the parameters are kept.
    ///
    /// # Panics
    /// If it is another one; [`RecurrentBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn nonlinearity(mut self, nonlinearity: Nonlinearity) -> Self {
        let kind = Elman { nonlinearity };
        or_panic(kind.check(Elman::LAYER));
        self.options.cell.kind = kind;
        self.cells.iter_mut().for_each(|cell| cell.kind = kind);
        self
    }
}

impl Recurrent<LongShortTerm> {
    /// The size that each `h` is projected to, by `weight_hr_l0` and so on; 0, the default, for none. Parameters are drawn anew.
    /// (Sak and others, 2014.)
    ///
    /// # Panics
    /// If it is not less than the hidden size; [`RecurrentBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn proj_size(self, proj_size: usize) -> Self {
        or_panic(self.options.proj_size(proj_size).build())
    }
}

#[forward]
impl<K: Kind> Recurrent<K> {
    /// The outputs of the last layer, and the last state. Without a state it begins with zeros.
    ///
    /// # Errors
    /// `Input` or `Features` if the input does not fit or has no step, `InputShape` if the state does not;
    /// `DType` for types that are not the weights'.
    #[track_caller]
    pub fn forward(&self, input: &Var, state: Option<&K::State>) -> Result<(Var, K::State)> {
        self.run(input, state, None)
    }
}

impl<K: Kind> Clone for Recurrent<K> {
    /// A network that shares these weights; [`deep_copy`](Module::deep_copy) gives it its own.
    fn clone(&self) -> Self {
        self.copy_parts(&mut Copies::shared())
    }
}

impl<K: Kind> fmt::Debug for Recurrent<K> {
    /// The options, not the numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        f.debug_struct(K::LAYER)
            .field("input_size", &options.cell.input_size)
            .field("hidden_size", &options.cell.hidden_size)
            .field("num_layers", &options.num_layers)
            .field("bidirectional", &options.bidirectional)
            .finish()
    }
}

impl<K: Kind> Module for Recurrent<K> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.layer(self);
        let directions = self.directions();
        for (i, cell) in self.cells.iter().enumerate() {
            let (number, back) = (i / directions, if i % directions == 1 { "_reverse" } else { "" });
            for (name, var) in cell.named() {
                visitor.part(&format!("{name}_l{number}{back}"), var);
            }
        }
    }
    fn set_training(&mut self, training: bool) {
        self.dropout.set_training(training);
    }
    fn copy_parts(&self, copies: &mut Copies) -> Self {
        Recurrent {
            cells: copies.part(&self.cells),
            dropout: copies.part(&self.dropout),
            options: copies.setting(&self.options),
        }
    }
}
