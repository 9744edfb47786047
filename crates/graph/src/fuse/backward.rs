//! The backward step of a fused operation: by duals over blocks, or by recorded duals for higher orders.

use foldback_tensor::Tensor;
use foldback_tensor::kernel::{self, BlockKernel, ReducedShapes, Target};
use smallvec::{SmallVec, smallvec};

use super::derived::{Derived, record};
use crate::error::Result;
use crate::lead::Lead;
use crate::node::{Arrival, Context, Describe, Flow, Mood, Node, Pointwise, Take, Var, Way, Work};
use crate::rule::RuleSlot;
use crate::table::unreduced;

/// A fused operation as its node remembers it.
pub(super) struct FusedBackward<D> {
    pub(super) formula: D,
    /// what the result was reduced to, and whether its mean was taken
    pub(super) reduced: Option<(ReducedShapes, bool)>,
}

impl<D: Derived> Describe for FusedBackward<D> {
    fn describe(&self, ctx: &Context<'_>, take: &mut Take<'_>) -> Result<()> {
        describe(&self.formula, self.reduced.as_ref(), ctx, take)
    }

    fn leads(&self) -> bool {
        true
    }

    fn pushes(&self) -> bool {
        true
    }

    fn arrival(&self, node: &Node, _input: usize) -> Arrival {
        let full = self.reduced.as_ref().map_or(&node.metadata[0].shape, |(reduction, _)| &reduction.full);
        Arrival { shape: full.clone(), way: Way::Straight }
    }
}

/// The gradients of all operands that are asked for, in one read of what they share.
fn describe(
    formula: &dyn Derived,
    reduced: Option<&(ReducedShapes, bool)>,
    ctx: &Context<'_>,
    take: &mut Take<'_>,
) -> Result<()> {
    let used = formula.made_of();
    let inputs: SmallVec<[usize; 2]> =
        (0..used.len()).filter(|&k| ctx.needs(k) && used[k].is_some()).collect();
    if inputs.is_empty() {
        return Ok(());
    }
    if ctx.tangents.is_some() {
        return inputs.into_iter().try_for_each(|k| push(formula, reduced, ctx, take, k));
    }
    let mut reads = reads(ctx, spread(ctx.grad(0), reduced, ctx.lead)?, used.len());
    // What is recorded depends on the operands.
    if let (Mood::Now, Some(y)) = (ctx.mood, ctx.values.get(place_of_result(reduced.is_some()))) {
        reads.push(Var::constant(y.clone()));
        return take(Flow { to: inputs, work: Work::Pointwise(&Knowing(formula), &reads) });
    }
    take(Flow { to: inputs, work: Work::Pointwise(formula, &reads) })
}

/// Where the formula's result is saved: as the output, or behind it if that has been reduced. See Note [Saved results].
pub(super) fn place_of_result(is_reduced: bool) -> RuleSlot {
    RuleSlot::Output(is_reduced as usize)
}

/// The gradients of a formula, which read its result behind the operands.
struct Knowing<'a>(&'a dyn Derived);

impl Pointwise for Knowing<'_> {
    fn kernel(&self, inputs: &[usize]) -> Box<dyn BlockKernel> {
        self.0.knowing(inputs)
    }

    fn record(&self, node: Option<&Node>, reads: &[Var], inputs: &[usize]) -> Result<SmallVec<[Var; 4]>> {
        self.0.record(node, &reads[..reads.len() - 1], inputs)
    }
}

/// What an operand adds to the tangent of the result: its gradient, with its tangent in the place of `g`, reduced.
fn push(
    formula: &dyn Derived,
    reduced: Option<&(ReducedShapes, bool)>,
    ctx: &Context<'_>,
    take: &mut Take<'_>,
    k: usize,
) -> Result<()> {
    let (n, full, output) = (ctx.lead, ctx.full(), &ctx.node.metadata[0]);
    let (whole, kept) = match reduced {
        Some((reduction, _)) => (n.shape(&reduction.full), n.shape(&reduction.kept)),
        None => (full.clone(), full.clone()),
    };
    let tangent = n.over(&ctx.tangent(k).try_to(output.dtype)?, &whole)?;
    let reads = reads(ctx, tangent, formula.made_of().len());
    let evaluate = |mood| {
        let sum = match mood {
            Mood::Now => {
                let values: SmallVec<[Tensor; 4]> = reads.iter().map(Var::value).collect();
                let values: SmallVec<[&Tensor; 4]> = values.iter().collect();
                let target = Target { dtype: Some(output.dtype), ..Target::of(&kept) };
                Var::constant(kernel::fold_to(ctx.node.name(), &*formula.kernel(&[k]), &values, target)?)
            }
            Mood::Recorded => {
                let reads: SmallVec<[&Var; 8]> = reads.iter().collect();
                record(formula, &reads, &[k])?.remove(0).sum_to_size(&kept)?
            }
        };
        Ok(smallvec![match reduced {
            Some((reduction, true)) => sum.reshape(&full)?.div(reduction.count as f64)?,
            Some(_) => sum.reshape(&full)?,
            None => sum,
        }])
    };
    take(Flow::to(0, Work::Either(Box::new(evaluate))))
}

/// What the formula of a gradient reads: `g`, and the operands.
fn reads(ctx: &Context<'_>, g: Var, operands: usize) -> SmallVec<[Var; 4]> {
    // What was not saved is not read by any gradient that is used; something has to stand in its place.
    let nothing = || Var::constant(Tensor::zeros_with((), g.dtype()));
    let mut reads: SmallVec<[Var; 4]> = SmallVec::new();
    reads.push(g.clone());
    reads.extend((0..operands).map(|k| ctx.saved(RuleSlot::Input(k)).unwrap_or_else(nothing)));
    reads
}

/// The gradient of the formula's result before it was reduced: expanded, which takes no memory.
fn spread(g: Var, reduced: Option<&(ReducedShapes, bool)>, n: Lead) -> Result<Var> {
    let Some((reduction, mean)) = reduced else { return Ok(g) };
    let g = unreduced(&g, reduction, n)?.expand(n.shape(&reduction.full))?;
    // Expanded before it is divided: nothing is divided by zero when there are no elements.
    if *mean { g.div(reduction.count as f64) } else { Ok(g) }
}
