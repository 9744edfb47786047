//! Anomaly mode, through its public doors, for every kind of operation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard};

use foldback_gradcheck::testing::{Random, fill};
use foldback_graph::{
    Backward, Domain, Function, FunctionContext, GraphFacts, RequiresGrad, Result, Var, detect_anomaly, fuse,
    grad, grad_with, is_anomaly_enabled, rows, set_detect_anomaly,
};
use foldback_tensor::{DType, Error, Tensor, tensor};

/// One test at a time: some switch the mode on for the process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Operation, line and the rest of what an error says was not finite.
fn facts(e: &Error) -> (&'static str, u32, usize, String, String) {
    match e.facts() {
        Some(GraphFacts::NotFinite { op, input, found, location, derivative_of, .. }) => {
            (op, location.line(), *input, found.clone(), derivative_of.clone())
        }
        _ => panic!("not an anomaly: {e}"),
    }
}

fn is_finite(t: &Tensor) -> bool {
    t.isfinite().to_vec::<bool>().unwrap().iter().all(|&finite| finite)
}

#[test]
fn nan_names_the_operation_and_the_line_that_recorded_it() {
    let _turn = alone();
    let x = tensor![0.0, 4.0].requires_grad();
    let (root, line) = (x.sqrt(), line!());
    let loss = (root * 0.0).sum(..).unwrap();
    let e = detect_anomaly(|| loss.backward()).unwrap_err();
    assert_eq!(facts(&e), ("sqrt", line, 0, "NaN in 1 of 2 elements".into(), String::new()));
    assert!(e.to_string().contains("anomaly.rs"), "{e}");
    assert_eq!(x.grad(), None);
}

#[test]
fn an_infinity_is_reported_before_the_nan_it_becomes() {
    let _turn = alone();
    let x = tensor![0.0].requires_grad();
    let scaled = &x * 0.0;
    let (logarithm, line) = (scaled.log(), line!());
    let e = detect_anomaly(|| logarithm.backward()).unwrap_err();
    assert_eq!(facts(&e), ("ln", line, 0, "infinity in 1 of 1 elements".into(), String::new()));
}

/// The hint is given behind a choice, where nothing arrived, and nowhere else.
#[test]
fn a_branch_that_is_not_taken_is_named_with_its_cure() {
    let _turn = alone();
    let x = tensor![0.0, 4.0].requires_grad();
    let chosen = |y: Var| x.gt(0.0)?.where_cond(y, 0.0);
    for (hinted, loss) in [
        (true, chosen(x.sqrt())),
        (true, chosen(x.sqrt() * 2.0 + 1.0)),
        (true, x.sqrt().masked_fill(x.le(0.0).unwrap(), 0.0)),
        (false, Ok(x.sqrt() * 0.0)),
        (false, chosen(x.sqrt()).and_then(|y| y.add(x.sqrt()))),
        (false, x.ge(0.0).and_then(|taken| taken.where_cond(x.sqrt(), 0.0))),
    ] {
        let loss = loss.unwrap().sum(..).unwrap();
        let text = detect_anomaly(|| loss.backward()).unwrap_err().to_string();
        assert!(text.starts_with("sqrt: the gradient of input 0 holds "), "{text}");
        assert_eq!(text.contains("Var::safe_where keeps them out"), hinted, "{text}");
    }
    let safe = Var::safe_where(x.gt(0.0).unwrap(), [&x], |[x]| Ok(x.sqrt()), |[x]| Ok(x * 0.0)).unwrap();
    detect_anomaly(|| safe.sum(..).unwrap().backward()).unwrap();
    assert_eq!(x.grad(), Some(tensor![0.0, 0.25]));
}

#[test]
fn a_sum_that_overflows_is_reported_where_it_does() {
    let _turn = alone();
    let x = tensor![1.0].requires_grad();
    let y = (&x * 3e38 + &x * 3e38).sum(..).unwrap();
    let e = detect_anomaly(|| y.backward()).unwrap_err();
    assert_eq!(facts(&e).0, "mul");
}

#[test]
fn nested_for_double_backward() {
    let _turn = alone();
    let x = tensor![0.0; f64].requires_grad();
    let (y, line) = (x.pow(1.5).unwrap(), line!());
    let e = detect_anomaly(|| {
        let slope = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
        grad(&slope, &x).unwrap_err()
    });
    let (_, at, _, _, origin) = facts(&e);
    assert_eq!(at, line);
    assert!(origin.starts_with(", in the derivative of pow recorded at "), "{e}");
    assert!(origin.contains(&format!("anomaly.rs:{line}:")), "{e}");
}

#[test]
fn the_chain_goes_on_to_the_third_derivative() {
    let _turn = alone();
    let x = tensor![0.0; f64].requires_grad();
    let y = x.pow(2.5).unwrap();
    let e = detect_anomaly(|| {
        let record = || Backward::new().create_graph(true);
        let first = grad_with(&y, &x, record()).unwrap();
        let second = grad_with(&first, &x, record()).unwrap();
        grad(&second, &x).unwrap_err()
    });
    let (.., origin) = facts(&e);
    assert!(origin.matches(", in the derivative of ").count() >= 2, "{e}");
    assert!(origin.ends_with(&origin[origin.rfind(", in the derivative of pow").unwrap()..]), "{e}");
}

#[test]
fn a_seed_and_a_hook_are_told_from_operations() {
    let _turn = alone();
    let x = tensor![1.0].requires_grad();
    let given = |e: &Error| match e.facts() {
        Some(GraphFacts::GivenNotFinite { what, op, .. }) => (what.clone(), *op),
        _ => panic!("{e}"),
    };
    let e = detect_anomaly(|| (&x * 2.0).backward_with(tensor![f32::NAN])).unwrap_err();
    assert_eq!(given(&e), ("the seed".to_string(), "mul"));
    let y = x.exp();
    let (_, line) = (y.register_hook(|g| g * f32::INFINITY).unwrap(), line!());
    let what =
        |line: u32, column: u32| format!("what the hook registered at {}:{line}:{column} returned", file!());
    let e = detect_anomaly(|| (&y * 2.0).backward()).unwrap_err();
    assert_eq!(given(&e), (what(line, 24), "exp"));
    let (_, line) = (x.register_hook(|g| g * f32::NAN).unwrap(), line!());
    let e = detect_anomaly(|| (&x * 2.0).backward()).unwrap_err();
    assert_eq!(given(&e), (what(line, 24), "AccumulateGrad"));
    assert_eq!(x.grad(), None);
}

#[test]
fn the_scope_belongs_to_its_thread_and_ends_with_a_panic() {
    let _turn = alone();
    let y = || tensor![0.0].requires_grad().sqrt();
    detect_anomaly(|| {
        detect_anomaly(|| assert!(is_anomaly_enabled()));
        assert!(y().backward().is_err());
        std::thread::scope(|s| s.spawn(|| y().backward().unwrap()).join().unwrap());
    });
    y().backward().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| detect_anomaly(|| panic!("no"))));
    assert!(panicked.is_err() && !is_anomaly_enabled());
}

#[test]
fn the_switch_of_the_process_reaches_every_thread() {
    let _turn = alone();
    let y = || tensor![0.0].requires_grad().sqrt();
    set_detect_anomaly(true);
    let there = std::thread::scope(|s| s.spawn(|| y().backward()).join().unwrap());
    let here = y().backward();
    set_detect_anomaly(false);
    assert!(there.is_err() && here.is_err());
    y().backward().unwrap();
}

/// Its gradient is what it is made with.
struct Gives(f64);
impl Function for Gives {
    fn name(&self) -> &'static str {
        "gives"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0] * 1.0])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0) * self.0)])
    }
}

#[test]
fn functions_of_ones_own_and_fused_expressions() {
    let _turn = alone();
    let x = tensor![0.0, 1.0].requires_grad();
    for recorded in [false, true] {
        let pass = |y: &Var| {
            let how = Backward::new().seed(tensor![1.0, 1.0]).create_graph(recorded);
            detect_anomaly(|| grad_with(y, &x, how)).map(|_| ())
        };
        let (y, line) = (Gives(f64::NAN).call([&x]).unwrap(), line!());
        let e = pass(&y).unwrap_err();
        assert_eq!((facts(&e).0, facts(&e).1), ("gives", line));
        pass(&Gives(2.0).call([&x]).unwrap()).unwrap();
        let (y, line) = (fuse!(|x| x.sqrt() * 2.0).call((&x,)).unwrap(), line!());
        let e = pass(&y).unwrap_err();
        assert_eq!(facts(&e).1, line);
    }
}

/// For every row of the table, with NaN and infinities among its operands: the mode refuses a pass exactly where it
/// would otherwise leave a gradient that is not finite, and names this file.
#[test]
fn every_row_of_the_table() {
    let _turn = alone();
    let (mut refused, mut passed) = (0, 0);
    for row in rows() {
        for sample in row.samples() {
            for bad in [None, Some(f64::NAN), Some(f64::INFINITY), Some(0.0)] {
                let mut random = Random::new(5);
                let fill = |(shape, domain): &(Vec<usize>, Domain)| {
                    let values = fill(shape, *domain, &mut random);
                    let float = *domain != Domain::Truth || !row.is_pointwise();
                    match bad {
                        Some(bad) if float && values.dtype().is_float() => &values * 0.0 + bad,
                        _ if float => values,
                        _ => values.to(DType::Bool),
                    }
                };
                let inputs: Vec<Tensor> = sample.inputs.iter().map(fill).collect();
                // Class numbers and the like cannot be NaN.
                let Some((plain, seed)) = gradients(sample.run, &inputs, None) else { continue };
                let what = format!("{} ({}), {bad:?}", row.name, sample.label);
                let found = detect_anomaly(|| gradients_or(sample.run, &inputs, &seed));
                match found {
                    Ok(same) => {
                        assert!(plain.iter().flatten().all(is_finite), "{what}: not refused");
                        assert_eq!(same.len(), plain.len());
                        passed += 1;
                    }
                    Err(e) => {
                        assert!(e.facts::<GraphFacts>().is_some(), "{what}: {e}");
                        let (_, line, ..) = facts(&e);
                        assert!(line > 0 && e.to_string().contains(".rs:"), "{what}: {e}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(refused > 300 && passed > 300, "{refused} refused, {passed} passed");
}

fn gradients(
    run: fn(&[Var]) -> Result<Var>,
    inputs: &[Tensor],
    seed: Option<&Tensor>,
) -> Option<(Vec<Option<Tensor>>, Tensor)> {
    let leaves = leaves(inputs);
    let y = run(&leaves).ok().filter(Var::requires_grad)?;
    let seed = seed.cloned().unwrap_or_else(|| Tensor::ones_with(y.shape(), y.dtype()));
    y.backward_with(&seed).ok()?;
    Some((leaves.iter().map(Var::grad).collect(), seed))
}

fn gradients_or(
    run: fn(&[Var]) -> Result<Var>,
    inputs: &[Tensor],
    seed: &Tensor,
) -> Result<Vec<Option<Tensor>>> {
    let leaves = leaves(inputs);
    run(&leaves)?.backward_with(seed)?;
    Ok(leaves.iter().map(Var::grad).collect())
}

fn leaves(inputs: &[Tensor]) -> Vec<Var> {
    let leaf = |t: &Tensor| if t.dtype().is_float() { t.clone().requires_grad() } else { Var::from(t) };
    inputs.iter().map(leaf).collect()
}
