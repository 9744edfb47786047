//! Threads: graphs of their own, leaves and graphs in common, forks in the middle of a graph, and panics in what is a user's.

use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldback::graph::{
    Function, FunctionContext, GraphFacts, is_grad_enabled, queue_callback, register_multi_grad_hook,
};
use foldback::prelude::*;
use foldback::tensor::StateCell;

fn leaf(value: f32) -> Var {
    tensor![value].requires_grad()
}

#[test]
fn independent_graphs_in_many_threads() {
    std::thread::scope(|s| {
        for k in 1..=8 {
            s.spawn(move || {
                for _ in 0..50 {
                    let x = leaf(k as f32);
                    x.square().backward().unwrap();
                    assert_eq!(x.grad(), Some(tensor![2.0 * k as f32]));
                }
            });
        }
    });
}

#[test]
fn ten_threads_that_add_to_one_leaf() {
    let x = leaf(1.0);
    std::thread::scope(|s| {
        for _ in 0..10 {
            s.spawn(|| (0..100).for_each(|_| (&x * 3.0).backward().unwrap()));
        }
    });
    assert_eq!(x.grad(), Some(tensor![3000.0]));
}

#[test]
fn a_shared_graph_without_retain_graph_serves_one() {
    let x = leaf(2.0);
    let y = x.square();
    let won = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| match y.backward() {
                Ok(()) => _ = won.fetch_add(1, Ordering::SeqCst),
                Err(e) => assert!(matches!(e.facts(), Some(GraphFacts::Freed { .. }))),
            });
        }
    });
    let won = won.load(Ordering::SeqCst);
    assert!(won >= 1);
    assert_eq!(x.grad(), Some(tensor![4.0 * won as f32]));
}

/// Each thread records on the same leaves, goes backward, and hooks see every pass once. All sums are of small integers.
#[test]
fn hundreds_of_threads_share_leaves() {
    const THREADS: usize = 300;
    let (w, b) = (tensor![1.0, 2.0, 3.0].requires_grad(), leaf(1.0));
    let [seen, gathered, all] = [const { AtomicUsize::new(0) }; 3].map(std::sync::Arc::new);
    let count = |n: &std::sync::Arc<AtomicUsize>| {
        let n = n.clone();
        move || _ = n.fetch_add(1, Ordering::Relaxed)
    };
    let (note, gather, finish) = (count(&seen), count(&gathered), count(&all));
    w.register_hook(move |_| note()).unwrap();
    b.register_post_accumulate_grad_hook(move |_| finish()).unwrap();
    register_multi_grad_hook([&w, &b], move |grads| {
        assert!(grads.iter().all(Option::is_some));
        gather();
    })
    .unwrap();
    let start = Barrier::new(THREADS);
    std::thread::scope(|s| {
        for k in 0..THREADS {
            let (w, b, start) = (&w, &b, &start);
            std::thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(s, move || {
                    start.wait();
                    for _ in 0..3 {
                        let y = w.mul((k % 5) as f32).unwrap().add(b).unwrap();
                        y.sum(..).unwrap().backward().unwrap();
                    }
                })
                .unwrap();
        }
    });
    let factor = 3.0 * (THREADS / 5 * (1 + 2 + 3 + 4)) as f32;
    assert_eq!(w.grad(), Some(tensor![factor, factor, factor]));
    assert_eq!(b.grad(), Some(tensor![9.0 * THREADS as f32]));
    for n in [seen, gathered, all] {
        assert_eq!(n.load(Ordering::Relaxed), 3 * THREADS);
    }
}

/// A graph that forks into threads and is joined again has the gradients of one that was recorded by one thread, also where
/// another thread goes backward.
#[test]
fn a_fork_and_a_join_in_the_middle_of_a_graph() {
    manual_seed(1);
    let data = Tensor::randn([8, 16]);
    let gradients = |threads: bool| {
        manual_seed(2);
        let x = Tensor::randn([16, 16]).requires_grad();
        let h = x.matmul(data.t()).unwrap().tanh();
        let (h, x, data) = (&h, &x, &data);
        let branch = move |k: i32| (h * f64::from(k)).sin().matmul(data).unwrap() + x;
        let branches: Vec<Var> = if threads {
            std::thread::scope(|s| {
                let workers: Vec<_> = (1..=8).map(|k| s.spawn(move || branch(k))).collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).collect()
            })
        } else {
            (1..=8).map(branch).collect()
        };
        let mut sum = branches[0].clone();
        branches[1..].iter().for_each(|b| sum = &sum + b);
        let loss = sum.square().mean(..).unwrap();
        if threads {
            std::thread::spawn(move || loss.backward().unwrap()).join().unwrap();
        } else {
            loss.backward().unwrap();
        }
        x.grad().unwrap()
    };
    let (forked, plain) = (gradients(true), gradients(false));
    // Nodes of branches are numbered as the threads come, and sums follow the numbers.
    assert_close!(forked, plain, rtol = 1e-5, atol = 1e-6);
}

#[test]
fn many_threads_go_backward_through_one_graph_that_is_kept() {
    let x = tensor![1.0, 2.0].requires_grad();
    let (h, y) = {
        let h = x.square();
        (h.clone(), (&h * 3.0).sum(..).unwrap())
    };
    h.retain_grad().unwrap();
    h.grad_fn().unwrap().register_hook(|inputs, _| vec![inputs[0].as_ref().map(|g| g * 1.0)]);
    std::thread::scope(|s| {
        for _ in 0..100 {
            s.spawn(|| y.backward_with(Backward::new().retain_graph(true)).unwrap());
        }
    });
    assert_eq!(x.grad(), Some(tensor![600.0, 1200.0]));
    assert_eq!(h.grad(), Some(tensor![300.0, 300.0]));
}

/// Passes its input on, and panics on its way back while it is told to.
struct Moody(std::sync::Arc<AtomicUsize>);
impl Function for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        assert_eq!(self.0.load(Ordering::SeqCst), 0, "a bad day");
        Ok(vec![Some(ctx.grad(0))])
    }
}

/// A panic in any hook or function, in many threads at once, on common leaves: no gradient is lost or left, no mode stays
/// switched, and the same graphs, hooks and leaves go on.
#[test]
fn a_panic_in_a_hook_or_a_function_poisons_nothing() {
    type Plant = fn(&Var, &Var, std::sync::Arc<AtomicUsize>);
    /// What panics while `bad` is not 0.
    fn check(bad: &AtomicUsize) {
        assert_eq!(bad.load(Ordering::SeqCst), 0, "a bad day");
    }
    let plants: [(&str, Plant); 7] = [
        ("hook", |x, _, bad| drop(x.register_hook(move |_| check(&bad)).unwrap())),
        ("hook on a result", |_, y, bad| drop(y.register_hook(move |_| check(&bad)).unwrap())),
        ("pre-hook", |_, y, bad| drop(y.grad_fn().unwrap().register_prehook(move |_| check(&bad)))),
        ("post-hook", |_, y, bad| drop(y.grad_fn().unwrap().register_hook(move |_, _| check(&bad)))),
        ("post-accumulate hook", |x, _, bad| {
            drop(x.register_post_accumulate_grad_hook(move |_| check(&bad)).unwrap())
        }),
        ("multi hook", |x, y, bad| drop(register_multi_grad_hook([x, y], move |_| check(&bad)).unwrap())),
        ("callback", |x, _, bad| {
            let hook = move |_: &Var| {
                let bad = bad.clone();
                queue_callback(move || check(&bad))
            };
            drop(x.register_hook(hook).unwrap());
        }),
    ];
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    for (what, plant) in plants {
        let bad = std::sync::Arc::new(AtomicUsize::new(1));
        let (x, w) = (leaf(2.0), leaf(3.0));
        let y = Moody(std::sync::Arc::new(AtomicUsize::new(0))).call([&x * &w]).unwrap();
        plant(&x, &y, bad.clone());
        let pass = || y.backward_with(Backward::new().retain_graph(true)).unwrap();
        std::thread::scope(|s| {
            for _ in 0..16 {
                s.spawn(|| {
                    assert!(catch_unwind(AssertUnwindSafe(pass)).is_err(), "{what}");
                    assert!(is_grad_enabled() && queue_callback(|| ()).is_err(), "{what}");
                });
            }
        });
        let left = match what {
            "post-accumulate hook" => Some(tensor![48.0]),
            "callback" => Some(tensor![48.0]),
            _ => None,
        };
        assert_eq!(x.grad(), left, "{what}");
        assert_eq!(w.grad(), (what == "callback").then(|| tensor![32.0]), "{what}");
        x.zero_grad();
        w.zero_grad();
        bad.store(0, Ordering::SeqCst);
        pass();
        assert_eq!((x.grad(), w.grad()), (Some(tensor![3.0]), Some(tensor![2.0])), "{what}");
    }
    std::panic::set_hook(quiet);
}

/// Who catches panics need not assert that variables, layers and optimisers are whole afterwards.
#[test]
fn what_owns_variables_is_unwind_safe() {
    fn expect_safe<T: UnwindSafe + RefUnwindSafe>() {}
    expect_safe::<Var>();
    expect_safe::<Backward>();
    expect_safe::<foldback::graph::GradFn>();
    expect_safe::<foldback::graph::Operation<1>>();
    expect_safe::<Linear>();
    expect_safe::<Adam>();
    let y = tensor![1.0].requires_grad().exp();
    assert!(catch_unwind(|| y.backward()).is_ok_and(|done| done.is_ok()));
}

#[test]
fn training_goes_on_behind_functions_that_panic() {
    let bad = std::sync::Arc::new(AtomicUsize::new(0));
    let train = |panics: bool| {
        let w = tensor![1.0, -2.0].requires_grad();
        let sgd = SGD::new([&w], 0.1).momentum(0.9);
        let seen = StateCell::new(0);
        for step in 0..20 {
            let loss = Moody(bad.clone()).call([w.square().sum(..).unwrap()]).unwrap();
            let pass = || loss.backward_with(Backward::new().retain_graph(true));
            if panics && step % 3 == 0 {
                bad.store(1, Ordering::SeqCst);
                let caught = catch_unwind(AssertUnwindSafe(pass));
                seen.update(|n| *n += usize::from(caught.is_err()));
                bad.store(0, Ordering::SeqCst);
            }
            // What a function saved is gone if it panicked; this one saves nothing.
            sgd.zero_grad();
            pass().unwrap();
            sgd.step().unwrap();
        }
        assert_eq!(seen.into_inner(), if panics { 7 } else { 0 });
        w.value()
    };
    assert_eq!(train(true), train(false));
}
