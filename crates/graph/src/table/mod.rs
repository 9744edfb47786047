//! The derivative table: one operation, one row, one place.
//!
//! Note [Rows]
//! A row names an operation, its inputs, its forward value, the gradient of each input and where to try it. From a row
//! come the method of [`Var`], the node, the double backward and the checks; nothing else needs to be written.
//!
//! *Naming is saving.* A gradient may use only what its `|...|` names: `g`, the inputs, the output (the name behind
//! `=>`). What is named is kept alive until the backward pass, and nothing else is.
//!
//! A *pointwise* row's gradients are formulas over [`Real`](foldback_tensor::kernel::Real). The engine runs them as one
//! fused pass, straight into the shape of the input; under `create_graph` it records them. A *function* row's gradients
//! are expressions over variables, for operations that a formula does not fit. Rows never undo broadcasting, never add
//! up gradients and never check shapes: the engine does (`validate_outputs`).

mod arithmetic;
mod elementary;
mod functions;
mod index;
mod linalg;
mod list;
mod macros;
mod reduce;
mod samples;
mod softmax;
mod views;

use foldback_tensor::{Shape, Tensor};

use crate::error::Result;
use crate::var::Var;

pub use samples::{Domain, InputSpec, OwnedSample, Row, Sample};

/// The gradients of a row of pointwise formulas.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// one per input, in order
    pub(crate) gradients: &'static [Gradient],
}

/// A rule without inputs, for nodes that are being taken apart.
pub(crate) static NOTHING: Rule = Rule { name: "nothing", gradients: &[] };

/// Evaluates a formula: parameters, operands, the shape to fold to, and what waits there already.
type Fold = fn(&[f64; 2], &[&Tensor], &Shape, Option<Tensor>) -> foldback_tensor::Result<Tensor>;

/// The gradient of one input.
pub(crate) struct Gradient {
    /// what a node must save for it: a bit for each place, see Note [Places of saved values]
    pub(crate) saves: u32,
    /// what the formula takes, in order
    pub(crate) operands: &'static [Slot],
    /// whether the formula is `g` itself
    pub(crate) passes: bool,
    /// evaluates the formula and folds the result to a shape, adding what waits there already
    pub(crate) fold: Fold,
    /// the formula as a kernel, to be evaluated together with others
    pub(crate) kernel: fn(&[f64; 2]) -> Box<dyn foldback_tensor::kernel::BlockKernel>,
    /// records the formula
    pub(crate) trace: fn(&[f64; 2], &[&Var]) -> Result<Var>,
}

/// Something a formula takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// the gradient of the output
    Grad,
    /// an input, by its number
    Input(usize),
    /// an output, by its number
    Output(usize),
}

/// Every row of the table, for tests that walk it.
///
/// ```
/// assert!(foldback_graph::rows().any(|row| row.name == "tanh"));
/// ```
pub fn rows() -> impl Iterator<Item = &'static Row> {
    [arithmetic::ROWS, elementary::ROWS, list::ROWS, reduce::ROWS, views::ROWS, linalg::ROWS, index::ROWS]
        .into_iter()
        .flatten()
}

/// Used by the macros: what is known about names at compile time.
pub(crate) mod names {
    use super::Slot;

    const fn same(a: &str, b: &str) -> bool {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        if a.len() != b.len() {
            return false;
        }
        let mut i = 0;
        while i < a.len() {
            if a[i] != b[i] {
                return false;
            }
            i += 1;
        }
        true
    }

    /// The name that users see: a row for variables and one for numbers are one operation to them.
    pub(crate) const fn shown(row: &'static str) -> &'static str {
        let kinds = ["_vars", "_number", "_numbers", "_shape", "_biased", "_unbiased"];
        let mut i = 0;
        while i < kinds.len() {
            if row.len() > kinds[i].len() {
                let (name, kind) = row.split_at(row.len() - kinds[i].len());
                if same(kind, kinds[i]) {
                    return name;
                }
            }
            i += 1;
        }
        row
    }

    /// What a name in a row stands for; a name that is none of them does not compile.
    pub(crate) const fn slot(name: &str, inputs: &[&str], output: &str) -> Slot {
        if same(name, "g") {
            return Slot::Grad;
        }
        if same(name, output) {
            return Slot::Output(0);
        }
        let mut i = 0;
        while i < inputs.len() {
            if same(name, inputs[i]) {
                return Slot::Input(i);
            }
            i += 1;
        }
        panic!("a gradient names something that is neither g, an input nor the output of its row")
    }

    /// The places of what must be saved. A row with more of them than there are bits does not compile.
    pub(crate) const fn saves(slots: &[Slot], inputs: &[&str]) -> u32 {
        let mut places = 0u32;
        let mut i = 0;
        while i < slots.len() {
            if let Some(place) = slots[i].place(inputs.len()) {
                assert!(place < u32::BITS as usize, "a row of pointwise formulas has few inputs");
                places |= 1 << place;
            }
            i += 1;
        }
        places
    }

    /// Whether a formula is its gradient unchanged.
    pub(crate) const fn passes(slots: &[Slot], formula: &str) -> bool {
        slots.len() == 1 && same(formula, "g")
    }

    /// Refuses rows whose gradients are not those of the inputs, in order.
    pub(crate) const fn check(inputs: &[&str], gradients: &[&str]) {
        assert!(inputs.len() == gradients.len(), "a row needs one gradient per input");
        let mut i = 0;
        while i < inputs.len() {
            assert!(same(inputs[i], gradients[i]), "a row's gradients stand in the order of its inputs");
            i += 1;
        }
    }
}
