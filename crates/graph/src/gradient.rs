//! Sums of gradients, and what a leaf keeps of them.

use foldback_tensor::Tensor;
use foldback_tensor::kernel::{self, Target};

use crate::error::Result;
use crate::node::{Var, VarKind};

/// The sum of two gradients of one value. In the memory of the first, if nobody else holds it and it has no history.
pub(crate) fn add_gradients(a: Var, b: Var) -> Var {
    match (a.kind, b.kind) {
        (VarKind::Constant(mut a), VarKind::Constant(b)) => {
            add_tensors(&mut a, &b);
            Var::constant(a)
        }
        (a, b) => Var { kind: a } + Var { kind: b },
    }
}

/// Adds a gradient to what is kept in a place, and hands out what that may leave without an owner: the place is in a
/// cell, see Note [Locks].
pub(crate) fn add_in_place(place: &mut Option<Var>, grad: Var) -> Option<[Var; 2]> {
    let Some(old) = place.take() else {
        *place = Some(grad);
        return None;
    };
    let constants = matches!((&old.kind, &grad.kind), (VarKind::Constant(_), VarKind::Constant(_)));
    let outdated = (!constants).then(|| [old.clone(), grad.clone()]);
    *place = Some(add_gradients(old, grad));
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
