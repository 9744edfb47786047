//! The backward step of a fused operation: by duals over blocks, or by recorded duals for higher orders.

use std::borrow::Cow;
use std::ops::Range;

use foldback_tensor::kernel::{self, BlockKernel, CallSet, KnownInputs, ReducedShapes, Target};
use foldback_tensor::{GRAIN, Shape, Tensor};
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
    let (mut slopes, mut known) = (used, KnownInputs::default());
    if saved_results == CallSet::NONE {
        put_aside_unread(&mut reads, slopes.len(), of_wanted(&slopes, &inputs));
    } else {
        slopes = formula.names_knowing().1;
        let (mut names, calls) = (of_wanted(&slopes, &inputs), formula.names_of_calls());
        // If all is known that is read, the others are not computed: their rows are not read either.
        let computes = (0..calls.len()).any(|nr| names.has_result(nr) && !saved_results.has(nr));
        if computes {
            slopes.iter_mut().flatten().for_each(|slope| *slope = slope.through(saved_results, &calls));
            names = of_wanted(&slopes, &inputs);
        }
        put_aside_unread(&mut reads, slopes.len(), names);
        let is_given = |nr: &usize| !computes || saved_results.has(*nr);
        let results = (0..calls.len()).filter(is_given).map(|nr| (nr, result(nr).unwrap_or(other)));
        known = place_results(&mut reads, (1, g.numel()), names, &calls, results);
    }
    let with_kernel =
        |inputs: &[usize], take: &mut dyn FnMut(&dyn BlockKernel) -> Result<()>| match saved_results
            == CallSet::NONE
        {
            true => formula.with_kernel(inputs, take),
            false => take(&*formula.knowing(inputs, known)),
        };
    if inputs.len() > 1 && APART.contains(&g.numel()) && g.strides().contains(&0) {
        for k in take_apart(&slopes, &known, &mut inputs, &reads, ctx) {
            let own = only_read(slopes[k], &known, &reads);
            with_kernel(&[k], &mut |kernel| take(Flow::to(k, Work::Kernel(kernel, &own))))?;
        }
    }
    if inputs.is_empty() {
        return Ok(());
    }
    with_kernel(&inputs, &mut |kernel| {
        let to = inputs.iter().copied().collect();
        take(Flow { to, work: Work::Kernel(kernel, &reads) })
    })
}

/// Of how many elements another kernel is worth it: products of 10,000 with a row, their sum and back take 0.9 of the time, of 30,000 0.8; of
/// 1,000 and of 100,000 in rows of 100 they would take 1.1.
const APART: Range<usize> = 4096..GRAIN;

/// Takes out the gradients to be described by themselves: those that read nothing of the shape of `g`, which is the same along an axis, and are
/// not folded. Of a sum of `x * w` with a row, that of `x` is a row, which stays compressed.
#[inline(never)]
fn take_apart(
    slopes: &[Option<Names>],
    known: &KnownInputs,
    inputs: &mut SmallVec<[usize; 2]>,
    reads: &KernelReads<'_>,
    ctx: &Context<'_>,
) -> SmallVec<[usize; 2]> {
    let (g, edges) = (reads[0], &ctx.node.next_edges);
    let leads_to = |k: usize| edges[k].as_ref().map(|edge| (edge.node.sequence, edge.nr));
    // Of one variable, gradients are added in the order of the inputs.
    let are_others = |(at, k): (usize, &usize)| inputs[..at].iter().all(|&o| leads_to(o) != leads_to(*k));
    if !inputs.iter().enumerate().all(are_others) {
        return SmallVec::new();
    }
    let is_apart = |k: usize| {
        ctx.node.input_shape(k) == Some(g.shape())
            && only_read(slopes[k], known, reads).iter().all(|&t| std::ptr::eq(t, g) || t.numel() < g.numel())
    };
    let (apart, others): (SmallVec<[usize; 2]>, SmallVec<[usize; 2]>) =
        inputs.iter().copied().partition(|&k| is_apart(k));
    if others.len() > 1 {
        return SmallVec::new();
    }
    *inputs = others;
    apart
}

/// What a gradient reads, with the incoming one in all other places.
fn only_read<'a>(slope: Option<Names>, known: &KnownInputs, reads: &KernelReads<'a>) -> KernelReads<'a> {
    let names = slope.unwrap_or(Names::NONE);
    // In the place of an operand that is not read, a result may stand.
    let is_read = |place: usize| match known.at(place) {
        Some(nr) => names.has_result(nr),
        None => names.has(place),
    };
    reads
        .iter()
        .enumerate()
        .map(|(place, &t)| if place > 0 && is_read(place) { t } else { reads[0] })
        .collect()
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use foldback_tensor::kernel::{self, GradientKernel, Target};
    use foldback_tensor::{Shape, Tensor};
    use smallvec::smallvec;

    use crate::{Fused, RequiresGrad, Var};

    /// The strides of the gradient of `x` where it arrives, and both gradients, of a sum of products; `[x, w]` are tracked.
    fn gradients([x, w]: [&Tensor; 2]) -> (Vec<isize>, [Tensor; 2]) {
        let [x, w]: [Var; 2] = [x, w].map(|t| t.clone().requires_grad());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let to = seen.clone();
        x.register_hook(move |g| *to.lock().unwrap() = g.value().strides().to_vec()).unwrap();
        let product: Fused<_, 2> = crate::fuse!(|x, w| x * w);
        product.mean((&x, &w), ..).unwrap().backward().unwrap();
        let strides = seen.lock().unwrap().clone();
        (strides, [&x, &w].map(|v| v.grad().unwrap()))
    }

    /// What reads nothing but a row, a column or a number stays one, and the bits are those of all gradients together.
    #[test]
    fn gradients_that_read_little_are_described_by_themselves() {
        let cases: [(&[usize], &[usize], &[isize]); 6] = [
            (&[60, 100], &[100], &[0, 1]),
            (&[60, 100], &[60, 1], &[1, 0]),
            (&[10, 60, 10], &[60, 1], &[0, 1, 0]),
            // All is read, too little, too much.
            (&[60, 100], &[60, 100], &[100, 1]),
            (&[6, 100], &[100], &[100, 1]),
            (&[600, 100], &[100], &[100, 1]),
        ];
        for (full, own, strides) in cases {
            let (x, w) = (Tensor::randn(full), Tensor::randn(own));
            let (found, gradients) = gradients([&x, &w]);
            assert_eq!(found, strides, "{full:?} {own:?}");
            let n = x.numel() as f64;
            let g = Tensor::ones(()).div(n).unwrap().expand(full).unwrap();
            let shapes = [full, own].map(Shape::from);
            let both = GradientKernel::new(Product, &[0, 1]);
            let targets = smallvec![Target::of(&shapes[0]), Target::of(&shapes[1])];
            let jointly = kernel::fold_jointly("test", &both, &[&g, &x, &w], targets).unwrap();
            assert!(jointly.iter().eq(&gradients), "{full:?} {own:?}");
        }
    }

    #[derive(Clone, Copy)]
    struct Product;
    impl kernel::Formula<2> for Product {
        #[inline(always)]
        fn eval<R: kernel::Real>(&self, [x, w]: [R; 2]) -> R
        where
            f64: kernel::FloatOps<R>,
        {
            x * w
        }
    }

    /// Gradients of one variable are added in the order of its places.
    #[test]
    fn one_variable_has_its_gradients_in_order() {
        let (x, row) = (Tensor::randn([60, 100]).requires_grad(), Tensor::randn(100));
        let y = crate::fuse!(|a, b, c, r| a * b * r + c * r).sum((&x, &x, &x, &row), ..).unwrap();
        y.backward().unwrap();
        let r = row.expand([60, 100]).unwrap();
        let value = x.value();
        let product = value.mul(&r).unwrap();
        let expected = product.add(&product).unwrap().add(&r).unwrap();
        assert_eq!(x.grad().unwrap(), expected);
    }
}
