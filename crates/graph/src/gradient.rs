//! Sums of gradients, and what a leaf keeps of them.

use foldback_tensor::Tensor;
use foldback_tensor::kernel::{self, Target};

use crate::error::Result;
use crate::node::{Var, VarKind};

/// Adds a gradient that fits to what is in a place, if there is anything.
#[inline]
pub(crate) fn add_to(place: &mut Option<Var>, grad: Var) {
    match place {
        None => *place = Some(grad),
        Some(sum) => add_gradients(sum, &grad),
    }
}

/// The same of what is in another place, which is taken from there where nothing waits.
#[inline]
pub(crate) fn add_taken(place: &mut Option<Var>, grad: &mut Option<Var>) {
    match (&mut *place, &*grad) {
        (Some(sum), Some(grad)) => add_gradients(sum, grad),
        (None, _) => *place = grad.take(),
        (Some(_), None) => {}
    }
}

/// Adds a gradient to another one of the same value. In its memory, if nobody else holds it and it has no history.
fn add_gradients(sum: &mut Var, grad: &Var) {
    match (&mut sum.kind, &grad.kind) {
        (VarKind::Constant(sum), VarKind::Constant(grad)) => add_tensors(sum, grad),
        _ => *sum = &*sum + grad,
    }
}

/// Adds a gradient to what is kept in a place, and hands out what that may leave without an owner: the place is in a
/// cell, see Note [Locks].
pub(crate) fn add_in_place(place: &mut Option<Var>, grad: Var) -> Option<[Var; 2]> {
    let Some(old) = place else {
        *place = Some(grad);
        return None;
    };
    let constants = matches!((&old.kind, &grad.kind), (VarKind::Constant(_), VarKind::Constant(_)));
    let outdated = (!constants).then(|| [old.clone(), grad.clone()]);
    add_gradients(old, &grad);
    outdated
}

/// Adds a value to another, in the memory of that if it can be.
pub(crate) fn add_tensors(sum: &mut Tensor, t: &Tensor) {
    if kernel::added(sum, t) {
        return;
    }
    let prior = std::mem::replace(sum, t.clone());
    match kernel::sum_onto("backward", t, Target { prior: Some(prior), ..Target::of(t.shape()) }) {
        Ok(total) => *sum = total,
        Err(e) => unreachable!("gradients of one value have its shape and type: {e}"),
    }
}

/// Makes a gradient what a leaf keeps: dense, row-major. One with a history stays as it is.
pub(crate) fn dense(grad: &mut Var) -> Result<()> {
    if let VarKind::Constant(t) = &mut grad.kind
        && !t.is_contiguous()
    {
        *t = t.try_contiguous()?;
    }
    Ok(())
}
