//! The weights of one layer in one direction, and one step with them.

use std::fmt;

use foldback_graph::Var;
use foldback_tensor::{DType, Here, Shape, Tensor, or_panic, refuse};

use super::kinds::{Elman, Kind};
use super::state::State;
use crate::copies::Copies;
use crate::error::{NnFacts, Result};
use crate::forward;
use crate::init::{Init, Nonlinearity};
use crate::module::{Module, Visitor};

/// One step of a recurrent network, from an input `[n, in]` and a state `[n, hidden]` to the next state; `[in]` and `[hidden]`
/// without a batch. Its kinds are [`RNNCell`](crate::RNNCell), [`LSTMCell`](crate::LSTMCell) and [`GRUCell`](crate::GRUCell);
/// the layers of a [`Recurrent`](crate::Recurrent) are made of it.
///
/// All parameters start uniform between `-1/sqrt(hidden)` and `1/sqrt(hidden)`. A clone shares them,
/// [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::{LSTMCell, Module};
/// let names: Vec<String> = LSTMCell::new(3, 4).named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]);
/// ```
pub struct RecurrentCell<K: Kind> {
    /// `[gates hidden, in]`
    pub weight_ih: Var,
    /// `[gates hidden, hidden]`; `[gates hidden, proj_size]` where states are projected
    pub weight_hh: Var,
    /// `[gates hidden]`, if there is one
    pub bias_ih: Option<Var>,
    /// `[gates hidden]`, if there is one
    pub bias_hh: Option<Var>,
    /// `[proj_size, hidden]` in a layer whose states are projected
    pub weight_hr: Option<Var>,
    pub(super) kind: K,
}

/// The options of a [`RecurrentCell`], see [`RecurrentCell::builder`].
#[derive(Clone, Debug)]
#[must_use = "a cell is made when build() is called"]
pub struct RecurrentCellBuilder<K> {
    pub(super) op: &'static str,
    pub(super) input_size: usize,
    pub(super) hidden_size: usize,
    pub(super) proj_size: usize,
    pub(super) bias: bool,
    pub(super) dtype: DType,
    pub(super) kind: K,
}

impl<K: Kind> RecurrentCell<K> {
    /// A cell with biases and `f32` parameters from this thread's generator.
    ///
    /// # Panics
    /// If a weight would be too large to address; [`RecurrentCell::try_new`] returns an error instead.
    #[track_caller]
    pub fn new(input_size: usize, hidden_size: usize) -> Self {
        or_panic(Self::try_new(input_size, hidden_size))
    }

    /// [`RecurrentCell::new`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `TooLarge` if a weight would be too large to address.
    ///
    /// ```
    /// assert!(foldback_nn::GRUCell::try_new(3, usize::MAX).is_err());
    /// ```
    #[track_caller]
    pub fn try_new(input_size: usize, hidden_size: usize) -> Result<Self> {
        Self::builder(input_size, hidden_size).build().here()
    }

    /// For what may be refused: the setters of a cell, and [`RecurrentCellBuilder::build`].
    ///
    /// ```
    /// use foldback_nn::GRUCell;
    /// assert!(GRUCell::builder(3, 4).bias(false).build()?.bias_ih.is_none());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    pub fn builder(input_size: usize, hidden_size: usize) -> RecurrentCellBuilder<K> {
        RecurrentCellBuilder {
            op: K::CELL,
            input_size,
            hidden_size,
            proj_size: 0,
            bias: true,
            dtype: DType::F32,
            kind: K::default(),
        }
    }

    /// What makes another cell like this one.
    fn again(&self) -> RecurrentCellBuilder<K> {
        RecurrentCellBuilder {
            bias: self.bias_ih.is_some(),
            dtype: self.weight_ih.dtype(),
            kind: self.kind,
            ..Self::builder(self.input_size(), self.hidden_size())
        }
    }

    /// Whether there are biases. All parameters are drawn anew.
    ///
    /// # Panics
    /// Where [`RecurrentCellBuilder::build`] returns an error.
    #[must_use]
    #[track_caller]
    pub fn bias(self, bias: bool) -> Self {
        or_panic(self.again().bias(bias).build())
    }

    /// With parameters of this type, drawn anew. The default is `f32`.
    ///
    /// # Panics
    /// If it is not a floating-point type; [`RecurrentCellBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn dtype(self, dtype: DType) -> Self {
        or_panic(self.again().dtype(dtype).build())
    }

    /// The size of the last axis of inputs.
    pub fn input_size(&self) -> usize {
        self.weight_ih.dims().last().copied().unwrap_or(1)
    }

    /// The size of the last axis of states, before a projection.
    pub fn hidden_size(&self) -> usize {
        self.weight_ih.dims().first().map_or(1, |rows| rows / K::GATES)
    }

    /// The sizes of the last axes of the parts of a state.
    pub(super) fn state_sizes(&self) -> [usize; 2] {
        let hidden = self.hidden_size();
        let h = self.weight_hr.as_ref().and_then(|w| w.dims().first().copied());
        [h.unwrap_or(hidden), hidden]
    }

    /// The parameters with PyTorch's names for them.
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, &Var)> {
        let all = [
            ("weight_ih", Some(&self.weight_ih)),
            ("weight_hh", Some(&self.weight_hh)),
            ("bias_ih", self.bias_ih.as_ref()),
            ("bias_hh", self.bias_hh.as_ref()),
            ("weight_hr", self.weight_hr.as_ref()),
        ];
        all.into_iter().filter_map(|(name, var)| Some((name, var?)))
    }
}

impl RecurrentCell<Elman> {
    /// What follows the sum: `Tanh` or `ReLU`. The default is `Tanh`; the parameters are kept.
    ///
    /// # Panics
    /// If it is another one; [`RecurrentCellBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn nonlinearity(mut self, nonlinearity: Nonlinearity) -> Self {
        self.kind = Elman { nonlinearity };
        or_panic(self.kind.check(Elman::CELL));
        self
    }
}

#[forward]
impl<K: Kind> RecurrentCell<K> {
    /// The next state: of an input `[n, in]` and a state `[n, hidden]`, or of `[in]` and `[hidden]`. Without a state it begins
    /// with zeros.
    ///
    /// # Errors
    /// `Input` or `Features` if the input does not fit, `InputShape` if the state does not; `DType` and `MixedDTypes` for
    /// types that are not the weights'.
    #[track_caller]
    pub fn forward(&self, input: &Var, state: Option<&K::State>) -> Result<K::State> {
        let alone = input.rank() == 1;
        let x = if alone { input.unsqueeze(0)? } else { input.clone() };
        check_input(K::CELL, &x, 2, input.shape(), self).here()?;
        let rows = x.dims()[0];
        let given: Vec<&Var> = state.map_or_else(Vec::new, |state| state.parts());
        let mut parts = Vec::new();
        for (i, size) in self.state_sizes().into_iter().enumerate().take(K::State::NAMES.len()) {
            let shape: &[usize] = if alone { &[size] } else { &[rows, size] };
            let part = part_or_zeros::<K>(K::CELL, given.get(i).copied(), i, shape, x.dtype()).here()?;
            parts.push(if alone { part.unsqueeze(0)? } else { part });
        }
        let gates = self.kind.of_inputs(self, &x)?;
        let next = self.kind.step(self, &gates, &K::State::of(parts), &self.weight_hh.t())?;
        if !alone {
            return Ok(next);
        }
        let mut parts = Vec::new();
        for part in next.parts() {
            parts.push(part.squeeze(0)?);
        }
        Ok(K::State::of(parts))
    }
}

/// Refuses an input that is not of this rank, or not for these weights.
pub(super) fn check_input<K: Kind>(
    op: &'static str,
    x: &Var,
    rank: usize,
    given: &Shape,
    cell: &RecurrentCell<K>,
) -> Result<()> {
    if x.rank() != rank {
        let size = cell.input_size();
        let expected = if rank == 2 {
            format!("[{size}], or [n, {size}] with a batch")
        } else {
            format!("[t, {size}], or [t, n, {size}] with a batch")
        };
        return refuse(NnFacts::InputShape { op, name: "an input", expected, found: given.clone() });
    }
    if x.dims()[rank - 1] != cell.input_size() {
        return refuse(NnFacts::Features { op, expected: cell.input_size(), found: given.clone() });
    }
    check_dtype(op, "the input", x, cell.weight_ih.dtype())
}

fn check_dtype(op: &'static str, name: &'static str, x: &Var, expected: DType) -> Result<()> {
    if x.dtype() == expected {
        return Ok(());
    }
    let expected = match expected {
        DType::F64 => "f64 as the weights are",
        DType::F32 => "f32 as the weights are",
        _ => "of the weights' type",
    };
    refuse(NnFacts::DType { op, name, found: x.dtype(), expected })
}

/// Part number `i` of a state, which must have this shape; zeros if there is none.
pub(super) fn part_or_zeros<K: Kind>(
    op: &'static str,
    part: Option<&Var>,
    i: usize,
    shape: &[usize],
    dtype: DType,
) -> Result<Var> {
    let Some(part) = part else { return Ok(Tensor::try_zeros_with(shape, dtype)?.into()) };
    let name = K::State::NAMES[i];
    if part.dims() != shape {
        let expected = format!("{shape:?}");
        return refuse(NnFacts::InputShape { op, name, expected, found: part.shape().clone() });
    }
    check_dtype(op, name, part, dtype)?;
    Ok(part.clone())
}

impl<K: Kind> RecurrentCellBuilder<K> {
    /// Whether there are biases. The default is yes.
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// The type of the parameters. The default is `f32`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Makes the cell.
    ///
    /// # Errors
    /// If the type is not a floating-point one, or a weight too large.
    #[track_caller]
    pub fn build(self) -> Result<RecurrentCell<K>> {
        let RecurrentCellBuilder { op, input_size, hidden_size, proj_size, bias, dtype, kind } = self;
        if proj_size > 0 && proj_size >= hidden_size {
            let expected = "less than hidden_size";
            return refuse(NnFacts::Parameter { op, name: "proj_size", value: proj_size as f64, expected })
                .here();
        }
        kind.check(op).here()?;
        let bound = 1.0 / (hidden_size.max(1) as f64).sqrt();
        let law = Init::uniform(-bound, bound);
        let rows = hidden_size.saturating_mul(K::GATES);
        let state = if proj_size > 0 { proj_size } else { hidden_size };
        let leaf = |shape: &[usize]| Var::leaf(law.sample(shape, dtype)?);
        let maybe = |wanted: bool, shape: &[usize]| wanted.then(|| leaf(shape)).transpose();
        Ok(RecurrentCell {
            weight_ih: leaf(&[rows, input_size]).here()?,
            weight_hh: leaf(&[rows, state]).here()?,
            bias_ih: maybe(bias, &[rows]).here()?,
            bias_hh: maybe(bias, &[rows]).here()?,
            weight_hr: maybe(proj_size > 0, &[proj_size, hidden_size]).here()?,
            kind,
        })
    }
}

impl RecurrentCellBuilder<Elman> {
    /// What follows the sum: `Tanh`, the default, or `ReLU`.
    pub fn nonlinearity(mut self, nonlinearity: Nonlinearity) -> Self {
        self.kind = Elman { nonlinearity };
        self
    }
}

impl<K: Kind> Clone for RecurrentCell<K> {
    /// A cell that shares these weights; [`deep_copy`](Module::deep_copy) gives it its own.
    fn clone(&self) -> Self {
        self.copy_parts(&mut Copies::shared())
    }
}

impl<K: Kind> fmt::Debug for RecurrentCell<K> {
    /// The sizes, not the numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(K::CELL)
            .field("input_size", &self.input_size())
            .field("hidden_size", &self.hidden_size())
            .field("bias", &self.bias_ih.is_some())
            .finish()
    }
}

impl<K: Kind> Module for RecurrentCell<K> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.layer(self);
        for (name, var) in self.named() {
            visitor.part(name, var);
        }
    }
    fn set_training(&mut self, _: bool) {}
    fn copy_parts(&self, copies: &mut Copies) -> Self {
        RecurrentCell {
            weight_ih: copies.part(&self.weight_ih),
            weight_hh: copies.part(&self.weight_hh),
            bias_ih: copies.part(&self.bias_ih),
            bias_hh: copies.part(&self.bias_hh),
            weight_hr: copies.part(&self.weight_hr),
            kind: self.kind,
        }
    }
}
