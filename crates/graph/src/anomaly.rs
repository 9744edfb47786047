//! Anomaly mode: a backward pass that stops at the first gradient that is not finite, and says where it came from.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldback_tensor::{Tensor, refuse, set_thread_modes, thread_modes};

use crate::error::{GraphFacts, Result};
use crate::node::{Node, Origin, Var, VarKind};

/// The bit of the modes of a thread.
const ANOMALY: u32 = 1 << 8;

static EVERYWHERE: AtomicBool = AtomicBool::new(false);

/// Runs `f` with anomaly mode on: a backward pass in it that makes a gradient of NaN or an infinity fails at once, and the error
/// names the operation and the line that recorded it.
///
/// Where the operation is itself part of a derivative (`create_graph`), the error goes on with the operation whose
/// derivative it is, and so on up to one that a program wrote; that is known of passes that ran in anomaly mode, too. A
/// seed that is not finite, or what a hook returns, is reported as such.
///
/// The mode belongs to this thread; [`set_detect_anomaly`] switches it on for the process. Every gradient is read once
/// more than otherwise; a pass without the mode asks for it once. Unlike PyTorch's, which looks for NaN alone, it stops at
/// infinities, too: a NaN is mostly one times zero, a few operations later.
///
/// ```
/// use foldback_graph::{RequiresGrad, detect_anomaly};
/// use foldback_tensor::tensor;
/// let x = tensor![0.0, 4.0].requires_grad();
/// let e = detect_anomaly(|| (x.sqrt() * 0.0).sum(..)?.backward()).unwrap_err();
/// assert!(e.to_string().starts_with("sqrt: the gradient of input 0 holds NaN in 1 of 2 elements (recorded at "));
/// assert_eq!(x.grad(), None);
/// ```
pub fn detect_anomaly<R>(f: impl FnOnce() -> R) -> R {
    let _guard = Guard(set_thread_modes(thread_modes() | ANOMALY));
    f()
}

/// Switches anomaly mode on or off for backward passes of all threads that start from now on, see [`detect_anomaly`], inside
/// of which it stays on in any case.
///
/// ```
/// use foldback_graph::{is_anomaly_enabled, set_detect_anomaly};
/// set_detect_anomaly(true);
/// assert!(is_anomaly_enabled());
/// set_detect_anomaly(false);
/// ```
pub fn set_detect_anomaly(on: bool) {
    EVERYWHERE.store(on, Ordering::Relaxed);
}

/// Whether a backward pass that starts here and now looks for anomalies.
///
/// ```
/// use foldback_graph::{detect_anomaly, is_anomaly_enabled};
/// assert!(!is_anomaly_enabled());
/// detect_anomaly(|| assert!(is_anomaly_enabled()));
/// ```
pub fn is_anomaly_enabled() -> bool {
    thread_modes() & ANOMALY != 0 || EVERYWHERE.load(Ordering::Relaxed)
}

/// Restores the modes it found when dropped.
struct Guard(u32);
impl Drop for Guard {
    fn drop(&mut self) {
        let others = thread_modes() & !ANOMALY;
        set_thread_modes(others | self.0 & ANOMALY);
    }
}

/// Remembers of all that was recorded from number `first` on, and that leads to a gradient of this node, that it is part of
/// the node's derivative.
pub(crate) fn remember_origin(node: &Node, first: u64, grad: &Var) {
    let VarKind::Tracked(_, edge) = &grad.kind else { return };
    let origin = Origin { op: node.name(), location: node.location, of: origin_of(node) };
    let (origin, mut stack) = (Arc::new(origin), vec![edge.node.clone()]);
    let is_new = |node: &Node| node.attached.get_or_init(Default::default).origin.set(origin.clone()).is_ok();
    while let Some(new) = stack.pop() {
        if new.sequence >= first && new.as_leaf().is_none() && is_new(&new) {
            stack.extend(new.next_edges.iter().flatten().map(|e| e.node.clone()));
        }
    }
}

fn origin_of(node: &Node) -> Option<Arc<Origin>> {
    node.attached.get()?.origin.get().cloned()
}

/// Refuses a gradient of an operation's input; `arrived` is what the operation's result got, if that lies behind a choice.
pub(crate) fn expect_finite(node: &Node, input: usize, grad: &Var, arrived: Option<&Var>) -> Result<()> {
    let Some(found) = found(&grad.value_ref()) else { return Ok(()) };
    let mut derivative_of = String::new();
    let mut origin = origin_of(node);
    while let Some(o) = origin {
        derivative_of += &format!(", in the derivative of {} recorded at {}", o.op, o.location);
        origin = o.of.clone();
    }
    let not_taken = arrived.is_some_and(|arrived| is_not_taken(&grad.value_ref(), &arrived.value_ref()));
    let (op, location) = (node.name(), node.location);
    refuse(GraphFacts::NotFinite { op, input, found, location, derivative_of, not_taken })
}

/// Whether a gradient is not finite where nothing arrived, and only there.
fn is_not_taken(grad: &Tensor, arrived: &Tensor) -> bool {
    let wild = || grad.isfinite().logical_not().logical_and(arrived.ne(0)?)?.any(..)?.item_as::<bool>();
    grad.shape() == arrived.shape() && wild().is_ok_and(|wild| !wild)
}

/// Refuses a gradient that was handed in.
pub(crate) fn expect_finite_given(what: impl Display, node: &Node, grad: &Var) -> Result<()> {
    match found(&grad.value_ref()) {
        Some(found) => {
            let (what, op, location) = (what.to_string(), node.name(), node.location);
            refuse(GraphFacts::GivenNotFinite { what, op, found, location })
        }
        None => Ok(()),
    }
}

/// What a tensor holds that is not finite.
fn found(t: &Tensor) -> Option<String> {
    let count = |which: Tensor| which.to_vec::<bool>().map_or(0, |v| v.iter().filter(|&&b| b).count());
    let finite = count(t.isfinite());
    if finite == t.numel() {
        return None;
    }
    let name = if count(t.isnan()) > 0 { "NaN" } else { "infinity" };
    Some(format!("{name} in {} of {} elements", t.numel() - finite, t.numel()))
}
