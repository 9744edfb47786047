//! Recurrent networks and cells.

use foldback_graph::Var;
use foldback_nn::init::Nonlinearity;
use foldback_nn::kinds::{Elman, GatedUnit, Kind, LongShortTerm};
use foldback_nn::{Recurrent, RecurrentBuilder, RecurrentCell, RecurrentCellBuilder, State};
use foldback_tensor::DType;

use super::basic::size;
use super::{Results, Row, row};
use crate::conformance::args::{Args, Read, Refusal};

pub(super) const ROWS: &[Row] = &[
    row!(
        "RNN",
        "input_size hidden_size num_layers nonlinearity bias batch_first dropout bidirectional",
        |a, dtype| network::<Elman>(a, dtype)?.nonlinearity(nonlinearity(a)?).build()?,
        "input h_0 c_0 lengths",
        call_network
    ),
    row!(
        "LSTM",
        "input_size hidden_size num_layers bias batch_first dropout bidirectional proj_size",
        |a, dtype| network::<LongShortTerm>(a, dtype)?.proj_size(size_or(a, "proj_size", 0)?).build()?,
        "input h_0 c_0 lengths",
        call_network
    ),
    row!(
        "GRU",
        "input_size hidden_size num_layers bias batch_first dropout bidirectional",
        |a, dtype| network::<GatedUnit>(a, dtype)?.build()?,
        "input h_0 c_0 lengths",
        call_network
    ),
    row!(
        "RNNCell",
        "input_size hidden_size bias nonlinearity",
        |a, dtype| cell::<Elman>(a, dtype)?.nonlinearity(nonlinearity(a)?).build()?,
        "input h_0 c_0",
        call_cell
    ),
    row!(
        "LSTMCell",
        "input_size hidden_size bias",
        |a, dtype| cell::<LongShortTerm>(a, dtype)?.build()?,
        "input h_0 c_0",
        call_cell
    ),
    row!(
        "GRUCell",
        "input_size hidden_size bias",
        |a, dtype| cell::<GatedUnit>(a, dtype)?.build()?,
        "input h_0 c_0",
        call_cell
    ),
];

/// A whole number that is not negative, or its default.
pub(super) fn size_or(a: &Args, name: &str, default: usize) -> Read<usize> {
    if a.has(name) { size(a, name) } else { Ok(default) }
}

fn network<K: Kind>(a: &Args, dtype: DType) -> Read<RecurrentBuilder<K>> {
    let builder = Recurrent::builder(size(a, "input_size")?, size(a, "hidden_size")?);
    Ok(builder
        .num_layers(size_or(a, "num_layers", 1)?)
        .bias(a.flag("bias", true)?)
        .batch_first(a.flag("batch_first", false)?)
        .dropout(a.float("dropout", 0.0)?)
        .bidirectional(a.flag("bidirectional", false)?)
        .dtype(dtype))
}

fn cell<K: Kind>(a: &Args, dtype: DType) -> Read<RecurrentCellBuilder<K>> {
    let builder = RecurrentCell::builder(size(a, "input_size")?, size(a, "hidden_size")?);
    Ok(builder.bias(a.flag("bias", true)?).dtype(dtype))
}

fn nonlinearity(a: &Args) -> Read<Nonlinearity> {
    match a.word("nonlinearity", "tanh")?.as_str() {
        "tanh" => Ok(Nonlinearity::Tanh),
        "relu" => Ok(Nonlinearity::ReLU),
        other => Err(Refusal::Argument(format!("`nonlinearity` = {other}"))),
    }
}

/// The state of a call, which is given as a whole or not at all.
fn state<S: State>(a: &Args) -> Read<Option<S>> {
    if !a.has("h_0") {
        return Ok(None);
    }
    Ok(Some(S::of(S::NAMES.iter().map(|name| a.var(name)).collect::<Read<_>>()?)))
}

fn parts(state: &impl State) -> impl Iterator<Item = Option<Var>> {
    state.parts().into_iter().map(|part| Some(part.clone()))
}

fn call_network<K: Kind>(network: &Recurrent<K>, a: &Args) -> Results {
    let (input, state) = (a.var("input")?, state(a)?);
    let (y, last) = match a.ints("lengths")? {
        None => network.forward(&input, state.as_ref())?,
        Some(lengths) => {
            let lengths: Vec<usize> = lengths.into_iter().map(|l| l as usize).collect();
            network.forward_with(&input, state.as_ref(), &lengths)?
        }
    };
    Ok(std::iter::once(Some(y)).chain(parts(&last)).collect())
}

fn call_cell<K: Kind>(cell: &RecurrentCell<K>, a: &Args) -> Results {
    Ok(parts(&cell.forward(&a.var("input")?, state(a)?.as_ref())?).collect())
}
