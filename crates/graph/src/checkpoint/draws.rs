//! Random numbers that a checkpoint's function draws from generators other than its thread's: layers have their own.

use std::cell::RefCell;

use foldback_tensor::{Generator, StateCell};

/// What a run of a checkpoint's function does with the generators that are drawn from.
enum Tape {
    /// the states that it found, in order
    Records(Vec<Generator>),
    /// the states that the first run found, the next one last
    Replays(Vec<Generator>),
}

thread_local! {
    /// The runs that this thread is in, the innermost last.
    static TAPES: RefCell<Vec<Tape>> = const { RefCell::new(Vec::new()) };
}

/// Takes the innermost run off when dropped, unless it was taken off.
struct Running(usize);
impl Drop for Running {
    fn drop(&mut self) {
        TAPES.with_borrow_mut(|tapes| tapes.truncate(self.0));
    }
}

fn start(tape: Tape) -> Running {
    TAPES.with_borrow_mut(|tapes| {
        tapes.push(tape);
        Running(tapes.len() - 1)
    })
}

/// The first run: its result, and the states that were drawn from.
pub(super) fn record<R>(f: impl FnOnce() -> R) -> (R, Vec<Generator>) {
    let running = start(Tape::Records(Vec::new()));
    let result = f();
    let tape = TAPES.with_borrow_mut(|tapes| tapes.drain(running.0..).next());
    match tape {
        Some(Tape::Records(states)) => (result, states),
        _ => unreachable!("what was started is there"),
    }
}

/// A further run, which draws from those states again.
pub(super) fn replay<R>(states: &[Generator], f: impl FnOnce() -> R) -> R {
    let _running = start(Tape::Replays(states.iter().rev().cloned().collect()));
    f()
}

/// Draws random numbers from a generator in a cell, for layers that have one of their own: the same ones when a
/// [`checkpoint`](crate::checkpoint) that this is part of is run again. The cell is locked while `draw` runs, as in
/// [`StateCell::update`].
///
/// ```
/// use foldback_graph::draw_from;
/// use foldback_tensor::{Generator, StateCell};
/// let cell = StateCell::new(Generator::new(7));
/// assert_eq!(draw_from(&cell, |g| g.rand([4])), Generator::new(7).rand([4]));
/// ```
pub fn draw_from<R>(cell: &StateCell<Generator>, draw: impl FnOnce(&mut Generator) -> R) -> R {
    // The innermost run that replays says what is drawn from, and the runs inside it note that.
    let state = TAPES.with_borrow_mut(|tapes| {
        tapes.iter_mut().rev().find_map(|tape| match tape {
            Tape::Replays(states) => Some(states.pop()),
            Tape::Records(_) => None,
        })
    });
    // Beyond what was noted, it is another function, and found out by what it records.
    let state = state.map(|state| state.unwrap_or_else(|| cell.read()));
    let (result, before) = match state {
        Some(mut state) => {
            let before = state.clone();
            (draw(&mut state), before)
        }
        None => cell.update(|g| {
            let before = g.clone();
            (draw(g), before)
        }),
    };
    TAPES.with_borrow_mut(|tapes| {
        let inner = tapes.iter_mut().rev().map_while(|tape| match tape {
            Tape::Records(states) => Some(states),
            Tape::Replays(_) => None,
        });
        inner.for_each(|states| states.push(before.clone()));
    });
    result
}
