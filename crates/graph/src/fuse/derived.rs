//! `Derived`: what is made of a formula, behind a pointer, so that little code is generated per formula.

use std::array;

use foldback_tensor::kernel::{
    BlockKernel, Dual, FloatKernel, FloatOps, Formula, GivingKernel, GradientKernel, Real,
};
use smallvec::SmallVec;

use super::names::Names;
use crate::engine::{is_worth_it, record_folded};
use crate::error::Result;
use crate::node::{Node, Pointwise, Var};
use crate::rule::Traced;
use crate::traced::trace_many;

/// One item per operand.
pub(super) type PerOperand<T> = SmallVec<[T; 4]>;

/// A formula and its derivatives, over every kind of number that they are evaluated at.
pub(crate) trait Derived: Pointwise + Send + Sync {
    /// The loop that evaluates the formula.
    fn value(&self) -> &dyn BlockKernel;

    /// What the value and the gradient of each operand are made of: bit 0 is the incoming gradient, bit `k + 1` operand `k`. None
    /// for an operand that the formula does not use. What its function gives may be known.
    fn names(&self, known: Option<Names>) -> (Names, PerOperand<Option<Names>>);

    /// Whether the formula calls one elementary function, as it is written, so that there are the kernels `giving` and `knowing`.
    fn calls_one(&self) -> bool;

    /// Whether its value is made of what that gives, not chosen by it alone.
    fn gives(&self) -> bool;

    /// The kernel of the formula's value and what its function gives.
    fn giving(&self) -> Box<dyn BlockKernel>;

    /// The kernel of the gradients of some operands that reads what its function gives behind the operands.
    fn knowing(&self, inputs: &[usize]) -> Box<dyn BlockKernel>;

    /// Records the gradients of some operands, in the order of all. `x` is the incoming gradient and the operands.
    fn slopes_of(&self, x: &[Traced], wanted: &[usize]) -> PerOperand<Option<Traced>>;
}

/// What a formula's only elementary function gives, where its gradients read that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SavedResult {
    /// the formula's value
    Value,
    /// something that its value is made of
    Inner,
}

impl dyn Derived + '_ {
    /// Which result a node of the formula saves, whose value is made of this, see Note [Saved results].
    pub(super) fn saved_result(&self, value: Names) -> Option<SavedResult> {
        if !self.calls_one() || !value.is_of_one_call() {
            return None;
        }
        let t = Names::KNOWN;
        let (value, slopes) = self.names(Some(t));
        if !slopes.into_iter().flatten().any(|slope| slope.has(Names::RESULT)) {
            return None;
        }
        if value == t { Some(SavedResult::Value) } else { self.gives().then_some(SavedResult::Inner) }
    }
}

impl<F: Formula<N> + 'static, const N: usize> Derived for FloatKernel<F, N> {
    fn value(&self) -> &dyn BlockKernel {
        self
    }

    fn names(&self, known: Option<Names>) -> (Names, PerOperand<Option<Names>>) {
        Names::forget_calls();
        slopes(&self.0, |k| Names::operand(k + 1), Names::operand(0), |_| true, known)
    }

    fn calls_one(&self) -> bool {
        F::ONE_CALL
    }

    fn gives(&self) -> bool {
        let operands = array::from_fn(|k| Dual::constant(Names::operand(k + 1)).asking());
        self.0.eval::<Dual<Names, 0>>(operands).given().is_some()
    }

    fn giving(&self) -> Box<dyn BlockKernel> {
        Box::new(GivingKernel(self.0))
    }

    fn knowing(&self, inputs: &[usize]) -> Box<dyn BlockKernel> {
        Box::new(GradientKernel::knowing(self.0, inputs))
    }

    fn slopes_of(&self, x: &[Traced], wanted: &[usize]) -> PerOperand<Option<Traced>> {
        slopes(&self.0, |k| x[k + 1], x[0], |k| wanted.contains(&k), None).1
    }
}

impl<F: Formula<N> + 'static, const N: usize> Pointwise for FloatKernel<F, N> {
    fn kernel(&self, inputs: &[usize]) -> Box<dyn BlockKernel> {
        Box::new(GradientKernel::new(self.0, inputs))
    }

    fn record(&self, node: Option<&Node>, reads: &[Var], inputs: &[usize]) -> Result<PerOperand<Var>> {
        let reads: PerOperand<&Var> = reads.iter().collect();
        let full = reads[0].shape();
        let folded = |input: usize| node?.input_shape(input).filter(|to| is_worth_it(full, to));
        if inputs.iter().all(|&k| folded(k).is_none()) {
            return record(self, &reads, inputs);
        }
        let (formula, name) = (*self, node.map_or("fuse", Node::name));
        let one = |&k: &usize| {
            let trace = move |reads: &[&Var]| Ok(record(&formula, reads, &[k])?.remove(0));
            match folded(k) {
                Some(to) => record_folded(name, &*self.kernel(&[k]), &reads, to, trace),
                None => trace(&reads),
            }
        };
        inputs.iter().map(one).collect()
    }
}

/// The value of a formula, and its slopes along the operands that are wanted, each seeded with the incoming gradient.
fn slopes<R, F: Formula<N>, const N: usize>(
    formula: &F,
    operand: impl Fn(usize) -> R,
    g: R,
    wanted: impl Fn(usize) -> bool,
    known: Option<R>,
) -> (R, PerOperand<Option<R>>)
where
    R: Real,
    f64: FloatOps<R>,
{
    let duals: [Dual<R, N>; N] = array::from_fn(|k| {
        let along = |other: usize| if other == k && wanted(k) { Some(g) } else { None };
        Dual::seeded(operand(k), array::from_fn(along)).knowing(known)
    });
    let y = formula.eval::<Dual<R, N>>(duals);
    (y.value, SmallVec::from_slice(&y.slopes))
}

/// The gradients as recorded values, unreduced, computed in the operation's type as in the kernel.
pub(super) fn record(formula: &dyn Derived, reads: &[&Var], inputs: &[usize]) -> Result<PerOperand<Var>> {
    let dtype = reads[0].dtype();
    let reads: PerOperand<Var> =
        reads.iter().map(|&v| if v.dtype() == dtype { v.clone() } else { v.to(dtype) }).collect();
    let reads: SmallVec<[&Var; 8]> = reads.iter().collect();
    let slopes = trace_many(&reads, &|x| {
        let slopes = formula.slopes_of(x, inputs);
        inputs.iter().map(|&k| slopes[k].expect("only operands in use are wanted")).collect()
    })?;
    // A slope of zero may have forgotten its shape.
    let full = reads[0].shape();
    slopes.into_iter().map(|s| if s.shape() == full { Ok(s) } else { s.expand(&*full) }).collect()
}
