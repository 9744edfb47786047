//! One case: built, called, differentiated twice, compared, and looked after for what it leaves behind.

use foldback_graph::{Backward, Grad, Var, live_nodes};
use foldback_tensor::Tensor;

use super::args::{Args, Refusal};
use super::build;
use super::case::{Case, Expected, Results, Second, TensorSpec};
use super::close::{Precision, compare, is_zero, same_bits};
use super::table::{self, Operation};

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// the reason
    Failed(String),
    /// the name of what the library lacks
    Unsupported(String),
}

/// Why a case did not pass.
enum Stop {
    Failed(String),
    Unsupported(String),
}

impl From<String> for Stop {
    fn from(reason: String) -> Stop {
        Stop::Failed(reason)
    }
}

/// Everything that one run of a case computed, in a fixed order.
type Computed = Vec<(String, Tensor)>;

/// Runs a case twice. Panics are the caller's to catch.
pub(super) fn run(case: &Case) -> Verdict {
    let before = live_nodes();
    let once = match single(case) {
        Ok(computed) => computed,
        Err(Stop::Failed(reason)) => return Verdict::Failed(reason),
        Err(Stop::Unsupported(name)) => return Verdict::Unsupported(name),
    };
    match single(case) {
        Ok(again) if again.len() == once.len() => {
            if let Some(((name, ..), _)) = once.iter().zip(&again).find(|(a, b)| !same_bits(&a.1, &b.1)) {
                return Verdict::Failed(format!("{name} has other bits when run again"));
            }
        }
        _ => return Verdict::Failed("behaves otherwise when run again".into()),
    }
    drop(once);
    match live_nodes() {
        after if after == before => Verdict::Passed,
        after => Verdict::Failed(format!("{} nodes of the graph are left", after as isize - before as isize)),
    }
}

fn single(case: &Case) -> Result<Computed, Stop> {
    let operation =
        table::find(&case.op).ok_or_else(|| Stop::Unsupported(format!("operation {}", case.op)))?;
    let leaves = inputs(case)?;
    let named: Vec<(String, Var)> =
        case.inputs.iter().map(|i| i.name.clone()).zip(leaves.iter().cloned()).collect();
    let args = Args::new(named, case.args.clone());
    if let Some(name) = args.names().find(|n| !operation.takes(n)) {
        return Err(Stop::Unsupported(format!("argument {}({name}=)", case.op)));
    }
    let outcome = (operation.call)(&args);
    drop(args);
    match (outcome, &case.expected) {
        (Err(Refusal::Unsupported(name)), _) => Err(Stop::Unsupported(name)),
        (Err(Refusal::Library(text) | Refusal::Argument(text)), Expected::Error(_)) if text.is_empty() => {
            Err(Stop::Failed("refused without a word".into()))
        }
        (Err(_), Expected::Error(_)) => Ok(Vec::new()),
        (Ok(_), Expected::Error(text)) => Err(Stop::Failed(format!("accepted, but PyTorch refuses: {text}"))),
        (Err(Refusal::Library(text)), _) => Err(Stop::Failed(format!("refused: {text}"))),
        (Err(Refusal::Argument(text)), _) => Err(Stop::Unsupported(format!("form {}({text})", case.op))),
        (Ok(outputs), Expected::Results(results)) => check(case, operation, &leaves, &outputs, results),
    }
}

/// The inputs as variables, in their layouts.
fn inputs(case: &Case) -> Result<Vec<Var>, Stop> {
    let make = |input: &super::case::InputSpec| {
        let value = build::input(input).map_err(Stop::Unsupported)?;
        if input.requires_grad {
            Var::leaf(value).map_err(|e| Stop::Failed(format!("no leaf of `{}`: {e}", input.name)))
        } else {
            Ok(Var::constant(value))
        }
    };
    case.inputs.iter().map(make).collect()
}

fn check(
    case: &Case,
    operation: &Operation,
    leaves: &[Var],
    outputs: &[Var],
    results: &Results,
) -> Result<Computed, Stop> {
    let mut computed = Computed::new();
    if outputs.len() != results.outputs.len() {
        return Err(Stop::Failed(format!("{} outputs, expected {}", outputs.len(), results.outputs.len())));
    }
    for (i, (found, expected)) in outputs.iter().zip(&results.outputs).enumerate() {
        note(&mut computed, format!("output {i}"), found.value(), expected, operation.precision)?;
    }
    for (name, data) in &results.after {
        let input =
            case.inputs.iter().find(|i| i.name == *name).ok_or_else(|| format!("no input `{name}`"))?;
        let expected = build::written(&input.tensor, data).map_err(Stop::Unsupported)?;
        // An in-place operation's result is its input afterwards.
        compare(&format!("`{name}` afterwards"), &outputs[0].value(), &expected, operation.precision)?;
    }
    let Some(grads) = &results.grads else { return Ok(computed) };
    let seeded: Vec<(usize, &TensorSpec)> =
        results.seeds.iter().enumerate().filter_map(|(i, s)| Some((i, s.as_ref()?))).collect();
    let roots: Vec<&Var> = seeded.iter().map(|&(i, _)| &outputs[i]).collect();
    let seeds = seeded.iter().map(|&(_, s)| build::dense(s)).collect::<Result<Vec<_>, _>>()?;
    if roots.iter().any(|r| !r.requires_grad()) {
        let wanted = grads.iter().flatten().map(build::dense).collect::<Result<Vec<_>, _>>()?;
        let untracked = wanted.is_empty() && results.second.is_none();
        return if untracked {
            Ok(computed)
        } else {
            Err("an output does not require a gradient".to_owned().into())
        };
    }
    if let Some(second) = &results.second {
        second_order(&mut computed, case, leaves, &roots, &seeds, grads, second)?;
    }
    first_order(&mut computed, case, leaves, &roots, &seeds, grads)?;
    Ok(computed)
}

/// Gradients as `backward` leaves them in the leaves.
fn first_order(
    computed: &mut Computed,
    case: &Case,
    leaves: &[Var],
    roots: &[&Var],
    seeds: &[Tensor],
    grads: &[Option<TensorSpec>],
) -> Result<(), Stop> {
    let seeds: Vec<Var> = seeds.iter().map(Var::from).collect();
    let seeds: Vec<&Var> = seeds.iter().collect();
    Backward::new(roots).seeds(&seeds).run().map_err(|e| format!("backward: {e}"))?;
    for ((leaf, expected), input) in leaves.iter().zip(grads).zip(&case.inputs) {
        gradient(computed, &format!("gradient of `{}`", input.name), leaf.grad(), expected)?;
    }
    Ok(())
}

/// First-order gradients with a history, and the gradients of their product with the directions.
fn second_order(
    computed: &mut Computed,
    case: &Case,
    leaves: &[Var],
    roots: &[&Var],
    seeds: &[Tensor],
    grads: &[Option<TensorSpec>],
    second: &Second,
) -> Result<(), Stop> {
    let tracked: Vec<usize> = (0..leaves.len()).filter(|&i| case.inputs[i].requires_grad).collect();
    let inputs: Vec<&Var> = tracked.iter().map(|&i| &leaves[i]).collect();
    let seeds = seeds.iter().map(|s| Var::leaf(s.clone())).collect::<Result<Vec<Var>, _>>();
    let seeds = seeds.map_err(|e| format!("a seed: {e}"))?;
    let seeds: Vec<&Var> = seeds.iter().collect();
    let first = Grad::new(roots, &inputs).seeds(&seeds).create_graph(true).allow_unused(true).run();
    let first = first.map_err(|e| format!("gradients with create_graph: {e}"))?;
    let mut sum: Option<Var> = None;
    for (g, &i) in first.iter().zip(&tracked) {
        let name = &case.inputs[i].name;
        gradient(computed, &format!("recorded gradient of `{name}`"), g.as_ref().map(Var::value), &grads[i])?;
        if let (Some(g), Some(v)) = (g, &second.directions[i]) {
            let product =
                g.mul(&build::dense(v)?).and_then(|p| p.sum(.., false)).map_err(|e| e.to_string())?;
            sum = Some(match sum {
                Some(s) => s.add(&product).map_err(|e| e.to_string())?,
                None => product,
            });
        }
    }
    let all: Vec<&Var> = inputs.iter().chain(&seeds).copied().collect();
    let found = match sum.filter(Var::requires_grad) {
        // Zeros stand for "does not depend on it"; the graph is kept for the first-order pass to come.
        Some(s) => {
            let grads = Grad::new(&[&s], &all).materialize_grads(true).retain_graph(true).run();
            grads.map_err(|e| format!("second order: {e}"))?
        }
        None => all.iter().map(|v| Some(Var::from(v.value().zeros_like()))).collect(),
    };
    let (to_inputs, to_seeds) = found.split_at(inputs.len());
    for (g, &i) in to_inputs.iter().zip(&tracked) {
        let name = format!("second-order gradient of `{}`", case.inputs[i].name);
        gradient(computed, &name, g.as_ref().map(Var::value), &second.inputs[i])?;
    }
    let expected = second.seeds.iter().zip(roots_of(second.seeds.len(), case)).filter(|(_, seeded)| *seeded);
    for (n, (g, (expected, _))) in to_seeds.iter().zip(expected).enumerate() {
        gradient(
            computed,
            &format!("second-order gradient of seed {n}"),
            g.as_ref().map(Var::value),
            expected,
        )?;
    }
    Ok(())
}

/// Per output, whether it has a seed.
fn roots_of(outputs: usize, case: &Case) -> Vec<bool> {
    match &case.expected {
        Expected::Results(r) => r.seeds.iter().map(Option::is_some).collect(),
        Expected::Error(_) => vec![false; outputs],
    }
}

/// A gradient against what is expected; for null, nothing or zeros.
fn gradient(
    computed: &mut Computed,
    name: &str,
    found: Option<Tensor>,
    expected: &Option<TensorSpec>,
) -> Result<(), Stop> {
    match (found, expected) {
        (Some(g), Some(e)) => note(computed, name.to_owned(), g, e, Precision::Sum),
        (None, None) => Ok(()),
        (Some(g), None) if is_zero(&g) => Ok(()),
        (Some(g), None) => Err(Stop::Failed(format!("{name}: {g:?}, expected none"))),
        (None, Some(_)) => Err(Stop::Failed(format!("{name}: none"))),
    }
}

/// Compares a value and keeps it for the second run.
fn note(
    computed: &mut Computed,
    name: String,
    found: Tensor,
    expected: &TensorSpec,
    precision: Precision,
) -> Result<(), Stop> {
    let expected = build::dense(expected).map_err(Stop::Unsupported)?;
    compare(&name, &found, &expected, precision)?;
    computed.push((name, found));
    Ok(())
}
