//! Whether operations record: a switch of each thread, set for a scope and restored even by a panic.

use std::cell::Cell;
use std::panic::Location;

use foldback_tensor::{set_thread_modes, thread_modes};

const NO_GRAD: u32 = 1;

/// Operations belong to the line of the node that is running, see [`inherited_location`].
const INHERITS_LINE: u32 = 2;

/// Operations record within a budget, see `budget`.
const BUDGETED: u32 = 4;

/// Whether operations on tracked variables record here and now.
///
/// ```
/// use foldback_graph::{is_grad_enabled, no_grad};
/// assert!(is_grad_enabled());
/// no_grad(|| assert!(!is_grad_enabled()));
/// ```
#[inline]
pub fn is_grad_enabled() -> bool {
    thread_modes() & NO_GRAD == 0
}

/// Runs `f` without recording: its results require no gradient and keep nothing.
///
/// The switch belongs to this thread. A task that `f` hands to another one (`std::thread::spawn`, Rayon's `join` and
/// `par_iter`, [`ThreadPool::install`](foldback_tensor::ThreadPool::install)) records, unless it calls `no_grad` itself, as in
/// PyTorch. The threads that work on a large operation follow whoever called it.
///
/// ```
/// use foldback_graph::{RequiresGrad, no_grad};
/// use foldback_tensor::tensor;
/// let x = tensor![1.0].requires_grad();
/// let y = no_grad(|| &x * 2.0);
/// assert!(!y.requires_grad());
/// ```
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    let _guard = GradMode::set(false);
    f()
}

/// Runs `f` with recording switched on, inside a [`no_grad`] for instance.
///
/// ```
/// use foldback_graph::{RequiresGrad, enable_grad, no_grad};
/// use foldback_tensor::tensor;
/// let x = tensor![1.0].requires_grad();
/// let y = no_grad(|| enable_grad(|| &x * 2.0));
/// assert!(y.requires_grad());
/// ```
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    let _guard = GradMode::set(true);
    f()
}

/// Restores the mode it found when dropped.
pub(crate) struct GradMode(u32);

impl GradMode {
    pub(crate) fn set(enabled: bool) -> GradMode {
        let now = thread_modes();
        GradMode(set_thread_modes(if enabled { now & !NO_GRAD } else { now | NO_GRAD }))
    }
}

impl Drop for GradMode {
    fn drop(&mut self) {
        set_thread_modes(self.0);
    }
}

/// Whether operations record within a budget here and now.
#[inline]
pub(crate) fn is_budgeted() -> bool {
    thread_modes() & BUDGETED != 0
}

/// Has operations record within a budget, until it is dropped.
pub(crate) struct BudgetMode(u32);

impl BudgetMode {
    pub(crate) fn set() -> BudgetMode {
        BudgetMode(set_thread_modes(thread_modes() | BUDGETED))
    }
}

impl Drop for BudgetMode {
    fn drop(&mut self) {
        set_thread_modes(self.0);
    }
}

thread_local! {
    static LINE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// The line that operations recorded inside a backward pass belong to.
pub(crate) fn inherited_location() -> Option<&'static Location<'static>> {
    // Another thread has none of this one's modes, nor the line of its node.
    if thread_modes() & INHERITS_LINE == 0 { None } else { LINE.get() }
}

/// Sets the inherited line while a node runs.
pub(crate) struct LineGuard {
    line: Option<&'static Location<'static>>,
    modes: u32,
}
impl LineGuard {
    pub(crate) fn set(line: &'static Location<'static>) -> LineGuard {
        LineGuard { line: LINE.replace(Some(line)), modes: set_thread_modes(thread_modes() | INHERITS_LINE) }
    }

    /// Operations belong to their own lines, although a node runs.
    pub(crate) fn none() -> LineGuard {
        LineGuard { line: LINE.get(), modes: set_thread_modes(thread_modes() & !INHERITS_LINE) }
    }
}
impl Drop for LineGuard {
    fn drop(&mut self) {
        LINE.set(self.line);
        set_thread_modes(self.modes);
    }
}

/// The line that an operation belongs to: that of the node that is running, or the caller's.
#[track_caller]
pub(crate) fn location() -> &'static Location<'static> {
    // Not a closure: it would be its own caller.
    match inherited_location() {
        Some(line) => line,
        None => Location::caller(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequiresGrad;
    use foldback_tensor::{ThreadPool, tensor};

    #[test]
    fn no_grad_does_not_reach_other_threads() {
        let x = tensor![1.0].requires_grad();
        let records = || (&x * 2.0).requires_grad();
        let pool = ThreadPool::new(2);
        no_grad(|| {
            assert!(!records());
            assert!(std::thread::scope(|scope| scope.spawn(records).join().unwrap()));
            assert!(pool.install(records));
            assert!(!pool.install(|| no_grad(records)));
            assert!(!records());
        });
        assert!(records());
    }
}
