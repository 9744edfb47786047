//! Which layers a function calls, and which operations they record: what `#[forward]` tells those who ask.

use std::cell::{Cell, RefCell};

use foldback_graph::{Recorded, Var, enable_grad, recorded, recorded_so_far};
use foldback_tensor::{Shape, Tensor};

use crate::error::Result;
use crate::layer_path::{LayerId, id_of};
use crate::module::Module;

/// A call of a layer's `forward`.
pub(super) struct Call {
    pub(super) layer: LayerId,
    /// the call that it was made in, by number
    pub(super) inside: Option<usize>,
    /// its operations, those of layers inside it included: the numbers of the first, and of the first behind them
    pub(super) operations: (usize, usize),
    pub(super) outputs: Vec<Shape>,
}

/// What a function did.
pub(super) struct Trace {
    pub(super) calls: Vec<Call>,
    pub(super) operations: Vec<Recorded>,
}

thread_local! {
    /// Whether anybody asks: all that a layer looks at while nobody does.
    static ASKED: Cell<bool> = const { Cell::new(false) };
    /// Calls so far, and the numbers of those that have not returned.
    static CALLS: RefCell<(Vec<Call>, Vec<usize>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Runs a function and notes what layers it calls in this thread.
pub(super) fn trace<V>(run: impl FnOnce() -> Result<V>) -> Result<Trace> {
    let outer = Outer { asked: ASKED.replace(true), calls: CALLS.take() };
    let (result, operations) = recorded(|| enable_grad(run));
    let (calls, _) = CALLS.take();
    drop(outer);
    result.map(|_| Trace { calls, operations })
}

/// Puts back what was noted for whoever asked before, even after a panic.
struct Outer {
    asked: bool,
    calls: (Vec<Call>, Vec<usize>),
}

impl Drop for Outer {
    fn drop(&mut self) {
        ASKED.set(self.asked);
        CALLS.set(std::mem::take(&mut self.calls));
    }
}

/// Says that a layer's function begins; false if nobody asks.
#[doc(hidden)]
#[inline]
pub fn enter<T: Module>(layer: &T) -> bool {
    let asked = ASKED.get();
    if asked {
        begin(id_of(layer));
    }
    asked
}

#[cold]
fn begin(layer: LayerId) {
    CALLS.with_borrow_mut(|(calls, open)| {
        let first = recorded_so_far();
        let inside = open.last().copied();
        open.push(calls.len());
        calls.push(Call { layer, inside, operations: (first, first), outputs: Vec::new() });
    });
}

/// Says that it has returned variables of these shapes.
#[doc(hidden)]
#[cold]
pub fn leave(outputs: Vec<Shape>) {
    CALLS.with_borrow_mut(|(calls, open)| {
        if let Some(call) = open.pop() {
            calls[call].operations.1 = recorded_so_far();
            calls[call].outputs = outputs;
        }
    });
}

/// What a layer's function has returned, for a look at its shapes.
///
/// A method of the type itself goes before that of a trait: [`Returned::shapes`] is the one below for results that have shapes, and
/// [`NoShapes::shapes`] for all others.
#[doc(hidden)]
#[derive(Debug)]
pub struct Returned<'a, V>(pub &'a V);

#[doc(hidden)]
pub trait NoShapes {
    fn shapes(&self) -> Vec<Shape> {
        Vec::new()
    }
}

impl<V> NoShapes for Returned<'_, V> {}

impl<V: HasShapes> Returned<'_, V> {
    #[doc(hidden)]
    pub fn shapes(&self) -> Vec<Shape> {
        let mut all = Vec::new();
        self.0.add_to(&mut all);
        all
    }
}

/// Variables, tensors, and what is made of them.
#[doc(hidden)]
pub trait HasShapes {
    fn add_to(&self, all: &mut Vec<Shape>);
}

impl HasShapes for Var {
    fn add_to(&self, all: &mut Vec<Shape>) {
        all.push(self.shape().clone());
    }
}

impl HasShapes for Tensor {
    fn add_to(&self, all: &mut Vec<Shape>) {
        all.push(self.shape().clone());
    }
}

macro_rules! parts {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> HasShapes for $type {
            fn add_to(&self, all: &mut Vec<Shape>) {
                self.iter().for_each(|part| part.add_to(all));
            }
        }
    )*};
}
parts! {
    [V: HasShapes] Vec<V>;
    [V: HasShapes] Option<V>;
    [V: HasShapes, E] std::result::Result<V, E>;
    [V: HasShapes, const N: usize] [V; N];
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {$(
        impl<$($name: HasShapes),*> HasShapes for ($($name,)*) {
            #[expect(non_snake_case, reason = "the parts are named as their types are")]
            fn add_to(&self, all: &mut Vec<Shape>) {
                let ($($name,)*) = self;
                $($name.add_to(all);)*
            }
        }
    )*};
}
tuples! {
    A B;
    A B C;
    A B C D;
}
