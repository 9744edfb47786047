//! The options of a recurrent network.

use foldback_tensor::{DType, Here, refuse};

use super::cell::RecurrentCellBuilder;
use super::kinds::{Elman, Kind, LongShortTerm};
use super::layer::Recurrent;
use crate::Dropout;
use crate::error::{NnFacts, Result};
use crate::init::Nonlinearity;
use crate::layers::making::expect_layers;

/// The options of a [`Recurrent`], see [`Recurrent::builder`].
#[derive(Clone, Debug)]
#[must_use = "a layer is made when build() is called"]
pub struct RecurrentBuilder<K> {
    pub(super) cell: RecurrentCellBuilder<K>,
    pub(super) num_layers: usize,
    pub(super) bidirectional: bool,
    pub(super) batch_first: bool,
    pub(super) dropout: f64,
}

impl<K: Kind> RecurrentBuilder<K> {
    pub(super) fn new(input_size: usize, hidden_size: usize) -> Self {
        let cell = RecurrentCellBuilder {
            op: K::LAYER,
            input_size,
            hidden_size,
            proj_size: 0,
            bias: true,
            dtype: DType::F32,
            kind: K::default(),
        };
        RecurrentBuilder { cell, num_layers: 1, bidirectional: false, batch_first: false, dropout: 0.0 }
    }

    /// How many layers there are, each over what the one before gives. The default is 1.
    pub fn num_layers(mut self, num_layers: usize) -> Self {
        self.num_layers = num_layers;
        self
    }

    /// Whether each layer also goes from the end to the start. The default is no.
    pub fn bidirectional(mut self, bidirectional: bool) -> Self {
        self.bidirectional = bidirectional;
        self
    }

    /// Whether inputs and outputs are `[n, t, ..]` and not `[t, n, ..]`. The default is no.
    pub fn batch_first(mut self, batch_first: bool) -> Self {
        self.batch_first = batch_first;
        self
    }

    /// The probability that an output of a layer other than the last is dropped in training. The default is 0.
    pub fn dropout(mut self, dropout: f64) -> Self {
        self.dropout = dropout;
        self
    }

    /// Whether there are biases. The default is yes.
    pub fn bias(mut self, bias: bool) -> Self {
        self.cell = self.cell.bias(bias);
        self
    }

    /// The type of the parameters. The default is `f32`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.cell = self.cell.dtype(dtype);
        self
    }

    /// Makes the layers.
    ///
    /// # Errors
    /// If a size or the number of layers is 0, there are more than 65536 layers, the dropout is not between 0 and 1, the type not
    /// a floating-point one, or a weight too large.
    #[track_caller]
    pub fn build(self) -> Result<Recurrent<K>> {
        expect_layers(K::LAYER, self.num_layers).here()?;
        let sizes = [("input_size", self.cell.input_size), ("hidden_size", self.cell.hidden_size)];
        if let Some((name, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            let (op, expected) = (K::LAYER, "at least 1");
            return refuse(NnFacts::Parameter { op, name, value: 0.0, expected }).here();
        }
        let dropout = Dropout::try_new(self.dropout).here()?;
        let directions = if self.bidirectional { 2 } else { 1 };
        let mut one = self.cell.clone();
        let mut cells = Vec::new();
        for number in 0..self.num_layers {
            for _ in 0..directions {
                cells.push(one.clone().build().here()?);
            }
            if number == 0 {
                let size = if one.proj_size > 0 { one.proj_size } else { one.hidden_size };
                one.input_size = size * directions;
            }
        }
        Ok(Recurrent { cells, dropout, options: self })
    }
}

impl RecurrentBuilder<Elman> {
    /// What follows the sum: `Tanh`, the default, or `ReLU`.
    pub fn nonlinearity(mut self, nonlinearity: Nonlinearity) -> Self {
        self.cell = self.cell.nonlinearity(nonlinearity);
        self
    }
}

impl RecurrentBuilder<LongShortTerm> {
    /// The size that each `h` is projected to; 0, the default, for none.
    pub fn proj_size(mut self, proj_size: usize) -> Self {
        self.cell.proj_size = proj_size;
        self
    }
}
