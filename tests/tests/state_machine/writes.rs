//! In-place operations.

use tests::model::{Array, Id, Refusal, Tape, broadcast, count};

use crate::operations::{Part, part_shape, whole_index};
use crate::random::Random;

/// A write into an existing tensor or variable.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Add,
    Sub,
    Mul,
    AddScaled(f64),
    Assign(Vec<Part>),
    Fill(f64),
    Copy,
}

impl Write {
    pub(crate) fn random(random: &mut Random, shape: &[usize]) -> Write {
        match random.below(8) {
            0 => Write::Add,
            1 => Write::Sub,
            2 => Write::Mul,
            3 => Write::AddScaled(random.small()),
            4 => Write::Fill(random.small()),
            5 => Write::Copy,
            _ => Write::Assign(Part::all(random, shape)),
        }
    }

    /// The value that the target has afterwards.
    pub(crate) fn on_model(&self, tape: &mut Tape, target: Id, other: Id) -> Result<Id, Refusal> {
        let own = tape.shape(target).to_vec();
        let grows = broadcast(&own, tape.shape(other)).map_or(true, |shape| shape != own);
        match self {
            Write::Add | Write::Sub | Write::Mul | Write::AddScaled(_) | Write::Copy if grows => {
                Err(Refusal::Invalid)
            }
            Write::Add => tape.weigh(target, other, |_, _| [1.0, 1.0]),
            Write::Sub => tape.weigh(target, other, |_, _| [1.0, -1.0]),
            Write::Mul => tape.mul(target, other),
            &Write::AddScaled(c) => tape.weigh(target, other, |_, _| [1.0, c]),
            &Write::Fill(c) => {
                let n = count(&own);
                Ok(tape.given(Array { shape: own, values: vec![c; n] }, None))
            }
            Write::Copy => tape.expand(other, &own),
            Write::Assign(parts) => {
                let part = part_shape(parts, &own);
                tape.assign(target, &part, other, |index| whole_index(parts, index))
            }
        }
    }
}
