//! Checkpoints: the bits of the plain program, its random numbers, its memory, and what is refused.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use foldback::prelude::*;
use foldback_graph::{GraphFacts, checkpoint, detect_anomaly, jvp, live_nodes};
use foldback_tensor::{set_num_threads, set_pool_limit};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// One test at a time: some count bytes.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    set_pool_limit(0);
    set_num_threads(1);
    turn
}

fn bits(t: Tensor) -> Vec<u32> {
    t.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect()
}

fn grads(leaves: &[Var]) -> Vec<Option<Vec<u32>>> {
    leaves.iter().map(|v| v.grad().map(bits)).collect()
}

/// A chain of blocks, `x`, weights; each block in a checkpoint or not.
fn chain(blocks: usize, rows: usize, checkpointed: bool, calls: &Arc<AtomicUsize>) -> (Var, Vec<Var>) {
    manual_seed(3);
    let mut leaves = vec![Tensor::randn((rows, 8)).requires_grad()];
    for _ in 0..blocks {
        leaves.push((Tensor::randn((8, 8)) * 0.3).requires_grad());
    }
    let mut h = leaves[0].clone();
    for w in &leaves[1..] {
        let (weight, counted) = (w.clone(), calls.clone());
        let f = move |x: &Var| {
            counted.fetch_add(1, Ordering::Relaxed);
            let turned = x.matmul(&weight)?.tanh();
            x.add(turned.mul(x.sigmoid())?)
        };
        h = if checkpointed { checkpoint(f, &h).unwrap() } else { f(&h).unwrap() };
    }
    (h.square().mean(..).unwrap(), leaves)
}

#[test]
fn gradients_have_the_bits_of_the_plain_program() {
    let _turn = alone();
    let calls = Arc::default();
    let (plain, a) = chain(5, 3, false, &calls);
    let (checkpointed, b) = chain(5, 3, true, &calls);
    assert_eq!(bits(plain.value()), bits(checkpointed.value()));
    plain.backward().unwrap();
    checkpointed.backward().unwrap();
    assert!(grads(&a).iter().all(Option::is_some));
    assert_eq!(grads(&a), grads(&b));
}

/// An operand with three consumers in the block and others outside: the order of the sum is the plain one.
#[test]
fn sums_of_gradients_have_the_plain_order() {
    let _turn = alone();
    let run = |wrapped: bool| {
        manual_seed(1);
        let x = Tensor::randn(64).requires_grad();
        let before = x.sin();
        let f = |[x, before]: &[Var; 2]| x.exp().add(x.mul(before)?)?.mul(x);
        let y = if wrapped { checkpoint(f, [&x, &before]) } else { f(&[x.clone(), before.clone()]) }.unwrap();
        (y * x.cos() + &before + x.tanh()).sum(..).unwrap().backward().unwrap();
        bits(x.grad().unwrap())
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn residual_chains_of_20_blocks_take_linear_time() {
    let _turn = alone();
    let calls = Arc::new(AtomicUsize::new(0));
    let (loss, _) = chain(20, 2, true, &calls);
    assert_eq!(calls.load(Ordering::Relaxed), 20);
    loss.backward().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 40);
}

#[test]
fn the_peak_of_a_long_chain_falls() {
    let _turn = alone();
    let peak = |checkpointed| {
        let calls = Arc::default();
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let (loss, _leaves) = chain(40, 512, checkpointed, &calls);
        loss.backward().unwrap();
        ALLOCATOR.peak_usage() - before
    };
    let (plain, less) = (peak(false), peak(true));
    // A block saves three values and its operand; a checkpoint the operand.
    assert!(less * 2 < plain, "{plain} bytes, {less} with checkpoints");
}

#[test]
fn under_grad_nothing_is_written_to_leaves() {
    let _turn = alone();
    let calls = Arc::default();
    let (loss, leaves) = chain(3, 3, true, &calls);
    let found = grad(&loss, &leaves).unwrap();
    assert!(leaves.iter().all(|v| v.grad().is_none()));
    let (loss, leaves) = chain(3, 3, false, &calls);
    let expected = grad(&loss, &leaves).unwrap();
    let values = |g: &[Var]| g.iter().map(|g| bits(g.value())).collect::<Vec<_>>();
    assert_eq!(values(&found), values(&expected));
}

/// Only what leads to the inputs is run: the hook of a value on another way is not.
#[test]
fn under_grad_what_is_off_the_path_is_not_run() {
    let _turn = alone();
    let (x, w) = (tensor![1.0].requires_grad(), tensor![2.0].requires_grad());
    let ran = Arc::new(AtomicBool::new(false));
    let (weight, flag) = (w.clone(), ran.clone());
    let f = move |x: &Var| {
        let (side, flag) = (weight.exp(), flag.clone());
        side.register_hook(move |_| flag.store(true, Ordering::Relaxed))?;
        x.mul(side)
    };
    let y = checkpoint(f, &x).unwrap();
    assert_eq!(grad_with(&y, &x, Backward::new().retain_graph(true)).unwrap().value(), w.value().exp());
    assert!(!ran.load(Ordering::Relaxed));
    grad(&y, &w).unwrap();
    assert!(ran.load(Ordering::Relaxed));
}

#[test]
fn derivatives_of_higher_order() {
    let _turn = alone();
    let third = |wrapped: bool| {
        let (x, w) = (tensor![0.7].requires_grad(), tensor![1.3].requires_grad());
        let weight = w.clone();
        let f = move |x: &Var| x.mul(&weight)?.sin().mul(x);
        let y = if wrapped { checkpoint(f, &x) } else { f(&x) }.unwrap();
        let record = || Backward::new().create_graph(true);
        let first = grad_with(&y, &x, record()).unwrap();
        let [second, mixed] = grad_with(&first, [&x, &w], record()).unwrap();
        let third = grad(&second + &mixed, &x).unwrap();
        [first, second, mixed, third].map(|g| bits(g.value()))
    };
    assert_eq!(third(false), third(true));
    foldback_gradcheck::gradgradcheck(
        |x| checkpoint(|[a, b]| a.mul(b)?.tanh().sum(..), [&x[0], &x[1]]),
        &[tensor![0.5, -1.0; f64], tensor![[2.0], [0.3]; f64]],
    )
    .unwrap();
}

/// In one pass with many gradients: the function runs again once.
#[test]
fn jacobians() {
    let _turn = alone();
    let calls = Arc::new(AtomicUsize::new(0));
    let rows = |wrapped: bool| {
        let (x, w) = (tensor![0.5, -1.0, 2.0].requires_grad(), tensor![1.5, 0.2, 1.0].requires_grad());
        let (weight, counted) = (w.clone(), calls.clone());
        let f = move |x: &Var| {
            counted.fetch_add(1, Ordering::Relaxed);
            x.mul(&weight)?.tanh().softmax(0)?.mul(x)
        };
        let y = if wrapped { checkpoint(f, &x) } else { f(&x) }.unwrap();
        let seeds = Var::from(Tensor::eye(3));
        let found = Grad::new([&y], [&x, &w]).seeds(&[&seeds]).is_grads_batched(true).run().unwrap();
        found.into_iter().flatten().map(|g| bits(g.value())).collect::<Vec<_>>()
    };
    assert_eq!(rows(false), rows(true));
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    let through = |x: &Var| checkpoint(|x| x.square().sum(..), x);
    let (y, slope) = jvp(through, &tensor![1.0, 2.0], &tensor![1.0, 0.5]).unwrap();
    assert_eq!((y.value(), slope.value()), (tensor![5.0].sum(..).unwrap(), tensor![4.0].sum(..).unwrap()));
}

#[test]
fn nested() {
    let _turn = alone();
    let run = |wrapped: bool| {
        manual_seed(5);
        let dropout = Arc::new(Dropout::new(0.5).seed(9));
        let (x, w) = (Tensor::randn(16).requires_grad(), Tensor::randn(16).requires_grad());
        let (weight, own) = (w.clone(), dropout.clone());
        let inner = move |x: &Var| {
            let dropped = own.forward(&x.mul(&weight)?)?;
            dropped.mul(Tensor::rand(16))
        };
        let inner = Arc::new(inner);
        let outer = move |x: &Var| {
            let (a, noise) = (inner.clone(), Tensor::rand(16));
            let middle = x.exp().mul(&noise)?;
            let y = if wrapped { checkpoint(move |x| a(x), &middle)? } else { a(&middle)? };
            y.mul(Tensor::rand(16))?.tanh().sum(..)
        };
        let y = if wrapped { checkpoint(outer, &x) } else { outer(&x) }.unwrap();
        let after = (Tensor::rand(2), dropout.forward(Tensor::ones(16)).unwrap().value());
        y.backward().unwrap();
        let drawn = (Tensor::rand(2), dropout.forward(Tensor::ones(16)).unwrap().value());
        (bits(y.value()), grads(&[x, w]), after, drawn)
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn the_same_random_numbers_again() {
    let _turn = alone();
    let run = |wrapped: bool, seeded: bool| {
        manual_seed(7);
        let dropout = Arc::new(if seeded { Dropout::new(0.5).seed(1) } else { Dropout::new(0.5) });
        let x = Tensor::ones(64).requires_grad();
        let layer = dropout.clone();
        let f = move |x: &Var| layer.forward(&layer.forward(x.exp())?);
        let y = if wrapped { checkpoint(f, &x) } else { f(&x) }.unwrap();
        let between = dropout.forward(Tensor::ones(8)).unwrap().value();
        // In another thread, whose generator is another.
        std::thread::scope(|s| s.spawn(|| y.sum(..).unwrap().backward().unwrap()).join().unwrap());
        (bits(y.value()), grads(&[x]), between, Tensor::rand(3))
    };
    for seeded in [false, true] {
        assert_eq!(run(false, seeded), run(true, seeded));
    }
}

#[test]
fn several_results_one_of_them_unused_one_an_input_one_constant() {
    let _turn = alone();
    let x = tensor![2.0, 3.0].requires_grad();
    let f = |x: &Var| Ok([x.square(), x.clone(), x.detach(), x.exp()]);
    let [square, same, constant, unused] = checkpoint(f, &x).unwrap();
    assert!(unused.requires_grad() && !constant.requires_grad());
    (square * &constant + same).sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![9.0, 19.0]));
}

#[test]
fn operands_given_twice_numbers_and_without_gradients() {
    let _turn = alone();
    let x = tensor![2.0, 3.0].requires_grad();
    let f = |[a, b, c]: &[Var; 3]| a.mul(b)?.mul(c);
    let y = checkpoint(f, [&x, &x, &Var::from(tensor![1.0, 10.0])]).unwrap();
    y.sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![4.0, 60.0]));
    let constant = checkpoint(|x| x.exp(), x.detach()).unwrap();
    assert!(!constant.requires_grad());
    let quiet = no_grad(|| checkpoint(|x| x.exp(), &x)).unwrap();
    assert!(!quiet.requires_grad());
}

#[test]
fn captured_results_get_their_gradients_and_hooks_run_once_on_the_sum() {
    let _turn = alone();
    let x = tensor![2.0].requires_grad();
    let h = x.square();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = seen.clone();
    h.register_hook(move |g| list.lock().unwrap().push(g.value())).unwrap();
    let captured = h.clone();
    let y = checkpoint(move |x| x.mul(&captured), &x).unwrap();
    (y + &h).backward().unwrap();
    assert_eq!(*seen.lock().unwrap(), [tensor![3.0]]);
    assert_eq!(x.grad(), Some(tensor![16.0]));
}

#[test]
fn twice_with_retain_graph_and_an_error_without() {
    let _turn = alone();
    let x = tensor![2.0].requires_grad();
    let y = checkpoint(|x| x.square(), &x).unwrap();
    y.backward_with(Backward::new().retain_graph(true)).unwrap();
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![8.0]));
    let e = y.backward().unwrap_err();
    assert!(matches!(e.facts(), Some(GraphFacts::Freed { op: "checkpoint", .. })), "{e}");
}

/// What a recompute that differs says.
fn changed(loss: &Var) -> String {
    let e = loss.backward().unwrap_err();
    match e.facts() {
        Some(GraphFacts::CheckpointChanged { what, .. }) => what.clone(),
        _ => panic!("{e}"),
    }
}

#[test]
fn a_recompute_of_another_graph_is_an_error() {
    let _turn = alone();
    let other = |f: fn(&Var) -> Result<Var>, g: fn(&Var) -> Result<Var>| {
        let x = tensor![[1.0, 2.0]].requires_grad();
        let again = AtomicBool::new(false);
        let f = move |x: &Var| if again.swap(true, Ordering::Relaxed) { g(x) } else { f(x) };
        let what = changed(&checkpoint(f, &x).unwrap().sum(..).unwrap());
        assert_eq!(x.grad(), None);
        what
    };
    assert_eq!(other(|x| Ok(x.exp()), |x| Ok(x.sin())), "sin was recorded where exp was");
    assert_eq!(other(|x| Ok(x.exp().exp()), |x| Ok(x.exp())), "it recorded 1 operation instead of 2");
    let shapes = "mul has or saves other shapes, or other operands";
    assert_eq!(other(|x| x.mul(tensor![2.0, 3.0]), |x| x.mul(tensor![[2.0, 3.0]])), shapes);
    assert_eq!(other(|x| x.mul(x), |x| x.mul(x.detach())), shapes);
    let (x, again) = (tensor![1.0].requires_grad(), AtomicBool::new(false));
    let f = move |x: &Var| {
        let other = if again.swap(true, Ordering::Relaxed) { x.detach() } else { x.clone() };
        [x.exp(), other]
    };
    let [y, _] = checkpoint(f, &x).unwrap();
    assert_eq!(changed(&y), "its results are others");
}

#[test]
fn a_captured_leaf_that_was_written_is_an_error() {
    let _turn = alone();
    let (x, mut w) = (tensor![1.0].requires_grad(), tensor![2.0].requires_grad());
    let weight = w.clone();
    let y = checkpoint(move |x| x.mul(&weight), &x).unwrap();
    w.set_value(tensor![3.0]).unwrap();
    assert_eq!(changed(&y), "a leaf of shape [1] that it captured has been written since");
    // An operand is a value of its own.
    let mut x = tensor![1.0].requires_grad();
    let y = checkpoint(|x| x.square(), &x).unwrap();
    x.set_value(tensor![5.0]).unwrap();
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![2.0]));
}

#[test]
fn an_error_or_a_panic_in_the_second_run_poisons_nothing() {
    let _turn = alone();
    manual_seed(11);
    let x = tensor![1.0].requires_grad();
    let mode = Arc::new(AtomicUsize::new(0));
    let told = mode.clone();
    let f = move |x: &Var| match told.load(Ordering::Relaxed) {
        1 => Err(Error::other("no")),
        2 => panic!("no"),
        _ => x.mul(Tensor::rand(1)),
    };
    let y = checkpoint(f, &x).unwrap();
    let state = foldback_tensor::get_rng_state();
    let keep = || Backward::new().retain_graph(true);
    mode.store(1, Ordering::Relaxed);
    assert_eq!(y.backward_with(keep()).unwrap_err().to_string(), "no");
    mode.store(2, Ordering::Relaxed);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| y.backward_with(keep())));
    assert!(panicked.is_err() && x.grad().is_none());
    assert_eq!(foldback_tensor::get_rng_state(), state);
    mode.store(0, Ordering::Relaxed);
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(y.value()));
}

#[test]
fn no_node_outlives_its_variables() {
    let _turn = alone();
    let before = live_nodes();
    let calls = Arc::default();
    let (loss, leaves) = chain(3, 2, true, &calls);
    loss.backward_with(Backward::new().retain_graph(true)).unwrap();
    assert_eq!(live_nodes(), before + leaves.len() + 3 + 2);
    drop((loss, leaves));
    assert_eq!(live_nodes(), before);
}

#[test]
fn anomalies_and_errors_name_lines_inside() {
    let _turn = alone();
    let x = tensor![0.0].requires_grad();
    let (f, line) = (|x: &Var| Ok(x.sqrt()), line!());
    let y = checkpoint(f, &x).unwrap();
    let e = detect_anomaly(|| y.backward()).unwrap_err();
    match e.facts() {
        Some(GraphFacts::NotFinite { op: "sqrt", location, .. }) => assert_eq!(location.line(), line),
        _ => panic!("{e}"),
    }
}

#[test]
fn a_chain_of_100000_checkpoints_and_12_inside_each_other() {
    let _turn = alone();
    let x = tensor![1.0].requires_grad();
    let mut h = x.clone();
    for _ in 0..100_000 {
        h = checkpoint(|x| x.add(1.0), &h).unwrap();
    }
    grad(&h, &x).unwrap();
    drop(h);
    fn deep(x: &Var, left: usize) -> Result<Var> {
        match left {
            0 => Ok(x.exp()),
            _ => checkpoint(move |x| deep(x, left - 1), x),
        }
    }
    let y = deep(&x, 12).unwrap();
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(y.value()));
}
