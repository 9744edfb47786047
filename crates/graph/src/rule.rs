//! Rules: the gradients of a row of pointwise formulas, as a node and the engine see them.

use foldback_tensor::kernel::{BlockKernel, FloatKernel, Formula, SumOfRows};
use foldback_tensor::{Block, BlockMut, Scalar, Tensor};

use crate::error::Result;

/// The gradients of one form of a row of pointwise formulas.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// one per input, in order; none for an input that has no gradient, such as a condition
    pub(crate) gradients: &'static [Option<Gradient>],
    /// the operation's result, made of its operands and its numbers: the row's own expression, for those who want it again
    pub(crate) value: RuleValue,
}

/// A result as a function of operands and numbers.
pub(crate) type RuleValue = fn(&[&Tensor], &[f64; 2]) -> Result<Tensor>;

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
    fn traced(&self, params: &[f64; 2], x: &[Traced]) -> Traced;
}

/// A `Copy` handle on a variable (or a plain number) in the arena of the formula that is being recorded: `traced` has the arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traced(pub(crate) u32);

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

    fn traced(&self, params: &[f64; 2], x: &[Traced]) -> Traced {
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

/// Something a formula names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RuleSlot {
    /// the gradient of an output, by its number
    Grad(usize),
    /// an input, by its number
    Input(usize),
    /// an output, by its number
    Output(usize),
    /// an operand that is a number, by its place among the rule's numbers
    Number(usize),
}

impl RuleSlot {
    /// Where the value lies, see Note [Places of saved values]; a gradient lies nowhere.
    #[inline]
    pub(crate) const fn place(self, inputs: usize) -> Option<usize> {
        match self {
            RuleSlot::Input(n) if n < inputs => Some(n),
            RuleSlot::Output(k) => Some(inputs + k),
            RuleSlot::Input(_) | RuleSlot::Grad(_) | RuleSlot::Number(_) => None,
        }
    }

    const fn is_number(self) -> bool {
        matches!(self, RuleSlot::Number(_))
    }

    /// How many of these are operands, and not numbers.
    pub(crate) const fn count_operands(slots: &[RuleSlot]) -> usize {
        let (mut count, mut i) = (0, 0);
        while i < slots.len() {
            count += !slots[i].is_number() as usize;
            i += 1;
        }
        count
    }

    /// Those that are operands.
    pub(crate) const fn operands<const N: usize>(slots: &[RuleSlot]) -> [RuleSlot; N] {
        let mut operands = [RuleSlot::Grad(0); N];
        let (mut count, mut i) = (0, 0);
        while i < slots.len() {
            if !slots[i].is_number() {
                operands[count] = slots[i];
                count += 1;
            }
            i += 1;
        }
        operands
    }

    /// The places of what must be saved. A row with more of them than there are bits does not compile.
    pub(crate) const fn saves(slots: &[RuleSlot], inputs: usize) -> u32 {
        let (mut places, mut i) = (0u32, 0);
        while i < slots.len() {
            if let Some(place) = slots[i].place(inputs) {
                assert!(place < u32::BITS as usize, "a row of pointwise formulas has few inputs");
                places |= 1 << place;
            }
            i += 1;
        }
        places
    }

    /// Refuses a row whose gradients do not stand in the order of its inputs, one for each.
    pub(crate) const fn expect_inputs(slots: &[RuleSlot]) {
        let mut i = 0;
        while i < slots.len() {
            let in_order = matches!(slots[i], RuleSlot::Input(k) if k == i);
            assert!(in_order, "a row's gradients stand in the order of its inputs");
            i += 1;
        }
    }

    /// Refuses a tangent that reads what the gradient beside it does not, which is all that is saved.
    pub(crate) const fn expect_among(slots: &[RuleSlot], saved: &[RuleSlot]) {
        let mut i = 0;
        while i < slots.len() {
            let (mut found, mut k) = (false, 0);
            while k < saved.len() {
                found |= match (slots[i], saved[k]) {
                    (RuleSlot::Input(a), RuleSlot::Input(b)) | (RuleSlot::Output(a), RuleSlot::Output(b)) => {
                        a == b
                    }
                    _ => false,
                };
                k += 1;
            }
            assert!(found, "a row's tangent reads nothing but what the gradient of the same input does");
            i += 1;
        }
    }

    /// The place of this among the operands of a formula that reads these. A number has none.
    pub(crate) const fn position(self, slots: &[RuleSlot]) -> usize {
        if self.is_number() {
            return 0;
        }
        let (mut place, mut i) = (0, 0);
        while i < slots.len() {
            match (self, slots[i]) {
                (RuleSlot::Grad(a), RuleSlot::Grad(b))
                | (RuleSlot::Input(a), RuleSlot::Input(b))
                | (RuleSlot::Output(a), RuleSlot::Output(b))
                    if a == b =>
                {
                    return place;
                }
                _ => place += !slots[i].is_number() as usize,
            }
            i += 1;
        }
        panic!("a formula has a place for everything it names")
    }
}
