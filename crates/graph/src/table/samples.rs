//! Where to try a row: shapes and domains for the tests that walk the table.

use crate::error::Result;
use crate::node::Var;
use crate::node::rule::Rule;

/// Where the elements of a sample input come from, so that finite differences make sense there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// any number
    Any,
    /// away from zero, either sign
    NonZero,
    /// above zero
    Positive,
    /// strictly between -1 and 1
    Unit,
    /// above one
    AboveOne,
    /// away from whole numbers and from halves
    NonInteger,
    /// all different by far more than a difference step, in any arrangement
    Distinct,
    /// 0 or 1, as a condition; no derivative is taken
    Truth,
}

/// The shape and the domain of one input of a sample.
#[derive(Clone, Copy, Debug)]
pub struct InputSpec {
    /// the sizes
    pub shape: &'static [usize],
    /// what to fill it with
    pub domain: Domain,
}

/// One way to call an operation.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// what is special about it
    pub label: &'static str,
    /// one per input
    pub inputs: &'static [InputSpec],
    /// the call
    pub run: fn(&[Var]) -> Result<Var>,
}

/// An operation of the table.
#[derive(Debug)]
pub struct Row {
    /// the name of the operation, and of the method
    pub name: &'static str,
    /// the formulas of a pointwise row
    pub(crate) vars: Rule,
    /// those of its form with numbers for all operands but the first
    pub(crate) number: Rule,
    /// those of its form with a number on the left
    pub(crate) left: Rule,
    pub(crate) samples: &'static [Samples],
    /// where to try the form with numbers
    pub(crate) with_number: Option<Samples>,
    /// where to try a further form
    pub(crate) also: Option<Samples>,
}

/// How a row says where it is to be tried.
#[derive(Debug)]
pub(crate) enum Samples {
    /// a domain per input; shapes are those of broadcasting
    Pointwise { domains: &'static [Domain], run: fn(&[Var]) -> Result<Var> },
    /// a list
    Listed(&'static [Sample]),
}

/// Shapes that one input of a pointwise operation is tried with.
const ONE: &[&[&[usize]]] = &[&[&[3]], &[&[2, 3]], &[&[]], &[&[0]], &[&[2, 0, 3]]];
/// Equal shapes, a missing axis, crossed axes of size 1, 0-d, empty.
const TWO: &[&[&[usize]]] = &[
    &[&[2, 3], &[2, 3]],
    &[&[2, 3], &[3]],
    &[&[3], &[2, 3]],
    &[&[3, 1], &[1, 4]],
    &[&[2, 1, 3], &[4, 1]],
    &[&[], &[3]],
    &[&[2], &[]],
    &[&[], &[]],
    &[&[4, 0], &[4, 1]],
    &[&[1], &[0]],
];
const THREE: &[&[&[usize]]] = &[
    &[&[2, 3], &[2, 3], &[2, 3]],
    &[&[5, 1, 5], &[5, 5, 1], &[]],
    &[&[3], &[2, 1], &[2, 3]],
    &[&[], &[3], &[1]],
    &[&[4, 1], &[4, 0], &[1]],
];

impl Row {
    /// Whether the gradients are formulas that the engine folds without storing them.
    pub fn is_pointwise(&self) -> bool {
        !self.vars.gradients.is_empty()
    }

    /// Every way to try it, in all its forms.
    pub fn samples(&self) -> Vec<OwnedSample> {
        self.samples.iter().chain(&self.with_number).chain(&self.also).flat_map(Samples::each).collect()
    }
}

impl Samples {
    fn each(&self) -> Vec<OwnedSample> {
        match self {
            Samples::Pointwise { domains, run } => {
                let shapes = [ONE, TWO, THREE][domains.len() - 1];
                let sample = |s: &&[&[usize]]| OwnedSample {
                    label: format!("{s:?}"),
                    inputs: s.iter().zip(*domains).map(|(s, &d)| (s.to_vec(), d)).collect(),
                    run: *run,
                };
                shapes.iter().map(sample).collect()
            }
            Samples::Listed(list) => {
                let sample = |s: &Sample| OwnedSample {
                    label: s.label.to_string(),
                    inputs: s.inputs.iter().map(|i| (i.shape.to_vec(), i.domain)).collect(),
                    run: s.run,
                };
                list.iter().map(sample).collect()
            }
        }
    }
}

/// A sample as the tests use it.
#[derive(Clone, Debug)]
pub struct OwnedSample {
    /// what is special about it
    pub label: String,
    /// shape and domain of each input
    pub inputs: Vec<(Vec<usize>, Domain)>,
    /// the call
    pub run: fn(&[Var]) -> Result<Var>,
}
