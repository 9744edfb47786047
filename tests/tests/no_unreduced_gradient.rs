//! Counts every byte: the gradient of a broadcast input is not stored before it is folded, where what it is made of lies in order, and nothing is saved
//! that the backward pass does not need.
//!
//! A process of its own, because the allocator is the whole process's.

use std::sync::{Mutex, MutexGuard, Once};

use foldback_gradcheck::testing::{Random, fill};
use foldback_graph::{Backward, Domain, Operation, RequiresGrad, Result, Row, Var, grad_with, rows};
use foldback_tensor::{DType, Tensor, keep, set_num_threads, set_pool_limit, tensor};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// One measurement at a time; the pool would keep dropped buffers alive, so it is off.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    set_pool_limit(0);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| set_num_threads(THREADS));
    turn
}

fn live() -> usize {
    ALLOCATOR.current_usage()
}

/// How many bytes more than before were in use at once while `f` ran.
fn peak_of<R>(f: impl FnOnce() -> R) -> (usize, R) {
    let before = live();
    ALLOCATOR.reset_peak_usage();
    let result = f();
    (ALLOCATOR.peak_usage() - before, result)
}

/// The rows of a broadcast pair; an unreduced `f64` gradient has 512 * 512 * 8 bytes = 2 MiB.
const N: usize = 512;
const UNREDUCED: usize = N * N * 8;

/// How many threads fold; each has blocks of its own.
const THREADS: usize = 2;

/// What a pass may need beside its results, a seventh of an unreduced gradient: partial sums, 16 bytes for each of 512
/// results of two inputs and each of 4 segments (64 KiB); and on each thread a block of 16 KiB for each of up to 4 operands
/// and 3 gradients that are computed together, and some numbers of the engine's.
const SCRATCH: usize = 2 * 4 * N * 16 + THREADS * (4 + 3) * (16 << 10) + (4 << 10);

/// What threads of the pool may give back while something is measured: invitations to work that they read when the work is long
/// over, and what the queue held them in.
const LATE: usize = 4 << 10;

/// What a buffer of so many bytes takes: sizes are rounded up by an eighth at most, and data starts on a cache line.
const fn stored(bytes: usize) -> usize {
    bytes + bytes / 8 + 128
}

/// A call of an operation.
type Run = fn(&[Var]) -> Result<Var>;

/// Inputs of a pointwise row that cross: [1, n], [n, 1], and [1, n] again.
fn crossed(row: &Row) -> (Vec<Var>, Run) {
    let sample = row.samples().remove(0);
    let mut random = Random::new(3);
    let var = |(i, (_, domain)): (usize, &(Vec<usize>, Domain))| {
        let shape = if i % 2 == 0 { [1, N] } else { [N, 1] };
        let values = fill(shape, *domain, &mut random);
        if *domain == Domain::Truth { values.to(DType::Bool).into() } else { values.requires_grad() }
    };
    (sample.inputs.iter().enumerate().map(var).collect(), sample.run)
}

/// The bytes of the gradients that a pass leaves in leaves.
fn result_bytes(vars: &[Var]) -> usize {
    vars.iter().filter_map(Var::grad).map(|g| g.numel() * g.dtype().size()).sum()
}

/// Runs a pass once, so that what is made once (threads, tables, the thread's own lists) exists, and then measures.
fn expect_small(label: &str, vars: &[Var], run: impl Fn(&[Var]) -> Result<Var>, seed: Option<&Tensor>) {
    let pass = || {
        let y = run(vars).expect("samples run");
        let seed =
            seed.cloned().unwrap_or_else(|| Tensor::from(1.5).expand(y.shape()).expect("a number expands"));
        vars.iter().for_each(Var::zero_grad);
        let (peak, result) = peak_of(|| y.backward_with(&seed));
        result.expect("samples have gradients");
        peak
    };
    pass();
    let peak = pass();
    // A gradient may exist twice for a moment: where it was computed, and dense in its leaf.
    let allowed = 2 * stored(result_bytes(vars)) + SCRATCH;
    assert!(peak <= allowed, "{label}: {peak} bytes at the peak where {allowed} are enough");
}

/// The same of a recorded pass, and of the pass through its gradients that nothing unreduced is needed for.
fn expect_small_recorded(label: &str, vars: &[Var], run: impl Fn(&[Var]) -> Result<Var>) {
    let y = run(vars).expect("samples run");
    let seed = Tensor::from(1.5).expand(y.shape()).expect("a number expands");
    let how = || Backward::new().seed(&seed).create_graph(true);
    let tracked: Vec<&Var> = vars.iter().filter(|v| v.requires_grad()).collect();
    let pass = || peak_of(|| grad_with(&y, &tracked, how()).expect("samples have gradients"));
    pass();
    let (peak, gradients) = pass();
    let results: usize = gradients.iter().map(|g| g.numel() * 8).sum();
    let allowed = 2 * stored(results) + SCRATCH;
    assert!(peak <= allowed, "{label}, recorded: {peak} bytes at the peak where {allowed} are enough");
}

#[test]
fn pointwise_gradients_are_folded_as_they_are_computed() {
    let _turn = alone();
    let dense = fill([N, N], Domain::NonZero, &mut Random::new(5));
    let mut measured = 0;
    for row in rows().filter(|r| r.is_pointwise()) {
        let (vars, run) = crossed(row);
        if vars.len() == 1 {
            // Nothing broadcasts; the gradient is no larger than the input.
            expect_small(row.name, &vars, run, None);
            expect_small(row.name, &vars, run, Some(&fill([1, N], Domain::Any, &mut Random::new(6))));
        } else {
            expect_small(&format!("{}, seed expanded", row.name), &vars, run, None);
            expect_small(&format!("{}, seed dense", row.name), &vars, run, Some(&dense));
            expect_small_recorded(row.name, &vars, run);
        }
        measured += 1;
    }
    assert!(measured > 35, "only {measured} pointwise rows");
}

/// A fused operation stores neither its unreduced value nor its unreduced gradients.
#[test]
fn fused_operations_are_folded_as_they_are_computed() {
    let _turn = alone();
    let f = foldback::fuse!(|x, w| (x * w).square());
    let vars = [
        fill([1, N], Domain::Any, &mut Random::new(7)).requires_grad(),
        fill([N, 1], Domain::Any, &mut Random::new(8)).requires_grad(),
    ];
    let dense = fill([N, N], Domain::Any, &mut Random::new(9));
    expect_small("fused, seed expanded", &vars, |v| f.call([&v[0], &v[1]]), None);
    expect_small("fused, seed dense", &vars, |v| f.call([&v[0], &v[1]]), Some(&dense));
    expect_small_recorded("fused", &vars, |v| f.call([&v[0], &v[1]]));
    expect_small("fused sum", &vars, |v| f.sum([&v[0], &v[1]], ..), None);
    expect_small("fused mean", &vars, |v| f.mean([&v[0], &v[1]], keep(0)), None);
    let (forward, y) = peak_of(|| f.mean([&vars[0], &vars[1]], 1));
    let results = y.expect("the shapes broadcast").numel() * 8;
    assert!(forward <= 2 * stored(results) + SCRATCH && SCRATCH < UNREDUCED, "{forward} bytes forward");
}

/// The gradients of an operation of a user's own that describes them, in a recorded pass as well.
#[test]
fn described_gradients_are_folded_as_they_are_computed() {
    let _turn = alone();
    let op = Operation::new(
        "my_mul",
        |[a, b]| a.mul(b),
        |ctx, [g]| {
            ctx.fold(0, foldback::fuse!(|g, b| g * b), [&g, &ctx.input(1)])?;
            ctx.fold(1, foldback::fuse!(|g, a| g * a), [&g, &ctx.input(0)])
        },
    )
    .saves_inputs();
    let vars = [
        fill([1, N], Domain::Any, &mut Random::new(7)).requires_grad(),
        fill([N, 1], Domain::Any, &mut Random::new(8)).requires_grad(),
    ];
    let dense = fill([N, N], Domain::Any, &mut Random::new(9));
    let run = |v: &[Var]| op.call([&v[0], &v[1]]);
    expect_small("described, seed expanded", &vars, run, None);
    expect_small("described, seed dense", &vars, run, Some(&dense));
    expect_small_recorded("described", &vars, run);
}

/// Partial sums are made so that threads can share a fold; they must not grow to the size of what is folded.
#[test]
fn partial_sums_take_a_fraction_of_what_they_fold() {
    let _turn = alone();
    for (rows, columns) in [(128, 16_000), (256, 8_192), (2_048, 2_048), (100_000, 10), (10, 100_000)] {
        let x = [fill([1, columns], Domain::Any, &mut Random::new(5)).requires_grad()];
        let tall = fill([rows, 1], Domain::Any, &mut Random::new(6));
        let dense = Tensor::full_with([rows, columns], 0.5, DType::F64);
        let y = x[0].mul(&tall).expect("shapes broadcast");
        let (peak, result) = peak_of(|| y.backward_with(&dense));
        result.expect("a gradient");
        let allowed = 2 * stored(columns * 8) + rows * columns * 8 / 16 + SCRATCH;
        assert!(peak <= allowed, "[{rows}, {columns}]: {peak} bytes at the peak where {allowed} are enough");
    }
}

/// Both gradients of `x * y` go to one variable: the second is added in the pass that folds it.
#[test]
fn a_second_gradient_is_added_while_it_is_folded() {
    let _turn = alone();
    let x = [fill([1, N], Domain::Any, &mut Random::new(5)).requires_grad()];
    let tall = fill([N, 1], Domain::Any, &mut Random::new(6));
    let dense = fill([N, N], Domain::NonZero, &mut Random::new(7));
    let run = |x: &[Var]| x[0].mul(&tall)?.exp().mul(&x[0]);
    let y = run(&x).expect("shapes broadcast");
    let (peak, result) = peak_of(|| y.backward_with(&dense));
    result.expect("a gradient");
    // exp and the product before it have results of the full shape, so their gradients have it as well; but no more
    // than one of them exists beside the one that is being computed.
    assert!(peak <= 2 * stored(UNREDUCED) + SCRATCH, "{peak} bytes");
}

#[test]
fn the_fold_of_an_expanded_variable_stores_nothing_in_between() {
    let _turn = alone();
    let x = [fill([1, N], Domain::Any, &mut Random::new(5)).requires_grad()];
    let dense = fill([N, N], Domain::NonZero, &mut Random::new(7));
    expect_small("expand, seed dense", &x, |x| x[0].expand([N, N]), Some(&dense));
    expect_small("expand, seed expanded", &x, |x| x[0].expand([N, N]), None);
    expect_small("expand and sum", &x, |x| x[0].expand([N, N])?.sum(..), None);
    expect_small("expand and sum_to_size", &x, |x| x[0].expand([N, N])?.sum_to_size([N, 1]), None);
    // The values, too: an expanded tensor is folded without being laid out.
    let wide = x[0].value().expand([N, N]).expect("a row expands");
    let (peak, _) = peak_of(|| wide.sum_to_size([N, 1]).expect("a column"));
    assert!(peak <= N * 8 + SCRATCH, "{peak} bytes");
}

#[test]
fn the_gradient_of_a_sum_stays_one_number() {
    let _turn = alone();
    let x = fill([N, N], Domain::Any, &mut Random::new(5)).requires_grad();
    let run = || x.sum(..).expect("axes exist");
    run().backward().expect("a gradient");
    x.zero_grad();
    let y = run();
    let (peak, result) = peak_of(|| y.backward());
    result.expect("a gradient");
    // The leaf's own gradient is dense; nothing else of its size exists.
    assert!(peak <= stored(UNREDUCED) + SCRATCH, "{peak} bytes");
    // On the way through the graph there is no dense gradient at all.
    let hidden = x.reshape([N * N]).expect("as many elements").sum(..).expect("axes exist");
    let (peak, grads) = peak_of(|| foldback_graph::grad(&hidden, &[&x]));
    assert!(grads.is_ok() && peak <= SCRATCH, "{peak} bytes");
}

/// The products of [64, 1, 8, 8] and [1, 64, 8, 8] are 64 * 64 matrices; each gradient is 64 of them.
#[test]
fn broadcast_batches_of_products_are_folded() {
    let _turn = alone();
    const BATCH: usize = 64;
    let vars = [
        fill([BATCH, 1, 8, 8], Domain::Any, &mut Random::new(5)).requires_grad(),
        fill([1, BATCH, 8, 8], Domain::Any, &mut Random::new(6)).requires_grad(),
    ];
    let product = BATCH * BATCH * 8 * 8 * 8;
    assert_eq!(product, UNREDUCED);
    let dense = fill([BATCH, BATCH, 8, 8], Domain::NonZero, &mut Random::new(7));
    expect_small("matmul, seed dense", &vars, |x| x[0].matmul(&x[1]), Some(&dense));
    let shared = [
        fill([N, 8, 8], Domain::Any, &mut Random::new(5)).requires_grad(),
        fill([8, 8], Domain::Any, &mut Random::new(6)).requires_grad(),
    ];
    let seed = fill([N, 8, 8], Domain::NonZero, &mut Random::new(7));
    expect_small(
        "matmul with a shared matrix",
        &shared[1..],
        |x| shared[0].detach().matmul(&x[0]),
        Some(&seed),
    );
}

/// What an operation's result keeps alive beyond its own value, in bytes.
fn kept_by(run: impl Fn() -> Result<Var>) -> usize {
    drop(run());
    let y = run().expect("samples run");
    let value = y.value();
    let with_graph = live();
    drop(y);
    let kept = with_graph - live();
    drop(value);
    kept
}

/// The node itself, its edges and attributes.
const NODE: usize = 4 << 10;

#[test]
fn operations_save_only_what_their_gradients_name() {
    let _turn = alone();
    let x = fill([N, N], Domain::Positive, &mut Random::new(5)).requires_grad();
    let index = tensor![3, 1, 3; i64];
    // What `hidden` makes is dropped by the caller; it stays alive only if the next operation saves it.
    let hidden = || x.mul(2.0);
    type Call<'a> = &'a dyn Fn() -> Result<Var>;
    let nothing: &[(&str, Call<'_>)] = &[
        ("add", &|| hidden()?.add(&hidden()?)),
        ("sub", &|| hidden()?.sub(&hidden()?)),
        ("neg", &|| hidden()?.try_neg()),
        ("add a number", &|| hidden()?.add(1.0)),
        ("multiply by a number", &|| hidden()?.mul(3.0)),
        ("divide by a number", &|| hidden()?.div(3.0)),
        ("multiply by a constant", &|| hidden()?.mul(&tensor!(3.0; f64))),
        ("sum", &|| hidden()?.sum(0)),
        ("mean", &|| hidden()?.mean(0)),
        ("sum_to_size", &|| hidden()?.sum_to_size([1, N])),
        ("index_select", &|| hidden()?.index_select(0, &index)),
        ("gather", &|| hidden()?.gather(0, &tensor![[0]; i64])),
        ("cat", &|| Var::cat(&[&hidden()?, &hidden()?], 0)),
        ("max_with_indices", &|| Ok(hidden()?.max_with_indices(1)?.0)),
        // The output is what is saved, and it is there anyway.
        ("exp", &|| Ok(hidden()?.exp())),
        ("tanh", &|| Ok(hidden()?.tanh())),
        ("sigmoid", &|| Ok(hidden()?.sigmoid())),
        ("sqrt", &|| Ok(hidden()?.sqrt())),
        ("relu", &|| hidden()?.try_relu()),
        ("softmax", &|| hidden()?.softmax(1)),
    ];
    for (name, run) in nothing {
        let kept = kept_by(run);
        // `max_with_indices` and `index_select` keep their index, a row of N numbers at most.
        assert!(kept <= NODE + N * 8, "{name} keeps {kept} bytes");
    }
    let one: &[(&str, Call<'_>)] = &[
        ("square", &|| Ok(hidden()?.square())),
        ("multiply by a constant of the same size", &|| hidden()?.mul(x.value())),
        ("matmul with a constant", &|| hidden()?.matmul(x.value())),
    ];
    for (name, run) in one {
        let kept = kept_by(run);
        assert!(kept <= stored(UNREDUCED) + NODE, "{name} keeps {kept} bytes");
    }
    let kept = kept_by(|| Ok(hidden()?.sin()));
    assert!(kept + LATE >= UNREDUCED, "sin needs its input, and the count sees it: {kept} bytes");
}

#[test]
fn nothing_is_kept_without_a_graph() {
    let _turn = alone();
    let x = fill([N, N], Domain::Positive, &mut Random::new(5)).requires_grad();
    let kept = kept_by(|| foldback_graph::no_grad(|| Ok(x.mul(2.0)?.sin())));
    assert!(kept <= NODE, "{kept} bytes");
    let constant = x.detach();
    let kept = kept_by(|| Ok(constant.mul(2.0)?.sin()));
    assert!(kept <= NODE, "{kept} bytes");
}

#[test]
fn saved_values_are_freed_as_soon_as_their_node_has_run() {
    let _turn = alone();
    let x = fill([N, N], Domain::Positive, &mut Random::new(5)).requires_grad();
    let run = || -> Result<Var> {
        // Two values of 2 MiB that only the graph holds.
        x.mul(2.0)?.sin().square().sum(..)
    };
    run().and_then(|y| y.backward()).expect("a gradient");
    let before = live();
    let y = run().expect("shapes fit");
    let graph = live() - before;
    assert!(graph + LATE >= 2 * UNREDUCED, "sin and square save their inputs: {graph} bytes");
    y.backward_with(foldback_graph::Backward::new().retain_graph(true)).expect("a gradient");
    assert!(live() + LATE - before >= 2 * UNREDUCED, "retain_graph keeps them");
    let (peak, result) = peak_of(|| y.backward());
    result.expect("a second gradient");
    let left = live().saturating_sub(before);
    assert!(left <= 64 << 10, "{left} bytes are left while the root is still held");
    // One gradient of a hidden value and the next one; the saved values are dropped on the way.
    assert!(peak <= 2 * stored(UNREDUCED) + SCRATCH, "{peak} bytes");
    assert!(y.backward().is_err(), "what was freed is not there for another pass");
    // A graph that never runs is freed with its root.
    drop(y);
    let before = live();
    drop(run());
    assert!(live() <= before + 4096);
}
