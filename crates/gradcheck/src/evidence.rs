//! What is known of a gradient that is wrong: every slope of the function, and the gradients for some seeds.

use foldback_tensor::Tensor;

use crate::compare::Problem;
use crate::error::Result;
use crate::random::Random;
use crate::target::{gradients, noise, numbers};

/// Functions of more elements are not looked at slope by slope.
const ELEMENTS: usize = 512;
const SLOPES: usize = 1 << 18;

/// A column per element of an argument: what each output changes by.
pub(crate) type Columns = Vec<Vec<f64>>;

/// All slopes of a function, and its gradients for some seeds.
pub(crate) struct Evidence<'a> {
    pub(crate) problem: &'a Problem<'a>,
    pub(crate) jacobian: Vec<Columns>,
    /// elements at a kink, of which nothing is known
    pub(crate) rough: Vec<Vec<bool>>,
    pub(crate) trials: Vec<Trial>,
}

/// What a seed gives, per argument.
pub(crate) struct Trial {
    pub(crate) seeds: Vec<Tensor>,
    pub(crate) weights: Vec<f64>,
    pub(crate) gradients: Vec<Vec<f64>>,
    pub(crate) truth: Vec<Vec<f64>>,
}

/// Gradients by slopes.
pub(crate) fn pull(columns: &Columns, weights: &[f64]) -> Vec<f64> {
    columns.iter().map(|c| c.iter().zip(weights).map(|(s, w)| s * w).sum()).collect()
}

pub(crate) fn flat(weights: &[Tensor]) -> Result<Vec<f64>> {
    Ok(weights.iter().map(numbers).collect::<Result<Vec<_>>>()?.concat())
}

impl<'a> Evidence<'a> {
    /// Computes every slope, and the gradients for a seed and for two others; none for a function of too many elements.
    pub(crate) fn gather(
        problem: &'a Problem<'a>,
        weights: &[Tensor],
        random: &mut Random,
    ) -> Result<Option<Evidence<'a>>> {
        let elements: usize = problem.start.iter().map(Vec::len).sum();
        if elements > ELEMENTS || elements * problem.here.len() > SLOPES {
            return Ok(None);
        }
        let (mut jacobian, mut rough) = (Vec::new(), Vec::new());
        for k in 0..problem.start.len() {
            let (columns, kinks) = columns(problem, k)?;
            jacobian.push(columns);
            rough.push(kinks);
        }
        let mut evidence = Evidence { problem, jacobian, rough, trials: Vec::new() };
        evidence.trials.push(evidence.trial(weights)?);
        for _ in 0..2 {
            let other: Vec<Tensor> =
                weights.iter().map(|w| noise(w.shape(), random)).collect::<Result<_>>()?;
            evidence.trials.push(evidence.trial(&other)?);
        }
        Ok(Some(evidence))
    }

    pub(crate) fn trial(&self, seeds: &[Tensor]) -> Result<Trial> {
        let points: Vec<Tensor> = self.problem.arguments.iter().map(|(_, t)| t.clone()).collect();
        let found = gradients(self.problem.target, &points, seeds)?;
        let weights = flat(seeds)?;
        let gradients = found.iter().map(numbers).collect::<Result<_>>()?;
        let truth = self.jacobian.iter().map(|columns| pull(columns, &weights)).collect();
        Ok(Trial { seeds: seeds.to_vec(), weights, gradients, truth })
    }

    pub(crate) fn dims(&self, k: usize) -> &[usize] {
        self.problem.arguments[k].1.dims()
    }

    /// How far a gradient may be from the truth; it is as in [`Problem::solve`].
    pub(crate) fn tolerance(&self, trial: &Trial, k: usize, e: usize) -> f64 {
        let values = self.jacobian[k][e].iter().zip(&self.problem.here).zip(&trial.weights);
        let size: f64 = values.map(|((s, y), w)| if *s == 0.0 { 0.0 } else { (w * y).abs() }).sum();
        let x = self.problem.start[k][e].abs().max(1.0);
        self.problem.precision.tolerance * (1.0 + size + (trial.gradients[k][e] * x).abs()) / x
    }

    /// How wrong an element is in a trial, in units of its tolerance.
    pub(crate) fn excess(&self, trial: &Trial, k: usize, e: usize) -> f64 {
        let excess = (trial.gradients[k][e] - trial.truth[k][e]).abs() / self.tolerance(trial, k, e);
        if excess.is_nan() { f64::INFINITY } else { excess }
    }

    /// The elements of an argument that are wrong for some seed.
    pub(crate) fn wrong(&self, k: usize) -> Vec<usize> {
        // At a kink no gradient is wrong, except one that is no number.
        let is_wrong = |&e: &usize| {
            let excess = |trial| !self.rough[k][e] && self.excess(trial, k, e) > 1.0;
            self.trials.iter().any(|trial| excess(trial) || !trial.gradients[k][e].is_finite())
        };
        (0..self.jacobian[k].len()).filter(is_wrong).collect()
    }

    /// Those that are right and not zero in any case.
    pub(crate) fn right(&self, k: usize, wrong: &[usize]) -> Vec<usize> {
        let counts = |e: &usize| {
            !wrong.contains(e) && !self.rough[k][*e] && self.trials.iter().any(|t| t.truth[k][*e] != 0.0)
        };
        (0..self.jacobian[k].len()).filter(counts).collect()
    }

    /// Whether gradients are what is expected, at these elements for every seed.
    pub(crate) fn holds(
        &self,
        k: usize,
        at: &[usize],
        expected: impl Fn(&Trial) -> Option<Vec<f64>>,
    ) -> bool {
        self.trials.iter().all(|trial| {
            let Some(expected) = expected(trial) else { return false };
            let found = &trial.gradients[k];
            let scale = found.iter().chain(&trial.truth[k]).fold(0.0f64, |m, v| m.max(v.abs()));
            at.iter().all(|&e| expected.get(e).is_some_and(|x| (found[e] - x).abs() <= 1e-5 * scale))
        })
    }
}

/// The slopes by an argument, and at which elements there are kinks.
pub(crate) fn columns(problem: &Problem<'_>, k: usize) -> Result<(Columns, Vec<bool>)> {
    let (mut columns, mut kinks) = (Vec::new(), Vec::new());
    for (e, x) in problem.start[k].iter().enumerate() {
        let mut direction = problem.still();
        direction[k][e] = 1.0;
        let sides = problem.sides(&direction, problem.precision.step)?;
        columns.push(sides.slopes().map(|slope| slope / x.abs().max(1.0)).collect());
        kinks.push(problem.is_rough(&sides, &direction)?);
    }
    Ok((columns, kinks))
}
