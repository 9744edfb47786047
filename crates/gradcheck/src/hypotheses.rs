//! What a wrong gradient may be, tried against every slope of the function.

use foldback_tensor::{Shape, Tensor};

use crate::compare::{Problem, unravel};
use crate::diagnosis::{Diagnosis, Size};
use crate::error::{Argument, Order, Result};
use crate::evidence::{Evidence, Trial, columns, pull};
use crate::explain::are_of_f32;
use crate::target::{from_numbers, numbers};

impl Evidence<'_> {
    /// What is wrong with the gradient of an argument.
    pub(crate) fn diagnose(&self, k: usize, wrong: &[usize]) -> Result<Diagnosis> {
        if let Some(diagnosis) = self.of_each(k, wrong) {
            return Ok(diagnosis);
        }
        let all: Vec<usize> = (0..self.jacobian[k].len()).filter(|&e| !self.rough[k][e]).collect();
        let arranged = self.arranged(k, &all).or_else(|| self.reduced(k, &all));
        match arranged.or_else(|| self.exchanged(k, &all)) {
            Some(diagnosis) => Ok(diagnosis),
            None => match self.elsewhere(k, &all)? {
                Some(diagnosis) => Ok(diagnosis),
                None if !self.is_proportional(k)? => Ok(Diagnosis::NotProportional),
                None if self.is_rearranged(k, &all) => Ok(Diagnosis::Rearranged),
                None => Ok(Diagnosis::Unexplained),
            },
        }
    }

    /// Whether twice the seed gives twice the gradient.
    fn is_proportional(&self, k: usize) -> Result<bool> {
        let trial = &self.trials[0];
        let twice = self.trial(&trial.seeds.iter().map(|w| w.mul(2.0)).collect::<Result<Vec<_>>>()?)?;
        let pairs = || twice.gradients[k].iter().zip(&trial.gradients[k]);
        let scale = pairs().fold(0.0f64, |m, (g, _)| m.max(g.abs()));
        Ok(pairs().all(|(twice, once)| (twice - 2.0 * once).abs() <= 1e-5 * scale))
    }

    /// Whether the gradient has the elements of the right one, in another order.
    fn is_rearranged(&self, k: usize, all: &[usize]) -> bool {
        let sorted = |values: &[f64]| {
            let mut values: Vec<f64> = all.iter().map(|&e| values[e]).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        all.len() > 1
            && self.trials.iter().all(|trial| {
                let (found, truth) = (sorted(&trial.gradients[k]), sorted(&trial.truth[k]));
                let scale = truth.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                found.iter().zip(&truth).all(|(f, t)| (f - t).abs() <= 1e-5 * scale)
            })
    }

    /// Faults of single elements.
    fn of_each(&self, k: usize, wrong: &[usize]) -> Option<Diagnosis> {
        let pairs =
            || self.trials.iter().flat_map(|t| wrong.iter().map(|&e| (t.gradients[k][e], t.truth[k][e])));
        if pairs().any(|(_, truth)| !truth.is_finite()) {
            return Some(Diagnosis::ValueNonFinite);
        }
        if pairs().any(|(found, _)| !found.is_finite()) {
            return Some(Diagnosis::NonFinite);
        }
        if pairs().all(|(found, _)| found == 0.0) {
            let second = self.problem.order() == Order::Second;
            return Some(if second { Diagnosis::SecondOrderMissing } else { Diagnosis::Missing });
        }
        if pairs().all(|(_, truth)| truth == 0.0) {
            return Some(Diagnosis::Unwanted);
        }
        if pairs().all(|(found, truth)| (found - truth).abs() < 1e-5 * truth.abs())
            && are_of_f32(pairs().map(|(found, _)| found))
        {
            return Some(Diagnosis::SinglePrecision { of_value: false });
        }
        let (found, truth) = pairs().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        let factor = snap(found / truth);
        if truth != 0.0 && self.holds(k, wrong, |t| Some(t.truth[k].iter().map(|v| factor * v).collect())) {
            if factor == -1.0 {
                return Some(Diagnosis::SignFlipped);
            }
            return Some(Diagnosis::Factor { factor, size: self.size(k, factor) });
        }
        let first = &self.trials[0].gradients[k];
        if self.holds(k, wrong, |_| Some(first.clone())) {
            return Some(Diagnosis::IncomingIgnored);
        }
        let added = found - truth;
        let plus = |t: &Trial| Some(t.truth[k].iter().map(|v| v + added).collect());
        self.holds(k, wrong, plus).then_some(Diagnosis::ConstantAdded(snap(added)))
    }

    /// What has as many elements as a factor or its inverse says.
    fn size(&self, k: usize, factor: f64) -> Option<Size> {
        let whole = |v: f64| (v >= 2.0 && v == v.round()).then_some(v as usize);
        let count = whole(factor.abs()).or_else(|| whole(snap(1.0 / factor.abs())))?;
        let outputs = self.problem.shapes.iter().map(|s| (Argument::Output, s.dims()));
        let (own, others) = (&self.problem.arguments[k], &self.problem.arguments);
        let sizes = || {
            let arguments = std::iter::once(own).chain(others).map(|(a, t)| (*a, t.dims()));
            arguments.chain(outputs.clone())
        };
        let axis = |(of, dims): (Argument, &[usize])| {
            dims.iter().position(|&n| n == count).map(|axis| Size { of, axis: Some(axis) })
        };
        let all = |(of, dims): (Argument, &[usize])| {
            (dims.iter().product::<usize>() == count).then_some(Size { of, axis: None })
        };
        sizes().find_map(axis).or_else(|| sizes().find_map(all))
    }

    /// Elements in the wrong places.
    fn arranged(&self, k: usize, all: &[usize]) -> Option<Diagnosis> {
        let dims = self.dims(k);
        for (a, b) in (0..dims.len()).flat_map(|a| (a + 1..dims.len()).map(move |b| (a, b))) {
            // Read in order of the swapped axes, whatever the sizes.
            let expected = |t: &Trial| rearranged(&t.truth[k], dims, |x| x.transpose(a as isize, b as isize));
            if self.holds(k, all, expected) {
                return Some(Diagnosis::Transposed { axes: (a, b) });
            }
        }
        let flipped =
            |axis: &usize| self.holds(k, all, |t| rearranged(&t.truth[k], dims, |x| x.flip(*axis as isize)));
        (0..dims.len()).find(flipped).map(|axis| Diagnosis::Flipped { axis })
    }

    /// Sums over axes that should not be, and axes that should be summed over.
    fn reduced(&self, k: usize, all: &[usize]) -> Option<Diagnosis> {
        let dims = self.dims(k);
        let over = |axis: &usize| {
            let sum = |x: Tensor| x.sum(foldback_tensor::keep(*axis as isize))?.expand(dims);
            self.holds(k, all, |t| rearranged(&t.truth[k], dims, sum))
        };
        if let Some(axis) = (0..dims.len()).filter(|&axis| dims[axis] > 1).find(over) {
            return Some(Diagnosis::OverReduced { axis });
        }
        let [output] = &self.problem.shapes[..] else { return None };
        for axis in 0..output.rank() {
            for index in 0..output.dims()[axis] {
                let alone = |t: &Trial| {
                    let is_there = |o: usize| unravel(o, output.dims())[axis] == index;
                    let weights = t.weights.iter().enumerate();
                    let weights: Vec<f64> =
                        weights.map(|(o, w)| if is_there(o) { *w } else { 0.0 }).collect();
                    Some(pull(&self.jacobian[k], &weights))
                };
                if output.dims()[axis] > 1 && self.holds(k, all, alone) {
                    return Some(Diagnosis::Unreduced { axis, index });
                }
            }
        }
        self.summed_wrongly(k, all, output)
    }

    /// Sums of what each output contributes, over other axes than those that the input was broadcast along.
    fn summed_wrongly(&self, k: usize, all: &[usize], output: &Shape) -> Option<Diagnosis> {
        let columns = &self.jacobian[k];
        if output.rank() > 6 || columns.len() >= output.numel() {
            return None;
        }
        let slope_of = |o: usize| {
            let mut slopes = columns.iter().map(|c| c[o]).filter(|s| *s != 0.0);
            let slope = slopes.next().unwrap_or(0.0);
            slopes.next().is_none().then_some(slope)
        };
        let slopes: Vec<f64> = (0..output.numel()).map(slope_of).collect::<Option<_>>()?;
        for chosen in 1..1usize << output.rank() {
            let summed: Vec<usize> = (0..output.rank()).filter(|axis| chosen >> axis & 1 == 1).collect();
            let axes: Vec<isize> = summed.iter().map(|&axis| axis as isize).collect();
            let expected = |t: &Trial| {
                let each = slopes.iter().zip(&t.weights).map(|(s, w)| s * w).collect::<Vec<f64>>();
                let sums = rearranged(&each, output.dims(), |x| x.sum(axes.clone()))?;
                (sums.len() == columns.len()).then_some(sums)
            };
            if self.holds(k, all, expected) {
                return Some(Diagnosis::WrongAxes { summed });
            }
        }
        None
    }

    /// The gradient of another argument.
    fn exchanged(&self, k: usize, all: &[usize]) -> Option<Diagnosis> {
        let others = (0..self.jacobian.len()).filter(|&j| j != k && self.dims(j) == self.dims(k));
        let mut same = others.filter(|&j| self.holds(k, all, |t| Some(t.truth[j].clone())));
        same.next().map(|j| Diagnosis::Swapped { with: self.problem.arguments[j].0 })
    }

    /// The gradient at other values: with two inputs swapped, or something transposed.
    fn elsewhere(&self, k: usize, all: &[usize]) -> Result<Option<Diagnosis>> {
        let at = |start: Vec<Vec<f64>>| -> Result<bool> {
            let columns = columns(&Problem { start, ..self.problem.clone() }, k)?.0;
            Ok(self.holds(k, all, |t| Some(pull(&columns, &t.weights))))
        };
        let arguments = &self.problem.arguments;
        let count = arguments.len();
        for (i, j) in (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j))) {
            let mut start = self.problem.start.clone();
            start.swap(i, j);
            if self.dims(i) == self.dims(j) && at(start)? {
                return Ok(Some(Diagnosis::InputsSwapped { inputs: (arguments[i].0, arguments[j].0) }));
            }
        }
        let transposed = |values: &[f64], dims: &[usize]| match dims {
            [.., a, b] if a == b && *a > 1 => rearranged(values, dims, |x| x.transpose(-2, -1)),
            _ => None,
        };
        for (i, (operand, point)) in arguments.iter().enumerate() {
            let Some(values) = transposed(&self.problem.start[i], point.dims()) else { continue };
            let mut start = self.problem.start.clone();
            start[i] = values;
            if at(start)? {
                return Ok(Some(Diagnosis::OperandTransposed { operand: *operand }));
            }
        }
        let [output] = &self.problem.shapes[..] else { return Ok(None) };
        let incoming = |t: &Trial| Some(pull(&self.jacobian[k], &transposed(&t.weights, output.dims())?));
        let found = self.holds(k, all, incoming);
        Ok(found.then_some(Diagnosis::OperandTransposed { operand: Argument::Seed }))
    }
}

/// Elements in another arrangement, in row-major order.
fn rearranged(values: &[f64], dims: &[usize], f: impl Fn(Tensor) -> Result<Tensor>) -> Option<Vec<f64>> {
    let t = from_numbers(values.to_vec(), &Shape::from(dims)).ok()?;
    numbers(&f(t).ok()?).ok()
}

/// A number with the digits that differences are sure of: whole, the inverse of a whole one, or of six digits.
fn snap(v: f64) -> f64 {
    let near = |r: f64| r.is_finite() && (v - r).abs() <= 1e-6 * r.abs();
    let inverse = 1.0 / (1.0 / v).round();
    let six = || format!("{v:.5e}").parse().unwrap_or(v);
    if near(v.round()) {
        v.round()
    } else if near(inverse) {
        inverse
    } else {
        six()
    }
}
