//! The backward step of a fused operation: by duals over blocks, or by recorded duals for higher orders.

use std::borrow::Cow;

use foldback_tensor::kernel::{self, BlockKernel, CallSet, KnownInputs, ReducedShapes, Target};
use foldback_tensor::{Shape, Tensor};
use smallvec::{SmallVec, smallvec};

use super::Reduction;
use super::derived::{Derived, record};
use super::names::Names;
use super::results::{KernelReads, place_results};
use crate::error::Result;
use crate::lead::Lead;
use crate::node::{Arrival, Context, Describe, Flow, Mood, Node, Take, Var, Way, Work};
use crate::rule::RuleSlot;
use crate::table::unreduced;

/// A fused operation as its node remembers it.
pub(super) struct FusedBackward<D> {
    pub(super) formula: D,
    pub(super) reduced: Reduction,
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

    fn owns_nodes(&self) -> bool {
        false
    }

    fn arrival(&self, node: &Node, _input: usize) -> Arrival {
        let full = self.saved_like().unwrap_or(&node.metadata[0].shape);
        Arrival { shape: full.clone(), way: Way::Straight }
    }

    fn saved_like(&self) -> Option<&Shape> {
        Some(&self.reduced.as_ref()?.0.full)
    }
}

/// The gradients of all operands that are asked for, in one read of what they share.
fn describe(
    formula: &dyn Derived,
    reduced: Option<&(ReducedShapes, bool)>,
    ctx: &Context<'_>,
    take: &mut Take<'_>,
) -> Result<()> {
    let used = formula.names();
    let mut inputs: SmallVec<[usize; 2]> = SmallVec::new();
    (0..used.len()).filter(|&k| ctx.needs(k) && used[k].is_some()).for_each(|k| inputs.push(k));
    if inputs.is_empty() {
        return Ok(());
    }
    if ctx.tangents.is_some() {
        return inputs.into_iter().try_for_each(|k| push(formula, reduced, ctx, take, k));
    }
    let mut g = ctx.read(RuleSlot::Grad(0));
    if let Some(reduced) = reduced {
        g = Cow::Owned(spread(&g, reduced, ctx.lead)?);
    }
    if ctx.mood == Mood::Recorded {
        let reads = reads(ctx, &g, used.len());
        return take(Flow { to: inputs, work: Work::Pointwise(formula, &reads) });
    }
    let g = &*g.value_ref();
    let saved = |k: usize| ctx.values.get(RuleSlot::Input(k));
    // What was not saved is not read by any gradient that is used; what lies well stands in its place.
    let other = (0..used.len()).filter_map(saved).find(|t| t.shape() == g.shape()).unwrap_or(g);
    let mut reads: KernelReads<'_> = smallvec![g];
    (0..used.len()).for_each(|k| reads.push(saved(k).unwrap_or(other)));
    let result = |nr: usize| ctx.values.get(result_slot(nr));
    let saved_results: CallSet = (0..formula.calls()).filter(|&nr| result(nr).is_some()).collect();
    let mut known = KnownInputs::default();
    if saved_results == CallSet::NONE {
        put_aside_unread(&mut reads, used.len(), of_wanted(&used, &inputs));
    } else {
        let (mut names, calls) = (of_wanted(&formula.names_knowing().1, &inputs), formula.names_of_calls());
        // If all is known that is read, the others are not computed: their rows are not read either.
        let computes = (0..calls.len()).any(|nr| names.has_result(nr) && !saved_results.has(nr));
        if computes {
            names = names.through(saved_results, &calls);
        }
        put_aside_unread(&mut reads, used.len(), names);
        let is_given = |nr: &usize| !computes || saved_results.has(*nr);
        let results = (0..calls.len()).filter(is_given).map(|nr| (nr, result(nr).unwrap_or(other)));
        known = place_results(&mut reads, (1, g.numel()), names, &calls, results);
    }
    let mut take = |kernel: &dyn BlockKernel| {
        let to = inputs.iter().copied().collect();
        take(Flow { to, work: Work::Kernel(kernel, &reads) })
    };
    match saved_results == CallSet::NONE {
        true => formula.with_kernel(&inputs, &mut take),
        false => take(&*formula.knowing(&inputs, known)),
    }
}

/// What the gradients of some operands are made of.
fn of_wanted(slopes: &[Option<Names>], inputs: &[usize]) -> Names {
    inputs.iter().filter_map(|&k| slopes[k]).fold(Names::NONE, Names::and_of)
}

/// Puts what lies well in the place of operands that lie otherwise and that no gradient reads, so that they are not laid out, as the
/// strided operand of `tanh(x)`, whose result is known. The order of sums stays that of the shape.
fn put_aside_unread(reads: &mut [&Tensor], operands: usize, names: Names) {
    let full = reads[0].shape();
    let lies_well = |t: &&Tensor| t.shape() == full && t.is_contiguous();
    if reads[1..].iter().all(lies_well) {
        return;
    }
    let in_order = reads.iter().filter(|t| t.shape() == full).find_map(|t| kernel::lies_in_order(t));
    if in_order == Some(true)
        && let Some(good) = reads.iter().copied().find(lies_well)
    {
        (1..=operands).filter(|&place| !names.has(place)).for_each(|place| reads[place] = good);
    }
}

/// Where what function `nr` of the formula gives is saved, behind the output. See Note [Saved results].
fn result_slot(nr: usize) -> RuleSlot {
    RuleSlot::Output(1 + nr)
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
    let reads = reads(ctx, &tangent, ctx.inputs());
    let evaluate = |mood| {
        let sum = match mood {
            Mood::Now => {
                let values: SmallVec<[Tensor; 4]> = reads.iter().map(Var::value).collect();
                let values: SmallVec<[&Tensor; 4]> = values.iter().collect();
                let target = Target { dtype: Some(output.dtype), ..Target::of(&kept) };
                let mut sum = None;
                formula.with_kernel(&[k], &mut |kernel| {
                    sum = Some(kernel::fold_to(ctx.node.name(), kernel, &values, target.clone())?);
                    Ok(())
                })?;
                Var::constant(sum.expect("a kernel was handed out"))
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
fn reads(ctx: &Context<'_>, g: &Var, operands: usize) -> SmallVec<[Var; 4]> {
    // What was not saved is not read by any gradient that is used; something has to stand in its place.
    let nothing = || Var::constant(Tensor::zeros_with((), g.dtype()));
    let mut reads: SmallVec<[Var; 4]> = SmallVec::new();
    reads.push(g.clone());
    reads.extend((0..operands).map(|k| ctx.saved(RuleSlot::Input(k)).unwrap_or_else(nothing)));
    reads
}

/// The gradient of the formula's result before it was reduced: expanded, which takes no memory.
fn spread(g: &Var, (reduction, mean): &(ReducedShapes, bool), n: Lead) -> Result<Var> {
    let g = unreduced(g, reduction, n)?.expand(n.shape(&reduction.full))?;
    // Expanded before it is divided: nothing is divided by zero when there are no elements.
    if *mean { g.div(reduction.count as f64) } else { Ok(g) }
}
