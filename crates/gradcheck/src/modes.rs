//! Other ways to compute derivatives, against backward passes: forward mode, and several seeds in one pass.

use foldback_graph::{Grad, Var, jvp};
use foldback_tensor::{Shape, Tensor};

use crate::compare::{Problem, unravel};
use crate::error::{Argument, GradcheckFacts, Mode, Order, Place, Result};
use crate::evidence::flat;
use crate::random::Random;
use crate::target::{gradients, noise, numbers};

/// Which of them are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modes {
    pub(crate) forward: bool,
    pub(crate) batched: bool,
}

/// Both sides are exact but for rounding. Sums run in other orders; this leaves room for thousands of roundings.
const ROUNDINGS: f64 = 1e4;

impl Modes {
    /// What differs from gradients that were found right, or nothing.
    pub(crate) fn compare(
        self,
        problem: &Problem<'_>,
        weights: &[Tensor],
        found: &[Vec<f64>],
        random: &mut Random,
    ) -> Result<Option<GradcheckFacts>> {
        if self.forward && problem.order() == Order::First {
            let wrong = forward(problem, weights, found, random)?;
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        if self.batched { batched(problem, weights, found, random) } else { Ok(None) }
    }
}

fn rounding(problem: &Problem<'_>) -> f64 {
    ROUNDINGS
        * if problem.target.subject().is_single { f64::from(f32::EPSILON) / 100.0 } else { f64::EPSILON }
}

/// `sum(s * J d)` against `sum(J^T s * d)`.
fn forward(
    problem: &Problem<'_>,
    weights: &[Tensor],
    found: &[Vec<f64>],
    random: &mut Random,
) -> Result<Option<GradcheckFacts>> {
    let subject = problem.target.subject();
    let points = subject.points();
    let directions =
        points.iter().map(|t| Ok(noise(t.shape(), random)?.to(t.dtype()))).collect::<Result<Vec<_>>>()?;
    let f = |x: &[Var]| -> Result<Vec<Var>> {
        let mut vars = subject.constants(false);
        subject.tracked.iter().zip(x).for_each(|(&i, x)| vars[i] = x.clone());
        subject.differentiable((subject.call)(&vars)?, false)
    };
    let (_, tangents) = jvp(f, points, directions.clone())?;
    let (mut pushed, mut size) = (0.0, 1.0);
    for (t, w) in tangents.iter().zip(weights) {
        for (t, w) in numbers(&t.value())?.into_iter().zip(numbers(w)?) {
            pushed += t * w;
            size += (t * w).abs();
        }
    }
    let mut pulled = 0.0;
    for (g, d) in found.iter().flatten().zip(flat(&directions)?) {
        pulled += g * d;
        size += (g * d).abs();
    }
    let tolerance = rounding(problem) * size;
    let (mode, order, place) = (Mode::Forward, Order::First, Place::Direction);
    let argument = if found.len() == 1 { problem.arguments[0].0 } else { Argument::All };
    let wrong =
        GradcheckFacts::Mode { mode, order, argument, place, found: pushed, expected: pulled, tolerance };
    Ok(((pushed - pulled).abs() > tolerance || (pushed - pulled).is_nan()).then_some(wrong))
}

/// One pass with two seeds against a pass for each.
fn batched(
    problem: &Problem<'_>,
    weights: &[Tensor],
    found: &[Vec<f64>],
    random: &mut Random,
) -> Result<Option<GradcheckFacts>> {
    let points: Vec<Tensor> = problem.arguments.iter().map(|(_, t)| t.clone()).collect();
    let other =
        weights.iter().map(|w| Ok(noise(w.shape(), random)?.to(w.dtype()))).collect::<Result<Vec<_>>>()?;
    let alone = gradients(problem.target, &points, &other)?;
    let alone = alone.iter().map(numbers).collect::<Result<Vec<_>>>()?;
    let run = problem.target.run(&points, true)?;
    let both = run.outputs.iter().zip(weights.iter().zip(&other)).filter(|(y, _)| y.requires_grad());
    let (mut roots, mut seeds) = (Vec::new(), Vec::new());
    for (y, (a, b)) in both {
        roots.push(y);
        seeds.push(Var::from(Tensor::stack(&[a, b], 0)?.to(y.dtype())));
    }
    if roots.is_empty() {
        return Ok(None);
    }
    let (seeds, by): (Vec<&Var>, Vec<&Var>) = (seeds.iter().collect(), run.leaves.iter().collect());
    let pass = Grad::new(&roots, &by).seeds(&seeds).is_grads_batched(true).materialize_grads(true);
    for (k, g) in pass.pass()?.into_iter().flatten().enumerate() {
        let (together, shape) = (numbers(&g.value())?, problem.arguments[k].1.shape());
        let expected = found[k].iter().chain(&alone[k]);
        let size = expected.clone().fold(1.0f64, |m, v| m.max(v.abs()));
        let limit = rounding(problem) * size;
        let differs = |(_, (g, e)): &(usize, (&f64, &f64))| (*g - *e).abs() > limit || (*g - *e).is_nan();
        if let Some((at, (&found, &expected))) = together.iter().zip(expected).enumerate().find(differs) {
            return Ok(Some(GradcheckFacts::Mode {
                mode: Mode::Batched,
                order: problem.order(),
                argument: problem.arguments[k].0,
                place: element(at, shape),
                found,
                expected,
                tolerance: limit,
            }));
        }
    }
    Ok(None)
}

/// An element of one of two gradients of a shape.
fn element(at: usize, shape: &Shape) -> Place {
    Place::Element(unravel(at % shape.numel(), shape.dims()))
}
