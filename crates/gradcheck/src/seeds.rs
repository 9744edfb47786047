//! A check as it runs: seed after seed, and at other values where there are kinks.

use foldback_tensor::{DType, Shape, Tensor, refuse};

use crate::compare::{Precision, Problem};
use crate::error::{Argument, GradcheckFacts, Order, Result};
use crate::evidence::flat;
use crate::explain::judge;
use crate::modes::Modes;
use crate::random::Random;
use crate::target::{
    First, Second, Subject, expect_dtype, expect_shape, from_numbers, gradients, noise, numbers,
};

/// How often other values are tried.
const TRIES: usize = 8;

/// What is to be tried.
pub(crate) struct CheckPlan<'a> {
    pub(crate) precision: Precision,
    /// how many random seeds
    pub(crate) seeds: usize,
    /// and which others, for the first output
    pub(crate) given: &'a [Tensor],
    pub(crate) resample: bool,
    pub(crate) modes: Modes,
}

impl CheckPlan<'_> {
    /// Checks a function, at other values than its own if there is a kink and that is wished.
    pub(crate) fn check(&self, order: Order, subject: &mut Subject<'_>) -> Result<()> {
        let mut random = Random::new(match order {
            Order::First => 1,
            Order::Second => 2,
        });
        let mut tries = if self.resample { TRIES } else { 0 };
        loop {
            match self.at_point(order, subject, &mut random)? {
                None => return Ok(()),
                Some(GradcheckFacts::Kink { .. }) if tries > 0 => {
                    tries -= 1;
                    for &i in &subject.tracked {
                        subject.tensors[i] = nearby(&subject.tensors[i], &mut random)?;
                    }
                }
                Some(facts) => return refuse(facts),
            }
        }
    }

    /// What is wrong, or nothing.
    fn at_point(
        &self,
        order: Order,
        subject: &Subject<'_>,
        random: &mut Random,
    ) -> Result<Option<GradcheckFacts>> {
        let outputs = subject.outputs()?;
        let shapes: Vec<Shape> = outputs.iter().map(|(shape, _)| shape.clone()).collect();
        let first = First { subject, creates_graph: order == Order::Second };
        let problem = Problem::new(&first, shapes.clone(), self.precision)?;
        for which in 0..self.given.len() + self.seeds {
            let seed = |(shape, dtype): &(Shape, DType)| Ok(noise(shape, random)?.to(*dtype));
            let mut seeds = outputs.iter().map(seed).collect::<Result<Vec<Tensor>>>()?;
            if let (Some(given), Some(seed)) = (self.given.get(which), seeds.first_mut()) {
                expect_dtype(Argument::Seed, seed.dtype(), given.dtype())?;
                expect_shape(Argument::Seed, seed.shape(), given.shape())?;
                *seed = given.clone();
            }
            let mut found = self.solve(&problem, &seeds, random)?;
            if found.is_none() && order == Order::Second {
                let second = Second { subject, seeds: &seeds };
                let like = subject.points();
                let shapes = like.iter().map(|t| t.shape().clone()).collect();
                let problem = Problem::new(&second, shapes, self.precision)?;
                let weights = like.iter().map(|t| noise(t.shape(), random)).collect::<Result<Vec<_>>>()?;
                found = self.solve(&problem, &weights, random)?;
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn solve(
        &self,
        problem: &Problem<'_>,
        weights: &[Tensor],
        random: &mut Random,
    ) -> Result<Option<GradcheckFacts>> {
        let points: Vec<Tensor> = problem.target.arguments().into_iter().map(|(_, t)| t).collect();
        let found = gradients(problem.target, &points, weights)?;
        let found = found.iter().map(numbers).collect::<Result<Vec<_>>>()?;
        let findings = problem.solve(&flat(weights)?, &found, random)?;
        let wrong = judge(problem, weights, &findings, random)?;
        if wrong.is_some() { Ok(wrong) } else { self.modes.compare(problem, weights, &found, random) }
    }
}

/// Other values of the same signs, none of them close to zero.
fn nearby(t: &Tensor, random: &mut Random) -> Result<Tensor> {
    let mut other = |x: f64| match x.abs() {
        size if size >= 0.02 => x * (1.0 + random.signed(0.02, 0.1)),
        size if size > 0.0 => random.uniform(0.02, 0.1).copysign(x),
        _ => random.signed(0.02, 0.1),
    };
    from_numbers(numbers(t)?.into_iter().map(&mut other).collect(), t.shape())
}
