//! Hooks on leaves: on their sums, and when these have been written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldback::graph::{checkpoint, register_multi_grad_hook};
use foldback::prelude::*;

use crate::{Log, leaf};

#[test]
fn hooks_of_a_leaf_that_is_used_twice_run_once_on_the_sum() {
    let log = Log::default();
    let x = leaf(2.0);
    let (tensor, accumulated, all) = (log.clone(), log.clone(), log.clone());
    x.register_hook(move |g| tensor.note("tensor", &[Some(g.clone())])).unwrap();
    x.register_post_accumulate_grad_hook(move |x| accumulated.note("accumulated", &[x.grad_var()])).unwrap();
    register_multi_grad_hook([&x], move |grads| all.note("all", grads)).unwrap();
    (x.square() + (&x * 3.0).exp() * 0.0 + &x).backward().unwrap();
    assert_eq!(log.take(), ["tensor [5.0]", "all [5.0]", "accumulated [5.0]"]);
    x.square().backward().unwrap();
    assert_eq!(log.take(), ["tensor [4.0]", "all [4.0]", "accumulated [9.0]"]);
}

#[test]
fn post_accumulate_hooks_run_in_order_as_soon_as_their_leaf_is_done() {
    let log = Log::default();
    let (first, shared, last) = (leaf(2.0), leaf(3.0), leaf(5.0));
    let mut handles = Vec::new();
    for (name, v) in [("first", &first), ("shared", &shared), ("last", &last)] {
        for name in [name, "again"] {
            let log = log.clone();
            let note = move |v: &Var| log.note(name, &[v.grad_var()]);
            handles.push(v.register_post_accumulate_grad_hook(note).unwrap());
        }
    }
    let h = &first * &shared;
    let (before, after) = (log.clone(), log.clone());
    h.register_hook(move |_| before.note("between", &[])).unwrap();
    let y = (h * &shared) * &last;
    y.register_hook(move |_| after.note("start", &[])).unwrap();
    y.backward().unwrap();
    let expected = [
        "start",
        "last [18.0]",
        "again [18.0]",
        "between",
        "shared [60.0]",
        "again [60.0]",
        "first [45.0]",
        "again [45.0]",
    ];
    assert_eq!(log.take(), expected);
    handles.into_iter().step_by(2).for_each(|hook| hook.remove());
    (&last * 1.0).backward().unwrap();
    assert_eq!(log.take(), ["again [19.0]"]);
}

/// A failing pass leaves what post-accumulate hooks have seen, and nothing else.
#[test]
fn a_failing_pass_leaves_the_gradients_that_post_accumulate_hooks_have_seen() {
    let (early, plain, late) = (leaf(2.0), leaf(3.0), leaf(5.0));
    let seen = Arc::new(AtomicUsize::new(0));
    for v in [&early, &late] {
        let seen = seen.clone();
        v.register_post_accumulate_grad_hook(move |_| _ = seen.fetch_add(1, Ordering::Relaxed)).unwrap();
    }
    let h = &late * &plain;
    h.register_hook(|_| -> Result<()> { Err(Error::other("half way")) }).unwrap();
    let y = h * &early * &plain;
    assert_eq!(y.backward().unwrap_err().to_string(), "half way");
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    assert_eq!((early.grad(), plain.grad(), late.grad()), (Some(tensor![45.0]), None, None));

    let x = leaf(1.0);
    x.register_post_accumulate_grad_hook(|_| -> Result<()> { Err(Error::other("its own")) }).unwrap();
    assert_eq!((&x * 2.0).backward().unwrap_err().to_string(), "its own");
    assert_eq!(x.grad(), Some(tensor![2.0]), "written before the hook ran");
}

/// Trains a small net in which one weight is used twice, with a step of each parameter's own optimiser: behind the pass, or
/// inside it.
fn trained(inside: bool, adam: bool) -> Vec<Tensor> {
    manual_seed(3);
    let data = Tensor::randn([16, 4]);
    let sizes = [[4, 4], [4, 4], [4, 1]];
    let weights: Vec<Var> = sizes.iter().map(|&s| (Tensor::randn(s) * 0.5).requires_grad()).collect();
    let own = |w: &Var| -> Arc<dyn Optimizer + Send + Sync> {
        if adam { Arc::new(Adam::new([w], 0.05)) } else { Arc::new(SGD::new([w], 0.05).momentum(0.9)) }
    };
    let optimisers: Vec<_> = weights.iter().map(own).collect();
    if inside {
        for (w, optimiser) in weights.iter().zip(&optimisers) {
            // The optimiser holds the leaf, which owns the hook.
            let optimiser = Arc::downgrade(optimiser);
            let step = move |w: &Var| {
                let optimiser = optimiser.upgrade().expect("it lives as long as the training");
                optimiser.step()?;
                optimiser.zero_grad();
                assert_eq!(w.grad(), None);
                Ok(())
            };
            w.register_post_accumulate_grad_hook(step).unwrap();
        }
    }
    for _ in 0..5 {
        let h = Var::from(&data).matmul(&weights[0]).unwrap().tanh();
        let h = h.matmul(&weights[1]).unwrap().tanh().matmul(&weights[1]).unwrap();
        let loss = h.matmul(&weights[2]).unwrap().square().mean(..).unwrap();
        loss.backward().unwrap();
        if !inside {
            for optimiser in &optimisers {
                optimiser.step().unwrap();
                optimiser.zero_grad();
            }
        }
    }
    weights.iter().map(Var::value).collect()
}

#[test]
fn a_step_inside_the_pass_equals_one_behind_it_bit_for_bit() {
    for adam in [false, true] {
        assert_eq!(trained(true, adam), trained(false, adam));
    }
}

/// A leaf that a checkpoint uses is done when the graph has run that the checkpoint records anew.
#[test]
fn leaves_that_checkpoints_use_wait_for_what_is_run_again() {
    let log = Log::default();
    let (x, w) = (leaf(2.0), leaf(3.0));
    let note = log.clone();
    w.register_post_accumulate_grad_hook(move |w| note.note("w", &[w.grad_var()])).unwrap();
    let note = log.clone();
    x.register_post_accumulate_grad_hook(move |x| note.note("x", &[x.grad_var()])).unwrap();
    let weight = w.clone();
    let h = checkpoint(move |x| x.mul(&weight)?.mul(&weight), &x).unwrap();
    (h * &w).backward().unwrap();
    assert_eq!(log.take(), ["w [54.0]", "x [27.0]"]);
}
