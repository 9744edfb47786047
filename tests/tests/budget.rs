//! A budget of saved bytes: what is given up, and that nothing else changes by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldback::graph::{
    GraphFacts, GraphWatch, SavedBudget, checkpoint, hessian, jacobian, jvp, saved_budget,
};
use foldback::prelude::*;
use foldback_graph::{Backward, Domain, Grad, rows};

/// The gradients of some leaves.
fn gradients(leaves: &[&Var]) -> Vec<Option<Tensor>> {
    leaves.iter().map(|v| v.grad()).collect()
}

/// A program over two leaves.
type Program = fn(&Var, &Var) -> Result<Var>;

const PROGRAMS: &[(&str, Program)] = &[
    ("a chain", |x, _| x.exp().sin().tanh().sigmoid().sqrt().sum(..)),
    ("broadcast operands", |x, b| (x.unsqueeze(0)? - b.unsqueeze(1)?).square().tanh().mean(..)),
    ("a value that its operand's saver follows", |x, w| {
        let h = x.matmul(w.square())?;
        h.mul(h.sigmoid())?.tanh().sum(..)
    }),
    ("branches", |x, w| {
        let h = x.tanh();
        let y = (&h * &h + h.exp() * x.sigmoid() + &h).mul(w)?;
        (y.softmax(0)? * &y).sum(..)
    }),
    ("numbers on either side", |x, _| (1.5 - x.pow(3)? / 2.0).rdiv(3)?.clamp(-1.0, 1.0)?.square().sum(..)),
    ("views", |x, w| x.exp().t().matmul(&w.sin().reshape([4, 4])?)?.cos().flatten(..)?.sum(..)),
    ("sums in between", |x, w| {
        let centred = x - x.mean(0)?;
        (&centred / (centred.square().mean(0)? + 1e-5).sqrt() * w.sum(0)?).silu().sum(..)
    }),
];

fn leaves() -> (Var, Var) {
    manual_seed(0);
    ((Tensor::rand([4, 4]) + 0.1).requires_grad(), (Tensor::rand([4, 4]) + 0.1).requires_grad())
}

/// Runs a program with a budget or without, and what is asked of its result.
fn run<R>(
    budget: Option<usize>,
    program: Program,
    ask: impl FnOnce(&Var, &Var, Var) -> Result<R>,
) -> Result<(R, Option<SavedBudget>)> {
    let (x, w) = leaves();
    let (y, report) = match budget {
        None => (program(&x, &w)?, None),
        Some(bytes) => {
            let (y, report) = saved_budget(bytes, || program(&x, &w));
            (y?, Some(report))
        }
    };
    Ok((ask(&x, &w, y)?, report))
}

/// Compares what is asked of every program, for several budgets.
fn compare<R: PartialEq + std::fmt::Debug>(ask: impl Fn(&Var, &Var, Var) -> Result<R>) -> Result<()> {
    for (name, program) in PROGRAMS {
        let plain = run(None, *program, &ask)?.0;
        for budget in [0, 64, 100, 200, 1 << 20] {
            assert_eq!(run(Some(budget), *program, &ask)?.0, plain, "{name}, {budget} bytes");
        }
    }
    Ok(())
}

#[test]
fn every_program_gives_something_up() -> Result<()> {
    for (name, program) in PROGRAMS {
        let report = run(Some(0), *program, |_, _, _| Ok(()))?.1.unwrap();
        assert!(report.operations > 0 && report.given_up > 0, "{name}: {report}");
        let report = run(Some(1 << 20), *program, |_, _, _| Ok(()))?.1.unwrap();
        assert!(report.is_met() && report.operations == 0, "{name}: {report}");
    }
    Ok(())
}

#[test]
fn gradients_have_the_same_bits() -> Result<()> {
    compare(|x, w, y| {
        y.backward()?;
        Ok((y.value(), gradients(&[x, w])))
    })
}

#[test]
fn a_graph_that_is_retained_can_be_used_again() -> Result<()> {
    compare(|x, w, y| {
        y.backward_with(Backward::new().retain_graph(true))?;
        y.backward_with(Backward::new().retain_graph(true))?;
        y.backward()?;
        assert!(x.grad().is_none() || y.backward().is_err());
        Ok(gradients(&[x, w]))
    })
}

#[test]
fn second_derivatives_have_the_same_bits() -> Result<()> {
    compare(|x, w, y| {
        let first = Grad::new([&y], [x, w]).create_graph(true).allow_unused(true).pass()?;
        let norm = first
            .iter()
            .flatten()
            .try_fold(Var::from(tensor![0.0]), |sum, g| sum.add(g.square().sum(..)?))?;
        if norm.requires_grad() {
            norm.sum(..)?.backward()?;
        }
        Ok((norm.value(), gradients(&[x, w])))
    })
}

/// Every sample of every row, in a program whose values all depend on it: what a row makes again has its bits.
#[test]
fn every_row_makes_its_result_again() -> Result<()> {
    let mut wrong = Vec::new();
    for row in rows() {
        let mut again = 0;
        for sample in row.samples() {
            let input = |(shape, domain): &(Vec<usize>, Domain)| -> Result<Var> {
                let count: usize = shape.iter().product();
                let steps = Tensor::arange_with(0..count as i64, 1, DType::F32).reshape(shape.as_slice())?;
                Ok(match domain {
                    Domain::Truth => Var::from(steps.gt(0.5)?),
                    _ => (steps * 0.01 + 1.2).requires_grad(),
                })
            };
            let gradient = |budget: Option<usize>| -> Result<(usize, Vec<Option<Tensor>>)> {
                let inputs = sample.inputs.iter().map(input).collect::<Result<Vec<_>>>()?;
                // A product keeps the result.
                let program = || (sample.run)(&inputs)?.to(DType::F32).exp().square().sum(..);
                let (loss, operations) = match budget {
                    None => (program()?, 0),
                    Some(bytes) => {
                        let (loss, report) = saved_budget(bytes, program);
                        (loss?, report.operations)
                    }
                };
                if loss.requires_grad() {
                    loss.backward()?;
                }
                Ok((operations, inputs.iter().map(Var::grad).collect()))
            };
            let Ok((_, plain)) = gradient(None) else { continue };
            let (operations, found) = gradient(Some(0))?;
            again += operations;
            let bits = |grads: &[Option<Tensor>]| -> Vec<Vec<u32>> {
                let bits = |g: &Tensor| g.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect();
                grads.iter().flatten().map(bits).collect()
            };
            if bits(&plain) != bits(&found) {
                wrong.push(format!("{} ({})", row.name, sample.label));
            }
        }
        if row.is_pointwise() && again == 0 {
            wrong.push(format!("{}: nothing is given up", row.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Integers that are no `f64`, which the numbers of a rule are.
#[test]
fn integers_beyond_f64_have_the_same_bits() -> Result<()> {
    for n in [(1i64 << 60) + (1 << 36) + 1, (1 << 53) + 1, -(1 << 60) - (1 << 36) - 1, 1 << 53] {
        let run = |budget: usize| -> Result<Option<Tensor>> {
            let x = Tensor::linspace(0.1, 0.9, 64).requires_grad();
            saved_budget(budget, || x.mul(n)?.square().mul(1e-30)?.sum(..)).0?.backward()?;
            Ok(x.grad())
        };
        assert_eq!(run(0)?, run(1 << 20)?, "{n}");
    }
    Ok(())
}

/// Passes with many gradients, forward mode, and both.
#[test]
fn derivatives_of_functions_have_the_same_bits() -> Result<()> {
    let f = |x: &Var| -> Result<Var> { (x.exp() * x.sin()).tanh().cumsum(0)?.sigmoid().mul(x) };
    let x = Tensor::linspace(0.1, 0.9, 5);
    let all = |x: &Tensor| -> Result<Vec<Tensor>> {
        let (y, tangent) = jvp(f, x, x.ones_like())?;
        Ok([jacobian(f, x)?, hessian(|x| f(x)?.sum(..), x)?, y, tangent].iter().map(Var::value).collect())
    };
    let plain = all(&x)?;
    for budget in [0, 30, 50] {
        assert_eq!(saved_budget(budget, || all(&x)).0?, plain);
    }
    Ok(())
}

#[test]
fn hooks_run_as_without() -> Result<()> {
    let run = |budget: usize| -> Result<(Option<Tensor>, usize)> {
        let x = Tensor::linspace(0.1, 0.9, 64).requires_grad();
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = calls.clone();
        let program = || -> Result<Var> {
            let h = x.exp().sin();
            h.register_hook(move |g| {
                counter.fetch_add(1, Ordering::Relaxed);
                Some(g * 2.0)
            })?;
            h.tanh().sum(..)
        };
        saved_budget(budget, program).0?.backward()?;
        Ok((x.grad(), calls.load(Ordering::Relaxed)))
    };
    assert_eq!(run(0)?, run(1 << 20)?);
    Ok(())
}

/// A checkpoint inside, whose second run is outside of the budget; and a budget inside a checkpoint.
#[test]
fn checkpoints_and_budgets_go_together() -> Result<()> {
    let block = |x: &Var| -> Result<Var> { x.exp().sin().tanh().mul(x) };
    let run = |budget: Option<usize>, inner: Option<usize>| -> Result<Option<Tensor>> {
        let x = Tensor::linspace(0.1, 0.9, 64).requires_grad();
        let program = || -> Result<Var> {
            let h = x.sigmoid();
            let h = match inner {
                None => checkpoint(move |h| block(&h[0]), [&h])?,
                Some(bytes) => checkpoint(move |h| saved_budget(bytes, || block(&h[0])).0, [&h])?,
            };
            block(&h)?.sum(..)
        };
        match budget {
            None => program()?,
            Some(bytes) => saved_budget(bytes, program).0?,
        }
        .backward()?;
        Ok(x.grad())
    };
    let plain = run(None, None)?;
    for (budget, inner) in [(Some(0), None), (Some(600), None), (None, Some(0)), (Some(0), Some(0))] {
        assert_eq!(run(budget, inner)?, plain, "{budget:?}, {inner:?}");
    }
    Ok(())
}

/// What is computed again is made of what was there, not of what was written since.
#[test]
fn writes_come_too_late() -> Result<()> {
    let run = |budget: usize| -> Result<Vec<Option<Tensor>>> {
        let (x, w) = leaves();
        let mut buffer = Tensor::linspace(1.0, 2.0, 16).reshape([4, 4])?;
        let program = || -> Result<Var> {
            let mut h = x.mul(&buffer)?.exp();
            let early = h.sin();
            h.mul_(&w)?;
            (h.tanh() * early).sum(..)
        };
        let loss = saved_budget(budget, program).0?;
        buffer.fill_(7.0)?;
        for leaf in [&x, &w] {
            leaf.update_value(|t| t.mul_(3.0).map(|_| ()))?;
        }
        loss.backward()?;
        Ok(gradients(&[&x, &w]))
    };
    assert_eq!(run(0)?, run(1 << 20)?);
    Ok(())
}

/// A graph goes to another thread, and two threads use one at a time.
#[test]
fn other_threads_compute_again() -> Result<()> {
    let (x, _) = leaves();
    let (loss, _) = saved_budget(0, || x.exp().sin().tanh().sum(..));
    let loss = loss?;
    std::thread::scope(|scope| {
        let pass = || loss.backward_with(Backward::new().retain_graph(true));
        let passes = [scope.spawn(pass), scope.spawn(pass)];
        passes.into_iter().try_for_each(|p| p.join().unwrap())
    })?;
    let (plain, _) = leaves();
    let loss = plain.exp().sin().tanh().sum(..)?;
    loss.backward_with(Backward::new().retain_graph(true))?;
    loss.backward()?;
    assert_eq!(x.grad(), plain.grad());
    Ok(())
}

#[test]
fn a_scope_belongs_to_its_thread_and_ends_with_a_panic() -> Result<()> {
    let (x, _) = leaves();
    let watched = |bytes: usize| -> Result<usize> {
        let watch = GraphWatch::new();
        let y = x.exp();
        let saved = watch.saved_bytes();
        assert_eq!(saved, bytes);
        drop(y);
        Ok(saved)
    };
    let panics = || saved_budget(0, || panic!("in the scope"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    watched(64)?;
    let ((), report) = saved_budget(0, || {
        std::thread::scope(|scope| scope.spawn(|| watched(64)).join().unwrap()).map(|_| ()).unwrap();
    });
    assert_eq!((report.kept, report.given_up), (0, 0));
    Ok(())
}

/// What a pass has used is freed, with a budget as without: a second pass is refused where one was before, and where nothing
/// is saved it is not.
#[test]
fn a_pass_frees_what_it_used() -> Result<()> {
    let (x, _) = leaves();
    let watch = GraphWatch::new();
    let (loss, report) = saved_budget(0, || x.exp().sin().sum(..));
    let loss = loss?;
    assert_eq!((report.kept, report.given_up, watch.saved_bytes()), (0, 64, 64), "the leaf's value");
    loss.backward()?;
    assert_eq!(watch.saved_bytes(), 0);
    let e = loss.backward().unwrap_err();
    assert!(matches!(e.facts(), Some(GraphFacts::Freed { op: "sin", .. })), "{e}");
    let (sum, _) = saved_budget(0, || (&x + 1.0).sum(..));
    let sum = sum?;
    sum.backward()?;
    sum.backward()
}

/// A budget in between gives up the largest first, and no more than it must.
#[test]
fn the_largest_are_given_up_first() -> Result<()> {
    let x = Tensor::linspace(0.1, 0.9, 256).requires_grad();
    let program = || -> Result<Var> {
        let small = x.narrow(0, 0, 64)?.exp().tanh();
        let large = x.exp().tanh();
        small.sum(..)?.add(large.sum(..)?)
    };
    let report = |bytes: usize| -> Result<(usize, usize, usize)> {
        let (y, report) = saved_budget(bytes, program);
        y?;
        Ok((report.kept, report.given_up, report.operations))
    };
    assert_eq!(report(4096)?, (2 * 256 + 2 * 1024, 0, 0));
    assert_eq!(report(2000)?, (2 * 256 + 1024, 1024, 1));
    assert_eq!(report(600)?, (2 * 256, 2 * 1024, 2));
    Ok(())
}

/// What cannot be computed again stays, and the report says so.
#[test]
fn what_is_not_cheap_stays() -> Result<()> {
    let (x, w) = leaves();
    let (y, report) = saved_budget(0, || x.matmul(&w)?.softmax(0)?.square().sum(..));
    y?;
    assert!(!report.is_met());
    assert_eq!((report.kept, report.given_up, report.operations), (64, 0, 0));
    assert_eq!(report.to_string(), "keeps 64 of 64 bytes, 0 results given up; the budget is 0");
    // The operand of the sigmoid would have to be kept in its place.
    let (y, report) = saved_budget(0, || x.matmul(&w)?.sigmoid().sum(..));
    y?;
    assert_eq!((report.kept, report.operations), (64, 0));
    Ok(())
}

/// Without recursion, and in linear time: nothing is computed more than twice.
#[test]
fn a_long_chain_goes_back_and_is_dropped() -> Result<()> {
    const N: usize = 20_000;
    let run = |backward: bool| -> Result<Option<Tensor>> {
        let x = tensor![0.3, 0.7].requires_grad();
        let (y, report) = saved_budget(0, || {
            let mut y = x.sin();
            for _ in 0..N {
                y = y.sin() * 1.0001;
            }
            y
        });
        assert_eq!((report.kept, report.operations), (0, N));
        if backward {
            y.sum(..)?.backward()?;
        }
        Ok(x.grad())
    };
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let found = small.spawn(move || run(false).and_then(|_| run(true))).unwrap().join().unwrap()?;
    let x = tensor![0.3, 0.7].requires_grad();
    let mut y = x.sin();
    for _ in 0..N {
        y = y.sin() * 1.0001;
    }
    y.sum(..)?.backward()?;
    assert_eq!(found, x.grad());
    Ok(())
}
