//! The backward step of a fused operation: by duals over blocks, or by recorded duals for higher orders.

use foldback_tensor::kernel::{self, Reduction, Target};
use foldback_tensor::{DType, Tensor};
use smallvec::SmallVec;

use super::derived::{Derived, PerOperand};
use crate::error::Result;
use crate::gradient::{Context, Flow};
use crate::mode::is_grad_enabled;
use crate::table::Slot;
use crate::traced::trace_many;
use crate::var::Var;

/// A fused operation as its node remembers it, beside the formula.
pub(super) struct Backward {
    pub(super) name: &'static str,
    /// what the result was reduced to, and whether its mean was taken
    pub(super) reduced: Option<(Reduction, bool)>,
}

impl Backward {
    pub(super) fn run(
        &self,
        formula: &dyn Derived,
        ctx: &Context<'_>,
    ) -> Result<SmallVec<[Option<Flow>; 2]>> {
        let used = formula.made_of();
        let wanted: PerOperand<usize> =
            (0..used.len()).filter(|&k| ctx.needs(k) && used[k].is_some()).collect();
        let mut flows: SmallVec<[Option<Flow>; 2]> = used.iter().map(|_| None).collect();
        if wanted.is_empty() {
            return Ok(flows);
        }
        let g = self.unreduced(ctx.value(Slot::Grad(0)))?;
        // What was not saved is not read by any gradient that is used; something has to stand in its place.
        let nothing = || Var::constant(Tensor::zeros((), g.dtype()));
        let operand = |k: usize| ctx.saved(Slot::Input(k)).unwrap_or_else(nothing);
        let operands: PerOperand<Var> = (0..used.len()).map(operand).collect();
        let gradients = if is_grad_enabled() {
            record(formula, &g, operands, &wanted)?
        } else {
            let values: PerOperand<Tensor> = operands.iter().map(Var::value).collect();
            let g = g.value();
            let read: SmallVec<[&Tensor; 8]> = std::iter::once(&g).chain(&values).collect();
            let input = |&k: &usize| ctx.node.next_edges[k].as_ref().expect("only tracked inputs are wanted");
            let target = |k: &usize| {
                let edge = input(k);
                let meta = &edge.node.metadata[edge.nr as usize];
                // What waits is of the input's type, which may be another than the formula's.
                let prior = if meta.dtype == g.dtype() { ctx.take_waiting(*k) } else { None };
                Target { shape: &meta.shape, prior }
            };
            let targets = wanted.iter().map(target).collect();
            evaluate(self.name, formula, &wanted, &read, targets)?.into_iter().map(Var::constant).collect()
        };
        for (&k, gradient) in wanted.iter().zip(gradients) {
            flows[k] = Some(Flow::Value(gradient));
        }
        Ok(flows)
    }

    /// The gradient of the formula's result before it was reduced: expanded, which takes no memory.
    fn unreduced(&self, g: Var) -> Result<Var> {
        let Some((reduction, mean)) = &self.reduced else { return Ok(g) };
        let g = if g.shape() == reduction.kept { g } else { g.reshape(&reduction.kept)? };
        let g = g.expand(&reduction.full)?;
        // Expanded before it is divided: nothing is divided by zero when there are no elements.
        if *mean { g.div(reduction.count as f64) } else { Ok(g) }
    }
}

/// The gradients as values, each straight in the shape of its input and added to what waits there, in one read of
/// `operands`: the incoming gradient and all others.
fn evaluate(
    name: &'static str,
    formula: &dyn Derived,
    wanted: &[usize],
    operands: &[&Tensor],
    mut targets: SmallVec<[Target<'_>; 2]>,
) -> foldback_tensor::Result<SmallVec<[Tensor; 2]>> {
    let kernel = formula.gradients(wanted);
    match &mut targets[..] {
        [target] => {
            let sum = kernel::fold_to(name, &*kernel, operands, target.shape, target.prior.take())?;
            Ok(smallvec::smallvec![sum])
        }
        _ => kernel::fold_jointly(name, &*kernel, operands, targets),
    }
}

/// The gradients as recorded values, unreduced.
fn record(
    formula: &dyn Derived,
    g: &Var,
    operands: PerOperand<Var>,
    wanted: &[usize],
) -> Result<PerOperand<Var>> {
    // As in the kernel, everything is computed in the operation's type.
    let operands: PerOperand<Var> = operands.into_iter().map(|v| to_dtype(v, g.dtype())).collect();
    let read: SmallVec<[&Var; 8]> = std::iter::once(g).chain(&operands).collect();
    let slopes = trace_many(&read, &|x| {
        let slopes = formula.record(x, wanted);
        wanted.iter().map(|&k| slopes[k].expect("only operands in use are wanted")).collect()
    })?;
    // A slope of zero may have forgotten its shape.
    let full = g.shape();
    slopes.into_iter().map(|s| if s.shape() == full { Ok(s) } else { s.expand(&full) }).collect()
}

fn to_dtype(v: Var, dtype: DType) -> Var {
    if v.dtype() == dtype { v } else { v.to_dtype(dtype) }
}
