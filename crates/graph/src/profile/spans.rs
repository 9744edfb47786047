//! Taking time: a span per operation, and per node in a backward pass.

use std::cell::RefCell;
use std::panic::Location;
use std::time::Instant;

use foldback_tensor::Tensor;

use super::report::{Event, Profile};
use crate::mode::location;
use crate::node::Node;

/// What is being recorded.
struct Recorder {
    start: Instant,
    /// spans that have ended
    events: Vec<Event>,
    /// spans that have not, the innermost last; with the nanoseconds that spans inside them took
    open: Vec<(Event, u64)>,
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Runs `f`, and takes the time of each operation on variables in it, and of each node in its backward passes, on this thread.
/// One inside another takes the inner one's for itself.
///
/// The feature `profile` has to be on, which makes every operation ask whether somebody takes the time. What passes nested more
/// deeply than 32 do on threads of their own is not seen.
///
/// ```
/// use foldback_graph::{RequiresGrad, profile};
/// use foldback_tensor::Tensor;
/// let w = Tensor::ones([64, 64]).requires_grad();
/// let (result, profile) = profile(|| w.matmul(&w)?.tanh().sum(..)?.backward());
/// result?;
/// println!("{profile}");
/// let tanh = profile.lines().into_iter().find(|line| line.op == "tanh").unwrap();
/// assert_eq!((tanh.calls, tanh.backward_calls, tanh.bytes), (1, 1, 64 * 64 * 4));
/// assert!(profile.chrome_trace().contains("tanh"));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
pub fn profile<R>(f: impl FnOnce() -> R) -> (R, Profile) {
    /// Puts back what was recorded outside, whatever happens.
    struct OuterRecorder(Option<Recorder>);
    impl Drop for OuterRecorder {
        fn drop(&mut self) {
            RECORDER.replace(self.0.take());
        }
    }
    let new = Recorder { start: Instant::now(), events: Vec::new(), open: Vec::new() };
    let outer = OuterRecorder(RECORDER.replace(Some(new)));
    let result = f();
    let events = RECORDER.with_borrow_mut(|r| r.take().map_or(Vec::new(), |r| r.events));
    drop(outer);
    (result, Profile { events })
}

/// Ends when dropped.
pub(crate) struct Span(bool);

impl Drop for Span {
    fn drop(&mut self) {
        if self.0 {
            RECORDER.with_borrow_mut(|recorder| recorder.as_mut().map(Recorder::end));
        }
    }
}

impl Recorder {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn end(&mut self) {
        let now = self.now();
        let Some((mut event, inside)) = self.open.pop() else { return };
        event.nanoseconds = now - event.start;
        event.own = event.nanoseconds.saturating_sub(inside);
        if let Some((_, taken)) = self.open.last_mut() {
            *taken += event.nanoseconds;
        }
        self.events.push(event);
    }
}

fn start(op: &'static str, location: &'static Location<'static>, backward: bool) -> Span {
    RECORDER.with_borrow_mut(|recorder| {
        let Some(recorder) = recorder else { return Span(false) };
        let start = recorder.now();
        recorder.open.push((Event { op, location, backward, start, nanoseconds: 0, own: 0, bytes: 0 }, 0));
        Span(true)
    })
}

/// An operation, from here to the end of the scope.
#[track_caller]
#[inline]
pub(crate) fn forward(op: &'static str) -> Span {
    start(op, location(), false)
}

/// A node that runs.
pub(crate) fn backward(node: &Node) -> Span {
    start(node.name(), node.location, true)
}

/// What the operation that is being recorded has made.
pub(crate) fn results(values: &[Tensor]) {
    RECORDER.with_borrow_mut(|recorder| {
        if let Some((event, _)) = recorder.as_mut().and_then(|r| r.open.last_mut()) {
            event.bytes += values.iter().map(|t| t.numel() * t.dtype().size()).sum::<usize>();
        }
    });
}
