//! What is to be done when the running pass has ended.

use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::mem::ManuallyDrop;

use foldback_tensor::{Here, refuse};

use super::HookResult;
use super::result::looked;
use crate::dismantle::{Rest, drop_all};
use crate::error::{GraphFacts, Result};

type Callback = Box<dyn FnOnce() -> Result<()>>;
/// What a pass is to do, in this order.
type Queued = VecDeque<Callback>;

thread_local! {
    /// Whether a pass is running on this thread.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    /// What the innermost pass is to do at its end. A pass leaves it as it found it, so that it needs no destructor and is
    /// there until the very end of the thread.
    static QUEUED: Cell<ManuallyDrop<Queued>> = const { Cell::new(ManuallyDrop::new(Queued::new())) };
}

/// The callbacks of a pass, from its start to its end.
pub(crate) struct Callbacks {
    /// those of the pass around it
    outer: Queued,
    nested: bool,
}

impl Callbacks {
    /// At the start of a pass.
    pub(crate) fn open() -> Callbacks {
        Callbacks { outer: put(Queued::new()), nested: RUNNING.replace(true) }
    }

    /// Runs them, also those that they queue themselves.
    pub(crate) fn run(&self) -> Result<()> {
        loop {
            let mut queued = put(Queued::new());
            let Some(callback) = queued.pop_front() else { return Ok(()) };
            put(queued);
            callback()?;
        }
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        RUNNING.set(self.nested);
        // Those of a pass that failed are a user's, whose `Drop` may panic while this thread does.
        drop_all(
            put(std::mem::take(&mut self.outer)).into_iter().map(|callback| Rest::Other(Box::new(callback))),
        );
    }
}

/// Exchanges the list of what is queued.
fn put(list: Queued) -> Queued {
    ManuallyDrop::into_inner(QUEUED.replace(ManuallyDrop::new(list)))
}

/// Has a function run when the backward pass has ended that is running on this thread: the innermost one, after all its
/// gradients have been written, in the mode of whoever started it. For hooks that have something to do once per pass.
///
/// It returns nothing or a `Result`, whose error is then what `backward` returns: gradients have been written all the
/// same. In a pass that fails it does not run. PyTorch's `Variable._execution_engine.queue_callback`.
///
/// # Errors
/// `NoPass` where no backward pass is running.
///
/// ```
/// use foldback_graph::{RequiresGrad, queue_callback};
/// use foldback_tensor::tensor;
/// let x = tensor![3.0].requires_grad();
/// let own = x.downgrade();
/// x.register_hook(move |_| {
///     let own = own.clone();
///     queue_callback(move || assert_eq!(own.upgrade().unwrap().grad(), Some(tensor![6.0])))
/// })?;
/// x.square().backward()?;
/// assert!(queue_callback(|| ()).is_err());
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn queue_callback<R: HookResult<Infallible>>(callback: impl FnOnce() -> R + 'static) -> Result<()> {
    if !RUNNING.get() {
        return refuse(GraphFacts::NoPass).here();
    }
    let mut queued = put(Queued::new());
    queued.push_back(Box::new(move || looked(callback())));
    put(queued);
    Ok(())
}
