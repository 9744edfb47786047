//! Rules: the gradients of a row of pointwise formulas, as a node and the engine see them; and the numbers of such a formula that is recorded.

use std::cell::{Cell, OnceCell};

use foldback_tensor::kernel::{BlockKernel, FloatKernel, Formula, SumOfRows};
use foldback_tensor::{Block, BlockMut, DType, Scalar};
use smallvec::SmallVec;

use super::Var;
use crate::error::{Error, Result};
use crate::slot::{RuleSlot, RuleValue};

/// The gradients of one form of a row of pointwise formulas.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// one per input, in order; none for an input that has no gradient, such as a condition
    pub(crate) gradients: &'static [Option<Gradient>],
    /// the operation's result, made of its operands and its numbers: the row's own expression, for those who want it again
    pub(crate) value: RuleValue,
}

/// A form that a row does not have.
pub(crate) const NONE: Rule = Rule {
    name: "nothing",
    gradients: &[],
    value: |_, _| unreachable!("a form that no row has has no result"),
};

/// A rule without inputs, for nodes that are being taken apart.
pub(crate) static NOTHING: Rule = NONE;

/// The gradient of one input.
#[derive(Debug)]
pub(crate) struct Gradient {
    /// what a node must save for it: a bit for each place, see Note [Places of saved values]
    pub(crate) saves: u32,
    /// what the formula reads, in order
    pub(crate) reads: &'static [RuleSlot],
    /// none if it is the incoming gradient itself
    pub(crate) formula: Option<&'static dyn RuleFormula>,
}

impl Gradient {
    /// The incoming gradient itself.
    pub(crate) const PASSES: Gradient = Gradient { saves: 0, reads: &[], formula: None };
}

/// A formula of a row behind a pointer, for whichever numbers it is evaluated at.
pub(crate) trait RuleFormula: Sync {
    /// The loop over blocks of what the formula reads.
    fn run(&self, params: &[f64; 2], inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]);
    /// Whether either of two operands may be a single element.
    fn takes_a_number(&self) -> bool;
    /// Whether it has loops for sums.
    fn sums(&self) -> bool;
    /// Adds the results of some rows without storing them.
    fn sum_rows(&self, params: &[f64; 2], rows: SumOfRows<'_>);
    /// The formula over what is being recorded.
    fn traced<'a>(&self, params: &[f64; 2], x: &[Traced<'a>]) -> Traced<'a>;
}

/// A number of a formula that is being recorded: a variable, and where goes what is made of it, or a plain number. `traced` computes with it.
#[derive(Clone, Copy)]
pub(crate) enum Traced<'a> {
    Var(&'a Var, &'a Trace),
    Number(f64),
}

/// What has been recorded of a formula.
pub(crate) struct Trace {
    /// what the formula computes in: the type of its first operand
    pub(crate) dtype: DType,
    /// whether functions of steps are recorded, too, whose gradient is zero
    pub(crate) steps: bool,
    /// of the first operation that failed; everything after it is meaningless
    error: OnceCell<Error>,
    made: MadeVars,
}

impl Trace {
    pub(crate) fn of(dtype: DType, steps: bool) -> Trace {
        Trace {
            dtype,
            steps,
            error: OnceCell::new(),
            made: MadeVars::new(SmallVec::from([const { OnceCell::new() }; 4])),
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.error.get().is_some()
    }

    /// What has been made, unless something failed.
    pub(crate) fn done<T>(&mut self, made: Result<T>) -> Result<T> {
        match self.error.take() {
            Some(error) => Err(error),
            None => made,
        }
    }

    /// Keeps a result, or the first error and something to go on with.
    pub(crate) fn keep(&self, result: Result<Var>) -> Traced<'_> {
        match result {
            Ok(v) => Traced::Var(self.made.keep(v), self),
            Err(e) => {
                self.error.get_or_init(|| e);
                Traced::Number(f64::NAN)
            }
        }
    }
}

/// Variables that stay where they are put.
struct MadeVars {
    room: SmallVec<[OnceCell<Var>; 4]>,
    used: Cell<usize>,
    /// twice the room
    more: OnceCell<Box<MadeVars>>,
}

impl MadeVars {
    fn new(room: SmallVec<[OnceCell<Var>; 4]>) -> MadeVars {
        MadeVars { room, used: Cell::new(0), more: OnceCell::new() }
    }

    fn keep(&self, v: Var) -> &Var {
        let used = self.used.get();
        match self.room.get(used) {
            Some(free) => {
                self.used.set(used + 1);
                free.get_or_init(|| v)
            }
            None => {
                let room = || (0..2 * used).map(|_| OnceCell::new()).collect();
                self.more.get_or_init(|| Box::new(MadeVars::new(room()))).keep(v)
            }
        }
    }
}

/// A formula made of a row's numbers and parameters.
pub(crate) struct WrittenFormula<F, const N: usize>(pub(crate) fn([f64; 2]) -> F);

impl std::fmt::Debug for dyn RuleFormula {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a formula")
    }
}

impl<F: Formula<N>, const N: usize> RuleFormula for WrittenFormula<F, N> {
    fn run(&self, params: &[f64; 2], inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        FloatKernel((self.0)(*params)).run(inputs, outputs);
    }

    fn takes_a_number(&self) -> bool {
        F::TAKES_A_NUMBER && N == 2
    }

    fn sums(&self) -> bool {
        F::SUMS
    }

    fn sum_rows(&self, params: &[f64; 2], rows: SumOfRows<'_>) {
        FloatKernel((self.0)(*params)).sum_rows(rows);
    }

    fn traced<'a>(&self, params: &[f64; 2], x: &[Traced<'a>]) -> Traced<'a> {
        (self.0)(*params).eval(*x.first_chunk().expect("a formula has its operands"))
    }
}

/// What a number of a rule is to its row: the numbers of rules are all `f64`.
pub(crate) trait RuleNumber {
    fn of(number: f64) -> Self;
}

impl RuleNumber for f64 {
    fn of(number: f64) -> f64 {
        number
    }
}

impl RuleNumber for i32 {
    fn of(number: f64) -> i32 {
        number as i32
    }
}

impl RuleNumber for Scalar {
    fn of(number: f64) -> Scalar {
        Scalar::F64(number)
    }
}

/// A formula with its numbers and parameters, as the iterator calls it.
pub(crate) struct RuleKernel<'a> {
    pub(crate) formula: &'static dyn RuleFormula,
    pub(crate) params: &'a [f64; 2],
}

impl BlockKernel for RuleKernel<'_> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        self.formula.run(self.params, inputs, outputs);
    }

    fn takes_a_number(&self) -> bool {
        self.formula.takes_a_number()
    }

    fn sums(&self) -> bool {
        self.formula.sums()
    }

    fn sum_rows(&self, rows: SumOfRows<'_>) {
        self.formula.sum_rows(self.params, rows);
    }
}
