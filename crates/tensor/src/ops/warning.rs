//! The warning about broadcasts that nobody meant: its levels, for the process and for a scope.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::atomic::{AtomicU8, Ordering};

use smallvec::SmallVec;

pub(crate) use super::doubt::Lists;
use super::doubt::{self, Doubt};
use crate::error::{Result, TensorFacts, refuse};
use crate::meant::Meant;
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::threads::{set_thread_modes, thread_modes};

/// What happens when two tensors broadcast that nobody may have meant to: two that hold the same number of elements and both
/// grow, such as `[4, 1]` and `[4]`, which make `[4, 4]`.
///
/// It is no such case if an axis of size 1 that grows was made on purpose: by `unsqueeze`, by [`keep`](crate::keep), or by a 1 that is
/// written in `reshape`, `view` or `expand`. A tensor remembers that, and so do its views and what is computed from it element
/// by element. A size that came with the data, or that follows from -1 or from another tensor's shape, was not made on purpose.
/// An axis that a reduction kept goes with what has as many axes: it does not count in a difference, a product, a quotient or a remainder
/// with a shape that lacks an axis. (What a fused expression is of its operands is not known: it counts there.)
///
/// All pointwise operations look, of tensors and of variables, in place and fused; so do selections by masks,
/// and products and attention for their batches. Gradients of this library's operations do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BroadcastWarning {
    /// Nothing; the default.
    Off = 0,
    /// A warning through the `log` facade with both shapes, the source line and the cure.
    Warn = 1,
    /// The operation returns an error, see [`TensorFacts::BroadcastRefused`].
    Refuse = 2,
    /// As `Warn`, and also where a shorter shape fits two places of a longer one because sizes coincide: `[6]` in `[6, 8, 6]`,
    /// of which it gets the last axis; where both grow from different counts, such as `[3, 1]` and `[1, 4]`; and where a kept axis
    /// meets a list in any operation. Square matrices and grids are warned of, too: for looking for an error, not for every day.
    Debug = 3,
}

static PROCESS: AtomicU8 = AtomicU8::new(UNSET);

/// The process has no setting yet: the environment says.
const UNSET: u8 = u8::MAX;

thread_local! {
    /// The setting of the last of this thread's guards.
    pub(crate) static SCOPE: Cell<Option<BroadcastWarning>> = const { Cell::new(None) };
    /// Number and setting of each guard that lives, oldest first.
    static GUARDS: RefCell<Vec<(u64, BroadcastWarning)>> = const { RefCell::new(Vec::new()) };
}

/// Sets the behaviour for the whole process, wherever no scoped guard says otherwise.
///
/// Before it is called, the environment variable `FOLDBACK_BROADCAST_WARNING` counts: `off`, `warn`, `refuse` or `debug`. In the `[env]` of a
/// project's `.cargo/config.toml` it is a default for all of its tests.
///
/// ```
/// use foldback_tensor::{BroadcastWarning, set_broadcast_warning};
/// set_broadcast_warning(BroadcastWarning::Warn);
/// # set_broadcast_warning(BroadcastWarning::Off);
/// ```
pub fn set_broadcast_warning(level: BroadcastWarning) {
    PROCESS.store(level as u8, Ordering::Relaxed);
}

/// Sets the behaviour for this thread until the guard is dropped.
///
/// Of several guards that live the youngest counts, in whatever order they are dropped; without one, the setting of the
/// process.
///
/// ```
/// use foldback_tensor::{BroadcastWarning, broadcast_warning, tensor};
/// let _guard = broadcast_warning(BroadcastWarning::Refuse);
/// let column = tensor![[1.0], [2.0]];
/// assert!(column.add(&tensor![1.0, 2.0]).is_err());
/// ```
#[must_use = "the setting ends when the guard is dropped"]
pub fn broadcast_warning(level: BroadcastWarning) -> BroadcastWarningGuard {
    let id = GUARDS.with_borrow_mut(|guards| {
        let id = guards.last().map_or(0, |&(id, _)| id + 1);
        guards.push((id, level));
        id
    });
    SCOPE.set(Some(level));
    BroadcastWarningGuard { id, _not_send: std::marker::PhantomData }
}

/// Ends its own setting when dropped, see [`broadcast_warning`].
#[derive(Debug)]
pub struct BroadcastWarningGuard {
    id: u64,
    /// it belongs to the thread that made it
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for BroadcastWarningGuard {
    fn drop(&mut self) {
        // A guard that is itself kept per thread may outlive the list.
        let _ = GUARDS.try_with(|guards| {
            let mut guards = guards.borrow_mut();
            guards.retain(|&(id, _)| id != self.id);
            SCOPE.set(guards.last().map(|&(_, level)| level));
        });
    }
}

/// A warning: the operation, the shapes and the line.
type Said = (&'static str, [Shape; 2], &'static Location<'static>);

thread_local! {
    /// The last warning of this thread.
    static DOUBT: Cell<Option<Said>> = const { Cell::new(None) };
}

/// The mode of a thread that has been warned: a graph adds what it knows of the operands, and ends the mode.
#[doc(hidden)]
pub const DOUBTED: u32 = 1 << 31;

/// The last warning of this thread, for once.
#[doc(hidden)]
pub fn take_doubted() -> Option<Said> {
    DOUBT.take()
}

/// An operand: its sizes, and which axes of size 1 are meant.
pub(crate) type Operand<'a> = (&'a [usize], Meant);

/// Warns of operands that nobody may have meant to broadcast, or refuses them, if the setting in force says so. They are listed only
/// then.
#[track_caller]
pub(crate) fn check<'a>(
    op: &'static str,
    lists: Lists,
    operands: impl FnOnce() -> SmallVec<[Operand<'a>; 4]>,
) -> Result<()> {
    let level = level();
    if level == BroadcastWarning::Off { Ok(()) } else { look(op, lists, level, &operands()) }
}

/// The setting in force.
fn level() -> BroadcastWarning {
    SCOPE.get().unwrap_or_else(|| match PROCESS.load(Ordering::Relaxed) {
        0 => BroadcastWarning::Off,
        1 => BroadcastWarning::Warn,
        2 => BroadcastWarning::Refuse,
        3 => BroadcastWarning::Debug,
        _ => of_environment(),
    })
}

/// Whether operands are looked at before they broadcast, here and now.
#[doc(hidden)]
pub fn are_broadcasts_checked() -> bool {
    level() != BroadcastWarning::Off
}

/// What the environment says, noted for the process unless somebody was faster.
#[cold]
fn of_environment() -> BroadcastWarning {
    const NAME: &str = "FOLDBACK_BROADCAST_WARNING";
    let level = match std::env::var(NAME).as_deref() {
        Err(_) | Ok("off") => BroadcastWarning::Off,
        Ok("warn") => BroadcastWarning::Warn,
        Ok("refuse") => BroadcastWarning::Refuse,
        Ok("debug") => BroadcastWarning::Debug,
        Ok(other) => {
            log::warn!("{NAME} is {other:?}, which is none of off, warn, refuse and debug: it is ignored");
            BroadcastWarning::Off
        }
    };
    let _ = PROCESS.compare_exchange(UNSET, level as u8, Ordering::Relaxed, Ordering::Relaxed);
    level
}

/// The same for tensors whose broadcasting is done by other means.
#[doc(hidden)]
#[track_caller]
pub fn expect_meant(op: &'static str, operands: &[&Tensor]) -> Result<()> {
    check(op, Lists::Idiom, || operands.iter().map(|t| (t.dims(), t.meant())).collect())
}

/// Whether two tensors of different shapes are all pairs of two lists, each of which has got its axis on purpose.
#[doc(hidden)]
pub fn are_pairs(a: &Tensor, b: &Tensor) -> bool {
    doubt::are_pairs((a.dims(), a.meant()), (b.dims(), b.meant()))
}

#[cold]
#[track_caller]
fn look(op: &'static str, lists: Lists, level: BroadcastWarning, operands: &[Operand<'_>]) -> Result<()> {
    for (i, &a) in operands.iter().enumerate() {
        for (j, &b) in operands.iter().enumerate().skip(i + 1) {
            // What one operand holds anyway is no shape that two of them made.
            let others = operands.iter().enumerate().filter(|&(k, _)| k != i && k != j);
            if doubt::is_held(a, b, others.map(|(_, &c)| c)) {
                continue;
            }
            let Some(doubt) = Doubt::about(lists, a, b, level == BroadcastWarning::Debug) else { continue };
            let [a, b] = [a.0, b.0].map(Shape::from);
            if level == BroadcastWarning::Refuse {
                return refuse(TensorFacts::BroadcastRefused { op, a, b, origins: [None; 2] });
            }
            log::warn!("{} (at {})", doubt.text(op, [&a, &b], &[None; 2]), Location::caller());
            DOUBT.set(Some((op, [a, b], Location::caller())));
            set_thread_modes(thread_modes() | DOUBTED);
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_guard_ends_its_own_setting_in_any_order() {
        let level = |guards: &mut Vec<Option<BroadcastWarningGuard>>, dropped: usize| {
            guards[dropped] = None;
            SCOPE.get()
        };
        use BroadcastWarning::{Off, Refuse, Warn};
        for (order, levels) in [
            ([0, 1, 2], [Some(Refuse), Some(Refuse), None]),
            ([0, 2, 1], [Some(Refuse), Some(Warn), None]),
            ([1, 0, 2], [Some(Refuse), Some(Refuse), None]),
            ([1, 2, 0], [Some(Refuse), Some(Off), None]),
            ([2, 0, 1], [Some(Warn), Some(Warn), None]),
            ([2, 1, 0], [Some(Warn), Some(Off), None]),
        ] {
            let mut guards = [Off, Warn, Refuse].map(|l| Some(broadcast_warning(l))).into_iter().collect();
            assert_eq!(order.map(|i| level(&mut guards, i)), levels, "{order:?}");
        }
    }
}
