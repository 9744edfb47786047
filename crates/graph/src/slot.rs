//! What the gradients of a row read: places among an operation's operands, results and gradients.

use foldback_tensor::Tensor;

use crate::error::Result;

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

/// A result as a function of operands and numbers.
pub(crate) type RuleValue = fn(&[&Tensor], &[f64; 2]) -> Result<Tensor>;
