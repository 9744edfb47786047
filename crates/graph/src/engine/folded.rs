//! The recorded gradient of an input that was broadcast: folded as it is computed, and traced only for those who
//! differentiate through it.
//!
//! Note [Folded and recorded]
//! A formula that is traced over variables has values of the broadcast shape. Its sum needs none of them, so where it is large
//! the value comes from the kernel, and the node behind it keeps what the formula reads. Only a pass that reaches
//! this node traces the formula, and differentiates what it has traced, in a pass of its own.

use foldback_tensor::Tensor;
use foldback_tensor::kernel::{self, BlockKernel, Target};
use foldback_tensor::{GRAIN, Shape};
use smallvec::{SmallVec, smallvec};

use super::{GraphTask, Options};
use crate::error::Result;
use crate::mode::enable_grad;
use crate::node::{Context, Edge, Flow, Mood, Take, Var};
use crate::record::{Reads, record_function};
use crate::slot::RuleSlot;

/// Whether a gradient of shape `full` is large, and is folded to an input of shape `to`.
pub(crate) fn is_worth_it(full: &Shape, to: &Shape) -> bool {
    full.numel() > GRAIN && to.numel() < full.numel()
}

/// Folds a kernel over what it reads to a shape. `trace` records the same, unfolded.
pub(crate) fn record_folded(
    name: &'static str,
    kernel: &dyn BlockKernel,
    reads: &[&Var],
    shape: &Shape,
    trace: impl Fn(&[&Var]) -> Result<Var> + Send + Sync + 'static,
) -> Result<Var> {
    let values: SmallVec<[Tensor; 4]> = reads.iter().map(|v| v.value()).collect();
    let values: SmallVec<[&Tensor; 4]> = values.iter().collect();
    let sum = kernel::fold_to(name, kernel, &values, Target::of(shape))?;
    // A read that the derivative does not depend on, as of a kink, has no history in a traced formula.
    let matters = depends_on(&trace, reads)?;
    let cut = |(v, matters): (&&Var, bool)| if matters { (*v).clone() } else { v.detach() };
    let reads: SmallVec<[Var; 4]> = reads.iter().zip(matters).map(cut).collect();
    let reads: SmallVec<[&Var; 4]> = reads.iter().collect();
    let slots: SmallVec<[RuleSlot; 4]> = (0..reads.len()).map(RuleSlot::Input).collect();
    let describe = move |ctx: &Context<'_>, take: &mut Take<'_>| describe(&trace, ctx, take);
    let mut results =
        record_function(name, &reads, smallvec![sum], Reads::All(&slots), || Box::new(describe));
    Ok(results.remove(0))
}

/// Which of its reads the derivative of a traced formula leads to: asked of a formula over no elements.
fn depends_on(trace: &dyn Fn(&[&Var]) -> Result<Var>, reads: &[&Var]) -> Result<SmallVec<[bool; 4]>> {
    let empty = |v: &&Var| match v.requires_grad() {
        true => Var::leaf(Tensor::zeros_with([0], v.dtype())),
        false => Ok(Var::constant(Tensor::zeros_with([0], v.dtype()))),
    };
    let empties = reads.iter().map(empty).collect::<Result<SmallVec<[Var; 4]>>>()?;
    let empties: SmallVec<[&Var; 4]> = empties.iter().collect();
    let y = trace(&empties)?;
    let Some(root) = y.edge() else {
        return Ok(reads.iter().map(|_| false).collect());
    };
    let leaves: SmallVec<[Edge; 4]> = empties.iter().filter_map(|v| v.edge()).collect();
    let seed = Var::constant(Tensor::zeros_with(y.shape(), y.dtype()));
    let grads = GraphTask::derive(root, seed, &leaves, Options::default())?;
    let mut grads = grads.into_iter();
    let found = |v: &&Var| v.requires_grad() && grads.next().flatten().is_some();
    Ok(empties.iter().map(found).collect())
}

/// The gradients of what a folded formula reads.
fn describe(trace: &dyn Fn(&[&Var]) -> Result<Var>, ctx: &Context<'_>, take: &mut Take<'_>) -> Result<()> {
    let recorded = ctx.mood == Mood::Recorded;
    let wanted: SmallVec<[usize; 4]> = (0..ctx.inputs()).filter(|&k| ctx.needs(k)).collect();
    let g = ctx.grad(0);
    let gradients = enable_grad(|| {
        // One read may depend on another, and a partial derivative is asked for.
        let reads: SmallVec<[Var; 4]> =
            (0..ctx.inputs()).map(|k| alias(&ctx.value(RuleSlot::Input(k)))).collect();
        let reads: SmallVec<[&Var; 4]> = reads.iter().collect();
        let y = trace(&reads)?;
        let Some(root) = y.edge() else { return Ok(Vec::new()) };
        let edge = |&k: &usize| reads[k].edge().expect("what a gradient is asked for leads there");
        let inputs: SmallVec<[Edge; 4]> = wanted.iter().map(edge).collect();
        GraphTask::derive(
            root,
            g.try_to(y.dtype())?.expand(y.shape())?,
            &inputs,
            Options { create_graph: recorded, retain_graph: recorded },
        )
    })?;
    let given = wanted.into_iter().zip(gradients);
    given.filter_map(|(k, g)| Some(Flow::to(k, g?))).try_for_each(take)
}

/// The same value with a node of its own.
fn alias(v: &Var) -> Var {
    let pass = |ctx: &Context<'_>, take: &mut Take<'_>| take(Flow::to(0, ctx.grad(0)));
    record_function("alias", &[v], smallvec![v.value()], Reads::All(&[]), || Box::new(pass)).remove(0)
}
