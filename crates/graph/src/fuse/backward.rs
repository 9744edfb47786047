//! The backward step of a fused operation: by duals over blocks, or by recorded duals for higher orders.

use std::borrow::Cow;

use foldback_tensor::kernel::{self, BlockKernel, CallSet, ReducedShapes, Target};
use foldback_tensor::{Shape, Tensor};
use smallvec::{SmallVec, smallvec};

use super::Reduction;
use super::derived::{Derived, record};
use super::names::Names;
use super::results::{KernelReads, is_few, place_results};
use crate::error::Result;
use crate::lead::Lead;
use crate::node::{Arrival, Context, Describe, Flow, Mood, Node, Take, Var, Way, Work};
use crate::slot::RuleSlot;
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
    alike(formula, (&used, &mut inputs), ctx, g, take)?;
    if inputs.is_empty() {
        return Ok(());
    }
    let saved = |k: usize| ctx.values.get(RuleSlot::Input(k));
    apart(ctx.node.name(), formula, (&used, &mut inputs), (g, &saved), take)?;
    if inputs.is_empty() {
        return Ok(());
    }
    with_kernel(formula, (&used, &inputs), ctx, g, &mut |kernel, reads| {
        let to = inputs.iter().copied().collect();
        take(Flow { to, work: Work::Kernel(kernel, reads) })
    })
}

/// Takes a kernel and what it reads.
type TakeKernel<'t> = &'t mut dyn FnMut(&dyn BlockKernel, &[&Tensor]) -> Result<()>;

/// The kernel of the gradients of some operands, and what it reads.
fn with_kernel(
    formula: &dyn Derived,
    (used, inputs): (&[Option<Names>], &[usize]),
    ctx: &Context<'_>,
    g: &Tensor,
    take: TakeKernel<'_>,
) -> Result<()> {
    let saved = |k: usize| ctx.values.get(RuleSlot::Input(k));
    // What was not saved is not read by any gradient that is used; what lies well stands in its place.
    let other = (0..used.len()).filter_map(saved).find(|t| t.shape() == g.shape()).unwrap_or(g);
    let mut reads: KernelReads<'_> = smallvec![g];
    (0..used.len()).for_each(|k| reads.push(saved(k).unwrap_or(other)));
    let result = |nr: usize| ctx.values.get(result_slot(nr));
    let saved_results: CallSet = (0..formula.calls()).filter(|&nr| result(nr).is_some()).collect();
    if saved_results == CallSet::NONE {
        put_aside_unread(&mut reads, used.len(), of_wanted(used, inputs));
        return formula.with_kernel(inputs, &mut |kernel| take(kernel, &reads));
    }
    let (mut names, calls) = (of_wanted(&formula.names_knowing().1, inputs), formula.names_of_calls());
    // If all is known that is read, the others are not computed: their rows are not read either.
    let computes = (0..calls.len()).any(|nr| names.has_result(nr) && !saved_results.has(nr));
    if computes {
        names = names.through(saved_results, &calls);
    }
    put_aside_unread(&mut reads, used.len(), names);
    let is_given = |nr: &usize| !computes || saved_results.has(*nr);
    let results = (0..calls.len()).filter(is_given).map(|nr| (nr, result(nr).unwrap_or(other)));
    let known = place_results(&mut reads, (1, g.numel()), names, &calls, results);
    take(&*formula.knowing(inputs, known), &reads)
}

/// The gradients of operands that are the same, as those of what is added: computed once, beside the others. What is left of `inputs` is not done.
/// Of 10,000 to 100,000 elements `tanh(x + b)` with a bias, its sum and back take 0.8 to 0.94 of the time.
fn alike(
    formula: &dyn Derived,
    (slopes, inputs): (&[Option<Names>], &mut SmallVec<[usize; 2]>),
    ctx: &Context<'_>,
    g: &Tensor,
    take: &mut Take<'_>,
) -> Result<()> {
    let rank = g.rank() - ctx.lead.axes();
    let own = |k: usize| ctx.node.input_shape(k).map(|own| ctx.lead.aligned(own, rank));
    let is_whole = |k: usize| own(k).is_some_and(|own| own == *g.shape());
    let all_are_alike = inputs.iter().all(|&k| slopes[k] == slopes[inputs[0]]);
    let gets_incoming = |k: usize| slopes[k] == Some(Names::operand(0)) && (all_are_alike || is_whole(k));
    let mut value = |k: usize, t: &Tensor| take(Flow::to(k, Work::Value(Var::constant(t.clone()))));
    inputs.iter().filter(|&&k| gets_incoming(k)).try_for_each(|&k| value(k, g))?;
    inputs.retain(|k| !gets_incoming(*k));
    let alike = |k: usize| inputs.iter().copied().filter(move |&other| slopes[other] == slopes[k]);
    // The first whole one of those that are alike stands for all.
    let first_of =
        |k: usize| if alike(k).nth(1).is_some() { alike(k).find(|&k| is_whole(k)).unwrap_or(k) } else { k };
    let firsts: SmallVec<[usize; 2]> = inputs.iter().copied().filter(|&k| first_of(k) == k).collect();
    if firsts.len() == inputs.len() {
        return Ok(());
    }
    let shapes: SmallVec<[Shape; 2]> = firsts.iter().filter_map(|&k| own(k)).collect();
    let mut gradients = SmallVec::new();
    with_kernel(formula, (slopes, &firsts), ctx, g, &mut |kernel, reads| {
        let targets = shapes.iter().map(Target::of).collect();
        gradients = kernel::fold_jointly(ctx.node.name(), kernel, reads, targets)?;
        Ok(())
    })?;
    let gradient = |k: usize| firsts.iter().position(|&first| first == first_of(k)).map(|at| &gradients[at]);
    inputs.iter().try_for_each(|&k| gradient(k).map_or(Ok(()), |t| value(k, t)))?;
    inputs.clear();
    Ok(())
}

/// The gradients that read few elements for those of the result, as that of `x` of `(x * w).sum()` for a column `w`: computed as by operators, once
/// for each of these elements, and expanded. What is left of `inputs` are the others. Such a product of 30,000 to 100,000 and back takes 0.9 of
/// the time, with factors along a middle axis and back to `x` alone 0.5 to 0.75.
fn apart<'a>(
    name: &'static str,
    formula: &dyn Derived,
    (slopes, inputs): (&[Option<Names>], &mut SmallVec<[usize; 2]>),
    (g, saved): (&'a Tensor, &dyn Fn(usize) -> Option<&'a Tensor>),
    take: &mut Take<'_>,
) -> Result<()> {
    /// Elements from which on another computation is worth it: of 10,000 it takes 0.9 to 1.2 of the time.
    const LEAST: usize = 1 << 14;
    let (full, n) = (g.shape(), g.numel());
    if n < LEAST || !is_few(moving(&[g], full).numel(), n) {
        return Ok(());
    }
    let reads_of = |names: Names| -> KernelReads<'a> {
        let read = |k: usize| saved(k).filter(|_| names.has(k + 1)).unwrap_or(g);
        std::iter::once(g).chain((0..slopes.len()).map(read)).collect()
    };
    let (mut few, mut names) = (SmallVec::<[usize; 2]>::new(), Names::NONE);
    for &k in &*inputs {
        let both = slopes[k].map_or(names, |slope| names.and_of(slope));
        if is_few(moving(&reads_of(both), full).numel(), n) {
            (names, _) = (both, few.push(k));
        }
    }
    if few.is_empty() {
        return Ok(());
    }
    inputs.retain(|k| !few.contains(k));
    let reads = reads_of(names);
    let shape = moving(&reads, full);
    let own = |t: &&Tensor| once(t, &shape);
    let own: SmallVec<[Tensor; 4]> = reads.iter().map(own).collect::<Result<_>>()?;
    let own: KernelReads<'_> = own.iter().collect();
    let mut gradients = SmallVec::new();
    formula.with_kernel(&few, &mut |kernel| {
        let targets = few.iter().map(|_| Target::of(&shape)).collect();
        gradients = kernel::fold_jointly(name, kernel, &own, targets)?;
        Ok(())
    })?;
    few.into_iter().zip(gradients).try_for_each(|(k, gradient)| {
        let gradient = Var::constant(gradient.expand(full)?);
        take(Flow::to(k, Work::Value(gradient)))
    })
}

/// A shape with the axes along which something moves that is read, and others of size 1.
fn moving(reads: &[&Tensor], full: &Shape) -> Shape {
    let moves = |axis: usize, t: &Tensor| {
        let own = (axis + t.rank()).checked_sub(full.rank());
        own.is_some_and(|own| t.dims()[own] != 1 && t.strides()[own] != 0)
    };
    let size = |(axis, &size): (usize, &usize)| if reads.iter().any(|t| moves(axis, t)) { size } else { 1 };
    full.iter().enumerate().map(size).collect::<SmallVec<[usize; 6]>>()[..].into()
}

/// A tensor without what repeats along the axes of size 1.
fn once(t: &Tensor, shape: &Shape) -> Result<Tensor> {
    let mut own = t.clone();
    for axis in 0..t.rank() {
        if shape[axis + shape.rank() - t.rank()] == 1 && t.dims()[axis] != 1 {
            own = own.narrow(axis, 0, 1)?;
        }
    }
    Ok(own)
}

/// What the gradients of some operands are made of.
fn of_wanted(slopes: &[Option<Names>], inputs: &[usize]) -> Names {
    inputs.iter().filter_map(|&k| slopes[k]).fold(Names::NONE, Names::and_of)
}

/// Puts the incoming gradient, if it is one number, or what lies well in the place of operands that no gradient reads, so that they are not laid
/// out, as the strided operand of `tanh(x)`, whose result is known. The order of sums stays that of the shape. The gradient of `w` alone of
/// `(x * w).sum()` for factors `w` along a middle axis takes 0.8 of the time.
fn put_aside_unread(reads: &mut KernelReads<'_>, operands: usize, names: Names) {
    let unread = || (1..=operands).filter(|&place| !names.has(place));
    if unread().next().is_none() {
        return;
    }
    let full = reads[0].shape();
    let is_in_order =
        |reads: &[&Tensor]| reads.iter().any(|t| t.shape() == full && kernel::lies_in_order(t) == Some(true));
    let lies_well = |t: &&Tensor| t.shape() == full && t.is_contiguous();
    if reads[1..].iter().all(lies_well) || !is_in_order(reads) {
        return;
    }
    if moving(&reads[..1], full).numel() == 1 {
        let mut others = reads.clone();
        unread().for_each(|place| others[place] = reads[0]);
        if is_in_order(&others) {
            *reads = others;
            return;
        }
    }
    if let Some(good) = reads.iter().copied().find(lies_well) {
        unread().for_each(|place| reads[place] = good);
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
