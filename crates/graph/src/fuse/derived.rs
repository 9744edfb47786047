//! `Derived`: what is made of a formula, behind a pointer, so that little code is generated per formula.

use std::array;

use foldback_tensor::kernel::{
    BlockKernel, CallSet, Called, Calls, Dual, FloatKernel, FloatOps, Formula, GivingKernel, GradientKernel,
    KnownInputs, MOST_CALLS, Outer, Real,
};
use smallvec::SmallVec;

use super::Reduction;
use super::backward::FusedBackward;
use super::names::Names;
use crate::engine::{is_worth_it, record_folded};
use crate::error::Result;
use crate::node::rule::Traced;
use crate::node::{Describe, Node, Pointwise, Var};
use crate::traced::{trace_many, trace_operators};

/// One item per operand.
pub(super) type PerOperand<T> = SmallVec<[T; 4]>;

/// What a formula's value and gradients are made of: without its kernels, so that it can be asked of many formulas.
pub(crate) trait Named {
    /// What the gradient of each operand is made of: bit 0 is the incoming gradient, bit `k + 1` operand `k`. None
    /// for an operand that the formula does not use.
    fn names(&self) -> PerOperand<Option<Names>>;

    /// The same of the value and the gradients, where it is known what the functions give that have loops for it.
    fn names_knowing(&self) -> (Names, PerOperand<Option<Names>>);

    /// How many functions have the loops of the kernels `giving` and `knowing`.
    fn calls(&self) -> usize;

    /// What each of these functions reads, of which that of those before it is known.
    fn names_of_calls(&self) -> SmallVec<[Names; MOST_CALLS]>;

    /// What the value is made of, where some operands are of few elements.
    fn value_names(&self, is_few: &dyn Fn(usize) -> bool) -> Names;
}

/// A formula and its derivatives, over every kind of number that they are evaluated at.
pub(crate) trait Derived: Named + Pointwise + Send + Sync {
    /// The loop that evaluates the formula.
    fn value(&self) -> &dyn BlockKernel;

    /// The kernel of the formula's value and, if it is wanted, of what those functions give of which that is not known.
    fn giving(&self, known: KnownInputs, gives: bool) -> Box<dyn BlockKernel>;

    /// The kernel of the gradients of some operands that reads what some functions give.
    fn knowing(&self, inputs: &[usize], known: KnownInputs) -> Box<dyn BlockKernel>;

    /// Whether it may be recorded by operators.
    fn may_be_operators(&self) -> bool;

    /// The value, by operators.
    fn by_operators(&self, operands: &[&Var]) -> Result<Var>;

    /// What a node of the formula remembers.
    fn backward(&self, reduced: Reduction) -> Box<dyn Describe>;

    /// Records the gradients of some operands, in the order of all. `x` is the incoming gradient and the operands.
    fn slopes_of<'a>(&self, x: &[Traced<'a>], wanted: &[usize]) -> PerOperand<Option<Traced<'a>>>;
}

/// A formula that may be two.
pub(super) trait Composed: Derived {
    /// The first operand that its only function reads, if nothing else reads those that it does.
    fn of_function(&self) -> Option<usize>;

    /// What the function gives, by operators.
    fn given(&self, operands: &[&Var], read: Names) -> Result<Var>;

    /// The formula that has that in the place of this operand.
    fn outer(&self) -> Box<dyn Derived>;
}

impl<F: Formula<N> + 'static, const N: usize> Composed for FloatKernel<F, N> {
    fn of_function(&self) -> Option<usize> {
        F::OF_FUNCTION
    }

    fn given(&self, operands: &[&Var], read: Names) -> Result<Var> {
        trace_operators(operands, &|x| {
            let calls = Calls::only_first();
            // Behind the function, and in the place of what it does not read, are numbers, with which nothing is recorded.
            let number = |k: usize| if read.has(k + 1) { x[k] } else { Traced::Number(1.0) };
            self.0.eval::<Called<'_, Traced<'_>>>(array::from_fn(|k| calls.of(number(k))));
            calls.given()
        })
    }

    fn outer(&self) -> Box<dyn Derived> {
        // Of a constant condition only the branch that is taken is compiled.
        match const { F::OF_FUNCTION.is_some() } {
            true => Box::new(FloatKernel::<_, N>(Outer(self.0))),
            false => unreachable!("the formula is not composed of two"),
        }
    }
}

/// What a formula's functions give, where its gradients read that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SavedResults {
    pub(super) read: CallSet,
    /// the one that is the formula's value
    pub(super) value: Option<usize>,
    /// what gradients read where nothing is saved
    pub(super) without: Names,
}

impl dyn Named + '_ {
    /// Which results a node of the formula saves for the gradients of some operands, see Note [Saved results].
    pub(super) fn saved_results(&self, tracked: impl Fn(usize) -> bool) -> Option<SavedResults> {
        let calls = 0..self.calls();
        if calls.is_empty() {
            return None;
        }
        let (value, slopes) = self.names_knowing();
        let of_tracked = |slopes: &[Option<Names>]| {
            let slopes = slopes.iter().enumerate().filter(|&(k, _)| tracked(k));
            slopes.filter_map(|(_, slope)| *slope).fold(Names::NONE, Names::and_of)
        };
        let names = of_tracked(&slopes);
        let read: CallSet = calls.clone().filter(|&nr| names.has_result(nr)).collect();
        let value = calls.clone().find(|&nr| value == Names::result(nr));
        (read != CallSet::NONE).then(|| SavedResults { read, value, without: of_tracked(&self.names()) })
    }
}

impl<F: Formula<N>, const N: usize> Named for FloatKernel<F, N> {
    fn names(&self) -> PerOperand<Option<Names>> {
        slopes(&self.0, |k| Names::operand(k + 1), Names::operand(0), |_| true).1
    }

    fn names_knowing(&self) -> (Names, PerOperand<Option<Names>>) {
        let calls = Calls::knowing(F::CALLS, array::from_fn(Names::result));
        let operand = |k| calls.of(Names::operand(k + 1));
        let (value, slopes) =
            slopes::<Called<'_, Names>, F, N>(&self.0, operand, Names::operand(0).into(), |_| true);
        (value.number(), slopes.into_iter().map(|slope| Some(slope?.number())).collect())
    }

    fn calls(&self) -> usize {
        F::CALLS
    }

    fn names_of_calls(&self) -> SmallVec<[Names; MOST_CALLS]> {
        let read = |nr| {
            let calls = Calls::knowing(nr, array::from_fn(Names::result));
            self.0.eval::<Called<'_, Names>>(array::from_fn(|k| calls.of(Names::operand(k + 1))));
            calls.given()
        };
        (0..F::CALLS).map(read).collect()
    }

    fn value_names(&self, is_few: &dyn Fn(usize) -> bool) -> Names {
        self.0.eval(array::from_fn(|k| if is_few(k) { Names::few(k + 1) } else { Names::operand(k + 1) }))
    }
}

impl<F: Formula<N> + 'static, const N: usize> Derived for FloatKernel<F, N> {
    fn value(&self) -> &dyn BlockKernel {
        self
    }

    fn giving(&self, known: KnownInputs, gives: bool) -> Box<dyn BlockKernel> {
        Box::new(GivingKernel::knowing(self.0, known, gives))
    }

    fn knowing(&self, inputs: &[usize], known: KnownInputs) -> Box<dyn BlockKernel> {
        Box::new(GradientKernel::knowing(self.0, inputs, known))
    }

    fn may_be_operators(&self) -> bool {
        F::BY_OPERATORS
    }

    fn by_operators(&self, operands: &[&Var]) -> Result<Var> {
        trace_operators(operands, &|x| self.0.eval(array::from_fn(|k| x[k])))
    }

    fn backward(&self, reduced: Reduction) -> Box<dyn Describe> {
        Box::new(FusedBackward { formula: *self, reduced })
    }

    fn slopes_of<'a>(&self, x: &[Traced<'a>], wanted: &[usize]) -> PerOperand<Option<Traced<'a>>> {
        slopes(&self.0, |k| x[k + 1], x[0], |k| wanted.contains(&k)).1
    }
}

impl<F: Formula<N> + 'static, const N: usize> Pointwise for FloatKernel<F, N> {
    fn with_kernel(
        &self,
        inputs: &[usize],
        take: &mut dyn FnMut(&dyn BlockKernel) -> Result<()>,
    ) -> Result<()> {
        take(&GradientKernel::new(self.0, inputs))
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
                Some(to) => record_folded(name, &GradientKernel::new(formula.0, &[k]), &reads, to, trace),
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
) -> (R, PerOperand<Option<R>>)
where
    R: Real,
    f64: FloatOps<R>,
{
    let duals: [Dual<R, N>; N] = array::from_fn(|k| {
        let along = |other: usize| if other == k && wanted(k) { Some(g) } else { None };
        Dual::seeded(operand(k), array::from_fn(along))
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
