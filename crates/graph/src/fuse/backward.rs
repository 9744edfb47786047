//! The gradients of a fused operation: by duals over blocks, or by recorded duals for higher orders.

use std::array;

use foldback_tensor::kernel::{self, Dual, Formula, GradientKernel, Reduction};
use foldback_tensor::{DType, Shape, Tensor};
use smallvec::SmallVec;

use super::names::Names;
use crate::error::Result;
use crate::gradient::{Context, Flow};
use crate::mode::is_grad_enabled;
use crate::table::Slot;
use crate::traced::{Traced, trace_many};
use crate::var::Var;

/// A fused operation as its node remembers it.
pub(super) struct Backward<F, const N: usize> {
    pub(super) name: &'static str,
    pub(super) formula: F,
    /// what the result was reduced to, and whether its mean was taken
    pub(super) reduced: Option<(Reduction, bool)>,
    /// the saved operands, a bit each
    pub(super) saved: u8,
}

/// What the gradient of each operand is made of: bit 0 is the incoming gradient, bit `k + 1` operand `k`. None for an
/// operand that the formula does not use.
pub(super) fn made_of<F: Formula<N>, const N: usize>(formula: &F) -> [Option<Names>; N] {
    let operand = |k: usize| Dual::<Names, N>::seeded(Names::operand(k + 1), along(k, Names::operand(0)));
    formula.eval(array::from_fn(operand)).slopes
}

/// A slope along one direction only.
fn along<R: Copy, const N: usize>(direction: usize, slope: R) -> [Option<R>; N] {
    array::from_fn(|k| if k == direction { Some(slope) } else { None })
}

impl<F: Formula<N> + 'static, const N: usize> Backward<F, N> {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<SmallVec<[Option<Flow>; 2]>> {
        let mut flows: SmallVec<[Option<Flow>; 2]> = (0..N).map(|_| None).collect();
        let used = made_of::<F, N>(&self.formula);
        let wanted: SmallVec<[usize; 4]> = (0..N).filter(|&k| ctx.needs(k) && used[k].is_some()).collect();
        if wanted.is_empty() {
            return Ok(flows);
        }
        let g = self.unreduced(ctx.value(Slot::Grad))?;
        let saved = |k: usize| (self.saved & (1 << k) != 0).then(|| ctx.value(Slot::Input(k as u8)));
        let operands: [Option<Var>; N] = array::from_fn(saved);
        let gradients = if is_grad_enabled() {
            self.record(&g, operands, &wanted)?
        } else {
            let metadata = |k: usize| ctx.node.next_edges[k].as_ref().map(|e| &e.node.metadata[e.nr as usize]);
            let shapes = wanted.iter().filter_map(|&k| metadata(k)).map(|m| &m.shape).collect();
            self.evaluate(&g.value_ref(), operands, &wanted, shapes)?.into_iter().map(Var::constant).collect()
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

    /// The gradients as values, each straight in the shape of its input.
    fn evaluate(
        &self,
        g: &Tensor,
        operands: [Option<Var>; N],
        wanted: &[usize],
        shapes: SmallVec<[&Shape; 4]>,
    ) -> Result<SmallVec<[Tensor; 4]>> {
        // What was not saved is not read by any gradient that is used; something has to stand in its place.
        let nothing = operands.iter().any(Option::is_none).then(|| Tensor::zeros((), g.dtype()));
        let value = |v: &Option<Var>| match v {
            Some(v) => v.value(),
            None => nothing.clone().expect("made where an operand is missing"),
        };
        let values = operands.each_ref().map(value);
        let read: SmallVec<[&Tensor; 8]> = std::iter::once(g).chain(&values).collect();
        Ok(fold_each(self.name, self.formula, wanted, &read, &shapes)?)
    }

    /// The gradients as recorded values.
    fn record(&self, g: &Var, operands: [Option<Var>; N], wanted: &[usize]) -> Result<SmallVec<[Var; 4]>> {
        // As in the kernel, everything is computed in the operation's type.
        let dtype = g.dtype();
        let nothing = Var::constant(Tensor::zeros((), dtype));
        let cast = |v: Option<Var>| v.map_or_else(|| nothing.clone(), |v| to_dtype(v, dtype));
        let operands = operands.map(cast);
        let read: SmallVec<[&Var; 8]> = std::iter::once(g).chain(&operands).collect();
        let slopes: [Var; N] = trace_many(&read, |handles| {
            let operand = |k: usize| {
                let seed = if wanted.contains(&k) { along(k, handles[0]) } else { [None; N] };
                Dual::<Traced, N>::seeded(handles[k + 1], seed)
            };
            // In the place of a gradient that nobody wants, one that costs nothing.
            self.formula.eval(array::from_fn(operand)).slopes.map(|s| s.unwrap_or(handles[0]))
        })?;
        let full = g.shape();
        // A slope of zero may have forgotten its shape.
        let whole = |&k: &usize| {
            let slope = &slopes[k];
            if slope.shape() == full { Ok(slope.clone()) } else { slope.expand(&full) }
        };
        wanted.iter().map(whole).collect()
    }
}

fn to_dtype(v: Var, dtype: DType) -> Var {
    if v.dtype() == dtype { v } else { v.to_dtype(dtype) }
}

/// All wanted gradients of a formula over `[g, x0, x1, ...]`, each folded to the shape of its input.
fn fold_each<F: Formula<N>, const N: usize>(
    name: &'static str,
    formula: F,
    wanted: &[usize],
    operands: &[&Tensor],
    shapes: &[&Shape],
) -> foldback_tensor::Result<SmallVec<[Tensor; 4]>> {
    let one = |(&input, shape): (&usize, &&Shape)| {
        let kernel = GradientKernel::new(formula, &[input]);
        kernel::fold_to(name, &kernel, operands, shape, None)
    };
    wanted.iter().zip(shapes).map(one).collect()
}
