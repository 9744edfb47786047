//! What recurrent networks differ in: how many gates there are, and what a step makes of them.

use foldback_graph::{Var, fuse};
use foldback_tensor::refuse;

use super::cell::RecurrentCell;
use super::state::State;
use crate::error::{NnFacts, Result};
use crate::init::Nonlinearity;

/// A kind of recurrent network: [`Elman`], [`LongShortTerm`] or [`GatedUnit`].
///
/// ```
/// use foldback_nn::kinds::{Kind, LongShortTerm};
/// assert_eq!(LongShortTerm::GATES, 4);
/// ```
pub trait Kind: Copy + Default + std::fmt::Debug + Send + Sync + sealed::SealedKind + 'static {
    /// `h`, or `(h, c)`
    type State: State;
    /// how many rows of a weight belong to one number of the state
    const GATES: usize;
    /// the name of its layer in errors
    const LAYER: &'static str;
    /// the name of its cell in errors
    const CELL: &'static str;

    /// What the inputs `[.., in]` contribute, in as many parts as its step likes: for all steps at once.
    #[doc(hidden)]
    fn of_inputs(self, cell: &RecurrentCell<Self>, x: &Var) -> Result<Vec<Var>>;

    /// The next state, given what the input contributes, and the transposed `weight_hh`.
    #[doc(hidden)]
    fn step(self, cell: &RecurrentCell<Self>, x: &[Var], state: &Self::State, w: &Var)
    -> Result<Self::State>;

    /// Refuses a setting.
    #[doc(hidden)]
    fn check(self, _op: &'static str) -> Result<()> {
        Ok(())
    }
}

mod sealed {
    pub trait SealedKind {}
    impl SealedKind for super::Elman {}
    impl SealedKind for super::LongShortTerm {}
    impl SealedKind for super::GatedUnit {}
}

/// The kind of an [`RNN`](crate::RNN).
#[derive(Clone, Copy, Debug)]
pub struct Elman {
    pub(super) nonlinearity: Nonlinearity,
}

impl Default for Elman {
    fn default() -> Elman {
        Elman { nonlinearity: Nonlinearity::Tanh }
    }
}

/// The kind of an [`LSTM`](crate::LSTM).
#[derive(Clone, Copy, Debug, Default)]
pub struct LongShortTerm;

/// The kind of a [`GRU`](crate::GRU).
#[derive(Clone, Copy, Debug, Default)]
pub struct GatedUnit;

/// The inputs' part where both biases are only ever added: `x W_ih^T + (b_ih + b_hh)`.
#[track_caller]
fn with_both_biases<K: Kind>(cell: &RecurrentCell<K>, x: &Var) -> Result<Var> {
    let bias = match (&cell.bias_ih, &cell.bias_hh) {
        (Some(a), Some(b)) => Some(a.add(b)?),
        (one, other) => one.as_ref().or(other.as_ref()).cloned(),
    };
    x.linear(&cell.weight_ih, &bias)
}

impl Kind for Elman {
    type State = Var;
    const GATES: usize = 1;
    const LAYER: &'static str = "rnn";
    const CELL: &'static str = "rnn_cell";

    #[track_caller]
    fn of_inputs(self, cell: &RecurrentCell<Self>, x: &Var) -> Result<Vec<Var>> {
        Ok(vec![with_both_biases(cell, x)?])
    }

    #[track_caller]
    fn step(self, _: &RecurrentCell<Self>, x: &[Var], h: &Var, w: &Var) -> Result<Var> {
        let sum = x[0].addmm(h, w)?;
        Ok(if self.nonlinearity == Nonlinearity::Tanh { sum.tanh() } else { sum.relu() })
    }

    fn check(self, op: &'static str) -> Result<()> {
        match self.nonlinearity {
            Nonlinearity::Tanh | Nonlinearity::ReLU => Ok(()),
            other => refuse(NnFacts::Choice {
                op,
                name: "nonlinearity",
                found: format!("{other:?}"),
                expected: "Tanh or ReLU",
            }),
        }
    }
}

impl Kind for LongShortTerm {
    type State = (Var, Var);
    const GATES: usize = 4;
    const LAYER: &'static str = "lstm";
    const CELL: &'static str = "lstm_cell";

    #[track_caller]
    fn of_inputs(self, cell: &RecurrentCell<Self>, x: &Var) -> Result<Vec<Var>> {
        Ok(vec![with_both_biases(cell, x)?])
    }

    #[track_caller]
    fn step(self, cell: &RecurrentCell<Self>, x: &[Var], (h, c): &(Var, Var), w: &Var) -> Result<(Var, Var)> {
        let [i, f, g, o] = x[0].addmm(h, w)?.chunks(-1)?;
        let c = fuse!(|i, f, g, c| f.sigmoid() * c + i.sigmoid() * g.tanh())
            .named(Self::LAYER)
            .call([&i, &f, &g, c])?;
        let mut h = fuse!(|o, c| o.sigmoid() * c.tanh()).named(Self::LAYER).call([&o, &c])?;
        if let Some(projection) = &cell.weight_hr {
            h = h.linear(projection, None)?;
        }
        Ok((h, c))
    }
}

impl Kind for GatedUnit {
    type State = Var;
    const GATES: usize = 3;
    const LAYER: &'static str = "gru";
    const CELL: &'static str = "gru_cell";

    #[track_caller]
    fn of_inputs(self, cell: &RecurrentCell<Self>, x: &Var) -> Result<Vec<Var>> {
        x.linear(&cell.weight_ih, &cell.bias_ih)?.chunk(3, -1)
    }

    #[track_caller]
    fn step(self, cell: &RecurrentCell<Self>, x: &[Var], h: &Var, _: &Var) -> Result<Var> {
        let [r, z, n] = h.linear(&cell.weight_hh, &cell.bias_hh)?.chunks(-1)?;
        let next = fuse!(|xr, xz, xn, r, z, n, h| {
            let z = (xz + z).sigmoid();
            let n = (xn + (xr + r).sigmoid() * n).tanh();
            n + z * (h - n)
        });
        next.named(Self::LAYER).call([&x[0], &x[1], &x[2], &r, &z, &n, h])
    }
}
