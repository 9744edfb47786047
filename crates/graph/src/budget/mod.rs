//! A budget for what a graph keeps: beyond it, results of pointwise operations are given up, to be computed again when a pass
//! needs them.

mod account;
mod kept;
mod made;
mod recomputed;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use foldback_tensor::{StateCell, counted};

use crate::mode::BudgetMode;
use account::Account;
pub(crate) use account::Deposit;
pub(crate) use kept::{Budgeted, KeptPlace, KeptValue};
pub(crate) use made::{Keeper, Made, MadeOf, Recipe};
pub(crate) use recomputed::{Material, Recomputed};

/// A stretch of a program whose graph has a budget.
pub(crate) struct Scope {
    budget: usize,
    pub(crate) account: Arc<Account>,
    candidates: StateCell<Candidates>,
}

/// By size, and of one size the oldest last.
type BySize = BTreeMap<(usize, Reverse<u64>), Weak<Made>>;

#[derive(Default)]
struct Candidates {
    next: BySize,
    /// those that could not be given up when they were asked
    refused: BySize,
}

thread_local! {
    static SCOPE: RefCell<Option<Arc<Scope>>> = const { RefCell::new(None) };
}

/// The scope that this thread records in.
pub(crate) fn current() -> Option<Arc<Scope>> {
    SCOPE.with_borrow(Clone::clone)
}

/// Has this thread record in a scope, until it is dropped.
pub(crate) struct Inside {
    outer: Option<Arc<Scope>>,
    _mode: BudgetMode,
}

impl Inside {
    pub(crate) fn of(scope: Arc<Scope>) -> Inside {
        Inside { outer: SCOPE.replace(Some(scope)), _mode: BudgetMode::set() }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        drop(SCOPE.replace(self.outer.take()));
    }
}

impl Scope {
    /// Has a value be a candidate, if it is one.
    pub(crate) fn consider(&self, made: &Arc<Made>) {
        if made.recipe.is_some() && made.bytes > 0 {
            let size = (made.bytes, Reverse(made.number));
            self.candidates.update(|c| drop(c.next.insert(size, Arc::downgrade(made))));
        }
    }

    /// Gives up values until the budget is met, or none is left that could be.
    pub(crate) fn settle(&self) {
        while self.account.kept() > self.budget
            && let Some((size, candidate)) = self.candidates.update(|c| c.next.pop_last())
        {
            let Some(made) = candidate.upgrade() else { continue };
            if made.kept().is_some() && !made.give_up() {
                self.candidates.update(|c| drop(c.refused.insert(size, candidate)));
            }
        }
    }

    /// The same, with those that were refused.
    fn settle_at_last(&self) {
        self.candidates.update(|c| c.next.append(&mut c.refused));
        self.settle();
    }
}

/// What a program recorded within a [`saved_budget`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SavedBudget {
    /// the bytes that it was given
    pub budget: usize,
    /// the bytes that are kept: more than the budget, if nothing else could be given up
    pub kept: usize,
    /// the bytes that would be kept, too, without a budget
    pub given_up: usize,
    /// how many operations' results a pass computes again
    pub operations: usize,
}

impl SavedBudget {
    /// Whether what is kept is within the budget.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, saved_budget};
    /// let x = foldback_tensor::tensor![1.0, 2.0].requires_grad();
    /// let (_y, report) = saved_budget(8, || x.exp());
    /// assert!(report.is_met());
    /// ```
    pub fn is_met(&self) -> bool {
        self.kept <= self.budget
    }
}

impl fmt::Display for SavedBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SavedBudget { budget, kept, given_up, operations } = self;
        let results = counted(*operations, "result");
        write!(f, "keeps {kept} of {} bytes, {results} given up; the budget is {budget}", kept + given_up)
    }
}

/// Runs `f`, which records a graph that keeps no more than so many bytes for its backward passes, as far as it can do without:
/// results of pointwise operations are given up, the largest first, and computed again when a pass needs them.
///
/// A result is given up if it can be computed, in one pointwise operation or several, from what is kept anyway: leaves,
/// values that another operation saves, and operands a sixteenth of its size. The same kernels compute it from the same operands, so values and gradients have the
/// same bits as without, at any order. A pass computes each result at most twice. A budget of 0 gives up all that can be.
///
/// Returned beside the result of `f` is what is kept when it ends. Storages are counted once, and values of leaves not at all.
/// Within another budget, the inner one counts.
///
/// ```
/// use foldback_graph::{RequiresGrad, saved_budget};
/// use foldback_tensor::Tensor;
/// let x = Tensor::linspace(0.0, 1.0, 256).requires_grad();
/// let (y, report) = saved_budget(0, || x.exp().sin().tanh().sum(..));
/// assert_eq!((report.kept, report.given_up, report.operations), (0, 2 * 1024, 2));
/// y?.backward()?;
/// let plain = Tensor::linspace(0.0, 1.0, 256).requires_grad();
/// plain.exp().sin().tanh().sum(..)?.backward()?;
/// assert_eq!(x.grad(), plain.grad());
/// # Ok::<(), foldback_graph::Error>(())
/// ```
pub fn saved_budget<R>(bytes: usize, f: impl FnOnce() -> R) -> (R, SavedBudget) {
    let account = Arc::new(Account::default());
    let scope = Arc::new(Scope { budget: bytes, account: account.clone(), candidates: StateCell::default() });
    let inside = Inside::of(scope.clone());
    let result = f();
    drop(inside);
    scope.settle_at_last();
    let (given_up, operations) = account.given_up();
    (result, SavedBudget { budget: bytes, kept: account.kept(), given_up, operations })
}
