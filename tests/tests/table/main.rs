//! Walks the derivative table: every row, every sample, at first and second order, in every layout.

mod composed;
mod forward;

use std::fmt::Write as _;

use foldback_gradcheck::Check;
use foldback_gradcheck::testing::{Layout, Random, fill};
use foldback_graph::{
    Backward, Domain, Grad, OwnedSample, Result, Row, Var, hessian, hvp, jacfwd, jacobian, jvp, rows, vhp,
};
use foldback_tensor::{DType, Tensor, keep, tensor};

/// The samples are tame: their third derivatives stay below a hundred or so, so that the differences are right to
/// some 1e-9 (see the documentation of `Check`).
fn check() -> Check {
    Check::new().tolerance(1e-8)
}

/// One way to call an operation, with its inputs.
struct Case {
    name: String,
    inputs: Vec<Tensor>,
    domains: Vec<Domain>,
    run: fn(&[Var]) -> Result<Var>,
}

impl Case {
    fn new(row: &Row, sample: &OwnedSample) -> Case {
        let name = format!("{} ({})", row.name, sample.label);
        let mut random = Random::new(name.bytes().fold(7, |h, b| h * 31 % 1_000_003 + u64::from(b)));
        let (mut inputs, mut domains) = (Vec::new(), Vec::new());
        for (shape, domain) in &sample.inputs {
            let values = fill(shape.as_slice(), *domain, &mut random);
            // In a pointwise row a truth value is a condition; elsewhere it is a number that happens to be 0 or 1.
            let condition = row.is_pointwise() && *domain == Domain::Truth;
            inputs.push(if condition { values.to(DType::Bool) } else { values });
            domains.push(*domain);
        }
        Case { name, inputs, domains, run: sample.run }
    }

    fn trackable(&self) -> Vec<bool> {
        self.inputs.iter().map(|t| t.dtype().is_float()).collect()
    }

    fn with_inputs(&self, label: &str, inputs: Vec<Tensor>) -> Case {
        Case { name: format!("{}, {label}", self.name), inputs, domains: self.domains.clone(), run: self.run }
    }

    /// The case with the inputs that `chosen` names in another layout; `None` if no input has it.
    fn laid_out(&self, layout: Layout, chosen: &[usize]) -> Option<Case> {
        let mut inputs = self.inputs.clone();
        let mut changed = false;
        for &i in chosen {
            // Equal values are no place to differentiate where all must be distinct.
            if layout == Layout::Expanded && self.domains[i] == Domain::Distinct {
                continue;
            }
            if let Some(t) = layout.apply(&inputs[i]) {
                inputs[i] = t;
                changed = true;
            }
        }
        changed.then(|| self.with_inputs(&format!("{layout:?} inputs {chosen:?}"), inputs))
    }
}

fn cases() -> Vec<Case> {
    rows().flat_map(|row| row.samples().iter().map(|s| Case::new(row, s)).collect::<Vec<_>>()).collect()
}

/// Every choice of tracked inputs but the empty one, all of them first.
fn subsets(trackable: &[bool]) -> Vec<Vec<bool>> {
    let n = trackable.len();
    let flags = |bits: usize| (0..n).map(|i| bits & (1 << i) != 0).collect::<Vec<bool>>();
    let allowed = |f: &Vec<bool>| f.iter().zip(trackable).all(|(f, t)| *t || !f) && f.contains(&true);
    (0..1 << n).rev().map(flags).filter(allowed).collect()
}

/// Collects what fails, so that one run shows all of it.
#[derive(Default)]
struct Report {
    checks: usize,
    failures: String,
}

impl Report {
    fn check(&mut self, label: impl std::fmt::Display, result: Result<(), impl std::fmt::Display>) {
        self.checks += 1;
        if let Err(e) = result {
            writeln!(self.failures, "{label}: {e}").expect("a string can grow");
        }
    }

    /// Both orders, for one choice of tracked inputs.
    fn both(&mut self, options: &Check, case: &Case, tracked: &[bool]) {
        let label = format!("{}, tracked {tracked:?}", case.name);
        let options = options.clone().tracked(tracked);
        self.check(&label, options.gradcheck(case.run, &case.inputs));
        self.check(&label, options.gradgradcheck(case.run, &case.inputs));
    }

    fn finish(self, at_least: usize) {
        println!("{} checks", self.checks);
        let count = self.failures.lines().count();
        assert!(self.failures.is_empty(), "{count} of {} checks failed:\n{}", self.checks, self.failures);
        assert!(self.checks >= at_least, "only {} checks ran", self.checks);
    }
}

fn plain_value(case: &Case) -> Result<Tensor> {
    Ok((case.run)(&case.inputs.iter().map(Var::from).collect::<Vec<_>>())?.value())
}

/// Whether two `f64` tensors agree to a few roundings: sums may run in another order in another layout.
fn agree(what: &str, found: &Tensor, expected: &Tensor) -> Result<(), String> {
    agree_to(what, found, expected, 64.0 * f64::EPSILON)
}

fn agree_to(what: &str, found: &Tensor, expected: &Tensor, relative: f64) -> Result<(), String> {
    if found.shape() != expected.shape() {
        return Err(format!("{what} has shape {} where {} was expected", found.shape(), expected.shape()));
    }
    let numbers = |t: &Tensor| t.to(DType::F64).to_vec::<f64>().map_err(|e| e.to_string());
    let (found, expected) = (numbers(found)?, numbers(expected)?);
    let scale = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
    let wrong = |(f, e): &(&f64, &f64)| {
        let close = (**f - **e).abs() <= relative * scale;
        !close && f.to_bits() != e.to_bits()
    };
    match found.iter().zip(&expected).enumerate().find(|(_, pair)| wrong(pair)) {
        Some((at, (f, e))) => Err(format!("{what}: element {at} is {f} where {e} was expected")),
        None => Ok(()),
    }
}

/// The value, and the gradient of each tracked input for a seed.
fn value_and_grads(case: &Case, tracked: &[bool], seed: Option<&Tensor>) -> Result<(Tensor, Vec<Tensor>)> {
    let vars = variables(&case.inputs, tracked)?;
    let y = (case.run)(&vars)?;
    let leaves: Vec<&Var> = vars.iter().zip(tracked).filter(|v| *v.1).map(|v| v.0).collect();
    let seed = seed.cloned().unwrap_or_else(|| Tensor::ones_with(y.shape(), y.dtype()));
    let grads = Grad::new([&y], &leaves).seeds(&[&Var::from(seed)]).materialize_grads(true).run()?;
    Ok((y.value(), grads.into_iter().flatten().map(|g| g.value()).collect()))
}

fn variables(inputs: &[Tensor], tracked: &[bool]) -> Result<Vec<Var>> {
    let one = |(t, &tracked): (&Tensor, &bool)| if tracked { Var::leaf(t.clone()) } else { Ok(t.into()) };
    inputs.iter().zip(tracked).map(one).collect()
}

#[test]
fn every_row_has_samples() {
    for row in rows() {
        assert!(!row.samples().is_empty(), "the row {} has no samples", row.name);
    }
    let mut names: Vec<&str> = rows().map(|r| r.name).collect();
    names.sort();
    assert!(names.windows(2).all(|w| w[0] != w[1]), "two rows of one name: {names:?}");
}

#[test]
fn every_row_at_both_orders_for_every_choice_of_tracked_inputs() {
    let mut report = Report::default();
    for case in cases() {
        for tracked in subsets(&case.trackable()) {
            report.both(&check(), &case, &tracked);
        }
    }
    report.finish(1000);
}

#[test]
fn every_row_in_every_layout() {
    let mut report = Report::default();
    let options = check().seeds(1);
    for case in cases() {
        let all: Vec<usize> = (0..case.inputs.len()).collect();
        for layout in Layout::ALL {
            let mut choices = vec![all.clone()];
            if all.len() > 1 {
                choices.extend(all.iter().map(|&i| vec![i]));
            }
            for chosen in choices {
                let Some(laid_out) = case.laid_out(layout, &chosen) else { continue };
                if refuses_layout(&laid_out) {
                    continue;
                }
                report.both(&options, &laid_out, &laid_out.trackable());
                let contiguous: Vec<Tensor> = laid_out.inputs.iter().map(Tensor::contiguous).collect();
                let contiguous = case.with_inputs("contiguous copies", contiguous);
                let values = plain_value(&laid_out).and_then(|v| Ok((v, plain_value(&contiguous)?)));
                report.check(
                    &laid_out.name,
                    values.map_err(|e| e.to_string()).and_then(|(v, plain)| agree("the value", &v, &plain)),
                );
            }
        }
    }
    report.finish(3000);
}

/// `view` is the row whose purpose is to refuse layouts that would need a copy.
fn refuses_layout(case: &Case) -> bool {
    case.name.starts_with("view ") && plain_value(case).is_err()
}

#[test]
fn every_row_with_seeds_in_other_layouts() {
    let mut report = Report::default();
    for case in cases() {
        let shape = plain_value(&case).expect("samples run").shape().clone();
        let mut options = check().seeds(0);
        let mut random = Random::new(11);
        for layout in Layout::ALL {
            options = match layout.apply(&fill(&shape, Domain::NonZero, &mut random)) {
                Some(seed) => options.seed(seed),
                None => options,
            };
        }
        // One number for the whole output, as the gradient of a sum is.
        options = options.seed(Tensor::from(-1.7).expand(&shape).expect("a number expands to any shape"));
        report.both(&options, &case, &case.trackable());
    }
    report.finish(500);
}

#[test]
fn the_same_variable_twice() {
    let mut report = Report::default();
    for case in cases() {
        let n = case.inputs.len();
        for (i, j) in (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))) {
            let (a, b) = (&case.inputs[i], &case.inputs[j]);
            if a.shape() != b.shape() || a.dtype() != b.dtype() {
                continue;
            }
            // The narrower domain of the two, so that both places can take the values.
            let (from, to) = if case.domains[i] == Domain::Any { (j, i) } else { (i, j) };
            let run = case.run;
            let shared = move |x: &[Var]| {
                let mut x = x.to_vec();
                x[to] = x[from].clone();
                run(&x)
            };
            let mut tracked = case.trackable();
            tracked[to] = false;
            let label = format!("{}, input {from} also as input {to}", case.name);
            let options = check().tracked(&tracked);
            report.check(&label, options.gradcheck(shared, &case.inputs));
            report.check(&label, options.gradgradcheck(shared, &case.inputs));
        }
    }
    report.finish(40);
}

/// A gradient in `f32` differs from the one in `f64` at the same values by roundings: each operation of a formula adds
/// half a unit in the last place, and the samples' formulas and sums have less than a hundred of them.
const F32_TOLERANCE: f64 = 64.0 * f32::EPSILON as f64;

#[test]
fn f32_agrees_with_f64() {
    let mut report = Report::default();
    for case in cases() {
        let tracked = case.trackable();
        let narrow = |t: &Tensor| if t.dtype() == DType::F64 { t.to(DType::F32) } else { t.clone() };
        let wide = |t: &Tensor| if t.dtype() == DType::F32 { t.to(DType::F64) } else { t.clone() };
        let single = case.with_inputs("f32", case.inputs.iter().map(narrow).collect());
        let double = case.with_inputs("f64", single.inputs.iter().map(wide).collect());
        let compare = || -> Result<(), String> {
            let found = value_and_grads(&single, &tracked, None).map_err(|e| e.to_string())?;
            let expected = value_and_grads(&double, &tracked, None).map_err(|e| e.to_string())?;
            // The row's own sample casts to f64.
            let kept = if case.name.starts_with("cast ") { DType::F64 } else { DType::F32 };
            if found.0.dtype() != kept {
                return Err(format!("the value is {}", found.0.dtype()));
            }
            agree_to("the value", &found.0, &expected.0, F32_TOLERANCE)?;
            for (i, (f, e)) in found.1.iter().zip(&expected.1).enumerate() {
                if f.dtype() != DType::F32 {
                    return Err(format!("gradient {i} is {}", f.dtype()));
                }
                agree_to(&format!("gradient {i}"), f, e, F32_TOLERANCE)?;
            }
            Ok(())
        };
        report.check(&single.name, compare());
    }
    report.finish(200);
}

#[test]
fn gradients_have_the_inputs_type_where_types_are_mixed() {
    let mut report = Report::default();
    for case in cases().iter().filter(|c| c.inputs.len() > 1) {
        let tracked = case.trackable();
        for narrow in (0..case.inputs.len()).filter(|&i| tracked[i]) {
            let mut inputs = case.inputs.clone();
            inputs[narrow] = inputs[narrow].to(DType::F32);
            let mixed = case.with_inputs(&format!("input {narrow} in f32"), inputs);
            let widened = mixed
                .inputs
                .iter()
                .map(|t| if t.dtype() == DType::F32 { t.to(DType::F64) } else { t.clone() });
            let wide = case.with_inputs("all in f64", widened.collect());
            // What takes one type only says so.
            let Ok(found) = value_and_grads(&mixed, &tracked, None) else { continue };
            let compare = || -> Result<(), String> {
                let expected = value_and_grads(&wide, &tracked, None).map_err(|e| e.to_string())?;
                let leaves = mixed.inputs.iter().zip(&tracked).filter(|t| *t.1).map(|t| t.0);
                for (i, ((f, e), input)) in found.1.iter().zip(&expected.1).zip(leaves).enumerate() {
                    if f.dtype() != input.dtype() {
                        return Err(format!("gradient {i} is {} for {}", f.dtype(), input.dtype()));
                    }
                    agree_to(&format!("gradient {i}"), f, e, F32_TOLERANCE)?;
                }
                Ok(())
            };
            report.check(&mixed.name, compare());
        }
    }
    report.finish(100);
}

/// What `backward` leaves in the leaves is what `Grad` returns, in the input's shape and type, dense, and twice as
/// much after a second pass.
#[test]
fn backward_sums_to_the_inputs_shape() {
    let mut report = Report::default();
    for case in cases() {
        let tracked = case.trackable();
        let compare = || -> Result<()> {
            let vars = variables(&case.inputs, &tracked)?;
            let y = (case.run)(&vars)?;
            let seed = fill(y.shape(), Domain::NonZero, &mut Random::new(5));
            let (_, expected) = value_and_grads(&case, &tracked, Some(&seed))?;
            if !y.requires_grad() {
                return Ok(());
            }
            for pass in [1.0, 2.0] {
                y.backward_with(Backward::new().seeds(&[&Var::from(&seed)]).retain_graph(true))?;
                let leaves = vars.iter().zip(&tracked).filter(|v| *v.1).map(|v| v.0);
                for (i, (leaf, e)) in leaves.zip(&expected).enumerate() {
                    let Some(g) = leaf.grad() else {
                        return Err(user(format!("leaf {i} has no gradient")));
                    };
                    if g.dtype() != leaf.dtype() || !g.is_contiguous() {
                        return Err(user(format!(
                            "gradient {i} is {}, strides {:?}",
                            g.dtype(),
                            g.strides()
                        )));
                    }
                    agree(&format!("gradient {i} after pass {pass}"), &g, &e.mul(pass)?).map_err(user)?;
                }
            }
            Ok(())
        };
        report.check(&case.name, compare());
    }
    report.finish(200);
}

fn user(text: String) -> foldback_graph::Error {
    foldback_graph::Error::other(text)
}

/// A value that several consumers read gets the sum of their gradients, whichever forms these arrive in.
#[test]
fn gradients_of_several_consumers_add_up() {
    type Consumer = (&'static str, fn(&Var) -> Result<Var>);
    let consumers: &[Consumer] = &[
        ("sum", |x| x.sum(..)),
        ("row sums", |x| x.sum(keep(1))?.sum(..)),
        ("folded product", |x| x.unsqueeze(0)?.mul(&x.unsqueeze(1)?)?.sum(..)),
        ("tanh", |x| x.tanh().square().sum(..)),
        ("transposed product", |x| x.t().matmul(x)?.square().sum(..)),
        ("part", |x| x.slice(1..)?.exp().sum(..)),
        ("itself", |x| x.mul(x)?.sum(..)),
    ];
    let mut report = Report::default();
    let x = fill([3, 4], Domain::Any, &mut Random::new(9));
    for (first, f) in consumers {
        for (second, g) in consumers {
            let both = |x: &[Var]| {
                let hidden = x[0].mul(1.5)?;
                f(&hidden)?.add(&g(&hidden)?)?.add(&f(&x[0])?)
            };
            let label = format!("{first} and {second}");
            report.check(&label, check().gradcheck(both, std::slice::from_ref(&x)));
            report.check(&label, check().gradgradcheck(both, std::slice::from_ref(&x)));
        }
    }
    report.finish(98);
}
