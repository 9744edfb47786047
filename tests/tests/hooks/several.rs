//! Hooks on several variables, and callbacks at the end of a pass.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use foldback::graph::{
    GraphFacts, is_grad_enabled, queue_callback, register_any_grad_hook, register_multi_grad_hook,
};
use foldback::prelude::*;

use crate::{Log, leaf, times};

#[test]
fn hooks_on_several_variables_see_what_a_pass_computes() {
    let log = Log::default();
    let (p, q) = (leaf(2.0), leaf(5.0));
    let (all, any) = (log.clone(), log.clone());
    let h = &p * &q;
    let handles = [
        register_multi_grad_hook([&p, &h, &q], move |grads| all.note("all", grads)).unwrap(),
        register_any_grad_hook([&p, &h, &q], move |g| any.note("any", &[Some(g.clone())])).unwrap(),
    ];
    (&h * 3.0).backward_with(Backward::new().retain_graph(true)).unwrap();
    let mut seen = log.take();
    assert_eq!(seen.remove(0), "any [3.0]");
    assert_eq!(seen, ["all [15.0] [3.0] [6.0]"]);
    (&p * 7.0).backward().unwrap();
    assert_eq!(log.take(), ["any [7.0]", "all [7.0] - -"], "the others have no gradient in this pass");
    let pass = grad_with(&h, &q, Backward::new().retain_graph(true)).unwrap();
    assert_eq!(pass.value(), tensor![2.0]);
    assert_eq!(log.take(), ["any [1.0]", "all - [1.0] [2.0]"], "also under grad()");
    (&leaf(1.0) * 2.0).backward().unwrap();
    handles.into_iter().for_each(|hook| hook.remove());
    h.backward().unwrap();
    assert!(log.take().is_empty());
}

/// They may change what another hook sees, and a hook may take another away.
#[test]
fn a_hook_that_is_removed_while_it_waits_does_not_run() {
    let (p, q) = (leaf(2.0), leaf(5.0));
    let h = &p * 3.0;
    let never = |_: &[Option<Var>]| -> () { panic!("it has been removed") };
    let handle = Mutex::new(Some(register_multi_grad_hook([&p, &h, &q], never).unwrap()));
    p.register_hook(move |_| handle.lock().unwrap().take().map(|hook| hook.remove()).unwrap_or(())).unwrap();
    h.backward().unwrap();
    assert_eq!(p.grad(), Some(tensor![3.0]));
}

#[test]
fn callbacks_run_at_the_end_of_the_pass_that_queued_them() {
    let log = Log::default();
    let (x, inner) = (leaf(3.0), leaf(1.0));
    let (weak, weak_inner) = (x.downgrade(), inner.downgrade());
    let note = {
        let log = log.clone();
        move |name: &'static str, of: &foldback::graph::WeakVar| {
            let (log, of) = (log.clone(), of.upgrade().unwrap());
            queue_callback(move || {
                assert!(is_grad_enabled(), "the mode of who called backward");
                log.note(name, &[of.grad_var()]);
            })
        }
    };
    let nested = note.clone();
    inner.register_hook(move |_| nested("inner", &weak_inner)).unwrap();
    x.register_hook(move |_| {
        note("outer", &weak)?;
        enable_grad(|| (&inner * 2.0).backward())?;
        note("last", &weak)
    })
    .unwrap();
    x.square().backward().unwrap();
    assert_eq!(log.take(), ["inner [2.0]", "outer [6.0]", "last [6.0]"]);

    assert!(matches!(queue_callback(|| ()).unwrap_err().facts(), Some(GraphFacts::NoPass)));
    let y = leaf(1.0);
    y.register_hook(|_| queue_callback(|| -> Result<()> { Err(Error::other("at the end")) })).unwrap();
    assert_eq!((&y * 2.0).backward().unwrap_err().to_string(), "at the end");
    assert_eq!(y.grad(), Some(tensor![2.0]), "gradients had been written");
    let failing = leaf(1.0);
    failing.register_hook(|_| queue_callback(|| -> () { panic!("not in a pass that fails") })).unwrap();
    failing.register_hook(|_| -> Result<()> { Err(Error::other("no")) }).unwrap();
    assert!((&failing * 2.0).backward().is_err());
    leaf(1.0).square().backward().unwrap();
}

/// Something of a user's that cannot be dropped in peace.
struct Bomb(&'static str);
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

/// Callbacks of a pass that does not get to them are dropped, whatever their `Drop` does, and the first panic is the one that
/// comes out.
#[test]
fn callbacks_that_panic_when_they_are_dropped() {
    let caught = |f: fn() -> Result<()>| {
        let x = leaf(1.0);
        x.register_hook(move |_| {
            for name in ["one", "two"] {
                let bomb = Bomb(name);
                queue_callback(move || _ = &bomb)?;
            }
            f()
        })
        .unwrap();
        let pass = AssertUnwindSafe(|| (&x * 2.0).backward());
        let panic = catch_unwind(pass).unwrap_err();
        assert!(queue_callback(|| ()).is_err(), "the pass has ended");
        assert_eq!(x.grad(), None);
        match panic.downcast_ref::<&str>() {
            Some(text) => text.to_string(),
            None => panic.downcast_ref::<String>().unwrap().clone(),
        }
    };
    assert_eq!(caught(|| panic!("the hook's")), "the hook's");
    let dropped = caught(|| Err(Error::other("the hook's")));
    assert!(["one", "two"].contains(&&*dropped), "{dropped}");
}

/// A pass with many gradients shows them to every hook one after another.
#[test]
fn hooks_in_a_batched_pass_see_one_gradient_after_another() {
    let log = Log::default();
    let x = leaf(2.0);
    let y = x.square();
    let operation = y.grad_fn().unwrap();
    let (before, after, all) = (log.clone(), log.clone(), log.clone());
    operation.register_prehook(move |grads| {
        before.note("pre", grads);
        times(grads, 10.0)
    });
    operation.register_hook(move |inputs, outputs| {
        after.note("post", &[inputs, outputs].concat());
        times(inputs, 100.0)
    });
    register_multi_grad_hook([&x, &y], move |grads| all.note("all", grads)).unwrap();
    let seeds = Var::from(tensor![[1.0], [2.0]]);
    let grads = Grad::new([&y], [&x]).seeds(&[&seeds]).is_grads_batched(true).run().unwrap();
    assert_eq!(grads[0].as_ref().unwrap().value(), tensor![[4000.0], [8000.0]]);
    assert_eq!(
        log.take(),
        [
            "pre [1.0]",
            "pre [2.0]",
            "post [40.0] [10.0]",
            "post [80.0] [20.0]",
            "all [4000.0] [1.0]",
            "all [8000.0] [2.0]"
        ]
    );
}
