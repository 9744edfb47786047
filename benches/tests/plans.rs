//! The peak that a plan predicts is what a counting allocator sees.

use std::sync::{Mutex, MutexGuard};

use foldback::graph::{BackwardPlan, backward, backward_plan, saved_budget};
use foldback::prelude::*;
use foldback::tensor::set_pool_limit;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The allocator counts for the whole process, so one test runs at a time. Without a pool, memory that is free goes back.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    set_pool_limit(0);
    guard
}

/// Compares the peak of a step's backward pass with what was planned for it. `step` returns the loss, and all else that
/// it holds during the pass.
fn compare<T>(what: &str, step: impl Fn() -> Result<(Var, T)>) -> Result<()> {
    let step = || step().map(|(loss, held)| (loss.clone(), (loss, held)));
    compare_passes(what, || {
        let (loss, held) = step()?;
        let nodes = loss.graph()?.node_bytes();
        Ok((loss.backward_plan()?, nodes, move || loss.backward().map(|()| held)))
    })
}

/// The same of any pass: `prepare` returns its plan, the bytes of all nodes, and the pass itself, which holds what is held.
fn compare_passes<T, F: FnOnce() -> Result<T>>(
    what: &str,
    prepare: impl Fn() -> Result<(BackwardPlan, usize, F)>,
) -> Result<()> {
    // Working memory that threads keep is there from the first step on.
    prepare()?.2()?;
    let before = ALLOCATOR.current_usage();
    let (plan, nodes, pass) = prepare()?;
    let planned = plan.peak_bytes() + nodes;
    drop(plan);
    ALLOCATOR.reset_peak_usage();
    let held = pass()?;
    let found = ALLOCATOR.peak_usage() - before;
    drop(held);
    let ratio = planned as f64 / found as f64;
    assert!((0.95..=1.05).contains(&ratio), "{what}: planned {planned} bytes, found {found}");
    Ok(())
}

/// As the digits example: three layers, and a batch.
#[test]
fn digits() -> Result<()> {
    let _alone = alone();
    manual_seed(0);
    for batch in [64, 1024] {
        compare("digits", || {
            let model =
                sequential![Linear::new(64, 128), ReLU, Linear::new(128, 64), ReLU, Linear::new(64, 10)];
            let images = Tensor::rand([batch, 64]);
            let labels = Tensor::from_vec((0..batch as i64).map(|i| i % 10).collect::<Vec<_>>(), [batch])?;
            let loss = loss::cross_entropy(model.forward(&images)?, &labels)?;
            Ok((loss, (model, images, labels)))
        })?;
    }
    Ok(())
}

/// Distances of all pairs of points, weighted: little goes in, much is in between.
#[test]
fn all_pairs() -> Result<()> {
    let _alone = alone();
    compare("pairs", || {
        let a = Tensor::rand([300, 1, 8]).requires_grad();
        let b = Tensor::rand([1, 200, 8]).requires_grad();
        let scale = Tensor::rand([8]).requires_grad();
        let pairs = ((&a - &b) * &scale).square().sum(-1)?;
        let loss = ((-pairs).exp() + 1.0).log().mean(..)?;
        Ok((loss, (a, b, scale)))
    })
}

/// The result of the operation in between is still in use elsewhere.
#[test]
fn what_the_program_holds_is_not_freed() -> Result<()> {
    let _alone = alone();
    compare("held", || {
        let x = Tensor::rand([1000, 100]).requires_grad();
        let y = x.exp();
        let z = y.sin();
        let loss = z.square().sum(..)?;
        Ok((loss, (x, y, z)))
    })
}

/// A value that many read, with a gradient from each; and a leaf that has a gradient already.
#[test]
fn branches_and_a_second_gradient() -> Result<()> {
    let _alone = alone();
    compare("branches", || {
        let x = Tensor::rand([500, 200]).requires_grad();
        x.square().sum(..)?.backward()?;
        let h = x.tanh();
        let y = (&h * &h + h.exp() * x.sigmoid() + &h).mean(0)?;
        let loss = y.softmax(0)?.square().sum(..)?;
        drop(h);
        Ok((loss, x))
    })
}

/// The gradient of a sum is one number until a leaf keeps it.
#[test]
fn compressed_gradients() -> Result<()> {
    let _alone = alone();
    compare("compressed", || {
        let x = Tensor::rand([400, 500]).requires_grad();
        let loss = ((&x + 1.0) * 3.0).transpose(0, 1)?.sum(..)?;
        Ok((loss, x))
    })
}

/// Deep and pointwise, with operands that are broadcast: a budget lessens what the graph keeps, and the peak of the pass, which
/// computes it again; and the plan knows.
#[test]
fn a_budget_lessens_the_peak() -> Result<()> {
    let _alone = alone();
    const BYTES: usize = 256 * 256 * size_of::<f32>();
    let program = |depth: usize| -> Result<(Var, (Var, Var))> {
        let a = Tensor::rand([256, 1]).requires_grad();
        let b = Tensor::rand([1, 256]).requires_grad();
        let mut y = &a + &b;
        for _ in 0..depth {
            y = (y * &a).tanh() + &b;
        }
        Ok((y.square().mean(..)?, (a, b)))
    };
    let mut peaks = Vec::new();
    for budget in [usize::MAX, 16 * BYTES, 0] {
        let step = || saved_budget(budget, || program(64)).0;
        compare("budget", step)?;
        peaks.push(step()?.0.backward_plan()?.peak_bytes() / BYTES);
    }
    // Two values for each of 64 steps; then what is kept and one stretch; then two square roots of all that is computed.
    assert!(peaks[0] >= 128 && peaks[1] <= 50 && peaks[2] <= 40, "{peaks:?}");
    Ok(())
}

/// What is given up is made of a product's result, which stays.
#[test]
fn a_budget_beside_products() -> Result<()> {
    let _alone = alone();
    for budget in [0, 1 << 18, usize::MAX] {
        compare("products", || {
            let (result, _) = saved_budget(budget, || {
                let x = Tensor::rand([128, 128]).requires_grad();
                let mut h = x.sin();
                for _ in 0..6 {
                    let z = h.matmul(&x)?;
                    h = z.mul(z.sigmoid())?.tanh() + &h;
                }
                Ok((h.square().mean(..)?, x))
            });
            result
        })?;
    }
    Ok(())
}

/// A small network with folds, and its leaves. Without products, which need memory while they work.
fn network() -> Result<(Var, [Var; 4])> {
    let rand = |shape: [usize; 2]| (Tensor::rand(shape) - 0.5).requires_grad();
    let leaves = [rand([500, 300]), rand([1, 300]), rand([500, 1]), rand([500, 300])];
    let [x, a, b, c] = &leaves;
    let y = (((x * a).tanh() + b).sigmoid() * c).softmax(-1)?;
    Ok((y, leaves))
}

#[test]
fn limited_to_inputs() -> Result<()> {
    let _alone = alone();
    for input in 0..4 {
        compare_passes("limited", || {
            let (y, leaves) = network()?;
            let loss = y.square().mean(..)?;
            let options = Backward::new().inputs(&leaves[input]);
            let (plan, nodes) = (loss.backward_plan_with(options.clone())?, loss.graph()?.node_bytes());
            drop(y);
            Ok((plan, nodes, move || loss.backward_with(options).map(|()| (loss, leaves))))
        })?;
    }
    Ok(())
}

#[test]
fn a_graph_that_is_kept() -> Result<()> {
    let _alone = alone();
    compare_passes("kept", || {
        let (y, leaves) = network()?;
        let options = Backward::new().retain_graph(true).seed(y.ones_like().contiguous());
        let (plan, nodes) = (y.backward_plan_with(options.clone())?, y.graph()?.node_bytes());
        Ok((plan, nodes, move || y.backward_with(options).map(|()| (y, leaves))))
    })
}

#[test]
fn several_roots_with_seeds() -> Result<()> {
    let _alone = alone();
    compare_passes("roots", || {
        let (y, leaves) = network()?;
        let roots = [y.exp(), y.square().sum(1)?, y];
        let seeds = roots.each_ref().map(|y| (Tensor::rand(y.shape()) + 1.0).into());
        let seeds: [Var; 3] = seeds;
        let options = Backward::new().seeds(&seeds);
        let plan = backward_plan(&roots, options.clone())?;
        let nodes = roots[0].graph()?.node_bytes();
        Ok((plan, nodes, move || backward(&roots, options).map(|()| (roots, seeds, leaves))))
    })
}

#[test]
fn gradients_that_are_returned() -> Result<()> {
    let _alone = alone();
    compare_passes("returned", || {
        let (y, [x, a, b, c]) = network()?;
        let loss = y.square().mean(..)?;
        let plan = Grad::new(&loss, [&a, &x]).plan()?;
        let nodes = loss.graph()?.node_bytes();
        drop(y);
        Ok((plan, nodes, move || grad(&loss, [&a, &x]).map(|grads| (loss, grads, x, a, b, c))))
    })
}

/// A step in the hook of each leaf, after which its gradient goes.
#[test]
fn leaves_that_are_let_go_early() -> Result<()> {
    let _alone = alone();
    compare_passes("early", || {
        let mut y = Var::from(Tensor::rand([300, 300]));
        let mut leaves = Vec::new();
        for _ in 0..6 {
            let w = ((Tensor::rand([300, 300]) - 0.5) * 0.1).requires_grad();
            w.register_post_accumulate_grad_hook(|w: &Var| w.zero_grad())?;
            y = (y * &w).tanh();
            leaves.push(w);
        }
        let loss = y.square().mean(..)?;
        drop(y);
        let (plan, nodes) = (loss.backward_plan()?, loss.graph()?.node_bytes());
        Ok((plan, nodes, move || loss.backward().map(|()| (loss, leaves))))
    })
}

/// A gradient in between that is looked at afterwards.
#[test]
fn gradients_that_results_keep() -> Result<()> {
    let _alone = alone();
    compare("retained", || {
        let (y, leaves) = network()?;
        y.retain_grad()?;
        let loss = y.exp().tanh().square().mean(..)?;
        Ok((loss, (y, leaves)))
    })
}

/// Many gradients at once, along a leading axis.
#[test]
fn batched_passes() -> Result<()> {
    let _alone = alone();
    compare_passes("batched", || {
        let w = ((Tensor::rand([60, 50]) - 0.5) * 0.1).requires_grad();
        let y = Var::from(Tensor::rand([40, 60])).matmul(&w)?.tanh().sum(0)?;
        let seeds = Tensor::eye(50);
        let plan = Grad::new(&y, &w).seed(&seeds).is_grads_batched(true).plan()?;
        let nodes = y.graph()?.node_bytes();
        Ok((plan, nodes, move || {
            let found = Grad::new(&y, &w).seed(&seeds).is_grads_batched(true).run()?;
            Ok((found, seeds, y, w))
        }))
    })
}
