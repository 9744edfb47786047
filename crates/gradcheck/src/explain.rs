//! From a disagreement to what is reported: whether the function can be checked at all, what is wrong, where, and which
//! operation is.

use foldback_tensor::Tensor;

use crate::bisect::wrong_operation;
use crate::compare::{Finding, Findings, Problem, moved, unravel};
use crate::diagnosis::{Diagnosis, Explanation, Region};
use crate::error::{Argument, GradcheckFacts, Place, Result};
use crate::evidence::{Evidence, flat};
use crate::random::Random;
use crate::region::region;
use crate::target::{gradients, numbers, values};

/// What is to be said of some findings; nothing if there are none.
pub(crate) fn judge(
    problem: &Problem<'_>,
    weights: &[Tensor],
    findings: &Findings,
    random: &mut Random,
) -> Result<Option<GradcheckFacts>> {
    let Some(finding) = findings.verdict() else { return Ok(None) };
    if let Some(diagnosis) = unfit(problem, weights)? {
        return Ok(Some(report(problem, finding.clone(), plain(diagnosis))));
    }
    if let Some((before, after)) = finding.sides {
        let Finding { argument, place, analytical, .. } = finding.clone();
        let (order, step) = (problem.order(), problem.precision.step);
        return Ok(Some(GradcheckFacts::Kink { order, argument, place, step, before, after, analytical }));
    }
    let overflows = !finding.analytical.is_finite() && problem.here.iter().any(|v| !v.is_finite());
    if overflows || !finding.numerical.is_finite() {
        return Ok(Some(report(problem, finding.clone(), plain(Diagnosis::ValueNonFinite))));
    }
    let (finding, mut explanation) = explain(problem, weights, finding.clone(), random)?;
    if explanation.diagnosis != Diagnosis::ValueNonFinite {
        // It is asked for a wrong function, which may fail in ways of its own: the disagreement is what counts then.
        explanation.operation = wrong_operation(problem, weights, &finding).unwrap_or_default();
    }
    Ok(Some(report(problem, finding, explanation)))
}

fn report(problem: &Problem<'_>, finding: Finding, mut explanation: Explanation) -> GradcheckFacts {
    if let Argument::Input(i) = finding.argument {
        explanation.name = problem.target.subject().names.get(i).cloned();
    }
    let Finding { argument, place, analytical, numerical, tolerance, .. } = finding;
    let (order, explanation) = (problem.order(), Box::new(explanation));
    GradcheckFacts::Gradient { order, argument, place, analytical, numerical, tolerance, explanation }
}

fn plain(diagnosis: Diagnosis) -> Explanation {
    Explanation { diagnosis, wrong: 0, of: 0, region: Region::Some, operation: None, name: None }
}

/// Why differences or gradients say nothing, whatever they are.
fn unfit(problem: &Problem<'_>, weights: &[Tensor]) -> Result<Option<Diagnosis>> {
    let shapes: Vec<_> = problem.shapes.iter().collect();
    let same = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
    if !same(&problem.here, &values(problem.target, &problem.start, &shapes)?) {
        return Ok(Some(Diagnosis::NotDeterministic { of_value: true }));
    }
    let points: Vec<Tensor> = problem.arguments.iter().map(|(_, t)| t.clone()).collect();
    let pass = |points: &[Tensor]| flat(&gradients(problem.target, points, weights)?);
    let once = pass(&points)?;
    if !same(&once, &pass(&points)?) {
        return Ok(Some(Diagnosis::NotDeterministic { of_value: false }));
    }
    // Values at odd places have all digits of f64, unless they lost them.
    let odd: Vec<Vec<f64>> = problem.start.iter().map(|x| vec![0.7390851332151607; x.len()]).collect();
    let nearby = values(problem.target, &moved(&problem.start, &odd, problem.precision.step), &shapes)?;
    let changed = |(a, b): &(&f64, &f64)| a != b;
    let mut moved = nearby.iter().zip(&problem.here).filter(changed).map(|(a, _)| *a).peekable();
    if moved.peek().is_some() && are_of_f32(moved) {
        return Ok(Some(Diagnosis::SinglePrecision { of_value: true }));
    }
    Ok(None)
}

/// Whether numbers have the digits of `f32`, and all of them: whole numbers, which a function may jump between, have few.
pub(crate) fn are_of_f32(numbers: impl Iterator<Item = f64>) -> bool {
    const LAST: u32 = 0xfff;
    let (mut all, mut long) = (true, false);
    for v in numbers {
        all &= v == f64::from(v as f32);
        long |= (v as f32).to_bits() & LAST != 0;
    }
    all && long
}

/// What is wrong with the argument of a finding, or with the one that is most wrong; and its worst element.
fn explain(
    problem: &Problem<'_>,
    weights: &[Tensor],
    finding: Finding,
    random: &mut Random,
) -> Result<(Finding, Explanation)> {
    let Some(evidence) = Evidence::gather(problem, weights, random)? else {
        let diagnosis = if depends_on_layout(problem, weights, &finding)? {
            Diagnosis::DependsOnLayout
        } else {
            Diagnosis::Unexplained
        };
        return Ok((finding, plain(diagnosis)));
    };
    let arguments = 0..problem.arguments.len();
    let is_it = |k: &usize| problem.arguments[*k].0 == finding.argument && !evidence.wrong(*k).is_empty();
    // Of several that are as wrong, the first.
    let most = || arguments.clone().rev().max_by_key(|k| evidence.wrong(*k).len()).unwrap_or(0);
    let k = arguments.clone().find(is_it).unwrap_or_else(most);
    let wrong = evidence.wrong(k);
    let trial = &evidence.trials[0];
    let excess = |e: &usize| evidence.excess(trial, k, *e);
    let Some(worst) = wrong.iter().copied().max_by(|a, b| excess(a).total_cmp(&excess(b))) else {
        return Ok((finding, plain(Diagnosis::Unexplained)));
    };
    let (argument, point) = &problem.arguments[k];
    let mut direction = problem.still();
    direction[k][worst] = 1.0;
    let worst = Finding {
        argument: *argument,
        place: Place::Element(unravel(worst, point.dims())),
        direction,
        analytical: trial.gradients[k][worst],
        numerical: trial.truth[k][worst],
        tolerance: evidence.tolerance(trial, k, worst),
        sides: None,
    };
    let place = region(&problem.start[k], point.dims(), &wrong, &evidence.right(k, &wrong));
    let mut diagnosis = evidence.diagnose(k, &wrong)?;
    if depends_on_layout(problem, weights, &worst)? {
        diagnosis = Diagnosis::DependsOnLayout;
    }
    if diagnosis == Diagnosis::ValueNonFinite {
        return Ok((finding, plain(diagnosis)));
    }
    let (wrong, of) = (wrong.len(), point.numel());
    Ok((worst, Explanation { wrong, of, region: place, ..plain(diagnosis) }))
}

/// Whether the gradient along a finding's direction is right for contiguous arguments and seeds.
fn depends_on_layout(problem: &Problem<'_>, weights: &[Tensor], finding: &Finding) -> Result<bool> {
    let points = problem.arguments.iter().map(|(_, t)| t);
    if points.clone().chain(weights).all(Tensor::is_contiguous) {
        return Ok(false);
    }
    let plain = |t: &Tensor| t.contiguous();
    let weights: Vec<Tensor> = weights.iter().map(plain).collect();
    let found = gradients(problem.target, &points.map(plain).collect::<Vec<_>>(), &weights)?;
    let mut sum = 0.0;
    for ((g, d), x) in found.iter().zip(&finding.direction).zip(&problem.start) {
        let parts = numbers(g)?.into_iter().zip(d).zip(x);
        let is_element = matches!(finding.place, Place::Element(_));
        sum +=
            parts.map(|((g, d), x)| if is_element { g * d } else { g * d * x.abs().max(1.0) }).sum::<f64>();
    }
    Ok((sum - finding.numerical).abs() <= finding.tolerance)
}
