//! Where the operands of a broadcast that nobody may have meant were recorded: what only a graph knows.

use std::panic::Location;

use foldback_tensor::{DOUBTED, Error, Shape, TensorFacts, set_thread_modes, take_doubted, thread_modes};

use crate::mode::is_grad_enabled;
use crate::node::Var;

/// A refusal with the lines of the operands.
#[cold]
#[inline(never)]
pub(crate) fn with_origins(mut e: Error, inputs: &[&Var]) -> Error {
    if let Some(TensorFacts::BroadcastRefused { a, b, origins, .. }) = e.facts_mut() {
        *origins = [a, b].map(|shape| origin(shape, inputs));
    }
    e
}

/// The line that recorded the input of this shape.
fn origin(shape: &Shape, inputs: &[&Var]) -> Option<&'static Location<'static>> {
    inputs.iter().find(|v| v.shape() == shape)?.edge().map(|edge| edge.node.location)
}

/// Whether an operation on these inputs is to be recorded, as far as the modes of the thread say. If its values have been
/// warned of, the lines of the inputs are added.
#[inline]
#[track_caller]
pub(crate) fn is_recording(inputs: &[&Var]) -> bool {
    if thread_modes() & DOUBTED == 0 { is_grad_enabled() } else { after_doubts(inputs) }
}

#[cold]
#[inline(never)]
#[track_caller]
fn after_doubts(inputs: &[&Var]) -> bool {
    set_thread_modes(thread_modes() & !DOUBTED);
    let here = Location::caller();
    // A warning of another line is one of values alone.
    if let Some((op, shapes, _)) = take_doubted().filter(|doubted| doubted.2 == here) {
        let lines = shapes.iter().filter_map(|s| Some(format!("{s} is from {}", origin(s, inputs)?)));
        let lines: Vec<String> = lines.collect();
        if !lines.is_empty() {
            log::warn!("{op}: {}", lines.join("; "));
        }
    }
    is_grad_enabled()
}
