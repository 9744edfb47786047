//! Checkpoints took a leaf for unchanged, or for changed, that was not, and lay on paths that do not lead through them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use foldback::graph::{GraphFacts, checkpoint};
use foldback::prelude::*;
use foldback::tensor::Generator;
use proptest::prelude::*;

/// `x` times a captured leaf, in a checkpoint that runs again after the leaf was written.
fn written(before: Tensor, after: Tensor) -> Result<Option<Tensor>> {
    let (x, mut w) = (tensor![1.0, 2.0].requires_grad(), before.requires_grad());
    let captured = w.clone();
    let y = checkpoint(move |x: &Var| x.mul(captured.reciprocal())?.sum(..), &x)?;
    w.set_value(after)?;
    y.backward()?;
    Ok(x.grad())
}

fn is_refused(result: Result<Option<Tensor>>) -> bool {
    result.is_err_and(|e| matches!(e.facts(), Some(GraphFacts::CheckpointChanged { .. })))
}

#[test]
fn a_leaf_that_became_another_part_of_one_buffer_has_changed() {
    let both = tensor![1.0, 2.0, 3.0, 4.0];
    let part = |start: isize| both.narrow(0, start, 2).unwrap();
    assert!(is_refused(written(part(0), part(2))));
    assert!(written(part(0), part(0)).is_ok());
}

#[test]
fn a_leaf_of_nan_is_itself_and_zero_is_not_its_negative() {
    for nan in [tensor![f32::NAN], Tensor::full((), f32::NAN), tensor![1.0, f32::NAN]] {
        assert!(written(nan.clone(), &nan * 1.0).is_ok());
    }
    assert!(is_refused(written(tensor![0.0], tensor![-0.0])));
}

#[test]
fn an_operand_that_no_result_depends_on_is_off_the_path() {
    let (x, unused) = (tensor![1.0].requires_grad(), tensor![2.0].requires_grad());
    let asked = |x: &[Var; 2]| {
        assert!(x[1].requires_grad(), "in every run");
        let _ = x[1].exp();
        x[0].exp()
    };
    let result = checkpoint(asked, [&x, &unused]).unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let hook = move |_: &Var| {
        count.fetch_add(1, Ordering::Relaxed);
    };
    result.register_hook(hook).unwrap();
    let y = result.sum(..).unwrap() + unused.square();
    let kept = || Backward::new().retain_graph(true);
    assert_eq!(grad_with(&y, &unused, kept()).unwrap().value(), tensor![4.0]);
    assert_eq!(seen.load(Ordering::Relaxed), 0, "nothing leads there");
    assert!(grad_with(&result, &unused, kept()).is_err());
    y.backward().unwrap();
    assert_eq!((seen.load(Ordering::Relaxed), unused.grad()), (1, Some(tensor![4.0])));
}

/// An operand that is also a result, and a result that is there twice, get their gradients one by one.
#[test]
fn sums_over_results_that_are_one_variable_have_the_plain_order() {
    let run = |wrapped: bool, seed: u64| -> Result<Vec<u64>> {
        let mut numbers = Generator::new(seed);
        let mut next = || numbers.rand([7]).to(DType::F64).exp();
        let (x, w) = (next().requires_grad(), next().requires_grad());
        let h = &x * next();
        let weight = w.clone();
        let body = move |x: &Var| -> Result<[Var; 4]> {
            let y = x.mul(&weight)?.sin();
            Ok([y.clone(), x.clone(), weight.clone(), y])
        };
        let [a, b, c, d] = if wrapped { checkpoint(body, &h)? } else { body(&h)? };
        let uses = [&d, &b, &a, &h, &d, &c, &b, &a, &w, &h, &c];
        let sum =
            uses.into_iter().try_fold(Var::from(Tensor::zeros([7])), |sum, v| sum.add(v.mul(next())?))?;
        sum.sum(..)?.backward()?;
        Ok([x.grad().unwrap(), w.grad().unwrap()].iter().flat_map(bits).collect())
    };
    for seed in 0..20 {
        assert_eq!(run(false, seed).unwrap(), run(true, seed).unwrap());
    }
}

/// A step of a random program: what is done, and with which earlier values.
type Step = (u8, usize, usize);

fn run(steps: &[Step], values: &mut Vec<Var>) -> Result<()> {
    for &(what, a, b) in steps {
        let (a, b) = (&values[a % values.len()], &values[b % values.len()]);
        values.push(match what % 7 {
            0 => a.add(b)?,
            1 => a.mul(b)?,
            2 => a.sub(b)?,
            3 => a.tanh(),
            4 => a.mul(a)?,
            5 => a.sum(keep(..))?.div(8.0)?,
            _ => a.sin(),
        });
    }
    Ok(())
}

/// Gradients of the last value of a program of which a stretch is in a checkpoint, or is not, and gradients of theirs.
/// What hooks on values outside the stretch see is noted.
fn gradients(steps: &[Step], stretch: (usize, usize), captured: bool, wrapped: bool) -> Result<Seen> {
    let mut values: Vec<Var> =
        vec![tensor![0.5, -1.25, 2.0; f64].requires_grad(), tensor![[0.75], [-0.5]; f64].requires_grad()];
    let leaves = values.clone();
    let (start, len) = (stretch.0 % steps.len(), 1 + stretch.1);
    let (inside, behind) = steps[start..].split_at(len.min(steps.len() - start));
    run(&steps[..start], &mut values)?;
    let (given, own) = values.split_at(if captured { 1 } else { values.len() });
    let (own, inside) = (own.to_vec(), inside.to_vec());
    let given = given.to_vec();
    let body = move |x: &[Var]| -> Result<Var> {
        let mut all = [x, &own[..]].concat();
        run(&inside, &mut all)?;
        Ok(all.pop().unwrap())
    };
    let result = if wrapped { checkpoint(body, given)? } else { body(&given)? };
    values.push(result);
    let log = Arc::new(Mutex::new(Vec::new()));
    for (at, v) in values.iter().enumerate().skip(2).filter(|(_, v)| v.requires_grad()) {
        let log = log.clone();
        v.register_hook(move |g| log.lock().unwrap().push((at, bits(&g.value())))).unwrap();
    }
    run(behind, &mut values)?;
    let y = values[values.len() - 1].sum(..)?;
    let inputs = [&leaves[0], &leaves[1]];
    let first = Grad::new([&y], inputs).create_graph(true).materialize_grads(true).run()?;
    let first: Vec<Var> = first.into_iter().flatten().collect();
    let hooks = std::mem::take(&mut *log.lock().unwrap());
    let (z, values) = (first[0].square().sum(..)? + first[1].sin().sum(..)?, |g: &Var| g.value());
    let firsts: Vec<Tensor> = first.iter().map(values).collect();
    if !z.requires_grad() {
        return Ok((hooks, firsts, Vec::new()));
    }
    let second = Grad::new([&z], inputs).materialize_grads(true).run()?;
    log.lock().unwrap().clear();
    Ok((hooks, firsts, second.iter().flatten().map(values).collect()))
}

/// What hooks have seen, gradients and second derivatives.
type Seen = (Vec<(usize, Vec<u64>)>, Vec<Tensor>, Vec<Tensor>);

fn bits(t: &Tensor) -> Vec<u64> {
    t.contiguous().to_vec::<f64>().unwrap().iter().map(|v| v.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// First derivatives and what hooks see have the bits of the plain program, second ones its value.
    #[test]
    fn random_programs_with_a_stretch_that_is_run_again(
        steps in prop::collection::vec((any::<u8>(), 0usize..50, 0usize..50), 1..10),
        stretch in (0usize..10, 0usize..3),
        captured in any::<bool>(),
    ) {
        let [plain, again] = [false, true].map(|wrapped| gradients(&steps, stretch, captured, wrapped).unwrap());
        prop_assert_eq!(plain.0, again.0);
        prop_assert_eq!(plain.1.iter().map(bits).collect::<Vec<_>>(), again.1.iter().map(bits).collect::<Vec<_>>());
        prop_assert_eq!(plain.2.len(), again.2.len());
        for (a, b) in plain.2.iter().zip(&again.2) {
            assert_close!(a, b, rtol = 1e-10, atol = 1e-10);
        }
    }
}
