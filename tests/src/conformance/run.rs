//! One case: built, called, differentiated twice, compared, and looked after for what it leaves behind.

use foldback_graph::{Backward, Grad, Var, backward, live_nodes};
use foldback_tensor::{DType, Tensor};

use super::args::{Args, Refusal};
use super::build;
use super::case::{Case, Expected, Results, Second, TensorSpec};
use super::close::{Precision, compare, compare_computed, is_zero, largest, same_bits};
use super::page::is_left_out;
use super::table::{self, Operation};

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// the reason
    Failed(String),
    /// the name of what the library lacks
    Unsupported(String),
}

/// Why a case did not pass.
pub(crate) enum Stop {
    Failed(String),
    Unsupported(String),
}

impl From<String> for Stop {
    fn from(reason: String) -> Stop {
        Stop::Failed(reason)
    }
}

/// What PyTorch writes over its arguments, and rows that take them give behind the results.
const WRITTEN: [&str; 2] = ["running_mean", "running_var"];

/// Everything that one run of a case computed, in a fixed order.
type Computed = Vec<(String, Tensor)>;

/// What has been computed, and what the accuracy of gradients depends on.
struct Notes {
    computed: Computed,
    /// the coarsest type that gradients pass through
    dtype: DType,
    /// the size of the largest output
    numel: usize,
    /// the largest expected gradient of the order at hand
    terms: f64,
}

/// Runs a case twice. Panics are the caller's to catch.
pub(crate) fn run(case: &Case) -> Verdict {
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
    if let Some(name) = unknown(case, operation, &args) {
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

/// The first argument that the row does not take. One that is left out by design may be said to be off.
fn unknown<'a>(case: &Case, operation: &Operation, args: &'a Args) -> Option<&'a str> {
    let off = |name: &str| is_left_out(&case.op, name) && args.flag(name, true).is_ok_and(|on| !on);
    args.names().find(|name| !operation.takes(name) && !off(name))
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
    let dtypes = outputs.iter().map(Var::dtype).filter(|d| d.is_float());
    let output_dtype = dtypes.min().unwrap_or(DType::F64);
    let mut notes = Notes {
        computed: Computed::new(),
        dtype: output_dtype,
        numel: outputs.iter().map(Var::numel).max().unwrap_or(0),
        terms: 0.0,
    };
    let (outputs, written) = outputs.split_at(results.outputs.len().min(outputs.len()));
    let explained = written.is_empty()
        || written.len() == WRITTEN.len() && WRITTEN.iter().all(|name| operation.takes(name));
    if outputs.len() != results.outputs.len() || !explained {
        let (found, expected) = (outputs.len() + written.len(), results.outputs.len());
        return Err(Stop::Failed(format!("{found} outputs, expected {expected}")));
    }
    for (i, (found, expected)) in outputs.iter().zip(&results.outputs).enumerate() {
        let (name, expected) = (format!("output {i}"), dense(expected)?);
        compare(&name, &found.value(), &expected, operation.precision)?;
        notes.computed.push((name, found.value()));
    }
    for (name, data) in &results.after {
        let input =
            case.inputs.iter().find(|i| i.name == *name).ok_or_else(|| format!("no input `{name}`"))?;
        let expected = build::written(&input.tensor, data).map_err(Stop::Unsupported)?;
        // An in-place operation's result is its input afterwards.
        let place = WRITTEN.iter().position(|own| own == name);
        let found = place.and_then(|i| written.get(i)).unwrap_or(&outputs[0]).value();
        compare(&format!("`{name}` afterwards"), &found, &expected, operation.precision)?;
        notes.computed.push((name.clone(), found));
    }
    let Some(grads) = &results.grads else { return Ok(notes.computed) };
    let seeded: Vec<(usize, &TensorSpec)> =
        results.seeds.iter().enumerate().filter_map(|(i, s)| Some((i, s.as_ref()?))).collect();
    let roots: Vec<&Var> = seeded.iter().map(|&(i, _)| &outputs[i]).collect();
    let seeds = seeded.iter().map(|&(_, s)| build::dense(s)).collect::<Result<Vec<_>, _>>()?;
    if roots.iter().any(|r| !r.requires_grad()) {
        let second = results.second.iter().flat_map(|s| s.inputs.iter().chain(&s.seeds));
        let mut wanted = grads.iter().chain(second).flatten();
        let constant = table::writes_constants(case);
        let untracked = wanted.all(|g| constant && dense(g).is_ok_and(|g| is_zero(&g)));
        return if untracked {
            Ok(notes.computed)
        } else {
            Err("an output does not require a gradient".to_owned().into())
        };
    }
    let by_design = table::second_order_by_design(case);
    if let (Some(second), None) = (&results.second, by_design) {
        second_order(&mut notes, case, leaves, &roots, &seeds, grads, second)?;
    }
    notes.dtype = output_dtype;
    first_order(&mut notes, case, leaves, &roots, &seeds, grads)?;
    if let (Some(name), Some(_)) = (by_design, &results.second) {
        return Err(Stop::Unsupported(name.into()));
    }
    Ok(notes.computed)
}

/// Gradients as `backward` leaves them in the leaves.
fn first_order(
    notes: &mut Notes,
    case: &Case,
    leaves: &[Var],
    roots: &[&Var],
    seeds: &[Tensor],
    grads: &[Option<TensorSpec>],
) -> Result<(), Stop> {
    let seeds: Vec<Var> = seeds.iter().map(Var::from).collect();
    let seeds: Vec<&Var> = seeds.iter().collect();
    notes.terms = largest_of(grads)?;
    backward(roots, Backward::new().seeds(&seeds)).map_err(|e| format!("backward: {e}"))?;
    for ((leaf, expected), input) in leaves.iter().zip(grads).zip(&case.inputs) {
        gradient(notes, &format!("gradient of `{}`", input.name), leaf.grad(), expected)?;
    }
    Ok(())
}

/// First-order gradients with a history, and the gradients of their product with the directions.
fn second_order(
    notes: &mut Notes,
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
    notes.terms = largest_of(grads)?;
    let mut sum: Option<Var> = None;
    for (g, &i) in first.iter().zip(&tracked) {
        let name = &case.inputs[i].name;
        gradient(notes, &format!("recorded gradient of `{name}`"), g.as_ref().map(Var::value), &grads[i])?;
        if let (Some(g), Some(v)) = (g, &second.directions[i]) {
            let product = g.mul(&build::dense(v)?).and_then(|p| p.sum(..)).map_err(|e| e.to_string())?;
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
            let grads = Grad::new([&s], &all).materialize_grads(true).retain_graph(true).run();
            grads.map_err(|e| format!("second order: {e}"))?
        }
        None => all.iter().map(|v| Some(Var::from(v.value().zeros_like()))).collect(),
    };
    // They passed through the first-order gradients, which have the types of the inputs.
    notes.dtype = inputs.iter().map(|v| v.dtype()).fold(notes.dtype, DType::min);
    notes.terms = largest_of(&second.inputs)?.max(largest_of(&second.seeds)?);
    let (to_inputs, to_seeds) = found.split_at(inputs.len());
    for (g, &i) in to_inputs.iter().zip(&tracked) {
        let name = format!("second-order gradient of `{}`", case.inputs[i].name);
        gradient(notes, &name, g.as_ref().map(Var::value), &second.inputs[i])?;
    }
    let expected = second.seeds.iter().zip(roots_of(second.seeds.len(), case)).filter(|(_, seeded)| *seeded);
    for (n, (g, (expected, _))) in to_seeds.iter().zip(expected).enumerate() {
        gradient(notes, &format!("second-order gradient of seed {n}"), g.as_ref().map(Var::value), expected)?;
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
///
/// It passed through the outputs, so it is no more accurate than their type. One that is smaller than the outputs is a
/// sum of terms that the case does not show; the other gradients of its order tell how large they are.
fn gradient(
    notes: &mut Notes,
    name: &str,
    found: Option<Tensor>,
    expected: &Option<TensorSpec>,
) -> Result<(), Stop> {
    match (found, expected) {
        (Some(g), Some(e)) => {
            let terms = if g.numel() < notes.numel { notes.terms } else { 0.0 };
            compare_computed(name, &g, &dense(e)?, Precision::Sum, notes.dtype, terms)?;
            notes.computed.push((name.to_owned(), g));
            Ok(())
        }
        (None, None) => Ok(()),
        (Some(g), None) if is_zero(&g) => Ok(()),
        (Some(g), None) => Err(Stop::Failed(format!("{name}: {g:?}, expected none"))),
        (None, Some(_)) => Err(Stop::Failed(format!("{name}: none"))),
    }
}

/// The largest finite magnitude among some written tensors.
fn largest_of(written: &[Option<TensorSpec>]) -> Result<f64, Stop> {
    let each = written.iter().flatten().map(|t| Ok(largest(&dense(t)?)));
    each.collect::<Result<Vec<f64>, Stop>>().map(|all| all.into_iter().fold(0.0, f64::max))
}

fn dense(spec: &TensorSpec) -> Result<Tensor, Stop> {
    build::dense(spec).map_err(Stop::Unsupported)
}

/// The dtypes that a call gives, for a case of which only operation, inputs and arguments are written.
///
/// # Errors
/// The words of the refusal.
pub fn result_dtypes(case: &str) -> Result<Vec<DType>, String> {
    let case = Case::parse(case)?;
    let operation = table::find(&case.op).ok_or_else(|| format!("unsupported operation {}", case.op))?;
    let inputs = inputs(&case).map_err(|stop| match stop {
        Stop::Failed(text) | Stop::Unsupported(text) => text,
    })?;
    let named = case.inputs.iter().map(|i| i.name.clone()).zip(inputs).collect();
    let args = Args::new(named, case.args.clone());
    if let Some(name) = unknown(&case, operation, &args) {
        return Err(format!("unsupported argument {name}"));
    }
    match (operation.call)(&args) {
        Ok(outputs) => Ok(outputs.iter().map(Var::dtype).collect()),
        Err(Refusal::Library(text) | Refusal::Argument(text)) => Err(text),
        Err(Refusal::Unsupported(text)) => Err(format!("unsupported {text}")),
    }
}
