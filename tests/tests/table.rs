//! Walks the derivative table: every row, every sample, at first and second order, in every layout.

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

impl Case {
    /// The operation as a function of the inputs that can be differentiated, and these.
    fn differentiable(&self) -> (impl Fn(&Vec<Var>) -> Result<Var>, Vec<Tensor>) {
        let (run, all, trackable) = (self.run, self.inputs.clone(), self.trackable());
        let given = all.iter().zip(&trackable).filter(|t| *t.1).map(|t| t.0.clone()).collect();
        let f = move |x: &Vec<Var>| {
            let mut x = x.iter();
            let input = |(t, &tracked): (&Tensor, &bool)| match tracked {
                true => x.next().expect("an argument for each input").clone(),
                false => t.into(),
            };
            run(&all.iter().zip(&trackable).map(input).collect::<Vec<Var>>())
        };
        (f, given)
    }
}

fn directions(like: &[Tensor]) -> Vec<Tensor> {
    let mut random = Random::new(23);
    like.iter().map(|t| fill(t.shape(), Domain::Any, &mut random)).collect()
}

/// The Jacobian by one backward pass for each element of the output, and its product with a direction.
fn pass_by_pass(case: &Case, v: &[Tensor]) -> Result<(Vec<Tensor>, Tensor)> {
    let (f, given) = case.differentiable();
    let leaves = given.iter().map(|t| Var::leaf(t.clone())).collect::<Result<Vec<_>>>()?;
    let y = f(&leaves)?;
    let count = y.numel() as i64;
    let (mut rows, mut product) = (vec![Vec::new(); leaves.len()], Vec::new());
    let inputs: Vec<&Var> = leaves.iter().collect();
    for i in 0..count {
        let seed = Var::from(Tensor::arange(0..count).eq(i)?.to(y.dtype()).reshape(y.shape())?);
        let (roots, seeds, mut sum) = ([&y], [&seed], 0.0);
        let pass = Grad::new(roots, &inputs).seeds(&seeds).retain_graph(true).materialize_grads(true);
        for ((rows, g), v) in rows.iter_mut().zip(pass.run()?.into_iter().flatten()).zip(v) {
            sum += (g.value() * v).sum(..)?.item_as::<f64>()?;
            rows.push(g.value());
        }
        product.push(sum);
    }
    let shape = |x: &Tensor| [y.shape().dims(), x.shape().dims()].concat();
    let whole = |(rows, x): (Vec<Tensor>, &Tensor)| match rows.is_empty() {
        true => Ok(Tensor::zeros_with(shape(x), x.dtype())),
        false => Tensor::stack(&rows, 0)?.reshape(shape(x)),
    };
    let jacobian = rows.into_iter().zip(&given).map(whole).collect::<Result<_>>()?;
    Ok((jacobian, Tensor::from_vec(product, y.shape())?))
}

#[test]
fn every_row_forward_and_batched_as_backward() {
    let mut report = Report::default();
    for case in cases() {
        let compare = || -> Result<(), String> {
            let (f, given) = case.differentiable();
            let v = directions(&given);
            let text = |e: foldback_tensor::Error| e.to_string();
            let (expected, product) = pass_by_pass(&case, &v).map_err(text)?;
            let (y, dy) = jvp(&f, given.clone(), v).map_err(text)?;
            agree("the value", &y.value(), &plain_value(&case).map_err(text)?)?;
            agree("jvp", &dy.value(), &product)?;
            let backward = jacobian(&f, given.clone()).map_err(text)?;
            let forward = jacfwd(&f, given).map_err(text)?;
            for ((b, f), e) in backward.iter().zip(&forward).zip(&expected) {
                agree("jacobian", &b.value(), e)?;
                agree("jacfwd", &f.value(), e)?;
            }
            Ok(())
        };
        report.check(&case.name, compare());
    }
    report.finish(200);
}

#[test]
fn every_row_forward_over_reverse_as_reverse_over_reverse() {
    let mut report = Report::default();
    for case in cases() {
        let compare = || -> Result<(), String> {
            let (f, given) = case.differentiable();
            let v = directions(&given);
            let text = |e: foldback_tensor::Error| e.to_string();
            let weights = fill(plain_value(&case).map_err(text)?.shape(), Domain::Any, &mut Random::new(29));
            let number = |x: &Vec<Var>| f(x)?.tanh().mul(&weights)?.sum(..);
            let (_, forward) = hvp(number, given.clone(), v.clone()).map_err(text)?;
            let (_, backward) = vhp(number, given.clone(), v.clone()).map_err(text)?;
            let whole = hessian(number, given).map_err(text)?;
            for ((f, b), row) in forward.iter().zip(&backward).zip(&whole) {
                agree_to("hvp", &f.value(), &b.value(), 1e-12)?;
                let mut product = Tensor::zeros_with(f.shape(), DType::F64);
                for (part, v) in row.iter().zip(&v) {
                    let part = part.value().reshape((f.numel(), v.numel())).map_err(text)?;
                    let one = part.matmul(v.flatten(..).map_err(text)?).map_err(text)?;
                    product += one.reshape(f.shape()).map_err(text)?;
                }
                agree_to("hessian", &product, &b.value(), 1e-12)?;
            }
            Ok(())
        };
        report.check(&case.name, compare());
    }
    report.finish(200);
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

type Composed = (&'static str, &'static [&'static [usize]], Domain, fn(&[Var]) -> Result<Var>);

/// What is composed of rows, and the arguments that make a row's operation another one. Nothing else records: a node is
/// only made for a row, which has samples, for `fuse!`, or for a user's own operation.
const COMPOSED: &[Composed] = &[
    ("pow zero", &[&[2, 3]], Domain::Any, |x| x[0].pow(0.0)),
    ("pow one half", &[&[2, 3]], Domain::Positive, |x| x[0].pow(0.5)),
    ("var", &[&[4, 3]], Domain::Any, |x| x[0].var(0)),
    ("std", &[&[4, 3]], Domain::Distinct, |x| x[0].std(keep([0, 1]))),
    ("to", &[&[2, 3]], Domain::Any, |x| Ok(x[0].to(DType::F64))),
    ("contiguous", &[&[2, 3]], Domain::Any, |x| Ok(x[0].t().contiguous())),
    ("broadcast_to", &[&[3]], Domain::Any, |x| x[0].broadcast_to([2, 3])),
    ("narrow", &[&[3, 4]], Domain::Any, |x| x[0].narrow(1, -3, 2)),
    ("select", &[&[3, 4]], Domain::Any, |x| x[0].select(1, -2)),
    ("t", &[&[2, 3]], Domain::Any, |x| Ok(x[0].t())),
    ("t of a vector", &[&[3]], Domain::Any, |x| Ok(x[0].t())),
    ("split", &[&[3, 4]], Domain::Any, |x| x[0].split(3, 1).map(|parts| parts[0].clone() * 2.0)),
    ("chunk", &[&[5, 2]], Domain::Any, |x| x[0].chunk(2, 0).map(|parts| parts[1].clone() * 2.0)),
    ("chunks", &[&[2, 6]], Domain::Any, |x| {
        let [a, b, c] = x[0].chunks(-1)?;
        a.mul(&b)?.add(c)
    }),
    ("unbind", &[&[3, 2]], Domain::Any, |x| x[0].unbind(1).map(|parts| &parts[0] * &parts[1])),
    ("expand_as", &[&[3], &[2, 3]], Domain::Any, |x| x[0].expand_as(&x[1])?.mul(&x[1])),
    ("mm", &[&[2, 3], &[3, 2]], Domain::Any, |x| x[0].mm(&x[1])),
    ("bmm", &[&[2, 2, 3], &[2, 3, 1]], Domain::Any, |x| x[0].bmm(&x[1])),
    ("mv", &[&[2, 3], &[3]], Domain::Any, |x| x[0].mv(&x[1])),
    ("dot", &[&[3], &[3]], Domain::Any, |x| x[0].dot(&x[1])),
    ("var_mean", &[&[4, 3]], Domain::Any, |x| x[0].var_mean(0).and_then(|(var, mean)| var.mul(mean))),
    ("norm", &[&[4, 3]], Domain::NonZero, |x| x[0].norm(1)),
    ("sort", &[&[4, 3]], Domain::Distinct, |x| Ok(x[0].sort(0)?.0)),
    ("topk", &[&[4, 3]], Domain::Distinct, |x| Ok(x[0].topk(2, 0)?.0)),
    ("outer", &[&[3], &[2]], Domain::Any, |x| x[0].outer(&x[1])),
    ("addmm", &[&[2], &[3, 2], &[2, 2]], Domain::Any, |x| x[0].addmm(&x[1], &x[2])),
    ("baddbmm", &[&[], &[2, 1, 2], &[2, 2, 2]], Domain::Any, |x| x[0].baddbmm(&x[1], &x[2])),
    ("einsum, products", &[&[2, 3], &[3, 2]], Domain::Any, |x| Var::einsum("ij,jk->ki", x)),
    ("einsum, batches", &[&[2, 1, 2, 3], &[2, 3, 2]], Domain::Any, |x| Var::einsum("...ij,bjk->b...k", x)),
    ("einsum, diagonals", &[&[2, 2, 3], &[2, 3]], Domain::Any, |x| Var::einsum("iij,ij->j", x)),
    ("einsum, broadcast", &[&[2, 1], &[1, 3], &[2]], Domain::Any, |x| Var::einsum("ij,ij,i->j", x)),
    ("powi", &[&[2, 3]], Domain::Any, |x| Ok(x[0].powi(3))),
    ("log", &[&[2, 3]], Domain::Positive, |x| Ok(x[0].log())),
    ("slice_assign", &[&[3, 4], &[4]], Domain::Any, |x| {
        let mut whole = x[0].mul(2.0)?;
        whole.slice_assign(1, &x[1])?;
        Ok(whole)
    }),
];

#[test]
fn composed_operations_at_both_orders() {
    let mut report = Report::default();
    for (name, shapes, domain, run) in COMPOSED {
        let mut random = Random::new(13);
        let inputs = shapes.iter().map(|s| fill(*s, *domain, &mut random)).collect();
        let domains = vec![*domain; shapes.len()];
        let case = Case { name: name.to_string(), inputs, domains, run: *run };
        let all: Vec<usize> = (0..shapes.len()).collect();
        for layout in Layout::ALL {
            let Some(case) = case.laid_out(layout, &all) else { continue };
            for tracked in subsets(&case.trackable()) {
                report.both(&check().seeds(1), &case, &tracked);
            }
        }
    }
    report.finish(100);
}

/// 0-d and empty inputs of operations whose samples are listed, and sizes at which their gradients take another path.
const CORNERS: &[Composed] = &[
    ("sum of nothing", &[&[2, 0]], Domain::Any, |x| x[0].sum(..)),
    ("sum over no axes", &[&[2, 3]], Domain::Any, |x| x[0].sum(Vec::<isize>::new())),
    ("sum of a number over axis 0", &[&[]], Domain::Any, |x| x[0].sum(keep(0))),
    ("mean of a number", &[&[]], Domain::Any, |x| x[0].mean(0)),
    ("mean to nothing", &[&[0, 3]], Domain::Any, |x| x[0].mean(1)),
    ("prod of a number", &[&[]], Domain::Any, |x| x[0].prod(..)),
    ("prod of one", &[&[2, 1]], Domain::Any, |x| x[0].prod(keep(1))),
    ("cumprod of one", &[&[2, 1]], Domain::Truth, |x| x[0].cumprod(1)),
    ("cumprod of nine with zeros", &[&[9, 2]], Domain::Truth, |x| x[0].cumprod(0)),
    ("cumsum to nothing", &[&[0, 3]], Domain::Any, |x| x[0].cumsum(1)),
    ("median to nothing", &[&[0, 3]], Domain::Any, |x| x[0].median(1)),
    ("sort of nothing", &[&[0]], Domain::Any, |x| Ok(x[0].sort(0)?.0)),
    ("topk of none", &[&[2, 3]], Domain::Any, |x| Ok(x[0].topk(0, 1)?.0)),
    ("topk of a number", &[&[]], Domain::Any, |x| Ok(x[0].topk(1, 0)?.0)),
    ("norm of nothing", &[&[2, 0]], Domain::Any, |x| x[0].norm_with(1, 1)),
    ("einsum of nothing", &[&[2, 0], &[0]], Domain::Any, |x| Var::einsum("ij,j->i", x)),
    ("prod of nothing", &[&[2, 0]], Domain::Any, |x| x[0].prod(1)),
    ("prod to nothing", &[&[0, 3]], Domain::Any, |x| x[0].prod(-1)),
    ("prod of seven", &[&[7]], Domain::Any, |x| x[0].prod(keep(..))),
    ("var of a number", &[&[]], Domain::Any, |x| x[0].var_with(.., 0.0)),
    ("var to nothing", &[&[0, 3]], Domain::Any, |x| x[0].var(1)),
    ("std to nothing", &[&[3, 0]], Domain::Any, |x| x[0].std(keep(0))),
    ("amax of a number", &[&[]], Domain::Any, |x| x[0].amax(..)),
    ("amin to nothing", &[&[2, 0]], Domain::Any, |x| x[0].amin(0)),
    ("logsumexp of a number", &[&[]], Domain::Any, |x| x[0].logsumexp(..)),
    ("logsumexp to nothing", &[&[2, 0]], Domain::Any, |x| x[0].logsumexp(0)),
    ("sum_to_size itself", &[&[2, 3]], Domain::Any, |x| x[0].sum_to_size([2, 3])),
    ("softmax of a number", &[&[]], Domain::Any, |x| x[0].softmax(0)),
    ("softmax of nothing", &[&[2, 0]], Domain::Any, |x| x[0].softmax(1)),
    ("log_softmax of a number", &[&[]], Domain::Any, |x| x[0].log_softmax(-1)),
    ("log_softmax of nothing", &[&[0, 2]], Domain::Any, |x| x[0].log_softmax(0)),
    ("matmul without rows", &[&[0, 3], &[3, 2]], Domain::Any, |x| x[0].matmul(&x[1])),
    ("matmul without batches", &[&[0, 2, 3], &[3, 2]], Domain::Any, |x| x[0].matmul(&x[1])),
    ("matmul of empty vectors", &[&[0], &[0]], Domain::Any, |x| x[0].matmul(&x[1])),
    ("matmul, vector and two batches", &[&[3], &[2, 2, 3, 2]], Domain::Any, |x| x[0].matmul(&x[1])),
    ("matmul, both batches broadcast", &[&[2, 1, 2, 3], &[1, 3, 3, 2]], Domain::Any, |x| x[0].matmul(&x[1])),
    ("matmul of a square with itself", &[&[3, 3]], Domain::Any, |x| x[0].matmul(&x[0])),
    ("gather of nothing", &[&[3, 2]], Domain::Any, |x| {
        x[0].gather(0, Tensor::zeros_with([0, 2], DType::I64))
    }),
    ("gather of a number", &[&[]], Domain::Any, |x| x[0].gather(0, &tensor![0, 0; i64])),
    ("index_select of nothing", &[&[3, 2]], Domain::Any, |x| {
        x[0].index_select(1, Tensor::zeros_with([0], DType::I64))
    }),
    ("index_add of nothing", &[&[3, 2], &[0, 2]], Domain::Any, |x| {
        x[0].index_add(0, Tensor::zeros_with([0], DType::I64), &x[1])
    }),
    ("permute of a number", &[&[]], Domain::Any, |x| x[0].permute(Vec::<isize>::new())),
    ("reshape of nothing", &[&[0, 3]], Domain::Any, |x| x[0].reshape([3, 0])),
    ("flip of everything", &[&[2, 3]], Domain::Any, |x| x[0].flip(..)),
    ("flip of a number", &[&[]], Domain::Any, |x| x[0].flip(..)),
    ("slice to nothing", &[&[4, 2]], Domain::Any, |x| x[0].slice(2..2)),
    ("slice of a slice", &[&[4, 5]], Domain::Any, |x| x[0].slice((1.., 1..4))?.slice((-1, 1..))),
    ("expand of an inner axis", &[&[2, 1, 3]], Domain::Any, |x| x[0].expand([4, 2, 5, 3])),
    ("expand to itself", &[&[2, 3]], Domain::Any, |x| x[0].expand([2, 3])),
    ("stack of numbers", &[&[], &[]], Domain::Any, |x| Var::stack(&[&x[0], &x[1]], 0)),
    ("where with a broadcast condition", &[&[3], &[2, 1]], Domain::Any, |x| {
        x[0].gt(&x[1])?.where_cond(&x[0], x[1].exp())
    }),
    ("where with a number", &[&[2, 3]], Domain::Any, |x| x[0].gt(0.3)?.where_cond(2.0, x[0].square())),
];

#[test]
fn numbers_and_empty_tensors_at_both_orders() {
    let mut report = Report::default();
    for (name, shapes, domain, run) in CORNERS {
        let mut random = Random::new(17);
        let inputs = shapes.iter().map(|s| fill(*s, *domain, &mut random)).collect();
        let case = Case { name: name.to_string(), inputs, domains: vec![*domain; shapes.len()], run: *run };
        for tracked in subsets(&case.trackable()) {
            report.both(&check(), &case, &tracked);
        }
    }
    report.finish(100);
}
